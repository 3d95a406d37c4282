package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where lanes of one warp may be parted before a barrier that others come to,
// those that won't come end at once; nowhere else does a lane end early.
func TestPartedLanesEnd(t *testing.T) {
	for _, c := range []struct {
		name, text string
		parts      int
	}{
		{"past the If that holds the barrier", `
  set.lt.i8 p, x, 5
  bra over, p
  bar_sync 0
over:
  exit`, 1},
		{"the barrier stands on a way that the block does not take", `
  set.lt.u32 p, r253, 2
  bra other, p
  bar_sync 0
  bra join
other:
  set.eq.i8 p, x, 3
  bra join, p
  mov.i8 x, 7
join:
  stg.i8 x, out[index]
  exit`, 0},
		{"blocks differ, lanes do not", `
  set.lt.u32 p, r253, 2
  bra over, p
  bar_sync 0
over:
  stg.i8 x, out[index]
  exit`, 0},
	} {
		p := compiled(t, c.name, assembled(t, "slot in i8\nslot out i8\nshared 16\n ldg.i8 x, in[index]\n"+c.text)).p
		text, err := p.Text(Options{})
		require.NoError(t, err)
		require.Equal(t, c.parts, strings.Count(text, "bra stay_"), "%s:\n%s", c.name, text)
	}
}
