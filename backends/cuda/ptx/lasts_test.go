package ptx

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func lines(l ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(l, `\n\s*`)) }

// The block is compared with the launch block's first that takes back; there each lane has a
// line of its own, one after another, of a share, where there is one, from the beginning of a
// line, at most mostBack before it ends, until it ends.
var (
	before = lines(`mov\.u32 \S+, %ctaid\.x;`, `ld\.param\.u32 \S+, \[\w*_launch\+100\];`, `setp\.lt\.u32 %lasts, \S+, \S+;`)
	places = lines(`mov\.u32 \S+, %tid\.x;`, `mul\.wide\.u32 \S+, \S+, 128;`, `mov\.u32 \S+, %ntid\.x;`, `mul\.wide\.u32 (\S+), \S+, 128;`, `add\.u64 (\S+), (\S+), 1;`)
	back   = lines(`div\.u64 (\S+), \S+, \S+;`, `setp\.eq\.u64 (\S+), (\S+), 0;`, `@(\S+) bra taken_\d+;(?s:.*?)`, `mad\.lo\.u64 (\S+), (\S+), \S+, \S+;`,
		`min\.u64 (\S+), (\S+), 16777216;`, `sub\.u64 (\S+), (\S+), (\S+);`, `and\.b64 \S+, (\S+), -128;`, `add\.u64 \S+, \S+, \S+;`, `back_\d+:`, `setp\.ge\.u64 \S+, (\S+), (\S+);`, `@\S+ bra taken_\d+;`,
		`applypriority\.global\.L2::evict_normal \[(\S+)\], 128;`, `add\.u64 (\S+), (\S+), (\S+);`, `bra back_\d+;`)
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
			require.Regexp(t, before, text)
			ends := regexp.MustCompile(`(?s)@%lasts ret;\n(.*?)\n\tret;`).FindAllStringSubmatch(text, -1) // of lanes with several elements, and with what is left
			require.NotEmpty(t, ends)
			for _, end := range ends {
				require.Equal(t, 2, strings.Count(end[1], "applypriority"), "the slots that are read")
				step := places.FindStringSubmatch(end[1])
				require.NotNil(t, step)
				require.Equal(t, step[2], step[3], "shares end where the next begins")
				slots := back.FindAllStringSubmatch(end[1], -1)
				require.Len(t, slots, 2)
				for _, m := range slots {
					share, none, end, at := m[1], m[2], m[5], m[9]
					require.Equal(t, []string{share, none, share, share, share, end, share, at, at, end, at},
						[]string{m[3], m[4], m[6], m[7], m[8], m[10], m[11], m[12], m[13], m[14], m[15]})
					require.Equal(t, []string{at, at, step[1]}, m[16:], "a lane's lines are as far apart as the block has")
				}
			}
		}
	}
}
