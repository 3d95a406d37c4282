package program

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// TestLines are the instructions as they are written, without comments and what is between them;
// of a program that has no text those of its disassembly.
func TestLines(t *testing.T) {
	p, err := Assemble("test", "; first\nprogram p\nslot c f32 ; one\n\n  ldg.f32 x, c[index]  ; loads\n; between\nagain:\n\tadd.f32 x, x, 1.0;adds\n  stg.f32 x, c[index]\nexit", nil)
	require.NoError(t, err)
	want := []string{"ldg.f32 x, c[index]", "add.f32 x, x, 1.0", "stg.f32 x, c[index]", "exit"}
	require.Equal(t, want, p.Lines())
	again, err := Decode(p.Encode(), nil)
	require.NoError(t, err)
	require.Len(t, again.Lines(), len(want))
	for i, line := range again.Lines() {
		require.Contains(t, line, want[i][:4])
	}
}

// TestWhatLaunchesAreAskedFor: each special value beyond those that engines know, and flat
// addresses, and nothing else.
func TestWhatLaunchesAreAskedFor(t *testing.T) {
	for s := range isa.Special(isa.NumSpecials) {
		p, err := Assemble("test", fmt.Sprintf("program p\nslot c u64\nsreg v, %v\nexit", s), nil)
		require.NoError(t, err, s)
		require.Equal(t, s > isa.N, p.asks, s)
	}
	p, err := Assemble("test", "program p\nslot c u64\nmov.u64 i, 0\nldg.u64 v, c[flat i]\nstg.u64 v, c[flat i]\nexit", nil)
	require.NoError(t, err)
	require.True(t, p.asks)
}
