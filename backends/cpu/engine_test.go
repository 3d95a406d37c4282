package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu"
)

// TestEngineVariable: who debugs switches machine code off, and a name that is
// none is told, not passed over.
func TestEngineVariable(t *testing.T) {
	t.Setenv(cpu.EngineVariable.Name, "strips")
	infos, err := cpu.New(1).Devices()
	require.NoError(t, err)
	require.Equal(t, "host, portable engine", infos[0].Name)
	require.NotContains(t, infos[0].Codegen, "jit")

	t.Setenv(cpu.EngineVariable.Name, "fastest")
	_, err = cpu.New(1).Open(0)
	require.ErrorContains(t, err, `HOLOGRAM_CPU_ENGINE is "fastest"; expected strips, avx2 or avx512`)
}
