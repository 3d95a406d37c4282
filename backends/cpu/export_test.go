package cpu

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
)

// EngineOf names the engine that runs a kernel.
func EngineOf(k backends.Kernel) string { return k.(*kernel).engine }

// Declined reports whether the engine of products left a launch to another.
func Declined(k backends.Kernel) bool {
	g, ok := k.(*kernel).program.(*gemm.Kernel)
	return ok && g.Declined()
}
