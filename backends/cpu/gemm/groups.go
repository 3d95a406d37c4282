package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// Packing of elements for units that multiply groups, pairs of 16 bits or fours of 8. B
// becomes tiles: a row has 16 columns' groups of elements that follow each other along k, a
// tile has a step of k; those of two columns of tiles lie by turns. A, where it is packed,
// becomes tiles of 16 rows of a step each, by turns with those below if a panel has such.

// words loads 32 elements, of which some may be masked, as such of 16 bits.
func (g *maker) words(d x86.Reg, m x86.Mem, k x86.Reg) {
	f := x86.MovW
	if g.s.unit.size() == 1 {
		f = x86.ZxBW
	}
	g.Emit(f, x86.Inst{VL: 64, D: d, IsMem: true, Mem: m, K: k, Zero: k != 0})
}

// flipReg has the bits that are turned over in what is packed of B, where the unit wants that.
const flipReg x86.Reg = 29

// flips loads it.
func (g *maker) flips(by x86.Reg) {
	if g.s.unit.flips() {
		g.MovImm(by, signBits)
		g.Emit(x86.BcastDGPR, x86.Inst{VL: 64, D: flipReg, B: by})
	}
}

// flip turns over what of groups is to be.
func (g *maker) flip(r x86.Reg) {
	if g.s.unit.flips() {
		g.op(x86.XorD, r, r, flipReg)
	}
}

// interleaver makes tiles of B's rows of k: count groups of rows, srcStep apart, tiles pairs
// of tiles wide, of which the last ones' columns are masked. s.rows of a group are there, the
// others count as zero.
func interleaver(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const from, to, step, step3, count, next, tiles, src, dst, origin = x86.RSI, x86.RDX, x86.R8, x86.R9, x86.RCX, x86.R10, x86.RAX, x86.RBX, x86.RBP, x86.R11
	low, high := g.NewLabel(), g.NewLabel()
	for i, l := range []x86.Label{low, high} {
		g.Emit(x86.MovUPS, x86.Inst{VL: 64, D: 30 + x86.Reg(i), IsMem: true, Mem: x86.Mem{Label: l}})
	}
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileMask})
	g.flips(src)
	g.Load(x86.W64, src, tileSrc)
	g.Load(x86.W64, dst, tileDst)
	g.Load(x86.W64, origin, tileOrigin)
	g.Load(x86.W64, step, tileSrcSt)
	g.Lea(step3, x86.Mem{Base: step, Index: step, Scale: 2})
	g.Load(x86.W64, next, tileDstNx)
	g.Load(x86.W64, count, tileCount)
	down := g.NewLabel()
	g.Bind(down)
	g.Mov(x86.W64, from, src)
	g.Mov(x86.W64, to, dst)
	g.Load(x86.W64, tiles, tileTiles)
	one := func(k x86.Reg) {
		rows := [...]x86.Mem{x86.At(from, 0), {Base: from, Index: step, Scale: 1}, {Base: from, Index: step, Scale: 2}, {Base: from, Index: step3, Scale: 1}}
		// half makes 32 elements of 16 bits of one row, or two.
		each := len(rows) / int(s.unit.size()) / 2
		half := func(d x86.Reg, first int) {
			if first >= s.rows {
				g.op(x86.XorD, d, d, d)
				return
			}
			g.words(d, rows[first], k)
			if each > 1 && first+1 < s.rows {
				g.words(3, rows[first+1], k)
				g.Emit(x86.SllW, x86.Inst{VL: 64, D: 3, B: 3, Imm: 8})
				g.op(x86.OrD, d, d, 3)
			}
		}
		half(0, 0)
		half(2, each)
		g.Emit(x86.MovAPS, x86.Inst{VL: 64, D: 1, B: 0})
		g.op(x86.PermW2, 0, 30, 2)
		g.op(x86.PermW2, 1, 31, 2)
		for i := range x86.Reg(2) {
			g.flip(i)
			g.store(x86.At(to, int32(i)*tileBytes), i, false)
		}
	}
	g.lastMasked(tiles, one, func() {
		g.OpImm(x86.ADD, x86.W64, from, 2*tileRows*int32(s.unit.size()))
		g.Op(x86.ADD, x86.W64, to, next)
	})
	g.Lea(src, x86.Mem{Base: src, Index: step, Scale: uint8(s.unit.group())})
	g.OpImm(x86.ADD, x86.W64, dst, 64)
	inside := g.NewLabel()
	g.Mov(x86.W64, tiles, dst)
	g.Op(x86.SUB, x86.W64, tiles, origin)
	g.OpImm(x86.AND, x86.W32, tiles, tileBytes-1)
	g.Jcc(x86.NE, inside)
	g.OpImm(x86.ADD, x86.W64, dst, tileBytes)
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

