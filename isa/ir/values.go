package ir

// find returns the value that has taken v's place, v itself if none has.
func (v *Value) find() *Value {
	if v.repl == nil {
		return v
	}
	root := v.repl
	for root.repl != nil {
		root = root.repl
	}
	for v != root {
		v, v.repl = v.repl, root
	}
	return root
}

// resolve puts in a list the values that have taken others' places. Passes
// that replace values go forward, so a use is met after its replacement is
// known; what they meet they resolve.
func resolve(list []*Value) {
	for i, v := range list {
		if v.repl != nil {
			list[i] = v.find()
		}
	}
}

// linkBrs lists in each construct the Brs to it, and leads from regions with
// parameters to their loops.
func linkBrs(r *Region) {
	for _, n := range r.Nodes {
		if n.Op == Br {
			if n.Target != nil {
				n.Target.brs = append(n.Target.brs, n)
			}
			continue
		}
		if len(n.Regions) == 0 {
			continue
		}
		if n.links == nil {
			n.links = &links{}
		}
		n.brs = n.brs[:0]
		for _, s := range n.Regions {
			s.loop = n
			linkBrs(s)
		}
	}
}
