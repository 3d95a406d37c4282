package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// Packing of elements of 16 bits for units that multiply pairs. B becomes tiles: a row has
// 16 columns' pairs of elements that follow each other along k, a tile has 32 of k; those
// of two columns of tiles lie by turns. A, where it is packed, becomes tiles of 16 rows of
// 32 elements each, by turns with those below.

// interleaver makes tiles of B's rows of k: count pairs of rows, srcStep apart, tiles pairs
// of tiles wide, of which the last ones' columns are masked. with along the last row has no
// other, which counts as zero.
func interleaver(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const from, to, step, count, next, tiles, src, dst = x86.RSI, x86.RDX, x86.R8, x86.RCX, x86.R10, x86.RAX, x86.RBX, x86.RBP
	low, high := g.NewLabel(), g.NewLabel()
	for i, l := range []x86.Label{low, high} {
		g.Emit(x86.MovUPS, x86.Inst{VL: 64, D: 30 + x86.Reg(i), IsMem: true, Mem: x86.Mem{Label: l}})
	}
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileMask})
	g.Load(x86.W64, src, tileSrc)
	g.Load(x86.W64, dst, tileDst)
	g.Load(x86.W64, step, tileSrcSt)
	g.Load(x86.W64, next, tileDstNx)
	g.Load(x86.W64, count, tileCount)
	down := g.NewLabel()
	g.Bind(down)
	g.Mov(x86.W64, from, src)
	g.Mov(x86.W64, to, dst)
	g.Load(x86.W64, tiles, tileTiles)
	one := func(k x86.Reg) {
		load := func(d x86.Reg, m x86.Mem) {
			g.Emit(x86.MovW, x86.Inst{VL: 64, D: d, IsMem: true, Mem: m, K: k, Zero: k != 0})
		}
		load(0, x86.At(from, 0))
		g.Emit(x86.MovAPS, x86.Inst{VL: 64, D: 1, B: 0})
		if s.along {
			g.op(x86.XorD, 2, 2, 2)
		} else {
			load(2, x86.Mem{Base: from, Index: step, Scale: 1})
		}
		g.op(x86.PermW2, 0, 30, 2)
		g.op(x86.PermW2, 1, 31, 2)
		g.store(x86.At(to, 0), 0, false)
		g.store(x86.At(to, tileBytes), 1, false)
	}
	g.lastMasked(tiles, one, func() {
		g.OpImm(x86.ADD, x86.W64, from, 64)
		g.Op(x86.ADD, x86.W64, to, next)
	})
	g.Lea(src, x86.Mem{Base: src, Index: step, Scale: 2})
	g.OpImm(x86.ADD, x86.W64, dst, 64)
	inside := g.NewLabel()
	g.Mov(x86.W64, tiles, dst)
	g.OpImm(x86.AND, x86.W32, tiles, tileBytes-1)
	g.Jcc(x86.NE, inside)
	g.OpImm(x86.ADD, x86.W64, dst, tileBytes) // tiles begin at multiples of their size
	g.Bind(inside)
	g.OpImm(x86.SUB, x86.W64, count, 1)
	g.Jcc(x86.NE, down)
	g.leave()
	g.Align(64)
	for i, l := range []x86.Label{low, high} {
		g.Bind(l)
		for w := range 16 {
			at := byte(16*i + w)
			g.Code = append(g.Code, at, 0, at+32, 0)
		}
	}
	err := g.Finish()
	return g.Code, err
}

// lastMasked does one, and goes forward, so many times as a register says, which it counts
// down. The last is done with the mask of K1, the others with none, K0.
func (g *maker) lastMasked(count x86.Reg, one func(k x86.Reg), forward func()) {
	loop, last := g.NewLabel(), g.NewLabel()
	g.Bind(loop)
	g.OpImm(x86.SUB, x86.W64, count, 1)
	g.Jcc(x86.E, last)
	one(0)
	forward()
	g.Jmp(loop)
	g.Bind(last)
	one(1)
}

// rowsBy8 reaches 16 rows, R8 on, srcStep apart: half of them from R10.
func (g *maker) rowsBy8() func(i int) x86.Mem {
	by := g.multiplesOf(x86.R9, x86.RBX, x86.RBP, x86.R12)
	g.Lea(x86.R10, x86.Mem{Base: x86.R8, Index: x86.R9, Scale: 8})
	return func(i int) x86.Mem {
		return by[i&7].of([2]x86.Reg{x86.R8, x86.R10}[i>>3], 0)
	}
}

// tilesOfColumns makes tiles of B's columns, so many as s.rows says, that lie srcStep apart
// and have k's elements side by side: count steps, of the last of which the elements are
// masked. With along it is rows of A, which stay rows.
func tilesOfColumns(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const to, count = x86.RDX, x86.RCX
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileMask})
	g.Load(x86.W64, x86.R8, tileSrc)
	g.Load(x86.W64, x86.R9, tileSrcSt)
	g.Load(x86.W64, to, tileDst)
	g.Load(x86.W64, count, tileCount)
	row := g.rowsBy8()
	one := func(k x86.Reg) {
		for i := range s.rows {
			g.Emit(x86.MovW, x86.Inst{VL: 64, D: x86.Reg(i), IsMem: true, Mem: row(i), K: k, Zero: k != 0})
			if s.along {
				g.store(x86.At(to, int32(64*i)), x86.Reg(i), false)
			}
		}
		if !s.along {
			g.transpose16(func(i int, r x86.Reg) { g.store(x86.At(to, int32(64*i)), r, false) })
		}
	}
	g.lastMasked(count, one, func() {
		g.OpImm(x86.ADD, x86.W64, x86.R8, 64)
		g.OpImm(x86.ADD, x86.W64, x86.R10, 64)
		g.OpImm(x86.ADD, x86.W64, to, stepBytes)
	})
	return g.end()
}

// tilesOfRows makes tiles of A's columns, each of whose 16 elements lie side by side and of
// which some are masked: count steps of 32 that lie srcStep apart, or one step of s.rows.
func tilesOfRows(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const to, count = x86.RDX, x86.RCX
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileMask})
	g.Load(x86.W64, x86.R8, tileSrc)
	g.Load(x86.W64, x86.R9, tileSrcSt)
	g.Load(x86.W64, to, tileDst)
	g.Load(x86.W64, count, tileCount)
	loop := g.NewLabel()
	g.Bind(loop)
	const odd = 16
	for i := range x86.Reg(tileRows) {
		load := func(d x86.Reg) {
			g.Emit(x86.ZxWD, x86.Inst{VL: 64, D: d, IsMem: true, Mem: x86.At(x86.R8, 0), K: 1, Zero: true})
			g.Op(x86.ADD, x86.W64, x86.R8, x86.R9)
		}
		if 2*int(i) >= s.rows {
			g.op(x86.XorD, i, i, i)
			continue
		}
		load(i)
		if 2*int(i)+1 < s.rows {
			load(odd)
			g.Emit(x86.SllD, x86.Inst{VL: 64, D: odd, B: odd, Imm: 16})
			g.op(x86.OrD, i, i, odd)
		}
	}
	g.transpose16(func(i int, r x86.Reg) { g.store(x86.At(to, int32(64*i)), r, false) })
	g.OpImm(x86.ADD, x86.W64, to, stepBytes)
	g.OpImm(x86.SUB, x86.W64, count, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}
