package cuda

import (
	"math"

	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// NewEager returns a backend that has lanes do several elements however small a
// launch is, where they can, and that makes all launches dependent that can be.
func NewEager() *Backend { return &Backend{load: driver.Load, eager: true} }

// NewAtLevel returns a backend whose programs the driver optimises at a level of
// 0 to 4. All launches go by graphs of one kernel.
func NewAtLevel(level int32) *Backend {
	return &Backend{load: driver.Load, level: &level, dependent: math.MaxInt64}
}

// NewPlain returns a backend whose launches are all the driver's own, which tools
// that watch launches know best.
func NewPlain() *Backend {
	return &Backend{load: driver.Load, after: math.MaxInt, dependent: math.MaxInt64}
}
