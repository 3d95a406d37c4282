package gemm

// Stacks of small matrices: a call does the same tile of each matrix of a run, which an L2
// holds from call to call, so that hundreds of matrices take few calls. What does not lie
// as a tile needs it, or is of another type, is packed first, that of all the run's
// matrices together, and what the tiles cannot write is delivered so.

// A run's bytes, a quarter of an L2, and about how long its calls take.
const (
	runBytes       = 256 << 10
	runNanoseconds = 20e3
)

// cNext is the bytes from matrix to matrix of a stack's result.
func (p *product) cNext() int64 { return p.m * p.n * p.out.size }

// run is how many matrices of a stack are done together; 1: each is done by itself.
func (p *product) run() int64 {
	if p.k > chunk || p.unit != noMultiplier {
		return 1
	}
	bytes := (p.m*p.k + p.k*p.n + p.m*p.n) * p.t.size()
	return max(1, min(runBytes/bytes, int64(runNanoseconds/p.nanoseconds(p.k))))
}

// stack does so many matrices of a stack.
func (w *worker) stack(p *product, matrices int64) {
	if w.ends() {
		return
	}
	w.p, w.alpha, w.beta = p, p.alpha, p.beta
	if p.dotsOfStack() {
		w.dotStack(p, matrices)
		return
	}
	size := p.t.size()
	rows := int64(0) // that are done
	switch {
	case p.n == 1 && p.takesRows(p.m):
		rows = w.rowsOfStack(p, matrices)
	case p.converts() && p.acs != p.in.size && p.ars == p.in.size: // packed as it lies
		p.a, p.acs, p.aNext = w.packStack(roomA, p.a, p.ars, p.acs, p.aNext, p.m, p.k, matrices)
		p.ars = size
	case p.converts() || p.acs != size && p.ars != size:
		p.a, p.ars, p.aNext = w.packStack(roomA, p.a, p.acs, p.ars, p.aNext, p.k, p.m, matrices)
		p.acs = size
	}
	if p.converts() || p.bcs != size {
		p.b, p.brs, p.bNext = w.packStack(roomB, p.b, p.bcs, p.brs, p.bNext, p.n, p.k, matrices)
		p.bcs = size
	}
	to, next := place{p.c, p.crs}, p.cNext()
	was, high, wide := to, p.m, p.n
	via := p.leaves()
	if via {
		high, wide, next = 1, matrices*p.m*p.n, p.m*p.n*size // as it lies …
		to.step = p.n * size
		if p.ccs != p.out.size { // … or matrices' columns, whose elements are together, side by side
			high, wide, next = p.m, matrices*p.n, p.n*size
			to.step = besideEachOther(wide * size)
		}
		bytes := high * max(to.step, wide*size)
		to.addr = w.room(roomSum, bytes)
		if p.reads {
			was = place{w.room(roomC, bytes), to.step}
			if w.err != nil { // or what is fetched would have no place
				return
			}
			w.fetch(0, high, 0, wide, to.step)
		}
	}
	w.tilesOfStack(p, rows, matrices, to, was, next)
	if via && w.err == nil {
		w.deliver(0, high, 0, wide, to.step)
	}
}

// besideEachOther is the distance of rows of so many bytes, which would else compete for the
// same places of the caches.
func besideEachOther(bytes int64) int64 { return bytes + 64 }

// tilesOfStack does rows from row i on of each matrix of a run; results lie next bytes apart.
func (w *worker) tilesOfStack(p *product, i, matrices int64, to, was place, next int64) {
	size := p.t.size()
	p.lib = p.lib.around(p.n * size)
	m := p.lib.m
	lanes := int64(m.lanes(p.t))
	cols := ceil(p.n, lanes)
	high := ceil(p.m, ceil(p.m, m.tallest(p.t, int(min(cols, 2)))))
	width := min(int64(m.widest(p.t, int(high))), cols)
	for ; i < p.m; i += high {
		for j := int64(0); j < p.n; j += width * lanes {
			wide := min(width*lanes, p.n-j)
			s := tile{t: p.t, rows: int(min(high, p.m-i)), cols: int(ceil(wide, lanes)), along: p.acs == size, mask: w.setMask(wide)}
			w.k, w.tiles = p.k, matrices
			w.a, w.aStep, w.aNext = p.a+uintptr(i*p.ars), uintptr(p.ars), uintptr(p.aNext)
			if !s.along {
				w.aStep = uintptr(p.acs)
			}
			w.b, w.bStep, w.bNext = p.b+uintptr(j*size), uintptr(p.brs), uintptr(p.bNext)
			at := func(x place) place { return place{x.addr + uintptr(i*x.step+j*size), x.step} }
			w.follow(true, true, at(to), at(to), at(was))
			w.dNext = uintptr(next)
			w.call(multiplies, s)
		}
	}
}

// packStack packs matrices of a run so that their rows lie as rows do: one matrix after the
// other, if that is how they lie, else side by side. It returns where they are, and bytes
// from row to row and from matrix to matrix. One that all products share is packed once.
func (w *worker) packStack(room int, src uintptr, srcCol, srcRow, srcNext, cols, rows, matrices int64) (at uintptr, row, next int64) {
	size := w.p.t.size()
	if srcNext == 0 {
		matrices = 1
	}
	if next = cols * size; srcCol == w.p.in.size {
		row, next = next, next*rows
		at = w.room(room, matrices*next)
	} else {
		row = besideEachOther(matrices * next)
		at = w.room(room, rows*row)
	}
	switch {
	case w.err != nil || rows*cols == 0:
	case srcCol == w.p.in.size && srcRow == cols*srcCol && (srcNext == rows*srcRow || matrices == 1):
		w.transpose(at, 0, src, srcCol, 0, matrices*rows*cols, 1)
	case srcCol != w.p.in.size && (srcNext == cols*srcCol || matrices == 1):
		w.transpose(at, row, src, srcCol, srcRow, matrices*cols, rows)
	case rows < matrices:
		for i := range rows {
			w.transpose(at+uintptr(i*row), next, src+uintptr(i*srcRow), srcCol, srcNext, cols, matrices)
		}
	default:
		for i := range matrices {
			w.transpose(at+uintptr(i*next), row, src+uintptr(i*srcNext), srcCol, srcRow, cols, rows)
		}
	}
	if srcNext == 0 {
		next = 0
	}
	return at, row, next
}

// rowsOfStack does rows of a stack of matrices by vectors that takesRows, but those that do
// not fill a square, and returns how many. Meanwhile the next matrix but one is fetched.
func (w *worker) rowsOfStack(p *product, matrices int64) int64 {
	size, side := p.t.size(), square(p.t)
	s := tile{t: p.t, rows: 1, far: true}
	i := int64(0)
	for i+side <= p.m {
		s.cols = int(min((p.m-i)/side, groupsBeside(p.ars, side)))
		w.k, w.tiles = p.k, matrices
		w.a, w.aStep, w.aNext, w.ahead = p.a+uintptr(i*p.ars), uintptr(p.ars), uintptr(p.aNext), uintptr(2*p.aNext)
		w.b, w.bStep, w.bNext = p.b, uintptr(p.bcs), uintptr(p.bNext)
		at := place{p.c + uintptr(i*p.crs), size}
		w.follow(true, true, at, at, at)
		w.dNext = uintptr(p.cNext())
		w.restMask(p.k % side)
		w.call(rowwise, s)
		i += int64(s.cols) * side
	}
	return i
}
