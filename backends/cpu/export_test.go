package cpu

import "github.com/hologram-project/hologram/backends"

// EngineOf names the engine that runs a kernel.
func EngineOf(k backends.Kernel) string { return k.(*kernel).engine }
