package product

import "github.com/hologram-project/hologram/isa"

// TilesOf is how many shapes of blocks a type has.
func TilesOf(t isa.Type) int { return len(tiles[t]) }

// InTile is a form with another shape of blocks.
func (f Form) InTile(i int) Form { f.Tile = i; return f }

// PollAfter has blocks look whether the launch is cancelled after so many chunks.
func PollAfter(chunks int) (restore func()) {
	saved := polled
	polled = chunks
	return func() { polled = saved }
}

// HasRegisters reports whether a lane of the form has enough.
func (f Form) HasRegisters() bool { return f.registers(90) }
