//go:build race

package cpu_test

import "github.com/hologram-project/hologram/backends/cpu/jit"

// The race detector sees nothing of machine code, and slows the rest down
// tenfold: one width, and few rounds, are enough for what stands around the code.
func init() { levels, slowed = []jit.Level{jit.None, jit.Detect()}, true }
