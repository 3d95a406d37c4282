package jit

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Scans of columns that lie side by side, as where each lane has a row of a matrix, of which
// all is loaded, scanned and stored to the same places: they need not be taken apart. A group is
// a vector of memory then, and the row before is as many elements before it as there are columns.

// columns are such scans.
type columns struct {
	load, store *ir.Node // of the first column
	count       int
}

// columnsOf finds them: segments are all that is from the loads on to the stores, from number first on.
func (g *gen) columnsOf(first, count int) *columns {
	segments, c := g.p.blocks.segments[first:first+count], &columns{count: count - 1}
	if c.count < 2 {
		return nil
	}
	scan := segments[0].meet
	size := scan.Type.Size()
	at := map[*ir.Value]int64{} // of a scan's result
	var loads, stores []*ir.Node
	for k := range segments {
		s := &segments[k]
		for _, n := range s.nodes {
			switch {
			case n.Op == ir.Const || g.early[n]:
			case n.Op == ir.Op(isa.STG):
				stores = append(stores, n)
			case n.Op == ir.Op(isa.LDG) && g.p.blocks.last[n.Result().ID] < first+count:
				loads = append(loads, n)
			default:
				return nil
			}
		}
		if k == c.count {
			break
		}
		load := s.meet.Args[0].Node
		if load == nil || load.Op != ir.Op(isa.LDG) || s.meet.Op != scan.Op || s.meet.Type != scan.Type || !g.columnOf(c, load, size) {
			return nil
		}
		if c.load == nil || load.Mem.Offset < c.load.Mem.Offset {
			c.load = load
		}
		at[s.meet.Result()] = load.Mem.Offset
	}
	if len(loads) != c.count || len(stores) != c.count {
		return nil
	}
	found := make([]bool, c.count)
	for _, n := range stores {
		offset, ok := at[n.Args[n.AddrArgs()]]
		column := offset - c.load.Mem.Offset
		if !ok || offset != n.Mem.Offset || !g.columnOf(c, n, size) ||
			n.Mem.Slot != stores[0].Mem.Slot || n.Args[n.AddrArgs()-1] != c.load.Args[c.load.AddrArgs()-1] {
			return nil
		}
		if column%int64(size) != 0 || column/int64(size) >= int64(c.count) || found[column/int64(size)] {
			return nil
		}
		if found[column/int64(size)] = true; column == 0 {
			c.store = n
		}
	}
	return c
}

// columnOf reports whether an access is to elements of a column, and to such as registers hold
// as they are.
func (g *gen) columnOf(c *columns, n *ir.Node, size int) bool {
	if c.load != nil && n.Op == ir.Op(isa.LDG) && (n.Mem.Slot != c.load.Mem.Slot || n.Args[n.AddrArgs()-1] != c.load.Args[c.load.AddrArgs()-1]) {
		return false
	}
	head, step := g.stepOf(n)
	t := g.moved(n)
	return head.reg != 0 && t.Size() == size && g.regSize(t) == size && size >= 4 && step == int64(c.count*size)
}

// alongColumns writes them, for blocks whose elements all are inside of the slots; others do
// segment after segment.
func (g *gen) alongColumns(i, count int, c *columns) {
	stray, done := g.asm.NewLabel(), g.asm.NewLabel()
	scan := g.combining(g.p.blocks.segments[i].meet)
	size := g.regSize(scan.t)
	place := func(n *ir.Node) func(q int) *mref {
		head, step := g.stepOf(n)
		base := g.placeAhead(n, head.reg, 0, g.shape.block*int(step), stray)
		return func(q int) *mref { return &mref{base: base, disp: int32(q * g.lanes * size)} }
	}
	from, to := place(c.load), place(c.store)
	r := g.newRunning(scan, c.count, g.forScans(1), func(q int) vreg { return g.loadVector(size, to(q)) })
	for q := range g.shape.block * c.count / g.lanes {
		g.work.Step(16)
		g.storeVector(size, to(q), g.goOn(r, q, g.loadVector(size, from(q))))
	}
	g.jump(done)
	g.bind(stray)
	g.way(func() {
		for k := range count {
			g.segment(i + k)
		}
	})
	g.bind(done)
}
