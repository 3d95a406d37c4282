package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
)

// levels are the engines: strips alone, and machine code of each width, with
// all registers and with few.
var levels = []jit.Level{jit.None, jit.AVX2, jit.AVX512, jit.AVX2 | jit.Few, jit.AVX512 | jit.Few}

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
			conformance.Run(t, func() backends.Backend { return on(t, l, 2) })
		})
	}
}

func FuzzConformance(f *testing.F) {
	b, err := cpu.NewFor(2, jit.Detect())
	require.NoError(f, err)
	conformance.Fuzz(f, func() backends.Backend { return b })
}
