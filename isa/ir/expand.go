package ir

import (
	"fmt"
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
	"github.com/hologram-project/hologram/isa/work"
)

// Expand returns a copy of a finished f in which every instruction that isa/math
// defines by an expansion is replaced by that expansion. f stays as it is, and
// the copy's sites are f's, number by number: what comes from an expansion is
// marked Free, neither faults nor costs fuel. If nothing expands it returns f.
// The error is a *SizeError.
func Expand(f *Func) (*Func, error) { return ExpandMetered(nil, f) }

// ExpandMetered is Expand, counted and stopped by m; the error is then m's.
func ExpandMetered(m *work.Meter, f *Func) (out *Func, err error) {
	defer work.Catch(&err)
	size := sizeOf(f.Body)
	if len(size.uses) == 0 {
		return f, nil
	}
	if err := size.check(); err != nil {
		return nil, err
	}
	c := newCloner(m, f, size.nodes)
	c.to.Body = c.region(f.Body)
	number(c.to)
	dead(c.to)
	renumber(c.to)
	c.to.work = nil
	return c.to, nil
}

// expansion returns the expansion of n's instruction, or nil.
func (n *Node) expansion() *template {
	if !n.Op.IsInst() {
		return nil
	}
	row, _ := isa.Lookup(n.Op.Inst())
	if !row.Expand.Has(n.Type) {
		return nil
	}
	return expansionOf(n.Op.Inst(), n.Type)
}

// template is the canonical form of an expansion: slot i is operand i, the
// last slot the result, stored by the last node of Body.
type template struct {
	name  string
	f     *Func
	store *Node
	nodes int // with the expansions in it in place
}

var templates sync.Map // of [2]int (operation, type) to *template

func expansionOf(op isa.Op, t isa.Type) *template {
	key := [2]int{int(op), int(t)}
	if v, ok := templates.Load(key); ok {
		return v.(*template)
	}
	fail := func(why any) string {
		return fmt.Sprintf("ir: the expansion of %s in isa/math %v", expansionName(op, t), why)
	}
	v, ok := math.Expansion(op, t)
	if !ok {
		panic(fail("is missing, though the table promises it"))
	}
	f, _, err := Canonical(v)
	if err != nil {
		panic(fail(err))
	}
	tp := &template{name: expansionName(op, t), f: f, nodes: sizeOf(f.Body).nodes}
	out := len(f.SlotTypes) - 1
	if k := len(f.Body.Nodes) - 1; k >= 0 {
		if n := f.Body.Nodes[k]; n.Op == Op(isa.STG) && n.Mem.Slot == out {
			tp.store = n
		}
	}
	if tp.store == nil || f.Body.stores() != 1<<out {
		panic(fail("does not end by storing its result"))
	}
	v2, _ := templates.LoadOrStore(key, tp)
	return v2.(*template)
}

// cloner copies nodes, putting expansions in place.
type cloner struct {
	to     *Func
	values map[*Value]*Value
	nodes  map[*Node]*Node // constructs, for Br
	tables map[*template]uint64
	// While an expansion is copied: it, and the values of its slots.
	in   *template
	args []*Value
	src  int32
	// instead, if it is not nil, stands in a loop's place.
	instead *Instead
}

// newCloner returns one for a copy of f, of about so many nodes, whose body it does not make yet.
func newCloner(m *work.Meter, f *Func, nodes int) *cloner {
	c := &cloner{
		to:     &Func{},
		values: make(map[*Value]*Value, f.NumValues),
		nodes:  map[*Node]*Node{},
		tables: map[*template]uint64{},
	}
	*c.to = *f
	c.to.Data = append([]isa.Data(nil), f.Data...)
	c.to.Sites = nil
	c.to.nodes, c.to.work = nodes, m
	c.to.leaves = leafTable{}
	return c
}

func (c *cloner) list(list []*Value) []*Value {
	if list == nil {
		return nil
	}
	return c.appendTo(make([]*Value, 0, len(list)), list)
}

// appendTo appends what stands for the values of list to out.
func (c *cloner) appendTo(out, list []*Value) []*Value {
	for _, v := range list {
		out = append(out, c.values[v])
	}
	return out
}

func (c *cloner) region(r *Region) *Region {
	out := &Region{}
	for _, p := range r.Params {
		c.values[p] = out.addParam(p.Type)
	}
	out.Nodes = c.appendNodes(make([]*Node, 0, len(r.Nodes)), r.Nodes)
	out.Yield = c.list(r.Yield)
	return out
}

func (c *cloner) appendNodes(out, nodes []*Node) []*Node {
	for _, n := range nodes {
		c.to.work.Step(1)
		if c.instead != nil && n.Result() != nil {
			if p, ok := c.instead.Places[n.Result()]; ok {
				out = c.instead.place(c, out, n, p)
				continue
			}
		}
		if n.isLeaf() {
			imm := n.Imm
			if c.instead != nil && n.Op == Op(isa.SREG) {
				imm = c.instead.special(isa.Special(imm))
			}
			c.values[n.Results[0]] = c.to.leaf(n.Op, n.Form, imm, n.Results[0].Type)
			continue
		}
		if c.in != nil && n.Mem.Mode == isa.AddrIndex {
			if n != c.in.store {
				c.values[n.Results[0]] = c.args[n.Mem.Slot]
			}
			continue
		}
		if c.instead != nil && n == c.instead.Loop {
			out = c.instead.load(c, out)
			continue
		}
		if tp := n.expansion(); tp != nil {
			out = c.expand(out, n, tp)
			continue
		}
		out = append(out, c.node(n))
	}
	return out
}

func (c *cloner) node(n *Node) *Node {
	m := &Node{Op: n.Op, Form: n.Form, Imm: n.Imm, Mem: n.Mem, Counted: n.Counted, Free: n.Free, Src: n.Src, Site: n.Site}
	if m.Args = m.room[:0:roomForArgs]; len(n.Args) > roomForArgs {
		m.Args = make([]*Value, 0, len(n.Args))
	}
	m.Args = c.appendTo(m.Args, n.Args)
	if c.in != nil {
		m.Src, m.Site = c.src, -1
		m.Free = m.Free || n.Op == Loop || n.effect()&isa.MayFault != 0
		if n.Op == Op(isa.LDC) {
			m.Imm += c.tables[c.in]
			// An index need not have 64 bits here: groups of lanes are as small as their longest numbers ask for.
			if of := m.Args[0].Node; of != nil && of.Op == Op(isa.CVT) && of.From.Integer() {
				m.Args[0] = of.Args[0]
			}
		}
	}
	if n.Target != nil {
		m.Target = c.nodes[n.Target]
	}
	if len(n.Regions) > 0 {
		c.nodes[n] = m
		for _, r := range n.Regions {
			m.Regions = append(m.Regions, c.region(r))
		}
		delete(c.nodes, n)
	}
	for _, v := range n.Results {
		c.values[v] = m.addResult(v.Type)
	}
	return m
}

// expand appends the expansion of n. An expansion may hold an instruction that
// expands in turn.
func (c *cloner) expand(out []*Node, n *Node, tp *template) []*Node {
	if _, ok := c.tables[tp]; !ok {
		c.tables[tp] = uint64(len(c.to.Data))
		c.to.Data = append(c.to.Data, tp.f.Data...)
	}
	in, args, src := c.in, c.args, c.src
	if in == nil {
		c.src = n.Src
	}
	c.in, c.args = tp, c.list(n.Args)
	out = c.appendNodes(out, tp.f.Body.Nodes)
	c.values[n.Results[0]] = c.values[tp.store.Args[0]]
	c.in, c.args, c.src = in, args, src
	return out
}
