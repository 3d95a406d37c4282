package jit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Roots are left to the divider where there is enough else to do meanwhile.
func TestRootsBesideOthers(t *testing.T) {
	for _, c := range []struct {
		text string
		idle bool
	}{
		{"sqrt.f32 x, x", false},
		{"mul.f32 a, x, x\nmad.f32 a, y, y, a\nsqrt.f32 x, a", true},
		{"mul.f32 a, x, x\nmad.f32 a, y, y, a\nsqrt.f32 a, a\ndiv.f32 x, x, a", false},
		{"mul.f32 a, x, x\nadd.f32 a, a, 1\nsqrt.f32 a, a\nadd.f32 b, y, 2\nsqrt.f32 b, b\nmul.f32 x, a, b", false},
		{"loop 3, next\nmul.f32 x, x, x\nadd.f32 x, x, y\nmul.f32 y, y, y\nadd.f32 x, x, 1\nsqrt.f32 x, x\nnext:", false},
	} {
		fn := canonical(t, "program p\nslot a f32\nslot b f32\nldg.f32 x, a[index]\nldg.f32 y, b[index]\n"+c.text+"\nstg.f32 x, a[index]\nexit\n")
		made, err := prepare(nil, fn)
		require.NoError(t, err)
		require.Equal(t, c.idle, made.idle, c.text)
	}
}
