package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/stretchr/testify/require"
)

// farAddresses makes programs that sum up multiples of numbers which lie far from 0,
// each of few about some power of two, to addresses that are about 0 again, or would
// be if nothing wrapped.
func farAddresses(s isatest.Source) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("program far\nslot a u8\nslot b i32\nslot c u64\nparam p u32\nparam q u64\nparam r i32\nparam s i64\nldg.u64 x, c[index]\nmov.i64 f, 0")
	total := int64(0)
	for i := range 2 + s.Intn(3) {
		base := []int64{0, 1 << 62, 1 << 62, 3 << 61, 1 << 61, math.MaxInt64 - 20, 1 << 32}[s.Intn(7)]
		if s.Intn(3) == 0 {
			base = -base
		}
		line("mul.u64 x, x, 0x9e3779b97f4a7c15\nbitcast.i64.u64 v, x\nmax.i64 v, v, %d\nmin.i64 v, v, %d", base, base+int64(s.Intn(4))*4)
		if s.Intn(5) == 0 { // no further, by a guard
			line("set.gt.i64 p0, v, %d\nbra out, p0", base+4)
		}
		k := int64(1 + s.Intn(2))
		switch s.Intn(8) {
		case 0:
			line("shr.i64 v, v, 1")
			base >>= 1
		case 1:
			k = 1 << s.Intn(4)
		}
		line("mul.i64 v, v, %d", k)
		if sub := s.Intn(2) == 0; sub || i == 0 && s.Intn(2) == 0 {
			line("sub.i64 f, f, v")
			total -= k * base
		} else {
			line("add.i64 f, f, v")
			total += k * base
		}
	}
	if s.Intn(4) == 0 {
		line("set.lt.i64 p0, f, %d\nbra out, p0", total)
	}
	off := int64(s.Intn(24)) - total
	switch s.Intn(4) {
	case 0:
		line("add.i64 f, f, %d\nldg.u8 w, a[f]", off)
	case 1:
		line("add.i64 f, f, %d\ndiv.i64 w, 7, f\nrem.i64 w, w, f", off-12)
	case 2:
		line("ldg.i32 w, b[f%+d]", off)
	default:
		line("ldg.u8 w, a[f%+d]", off)
	}
	line("out:\nexit")
	return b.String()
}

func TestSoundOnFarAddresses(t *testing.T) {
	brief.Alone(t)
	var sum tally
	for seed := range uint64(brief.Or(4000, 1500)) {
		s := isatest.FromSeed(seed)
		l := randomLaunch(s)
		for k := range l.SlotBytes { // so that what is proved wrongly strays
			l.SlotBytes[k] = int64(8 + s.Intn(60))
		}
		sound(t, canonical(t, farAddresses(s)), l, seed, &sum)
	}
	t.Logf("%+v", sum)
	require.Greater(t, sum.proved, sum.sites/20)
}
