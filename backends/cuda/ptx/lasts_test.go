package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every load has the policy, by itself, with neighbours or of a lane's several elements, and
// what blocks take back is of the slots that are read.
func TestWhatIsReadLasts(t *testing.T) {
	const slots = "slot a T\nslot b T\nslot c T\n"
	for name, c := range map[string]struct {
		text string
		o    Options
	}{
		"one":        {slots + "ldg.T x, a[index]\nldg.T y, b[index]\nadd.T x, x, y\nstg.T x, c[index]\nexit", Options{Lanes: 256}},
		"several":    {slots + "ldg.T x, a[index]\nldg.T y, b[index]\nadd.T x, x, y\nstg.T x, c[index]\nexit", Options{Vector: 4, Groups: 2, Lanes: VectorLanes}},
		"neighbours": {slots + "ldg.T x, a[0]\nldg.T y, a[4]\nldg.T z, b[0]\nadd.T x, x, y\nadd.T x, x, z\nstg.T x, c[0]\nexit", Options{Lanes: 256, Aligned: true}},
	} {
		for _, typ := range []string{"f32", "bf16"} {
			p := fromText(t, strings.ReplaceAll(c.text, "T", typ))
			o := c.o
			o.Proved, o.Modern, o.Waits = true, true, true
			if o.Vector > 0 {
				o.Vector = p.Vector
			}
			usual, err := p.Text(o)
			require.NoError(t, err)
			require.NotContains(t, usual, "policy")
			require.NotContains(t, usual, "applypriority")
			o.Lasts = true
			text, err := p.Text(o)
			require.NoError(t, err)
			loads := 0
			for line := range strings.Lines(text) {
				if strings.Contains(line, "ld.global") {
					loads++
					require.Contains(t, line, "ld.global.L2::cache_hint.", name)
					require.Contains(t, line, ", %policy;", name)
				}
			}
			require.Equal(t, strings.Count(usual, "ld.global"), loads)
			require.Positive(t, loads)
			ends := strings.Count(text, "@%lasts ret;") // of lanes with several elements, and with what is left
			require.Positive(t, ends)
			require.Equal(t, 2*ends, strings.Count(text, "applypriority.global.L2::evict_normal"), name)
		}
	}
}
