package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// copier copies count rows of tiles, of so many vectors, that lie srcNext apart, to
// tiles that lie bNext apart; with mask a tile's last vector is not whole, and its other
// elements become zero. It goes row by row, as memory is read best.
func copier(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	g.begin()
	g.fetch()
	const from, to, tiles, next, srcNext = x86.RAX, x86.RBX, x86.R10, x86.R11, x86.RBP
	g.Load(x86.W64, next, argBNext)
	g.Load(x86.W64, srcNext, argSrcNx)
	loop, across := g.NewLabel(), g.NewLabel()
	g.Bind(loop)
	g.Mov(x86.W64, from, regSrc)
	g.Mov(x86.W64, to, regDst)
	g.Load(x86.W64, tiles, argTiles)
	g.Bind(across)
	for v := range s.cols {
		g.load(x86.Reg(v&7), x86.At(from, int32(v*m.bytes)), g.last(v))
		g.store(x86.At(to, int32(v*m.bytes)), x86.Reg(v&7), false)
	}
	g.Op(x86.ADD, x86.W64, from, srcNext)
	g.Op(x86.ADD, x86.W64, to, next)
	g.OpImm(x86.SUB, x86.W64, tiles, 1)
	g.Jcc(x86.NE, across)
	g.Op(x86.ADD, x86.W64, regSrc, regSrcSt)
	g.Op(x86.ADD, x86.W64, regDst, regDstSt)
	g.OpImm(x86.SUB, x86.W64, regRows, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}

// mover copies count rows of so many elements as tiles says, that lie srcNext apart in
// src and bNext apart in dst.
func mover(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	g.begin()
	g.fetch()
	const from, to, across, next, srcNext, element = x86.RAX, x86.RBX, x86.R10, x86.R11, x86.RBP, x86.R12
	g.Load(x86.W64, next, argBNext)
	g.Load(x86.W64, srcNext, argSrcNx)
	width := x86.W32
	if s.t.size() == 8 {
		width = x86.W64
	}
	loop, one := g.NewLabel(), g.NewLabel()
	g.Bind(loop)
	g.Mov(x86.W64, from, regSrc)
	g.Mov(x86.W64, to, regDst)
	g.Load(x86.W64, across, argTiles)
	g.Bind(one)
	g.Load(width, element, x86.At(from, 0))
	g.Store(width, x86.At(to, 0), element)
	g.Op(x86.ADD, x86.W64, from, srcNext)
	g.Op(x86.ADD, x86.W64, to, next)
	g.OpImm(x86.SUB, x86.W64, across, 1)
	g.Jcc(x86.NE, one)
	g.Op(x86.ADD, x86.W64, regSrc, regSrcSt)
	g.Op(x86.ADD, x86.W64, regDst, regDstSt)
	g.OpImm(x86.SUB, x86.W64, regRows, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}

// Registers of what copies.
const (
	regSrc   = x86.RSI
	regDst   = x86.RDX
	regRows  = x86.RCX
	regSrcSt = x86.R8
	regDstSt = x86.R9
)

func (g *maker) fetch() {
	g.Load(x86.W64, regSrc, argSrc)
	g.Load(x86.W64, regDst, argDst)
	g.Load(x86.W64, regRows, argCount)
	g.Load(x86.W64, regSrcSt, argSrcSt)
	g.Load(x86.W64, regDstSt, argDstSt)
}

// square is the side of the squares that transposer works in, 32 bytes.
func square(t number) int64 { return 32 / t.size() }

// transposer transposes squares: so many as tiles says that lie one below the other
// in src, side by side in dst, and of such columns count, side by side in src.
func transposer(s tile) ([]byte, error) {
	g := newMaker(machine{bytes: 32}, s)
	g.begin()
	g.fetch()
	rows := func(base, step, three, five, seven x86.Reg) (list []x86.Mem) {
		g.Lea(three, x86.Mem{Base: step, Index: step, Scale: 2})
		g.Lea(five, x86.Mem{Base: step, Index: step, Scale: 4})
		g.Lea(seven, x86.Mem{Base: three, Index: step, Scale: 4})
		for _, m := range multiplesOf(step, three, five, seven) {
			list = append(list, x86.Mem{Base: base, Index: m.index, Scale: m.scale})
		}
		return list
	}
	src := rows(regSrc, regSrcSt, x86.RBX, x86.RBP, x86.R12)
	dst := rows(regDst, regDstSt, x86.R13, x86.R14, x86.R15)
	side := int(square(s.t))
	loop, down := g.NewLabel(), g.NewLabel()
	g.Bind(loop)
	g.Load(x86.W64, x86.RAX, argTiles)
	g.Push(regSrc)
	g.Push(regDst)
	g.Bind(down)
	// A register has 16 bytes of row q, and as many of the row half a square on.
	half := func(disp int32) {
		for q := range side / 2 {
			low, high := src[q], src[q+side/2]
			low.Disp, high.Disp = disp, disp
			g.Emit(x86.MovUPS, x86.Inst{VL: 16, D: x86.Reg(q), IsMem: true, Mem: low})
			g.Emit(x86.Insert128, x86.Inst{VL: 32, D: x86.Reg(q), A: x86.Reg(q), IsMem: true, Mem: high, Imm: 1})
		}
	}
	put := func(row int, r x86.Reg) {
		g.Emit(x86.StoreUPS, x86.Inst{VL: 32, D: r, IsMem: true, Mem: dst[row]})
	}
	for h := range 2 {
		half(int32(16 * h))
		if s.t.size() == 8 {
			g.op(x86.UnpackLPD, 4, 0, 1)
			g.op(x86.UnpackHPD, 5, 0, 1)
			put(2*h, 4)
			put(2*h+1, 5)
			continue
		}
		g.op(x86.UnpackLPS, 4, 0, 1)
		g.op(x86.UnpackHPS, 5, 0, 1)
		g.op(x86.UnpackLPS, 6, 2, 3)
		g.op(x86.UnpackHPS, 7, 2, 3)
		for i, x := range []struct {
			a, b x86.Reg
			imm  uint8
		}{{4, 6, 0x44}, {4, 6, 0xEE}, {5, 7, 0x44}, {5, 7, 0xEE}} {
			r := x86.Reg(8 + i)
			g.Emit(x86.ShufPS, x86.Inst{VL: 32, D: r, A: x.a, B: x.b, Imm: x.imm})
			put(4*h+i, r)
		}
	}
	g.Lea(regSrc, x86.Mem{Base: regSrc, Index: regSrcSt, Scale: uint8(side)})
	g.OpImm(x86.ADD, x86.W64, regDst, 32)
	g.OpImm(x86.SUB, x86.W64, x86.RAX, 1)
	g.Jcc(x86.NE, down)
	g.Pop(regDst)
	g.Pop(regSrc)
	g.OpImm(x86.ADD, x86.W64, regSrc, 32)
	g.Lea(regDst, x86.Mem{Base: regDst, Index: regDstSt, Scale: uint8(side)})
	g.OpImm(x86.SUB, x86.W64, regRows, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}
