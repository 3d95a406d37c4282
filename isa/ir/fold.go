package ir

import "github.com/hologram-project/hologram/isa"

// fold computes instructions of which all operands are constants, by the
// table's own evaluators. What would fault stays.
func fold(f *Func) bool {
	w := rewriter{f: f}
	w.visit = func(n *Node, out []*Node) []*Node {
		if v := folded(f, n); v != nil {
			n.Results[0].repl = v
			w.changed = true
			return out
		}
		return append(out, n)
	}
	w.region(f.Body)
	return w.changed
}

// folded returns the constant that n computes, or nil.
func folded(f *Func, n *Node) *Value {
	if !n.Op.IsInst() || len(n.Results) != 1 || len(n.Args) == 0 || len(n.Args) > 3 || n.Mem.Mode != 0 {
		return nil
	}
	var cells [3]uint64
	for i, a := range n.Args {
		c, ok := a.Const()
		if !ok {
			return nil
		}
		cells[i] = c
	}
	row, _ := isa.Lookup(n.Op.Inst())
	t := n.Results[0].Type
	if n.Op == Op(isa.LDC) {
		d := f.Data[n.Imm].Values
		if cells[0] >= uint64(len(d)) {
			return nil
		}
		return f.Const(t, d[cells[0]])
	}
	if row.Eval == nil || row.Effect&^isa.MayFault != isa.Pure {
		return nil
	}
	// The static operand comes last in the rows that have one.
	if k := len(n.Args); k < 3 {
		cells[k] = n.Imm
	}
	r, fault := row.Eval(n.Form, cells[0], cells[1], cells[2])
	if fault != isa.NoFault {
		return nil
	}
	return f.Const(t, r)
}

// rewriter walks forward and lets visit append to the new list a node, what
// takes its place, or nothing. Regions come before the node that holds them.
type rewriter struct {
	f       *Func
	visit   func(n *Node, out []*Node) []*Node
	changed bool
}

func (w *rewriter) region(r *Region) {
	nodes := r.Nodes
	out := make([]*Node, 0, len(nodes))
	w.f.work.Step(1 + len(nodes))
	for i, n := range nodes {
		nodes[i] = nil // what is replaced need not last until all are
		resolve(n.Args)
		for _, s := range n.Regions {
			w.region(s)
		}
		if out = w.visit(n, out); ends(out) {
			r.Yield = nil // whatever follows is never reached
			break
		}
	}
	r.Nodes = out
	resolve(r.Yield)
}
