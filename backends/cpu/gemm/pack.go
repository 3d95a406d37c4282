package gemm

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// How parts of matrices are packed, and transposed.

// packB packs rows p0 + from … p0 + from + kc and columns j … end of B, in tiles, to where dst has
// those of the chunk that begins with row p0.
func (w *worker) packB(dst uintptr, h *shape, p0, from, kc, j, end int64) {
	p, next, across := w.p, h.bTile, h.across
	m := p.lib.m
	size := p.t.size()
	lanes := int64(m.lanes(p.t))
	src := p.b + uintptr((p0+from)*p.brs+j*p.bcs)
	if !p.converts() && p.bcs == size {
		full, rest := (end-j)/across, (end-j)%across
		if full > 0 {
			w.copyRows(dst+uintptr(from*across*size), across*size, src, p.brs, across*size, kc, full, next, tile{t: p.t, cols: int(across / lanes)})
		}
		if rest > 0 {
			cols := ceil(rest, lanes)
			step := cols * int64(m.bytes)
			w.copyRows(dst+uintptr(full*next+from*step), step, src+uintptr(full*across*size), p.brs, 0, kc, 1, next,
				tile{t: p.t, cols: int(cols), mask: w.setMask(rest)})
		}
		return
	}
	for ; j < end; j += across {
		n := min(across, end-j)
		step := ceil(n, lanes) * int64(m.bytes)
		w.transpose(dst+uintptr(from*step), step, src, p.bcs, p.brs, n, kc)
		dst, src = dst+uintptr(next), src+uintptr(across*p.bcs)
	}
}

// copyRows copies rows of tiles, some 100 KB in a call.
func (w *worker) copyRows(dst uintptr, dstStep int64, src uintptr, srcStep, srcNext, rows, tiles, next int64, s tile) {
	w.srcStep, w.srcNext, w.dstStep, w.tiles, w.bNext = uintptr(srcStep), uintptr(srcNext), uintptr(dstStep), tiles, uintptr(next)
	most := max(1, 128<<10/(tiles*dstStep))
	for at := int64(0); at < rows; at += most {
		w.src, w.dst, w.count = src+uintptr(at*srcStep), dst+uintptr(at*dstStep), uintptr(min(most, rows-at))
		w.call(copies, s)
	}
}

// packA packs rows top … top + n and columns p0 … p0 + kc of A to dst, where rows
// lie step apart.
func (w *worker) packA(dst uintptr, step, top, n, p0, kc int64) {
	p := w.p
	size := p.t.size()
	src := p.a + uintptr(top*p.ars+p0*p.acs)
	switch {
	case !p.converts() && p.acs == size:
		if w.byHand() {
			return
		}
		for i := range n {
			copy(hostmem.Bytes(dst+uintptr(i*step), kc*size), hostmem.Bytes(src+uintptr(i*p.ars), kc*size))
		}
	default:
		w.transpose(dst, step, src, p.acs, p.ars, kc, n)
	}
}

// transpose puts a matrix of cols × rows elements, whose columns lie colStep and
// whose rows rowStep bytes apart in src, in dst as rows that lie step apart.
func (w *worker) transpose(dst uintptr, step int64, src uintptr, colStep, rowStep, cols, rows int64) {
	p := w.p
	if p.converts() {
		w.widen(p.in, dst, step, src, colStep, rowStep, cols, rows)
		return
	}
	w.move(dst, step, p.t.size(), src, colStep, rowStep, cols, rows)
}

// squares transposes rows × cols elements of src to cols × rows of dst in squares, the
// last of which lie on those before. It reports whether there are enough for one.
func (w *worker) squares(dst uintptr, dstStep int64, src uintptr, srcStep, rows, cols int64) bool {
	size, side := w.p.t.size(), square(w.p.t)
	if rows < side || cols < side {
		return false
	}
	vectors := int64(1)
	if m := w.p.lib.m; m.evex && m.bytes == 64 && rows >= 2*side && cols >= 2*side {
		vectors, side = 2, 2*side
	}
	w.srcStep, w.dstStep = uintptr(srcStep), uintptr(dstStep)
	strip := func(row, down, col, across int64) {
		w.tiles = down
		most := max(1, 128/down)
		for at := int64(0); at < across; at += most {
			c := col + at*side
			w.src, w.dst, w.count = src+uintptr(row*srcStep+c*size), dst+uintptr(c*dstStep+row*size), uintptr(min(most, across-at))
			w.call(transposes, tile{t: w.p.t, cols: int(vectors)})
		}
	}
	strip(0, rows/side, 0, cols/side)
	if cols%side > 0 {
		strip(0, rows/side, cols-side, 1)
	}
	if rows%side > 0 {
		strip(rows-side, 1, 0, cols/side)
	}
	if rows%side > 0 && cols%side > 0 {
		strip(rows-side, 1, cols-side, 1)
	}
	return true
}

// movedAtOnce is how many elements a call moves, in some tens of microseconds.
const movedAtOnce = 1 << 14

// move copies columns of so many rows between matrices of any strides: in squares,
// where one lies as rows do and the other as columns.
func (w *worker) move(dst uintptr, dstRow, dstCol int64, src uintptr, srcCol, srcRow, cols, rows int64) {
	switch size := w.p.t.size(); {
	case cols == 0:
		return
	case dstCol == size && srcRow == size && w.squares(dst, dstRow, src, srcCol, cols, rows),
		dstRow == size && srcCol == size && w.squares(dst, dstCol, src, srcRow, rows, cols):
		return
	}
	w.srcStep, w.srcNext, w.dstStep, w.bNext = uintptr(srcRow), uintptr(srcCol), uintptr(dstRow), uintptr(dstCol)
	wide, high := min(cols, movedAtOnce), max(1, movedAtOnce/cols)
	for r := int64(0); r < rows; r += high {
		for c := int64(0); c < cols; c += wide {
			w.src, w.dst = src+uintptr(r*srcRow+c*srcCol), dst+uintptr(r*dstRow+c*dstCol)
			w.tiles, w.count = min(wide, cols-c), uintptr(min(high, rows-r))
			w.call(moves, tile{t: w.p.t})
		}
	}
}

// Of a tile that packs: where rows of B go, and how far ahead of B it is fetched. The one is a base of
// rows otherwise, of which such a tile has so few that it needs two, the other a list's.
const (
	packReg      = x86.R11
	packAheadReg = x86.R15
	packsMost    = int64(2 * len(multiples)) // rows
)

// Of a tile that packs A, whose columns need but one base: where the next one goes, how far apart
// they are, and what carries what is shorter than a vector.
const (
	packAReg     = x86.R10
	packAStepReg = x86.R12
	packAElement = x86.R13
)

// packColumn packs the column of A that is next, in pieces that are no longer than what is left of it.
func (g *maker) packColumn() {
	bytes := g.s.rows * int(g.s.t.size())
	for at, n := 0, g.m.bytes; at < bytes; at += n {
		for n > bytes-at {
			n /= 2
		}
		from, to := x86.At(regA, int32(at)), x86.At(packAReg, int32(at))
		if n < 16 {
			g.Load(x86.Width(n), packAElement, from)
			g.Store(x86.Width(n), to, packAElement)
			continue
		}
		g.Emit(x86.MovUPS, x86.Inst{VL: n, D: g.temp(0), IsMem: true, Mem: from})
		g.Emit(x86.StoreUPS, x86.Inst{VL: n, D: g.temp(0), IsMem: true, Mem: to})
	}
	g.Op(x86.ADD, x86.W64, packAReg, packAStepReg)
}
