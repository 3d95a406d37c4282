package cpu_test

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func() backends.Backend { return cpu.New(2) })
}

func FuzzConformance(f *testing.F) {
	conformance.Fuzz(f, func() backends.Backend { return cpu.New(2) })
}
