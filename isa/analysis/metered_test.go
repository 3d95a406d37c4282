package analysis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa/work"
)

// A meter stops the analysis of a large program, and the estimate of its cost, soon;
// one that does not changes nothing.
func TestAMeterStopsAnalyses(t *testing.T) {
	var b strings.Builder
	b.WriteString("program p\nslot a u32\nldg.u32 v, a[index]\nldg.u32 n, a[index]\nloop n, e\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "mul.u32 v, v, %d\nxor.u32 v, v, %[1]d\n", 2*i+3)
	}
	f := canonical(t, b.String()+"e:\nloop v, o\nadd.u32 n, n, v\no:\nstg.u32 n, a[index]\nexit")
	stop := errors.New("stop")
	for name, run := range map[string]func(*work.Meter) error{
		"analysis": func(m *work.Meter) error { _, err := NewMetered(m, f); return err },
		"cost":     func(m *work.Meter) error { _, err := NewCostMetered(m, f); return err },
	} {
		whole := work.New(nil)
		require.NoError(t, run(whole), name)
		for at := range 3 { // asked for the first time, or later
			asked := 0
			m := work.New(func() error {
				if asked++; asked > at {
					return stop
				}
				return nil
			})
			require.Equal(t, stop, run(m), name)
			require.Less(t, m.Steps(), whole.Steps(), name)
		}
	}
	a, err := NewMetered(work.New(nil), f)
	require.NoError(t, err)
	require.Equal(t, New(f).String(), a.String())
}
