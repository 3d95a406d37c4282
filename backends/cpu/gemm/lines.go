package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// Rows that lie along k times one column, of integers by vectors of groups: a vector has sums of one
// element, whose order shows in no integer's bits, and nothing is transposed but these sums. It is
// what lies in A that is turned over (multiplier.flips), so that what is too much is the column's alone, in
// each lane as it is in those of the sums.

// Steps of k that a call may go through, of tileRows rows each, some 40 µs where a cache holds A; and those that are packed in a call.
const (
	lineSteps     = 8192
	linePackSteps = 256
)

// isLines reports whether a product is done so.
func (p *product) isLines() bool {
	u := p.unit
	return u != noMultiplier && !u.tiles() && !u.float() && p.n == 1 && p.acs == p.in.size && p.k <= lineSteps*u.stepWide()
}

// lines computes rows i0 … i1 of a product that isLines.
func (w *worker) lines(p *product, i0, i1 int64) {
	t, stepWide := w.tile, p.unit.stepWide()
	sums := w.room(roomSum, tileBytes)
	steps, rest := p.k/stepWide, p.k%stepWide
	b := p.b
	if p.brs != p.in.size {
		b = w.room(roomB, (steps+1)*64+tileBytes)
	}
	if w.err != nil {
		return
	}
	if b != p.b {
		w.packLine(b, steps, rest)
	}
	t.aStep, t.aDown, t.bNext, t.sNext, t.cNext, t.next = uintptr(p.ars), uintptr(tileRows*p.ars), 0, 0, uintptr(tileRows*p.crs), 0
	t.steps, t.rests, t.flags = steps, 1<<rest-1, flagFinish
	if p.scaled {
		t.flags |= flagScale
	}
	if p.reads {
		t.flags |= flagBeta
	}
	s := tile{along: p.crs == p.out.size, unit: p.unit, out: uint8(p.out.size), far: p.m*p.ars > beyondL2}
	for i := i0; i < i1 && !w.ends(); {
		n := min(i1-i, tileRows)
		t.tiles = max(1, min((i1-i)/tileRows, lineSteps/(steps+1)))
		t.a, t.b, t.s, t.c = p.a+uintptr(i*p.ars), b, sums, p.c+uintptr(i*p.crs)
		t.rest = b + uintptr(steps*64) // which this code does not read, but a call that is written down has to say where it lies
		t.lines, t.mask, t.cStep = [2]int64{n}, 1, uintptr(p.crs)
		if s.along {
			t.lines, t.mask, t.cStep = [2]int64{1}, 1<<n-1, uintptr(p.ccs)
		}
		s.rows = int(n)
		i += n * t.tiles
		w.enter(linesOfDots, s)
	}
}

// packLine packs a column whose elements lie apart, side by side: so many steps of k, and what is left.
func (w *worker) packLine(dst uintptr, steps, rest int64) {
	p, t := w.p, w.tile
	t.srcStep, t.dstNext, t.mask = uintptr(p.brs), 64, 1 // of a tile all lines but the first are written over by the next
	pack := func(at, count, wide int64) {
		t.src, t.dst, t.count = p.b+uintptr(at*p.unit.stepWide()*p.brs), dst+uintptr(at*64), count
		w.enter(tilesByRows, tile{rows: int(wide), unit: p.unit})
	}
	for at := int64(0); at < steps; at += linePackSteps {
		pack(at, min(linePackSteps, steps-at), p.unit.stepWide())
	}
	if rest > 0 {
		pack(steps, 1, rest)
	}
}

// lineDotter is the micro-kernel: s.rows of A by a column, and so on downwards.
func lineDotter(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const elements, column, excess, total x86.Reg = tileRows + 1, tileRows + 2, tileRows + 3, tileRows + 4
	g.flips(x86.RAX)
	again := g.NewLabel()
	g.Bind(again)
	for i := range x86.Reg(tileRows) {
		g.clear(i)
	}
	g.clear(excess)
	g.Load(x86.W64, regA, tileA)
	g.Load(x86.W64, regAStep, tileAStep)
	g.Load(x86.W64, regB, tileB)
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: tileRests})
	g.rowBases()
	step := func(k x86.Reg) {
		load := func(r x86.Reg, m x86.Mem) {
			f := x86.MovW
			if s.unit.size() == 1 {
				f = x86.MovB
			}
			g.Emit(f, x86.Inst{VL: 64, D: r, IsMem: true, Mem: m, K: k, Zero: k != 0})
		}
		load(column, x86.At(regB, 0))
		if s.unit.flips() {
			g.dot(excess, column, flipReg)
		}
		for i := range s.rows {
			if s.far && k == 0 {
				g.PrefetchL2(g.rowAt(i, turnedAhead))
			}
			if s.unit.flips() && k == 0 {
				g.Emit(x86.XorD, x86.Inst{VL: 64, D: elements, A: flipReg, IsMem: true, Mem: g.rowAt(i, 0)})
			} else {
				load(elements, g.rowAt(i, 0))
				g.flip(elements)
			}
			g.dot(x86.Reg(i), column, elements)
		}
	}
	g.eachStep(func() {
		step(0)
		for i := range g.bases() {
			g.OpImm(x86.ADD, x86.W64, bases[i], 64)
		}
		g.OpImm(x86.ADD, x86.W64, regB, 64)
	}, func() { step(1) })
	for i := range s.rows {
		if s.unit.flips() {
			g.op(x86.SubD, x86.Reg(i), x86.Reg(i), excess)
		}
	}
	g.clear(total)
	for _, r := range g.transposed16() {
		g.op(x86.AddD, total, total, r)
	}
	g.Load(x86.W64, x86.RSI, tileS)
	g.store(x86.At(x86.RSI, 0), total, false)
	g.Load(x86.W64, x86.RAX, tileADown)
	g.OpTo(x86.ADD, x86.W64, tileA, x86.RAX)
	g.turned, g.s.rows, g.s.cols = true, 1, 1
	g.result(again)
	return g.end()
}
