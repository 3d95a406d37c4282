package gemm

// Products of elements that are converted, of which B is small: A is widened a stretch of rows at a
// time, and what follows is a product of numbers, by whichever way is best for it. So is
// what each tile would else convert, or wait for, done once.

// Bytes of B as numbers, steps of k, and bytes of what a stretch has of A and of the result; its
// least rows.
const (
	widenedB    = 256 << 10
	widenedK    = 8192
	widenedA    = 64 << 10
	widenedRows = 32
)

// isWidened reports whether a product is done so.
func (p *product) isWidened() bool {
	return p.converts() && p.unit == noMultiplier && p.k > 0 && p.k <= widenedK && p.k*p.n*p.t.size() <= widenedB
}

// widened does rows i0 … i1 and columns j0 … j1 of a product that isWidened.
func (w *worker) widened(p *product, i0, i1, j0, j1 int64) {
	w.p = p
	size, k, n := p.t.size(), p.k, j1-j0
	number := element{size, asNumber}
	high := min(i1-i0, max(widenedA/(max(k, n)*size), widenedRows))
	numbers := *p
	numbers.in, numbers.n, numbers.aNext, numbers.bNext = number, n, 0, 0
	numbers.lib = p.lib.around(max(n*size, leastBytes))
	numbers.b = w.room(roomWideB, k*n*size)
	if b := p.b + uintptr(j0*p.bcs); p.brs == p.in.size || n == 1 {
		numbers.brs, numbers.bcs = size, k*size
		w.widen(p.in, numbers.b, k*size, b, p.brs, p.bcs, k, n)
	} else {
		numbers.brs, numbers.bcs = n*size, size
		w.widen(p.in, numbers.b, n*size, b, p.bcs, p.brs, n, k)
	}
	numbers.a = w.room(roomWideA, high*k*size)
	c := uintptr(0)
	if p.out.wide != asNumber {
		numbers.out = number
		c = w.room(roomWideC, high*n*size)
	}
	for i := i0; i < i1 && w.err == nil && !w.stopped; i += high {
		q := numbers
		q.m = min(high, i1-i)
		if a := p.a + uintptr(i*p.ars); p.ars == p.in.size && p.acs != p.in.size {
			q.ars, q.acs = size, q.m*size
			w.widen(p.in, q.a, q.acs, a, p.ars, p.acs, q.m, k)
		} else {
			q.ars, q.acs = k*size, size
			w.widen(p.in, q.a, q.ars, a, p.acs, p.ars, k, q.m)
		}
		to := p.c + uintptr(i*p.crs+j0*p.ccs)
		if q.c = to; c == 0 {
			w.block(&q, 0, q.m, 0, n, nil)
			w.p = p
			continue
		}
		q.c = c
		// The result's rows, or columns, lie in the room as they do where they go.
		rows, cols, rowStep, colStep := q.m, n, p.crs, p.ccs
		if q.crs, q.ccs = n*size, size; colStep != p.out.size {
			q.crs, q.ccs = size, q.m*size
			rows, cols, rowStep, colStep = cols, rows, colStep, rowStep
		}
		if p.reads {
			w.widen(p.out, c, cols*size, to, colStep, rowStep, cols, rows)
		}
		if w.err != nil {
			return
		}
		w.block(&q, 0, q.m, 0, n, nil)
		w.p = p
		if w.err == nil && !w.stopped {
			w.narrow(to, rowStep, colStep, c, cols*size, rows, cols)
		}
	}
}
