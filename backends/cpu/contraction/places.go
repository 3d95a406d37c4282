package contraction

import (
	"math"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// What is left of a program is best launched row by row of the matrix: then a lane's row is the same in a block, its
// place in the row steps by one from lane to lane, and machine code loads and stores vectors where it went from lane to
// lane, and divides no more. places says which steps are such numbers in a launch.

// bitset has a bit for each step.
type bitset [maxSteps / 64]uint64

func (b *bitset) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *bitset) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// places are the steps that are numbers of a lane's place, if launches are by rows.
type places struct {
	byGrid bool // rows and columns are those of a grid of blocks, and not of the index space
	byRows bool
	of     [ir.Batch + 1]bitset
}

// values are what of p is made by instructions.
func (p *places) values(steps []step) map[*ir.Value]ir.Place {
	out := map[*ir.Value]ir.Place{}
	for place := range p.of {
		for i := range steps {
			if n := steps[i].node; n != nil && p.of[place].has(i) {
				out[n.Result()] = ir.Place(place)
			}
		}
	}
	return out
}

// Blocks of rows: so many lanes at least, or rows are no better than lanes as they come, and at most, and what pieces
// of longer rows have at least.
const (
	leastRow   = 16
	leastPiece = 64
)

// widthOf returns how many lanes a block has, by which rows of so many are cut in pieces; 0 if they cannot be.
func widthOf(cols int64) int64 {
	if cols < leastRow {
		return 0
	}
	if cols <= isa.MaxBlockLanes {
		return cols
	}
	for pieces := (cols + isa.MaxBlockLanes - 1) / isa.MaxBlockLanes; cols/pieces >= leastPiece; pieces++ {
		if cols%pieces == 0 {
			return cols / pieces
		}
	}
	return 0
}

// locate notes which steps are a lane's place, in a launch of which all has been evaluated.
func (p *product) locate(n *numbers) {
	if p.rows > math.MaxUint32 {
		return
	}
	if p.width = widthOf(p.cols); p.width == 0 {
		return
	}
	p.known.byGrid, p.known.byRows = p.byGrid, true
	for i := range n.forms {
		f := &n.forms[i]
		if f.c != 0 {
			continue
		}
		switch {
		case p.byGrid:
			if by, ok := n.along(f, laneY, blockY); ok && by == 1 {
				p.known.of[ir.Row].set(i)
			} else if by, ok := n.along(f, laneX, blockX); ok && by == 1 {
				p.known.of[ir.Column].set(i)
			} else if by, ok := n.along(f, laneZ, blockZ); ok && by == 1 {
				p.known.of[ir.Batch].set(i)
			}
		case f.k[round] != 0:
		default:
			if by, ok := f.only(global); ok && by == 1 {
				p.known.of[ir.Lane].set(i)
			} else if by, ok := f.only(p.quotient); ok && by == 1 {
				p.known.of[ir.Row].set(i)
			} else if rest := *f; rest.k[global] == 1 && rest.k[p.quotient] == -p.cols {
				rest.k[global], rest.k[p.quotient] = 0, 0
				if rest.constant() {
					p.known.of[ir.Column].set(i)
				}
			}
		}
	}
}
