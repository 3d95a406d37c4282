package asynctest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// A batch whose launches share what one writes, have Records or other parameters is told of.
func TestBatchesThatShareMemory(t *testing.T) {
	for name, c := range map[string]struct {
		change func(ls []*backends.Launch)
		told   string
	}{
		"as they should be": {func([]*backends.Launch) {}, ""},
		"memory":            {func(ls []*backends.Launch) { ls[1].Slots[1].Addr = ls[0].Slots[0].Addr + 4 }, "share memory, which"},
		"a Record":          {func(ls []*backends.Launch) { ls[1].Record = new(backends.Record) }, "has a Record"},
		"another number":    {func(ls []*backends.Launch) { ls[1].Batch = 1 }, "says there are 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{}, double)
			var ls []*backends.Launch
			for i := range uintptr(2) {
				l := r.l
				l.Record, l.Batch = nil, 2
				l.Shape[0], l.N = 2, 2
				l.Slots = slices.Clone(r.l.Slots)
				for k := range l.Slots {
					l.Slots[k].Shape[0] = 2
					l.Slots[k].Bytes = 8
					l.Slots[k].Addr += 8 * i
				}
				ls = append(ls, &l)
			}
			c.change(ls)
			ticket, err := r.s.LaunchBatch(r.k, len(ls), func(i int) *backends.Launch { return ls[i] })
			if c.told == "" {
				require.NoError(t, err)
				require.NoError(t, r.s.Wait(ticket, time.Minute))
				return
			}
			require.ErrorContains(t, err, c.told)
			r.reports.next(t, c.told)
		})
	}
}
