package gemm

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Products with few columns, of a matrix whose rows lie as rows do: vectors hold
// neighbouring rows' sums, and A's squares are transposed on the way. A tile has
// cols groups of rows side by side, a vector each, and as many of the result's
// columns as rows.

// rowsMachine is that with vectors of 32 bytes, which two ports shuffle.
func rowsMachine(m machine) machine { return machine{m.evex, 32} }

// Registers of this kernel: what squares are loaded into, their parts in between,
// and a column of theirs.
const (
	squareReg  x86.Reg = 0
	betweenReg x86.Reg = 4
	columnReg  x86.Reg = 8
	factorReg  x86.Reg = 9
	rowSumReg  x86.Reg = 10
)

// mostColumns is how many columns of the result such tiles of so many groups have
// at most.
func (m machine) mostColumns(groups int64) int64 {
	return min((int64(m.registers())-int64(rowSumReg))/groups, 4)
}

var groupBases = [...]x86.Reg{x86.R8, x86.R10, x86.R11, x86.R13}

// aheadBytes is how far ahead rows are fetched, to the L2: in the L1 those that lie a multiple
// of a page apart would drive each other out before they are needed.
const aheadBytes = 512

// What no L2 holds, and no L3.
const (
	beyondL2 = 1 << 20
	beyondL3 = 32 << 20
)

// multiple is a multiple of a step, as addresses take it.
type multiple struct {
	index x86.Reg
	scale uint8
}

// of is what lies so many steps behind a base, and so many bytes.
func (x multiple) of(base x86.Reg, disp int) x86.Mem {
	return x86.Mem{Base: base, Index: x.index, Scale: x.scale, Disp: int32(disp)}
}

// multiplesOf has 0 … 7 times the step, for which it makes three, five and seven times
// that; with none of the last two 0 … 4 times.
func (g *maker) multiplesOf(step, three, five, seven x86.Reg) [8]multiple {
	g.Lea(three, x86.Mem{Base: step, Index: step, Scale: 2})
	if five != x86.None {
		g.Lea(five, x86.Mem{Base: step, Index: step, Scale: 4})
		g.Lea(seven, x86.Mem{Base: three, Index: step, Scale: 4})
	}
	return [...]multiple{{x86.None, 1}, {step, 1}, {step, 2}, {three, 1}, {step, 4}, {five, 1}, {three, 2}, {seven, 1}}
}

// oneColumn has each column of a square in the same register.
func oneColumn(int) x86.Reg { return columnReg }

// loadHalf loads half a square, of whose rows each register holds 16 bytes, and as
// many of the row half a square on.
func (g *maker) loadHalf(row func(i int) x86.Mem) {
	side := int(square(g.s.t))
	for q := range side / 2 {
		r := squareReg + x86.Reg(q)
		g.Emit(x86.MovUPS, x86.Inst{VL: 16, D: r, IsMem: true, Mem: row(q)})
		g.Emit(x86.Insert128, x86.Inst{VL: 32, D: r, A: r, IsMem: true, Mem: row(q + side/2), Imm: 1})
	}
}

// columns makes the columns of half h of a square that is loaded, one after the
// other, in registers of the caller's choice. each is told a column's number.
func (g *maker) columns(h int, to func(i int) x86.Reg, each func(p int, from x86.Reg)) {
	t, u := squareReg, betweenReg
	if g.s.t.size() == 8 {
		for i, f := range []*x86.Form{x86.UnpackLPD, x86.UnpackHPD} {
			g.op(f, to(i), t, t+1)
			each(2*h+i, to(i))
		}
		return
	}
	g.op(x86.UnpackLPS, u, t, t+1)
	g.op(x86.UnpackHPS, u+1, t, t+1)
	g.op(x86.UnpackLPS, u+2, t+2, t+3)
	g.op(x86.UnpackHPS, u+3, t+2, t+3)
	for i, imm := range []uint8{0x44, 0xEE, 0x44, 0xEE} {
		a := u + x86.Reg(i/2)
		g.Emit(x86.ShufPS, x86.Inst{VL: 32, D: to(i), A: a, B: a + 2, Imm: imm})
		each(4*h+i, to(i))
	}
}

