package gemm

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// Products of few rows and few columns whose sums are long: an element's chunks are
// chains of their own, so vectors hold the sums of neighbouring chunks, eight of
// them or four; or those of neighbouring products, in a stack of rows by columns. Both
// operands are transposed in registers, as rows.go does.

const (
	dotColumns x86.Reg = 8  // of A, half a square's
	dotColumn  x86.Reg = 12 // of B
	dotSum     x86.Reg = 13
	dotGroups          = 2 // whose chains go on side by side
)

// chunkSums makes the sums of k products each, whole lines of the cache, of what lies so
// many bytes apart in a and in b as their steps say: in cols groups of a square's side, or
// in one of so many as rows says, of which what is missing is the last one again.
func chunkSums(m machine, s tile) ([]byte, error) {
	g := newMaker(rowsMachine(m), s)
	g.begin()
	const aStep, bStep = x86.R9, x86.RDX
	size, side := int(s.t.size()), int(square(s.t))
	g.Load(x86.W64, aStep, argAStep)
	g.Load(x86.W64, bStep, argBStep)
	ofA, ofB := g.multiplesOf(aStep, x86.RBX, x86.RBP, x86.R12), g.multiplesOf(bStep, x86.R13, x86.R14, x86.R15)
	a, b := [dotGroups]x86.Reg{regA, x86.R10}, [dotGroups]x86.Reg{regB, x86.R11}
	row := func(rows *[8]multiple, base x86.Reg, disp int) func(i int) x86.Mem {
		return func(i int) x86.Mem { return rows[min(i, s.rows-1)].of(base, disp) }
	}
	again := g.NewLabel()
	g.Bind(again)
	g.factors()
	for i := 1; i < s.cols; i++ {
		g.Lea(a[i], x86.Mem{Base: a[i-1], Index: aStep, Scale: uint8(side)})
		g.Lea(b[i], x86.Mem{Base: b[i-1], Index: bStep, Scale: uint8(side)})
	}
	sum := func(i int) x86.Reg { return dotSum + x86.Reg(i) }
	for i := range s.cols {
		g.Emit(x86.Xor, x86.Inst{VL: 16, D: sum(i), A: sum(i), B: sum(i)})
	}
	loop := g.NewLabel()
	g.Bind(loop)
	for i := range s.cols {
		for half := range 4 {
			g.loadHalf(row(&ofA, a[i], 16*half))
			g.columns(0, func(c int) x86.Reg { return dotColumns + x86.Reg(c) }, func(int, x86.Reg) {})
			g.loadHalf(row(&ofB, b[i], 16*half))
			g.columns(0, func(int) x86.Reg { return dotColumn }, func(c int, from x86.Reg) {
				g.op(g.f.fma, sum(i), dotColumns+x86.Reg(c), from)
			})
		}
		g.OpImm(x86.ADD, x86.W64, a[i], 64)
		g.OpImm(x86.ADD, x86.W64, b[i], 64)
	}
	g.OpImm(x86.SUB, x86.W64, regCount, int32(64/size))
	g.Jcc(x86.NE, loop)
	g.Load(x86.W64, x86.RAX, argD)
	for i := range s.cols {
		g.store(x86.At(x86.RAX, int32(32*i)), sum(i), false)
	}
	g.next(again)
	return g.end()
}

// dots reports whether a product is done so.
func (p *product) dots() bool {
	size := p.in.size
	return p.ofFloats() && p.m < square(p.t) && p.n <= mostRowWise &&
		p.acs == size && p.brs == size && p.k >= 2*chunk
}

