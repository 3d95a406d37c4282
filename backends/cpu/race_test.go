//go:build race

package cpu_test

import "github.com/hologram-project/hologram/backends/cpu/jit"

// The race detector sees nothing of machine code: one width is enough for what
// stands around the code.
func init() { levels = []jit.Level{jit.None, jit.Detect()} }
