package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatMayShareMemory binds one array to two slots of programs that use them
// in all ways. It is allowed where both are accessed by index alone, and nothing
// is loaded from one after it may have been stored through the other; what else
// runs would see some lanes' stores and not others'.
func TestWhatMayShareMemory(t *testing.T) {
	const both = "only where both are accessed by [index]"
	for _, c := range []struct{ name, code, why string }{
		{"both by index", "ldg.f32 v, x[index]\nadd.f32 v, v, 1\nstg.f32 v, y[index]", ""},
		{"stored alone", "stg.f32 1.0, y[index]\nmov.f32 v, 0", ""},
		{"read by bytes", "ldg.f32 v, x[0]\nstg.f32 v, y[index]", both},
		{"read by bytes of the lane", "sreg o, global_lane\nmul.u64 o, o, 4\nldg.f32 v, x[o]\nstg.f32 v, y[index]", both},
		{"read both ways", "ldg.f32 v, x[index]\nldg.f32 w, x[4]\nadd.f32 v, v, w\nstg.f32 v, y[index]", both},
		{"written by bytes", "ldg.f32 v, x[index]\nsreg o, global_lane\nmul.u64 o, o, 4\nstg.f32 v, y[o]", both},
		{"written both ways", "ldg.f32 v, x[index]\nstg.f32 v, y[index]\nstg.f32 v, y[4]", both},
		{"both by bytes", "sreg o, global_lane\nmul.u64 o, o, 4\nldg.f32 v, x[o]\nstg.f32 v, y[o]", both},
		{"read through a register", "mov.u32 h, 0\nldg.f32 v, @h[0]\nstg.f32 v, y[index]", "only where both"},
		{"written through a register", "ldg.f32 v, x[index]\nmov.u32 h, 1\nstg.f32 v, @h[0]", "two outputs"},
		{"loaded after the store", "stg.f32 1.0, y[index]\nldg.f32 v, x[index]\nstg.f32 v, y[index]", "may load x again after it stored to y"},
		{"both written", "ldg.f32 v, x[index]\nstg.f32 v, x[index]\nstg.f32 v, y[index]", "two outputs must not share memory"},
		{"added to by atomics", "ldg.f32 v, x[index]\natom_add.f32 v, y[0], v", both},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, ex *Executor) {
				p := assemble(t, "program p\nslot x f32\nslot y f32\n"+c.code+"\nexit")
				a, other := floats(t, ex, 1, 2, 3, 4), floats(t, ex, 1, 2, 3, 4)
				require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, other}, Shape: []int64{4}})), "apart")
				before := values(t, a)
				ev, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, a}, Shape: []int64{4}})
				if c.why == "" {
					require.NoError(t, wait(ev, err))
					return
				}
				wants(t, err, Invalid, c.why)
				require.Equal(t, before, values(t, a), "a launch that was refused has changed something")
				// Another view of the same memory is no better.
				tail, err := a.View(1, []int64{3}, nil)
				require.NoError(t, err)
				_, err = ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, tail}, Shape: []int64{3}})
				wants(t, err, Invalid, "")
			})
		})
	}
}
