package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/ptxas"
)

// The module that adds up residues is assembled.
func TestFoldAssembles(t *testing.T) {
	tool := ptxas.Tool(t)
	for _, arch := range architectures {
		if _, err := ptxas.Assemble(t, tool, arch, Fold()); err != nil {
			t.Error(err)
		}
	}
}

// So is the one that the driver is asked about, where blocks can meet.
func TestProbeAssembles(t *testing.T) {
	_, err := ptxas.Assemble(t, ptxas.Tool(t), "sm_90a", Probe())
	require.NoError(t, err)
}
