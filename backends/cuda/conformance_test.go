package cuda_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cuda"
)

// device skips the test where there is no GPU, and says why.
func device(t testing.TB) {
	t.Helper()
	if _, err := cuda.New().Devices(); err != nil {
		t.Skipf("no GPU: %v", err)
	}
}

func TestConformance(t *testing.T) {
	device(t)
	conformance.Run(t, func() backends.Backend { return cuda.New() })
}
