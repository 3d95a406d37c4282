// Package product has the matrix products of the library in PTX of our own, in
// the written order, with tiles in shared memory that are copied while others are
// multiplied. It stands in for launches of kernels.Gemm's programs: Match says
// for which, and Text is the code. Those of 16-bit floats are multiplied by matrix
// units, whose order within sixteen products is their own; see units.go.
//
// A block makes a tile of C. Its warps stand WM × WN over the tile, the lanes of a
// warp 4 × 8, and a lane has TM × TN elements, in groups of 16 bytes, so that
// what lanes read together from shared memory lies together. Of op(A) and op(B)
// the block keeps Stages pieces of BK products, each laid out with neighbouring
// rows of op(A), or columns of op(B), side by side. Sums of chunks wait in shared
// memory: registers are for the chain at hand.
package product

import (
	"math/bits"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Version is the code's, a part of cache keys: it changes with Text.
const Version = "product/5"

// tile is a shape of blocks. How fast each is was measured on an H200.
type tile struct {
	wm, wn, tm, tn, bk, stages int
	blocks                     int     // of it are at work on a multiprocessor: for so many registers are dealt out
	worth, alone               float64 // its speed beside the fastest's, and a block's beside that when it is alone
}

// rows and cols are the tile's: of matrix units, which multiply 16 rows by 8 columns for
// a warp, of whose results a lane has four, too.
func (t *tile) rows() int    { return t.wm * 4 * t.tm }
func (t *tile) cols() int    { return t.wn * 8 * t.tn }
func (t *tile) threads() int { return 32 * t.wm * t.wn }

// lanes is how many take a row's products of a piece, each 4, where they are turned.
func (t *tile) lanes() int { return t.bk / 4 }

// tiles are the shapes of each type.
var tiles = map[isa.Type][]tile{
	isa.F32: {
		{4, 1, 8, 8, 16, 3, 3, 1, 0.75}, // before the next, which is as fast but where it has a few blocks left at the end
		{2, 2, 8, 8, 16, 3, 3, 1, 0.75},
		{2, 4, 16, 8, 32, 2, 1, 0.975, 1},
		{2, 2, 4, 4, 16, 3, 4, 0.62, 0.7},
		{2, 1, 4, 4, 16, 3, 8, 0.55, 0.7},
	},
	isa.F64: {
		{2, 2, 8, 4, 8, 3, 3, 1, 0.75},
		{2, 1, 4, 2, 16, 3, 8, 0.5, 0.7},
	},
	isa.F16:  unitTiles,
	isa.BF16: unitTiles,
}

// time is how long a multiprocessor is at work on so many blocks, in FMAs.
func (t *tile) time(f Form, blocks uint64) float64 {
	speed := t.worth
	if t.blocks > 1 {
		together := min(blocks, uint64(t.blocks))
		speed *= t.alone + (1-t.alone)*float64(together-1)/float64(t.blocks-1)
	}
	cost := &turning
	if units(f.Type) {
		cost = &gathering
	}
	work := float64(t.rows()*t.cols()) + cost[f.A]*float64(t.rows()) + cost[f.B]*float64(t.cols())
	return float64(blocks) * work / speed
}

// walk is how a block's threads go through a factor's piece.
type walk uint8

const (
	alongK walk = iota // products lie side by side in memory
	across             // element by element: rows of op(A), columns of op(B)
	wide               // likewise, 16 bytes at once
	turned             // as alongK, 16 bytes at once, through registers: 4 products of a row
)

// lengthwise reports whether a factor's rows lie along k.
func (w walk) lengthwise() bool { return w == alongK || w == turned }

// Form is what tells apart the code that launches need. The zero Form is none.
type Form struct {
	Type   isa.Type
	Tile   int
	A, B   walk
	Wide   bool // C is stored 16 bytes at once
	Totals bool // there may be several chunks
	Sums   kernels.Product
}

// Is reports whether f is a form.
func (f Form) Is() bool { return f.Type != 0 }

func (f Form) tile() *tile { return &tiles[f.Type][f.Tile] }

// Threads is how many a block has.
func (f Form) Threads() int { return f.tile().threads() }

// Device is what a choice of blocks depends on: multiprocessors, the bytes of shared
// memory that a block may have, and the compute capability, as 90 for 9.0.
type Device struct{ Processors, Shared, Compute int }

// Geometry is a launch of a Form.
type Geometry struct {
	Grid   [3]uint32
	Shared int
}

// sizes are a launch's parameters, as kernels.Product has them.
type sizes struct {
	m, n, k                    uint64
	aRow, aCol, bRow, bCol     uint64
	batch, aBatch, bBatch      uint64
	parts, part, count, across uint64
}

func read(p kernels.Product, cells []uint64) (s sizes, ok bool) {
	want := 8 + 3*btoi(p.Batched) + 3*btoi(p.Split) + 2*btoi(!p.Split)
	if len(cells) != want {
		return s, false
	}
	s = sizes{m: uint64(uint32(cells[0])), n: uint64(uint32(cells[1])), k: uint64(uint32(cells[2])),
		aRow: cells[3], aCol: cells[4], bRow: cells[5], bCol: cells[6], across: uint64(uint32(cells[7])), parts: 1}
	s.part, cells = s.k, cells[8:]
	if p.Batched {
		s.batch, s.aBatch, s.bBatch, cells = uint64(uint32(cells[0])), cells[1], cells[2], cells[3:]
	}
	if p.Split {
		s.parts, s.part, s.count = uint64(uint32(cells[0])), uint64(uint32(cells[1])), cells[2]
	}
	return s, true
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// turning is what it costs to turn an element of a row that lies along k, beside an
// FMA.
var turning = [4]float64{alongK: 7, turned: 4}

// most is how many rows and columns there may be.
const most = 1<<31 - 1

// fewest is how many rows and columns are worth a tile. Of a product by matrix units
// all are: by the program an element would have other bits in a batch than alone.
func (f Form) fewest() uint64 {
	if units(f.Type) {
		return 1
	}
	return 8
}

// acc is the type of sums, out that of results: of parts, sums.
func (f Form) acc() isa.Type {
	if units(f.Type) {
		return isa.F32
	}
	return f.Type
}

func (f Form) out() isa.Type {
	if f.Sums.Split {
		return f.acc()
	}
	return f.Type
}

// registers reports whether a lane has enough: of matrix units' largest tiles none is
// left for what gathers, nor for results that are stored one by one. Before 9.0 ptxas
// spills some there in products of stacks.
func (f Form) registers(compute int) bool {
	t := f.tile()
	if !units(f.Type) || t.tm*t.tn < 128 {
		return true
	}
	return f.Wide && gathering[f.A]+gathering[f.B] == 0 && (compute >= 90 || !f.Sums.Batched)
}

// chunk is how many products are a chain.
func (f Form) chunk() int {
	if units(f.Type) {
		return tuned.UnitChunk
	}
	return kernels.ProductChunk
}

// Match returns the code that a launch of one of the library's programs, p, needs
// on a device; ok is false where it has to be the program itself: for few rows or columns, and for launches that the library does not make,
// whose every access is not seen to lie in its slot.
func Match(p kernels.Product, l *backends.Launch, d Device) (f Form, ok bool) {
	t := p.T
	list, known := tiles[t]
	f = Form{Type: t, Sums: p}
	if !known || p.Acc != f.acc() || p.Out != f.out() || p.Scaled == p.Split || len(l.Slots) != 3 || l.Fuel > 0 {
		return Form{}, false
	}
	s, ok := read(p, l.Params)
	size, result := uint64(t.Size()), uint64(f.out().Size())
	if !ok || min(s.m, s.n) < f.fewest() || max(s.m, s.n) > most || s.k < 1 || !s.whole(p, l) || !s.within(l, size, result) {
		return Form{}, false
	}
	f.Totals = min(s.k, s.part) > uint64(f.chunk())
	part := s.part * size * uint64(btoi(p.Split)) // a part of k begins so many bytes after the last
	f.Wide = l.Slots[2].Addr%16 == 0 && s.n%(16/result) == 0 && s.count*result%16 == 0
	found, least := false, 0.0
	for i := range list {
		x := f
		x.Tile = i
		x.A = list[i].walkOf(t, l.Slots[0].Addr, s.m, s.aRow, s.aCol, s.aBatch, part)
		x.B = list[i].walkOf(t, l.Slots[1].Addr, s.n, s.bCol, s.bRow, s.bBatch, part)
		if x.shared() > d.Shared || !x.registers(d.Compute) {
			continue
		}
		g := s.grid(x, l)
		blocks := uint64(g[0]) * uint64(g[1]) * uint64(g[2])
		if time := list[i].time(x, ceil(blocks, uint64(d.Processors))); !found || time < least {
			f, least, found = x, time, true
		}
	}
	return f, found && s.parts < 1<<16 && l.Grid[2] < 1<<16
}

// grid is the grid of a form.
func (s *sizes) grid(f Form, l *backends.Launch) [3]uint32 {
	t := f.tile()
	return [3]uint32{uint32(ceil(s.m, uint64(t.rows())) * ceil(s.n, uint64(t.cols()))), uint32(s.parts), l.Grid[2]}
}

// Geometry is that of a launch for which Match has given f.
func (f Form) Geometry(l *backends.Launch) Geometry {
	s, _ := read(f.Sums, l.Params)
	return Geometry{s.grid(f, l), f.shared()}
}

// walkOf chooses the walk through a factor of n rows, or columns, step bytes apart,
// whose products are along bytes apart.
func (t *tile) walkOf(typ isa.Type, addr uintptr, n, step, along, batch, part uint64) walk {
	size := uint64(typ.Size())
	if units(typ) {
		return unitWalkOf(addr, n, step, along, batch, part)
	}
	switch v := 16 / size; {
	case along == size && step != size:
		// Blocks that share a multiprocessor were slower by 2 to 20 %.
		if t.blocks == 1 && v == 4 && (uint64(addr)|step|batch|part)%16 == 0 {
			return turned
		}
		return alongK
	case step == size && n%v == 0 && addr%16 == 0 && along%16 == 0 && batch%16 == 0:
		return wide
	}
	return across
}

func ceil(n, d uint64) uint64 { return (n + d - 1) / d }

// whole says that the launch's lanes are just the elements of C and the parts of k,
// in the order that the code has.
func (s *sizes) whole(p kernels.Product, l *backends.Launch) bool {
	bx, by, bz := uint64(l.Block[0]), uint64(l.Block[1]), uint64(l.Block[2])
	if bx*by*bz == 0 || l.N != uint64(l.Grid[0])*uint64(l.Grid[1])*uint64(l.Grid[2])*bx*by*bz {
		return false
	}
	if s.across != ceil(s.n, bx) || uint64(l.Grid[0]) != s.across*ceil(s.m, by) || l.Grid[2] < 1 || !p.Batched && l.Grid[2] > 1 {
		return false
	}
	if !p.Split {
		return l.Grid[1] == 1 && bz == 1 && (p.Most > kernels.ProductChunk || s.k <= kernels.ProductChunk)
	}
	return s.part > 0 && s.parts == ceil(s.k, s.part) && uint64(l.Grid[1])*bz >= s.parts && (p.Most > kernels.ProductChunk || s.part <= kernels.ProductChunk)
}

// within says that every access lies in its slot, and at a multiple of its size, which
// results have of their own.
func (s *sizes) within(l *backends.Launch, size, result uint64) bool {
	for _, stride := range []uint64{s.aRow, s.aCol, s.bRow, s.bCol, s.aBatch, s.bBatch} {
		if stride%size != 0 {
			return false
		}
	}
	last := s.batch + uint64(l.Grid[2]) - 1
	in := func(slot int, size uint64, products ...[2]uint64) bool {
		end := size
		for _, x := range products {
			high, low := bits.Mul64(x[0], x[1])
			sum, carry := bits.Add64(end, low, 0)
			if high|carry != 0 {
				return false
			}
			end = sum
		}
		return l.Slots[slot].Bytes >= 0 && end <= uint64(l.Slots[slot].Bytes)
	}
	return s.m*s.n < 1<<56 && s.count < 1<<56 &&
		in(0, size, [2]uint64{s.m - 1, s.aRow}, [2]uint64{s.k - 1, s.aCol}, [2]uint64{last, s.aBatch}) &&
		in(1, size, [2]uint64{s.n - 1, s.bCol}, [2]uint64{s.k - 1, s.bRow}, [2]uint64{last, s.bBatch}) &&
		in(2, result, [2]uint64{last, s.m * s.n * result}, [2]uint64{s.m*s.n - 1, result}, [2]uint64{s.parts - 1, s.count * result})
}
