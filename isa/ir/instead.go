package ir

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// Instead says what stands in a loop's place: a load of what somebody else has computed for the lane.
type Instead struct {
	Loop   *Node // counted, and without effects
	Result int   // its only result that is used
	// ByGrid: it is loaded from where the lane's place in the grid says, row by row of all lanes in x; else from
	// slot[index].
	ByGrid bool
}

// Put returns a copy of a finished f, expanded (Expand), in which the loop's result is loaded from a slot behind
// f's own. sites has, for each of the copy's sites, the number that it has in f. m, which may be nil, counts the work;
// the error is its, or a *SizeError.
func (i *Instead) Put(m *work.Meter, f *Func) (out *Func, sites []int, err error) {
	defer work.Catch(&err)
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
	form := isa.Form{Type: v.Type}
	n := &Node{Op: Op(isa.LDG), Form: form, Src: i.Loop.Src, Site: -1, Mem: Mem{Mode: isa.AddrIndex, Slot: len(c.to.SlotTypes) - 1}}
	if i.ByGrid {
		add := func(op isa.Op, t isa.Type, from isa.Type, args ...*Value) *Value {
			n := &Node{Op: Op(op), Form: isa.Form{Type: t, From: from}, Args: args, Src: i.Loop.Src, Site: -1}
			out = append(out, n)
			return n.addResult(t)
		}
		special := func(s isa.Special) *Value {
			return add(isa.CVT, isa.U64, isa.U32, c.to.leaf(Op(isa.SREG), isa.Form{}, uint64(s), isa.U32))
		}
		place := func(block, dim, lane isa.Special) *Value {
			return add(isa.ADD, isa.U64, 0, add(isa.MUL, isa.U64, 0, special(block), special(dim)), special(lane))
		}
		row := add(isa.MUL, isa.U64, 0, special(isa.GridDimX), special(isa.BlockDimX))
		at := add(isa.MUL, isa.U64, 0, place(isa.BlockY, isa.BlockDimY, isa.LaneY), row)
		at = add(isa.ADD, isa.U64, 0, at, place(isa.BlockX, isa.BlockDimX, isa.LaneX))
		at = add(isa.MUL, isa.U64, 0, at, c.to.Const(isa.U64, uint64(v.Type.Size())))
		n.Mem = Mem{Mode: isa.AddrByte, HasOff: true, Slot: n.Mem.Slot}
		n.Args = append(n.Args, add(isa.CVT, isa.I64, isa.U64, at))
	}
	c.values[v] = n.addResult(v.Type)
	return append(out, n)
}
