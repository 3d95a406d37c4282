package gemm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestOnlyPlansLaunches: launches whose parts, lanes or results are not as a plan makes them are left to the program
// itself, which would compute more than the kernel, or less.
func TestOnlyPlansLaunches(t *testing.T) {
	const vast = int64(1) << 45
	type launches map[string]func(k *Kernel, l *backends.Launch) bool // whether the kernel takes them
	twice := func(n *uint32, l *backends.Launch) { *n, l.N = 2**n, 2*l.N }
	both := launches{
		"as planned":       func(k *Kernel, l *backends.Launch) bool { return true },
		"a lane less":      func(k *Kernel, l *backends.Launch) bool { l.N--; return false },
		"a lane more":      func(k *Kernel, l *backends.Launch) bool { l.N++; return false },
		"stacked":          func(k *Kernel, l *backends.Launch) bool { twice(&l.Grid[2], l); return false },
		"no tile across":   func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.across] = 0; return false },
		"columns too many": func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.n] += 1 << 12; return false },
		"rows too many":    func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.m] += 1 << 12; return false },
		"rows of tiles that are not whole": func(k *Kernel, l *backends.Launch) bool {
			l.N = l.N / uint64(l.Grid[0]) * uint64(l.Grid[0]+1)
			l.Grid[0]++
			return false
		},
	}
	for name, c := range map[string]struct {
		k      int64
		others launches
	}{
		"whole": {40, launches{
			"k of several parts": func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.k] = uint64(k.is.Most + 1); return false },
			"many blocks below":  func(k *Kernel, l *backends.Launch) bool { twice(&l.Grid[1], l); return false },
			"many lanes deep":    func(k *Kernel, l *backends.Launch) bool { twice(&l.Block[2], l); return false },
		}},
		"in parts": {1 << 20, launches{
			"no part":       func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.part] = 0; return false },
			"longer parts":  func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.part] *= 2; return false },
			"shorter parts": func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.part] /= 2; return false },
			"a part too long": func(k *Kernel, l *backends.Launch) bool {
				l.Params[k.params.part], l.Params[k.params.parts] = uint64(k.is.Most+1), uint64(ceil(1<<20, k.is.Most+1))
				return false
			},
			"parts without lanes": func(k *Kernel, l *backends.Launch) bool {
				lanes := uint64(l.Grid[1] * l.Block[2])
				l.Params[k.params.part], l.Params[k.params.parts], l.Params[k.params.k] = 2, lanes+1, 2*lanes+1
				l.Slots[2].Bytes = vast
				return false
			},
			"results within others": func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.count]--; return false },
			"results apart":         func(k *Kernel, l *backends.Launch) bool { l.Params[k.params.count]++; return true },
			"no room":               func(k *Kernel, l *backends.Launch) bool { l.Slots[2].Bytes--; return false },
		}},
	} {
		const m, n = 20, 300
		plan, err := kernels.Gemm.PlanShapes(matrices(isa.F32, m, n, c.k), -1)
		require.NoError(t, err)
		st := &plan.Steps[0]
		k, err := Compile(st.Program, jit.Detect(), 0, nil)
		require.NoError(t, err)
		require.Equal(t, c.k > 40, k.is.Split)
		for _, others := range []launches{both, c.others} {
			for how, change := range others {
				l := &backends.Launch{Grid: st.Grid, Block: st.Block, N: 1, Slots: make([]backends.View, 3)}
				for i := range 3 {
					l.N *= uint64(l.Grid[i]) * uint64(l.Block[i])
					l.Slots[i].Bytes = vast
				}
				for _, x := range st.Params {
					l.Params = append(l.Params, x.Value)
				}
				if k.is.Split {
					l.Slots[2].Bytes = int64(l.Params[k.params.parts]) * m * n * 4
				}
				if how == "results apart" {
					l.Slots[2].Bytes = vast
				}
				want := change(k, l)
				_, ok := k.prepare(l)
				require.Equal(t, want, ok, "%s, %s", name, how)
			}
		}
	}
}
