package analysis

import (
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/stretchr/testify/require"
)

// canonical assembles a program and brings it into canonical form.
func canonical(t testing.TB, text string, opts ...ir.Option) *ir.Func {
	t.Helper()
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	return canonicalOf(t, p, opts...)
}

func canonicalOf(t testing.TB, p *isa.Program, opts ...ir.Option) *ir.Func {
	t.Helper()
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v, opts...)
	require.NoError(t, err)
	return f
}
