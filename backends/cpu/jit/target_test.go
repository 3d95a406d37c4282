package jit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// TestCodeIsForItsMachine: where a rule writes what a machine with AVX2 has not, as a vector in a register that is
// AVX-512's, there is an error rather than code.
func TestCodeIsForItsMachine(t *testing.T) {
	var text strings.Builder
	text.WriteString("program p\nslot x f32\n")
	for i := range 20 { // values that are there at once
		fmt.Fprintf(&text, "ldg.f32 v%d, x[index]\nadd.f32 v%d, v%d, %d.5\n", i, i, i, i)
	}
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&text, "mul.f32 v0, v0, v%d\n", i)
	}
	text.WriteString("stg.f32 v0, x[index]\nexit\n")
	p, err := prepare(nil, canonical(t, text.String()))
	require.NoError(t, err)
	m := targetOf(AVX2)
	_, _, err = p.generate(nil, m, shape{})
	require.NoError(t, err)
	m.files[classVec] = vectors(30)
	m.temps = targetOf(AVX512).temps
	_, _, err = p.generate(nil, m, shape{})
	require.ErrorContains(t, err, "is for machines with AVX-512")
}

// TestFeatures: code may ask of a machine what its level promises, and of units, which not each such machine has, nothing.
func TestFeatures(t *testing.T) {
	for level, want := range map[Level]x86.Features{AVX2: 0, AVX2 | Few: 0, AVX512: x86.AVX512, AVX512 | Few: x86.AVX512} {
		require.Equal(t, want, targetOf(level).features(), level)
	}
}
