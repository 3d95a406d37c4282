package interp_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func() backends.Backend { return interp.New() })
}