// byRows is the kernel.
func byRows(m machine, s tile) ([]byte, error) {
	g := newMaker(rowsMachine(m), s)
	g.first, g.free = rowSumReg, [2]x86.Reg{0, 1}
	g.begin()
	const step, colStep = x86.R9, x86.R14
	g.Load(x86.W64, step, argAStep)
	g.Load(x86.W64, colStep, argBStep)
	rows, cols := g.multiplesOf(step, x86.RBX, x86.RBP, x86.R12), g.multiplesOf(colStep, x86.R15, x86.None, x86.None)
	size, side := int(s.t.size()), int(square(s.t))
	row := func(group, i, disp int) x86.Mem { return rows[i].of(groupBases[group], disp) }
	// Groups that take turns share the factors of half a square, if there are registers.
	factors := rowSumReg + x86.Reg(s.rows*s.cols)
	factor := func(c, p int) x86.Reg { return factors + x86.Reg(c*side/2+p%(side/2)) }
	share := s.along && s.cols > 1 && int(factors)+s.rows*side/2 <= m.registers()
	// column adds the products of column p of a square.
	column := func(group, p, disp int, from x86.Reg, shared bool) {
		for c := range s.rows {
			x := cols[c].of(regB, disp+p*size)
			if shared {
				g.op(g.f.fma, g.sum(c, group), from, factor(c, p))
				continue
			}
			if m.evex {
				g.Emit(g.f.fma, x86.Inst{VL: 32, D: g.sum(c, group), A: from, IsMem: true, Mem: x, Broadcast: true})
				continue
			}
			g.broadcast(factorReg, x)
			g.op(g.f.fma, g.sum(c, group), from, factorReg)
		}
	}
	whole := func(group, h, disp int) {
		g.loadHalf(func(i int) x86.Mem { return row(group, i, disp+16*h) })
		g.columns(h, oneColumn, func(p int, from x86.Reg) { column(group, p, disp, from, share) })
	}
	// squares does so many squares of each group: by turns, so that their chains go on
	// side by side, or a group's one after the other, which needs few lines of the
	// cache at a time.
	squares := func(n int) {
		if s.along {
			for h := range 2 * n {
				for i := range s.rows * side / 2 {
					if c, p := i/(side/2), h&1*side/2+i%(side/2); share {
						g.broadcast(factor(c, p), cols[c].of(regB, h/2*32+p*size))
					}
				}
				for i := range s.cols {
					whole(i, h&1, h/2*32)
				}
			}
			return
		}
		for i := range s.cols {
			for h := range 2 * n {
				whole(i, h&1, h/2*32)
			}
		}
	}
	// rest is a square of which only some columns are there, as RCX says.
	rest := func(group int) {
		done := g.NewLabel()
		for h := range 2 {
			load := func(r x86.Reg, m x86.Mem) {
				if g.m.evex {
					g.Emit(g.f.load, x86.Inst{VL: 16, D: r, IsMem: true, Mem: m, K: x86.Reg(1 + h), Zero: true})
					return
				}
				mask := argMask
				mask.Disp += int32(16 * h)
				g.Emit(x86.MovUPS, x86.Inst{VL: 16, D: factorReg, IsMem: true, Mem: mask})
				g.Emit(g.f.maskLoad, x86.Inst{VL: 16, D: r, A: factorReg, IsMem: true, Mem: m})
			}
			for q := range side / 2 {
				r := squareReg + x86.Reg(q)
				load(r, row(group, q, 16*h))
				load(columnReg, row(group, q+side/2, 16*h))
				g.Emit(x86.Insert128, x86.Inst{VL: 32, D: r, A: r, B: columnReg, Imm: 1})
			}
			g.columns(h, oneColumn, func(p int, from x86.Reg) {
				g.OpImm(x86.CMP, x86.W64, regCount, int32(p))
				g.Jcc(x86.LE, done)
				column(group, p, 0, from, false)
			})
		}
		g.Bind(done)
	}
	if m.evex {
		for h := range int32(2) {
			mask := argMask
			mask.Disp += 4 * h
			g.Emit(x86.KMovW, x86.Inst{VL: 16, D: x86.Reg(1 + h), IsMem: true, Mem: mask})
		}
	}
	again := g.NewLabel()
	g.Bind(again)
	g.zero()
	g.factors()
	for i := 1; i < s.cols; i++ {
		g.Lea(groupBases[i], x86.Mem{Base: groupBases[i-1], Index: step, Scale: uint8(side)})
	}
	forward := func(n int) {
		for i := range s.cols {
			g.OpImm(x86.ADD, x86.W64, groupBases[i], int32(n*size))
		}
		g.OpImm(x86.ADD, x86.W64, regB, int32(n*size))
	}
	// Two squares of a group at once are lines of the cache.
	loop, one, tail, done := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.OpImm(x86.SUB, x86.W64, regCount, int32(2*side))
	g.Jcc(x86.L, one)
	g.Bind(loop)
	if s.far {
		for i := range s.cols {
			g.Load(x86.W64, x86.RAX, at(unsafe.Offsetof(shapeOfArgs.ahead)))
			g.Op(x86.ADD, x86.W64, x86.RAX, groupBases[i])
			for q := range side {
				g.PrefetchL2(rows[q].of(x86.RAX, 0))
			}
		}
	}
	squares(2)
	forward(2 * side)
	g.OpImm(x86.SUB, x86.W64, regCount, int32(2*side))
	g.Jcc(x86.GE, loop)
	g.Bind(one)
	g.OpImm(x86.ADD, x86.W64, regCount, int32(side))
	g.Jcc(x86.S, tail)
	squares(1)
	forward(side)
	g.OpImm(x86.SUB, x86.W64, regCount, int32(side))
	g.Bind(tail)
	g.OpImm(x86.ADD, x86.W64, regCount, int32(side))
	g.Jcc(x86.E, done)
	for i := range s.cols {
		rest(i)
	}
	g.Bind(done)
	g.finish()
	g.next(again)
	return g.end()
}

