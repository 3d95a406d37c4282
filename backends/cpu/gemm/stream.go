package gemm

// Products with few rows, of a B that lies as rows do and is larger than the
// caches nearby: each element of B is used once, so B is read as it lies, some
// whole rows at a time, and the sums go to and fro between registers and the L1.

// Rows of B that are read at a time, which lie in as many pages: of one that caches nearby
// hold, or of more bytes, twice as many for at least so many rows of A, whose sums have to be
// fetched and stored each time. Bytes of sums that stay near.
const (
	nearRows   = 32
	farRows    = 8
	farBytes   = 3 << 20
	farTall    = 4
	streamSums = 24 << 10
)

// streams reports whether a product of so many rows is done so. A's elements are
// reached in place.
func (p *product) streams(rows int64) bool {
	size := p.t.size()
	m := p.lib.m
	return !p.converts() && p.out.wide == asNumber && p.ccs == size && p.bcs == size &&
		(p.acs == size || p.ars == size) && rows <= m.tallest(p.t, 2) && p.n >= int64(4*m.lanes(p.t)) &&
		min(p.k, chunk)*p.brs > 256<<10
}

// stream does rows i0 … i1 and columns j0 … j1 of a product.
func (w *worker) stream(p *product, i0, i1, j0, j1 int64) {
	size, m := p.t.size(), p.lib.m
	rows := i1 - i0
	s := tile{t: p.t, rows: int(rows), along: p.acs == size, cols: min(m.widest(p.t, int(rows)), int(ceil(j1-j0, int64(m.lanes(p.t)))))}
	across := int64(s.cols * m.lanes(p.t))
	wide := min(max(1, streamSums/(rows*size)/across)*across, ceil(j1-j0, across)*across)
	chunks := ceil(p.k, chunk)
	step := wide*size + 64
	sums := w.room(roomSum, 2*rows*step)
	before := sums + uintptr(rows*step)
	// From afar those rows are fetched that are read next: processors follow some rows by
	// themselves, not many, and not far enough.
	// Those with AVX2 alone do that sooner than they do what they are told.
	kind, atOnce, far := multiplies, int64(nearRows), int64(farBytes)
	if !m.evex {
		far *= 2
	}
	if p.k*p.n*size > far {
		if atOnce = farRows; m.evex {
			kind = streams
		}
		if rows >= farTall {
			atOnce *= 2
		}
		w.ahead = uintptr(atOnce * p.brs)
	}
	for j := j0; j < j1; j += wide {
		n := min(wide, j1-j)
		to := place{p.c + uintptr(i0*p.crs+j*size), p.crs}
		for pc := range chunks {
			end := min((pc+1)*chunk, p.k)
			for k := pc * chunk; k < end; k += atOnce {
				w.k = min(atOnce, end-k)
				w.a, w.aStep = p.a+uintptr(i0*p.ars+k*p.acs), uintptr(p.ars)
				if !s.along {
					w.aStep = uintptr(p.acs)
				}
				w.b, w.bStep, w.bNext = p.b+uintptr(k*p.brs+j*size), uintptr(p.brs), uintptr(across*size)
				if k+atOnce < end {
					w.d, w.dStep, w.flags = sums, uintptr(step), 0
				} else { // the chunk's last
					w.follow(pc == 0, pc == chunks-1, place{before, step}, to, to)
				}
				if k > pc*chunk {
					w.flags |= flagBegin
					w.t, w.tStep = sums, uintptr(step)
				}
				w.tilesOf(kind, s, n, false)
			}
			if w.ends() {
				return
			}
		}
	}
}
