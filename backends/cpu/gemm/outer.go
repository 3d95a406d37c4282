package gemm

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// A column times a row: only the result is large, and what counts is how it is written. Rows one
// after the other, in vectors that lie in a line of the cache each, are done sooner than tiles
// (docs/RATIONALE.md).

// How many vectors a row has at least; bytes of rows that are done one below the other, of which
// B stays in the L1, and of those of a C that no L3 holds, where what lies in a page is best written together;
// bytes of C that a call writes.
const (
	outerVectors = 4
	outerNear    = 8 << 10
	outerFar     = 64 << 10
	outerCall    = 256 << 10
)

// isOuter reports whether a product is done so.
func (p *product) isOuter() bool {
	return p.t.float() && p.unit == noMultiplier && p.k == 1 && !p.converts() && !p.leaves() &&
		p.bcs == p.t.size() && p.n*p.t.size() >= outerVectors*int64(p.lib.m.bytes)
}

// outer does rows i0 … i1 and columns j0 … j1, a vector or more, of a product that isOuter.
func (w *worker) outer(p *product, i0, i1, j0, j1 int64) {
	size := p.t.size()
	w.aStep, w.dStep = uintptr(p.ars), uintptr(p.crs)
	w.flags, w.alpha, w.beta = 0, p.t.one(), p.beta
	if p.scaled {
		w.alpha = p.alpha
	}
	if p.reads {
		w.flags = flagBeta
	}
	stretch := int64(outerNear)
	if p.m*p.n*size >= beyondL3 {
		stretch = outerFar
	}
	stretch /= size
	for j := j0; j < j1; j += stretch {
		if j1-j < 2*stretch { // or what is left might be less than a vector
			stretch = j1 - j
		}
		w.wide = stretch * size
		high := max(1, outerCall/w.wide)
		for i := i0; i < i1; i += high {
			if w.ends() {
				return
			}
			w.count = uintptr(min(high, i1-i))
			w.a, w.b, w.d = p.a+uintptr(i*p.ars), p.b+uintptr(j*size), p.c+uintptr(i*p.crs+j*size)
			w.c = w.d
			w.call(outers, tile{t: p.t, rows: 1, cols: 1})
		}
	}
}

// Registers of an outer product: four results, the row's factor, alpha, beta, and C as it was
// where the row begins and ends.
const (
	outerTogether = 4 // vectors of a step

	outerOffset, outerD, outerDStep = x86.RAX, x86.R10, x86.R11
	outerLast, outerLastFour        = x86.RBX, x86.RBP // offsets from which so many vectors are a row's last

	outerFactor = x86.Reg(outerTogether)
	outerAlpha  = outerFactor + 1
	outerBeta   = outerAlpha + 1
	outerFirst  = outerBeta + 1
	outerEnd    = outerFirst + 1
)

var argWide = at(unsafe.Offsetof(shapeOfArgs.wide))

// outer is code that writes count rows of wide bytes each, a vector or more: alpha times the
// products, and beta · C with the flag.
func outer(m machine, s tile) ([]byte, error) {
	g := newMaker(m, s)
	g.begin()
	g.broadcast(outerAlpha, argAlpha)
	g.broadcast(outerBeta, argBeta)
	for _, x := range []struct {
		r    x86.Reg
		from x86.Mem
	}{{regA, argA}, {regAStep, argAStep}, {regB, argB}, {regCount, argCount}, {outerD, argD}, {outerDStep, argDStep},
		{outerLast, argWide}, {outerOffset, argFlags}} {
		g.Load(x86.W64, x.r, x.from)
	}
	g.Lea(outerLastFour, x86.At(outerLast, -outerTogether*int32(m.bytes)))
	g.OpImm(x86.SUB, x86.W64, outerLast, int32(m.bytes))
	plain, done := g.NewLabel(), g.NewLabel()
	g.OpImm(x86.AND, x86.W32, outerOffset, flagBeta)
	g.Jcc(x86.E, plain)
	g.outerRows(true)
	g.Jmp(done)
	g.Bind(plain)
	g.outerRows(false)
	g.Bind(done)
	return g.end()
}

// outerRows writes row after row. What lies between its first vector and its last one is written in
// vectors that are in a line each. Those two are written last, as they may have elements of the
// others, from C as it was before.
func (g *maker) outerRows(reads bool) {
	size, vector := int32(g.s.t.size()), int32(g.m.bytes)
	row, four, fours, one, ones := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Bind(row)
	g.broadcast(outerFactor, x86.At(regA, 0))
	if reads {
		g.load(outerFirst, x86.At(outerD, 0), false)
		g.load(outerEnd, x86.Mem{Base: outerD, Index: outerLast, Scale: 1}, false)
	}
	g.MovImm(outerOffset, 0) // to where a line begins, by whole elements, which may lie askew
	g.Op(x86.SUB, x86.W64, outerOffset, outerD)
	g.OpImm(x86.AND, x86.W64, outerOffset, (vector-1)&-size)
	g.Jmp(fours)
	g.Bind(four)
	g.outerVectors(outerTogether, reads, 0)
	g.OpImm(x86.ADD, x86.W64, outerOffset, outerTogether*vector)
	g.Bind(fours)
	g.Op(x86.CMP, x86.W64, outerOffset, outerLastFour)
	g.Jcc(x86.LE, four)
	g.Jmp(ones)
	g.Bind(one)
	g.outerVectors(1, reads, 0)
	g.OpImm(x86.ADD, x86.W64, outerOffset, vector)
	g.Bind(ones)
	g.Op(x86.CMP, x86.W64, outerOffset, outerLast)
	g.Jcc(x86.L, one)
	g.MovImm(outerOffset, 0)
	g.outerVectors(1, reads, outerFirst)
	g.Mov(x86.W64, outerOffset, outerLast)
	g.outerVectors(1, reads, outerEnd)
	g.Op(x86.ADD, x86.W64, regA, regAStep)
	g.Op(x86.ADD, x86.W64, outerD, outerDStep)
	g.OpImm(x86.SUB, x86.W64, regCount, 1)
	g.Jcc(x86.NE, row)
}

// outerVectors writes so many at the offset. If they read C, it is as it is there, or as a register has it.
func (g *maker) outerVectors(n int, reads bool, was x86.Reg) {
	for i := range n {
		at := func(base x86.Reg) x86.Mem {
			return x86.Mem{Base: base, Index: outerOffset, Scale: 1, Disp: int32(i * g.m.bytes)}
		}
		sum := x86.Reg(i)
		fma := func(d, a x86.Reg, m x86.Mem) {
			g.Emit(g.f.fma, x86.Inst{VL: g.m.bytes, D: d, A: a, IsMem: true, Mem: m})
		}
		g.clear(sum) // as the sums of tiles begin: −0 becomes +0
		fma(sum, outerFactor, at(regB))
		g.op(g.f.mul, sum, outerAlpha, sum)
		switch {
		case reads && was != 0:
			g.op(g.f.fma, sum, outerBeta, was)
		case reads:
			fma(sum, outerBeta, at(outerD))
		}
		g.store(at(outerD), sum, false)
	}
}
