package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// forgetful are programs that can end in every way: by a stray access where bound
// lets offsets be large, out of fuel, cancelled in a loop that nothing bounds.
var forgetful = map[string]string{"lanes": "", "blocks": "  block_reduce_max.u32 w, w\n"}

func forgetfulProgram(meet string) string {
	return `program forgetful
slot in u32
slot out u32
param bound u32
param rounds u32
  ldg.u32 v, in[index]
  ldp.u32 bound, bound
  ldp.u32 rounds, rounds
  and.u32 at, v, bound
  ldg.u32 w, in[at]
  loop rounds, done
    mad.u32 w, w, 5, v
done:
` + meet + `  stg.u32 w, out[index]
  exit
`
}

// A launch knows nothing of those of the same kernel before it, however these ended:
// that it is cancelled, has faulted or ran out of fuel is its own.
func TestLaunchesForgetThoseBefore(t *testing.T) {
	for _, l := range levels {
		for name, meet := range forgetful {
			t.Run(fmt.Sprintf("%v/%s", l, name), func(t *testing.T) {
				b, v := on(t, l, 2), verify(t, forgetfulProgram(meet))
				bench := newBench(t, b, l)
				r := rand.New(rand.NewPCG(uint64(len(name)), uint64(l)))
				for i := range brief.Or(60, 24) {
					n, ways := 1+r.IntN([]int{300, 20000}[r.IntN(2)]), r.IntN(6)
					sh := linear(int64(n), 64)
					params := []uint64{0x3c, uint64(r.IntN(20))}
					switch ways {
					case 1:
						params[0] = 1<<32 - 4
					case 2:
						sh.fuel = 1 + uint64(r.IntN(10))
					}
					contents := randomContents(r, v, int64(max(n, 16)))
					got := bench.again(v, sh, contents, params, ways == 3)
					if ways == 3 {
						require.ErrorIs(t, got.err, backends.ErrCancelled, "launch %d", i)
						continue
					}
					want := run(t, b, v, sh, contents, nil, params)
					require.NoError(t, same(v, got, want), "launch %d, way %d, %d lanes", i, ways, n)
				}
			})
		}
	}
}

// again launches a program by the kernel that is kept of it.
func (b *bench) again(v *isa.Verified, sh shape, contents [][]byte, params []uint64, cancelled bool) (o outcome) {
	var h host
	o.inst = -1
	l := &backends.Launch{Params: params, Grid: sh.grid, Block: sh.block, Rank: len(sh.dims), N: uint64(sh.n()), Fuel: sh.fuel, Record: new(backends.Record), Phase: &o.phase}
	o.phase = 700
	copy(l.Shape[:], sh.dims)
	for i, c := range contents {
		m := h.block(len(c))
		copy(m, c)
		o.slots = append(o.slots, m)
		w := backends.View{Addr: addr(m), Bytes: int64(len(m)), Type: v.Program.Slots[i].Type, Rank: 1, Shape: l.Shape}
		w.Stride[0] = 1
		l.Slots = append(l.Slots, w)
	}
	if cancelled {
		l.Record.Stop()
	}
	_, o.err = b.s.Launch(b.kernel(v), l)
	o.residue = l.Record.Residue
	return o
}

// So it is of products.
func TestProductsForgetThoseBefore(t *testing.T) {
	eachWidth(t, 2, func(t *testing.T, oracle, b *bench) {
		r := rand.New(rand.NewPCG(13, 14))
		for _, typ := range []isa.Type{isa.F32, isa.I32} {
			plan, err := kernels.Gemm.Whole([]kernels.Layout{kernels.Packed(typ, 40, 60), kernels.Packed(typ, 60, 50), kernels.Packed(typ, 40, 50)})
			require.NoError(t, err)
			scalars := []uint64{scalarCell(typ, 1), scalarCell(typ, 0)}
			for i := range 12 {
				var h host
				x, y := randomMatrix(r, &h, typ, nil, 40, 60, 0, false), randomMatrix(r, &h, typ, nil, 60, 50, 0, false)
				got := randomMatrix(r, &h, typ, nil, 40, 50, 0, false)
				want := got.clone(&h)
				b.stopped = i%3 == 1
				err := b.launch(plan, [][]byte{x.first(), y.first(), got.first()}, scalars)
				if b.stopped {
					require.ErrorIs(t, err, backends.ErrCancelled)
					continue
				}
				require.NoError(t, err, "launch %d", i)
				oracle.plan(plan, [][]byte{x.first(), y.first(), want.first()}, scalars)
				require.NoError(t, sameElements(typ, got, want), "launch %d", i)
			}
		}
	})
}