// tilesOf begins code that makes tiles of elements from R8 on, srcStep apart, R9, in K1 those
// that are there.
func tilesOf(s tile, to, count x86.Reg) *maker {
	g := newMaker(machine{true, 64}, s)
	g.save()
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileMask})
	g.Load(x86.W64, x86.R8, tileSrc)
	g.Load(x86.W64, x86.R9, tileSrcSt)
	g.Load(x86.W64, to, tileDst)
	g.Load(x86.W64, count, tileCount)
	return g
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
	const to, count, next = x86.RDX, x86.RCX, x86.R11
	g := tilesOf(s, to, count)
	g.flips(next)
	g.Load(x86.W64, next, tileDstNx)
	row := g.rowsBy8()
	one := func(k x86.Reg) {
		for i := range s.rows {
			if s.unit.size() == 1 {
				g.Emit(x86.MovB, x86.Inst{VL: 64, D: x86.Reg(i), IsMem: true, Mem: row(i), K: k, Zero: k != 0})
			} else {
				g.words(x86.Reg(i), row(i), k)
			}
			if s.along {
				g.store(x86.At(to, int32(64*i)), x86.Reg(i), false)
			}
		}
		if !s.along {
			for i, r := range g.transposed16() {
				g.flip(r)
				g.store(x86.At(to, int32(64*i)), r, false)
			}
		}
	}
	g.lastMasked(count, one, func() {
		g.OpImm(x86.ADD, x86.W64, x86.R8, 64)
		g.OpImm(x86.ADD, x86.W64, x86.R10, 64)
		g.Op(x86.ADD, x86.W64, to, next)
	})
	return g.end()
}

// tilesOfRows makes tiles of A's columns, each of whose 16 elements lie side by side and of
// which some are masked: count steps of elements that lie srcStep apart, or one of s.rows.
func tilesOfRows(s tile) ([]byte, error) {
	const to, count, next = x86.RDX, x86.RCX, x86.R11
	g := tilesOf(s, to, count)
	g.Load(x86.W64, next, tileDstNx)
	loop := g.NewLabel()
	g.Bind(loop)
	const other = 16
	group, bits := int(s.unit.group()), uint8(8*s.unit.size())
	wide := map[int64]*x86.Form{1: x86.ZxBD, 2: x86.ZxWD}[s.unit.size()]
	for i := range x86.Reg(tileRows) {
		if group*int(i) >= s.rows {
			g.op(x86.XorD, i, i, i)
		}
		for e := range min(group, s.rows-group*int(i)) {
			d := x86.Reg(other)
			if e == 0 {
				d = i
			}
			g.Emit(wide, x86.Inst{VL: 64, D: d, IsMem: true, Mem: x86.At(x86.R8, 0), K: 1, Zero: true})
			g.Op(x86.ADD, x86.W64, x86.R8, x86.R9)
			if e > 0 {
				g.Emit(x86.SllD, x86.Inst{VL: 64, D: d, B: d, Imm: uint8(e) * bits})
				g.op(x86.OrD, i, i, d)
			}
		}
	}
	g.storeTransposed(to, 0)
	g.Op(x86.ADD, x86.W64, to, next)
	g.OpImm(x86.SUB, x86.W64, count, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}
