package cpu_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// allLevels are the engines: strips alone, and machine code of each width, with
// all registers and with few. levels are those of them that the machine has.
var (
	allLevels = []jit.Level{jit.None, jit.AVX2, jit.AVX512, jit.AVX2 | jit.Few, jit.AVX512 | jit.Few}
	levels    = slices.DeleteFunc(slices.Clone(allLevels), func(l jit.Level) bool { return lacks(l) != nil })
)

// lacks says what the machine lacks for a level, or nil.
func lacks(l jit.Level) error {
	if l == jit.None {
		return nil
	}
	return jit.Available(l &^ jit.Few)
}

// wholeLevels are those with all registers.
func wholeLevels() []jit.Level {
	return slices.DeleteFunc(slices.Clone(levels), func(l jit.Level) bool { return l&jit.Few != 0 })
}

// TestLevels has a skip for each level that all other tests here leave out.
func TestLevels(t *testing.T) {
	for _, l := range allLevels {
		t.Run(l.String(), func(t *testing.T) {
			if err := lacks(l); err != nil {
				t.Skipf("%v is missing here: %v", l, err)
			}
			_, err := cpu.NewFor(1, l)
			require.NoError(t, err)
		})
	}
}

// on opens the backend with an engine, or skips what this machine has not.
func on(t testing.TB, l jit.Level, threads int) *cpu.Backend {
	t.Helper()
	b, err := cpu.NewFor(threads, l)
	if err != nil {
		t.Skipf("%v: %v", l, err)
	}
	return b
}

func TestConformance(t *testing.T) {
	for _, l := range levels[:min(4, len(levels))] {
		t.Run(l.String(), func(t *testing.T) {
			open := func() backends.Backend { return on(t, l, 2) }
			conformance.Run(t, open)
			t.Run("limits, random", func(t *testing.T) { randomLimits(t, open) })
		})
	}
}

// TestRandomProgramsReachMachineCode counts which engine runs the programs that
// conformance makes: if it is nearly always the portable one, the comparison says
// nothing of the other.
func TestRandomProgramsReachMachineCode(t *testing.T) {
	d, err := on(t, jit.AVX2, 1).Open(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	const programs = 100
	compiled := 0
	for seed := range uint64(programs) {
		c, _ := conformance.RandomCase(seed)
		v, err := isa.Verify(c.Program)
		require.NoError(t, err)
		f, _, err := ir.Canonical(v)
		require.NoError(t, err)
		k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
		require.NoError(t, err)
		if strings.HasPrefix(cpu.EngineOf(k), jit.Version) {
			compiled++
		}
		k.Release()
	}
	require.Greater(t, compiled, programs/3)
}

func FuzzConformance(f *testing.F) {
	b, err := cpu.NewFor(2, jit.Detect())
	require.NoError(f, err)
	conformance.Fuzz(f, func() backends.Backend { return b })
}
