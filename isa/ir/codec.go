package ir

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// bytesVersion begins the canonical bytes; it rises when their layout or the
// passes' result changes, so that no cache mistakes old for new.
const bytesVersion = "hologram ir 3\n"

// Bytes returns the canonical bytes of a finished Func: all that bears on what
// it computes, and nothing else. Names, sources and sites are not in them, nor
// what follows from the rest: Slots, PoolBytes and the numbers of values.
func (f *Func) Bytes() []byte {
	e := &encoder{b: make([]byte, 0, 256), depth: map[*Node]int{}}
	e.all(f)
	return e.b
}

// Hash names what f computes: the SHA-256 of its canonical bytes.
func (f *Func) Hash() (sum [32]byte) {
	h := sha256.New()
	e := &encoder{b: make([]byte, 0, 2*piece), depth: map[*Node]int{}, to: h}
	e.all(f)
	_, _ = h.Write(e.b) // it never fails
	h.Sum(sum[:0])
	return sum
}

func (e *encoder) all(f *Func) {
	e.b = append(e.b, bytesVersion...)
	e.num(uint64(len(f.SlotTypes)))
	for _, t := range f.SlotTypes {
		e.b = append(e.b, byte(t))
	}
	e.num(uint64(len(f.ParamTypes)))
	own := len(f.ParamTypes) - len(f.Given)
	for _, t := range f.ParamTypes[:own] {
		e.b = append(e.b, byte(t))
	}
	for _, g := range f.Given {
		e.b = append(e.b, 0x80|byte(g.Kind), byte(g.Of)) // no type has that bit
	}
	e.num(uint64(len(f.Data)))
	for _, d := range f.Data {
		e.b = append(e.b, byte(d.Type))
		e.num(uint64(len(d.Values)))
		for _, v := range d.Values {
			e.num(v)
			e.pass()
		}
	}
	e.num(uint64(f.Shared))
	for _, x := range f.Block {
		e.num(uint64(x))
	}
	e.region(f.Body, 1)
}

// encoder writes numbers as varints and lists with their length in front, so
// that no two Funcs share an encoding.
type encoder struct {
	b     []byte
	depth map[*Node]int // of the constructs around the region at hand
	to    hash.Hash     // gets the bytes in pieces, which are many of a large program; nil: they stay in b
}

// piece is how many bytes are passed on together, at least.
const piece = 1 << 12

// pass passes on what there is, if that is much.
func (e *encoder) pass() {
	if e.to != nil && len(e.b) >= piece {
		_, _ = e.to.Write(e.b)
		e.b = e.b[:0]
	}
}

func (e *encoder) num(x uint64) { e.b = binary.AppendUvarint(e.b, x) }

func (e *encoder) values(list []*Value) {
	e.num(uint64(len(list)))
	for _, v := range list {
		e.num(uint64(v.ID))
	}
}

// defs writes types only: values are numbered in the order of definition.
func (e *encoder) defs(list []*Value) {
	e.num(uint64(len(list)))
	for _, v := range list {
		e.b = append(e.b, byte(v.Type))
	}
}

func (e *encoder) region(r *Region, depth int) {
	e.defs(r.Params)
	e.num(uint64(len(r.Nodes)))
	for _, n := range r.Nodes {
		e.node(n, depth)
	}
	e.values(r.Yield)
}

func (e *encoder) node(n *Node, depth int) {
	e.pass()
	e.num(uint64(n.Op))
	flags := byte(0)
	for i, set := range []bool{n.Counted, n.Free, n.Mem.HasOff} {
		if set {
			flags |= 1 << i
		}
	}
	e.b = append(e.b, byte(n.Type), byte(n.From), byte(n.Cond), flags, byte(n.Mem.Mode))
	e.num(n.Imm)
	if n.Mem.Mode != 0 {
		e.num(uint64(n.Mem.Slot))
		e.num(uint64(n.Mem.Offset))
	}
	e.values(n.Args)
	if n.Op == Br {
		e.num(uint64(e.depth[n.Target]))
	}
	if len(n.Regions) > 0 {
		e.depth[n] = depth
		for _, r := range n.Regions {
			e.region(r, depth+1)
		}
		delete(e.depth, n)
	}
	e.defs(n.Results)
}
