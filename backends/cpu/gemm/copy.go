package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// copier copies count rows of tiles, of so many vectors, that lie srcNext apart, to
// tiles that lie bNext apart; with mask a tile's last vector is not whole, and its other
// elements become zero.
func copier(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	return g.rowByRow(func(from, to x86.Reg) {
		for v := range s.cols {
			g.load(x86.Reg(v&7), x86.At(from, int32(v*m.bytes)), g.last(v))
			g.store(x86.At(to, int32(v*m.bytes)), x86.Reg(v&7), false)
		}
	})
}

// mover copies count rows of so many elements as tiles says, that lie srcNext apart in
// src and bNext apart in dst.
func mover(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	const element = x86.R12
	width := x86.Width(s.t.size())
	return g.rowByRow(func(from, to x86.Reg) {
		g.Load(width, element, x86.At(from, 0))
		g.Store(width, x86.At(to, 0), element)
	})
}

// rowByRow copies what one does for each of count rows, and in these for each of tiles:
// so memory is read best.
func (g *maker) rowByRow(one func(from, to x86.Reg)) ([]byte, error) {
	g.begin()
	g.fetch()
	const from, to, tiles, next, srcNext = x86.RAX, x86.RBX, x86.R10, x86.R11, x86.RBP
	g.Load(x86.W64, next, argBNext)
	g.Load(x86.W64, srcNext, argSrcNx)
	down, across := g.NewLabel(), g.NewLabel()
	g.Bind(down)
	g.Mov(x86.W64, from, regSrc)
	g.Mov(x86.W64, to, regDst)
	g.Load(x86.W64, tiles, argTiles)
	g.Bind(across)
	one(from, to)
	g.Op(x86.ADD, x86.W64, from, srcNext)
	g.Op(x86.ADD, x86.W64, to, next)
	g.OpImm(x86.SUB, x86.W64, tiles, 1)
	g.Jcc(x86.NE, across)
	g.Op(x86.ADD, x86.W64, regSrc, regSrcSt)
	g.Op(x86.ADD, x86.W64, regDst, regDstSt)
	g.OpImm(x86.SUB, x86.W64, regRows, 1)
	g.Jcc(x86.NE, down)
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

// square is the side of the squares that are transposed, 32 bytes; transposer does those of 64 bytes too, for
// vectors of as many, where there are enough rows and columns: so a line is read once.
func square(t number) int64 { return 32 / t.size() }

// transposer transposes squares, of as many vectors of 32 bytes as the tile has columns: so many as tiles says
// that lie one below the other in src, side by side in dst, and of such columns count, side by side in src.
func transposer(s tile) ([]byte, error) {
	m := machine{bytes: 32 * s.cols}
	m.evex = m.bytes == 64
	g := newMaker(m, s)
	g.begin()
	g.fetch()
	src := g.multiplesOf(regSrcSt, x86.RBX, x86.RBP, x86.R12)
	dst := g.multiplesOf(regDstSt, x86.R13, x86.R14, x86.R15)
	side := s.cols * int(square(s.t))
	loop, down := g.NewLabel(), g.NewLabel()
	g.Bind(loop)
	g.Load(x86.W64, x86.RAX, argTiles)
	g.Push(regSrc)
	g.Push(regDst)
	g.Bind(down)
	if m.evex {
		g.wideSquare(side, src, dst)
	} else {
		for h := range 2 {
			g.loadHalf(func(i int) x86.Mem { return src[i].of(regSrc, 16*h) })
			g.columns(h, func(i int) x86.Reg { return columnReg + x86.Reg(i) }, func(p int, from x86.Reg) { g.store(dst[p].of(regDst, 0), from, false) })
		}
	}
	for range side / 4 {
		g.Lea(regSrc, x86.Mem{Base: regSrc, Index: regSrcSt, Scale: 4})
	}
	g.OpImm(x86.ADD, x86.W64, regDst, int32(m.bytes))
	g.OpImm(x86.SUB, x86.W64, x86.RAX, 1)
	g.Jcc(x86.NE, down)
	g.Pop(regDst)
	g.Pop(regSrc)
	g.OpImm(x86.ADD, x86.W64, regSrc, int32(m.bytes))
	for range side / 4 {
		g.Lea(regDst, x86.Mem{Base: regDst, Index: regDstSt, Scale: 4})
	}
	g.OpImm(x86.SUB, x86.W64, regRows, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}

// wideSquare transposes a square of whole lines, of whose rows, and columns, eight are reached from a base.
func (g *maker) wideSquare(side int, src, dst [8]multiple) {
	bases := func(steps [8]multiple, first, next, step x86.Reg) func(i int) x86.Mem {
		if side > len(steps) {
			g.Lea(next, x86.Mem{Base: first, Index: step, Scale: 8})
		}
		return func(i int) x86.Mem {
			if i >= len(steps) {
				return steps[i-len(steps)].of(next, 0)
			}
			return steps[i].of(first, 0)
		}
	}
	from, to := bases(src, regSrc, x86.R10, regSrcSt), bases(dst, regDst, x86.R11, regDstSt)
	rows := make([]x86.Reg, side)
	for i := range rows {
		rows[i] = x86.Reg(i)
		g.load(rows[i], from(i), false)
	}
	columns, _ := g.transposed(rows, x86.Reg(side))
	for i, column := range columns {
		g.store(to(i), column, false)
	}
}
