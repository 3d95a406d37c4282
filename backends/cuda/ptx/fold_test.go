package ptx

import (
	"testing"

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
