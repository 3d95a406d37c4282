package ir

import "github.com/hologram-project/hologram/isa"

// mix stirs x into h. (The constants are those of MurmurHash3's finalizer.)
func mix(h, x uint64) uint64 {
	h ^= x + 0x9e3779b97f4a7c15 + h<<6 + h>>2
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hashRounds bounds how often loop parameters are told apart more finely.
const hashRounds = 6

// hashAll gives every value and node a hash of what it computes: of operation
// and operands, and, where memory is read, of how much was written before. It
// does not depend on names, nor on the order of independent instructions, so
// it can put them in order. Equal hashes do not prove equality.
//
// A loop parameter starts as the hash of its initial value; a round over the
// whole program adds what comes back to it, until no more are told apart.
func hashAll(f *Func) {
	linkBrs(f.Body)
	for _, v := range f.leaves.list {
		n := v.Node
		v.setHash(mix(mix(formHash(n), n.Imm), uint64(v.Type)))
	}
	h := &hasher{f: f}
	classes := 0
	for range hashRounds {
		h.memory = memoryCount{}
		h.seen = map[uint64]bool{}
		h.region(f.Body, 1)
		if len(h.seen) <= classes {
			return
		}
		classes = len(h.seen)
		h.refine = true
	}
}

// hasher walks once over the program in each round.
type hasher struct {
	f      *Func
	refine bool // there was a round before: links.back is set
	seen   map[uint64]bool
	memory memoryCount
}

// memoryCount counts the writes to each place. Writes to one place keep their
// order, so a count says which of them a read comes after.
type memoryCount struct {
	slot                     [isa.MaxSlots]uint32
	all, shared, phase, pool uint32
}

func (m *memoryCount) write(p places) {
	if p.slots != 0 {
		m.all++
		for s := range m.slot {
			if p.slots&(1<<s) != 0 {
				m.slot[s]++
			}
		}
	}
	if p.other&placeShared != 0 {
		m.shared++
	}
	if p.other&placePhase != 0 {
		m.phase++
	}
	if p.other&placePool != 0 {
		m.pool++
	}
}

// of hashes the counts of what n touches.
func (m *memoryCount) of(n *Node) uint64 {
	h := uint64(0)
	switch n.Mem.Mode {
	case isa.AddrIndex, isa.AddrByte:
		h = uint64(m.slot[n.Mem.Slot])
	case isa.AddrShared:
		h = uint64(m.shared)
	case isa.AddrIndirect:
		h = uint64(m.all)
	}
	switch w := n.effects().writes; {
	case w.slots == allSlots && w.other&placeShared != 0: // a barrier or a fence
		h = mix(h, uint64(m.shared)<<32|uint64(m.all))
	case w.other&placePhase != 0:
		h = mix(h, uint64(m.phase))
	case w.other&placePool != 0:
		h = mix(h, uint64(m.pool))
	}
	return h
}

func formHash(n *Node) uint64 {
	return mix(uint64(n.Op), uint64(n.Type)<<16|uint64(n.From)<<8|uint64(n.Cond))
}

func (h *hasher) region(r *Region, depth uint64) {
	h.f.work.Step(1 + len(r.Nodes))
	for _, n := range r.Nodes {
		switch n.Op {
		case If, Block:
			h.construct(n, depth)
		case Loop:
			h.loop(n, depth)
		default:
			h.inst(n)
		}
	}
}

func (h *hasher) inst(n *Node) {
	x := mix(formHash(n), n.Imm)
	if n.Op == Op(isa.LDC) {
		x = mix(formHash(n), h.f.tables[n.Imm])
	}
	if n.Mem.Mode != 0 {
		x = mix(x, uint64(n.Mem.Mode)<<32|uint64(n.Mem.Slot))
		x = mix(x, uint64(n.Mem.Offset))
	}
	x = mix(x, h.memory.of(n))
	args := n.Args
	if n.Op.IsInst() && n.commutes() {
		a, b := args[0].hash(), args[1].hash()
		x = mix(mix(x, min(a, b)), max(a, b))
		args = args[2:]
	}
	for _, a := range args {
		x = mix(x, a.hash())
	}
	n.setHash(x)
	for _, v := range n.Results {
		v.setHash(x)
	}
	h.memory.write(n.effects().writes)
}

// within hashes the nodes of a region that do more than give results.
func within(r *Region) uint64 {
	x := uint64(0)
	for _, n := range r.Nodes {
		if n.effects().rooted() {
			x += mix(n.hash(), 1)
		}
	}
	return x
}

func (h *hasher) construct(n *Node, depth uint64) {
	x := uint64(n.Op)
	if n.Op == If {
		x = mix(x, n.Args[0].hash())
	}
	effect := x
	for _, s := range n.Regions {
		h.region(s, depth+1)
		effect = mix(effect, within(s))
	}
	n.setHash(effect)
	h.f.work.Step(len(n.Results) * (2 + len(n.brs)))
	for i, v := range n.Results {
		y := x
		for _, s := range n.Regions {
			if s.Ends() {
				y = mix(y, 0)
			} else {
				y = mix(y, s.Yield[i].hash())
			}
		}
		for _, br := range n.brs {
			y = mix(y, br.Args[i].hash())
		}
		v.setHash(y)
	}
	h.memory.write(n.effects().writes)
}

func (h *hasher) loop(n *Node, depth uint64) {
	h.memory.write(n.effects().writes)
	body := n.Regions[0]
	inits := n.Args[len(n.Args)-len(body.Params):]
	x := mix(uint64(n.Op), depth)
	if n.Counted {
		x = mix(x, n.Args[0].hash())
	}
	if !h.refine {
		n.back = make([]uint64, len(body.Params))
	}
	for i, p := range body.Params {
		y := mix(x, inits[i].hash())
		if h.refine {
			y = mix(y, n.back[i])
		}
		p.setHash(y)
		h.seen[y] = true
	}
	h.region(body, depth+1)
	h.f.work.Step(len(body.Params) * (1 + len(n.brs)))
	for i, p := range body.Params {
		y := p.hash()
		if !body.Ends() {
			y = mix(y, body.Yield[i].hash())
		}
		for _, br := range n.brs {
			y = mix(y, br.Args[i].hash())
		}
		n.back[i] = y
		if n.Counted {
			n.Results[i].setHash(mix(y, 1))
		}
	}
	n.setHash(mix(x, within(body)))
	h.memory.write(n.effects().writes)
}
