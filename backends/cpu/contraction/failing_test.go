package contraction

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// failing multiplies nothing.
type failing struct{ err error }

func (f failing) Run(*gemm.Matrices, *backends.Record, *workers.Pool) error { return f.err }

// counter is a program that counts its runs.
type counter struct{ runs int }

func (c *counter) Run(*backends.Launch, *workers.Pool) error { c.runs++; return nil }
func (*counter) Release()                                    {}
func (*counter) Estimate(uint64, float64) float64            { return 0 }

// TestWithoutMemory: a launch whose product finds no memory runs as the program is; one that is cancelled does not run.
func TestWithoutMemory(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("AVX2 is missing here, without which gemm has no products: %v", err)
	}
	p, err := isa.Assemble("p.atlas", `program p
slot a f32
slot b f32
slot c f32
  sreg g, global_lane
  div.u64 i, g, 64
  rem.u64 j, g, 64
  mul.u64 oa, i, 256
  mul.u64 ob, j, 4
  mov.f32 acc, 0
  loop 64, done
    ldg.f32 u, a[oa]
    ldg.f32 v, b[ob]
    fma.f32 acc, u, v, acc
    add.u64 oa, oa, 4
    add.u64 ob, ob, 256
  done:
  stg.f32 acc, c[index]
  exit
`)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	for _, c := range []struct {
		name        string
		err         error
		plain, left int
	}{{"enough", nil, 0, 1}, {"no memory", errors.New("no memory"), 1, 0}, {"cancelled", backends.ErrCancelled, 0, 0}} {
		t.Run(c.name, func(t *testing.T) {
			var plain, left counter
			of := func(p Program) Compiler { return func(*work.Meter, *ir.Func) (Program, error) { return p, nil } }
			k, err := Compile(nil, f, jit.Detect(), of(&plain), of(&left), of(&left))
			require.NoError(t, err)
			k.chains = failing{c.err}
			l := &backends.Launch{Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{64, 1, 1}, Rank: 1, N: 64 * 64, Record: new(backends.Record)}
			l.Shape[0] = 64 * 64
			var memory [3][64 * 64]float32
			for i := range memory {
				w := backends.View{Addr: uintptr(unsafe.Pointer(&memory[i])), Bytes: int64(unsafe.Sizeof(memory[i])), Type: isa.F32, Rank: 1, Shape: l.Shape}
				w.Stride[0] = 1
				l.Slots = append(l.Slots, w)
			}
			err = k.Run(l, workers.New(1))
			require.Equal(t, errors.Is(c.err, backends.ErrCancelled), err != nil)
			require.Equal(t, []int{c.plain, c.left}, []int{plain.runs, left.runs})
			require.EqualValues(t, 1-c.plain, k.Used())
		})
	}
}
