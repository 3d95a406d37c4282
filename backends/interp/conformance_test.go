package interp_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

func TestConformance(t *testing.T) {
	brief.Alone(t)
	conformance.Run(t, func() backends.Backend { return interp.New() })
}