// The largest tiles of byRows, in groups and in columns of the result, and the most
// columns of a product that it does, of which so many at a time.
const (
	mostGroups  = 4
	mostAtOnce  = 4
	mostRowWise = 6
)

// takesRows reports whether byRows does rows up to i1 of a product.
func (p *product) takesRows(i1 int64) bool {
	size := p.in.size
	return p.t.float() && p.in.convert == nil && p.out.convert == nil && p.out.size == size && p.n <= mostRowWise && i1 >= square(p.t) &&
		p.acs == size && (p.brs == size || p.k <= 1)
}

// rowsOf does rows i0 … i1 of a product that takesRows. Where fewer are left than
// a square has, it does some before them again, and leaves these as they are.
func (w *worker) rowsOf(p *product, i0, i1 int64) {
	size, side := p.t.size(), square(p.t)
	chunks := max(1, ceil(p.k, chunk))
	low := p.ars & 2047 // where rows compete for the same places of the L1
	bytes := (i1 - i0) * p.k * size
	s := tile{t: p.t, along: low >= 64 && low <= 2048-64, far: bytes > beyondL2}
	most := int64(mostGroups)
	if !s.along && bytes >= beyondL2 && bytes < beyondL3 { // fewer of them do
		most = min(most, 2)
	}
	// Sums of chunks stay where the result goes, unless that is still needed, or
	// its rows do not lie side by side; then C as it was is beside them.
	const step = 8 * mostGroups * 32
	sums := w.room(roomSum, 2*mostAtOnce*step)
	before := sums + mostAtOnce*step
	// Columns are dealt out evenly.
	cols := ceil(p.n, ceil(p.n, min(mostAtOnce, p.lib.m.mostColumns(2))))
	for i0 < i1 {
		again := max(0, side-(i1-i0))
		via := p.crs != size || again > 0
		groups := min((i1-i0+again)/side, most)
		for p.lib.m.mostColumns(groups) < cols {
			groups--
		}
		tiles := int64(1)
		if chunks == 1 && again == 0 {
			tiles = min((i1-i0)/(groups*side), 8)
		}
		rows := tiles*groups*side - again
		s.cols = int(groups)
		for j := int64(0); j < p.n; j += cols {
			s.rows = int(min(cols, p.n-j))
			c := p.c + uintptr(i0*p.crs+j*p.ccs)
			to := place{c, p.ccs}
			at, was := to, to
			if via {
				at, to, was = place{sums, step}, place{sums, step}, place{before, step}
			} else if p.reads && chunks > 1 {
				at = place{sums, step}
			}
			if via && p.reads {
				w.move(before+uintptr(again*size), size, step, c, p.ccs, p.crs, int64(s.rows), rows)
			}
			for pc := range chunks {
				if w.err != nil || w.stopped {
					return
				}
				if w.record.Stopped() {
					w.stopped = true
					return
				}
				p0 := pc * chunk
				w.k = min(p.k-p0, chunk)
				w.a, w.aStep, w.aNext = p.a+uintptr((i0-again)*p.ars+p0*size), uintptr(p.ars), uintptr(groups*side*p.ars)
				w.b, w.bStep, w.bNext = p.b+uintptr(p0*size+j*p.bcs), uintptr(p.bcs), 0
				w.dNext = uintptr(groups * side * size)
				w.follow(pc == 0, pc == chunks-1, at, to, was)
				w.restMask(w.k % side)
				w.ahead = aheadBytes
				w.tiles = tiles
				w.call(rowwise, s)
			}
			if via {
				w.move(c, p.crs, p.ccs, sums+uintptr(again*size), step, size, int64(s.rows), rows)
			}
		}
		i0 += rows
	}
}

// restMask sets the masks of a square's halves for so many columns.
func (w *worker) restMask(n int64) {
	if w.p.lib.m.evex {
		half := square(w.p.t) / 2
		bits := uint32(1)<<n - 1
		w.mask[0], w.mask[1] = bits&(1<<half-1), bits>>half
		return
	}
	for i := range w.mask {
		w.mask[i] = 0
		if int64(i) < n*w.p.t.size()/4 {
			w.mask[i] = ^uint32(0)
		}
	}
}
