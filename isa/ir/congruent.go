package ir

import "github.com/hologram-project/hologram/isa"

// Two parameters of a loop that start alike and are updated alike are always
// equal, though each update is a node of its own: i += 1 and j += 1. That is
// proved by induction. If both are equal at the start of a round, and so the
// operations that lead to their next values have equal operands, both are equal
// at the start of the next.

const (
	// likenDepth is how deep updates are compared for telling which
	// parameters are worth a proof, mostProofs how many are tried for one
	// parameter, provedNodes how many nodes one may take.
	likenDepth  = 3
	mostProofs  = 4
	provedNodes = 64
)

// computes reports whether v's node is a function of its operands alone.
func (v *Value) computes() bool {
	return v.Node != nil && v.Node.Op.IsInst() && v.Node.effect()&^isa.MayFault == isa.Pure && len(v.Node.Args) > 0
}

// liken hashes what v computes from outside of the loop and the parameters of
// body, which count as what they start as.
func liken(v *Value, body *Region, inits []*Value, depth int) uint64 {
	v = v.find()
	if v.Param == body {
		v = inits[v.Index].find()
	}
	h := mix(uint64(uint32(v.mark)), uint64(v.Type))
	if v.Node != nil && (v.Node.Op == If || v.Node.Op == Block) {
		return h // the same for all results: mark is that of their node
	}
	if !v.computes() {
		return mix(h, uint64(v.Index))
	}
	n := v.Node
	h = mix(formHash(n), n.Imm)
	if depth > 0 {
		sum := uint64(0) // whatever the order: commutes is for the proof
		for _, a := range n.Args {
			sum += liken(a, body, inits, depth-1)
		}
		h = mix(h, sum)
	}
	return h
}

// proof shows that p and q are always equal.
type proof struct {
	p, q *Value
	left int // nodes it may still look at
}

// equal reports whether x and y are equal in a round where p and q are.
func (c *proof) equal(x, y *Value) bool {
	x, y = x.find(), y.find()
	if x == y || x == c.p && y == c.q || x == c.q && y == c.p {
		return true
	}
	if c.left--; c.left < 0 {
		return false
	}
	if n := x.Node; n != nil && n == y.Node && (n.Op == If || n.Op == Block) {
		return c.results(n, int(x.Index), int(y.Index))
	}
	if !x.computes() || !y.computes() {
		return false
	}
	n, m := x.Node, y.Node
	if n.Op != m.Op || n.Form != m.Form || n.Imm != m.Imm || len(n.Args) != len(m.Args) {
		return false
	}
	if n.commutes() {
		return (c.equal(n.Args[0], m.Args[0]) && c.equal(n.Args[1], m.Args[1]) ||
			c.equal(n.Args[0], m.Args[1]) && c.equal(n.Args[1], m.Args[0])) && c.rest(n, m, 2)
	}
	return c.rest(n, m, 0)
}

// results reports whether results i and j of an If or Block are equal whichever
// way they come.
func (c *proof) results(n *Node, i, j int) bool {
	for _, r := range n.Regions {
		if !r.Ends() && !c.equal(r.Yield[i], r.Yield[j]) {
			return false
		}
	}
	for _, br := range n.brs {
		if !c.equal(br.Args[i], br.Args[j]) {
			return false
		}
	}
	return true
}

func (c *proof) rest(n, m *Node, from int) bool {
	for i := from; i < len(n.Args); i++ {
		if !c.equal(n.Args[i], m.Args[i]) {
			return false
		}
	}
	return true
}
