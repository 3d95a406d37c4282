package ir

// dead drops what has no effect and whose results nothing needs. Loops stay,
// since they cost fuel, and so does what may fault; a loop parameter that only
// its own update uses goes.
func dead(f *Func) bool {
	linkBrs(f.Body)
	d := &dropper{f: f}
	for _, v := range f.leaves.list {
		v.mark = 0
	}
	unmark(f.Body)
	d.roots(f.Body)
	for len(d.work) > 0 {
		f.work.Step(1)
		v := d.work[len(d.work)-1]
		d.work = d.work[:len(d.work)-1]
		d.trace(v)
	}
	d.sweep(f.Body)
	return d.changed
}

type dropper struct {
	f       *Func
	work    []*Value
	changed bool
}

func unmark(r *Region) {
	for _, v := range r.Params {
		v.mark = 0
	}
	for _, n := range r.Nodes {
		n.mark = 0
		for _, v := range n.Results {
			v.mark = 0
		}
		for _, s := range n.Regions {
			unmark(s)
		}
	}
}

func (d *dropper) need(list ...*Value) {
	for _, v := range list {
		if v.mark == 0 {
			v.mark = 1
			d.work = append(d.work, v)
		}
	}
}

// roots marks the nodes that must run and reports whether r has any.
func (d *dropper) roots(r *Region) bool {
	found := false
	d.f.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		alive := n.own().rooted() || n.Op == Loop
		for _, s := range n.Regions {
			if d.roots(s) {
				alive = true
			}
		}
		if alive {
			d.keep(n)
			found = true
		}
	}
	return found
}

// keep marks a node and what it needs whatever becomes of its results.
func (d *dropper) keep(n *Node) {
	if n.mark != 0 {
		return
	}
	n.mark = 1
	switch n.Op {
	case Loop:
		if n.Counted {
			d.need(n.Args[0])
		}
	case Br: // what it carries is needed if the target's results are
	default:
		d.need(n.Args...)
	}
}

// trace marks what v is made from.
func (d *dropper) trace(v *Value) {
	if r := v.Param; r != nil {
		d.carried(r.loop, int(v.Index))
		return
	}
	n := v.Node
	d.keep(n)
	if len(n.Regions) > 0 {
		d.carried(n, int(v.Index))
	}
}

// carried marks all that may become value i of n.
func (d *dropper) carried(n *Node, i int) {
	d.f.work.Step(len(n.Regions) + len(n.brs))
	if n.Op == Loop {
		d.need(n.Regions[0].Params[i], n.Args[len(n.Args)-len(n.Regions[0].Params)+i])
	}
	for _, s := range n.Regions {
		if !s.Ends() {
			d.need(s.Yield[i])
		}
	}
	for _, br := range n.brs {
		d.need(br.Args[i])
	}
}

func (d *dropper) sweep(r *Region) {
	out := r.Nodes[:0]
	d.f.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		if n.mark == 0 {
			d.changed = true
			continue
		}
		out = append(out, n)
		carried := n.Results
		if n.Op == Loop {
			carried = n.Regions[0].Params
		}
		if len(n.Regions) > 0 && len(carried) > 0 {
			drop := make([]bool, len(carried))
			for i, v := range carried {
				drop[i] = v.mark == 0
			}
			if dropCarried(n, drop) {
				d.changed = true
			}
		}
		for _, s := range n.Regions {
			d.sweep(s)
		}
	}
	clear(r.Nodes[len(out):])
	r.Nodes = out
}
