package analysis

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Vary says between which lanes a value may differ. It compares lanes that are
// at the value's definition together: in the same rounds of the loops around
// it. Lanes elsewhere hold no such value. What leaves a loop in different
// rounds may differ.
type Vary uint8

// The kinds, from fewest to most lanes that may differ.
const (
	PerLaunch Vary = iota // the same in all lanes
	PerBlock              // the same in the lanes of a block
	PerLane
)

var varyNames = [...]string{"launch", "block", "lane"}

// String returns what the value is the same in: "launch", "block" or "lane".
func (v Vary) String() string { return varyNames[v] }

// varies computes Vary of all values of f, by ID. A value differs where an
// operand does; where different ways meet and what chose between them differs;
// and where its instruction says so.
//
// It is a reachability problem: edges lead from what differs to what then
// differs, and PerLane, then PerBlock, spread along them. A construct has a
// vertex for "which way lanes come to its results differs", a loop another for
// "which way they come to a further round, or whether they do".
func varies(m *work.Meter, f *ir.Func) []Vary {
	g := newVaryGraph(m, f)
	g.spread()
	return g.level[:f.NumValues]
}

// newVaryGraph walks f twice: to count the edges from each vertex, and to put
// down where they lead.
func newVaryGraph(m *work.Meter, f *ir.Func) *varyGraph {
	g := &varyGraph{f: f, work: m, stored: storedSlots(f.Body), first: make([]int32, f.NumValues, f.NumValues+1)}
	g.walk()
	g.level = make([]Vary, len(g.first))
	sum := int32(0)
	for i, n := range g.first {
		sum += n
		g.first[i] = sum
	}
	g.first = append(g.first, sum)
	g.to = make([]int32, sum)
	g.walk()
	g.meet = nil
	return g
}

// walk goes through the Func, in the same way each time.
func (g *varyGraph) walk() {
	g.vertices, g.meet, g.seeds = int32(g.f.NumValues), map[varyKey]int32{}, [2][]int32{}
	g.region(g.f.Body)
}

// varyGraph is made of vertices, which are values, by ID, then constructs.
type varyGraph struct {
	f        *ir.Func
	work     *work.Meter
	stored   uint64 // slots that are written
	level    []Vary
	vertices int32 // that were met
	// first is, while edges are counted, how many lead from each vertex. Then
	// those of vertex i are put in to from the end, so that they stand from
	// first[i] up to first[i+1].
	first  []int32
	to     []int32
	meet   map[varyKey]int32
	around []*ir.Node // the constructs around the node at hand
	seeds  [2][]int32 // vertices that differ per lane, per block
}

type varyKey struct {
	n     *ir.Node
	again bool
}

func (g *varyGraph) edge(from, to int32) {
	if g.to == nil {
		g.first[from]++
		return
	}
	g.first[from]--
	g.to[g.first[from]] = to
}

func (g *varyGraph) value(from *ir.Value, to *ir.Value) { g.edge(int32(from.ID), int32(to.ID)) }

func (g *varyGraph) seed(i int32, v Vary) {
	switch v {
	case PerLane:
		g.seeds[0] = append(g.seeds[0], i)
	case PerBlock:
		g.seeds[1] = append(g.seeds[1], i)
	}
}

// vertex returns a vertex of a construct, from which edges lead to its results
// or, if again, to its parameters.
func (g *varyGraph) vertex(n *ir.Node, again bool) int32 {
	key := varyKey{n, again}
	v, ok := g.meet[key]
	if !ok {
		v = g.vertices
		if g.vertices++; g.to == nil {
			g.first = append(g.first, 0)
		}
		g.meet[key] = v
		to := n.Results
		if again {
			to = n.Regions[0].Params
		}
		for _, r := range to {
			g.edge(v, int32(r.ID))
		}
	}
	return v
}

func (g *varyGraph) region(r *ir.Region) {
	g.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		switch n.Op {
		case ir.Const:
		case ir.If:
			g.edge(int32(n.Args[0].ID), g.vertex(n, false))
			g.within(n)
		case ir.Block:
			g.within(n)
		case ir.Loop:
			g.loop(n)
		case ir.Br:
			g.br(n)
		default:
			g.inst(n)
		}
	}
}

// within walks the regions of n.
func (g *varyGraph) within(n *ir.Node) {
	g.around = append(g.around, n)
	for _, r := range n.Regions {
		g.region(r)
		if n.Op != ir.Loop {
			for i, y := range r.Yield {
				g.value(y, n.Results[i])
			}
		}
	}
	g.around = g.around[:len(g.around)-1]
}

