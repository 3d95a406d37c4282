package ptx

import "testing"

// The module that adds up residues is assembled.
func TestFoldAssembles(t *testing.T) {
	tool := ptxas(t)
	for _, arch := range architectures {
		if _, err := assemble(t, tool, arch, Fold()); err != nil {
			t.Error(err)
		}
	}
}
