package cpu

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/contraction"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
)

// EngineOf names the engine that runs a kernel.
func EngineOf(k backends.Kernel) string { return k.(*kernel).engine }

// Declined reports whether the engine of products left a launch to another.
func Declined(k backends.Kernel) bool {
	g, ok := k.(*kernel).program.(*gemm.Kernel)
	return ok && g.Declined()
}

// Contracted tells how many launches of a user's product gemm did.
func Contracted(k backends.Kernel) uint64 {
	if c, ok := k.(*kernel).program.(*contraction.Kernel); ok {
		return c.Used()
	}
	return 0
}

// ContractedByRows tells of how many of these what is left of the program was run row by row.
func ContractedByRows(k backends.Kernel) uint64 {
	if c, ok := k.(*kernel).program.(*contraction.Kernel); ok {
		return c.Rows()
	}
	return 0
}
