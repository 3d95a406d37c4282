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

// rowMaker writes such a kernel.
type rowMaker struct {
	*maker
	side, high, parts int // of a square; rows of all groups; chunks side by side
	rows, cols        [8]multiple
	shared            x86.Reg // the first of those of half a square, which groups share that take turns …
	share             bool    // … if there are registers
}

// row is where a row of a group is, as far as there are rows: what is missing is the last one again.
func (g *rowMaker) row(group, i, disp int) x86.Mem {
	return g.rows[min(i, g.high-1-group*g.side)].of(groupBases[group], disp)
}

func (g *rowMaker) factor(c, p int) x86.Reg {
	return g.shared + x86.Reg(c*g.side/2+p%(g.side/2))
}

// addColumn adds the products of column p of a square of the first chunk or the second.
func (g *rowMaker) addColumn(group, part, p, disp int, from x86.Reg, shared bool) {
	for c := range g.s.rows {
		sum := g.sum(c, group) + x86.Reg(part*g.s.rows*g.s.cols)
		x := g.cols[c].of(regB, disp+p*int(g.s.t.size()))
		if shared {
			g.op(g.f.fma, sum, from, g.factor(c, p))
			continue
		}
		if g.m.evex {
			g.Emit(g.f.fma, x86.Inst{VL: 32, D: sum, A: from, IsMem: true, Mem: x, Broadcast: true})
			continue
		}
		g.broadcast(factorReg, x)
		g.op(g.f.fma, sum, from, factorReg)
	}
}

// squares does so many squares of each group, by turns, so that their chains go on side by side.
func (g *rowMaker) squares(n int) {
	size, half := int(g.s.t.size()), g.side/2
	for at := range 2 * n * g.parts {
		h, part := at/g.parts, at%g.parts
		disp := h/2*32 + part*chunk*size
		for i := range g.s.rows * half {
			if c, p := i/half, h&1*half+i%half; g.share {
				g.broadcast(g.factor(c, p), g.cols[c].of(regB, disp+p*size))
			}
		}
		for group := range g.s.cols {
			g.loadHalf(func(i int) x86.Mem { return g.row(group, i, disp+16*(h&1)) })
			g.columns(h&1, oneColumn, func(p int, from x86.Reg) { g.addColumn(group, part, p, disp, from, g.share) })
		}
	}
}

// rest is a square of which only some columns are there, as RCX says.
func (g *rowMaker) rest(group int) {
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
		for q := range g.side / 2 {
			r := squareReg + x86.Reg(q)
			load(r, g.row(group, q, 16*h))
			load(columnReg, g.row(group, q+g.side/2, 16*h))
			g.Emit(x86.Insert128, x86.Inst{VL: 32, D: r, A: r, B: columnReg, Imm: 1})
		}
		g.columns(h, oneColumn, func(p int, from x86.Reg) {
			g.OpImm(x86.CMP, x86.W64, regCount, int32(p))
			g.Jcc(x86.LE, done)
			g.addColumn(group, 0, p, 0, from, false)
		})
	}
	g.Bind(done)
}

// forward moves on by so many elements of k.
func (g *rowMaker) forward(n int) {
	by := int32(n) * int32(g.s.t.size())
	for i := range g.s.cols {
		g.OpImm(x86.ADD, x86.W64, groupBases[i], by)
	}
	g.OpImm(x86.ADD, x86.W64, regB, by)
}

