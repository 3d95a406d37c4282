package cuda

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
)

// grid is one launch of the driver's.
type grid struct{ origin, size [3]uint32 }

// The driver's limits on a grid.
const (
	maxGridX = 1<<31 - 1
	maxGridY = 1<<16 - 1
)

// mostGrids is how many launches of the driver's a launch is divided into at most: to queue
// them takes the host a tenth of a second.
const mostGrids = 1 << 16

// grids divides a launch's grid as the driver's limits want it, leaving out
// blocks of which no lane runs, and appends the launches to all: of more than mostGrids one
// more than those.
func grids(all []grid, l *backends.Launch, anyBlock bool, elements uint32) []grid {
	needed := (ptx.Lanes(l) + uint64(elements) - 1) / uint64(elements)
	if needed == 0 {
		return all
	}
	if anyBlock {
		x := min(needed, maxGridX)
		return append(all, grid{size: [3]uint32{uint32(x), uint32((needed + x - 1) / x), 1}})
	}
	// Rows and planes that are needed, then pieces of each axis.
	size := l.Grid
	plane := uint64(size[0]) * uint64(size[1])
	size[2] = uint32(min(uint64(size[2]), (needed+plane-1)/plane))
	if size[2] == 1 {
		size[1] = uint32(min(uint64(size[1]), (needed+uint64(size[0])-1)/uint64(size[0])))
	}
	if size[1] == 1 && size[2] == 1 {
		size[0] = uint32(min(uint64(size[0]), needed))
	}
	for z := uint64(0); z < uint64(size[2]); z += maxGridY {
		for y := uint64(0); y < uint64(size[1]); y += maxGridY {
			if len(all) > mostGrids {
				return all
			}
			for x := uint64(0); x < uint64(size[0]); x += maxGridX {
				all = append(all, grid{
					origin: [3]uint32{uint32(x), uint32(y), uint32(z)},
					size: [3]uint32{uint32(min(uint64(size[0])-x, maxGridX)), uint32(min(uint64(size[1])-y, maxGridY)),
						uint32(min(uint64(size[2])-z, maxGridY))},
				})
			}
		}
	}
	return all
}
