package ir

import (
	"errors"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// Instead says what stands in a loop's place: a load of what somebody else has computed for the lane.
type Instead struct {
	Loop   *Node // counted, and without effects
	Result int   // its only result that is used
	// ByGrid: it is loaded from where the lane's place in the grid says, row by row of all lanes in x, and matrix by
	// matrix in z; else from slot[index].
	ByGrid bool
	// Places are values that are known to be numbers of a lane's place, if it is launched row by row of a matrix:
	// row y of blocks, which together are a row in x, of matrix z. There is nothing then of what made them, division by
	// zero included.
	Places map[*Value]Place
	// Reordered: that launch has lanes in another order, so that their numbers are others. It is not ByGrid.
	Reordered bool
}

// Place is a number of a lane's place.
type Place uint8

// The numbers of a lane's place: among all, its row's, its place in the row, and its matrix's.
const (
	Lane Place = iota
	Row
	Column
	Batch
)

// Put returns a copy of a finished f, expanded (Expand), in which the loop's result is loaded from a slot behind
// f's own. sites has, for each of the copy's sites, the number that it has in f. m, which may be nil, counts the work;
// the error is its, or a *SizeError, or says that with Places the lanes cannot be launched otherwise.
func (i *Instead) Put(m *work.Meter, f *Func) (out *Func, sites []int, err error) {
	defer work.Catch(&err)
	if i.Places != nil && (f.Block != [3]uint32{} || i.byPlace(f.Body)) {
		return nil, nil, errPlaces
	}
	size := sizeOf(f.Body)
	if err := size.check(); err != nil {
		return nil, nil, err
	}
	c := newCloner(m, f, size.nodes)
	c.instead = i
	c.to.SlotTypes = append(append([]isa.Type(nil), f.SlotTypes...), i.Loop.Results[i.Result].Type)
	c.to.Body = c.region(f.Body)
	number(c.to)
	dead(c.to)
	from := map[*Node]int{}
	sitesOf(c.to.Body, from)
	renumber(c.to)
	c.to.work = nil
	if keepsPlaces(c.to) {
		return nil, nil, errPlaces
	}
	for _, n := range c.to.Sites {
		site, ok := from[n]
		if !ok { // of the load, which stays inside its slot
			site = -1
		}
		sites = append(sites, site)
	}
	return c.to, sites, nil
}

// sitesOf notes the numbers that nodes have as sites.
func sitesOf(r *Region, of map[*Node]int) {
	for _, n := range r.Nodes {
		if n.Site >= 0 {
			of[n] = n.Site
		}
		for _, s := range n.Regions {
			sitesOf(s, of)
		}
	}
}

// load appends the load of the loop's result.
func (i *Instead) load(c *cloner, out []*Node) []*Node {
	v := i.Loop.Results[i.Result]
	n := &Node{Op: Op(isa.LDG), Form: isa.Form{Type: v.Type}, Src: i.Loop.Src, Site: -1, Mem: Mem{Mode: isa.AddrIndex, Slot: len(c.to.SlotTypes) - 1}}
	if i.ByGrid {
		w := &writer{c, out, i.Loop.Src}
		row := w.add(isa.MUL, isa.U64, 0, w.special(isa.GridDimX), w.special(isa.BlockDimX))
		rows := w.add(isa.MUL, isa.U64, 0, w.special(isa.GridDimY), w.special(isa.BlockDimY))
		at := w.add(isa.MUL, isa.U64, 0, w.place(isa.BlockZ, isa.BlockDimZ, isa.LaneZ), rows)
		at = w.add(isa.ADD, isa.U64, 0, at, w.place(isa.BlockY, isa.BlockDimY, isa.LaneY))
		at = w.add(isa.MUL, isa.U64, 0, at, row)
		at = w.add(isa.ADD, isa.U64, 0, at, w.place(isa.BlockX, isa.BlockDimX, isa.LaneX))
		at = w.add(isa.MUL, isa.U64, 0, at, c.to.Const(isa.U64, uint64(v.Type.Size())))
		n.Mem = Mem{Mode: isa.AddrByte, HasOff: true, Slot: n.Mem.Slot}
		n.Args = append(n.Args, w.cvt(isa.I64, isa.U64, at))
		out = w.out
	}
	c.values[v] = n.addResult(v.Type)
	return append(out, n)
}

// place makes what stands in the place of a number of a lane's place.
func (i *Instead) place(c *cloner, out []*Node, n *Node, p Place) []*Node {
	w := &writer{c, out, n.Src}
	v := n.Result()
	switch p {
	case Lane:
		c.values[v] = w.cvt(v.Type, isa.U64, c.to.leaf(Op(isa.SREG), isa.Form{}, uint64(isa.GlobalLane), isa.U64))
	case Row:
		c.values[v] = w.cvt(v.Type, isa.U32, c.to.leaf(Op(isa.SREG), isa.Form{}, uint64(isa.BlockY), isa.U32))
	case Batch:
		c.values[v] = w.cvt(v.Type, isa.U32, c.to.leaf(Op(isa.SREG), isa.Form{}, uint64(isa.BlockZ), isa.U32))
	case Column:
		c.values[v] = w.cvt(v.Type, isa.U64, w.place(isa.BlockX, isa.BlockDimX, isa.LaneX))
	}
	return w.out
}

// writer appends nodes to a copy.
type writer struct {
	c   *cloner
	out []*Node
	src int32
}

func (w *writer) add(op isa.Op, t isa.Type, from isa.Type, args ...*Value) *Value {
	n := &Node{Op: Op(op), Form: isa.Form{Type: t, From: from}, Args: args, Src: w.src, Site: -1}
	w.out = append(w.out, n)
	return n.addResult(t)
}

func (w *writer) cvt(t, from isa.Type, v *Value) *Value {
	if t == from {
		return v
	}
	return w.add(isa.CVT, t, from, v)
}

func (w *writer) special(s isa.Special) *Value {
	return w.cvt(isa.U64, isa.U32, w.c.to.leaf(Op(isa.SREG), isa.Form{}, uint64(s), isa.U32))
}

// place is a lane's number among those of all blocks in a direction of the grid.
func (w *writer) place(block, dim, lane isa.Special) *Value {
	return w.add(isa.ADD, isa.U64, 0, w.add(isa.MUL, isa.U64, 0, w.special(block), w.special(dim)), w.special(lane))
}

// otherPlace is added to special values that a copy with Places may not ask for, until it is known that it doesn't.
const otherPlace = 1 << 8

// special returns what stands for a special value of f.
func (i *Instead) special(s isa.Special) uint64 {
	if i.Places != nil && (s < isa.GlobalLane || i.Reordered && s != isa.N) {
		return uint64(s) + otherPlace
	}
	return uint64(s)
}

// errPlaces says that a program's lanes cannot be cut in other blocks.
var errPlaces = errors.New("ir: lanes ask where in the grid they are")

// keepsPlaces reports whether a copy, renumbered, asks for other places than those it may.
func keepsPlaces(f *Func) bool {
	return slices.ContainsFunc(f.Body.Nodes, func(n *Node) bool { return n.Op == Op(isa.SREG) && n.Imm >= otherPlace })
}

// byPlace reports whether anything in r, but the loop, depends on how lanes are cut in blocks, or on their order.
func (i *Instead) byPlace(r *Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *Node) bool {
		switch {
		case n == i.Loop:
			return false
		case n.Op.IsInst() && n.effect()&(isa.Barrier|isa.State) != 0, n.Mem.Mode == isa.AddrShared:
			return true
		case i.Reordered && n.Mem.Mode == isa.AddrIndex && n.Op.IsInst() && n.effect()&(isa.Reads|isa.Writes) != 0:
			return true
		}
		return slices.ContainsFunc(n.Regions, i.byPlace)
	})
}
