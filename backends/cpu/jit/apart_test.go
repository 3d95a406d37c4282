package jit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Groups are as large as what lanes do allows: numbers of 64 bits that the launch shares make
// them no smaller, those of lanes do.
func TestNumbersOfTheLaunchLeaveGroupsLarge(t *testing.T) {
	for _, c := range []struct {
		text         string
		in512, in256 int
	}{
		{"ldp.f64 d, k\nmul.f64 d, d, d\ncvt.f32.f64 d, d\nmul.f32 x, x, d", 16, 8},
		{"ldp.f64 d, k\nset.lt.f64 p, d, 2\nsel.f32 x, p, x, 1", 16, 8},
		{"ldp.f64 d, k\nset.lt.f32 p, x, 2\nbra over, p\nexp.f64 d, d\ncvt.f32.f64 d, d\nmul.f32 x, x, d\nover:", 16, 8},
		{"ldp.f64 d, k\ncvt.f64.f32 y, x\nmul.f64 d, d, y\ncvt.f32.f64 x, d", 8, 4},
		{"ldp.f64 d, k\nset.lt.f32 p, x, 2\nsel.f64 d, p, d, 3\ncvt.f32.f64 x, d", 8, 4},
		{"mov.f64 d, 1\nloop 3, next\nmul.f64 d, d, 0.5\nnext:\ncvt.f32.f64 d, d\nadd.f32 x, x, d", 8, 4},
		{"ldp.f64 d, k\ncvt.i64.f64 m, d\ndiv.i64 m, 7, m\ncvt.f32.i64 m, m\nadd.f32 x, x, m", 8, 4},
	} {
		fn := canonical(t, "program p\nslot a f32\nslot c f32\nparam k f64\nldg.f32 x, a[index]\n"+c.text+"\nstg.f32 x, c[index]\nexit\n")
		made, err := prepare(nil, fn)
		require.NoError(t, err)
		lanes := func(l Level) int { return made.groupLanes(targetOf(l), shape{}) }
		require.Equal(t, [2]int{c.in512, c.in256}, [2]int{lanes(AVX512), lanes(AVX2)}, c.text)
	}
}