// byRows is the kernel. One that does two chunks does whole ones, each row's two side by side:
// as many sums more go on at a time, without more rows. One for few rows has so many as its
// tile has columns, in groups of which what is missing is the last one again.
func byRows(m machine, s tile, two, few bool) ([]byte, error) {
	side := int(square(s.t))
	high := s.cols * side
	if few {
		high, s.cols = s.cols, (s.cols+side-1)/side
	}
	g := &rowMaker{maker: newMaker(rowsMachine(m), s), side: side, high: high, parts: 1}
	g.first, g.free = rowSumReg, [2]x86.Reg{0, 1}
	if two {
		g.parts, g.second = 2, rowSumReg+x86.Reg(s.rows*s.cols)
	}
	g.begin()
	const step, colStep, next = x86.R9, x86.R14, x86.RDX
	g.Load(x86.W64, step, argAStep)
	g.Load(x86.W64, colStep, argBStep)
	g.rows, g.cols = g.multiplesOf(step, x86.RBX, x86.RBP, x86.R12), g.multiplesOf(colStep, x86.R15, x86.None, x86.None)
	g.shared = rowSumReg + x86.Reg(g.parts*s.rows*s.cols)
	g.share = s.cols > 1 && int(g.shared)+s.rows*side/2 <= m.registers()
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
	for i := range (g.parts - 1) * s.rows * s.cols {
		g.clear(g.second + x86.Reg(i))
	}
	g.factors()
	for i := 1; i < s.cols; i++ {
		g.Lea(groupBases[i], x86.Mem{Base: groupBases[i-1], Index: step, Scale: uint8(side)})
	}
	if s.far {
		g.Load(x86.W64, next, at(unsafe.Offsetof(shapeOfArgs.ahead)))
		g.Op(x86.ADD, x86.W64, next, regA)
	}
	// Two squares of a group at once are lines of the cache.
	loop, one, tail, done := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.OpImm(x86.SUB, x86.W64, regCount, int32(2*side))
	g.Jcc(x86.L, one)
	g.Bind(loop)
	if s.far { // as many lines of the rows that follow, which lie in a row
		lines := g.parts * high
		for i := range lines {
			g.PrefetchL2(x86.At(next, int32(64*i)))
		}
		g.OpImm(x86.ADD, x86.W64, next, int32(64*lines))
	}
	g.squares(2)
	g.forward(2 * side)
	g.OpImm(x86.SUB, x86.W64, regCount, int32(2*side))
	g.Jcc(x86.GE, loop)
	g.Bind(one)
	g.OpImm(x86.ADD, x86.W64, regCount, int32(side))
	g.Jcc(x86.S, tail)
	g.squares(1)
	g.forward(side)
	g.OpImm(x86.SUB, x86.W64, regCount, int32(side))
	g.Bind(tail)
	g.OpImm(x86.ADD, x86.W64, regCount, int32(side))
	g.Jcc(x86.E, done)
	for i := range s.cols {
		g.rest(i)
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
	midGroups   = 3 // of a matrix that no L2 holds
	farGroups   = 2 // … nor an L3
	mostAtOnce  = 4
	mostRowWise = 6
)

// takesRows reports whether byRows does rows up to i1 of a product.
func (p *product) takesRows(i1 int64) bool {
	size := p.in.size
	return p.ofFloats() && p.n <= mostRowWise && i1 >= square(p.t) &&
		p.acs == size && (p.brs == size || p.k <= 1)
}

// packsRows reports whether byRows does rows up to i1 with B packed, whose columns do not lie
// as they should: where the result's do, which else are delivered one by one, being too few for
// squares; of so few rows that is soon done.
func (p *product) packsRows(i1 int64) bool {
	q := *p
	q.brs = q.in.size
	return q.takesRows(i1) && i1 >= mostGroups*square(p.t) && p.crs == p.in.size && p.n < square(p.t) && p.k >= square(p.t)
}

// takesFew reports whether byRows does the rows of a product that has few, and no whole groups.
func (p *product) takesFew() bool {
	size, side := p.in.size, square(p.t)
	if !p.ofFloats() || p.n > mostRowWise || p.m > fewRows || p.m%side == 0 ||
		p.acs != size || p.brs != size || p.k < fewSteps {
		return false
	}
	if !p.dots() {
		return p.m*p.n > 1
	}
	// Steps of k that are done one after the other, two chunks side by side or those of an element.
	rows := ceil(p.n, mostAtOnce) * (p.k - p.k/(2*chunk)*chunk)
	return rows <= dotSteps+p.m*p.n*(ceil(p.k/chunk, dotGroups*side)*chunk+p.k%chunk+elementSteps)
}

// What few rows are, and from how many steps of k on they are done so; how many steps dot
// counts beside its own, for all and for an element, which the caller cannot enter directly.
const (
	fewRows      = 7
	fewSteps     = 256
	dotSteps     = 1000
	elementSteps = 200
)

// rowsOf does rows i0 … i1 of a product that takesRows, or takesFew. Where fewer are left than
// a square has, it does some before them again, and leaves these as they are.
func (w *worker) rowsOf(p *product, i0, i1 int64) {
	size, side := p.t.size(), square(p.t)
	if p.brs != size && p.k > 1 {
		step := p.k*size + 64
		at := w.room(roomB, p.n*step)
		w.move(at, step, size, p.b, p.brs, p.bcs, p.k, p.n)
		p.b, p.bcs, p.brs = at, step, size
	}
	bytes := p.m * p.k * size
	// What a processor of before AVX-512 fetches by itself of two groups' rows comes sooner than what it is told to.
	s := tile{t: p.t, far: (bytes > beyondL2 || p.aNext > 0) && p.ars-p.k*size < p.ars/8 && p.lib.m.evex}
	beside := groupsBeside(p.ars, side)
	most := beside
	switch {
	case bytes >= beyondL3 || bytes > beyondL2 && !p.lib.m.evex:
		most = min(most, farGroups)
	case bytes > beyondL2:
		most = min(most, midGroups)
	}
	// Sums of chunks stay where the result goes, unless that is still needed, or
	// its rows do not lie side by side; then C as it was is beside them.
	const step = 8 * mostGroups * 32
	sums := w.room(roomSum, 2*mostAtOnce*step)
	before := sums + mostAtOnce*step
	// Columns are dealt out evenly.
	cols := ceil(p.n, ceil(p.n, min(mostAtOnce, p.lib.m.mostColumns(2))))
	few := p.takesFew()
	for i0 < i1 {
		h := p.rowsAtOnce(i1-i0, cols, most, few)
		// Two chunks, if there are registers, and they do not compete as rows do.
		two := h.groups == 1 && p.k >= 2*chunk && int64(p.lib.m.registers()) >= int64(rowSumReg)+2*cols &&
			(chunk*size&4095 != 0 || beside == mostGroups)
		calls := max(1, ceil(p.k, chunk))
		if two {
			calls -= p.k / (2 * chunk)
		}
		if (calls == 1 || bytes <= beyondL2) && h.again == 0 && !few {
			h.tiles = min((i1-i0)/h.rows, 8)
			h.rows *= h.tiles
		}
		via := p.crs != size || h.again > 0 || few
		s.cols = int(h.groups)
		one, both := rowwise, chunkwise
		if few {
			s.cols, one, both = int(h.rows), fewwise, fewChunkwise
		}
		down := h.groups * side * p.ars // from tile to tile
		for j := int64(0); j < p.n; j += cols {
			s.rows = int(min(cols, p.n-j))
			c := p.c + uintptr(i0*p.crs+j*p.ccs)
			to := place{c, p.ccs}
			at, was := to, to
			if via {
				at, to, was = place{sums, step}, place{sums, step}, place{before, step}
			} else if p.reads && calls > 1 {
				at = place{sums, step}
			}
			if via && p.reads {
				w.move(before+uintptr(h.again*size), size, step, c, p.ccs, p.crs, int64(s.rows), h.rows)
			}
			for p0 := int64(0); p0 == 0 || p0 < p.k; {
				if w.ends() {
					return
				}
				w.k = min(p.k-p0, chunk)
				w.a, w.aStep, w.aNext = p.a+uintptr((i0-h.again)*p.ars+p0*size), uintptr(p.ars), uintptr(down)
				w.b, w.bStep, w.bNext = p.b+uintptr(p0*size+j*p.bcs), uintptr(p.bcs), 0
				w.dNext = uintptr(h.groups * side * size)
				kind, end := one, p0+chunk
				if two && p0+2*chunk <= p.k {
					kind, end = both, p0+2*chunk
				}
				w.follow(p0 == 0, end >= p.k, at, to, was)
				w.restMask(w.k % side)
				w.tiles, w.ahead = h.tiles, uintptr(down+p0*size*(h.groups*side-1))
				w.call(kind, s)
				p0 = end
			}
			if via {
				w.move(c, p.crs, p.ccs, sums+uintptr(h.again*size), step, size, int64(s.rows), h.rows)
			}
		}
		i0 += h.rows
	}
}

// rowsAtOnce is how many rows are done together: in groups, of tiles one below the other, with some before them again.
type rowsAtOnce struct{ rows, groups, tiles, again int64 }

// rowsAtOnce says how many of those that are left a tile has that does so many columns, by so many groups at most.
func (p *product) rowsAtOnce(left, cols, most int64, few bool) rowsAtOnce {
	side := square(p.t)
	if few {
		return rowsAtOnce{left, ceil(left, side), 1, 0}
	}
	again := max(0, side-left)
	groups := max(1, min((left+again)/side, most))
	for p.lib.m.mostColumns(groups) < cols {
		groups--
	}
	return rowsAtOnce{groups*side - again, groups, 1, again}
}

// groupsBeside is how many groups of rows, so many bytes apart, are read side by side, a line of
// each at a time. An L1 has eight places for lines that lie a multiple of a page apart, twice as
// many for half a page, and so on; if all were full, what is fetched ahead would drive some out.
func groupsBeside(step, side int64) int64 {
	for i, rows := range []int64{8, 16, 24} {
		if low := step << i & 4095; step >= 64 && (low < 64 || low > 4096-64) {
			return min(rows/side, mostGroups)
		}
	}
	return mostGroups
}

// restMask sets the masks of a square's halves for so many columns.
func (w *worker) restMask(n int64) {
	if w.p.lib.m.evex {
		half := square(w.p.t) / 2
		bits := uint32(1)<<n - 1
		w.mask[0], w.mask[1] = bits&(1<<half-1), bits>>half
		return
	}
	w.setWords(n * w.p.t.size() / 4)
}
