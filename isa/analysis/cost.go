package analysis

import (
	"math"
	"slices"
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	atlas "github.com/hologram-project/hologram/isa/math"
	"github.com/hologram-project/hologram/isa/work"
)

// Cost estimates how many instructions a lane runs. It is an upper estimate:
// of branches it counts both ways, of a loop the most rounds that the launch
// allows, of an instruction that expands its expansion. A Cost is immutable
// and may be shared.
type Cost struct {
	body costNode
	t    *tape     // nil if no loop's rounds depend on the launch
	free sync.Pool // of *costState
}

// costState is a state that keeps the answer it gave last: most launches of a
// program have the sizes of the one before, and a small one costs less than to
// ask anew.
type costState struct {
	state
	answered bool
	n        uint64
	params   []uint64
	lane     float64
	bounded  bool
}

// costNode is instructions that run together, and loops within.
type costNode struct {
	insts    float64
	children []*costNode
	// Of a loop: its number on the tape, or −1 and its rounds. It stands for
	// all loops beside it that have the same count.
	loop   int32
	rounds float64
	by     map[*ir.Value]*costNode // while it is built: loops by their count
}

// NewCost estimates f, in time near-linear in its nodes. f may be expanded or
// not.
func NewCost(f *ir.Func) *Cost {
	c, _ := NewCostMetered(nil, f)
	return c
}

// NewCostMetered is NewCost, counted and stopped by m; the error is then m's.
func NewCostMetered(m *work.Meter, f *ir.Func) (c *Cost, err error) {
	defer work.Catch(&err)
	c = &Cost{}
	b := costBuilder{c: c, work: m, unknown: newState(newTape(m, f, questions{loops: true}))}
	b.unknown.in, b.unknown.work = anyLaunch(f), m
	b.unknown.run()
	b.loops = map[*ir.Node]int32{}
	for i, l := range b.unknown.t.loops {
		b.loops[l.node] = int32(i)
	}
	b.region(&c.body, f.Body)
	if b.open {
		c.t = b.unknown.t
		b.unknown.work = nil
		c.free.Put(&costState{state: *b.unknown}) // for the first launch
	}
	return c, nil
}

// Of estimates the instructions that all lanes of a launch run together. n is
// the size of the index space, params has the cells of the parameters. If
// bounded is false there are loops whose rounds nothing bounds before the
// launch; insts then counts one round of these.
func (c *Cost) Of(n uint64, params []uint64) (insts float64, bounded bool) {
	if c.t == nil {
		return max(c.body.insts, leastInsts) * float64(n), true
	}
	s, _ := c.free.Get().(*costState)
	if s == nil {
		s = &costState{state: *newState(c.t)}
		s.in = anyLaunch(c.t.f)
	}
	if !s.answered || s.n != n || !slices.Equal(s.params, params) {
		s.in.n, s.in.params = n, params
		s.run()
		s.lane, s.bounded = c.body.of(&s.state)
		s.in.params = nil
		s.answered, s.n, s.params = true, n, append(s.params[:0], params...)
	}
	lane, bounded := s.lane, s.bounded
	c.free.Put(s)
	return max(lane, leastInsts) * float64(n), bounded
}

// leastInsts is what a lane counts as that runs no instructions: enough of them take long.
const leastInsts = 1.0 / 8

func (n *costNode) of(s *state) (insts float64, bounded bool) {
	insts, bounded = n.insts, true
	for _, child := range n.children {
		x, ok := child.of(s)
		rounds := child.rounds
		if child.loop >= 0 {
			var known bool
			rounds, known = mostRounds(s.rounds[child.loop])
			ok = ok && known
		}
		insts += x * rounds
		bounded = bounded && ok
	}
	return insts, bounded
}

// mostRounds returns an upper end as a number of rounds, and whether it says
// more than that a count has 32 bits; if not, 1.
func mostRounds(r interval) (rounds float64, known bool) {
	if r.hi == inf || r.hi == math.MaxUint32 && !r.point() {
		return 1, false
	}
	return float64(max(0, r.hi)), true
}

// anyLaunch is all that is known of every launch of f.
func anyLaunch(f *ir.Func) launch {
	in := launch{n: math.MaxUint64}
	for d := range 3 {
		in.grid[d] = interval{1, math.MaxUint32}
		in.block[d] = interval{1, isa.MaxBlockLanes}
		if f.Block != [3]uint32{} {
			in.block[d] = interval{int64(f.Block[d]), int64(f.Block[d])}
		}
	}
	return in
}

type costBuilder struct {
	c       *Cost
	work    *work.Meter
	unknown *state
	loops   map[*ir.Node]int32
	open    bool // a loop's rounds depend on the launch
}

func (b *costBuilder) region(to *costNode, r *ir.Region) {
	b.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		switch n.Op {
		case ir.Const, ir.Block:
		case ir.Loop:
			b.loop(to, n)
			continue
		default:
			to.insts += weight(n)
		}
		for _, s := range n.Regions {
			b.region(to, s)
		}
	}
}

// loop adds a loop, which costs an instruction a round beside its body. Loops
// of an expansion stand for branches, and always end.
func (b *costBuilder) loop(to *costNode, n *ir.Node) {
	to.insts++
	k := b.loops[n]
	if r := b.unknown.rounds[k]; n.Free || r.point() {
		child := &costNode{insts: 1, loop: -1, rounds: 1}
		if !n.Free {
			child.rounds = float64(r.hi)
		}
		b.region(child, n.Regions[0])
		if len(child.children) > 0 {
			to.children = append(to.children, child)
		} else {
			to.insts += child.rounds * child.insts
		}
		return
	}
	b.open = true
	child := (*costNode)(nil)
	if n.Counted {
		child = to.by[n.Args[0]]
	}
	if child == nil {
		child = &costNode{loop: k}
		to.children = append(to.children, child)
		if n.Counted {
			if to.by == nil {
				to.by = map[*ir.Value]*costNode{}
			}
			to.by[n.Args[0]] = child
		}
	}
	child.insts++
	b.region(child, n.Regions[0])
}

// weight is what an instruction costs: 1, or the instructions of its expansion.
func weight(n *ir.Node) float64 {
	if !n.Op.IsInst() {
		return 1 // an If, a Br
	}
	row, _ := isa.Lookup(n.Op.Inst())
	if row.Expand.Has(n.Type) {
		return float64(expansionSize(n.Op.Inst(), n.Type))
	}
	return 1
}

var expansionSizes sync.Map // of [2]int (operation, type) to int

// expansionSize returns the instructions of an expansion, those of expansions
// in it included.
func expansionSize(op isa.Op, t isa.Type) int {
	key := [2]int{int(op), int(t)}
	if n, ok := expansionSizes.Load(key); ok {
		return n.(int)
	}
	total := 0
	if v, ok := atlas.Expansion(op, t); ok {
		for i := range v.Program.Insts {
			in := &v.Program.Insts[i]
			if row, _ := isa.Lookup(in.Op); row.Expand.Has(in.Type) {
				total += expansionSize(in.Op, in.Type)
			} else {
				total++
			}
		}
	}
	expansionSizes.Store(key, total)
	return total
}