// loop: parameters are the inits and what comes back. The last of these are
// the results of a counted loop, which differ if the counts do.
func (g *varyGraph) loop(n *ir.Node) {
	r := n.Regions[0]
	for i, p := range r.Params {
		g.value(n.Args[i+inits(n)], p)
		if i < len(r.Yield) {
			g.value(r.Yield[i], p)
		}
		if n.Counted {
			g.value(p, n.Results[i])
		}
	}
	if n.Counted {
		g.edge(int32(n.Args[0].ID), g.vertex(n, false))
	}
	g.within(n)
}

// maxBrDepth bounds the constructs that a Br is followed through. Lanes from
// farther inside are taken to differ.
const maxBrDepth = 64

// br: which lanes come to the target by this Br, and in which rounds of the
// loops that it leaves, is decided by the conditions around it; by what leads
// lanes past it, to the end of a Block that it leaves as well; and by counts
// of loops, and ways into further rounds, that make them come later.
func (g *varyGraph) br(n *ir.Node) {
	t := n.Target
	if t == nil {
		return
	}
	meets := g.vertex(t, t.Op == ir.Loop)
	to := t.Results
	if t.Op == ir.Loop {
		to = t.Regions[0].Params
	}
	for i, a := range n.Args {
		g.value(a, to[i])
	}
	for k, depth := len(g.around)-1, 0; k >= 0 && g.around[k] != t; k, depth = k-1, depth+1 {
		if depth == maxBrDepth {
			g.seed(meets, PerLane)
			return
		}
		switch c := g.around[k]; c.Op {
		case ir.If:
			g.edge(int32(c.Args[0].ID), meets)
		case ir.Block:
			g.edge(g.vertex(c, false), meets)
		case ir.Loop:
			g.edge(g.vertex(c, true), meets)
			if c.Counted {
				g.edge(int32(c.Args[0].ID), meets)
			}
		}
	}
}

// inst: a result differs as its operands do, or more.
func (g *varyGraph) inst(n *ir.Node) {
	v := n.Result()
	if v == nil {
		return
	}
	row, _ := isa.Lookup(n.Op.Inst())
	switch op := n.Op.Inst(); {
	case op == isa.SREG:
		g.seed(int32(v.ID), g.special(isa.Special(n.Imm)))
		return
	case op == isa.CLS_GET, op == isa.UNITY_TEST:
		g.seed(int32(v.ID), PerBlock)
		return
	case row.Effect&isa.Barrier != 0:
		switch op {
		case isa.BLOCK_REDUCE_ADD, isa.BLOCK_REDUCE_MIN, isa.BLOCK_REDUCE_MAX, isa.BLOCK_REDUCE_MUL:
			g.seed(int32(v.ID), PerBlock)
		default:
			g.seed(int32(v.ID), PerLane)
		}
		return
	case op == isa.LDG && n.Mem.Mode == isa.AddrByte && g.stored>>n.Mem.Slot&1 == 0:
		// What nothing writes is the same for all who read it.
	case row.Effect&(isa.Reads|isa.State) != 0:
		g.seed(int32(v.ID), PerLane)
		return
	}
	for _, a := range n.Args {
		g.value(a, v)
	}
}

// special: indices that a demanded block shape leaves one value are the same.
func (g *varyGraph) special(s isa.Special) Vary {
	switch {
	case s <= isa.LaneZ:
		if g.f.Block[s-isa.LaneX] == 1 {
			return PerLaunch
		}
		return PerLane
	case s == isa.GlobalLane:
		return PerLane
	case s <= isa.BlockZ:
		return PerBlock
	}
	return PerLaunch
}

// storedSlots returns the slots that something in r may write.
func storedSlots(r *ir.Region) (slots uint64) {
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			slots |= storedSlots(s)
		}
		if !n.Op.IsInst() || n.Mem.Mode == 0 {
			continue
		}
		if row, _ := isa.Lookup(n.Op.Inst()); row.Effect&isa.Writes != 0 {
			switch n.Mem.Mode {
			case isa.AddrIndirect:
				slots = ^uint64(0)
			case isa.AddrIndex, isa.AddrByte:
				slots |= 1 << n.Mem.Slot
			}
		}
	}
	return slots
}

// spread sets the levels.
func (g *varyGraph) spread() {
	var list []int32
	for k, v := range []Vary{PerLane, PerBlock} {
		list = append(list[:0], g.seeds[k]...)
		for len(list) > 0 {
			g.work.Step(1)
			i := list[len(list)-1]
			list = list[:len(list)-1]
			if g.level[i] >= v {
				continue
			}
			g.level[i] = v
			list = append(list, g.to[g.first[i]:g.first[i+1]]...)
		}
	}
}
