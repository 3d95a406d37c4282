package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// A tile is what a block holds of a matrix: s.rows rows, whole. Register x<r>_<j> has
// element j of the lane's in row r: that at lane + lanes·j, or, where a lane has s.beside
// elements side by side, at v + beside·(lane + lanes·u), j being v + beside·u. row<r> is
// the row's number. Of a
// shape that is not exact, there stands the last column's element beyond the end of
// a row, which notin says of a lane's last element, and the last row's beyond that.

// name is the register of element j of row r.
func name(prefix string, r, j int64) string { return fmt.Sprintf("%s%d_%d", prefix, r, j) }

// tile declares parameters and loads the tile of slot x.
func (w *writer) tile(s shape) {
	size := int64(w.t.Size())
	if s.exact {
		w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x\n  cvt.u64.u32 q, q\n  cvt.u64.u32 row0, b\n  mul.u64 row0, row0, %d", s.lanes, s.rows)
		w.line("  mul.u64 at, row0, %d\n  mul.u64 k, q, %d\n  add.u64 at, at, k\n  mul.u64 at, at, %d", s.lanes*s.elements, s.beside, size)
		for r := int64(1); r < s.rows; r++ {
			w.line("  add.u64 row%d, row0, %[1]d", r)
		}
		w.elements(s)
		return
	}
	w.line("param rows u64")
	w.line("param cols u64")
	w.line("block %d", s.lanes)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 rows, rows\n  ldp.u64 cols, cols")
	w.line("  cvt.u64.u32 q, q\n  cvt.u64.u32 first, b\n  mul.u64 first, first, %d", s.rows)
	w.line("  sub.u64 lastrow, rows, 1\n  sub.u64 lastcol, cols, 1\n  mul.u64 pitch, cols, %d\n  mul.u64 at, q, %d", size, size)
	w.line("  add.u64 end, q, %d\n  set.ge.u64 notin, end, cols\n  min.u64 end, end, lastcol\n  mul.u64 end, end, %d", s.lanes*(s.elements-1), size)
	for r := range s.rows {
		w.line("  add.u64 row%d, first, %d\n  min.u64 k, row%d, lastrow\n  mul.u64 k, k, pitch", r, r, r)
		w.line("  add.u64 at%d, k, at\n  add.u64 end%d, k, end", r, r)
	}
	w.elements(s)
}

// params are what tile takes.
func (s shape) params(rows, cols int64) []int64 {
	if s.exact {
		return nil
	}
	return []int64{rows, cols}
}

// elements loads a tile's.
func (w *writer) elements(s shape) {
	for r := range s.rows {
		w.each(r, s, func(j int64, offset string) { w.load(name("x", r, j), "x["+offset+"]") })
	}
	for r := range s.rows {
		for j := range s.elements {
			w.widen(name("x", r, j))
		}
	}
}

// each calls f for a lane's elements of row r, with their offsets.
func (w *writer) each(r int64, s shape, f func(j int64, offset string)) {
	size := int64(w.t.Size())
	for j := range s.elements {
		if s.exact {
			v := j % s.beside
			f(j, fmt.Sprintf("at + %d", ((r*s.elements+j-v)*s.lanes+v)*size))
		}
	}
	if s.exact {
		return
	}
	for j := range s.elements - 1 {
		f(j, fmt.Sprintf("at%d + %d", r, j*s.lanes*size))
	}
	f(s.elements-1, fmt.Sprintf("end%d", r))
}

// mask makes the last of row r's elements the identity where the row has ended.
func (w *writer) mask(prefix string, r int64, s shape, identity string) {
	if s.exact {
		return
	}
	x := name(prefix, r, s.elements-1)
	w.line("  sel.%v %s, notin, %s, %s", w.acc, x, identity, x)
}

// combine combines the elements of row r, sums in the written order, and leaves the result in all
// lanes. The elements stay.
func (w *writer) combine(prefix, combine string, r int64, s shape, to string) {
	w.combineOf(combine, s, to, func(j int64) string { return name(prefix, r, j) })
}

// combineOf is combine of what made puts into a register, element by element.
func (w *writer) combineOf(combine string, s shape, to string, made func(j int64) string) {
	if combine != "add" || !w.acc.Float() { // any order
		w.line("  mov.%v %s, %s", w.acc, to, made(0))
		for j := int64(1); j < s.elements; j++ {
			w.line("  %s.%v %s, %s, %s", combine, w.acc, to, to, made(j))
		}
		w.line("  block_reduce_%s.%v %s, %s", combine, w.acc, to, to)
		return
	}
	// Element i goes to partial i mod 256 of chunk i / 8192.
	side := partials / s.lanes // partials of a lane
	each := chunk / s.lanes    // elements of a lane in a chunk
	var chunks []string
	for c := range ceil(s.elements, each) {
		parts := make([][]string, s.beside) // by where they lie side by side
		for j := c * each; j < min((c+1)*each, s.elements); j++ {
			p := fmt.Sprintf("%s_%d_%d", to, c, j%side)
			if k := j - c*each; k < side {
				w.line("  mov.%v %s, %s", w.acc, p, made(j))
				parts[j%s.beside] = append(parts[j%s.beside], p)
			} else {
				w.line("  add.%v %s, %s, %s", w.acc, p, p, made(j))
			}
		}
		var z []string
		for _, parts := range parts {
			p := w.tree("add", parts)
			w.line("  block_reduce_add.%v %s, %s", w.acc, p, p)
			z = append(z, p)
		}
		chunks = append(chunks, w.tree("add", z))
	}
	w.line("  mov.%v %s, %s", w.acc, to, w.tree("add", chunks))
}

// storeRows stores element by element what x<r>_<j> holds to slot y.
func (w *writer) storeRows(s shape) {
	for r := range s.rows {
		if s.rows > 1 && !s.exact {
			w.line("  set.ge.u64 out, row%d, rows\n  bra skip%d, out", r, r)
		}
		w.each(r, s, func(j int64, offset string) {
			if j == s.elements-1 && !s.exact {
				w.line("  bra skip%d, notin", r)
			}
			w.store(w.t, name("x", r, j), "y["+offset+"]")
		})
		w.line("skip%d:", r)
	}
}

// key names a program of this package.
type key struct {
	what string
	t    isa.Type
	out  isa.Type
	s    shape
}
