package jit

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
)

// Numbers that all lanes have, and how they are kept in registers.

// numberKey is a number's bits, and bytes: what it is found by.
type numberKey struct {
	bits uint64
	size uint8
}

// constant is a register that holds a cell in all lanes.
func (g *gen) constant(t isa.Type, cell uint64) vreg {
	if t == isa.Pred {
		if cell&1 != 0 {
			return g.full
		}
		return g.noLanes()
	}
	return g.number(g.regSize(t), g.registerForm(t, cell))
}

// number is a register with the same number in all lanes.
func (g *gen) number(size int, bits uint64) vreg {
	switch size { // of packed integers there are several in what is kept of a constant
	case 1:
		size, bits = 4, bits&0xff*0x01010101
	case 2:
		size, bits = 4, bits&0xffff*0x00010001
	}
	if size == 4 {
		bits &= 1<<32 - 1
	}
	key := numberKey{bits, uint8(size)}
	if r, ok := g.consts[key]; ok {
		return r
	}
	r := g.newReg(classVec)
	g.info[r].constant, g.info[r].bits, g.info[r].size = true, bits, uint8(size)
	g.consts[key] = r
	vl := g.vl(size)
	g.pro = append(g.pro, inst{d: r, inner: true, pure: true, emit: func(e *encoder, in *inst) {
		if x := &e.info[in.d]; x.reg != x86.None {
			e.broadcast(x.reg, x, vl)
		}
	}})
	return r
}

func (g *gen) f32(bits uint32) vreg { return g.number(4, uint64(bits)) }

// regSize is the bytes that an element of a type takes in registers where nothing is
// packed: integers of up to 32 bits are kept extended, 16-bit floats as f32.
func regSize(t isa.Type) int {
	if t.Size() == 8 {
		return 8
	}
	return 4
}

// The integers of so many bytes, as which what has no type of its own is compared.
var (
	signedOf   = map[int]isa.Type{1: isa.I8, 2: isa.I16, 4: isa.I32, 8: isa.I64}
	unsignedOf = map[int]isa.Type{1: isa.U8, 2: isa.U16, 4: isa.U32, 8: isa.U64}
)

// registerForm is how a cell is kept in a register.
func registerForm(t isa.Type, cell uint64) uint64 {
	switch {
	case t.Signed():
		s := 64 - t.Bits()
		return uint64(int64(cell<<s) >> s)
	case t == isa.BF16:
		return cell << 16
	case t == isa.F16:
		return widenF16(cell)
	}
	return cell
}
