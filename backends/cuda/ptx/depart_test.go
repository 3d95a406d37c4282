package ptx

import (
	"fmt"
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

// Collectives have to find out who is there where lanes may have left for good: before,
// in the same round or in one before, but not after; with fuel, wherever a round comes
// before them.
func TestWhereLanesMayBeMissing(t *testing.T) {
	const (
		reduce = "\n block_reduce_add.u32 s, x\n xor.u32 x, x, s"
		leave  = "\n set.eq.u32 p, x, 3\n bra out, p\n add.u32 x, x, 1"
		round  = "\n loop 3, next%d"
		again  = "\nnext%d:\n mul.u32 x, x, 3"
	)
	for _, c := range []struct {
		name        string
		parts       []string
		fuel, never bool // whether they may be missing with fuel, and without
	}{
		{"nobody leaves", []string{reduce}, false, false},
		{"they leave before", []string{leave, reduce}, true, true},
		{"they leave after", []string{reduce, leave}, false, false},
		{"between two", []string{reduce, leave, reduce}, true, true},
		{"nobody leaves the rounds", []string{round, reduce, again}, true, false},
		{"before it in a round", []string{round, leave, reduce, again}, true, true},
		{"after it in a round", []string{round, reduce, leave, again}, true, true},
		{"in rounds before", []string{round, leave, again, reduce}, true, true},
		{"in rounds after", []string{reduce, round, leave, again}, false, false},
		{"after it in a round around", []string{round, round, reduce, again, leave, again}, true, true},
		{"after it in rounds within one", []string{round, reduce, round, leave, again, again}, true, true},
		{"after it in rounds of its own", []string{round, reduce, again, round, leave, again}, true, false},
	} {
		text, open, rounds := "slot in u32\nslot out u32\n ldg.u32 x, in[index]", []int(nil), 0
		for _, part := range c.parts {
			switch part {
			case round:
				rounds++
				open = append(open, rounds)
				part = fmt.Sprintf(part, rounds)
			case again:
				part = fmt.Sprintf(part, open[len(open)-1])
				open = open[:len(open)-1]
			}
			text += part
		}
		p := fromText(t, text+"\n stg.u32 x, out[index]\nout:\n exit")
		require.Equal(t, [2]bool{c.never, c.fuel}, p.departs, "%s:\n%s", c.name, text)
		for _, fuel := range []bool{false, true} {
			text, err := p.Text(Options{Fuel: fuel, Block: 64})
			require.NoError(t, err)
			missing := fuel && c.fuel || !fuel && c.never
			require.Equal(t, missing, strings.Contains(text, "who is there"), "%s, fuel %v:\n%s", c.name, fuel, text)
		}
	}
}
