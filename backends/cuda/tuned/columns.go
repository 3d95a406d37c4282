package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Columns of packed matrices: a block has a tile of 32 of them, or of a chunk of their
// rows, a warp every eighth row. So memory is read along rows, and each lane keeps
// every eighth of its column's partials in registers, of which it does the first
// halvings by itself. Of one matrix with many rows, rowcolumns.go reads more at once.

const (
	tileColumns = warp
	tileGroups  = partials / tileColumns // warps, and groups of partials
	tileEach    = partials / tileGroups  // partials of a lane
	tileLanes   = tileColumns * tileGroups
	fewRows     = 32      // of which the library's lanes do with as much
	manyRows    = 512     // of which a tile's partials are little
	maxGrid     = 1 << 16 // along y and z
)

// columns reduces the columns of rows × cols matrices of type t to type out.
func (r reduction) columns(t, out isa.Type, matrices, rows, cols int64, d Device) (*kernels.Plan, error) {
	if rows <= fewRows || cols < tileColumns {
		return nil, nil
	}
	p, acc := &kernels.Plan{}, kernels.Accumulator(out)
	if matrices == 1 && (rows >= manyRows || rows == partials) && t.Float() && kernels.Accumulator(t) == acc {
		l := []kernels.Layout{{Type: t, Shape: []int64{cols, rows}, Stride: []int64{1, cols}}, kernels.Packed(acc, cols)}
		if p, err := columnStats(r.op, l, 1, out, d); p != nil || err != nil {
			return p, err
		}
	}
	from := kernels.Binding{Operand: 0, Type: t, Shape: []int64{matrices * rows * cols}, Stride: []int64{1}}
	for {
		chunks := ceil(rows, chunk)
		if ceil(cols, tileColumns) > maxBlocks || chunks >= maxGrid || matrices >= maxGrid {
			return nil, nil
		}
		to, made := kernels.Binding{Operand: 1, Type: out, Shape: []int64{matrices * cols}, Stride: []int64{1}}, out
		if chunks > 1 {
			to, made = between(p, acc, matrices*chunks*cols), acc
		}
		whole := rows%partials == 0
		v, err := program(key{"columns " + r.combine + acc.String(), from.Type, made, shape{exact: whole}}, func(w *writer) {
			w.t, w.acc = from.Type, acc
			r.columnText(w, made, whole)
		})
		if err != nil {
			return nil, err
		}
		s := step(v, 1, []kernels.Binding{from, to}, rows, cols, rows*cols*int64(from.Type.Size()), chunks*cols*int64(made.Size()))
		s.Grid = [3]uint32{uint32(ceil(cols, tileColumns)), uint32(chunks), uint32(matrices)}
		s.Shape = []int64{int64(s.Grid[0]) * chunks * matrices * tileLanes}
		p.Steps = append(p.Steps, s)
		if chunks == 1 {
			return p, nil
		}
		from, rows = to, chunks
	}
}

// columnText writes the program. whole says that all partials get as many elements.
func (r reduction) columnText(w *writer, out isa.Type, whole bool) {
	size, wide := w.t.Size(), w.acc.Size()
	w.line("program reduce_columns\nslot x %v\nslot y %v\nparam rows u64\nparam cols u64\nparam matrix u64\nparam results u64  ; bytes of a matrix, and of its results\nshared %d\nblock %d", w.t, out, tileLanes*wide, tileLanes)
	w.line("  sreg q, lane.x\n  and.u32 x, q, %d\n  shr.u32 y, q, 5\n  sreg tile, block.x\n  sreg part, block.y\n  sreg m, block.z", tileColumns-1)
	for _, name := range []string{"x", "y", "tile", "part", "m"} {
		w.line("  cvt.u64.u32 %s_, %[1]s", name)
	}
	w.line("  ldp.u64 rows, rows\n  ldp.u64 cols, cols\n  ldp.u64 matrix, matrix\n  ldp.u64 results, results\n  mul.u64 matrix, matrix, m_\n  mul.u64 results, results, m_")
	w.line("  mul.u64 column, tile_, %d\n  add.u64 column, column, x_\n  sub.u64 k, cols, 1\n  min.u64 at, column, k\n  mul.u64 at, at, %d", tileColumns, size)
	w.line("  mul.u64 first, part_, %d\n  sub.u64 len, rows, first\n  min.u64 len, len, %[1]d\n  cvt.u32.u64 len, len", chunk)
	w.line("  add.u64 from, at, matrix\n  add.u64 row, first, y_\n  mul.u64 pitch, cols, %d\n  mul.u64 step, pitch, %d", size, tileGroups)
	var z []string
	for i := range tileEach {
		z = append(z, fmt.Sprintf("z%d", i))
		w.line("  mov.%v %s, %s", w.acc, z[i], kernels.Identity(r.combine, w.acc))
	}
	w.line("  shr.u32 rounds, len, 8\n  loop rounds, done")
	w.line("  mul.u64 at, row, pitch\n  add.u64 at, at, from") // rows are counted, not bytes: analysis knows rounds that step by constants
	for i := range tileEach {
		w.load(fmt.Sprintf("x%d", i), "x[at]")
		w.line("  add.u64 at, at, step")
	}
	for i := range tileEach {
		x := fmt.Sprintf("x%d", i)
		w.widen(x)
		w.line("  %s.%v %s, %[3]s, %s", r.combine, w.acc, z[i], x)
	}
	w.line("  add.u64 row, row, %d\ndone:", partials)
	if !whole {
		w.line("  cvt.u64.u32 end, len\n  add.u64 end, end, first\n  sub.u64 last, rows, 1")
		for i := range tileEach { // those beyond the end see the last row
			x := fmt.Sprintf("x%d", i)
			w.line("  add.u64 k, row, %d\n  min.u64 k, k, last\n  mul.u64 at, k, pitch\n  add.u64 at, at, from", i*tileGroups)
			w.load(x, "x[at]")
		}
		for i := range tileEach {
			x := fmt.Sprintf("x%d", i)
			w.widen(x)
			w.line("  add.u64 k, row, %d\n  set.ge.u64 beyond, k, end\n  sel.%v %s, beyond, %s, %[3]s", i*tileGroups, w.acc, x, kernels.Identity(r.combine, w.acc))
			w.line("  %s.%v %s, %[3]s, %s", r.combine, w.acc, z[i], x)
		}
	}
	w.line("  mul.u32 mine, q, %d\n  sts.%v %s, shared[mine]\n  bar_sync 0", wide, w.acc, w.tree(r.combine, z))
	w.line("  set.ne.u32 other, y, 0\n  bra end, other\n  set.ge.u64 beyond, column, cols\n  bra end, beyond\n  mul.u32 top, x, %d", wide)
	z = z[:tileGroups]
	for i := range z {
		w.line("  lds.%v %s, shared[top + %d]", w.acc, z[i], i*tileColumns*wide)
	}
	w.line("  mul.u64 to, part_, cols\n  add.u64 to, to, column\n  mul.u64 to, to, %d\n  add.u64 to, to, results", out.Size())
	w.store(out, w.tree(r.combine, z), "y[to]")
	w.line("end:\n  exit")
}