// dot does rows i0 … i1 and columns j0 … j1 of a product that dots.
func (w *worker) dot(p *product, i0, i1, j0, j1 int64) {
	size, side := p.t.size(), square(p.t)
	whole, rest := p.k/chunk, p.k%chunk
	sums := w.room(roomSum, (whole+1)*size+dotGroups*32)
	one := tile{t: p.t, rows: 1, cols: 1, along: true, mask: w.setMask(1)}
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j++ {
			a, b := p.a+uintptr(i*p.ars), p.b+uintptr(j*p.bcs)
			for at := int64(0); at < whole; {
				if w.ends() {
					return
				}
				n := min(whole-at, dotGroups*side)
				s := tile{t: p.t, rows: int(side), cols: int(n / side)}
				if n < side {
					s.rows, s.cols = int(n), 1
				}
				n = min(n, int64(s.cols)*side)
				w.a, w.b, w.d = a+uintptr(at*chunk*size), b+uintptr(at*chunk*size), sums+uintptr(at*size)
				w.aStep, w.bStep, w.k, w.tiles = uintptr(chunk*size), uintptr(chunk*size), chunk, 1
				w.call(dotwise, s)
				at += n
			}
			chunks := whole
			w.bStep, w.flags, w.tiles = uintptr(size), 0, 1
			if rest > 0 {
				w.a, w.b, w.d, w.k = a+uintptr(whole*chunk*size), b+uintptr(whole*chunk*size), sums+uintptr(whole*size), rest
				w.call(multiplies, one)
				chunks++
			}
			if w.err != nil || w.byHand() {
				return
			}
			if size == 4 {
				addUp[float32](sums, chunks)
			} else {
				addUp[float64](sums, chunks)
			}
			// What follows the sum.
			to := place{p.c + uintptr(i*p.crs+j*p.ccs), size}
			w.follow(true, true, to, to, to)
			w.flags |= flagBegin
			w.t, w.k, w.tiles = sums, 0, 1
			w.call(multiplies, one)
		}
	}
}

// dotsOfStack reports whether the products of a stack are of a row and a column each, at
// least a line of the cache long, whose elements lie side by side.
func (p *product) dotsOfStack() bool {
	size := p.in.size
	return p.t.float() && !p.converts() && !p.leaves() && p.m == 1 && p.n == 1 && p.acs == size && p.brs == size && p.k >= 64/size
}

// dotStack does so many products of a stack that dotsOfStack: sums of whole lines side by
// side, from which each goes on with what is left.
func (w *worker) dotStack(p *product, matrices int64) {
	size, side := p.t.size(), square(p.t)
	groups := int64(dotGroups)
	if low := p.aNext & 1023; low < 64 || low > 1024-64 { // lines of both compete for the same places of the L1
		groups = 1
	}
	most := groups * side
	sums := w.room(roomSum, (matrices+most)*size)
	whole := p.k &^ (64/size - 1)
	for at := int64(0); at < matrices; {
		s := tile{t: p.t, rows: int(side), cols: int(groups)}
		n := min(matrices-at, most)
		if n < most {
			n = min(n, side)
			s.rows, s.cols = int(n), 1
		}
		w.tiles = max(1, (matrices-at)/most)
		w.a, w.aStep, w.aNext = p.a+uintptr(at*p.aNext), uintptr(p.aNext), uintptr(n*p.aNext)
		w.b, w.bStep, w.bNext = p.b+uintptr(at*p.bNext), uintptr(p.bNext), uintptr(n*p.bNext)
		w.d, w.dNext, w.k = sums+uintptr(at*size), uintptr(n*size), whole
		at += n * w.tiles
		w.call(dotwise, s)
	}
	to := place{p.c, size}
	w.follow(true, true, to, to, to)
	w.flags |= flagBegin
	w.t, w.dNext, w.k, w.tiles = sums, uintptr(size), p.k-whole, matrices
	w.a, w.aNext = p.a+uintptr(whole*size), uintptr(p.aNext)
	w.b, w.bStep, w.bNext = p.b+uintptr(whole*size), uintptr(size), uintptr(p.bNext)
	p.lib = p.lib.around(size)
	w.call(multiplies, tile{t: p.t, rows: 1, cols: 1, along: true, mask: w.setMask(1)})
}

// addUp adds n numbers in order, into the first.
func addUp[T float32 | float64](at uintptr, n int64) {
	list := unsafe.Slice((*T)(hostmem.Pointer(at)), n)
	sum := list[0]
	for _, x := range list[1:] {
		sum += x
	}
	list[0] = sum
}
