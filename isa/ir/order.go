package ir

import (
	"cmp"
	"math/bits"
	"slices"
)

// order brings nodes, results and parameters into an order that does not
// depend on the one they were written in. What has effects is scheduled first:
// nodes that must keep their order do, others go by hash. Everything else,
// loads included, comes right before its first use. Results of constructs and
// parameters of loops go by hash. Ties keep program order.
func order(f *Func) bool {
	summarize(f)
	hashAll(f)
	o := &orderer{f: f}
	for _, v := range f.leaves.list {
		v.mark = -1
	}
	o.carried(f.Body)
	o.region(f.Body, 0)
	return true
}

type orderer struct {
	f *Func
	// path holds the constructs around the region at hand, the one at depth d
	// a node of the region at depth d.
	path []*Node
}

// carried sorts what constructs carry.
func (o *orderer) carried(r *Region) {
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			o.carried(s)
		}
		list := n.Results
		if n.Op == Loop {
			list = n.Regions[0].Params
		}
		if len(n.Regions) == 0 || len(list) < 2 {
			continue
		}
		perm := make([]int, len(list))
		for i := range perm {
			perm[i] = i
		}
		slices.SortStableFunc(perm, func(i, j int) int { return cmp.Compare(list[i].hash(), list[j].hash()) })
		if slices.IsSorted(perm) {
			continue
		}
		if n.Op == Loop {
			permute(n.Args[len(n.Args)-len(list):], perm)
			permute(list, perm)
			reindex(list)
		}
		if len(n.Results) > 0 {
			permute(n.Results, perm)
			reindex(n.Results)
		}
		for _, s := range n.Regions {
			if !s.Ends() {
				permute(s.Yield, perm)
			}
		}
		for _, br := range n.brs {
			permute(br.Args, perm)
		}
	}
}

func permute(list []*Value, perm []int) {
	old := slices.Clone(list)
	for i, j := range perm {
		list[i] = old[j]
	}
}

// region orders r, which is at the given depth, inner regions first.
func (o *orderer) region(r *Region, depth int) {
	d := int32(depth)
	for _, v := range r.Params {
		v.mark = d
	}
	for _, n := range r.Nodes {
		for _, v := range n.Results {
			v.mark = d
		}
		if n.links != nil {
			n.deps = n.deps[:0]
		}
	}
	for _, n := range r.Nodes {
		if len(n.Regions) == 0 {
			continue
		}
		o.path = append(o.path[:depth], n)
		for _, s := range n.Regions {
			o.region(s, depth+1)
		}
	}
	o.nodes(r, d)
}

// nodes orders the nodes of r, whose inner regions are in order. (Not part of
// region, whose frame stands on the stack once for each level.)
func (o *orderer) nodes(r *Region, d int32) {
	s := &schedule{depth: d, nodes: r.Nodes}
	r.Nodes = s.run(r.Yield)
	o.f.work.Step(len(r.Nodes) + len(s.pool) + s.compared)
	// What r uses from outside is used by the construct, around r, that stands
	// where the value comes from.
	outer := func(list []*Value) {
		for _, v := range list {
			if v.mark >= 0 && v.mark < d {
				c := o.path[v.mark]
				c.deps = append(c.deps, v)
			}
		}
	}
	for _, n := range r.Nodes {
		outer(n.Args)
	}
	outer(r.Yield)
}

// schedule orders the nodes of one region. Nodes go by their place in nodes;
// behind them come joints, each of which stands for all loads by index up to
// some store, so that the store can depend on them as one.
type schedule struct {
	depth    int32
	nodes    []*Node
	pool     []int32    // what each node comes after, back to back
	span     [][2]int32 // its part of pool
	succ     []int32    // the reverse, back to back
	succEnd  []int32    // where each one's part of succ ends, which begins where the one before ends
	wait     []int32    // how many of what it comes after are not ready
	done     []bool     // emitted
	out      []*Node
	heap     []int32 // nodes with effects that are ready
	quiet    []int32 // others that have become ready and were not looked at
	loads    []int32 // loads by index since the last joint
	compared int
	joint    int32 // the last joint, or −1
	stack    []emitted
	follows  []int32 // by node: the last one found to come after it because of effects, plus one
	writer   [maxPlaces]int32
	reader   [maxPlaces][]int32
}

