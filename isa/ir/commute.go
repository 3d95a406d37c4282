package ir

// commute puts operands that may be exchanged in the order of what they
// compute, constants last.
func commute(f *Func) bool {
	summarize(f)
	hashAll(f)
	return commuteRegion(f.Body)
}

func commuteRegion(r *Region) bool {
	changed := false
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			if commuteRegion(s) {
				changed = true
			}
		}
		if !n.Op.IsInst() {
			continue
		}
		if n.commutes() && before(n.Args[1], n.Args[0]) {
			n.Args[0], n.Args[1] = n.Args[1], n.Args[0]
			changed = true
		}
	}
	return changed
}

func before(a, b *Value) bool {
	_, ac := a.Const()
	_, bc := b.Const()
	if ac != bc {
		return bc
	}
	return a.hash() < b.hash()
}
