package jit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/work"
)

// Finding chains of choices costs in proportion to how many choices there are, whether
// they are chains, end at a number that none puts, or are not of special arguments at all.
func TestChoicesCostTheirNumber(t *testing.T) {
	for name, c := range map[string]struct{ compared, chosen [2]string }{
		"chains":               {[2]string{"0", "inf"}, [2]string{"1", "0.5"}},
		"numbers none puts":    {[2]string{"0", "inf"}, [2]string{"2.5", "3.5"}},
		"some none puts":       {[2]string{"0", "inf"}, [2]string{"2.5", "1"}},
		"no special arguments": {[2]string{"3", "5"}, [2]string{"1", "0.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := func(choices int) int64 {
				var b strings.Builder
				fmt.Fprintf(&b, "program p\nslot x f32\nldg.f32 x, x[index]\nadd.f32 z, x, 7\nset.lt.f32 p0, x, %s\nset.eq.f32 p1, x, %s\n", c.compared[0], c.compared[1])
				for i := range choices {
					fmt.Fprintf(&b, "sel.f32 z, p%d, %s, z\n", i%2, c.chosen[i/2%2])
				}
				b.WriteString("stg.f32 z, x[index]\nexit\n")
				f := canonical(t, b.String())
				p, err := prepare(nil, f)
				require.NoError(t, err)
				m := work.New(nil)
				p.findSpecials(m)
				require.Greater(t, m.Steps(), int64(choices), "what is not counted cannot be stopped")
				return m.Steps()
			}
			few, many := 500, brief.Or(4000, 2000)
			require.LessOrEqual(t, steps(many), steps(few)*int64(many/few)*11/10)
		})
	}
}
