package jit

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A branch of which one way does nothing, as where lanes that have an element left add it
// to their sum, leaves a value as it is or puts another in its place. Where nothing needs
// the former one later on, the result takes its register: two of them for each group of a
// row's sum were more than there are, and some of the sums went through memory, round
// after round.

// former is which values the results of a branch take the places of.
type former struct {
	other  int    // the way that does nothing
	placed []bool // by result: whether it takes the place of what that yields
}

// lifetimes finds out until when values are used, by numbers that increase from node to
// node in the order in which one lane comes by.
type lifetimes struct {
	p          *program
	now        int32
	made, last []int32    // by value ID
	lazy       []*ir.Node // what others compute in their own places
	branches   []branch
}

// branch is one that does nothing on one way.
type branch struct {
	n          *ir.Node
	other      int
	end, round int32 // round: where the rounds of the loop around it begin, or 0
}

// findFormer fills formers.
func (p *program) findFormer() {
	l := &lifetimes{p: p, made: make([]int32, p.fn.NumValues), last: make([]int32, p.fn.NumValues)}
	l.region(p.fn.Body, 0)
	for _, n := range slices.Backward(l.lazy) {
		for _, a := range n.Args {
			l.last[a.ID] = max(l.last[a.ID], l.last[n.Result().ID])
		}
	}
	p.formers = map[*ir.Node]*former{}
	for _, b := range l.branches {
		f := &former{other: b.other, placed: make([]bool, len(b.n.Results))}
		taken := map[*ir.Value]bool{}
		for i, v := range b.n.Regions[b.other].Yield {
			// What constructs have for registers is theirs alone; masks may serve as those of lanes that run.
			own := v.Param != nil || v.Node != nil && !v.Node.Op.IsInst() && v.Node.Op != ir.Const
			f.placed[i] = own && v.Type != isa.Pred && l.made[v.ID] > b.round && l.last[v.ID] <= b.end && !taken[v]
			taken[v] = true
		}
		p.formers[b.n] = f
	}
}

func (l *lifetimes) use(values []*ir.Value) {
	for _, v := range values {
		l.last[v.ID] = l.now
	}
}

func (l *lifetimes) make(values []*ir.Value) {
	for _, v := range values {
		l.made[v.ID] = l.now
	}
}

func (l *lifetimes) region(r *ir.Region, round int32) {
	l.now++
	l.make(r.Params)
	for _, n := range r.Nodes {
		l.now++
		l.use(n.Args)
		if s, within := l.p.specials[n]; within && s != nil {
			l.use([]*ir.Value{s.x}) // all else that the chain is of are arguments, of this or of what is within
		} else if within || l.p.shortcut[n] {
			l.lazy = append(l.lazy, n)
		}
		idle := -1
		if n.Op == ir.If {
			idle = slices.IndexFunc(n.Regions, func(r *ir.Region) bool { return len(r.Nodes) == 0 })
		}
		if idle >= 0 { // comes first: what it yields ends there, also for branches within the other way
			l.region(n.Regions[idle], round)
		}
		for i, s := range n.Regions {
			switch {
			case i == idle:
			case n.Op == ir.Loop:
				l.region(s, l.now)
			default:
				l.region(s, round)
			}
		}
		l.now++
		if idle >= 0 && len(n.Results) > 0 {
			l.branches = append(l.branches, branch{n, idle, l.now, round})
		}
		l.make(n.Results)
	}
	l.now++
	l.use(r.Yield)
}

// resultsOf are the registers of a branch's results in the group at hand, and which of
// them hold former values that stay on the way that does nothing.
func (g *gen) resultsOf(n *ir.Node) (regs []vreg, placed []bool) {
	regs, placed = make([]vreg, len(n.Results)), make([]bool, len(n.Results))
	f := g.p.formers[n]
	for i, v := range n.Results {
		if f != nil && f.placed[i] && !g.same(v) { // what is the same is written to lanes of others as well
			w := n.Regions[f.other].Yield[i]
			if r := g.vals[g.u][w.ID]; r != 0 && g.shared[w.ID] == 0 && g.info[r].values == 1 {
				regs[i], placed[i] = r, true
				g.succeed(v, r)
				continue
			}
		}
		regs[i] = g.newValue(v)
		g.set(v, regs[i])
	}
	return regs, placed
}

// idle reports whether a way does nothing but leave former values where they are.
func (g *gen) idle(n *ir.Node, way int, placed []bool) bool {
	f := g.p.formers[n]
	return len(n.Regions[way].Nodes) == 0 && (len(placed) == 0 || f != nil && f.other == way && !slices.Contains(placed, false))
}
