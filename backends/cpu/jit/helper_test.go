package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// canonical is what a program's text comes to.
func canonical(t testing.TB, text string) *ir.Func {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	return f
}