// emitted is a node on the way of emit, and where it is in the node's part of pool.
type emitted struct{ node, next int32 }

// The places of a schedule: the slots, and the bits of places.other.
const maxPlaces = 64 + 8

func (s *schedule) run(yield []*Value) []*Node {
	n := len(s.nodes)
	body := n
	if ends(s.nodes) {
		body-- // the last node stays last
	}
	if n == 0 {
		return s.nodes
	}
	s.out = make([]*Node, 0, n)
	s.connect(body)
	for i := range int32(len(s.span)) {
		if last := int(i) >= body && int(i) < n; !last && s.wait[i] == 0 {
			s.ready(i)
		}
	}
	s.settle()
	for len(s.heap) > 0 {
		i := s.pop()
		s.emit(i)
		s.release(i)
		s.settle()
	}
	// What the end needs, and what nothing needs but may fault.
	if body < n {
		s.want(s.nodes[body].Args)
		s.want(s.nodes[body].outer())
	} else {
		s.want(yield)
	}
	var rest []int32
	for i := range int32(body) {
		if !s.done[i] {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(rest, s.compare)
	for _, i := range rest {
		s.emit(i)
	}
	return append(s.out, s.nodes[body:]...)
}

// outer returns what the regions of n take from the one that it is in.
func (n *Node) outer() []*Value {
	if n.links == nil {
		return nil
	}
	return n.deps
}

func (s *schedule) want(list []*Value) {
	for _, v := range list {
		if i, ok := s.local(v); ok {
			s.emit(i)
		}
	}
}

// local returns the number of the node that defines v if that is in the region.
func (s *schedule) local(v *Value) (int32, bool) {
	if v.mark != s.depth || v.Node == nil {
		return 0, false
	}
	return v.Node.mark, true
}

// connect finds what each of the first body nodes must come after.
func (s *schedule) connect(body int) {
	for i, n := range s.nodes {
		n.mark = int32(i)
	}
	s.span = make([][2]int32, len(s.nodes), len(s.nodes)+8)
	s.pool = make([]int32, 0, 2*body)
	s.follows = make([]int32, len(s.nodes))
	s.joint = -1
	for i := range s.writer {
		s.writer[i] = -1
	}
	for i := range int32(body) {
		n := s.nodes[i]
		e := n.effects()
		stores := e.writes.other&placeIndexed != 0
		if stores && len(s.loads) > 0 {
			from := int32(len(s.pool))
			s.pool = append(s.pool, s.loads...)
			slices.SortFunc(s.pool[from:], s.compare)
			if s.joint >= 0 {
				s.pool = append(s.pool, s.joint)
			}
			s.joint = int32(len(s.span))
			s.span = append(s.span, [2]int32{from, int32(len(s.pool))})
			s.loads = s.loads[:0]
		}
		from := int32(len(s.pool))
		for _, list := range [2][]*Value{n.Args, n.outer()} {
			for _, v := range list {
				if j, ok := s.local(v); ok && j != i {
					s.pool = append(s.pool, j)
				}
			}
		}
		data := len(s.pool)
		s.conflicts(i, e)
		slices.SortFunc(s.pool[data:], s.compare)
		if stores && s.joint >= 0 {
			s.pool = append(s.pool, s.joint)
		}
		if e.reads.other&placeIndexed != 0 {
			s.loads = append(s.loads, i)
		}
		s.span[i] = [2]int32{from, int32(len(s.pool))}
	}
	m := len(s.span)
	s.follows = nil
	s.succ, s.succEnd = make([]int32, len(s.pool)), make([]int32, m+1)
	s.wait = make([]int32, m)
	s.done = make([]bool, m)
	for _, j := range s.pool {
		s.succEnd[j+1]++
	}
	for j := range m {
		s.succEnd[j+1] += s.succEnd[j]
	}
	for i := range s.span { // each end grows from the beginning to its place
		s.wait[i] = s.span[i][1] - s.span[i][0]
		for _, j := range s.after(int32(i)) {
			s.succ[s.succEnd[j]] = int32(i)
			s.succEnd[j]++
		}
	}
}

// before returns what comes after node i.
func (s *schedule) before(i int32) []int32 {
	from := int32(0)
	if i > 0 {
		from = s.succEnd[i-1]
	}
	return s.succ[from:s.succEnd[i]]
}

func (s *schedule) after(i int32) []int32 { return s.pool[s.span[i][0]:s.span[i][1]] }

// conflicts adds what node i comes after because of its effects e.
func (s *schedule) conflicts(i int32, e effects) {
	each := func(p places, f func(at int)) {
		for w := p.slots; w != 0; w &= w - 1 {
			f(bits.TrailingZeros64(w))
		}
		for w := uint64(p.other & ordered); w != 0; w &= w - 1 {
			f(64 + bits.TrailingZeros64(w))
		}
	}
	if e.reads.none() && e.writes.none() {
		return
	}
	// A barrier, say, follows one and the same node because of every slot.
	follow := func(j int32) {
		if j >= 0 && j != i && s.follows[j] != i+1 {
			s.follows[j] = i + 1
			s.pool = append(s.pool, j)
		}
	}
	each(e.reads, func(p int) { follow(s.writer[p]) })
	each(e.writes, func(p int) {
		if len(s.reader[p]) == 0 {
			follow(s.writer[p])
		}
		for _, r := range s.reader[p] {
			follow(r)
		}
	})
	each(e.reads, func(p int) { s.reader[p] = append(s.reader[p], i) })
	each(e.writes, func(p int) {
		s.writer[p] = i
		s.reader[p] = s.reader[p][:0]
	})
}

// compare orders nodes by hash, then as written.
func (s *schedule) compare(i, j int32) int {
	s.compared++
	if int(i) < len(s.nodes) && int(j) < len(s.nodes) {
		a, b := s.nodes[i], s.nodes[j]
		if c := cmp.Compare(a.rank(), b.rank()); c != 0 {
			return c
		}
		if c := cmp.Compare(a.hash(), b.hash()); c != 0 {
			return c
		}
	}
	return cmp.Compare(i, j)
}

// rank lets stores go by slot before they go by hash, for the reader's sake.
func (n *Node) rank() int { return n.Mem.Slot }

// ready puts node i where its turn is found.
func (s *schedule) ready(i int32) {
	if int(i) < len(s.nodes) && !s.nodes[i].effects().writes.none() {
		s.push(i)
	} else {
		s.quiet = append(s.quiet, i)
	}
}

// release counts node i as out of the way of what comes after it.
func (s *schedule) release(i int32) {
	for _, j := range s.before(i) {
		if s.wait[j]--; s.wait[j] == 0 {
			s.ready(j)
		}
	}
}

// settle releases ready nodes without effects: they are emitted when needed.
func (s *schedule) settle() {
	for len(s.quiet) > 0 {
		i := s.quiet[len(s.quiet)-1]
		s.quiet = s.quiet[:len(s.quiet)-1]
		s.release(i)
	}
}

// emit appends node i after what it needs, in post-order.
func (s *schedule) emit(i int32) {
	if s.done[i] {
		return
	}
	s.done[i] = true
	stack := append(s.stack[:0], emitted{i, s.span[i][0]})
	for len(stack) > 0 {
		t := &stack[len(stack)-1]
		if t.next < s.span[t.node][1] {
			j := s.pool[t.next]
			t.next++
			if !s.done[j] {
				s.done[j] = true
				stack = append(stack, emitted{j, s.span[j][0]})
			}
			continue
		}
		if int(t.node) < len(s.nodes) {
			s.out = append(s.out, s.nodes[t.node])
		}
		stack = stack[:len(stack)-1]
	}
	s.stack = stack
}

func (s *schedule) push(i int32) {
	s.heap = append(s.heap, i)
	for c := len(s.heap) - 1; c > 0; {
		p := (c - 1) / 2
		if s.compare(s.heap[c], s.heap[p]) >= 0 {
			break
		}
		s.heap[c], s.heap[p] = s.heap[p], s.heap[c]
		c = p
	}
}

func (s *schedule) pop() int32 {
	top := s.heap[0]
	last := len(s.heap) - 1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	for p := 0; ; {
		c := 2*p + 1
		if c >= last {
			return top
		}
		if c+1 < last && s.compare(s.heap[c+1], s.heap[c]) < 0 {
			c++
		}
		if s.compare(s.heap[p], s.heap[c]) <= 0 {
			return top
		}
		s.heap[p], s.heap[c] = s.heap[c], s.heap[p]
		p = c
	}
}
