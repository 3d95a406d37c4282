package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/hologram-project/hologram/kernels"
)

// several is runs of a program on memory of their own, of sizes, strides and alignments that
// differ, or nothing if their accesses may be stray.
func several(t testing.TB, v *isa.Verified, seed uint64, n int) (runs []*run) {
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	if len(f.Sites) > 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 9))
	var params []uint64
	for range v.Program.Params {
		params = append(params, random.Uint64N(6))
	}
	for range n {
		r := &run{program: v, proved: true, eager: seed%3 == 0, params: params, block: flat(256)}
		r.shape = [][]int64{{1}, {0}, {int64(1 + random.IntN(300))}, {4096}, {int64(1 + random.IntN(9)), 64}, {3, 5, 7}, {2, 520}}[random.IntN(7)]
		lanes := 1
		for _, d := range r.shape {
			lanes *= int(d)
		}
		r.grid = flat(max(1, (lanes+255)/256))
		for i, s := range v.Slots {
			size := v.Program.Slots[i].Type.Size()
			slot := slotData{at: size * random.IntN(3) * random.IntN(2), strides: make([]int64, len(r.shape))}
			step := int64(1)
			if !s.Bytes && random.IntN(3) == 0 {
				step = 2
			}
			for k := len(r.shape) - 1; k >= 0; k-- {
				if slot.strides[k] = step; !s.Writes && !s.Bytes && random.IntN(6) == 0 {
					slot.strides[k] = 0
				}
				step *= r.shape[k]
			}
			slot.bytes = anyBits(random, v.Program.Slots[i].Type, 2*max(lanes, 1)+2)
			r.slots = append(r.slots, slot)
		}
		runs = append(runs, r)
	}
	return runs
}

// Launches that are queued together leave what they do one by one, of each element-wise
// operation and however many.
func TestBatchesOfTheLibrary(t *testing.T) {
	device(t)
	runs := 0
	for _, op := range kernels.All {
		for _, typ := range op.Types.List() {
			if !op.Elementwise {
				continue
			}
			v, err := op.Program(typ)
			require.NoError(t, err)
			if all := several(t, v, uint64(op.Number()), 2+op.Number()%40); all != nil {
				runs++
				t.Run(op.Name+"."+typ.String(), func(t *testing.T) { compareAll(t, all...) })
			}
		}
	}
	require.Greater(t, runs, 250)
	v, err := kernels.VectorAdd.Program(isa.F32)
	require.NoError(t, err)
	compareAll(t, several(t, v, 1, 1500)...)
}

// So do random programs.
func TestBatchesOfRandomPrograms(t *testing.T) {
	device(t)
	runs := 0
	for seed := range uint64(400) {
		s := isatest.FromSeed(seed)
		v, err := isa.Verify(progen.New(s, progen.Config{Size: 2 + s.Intn(20)}).Program)
		require.NoError(t, err)
		if all := several(t, v, seed, 2+int(seed%7)); all != nil {
			runs++
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compareAll(t, all...) })
		}
	}
	t.Logf("%d programs", runs)
	require.Greater(t, runs, 20)
}
