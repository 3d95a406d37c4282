package tuned

import (
	"math/bits"

	"github.com/hologram-project/hologram/kernels"
)

// Numbers of columns, found of several arrays and all of them in one pass: those of a
// Rowwise that makes no elements, and whose rows are the columns of packed matrices.
// Columns are cut as columns.go does, but a block has lanes of one row of a matrix, so
// that what a row of it has one of is one number for the block.
const statsEach = 4 // partials of a lane where there are more than fewRows rows

// columnStats plans it, or leaves it to the library.
func columnStats(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	c := op.ColumnCall(l, axes)
	if c == nil || !separate(op) {
		return nil, nil
	}
	t, acc, cols := l[0].Type, kernels.Accumulator(l[0].Type), c.Rows/c.Matrices
	s := columnStat{columnText: columnText{t: t, rowText: rowText{op: op, r: op.Rowwise(), along: c.Along}}, rows: c.Cols, partials: c.Cols, each: c.Cols, once: true, exact: true}
	if c.Cols > fewRows {
		s.rows, s.partials, s.each = 0, min(int64(1)<<bits.Len64(uint64(c.Cols-1)), lanes), statsEach
		s.exact, s.once = c.Cols%s.partials == 0, c.Cols == s.partials
	}
	chunks, groups, tile := (c.Cols+chunk-1)/chunk, s.partials/s.each, int64(columnTile/acc.Size())
	if cols < fewColumns || cols >= maxWide || c.Matrices*chunks*groups*(cols/tile+1) >= 1<<31 {
		return nil, nil
	}
	form := ""
	s.same, form = sameForAll(op, c)
	p := &plan{}
	var slots, parts, results []kernels.Binding
	for i, o := range op.Operands {
		if o.Reads {
			slots = append(slots, c.Slots[i])
		} else {
			results = append(results, c.Slots[i])
			if part := c.Slots[i]; groups*chunks == 1 {
				parts = append(parts, part)
			} else {
				parts = append(parts, p.room(acc, c.Matrices*chunks*groups*cols))
			}
		}
	}
	k := key{what: op.Name + " of columns " + form, t: t, n: s.rows<<32 | s.partials<<16 | s.each, exact: s.exact, once: s.once}
	launch := func(from, tiles, lanes int64) {
		p.step(k, s.text, c.Matrices*chunks*groups*tiles*lanes, lanes, append(append([]kernels.Binding{}, slots...), parts...),
			uint64(cols), uint64(c.Cols), uint64(chunks), uint64(groups), uint64(from), uint64(tiles))
	}
	if cols >= tile {
		launch(0, cols/tile, tile)
	}
	if rest := cols % tile; rest > 0 {
		launch(cols-rest, 1, rest)
	}
	p.given(op, t, c)
	for i, stat := range s.r.Stats {
		switch at := results[i]; {
		case groups*chunks == 1:
		case chunks == 1:
			p.columns(stat.Combine, parts[i], at, acc, c.Matrices, groups, cols)
		default:
			sums := p.room(acc, c.Matrices*chunks*cols)
			p.columns(stat.Combine, parts[i], sums, acc, c.Matrices*chunks, groups, cols)
			p.columns(stat.Combine, sums, at, acc, c.Matrices, chunks, cols)
		}
	}
	return p.done()
}

// separate reports whether an operation's numbers of rows are its results, in their
// order, each found without the others, and of the elements as they are.
func separate(op *kernels.Op) bool {
	r, next := op.Rowwise(), 0
	for _, o := range op.Operands {
		if !o.Writes {
			continue
		}
		if next == len(r.Stats) || r.Stats[next].Name != o.Name || r.Stats[next].Done != "" {
			return false
		}
		next++
	}
	for _, s := range r.Stats {
		for _, other := range r.Stats {
			if r.Uses(s.Of, other.Name) {
				return false
			}
		}
	}
	return next == len(r.Stats)
}

// columnStat is a program that finds what becomes of some partials of columns.
type columnStat struct {
	columnText
	rows        int64 // of few, all of which a lane has; 0: there are more, and
	partials    int64 // a chunk has so many partials,
	each        int64 // and a lane of them
	exact, once bool  // each partial gets as many elements, or just one
}

func (s columnStat) text(w *writer) {
	size, groups := w.t.Size(), s.partials/s.each
	w.line("program %s_of_columns", s.op.Name)
	for _, reads := range []bool{true, false} {
		for i, o := range s.op.Operands {
			if o.Reads == reads {
				w.line("slot %s %v", o.Name, s.op.TypeOf(i, w.t))
			}
		}
	}
	w.line("param cols u64\nparam rows u64\nparam chunks u32\nparam groups u32\nparam from u32     ; column\nparam tiles u32")
	s.params(w)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.u64 cols, cols\n  ldp.u64 rows, rows\n  ldp.u32 chunks, chunks\n  ldp.u32 groups, groups\n  ldp.u32 corner, from\n  ldp.u32 tiles, tiles")
	w.line("  rem.u32 tile, b, tiles\n  div.u32 b, b, tiles\n  cvt.u64.u32 block, b\n  rem.u32 group, b, groups\n  div.u32 b, b, groups\n  rem.u32 part, b, chunks\n  div.u32 matrix, b, chunks\n  mad.u32 col, tile, dx, corner")
	w.line("  cvt.u64.u32 col, col\n  cvt.u64.u32 lane, q\n  add.u64 col, col, lane\n  cvt.u64.u32 first, group\n  cvt.u64.u32 part, part\n  cvt.u64.u32 matrix, matrix\n  mul.u64 start, part, %d", chunk)
	w.line("  add.u64 top, start, first\n  mad.u64 at, matrix, rows, top\n  mul.u64 at, at, cols\n  add.u64 at, at, col\n  mul.u64 at, at, %d\n  mul.u64 down, cols, %[1]d", size)
	w.line("  mad.u64 of, matrix, cols, col")
	s.given(w, "of", s.step)
	if s.rows == 0 && !s.once {
		w.line("  sub.u64 len, rows, start\n  min.u64 len, len, %d\n  cvt.u32.u64 n, len\n  shr.u32 rounds, n, %d\n  and.u32 left, n, %d\n  mul.u64 round, down, %d",
			chunk, bits.Len64(uint64(s.partials))-1, s.partials-1, s.partials)
	}
	halved(s.each, 1, 0, func(i int64) { s.partial(w, i, i*groups) }, func(i, j int64) {
		for k, stat := range s.r.Stats {
			w.line("  %s.%v s%dx%d, s%[3]dx%[4]d, s%[3]dx%[5]d", stat.Combine, w.acc, k, i, j)
		}
	})
	w.line("  mad.u64 to, block, cols, col\n  mul.u64 to, to, %d", w.acc.Size())
	for k, stat := range s.r.Stats {
		w.line("  stg.%v s%dx0, %s[to]", w.acc, k, stat.Name)
	}
	w.line("  exit")
}

// partial reduces the elements of a lane's partial number i, the first of which is so
// many rows below the lane's first.
func (s columnStat) partial(w *writer, i, below int64) {
	size := w.t.Size()
	element := func(first bool) {
		var all string
		for _, stat := range s.r.Stats {
			all += stat.Of + "\n"
		}
		s.reads(all, func(i int) bool {
			switch {
			case s.r.Shares[i] == kernels.Whole:
				s.load(w, i, "off")
			case !s.along[i]:
			case s.op.TypeOf(i, w.t) == w.acc:
				s.load(w, i, "wide")
			default:
				s.load(w, i, "aside")
			}
			return false
		})
		for k, stat := range s.r.Stats {
			w.line("  %s", s.r.Text(stat.Of, w.acc))
			if first {
				w.line("  mov.%v s%dx%d, z", w.acc, k, i)
			} else {
				w.line("  %s.%v s%dx%d, s%[3]dx%[4]d, z", stat.Combine, w.acc, k, i)
			}
		}
	}
	w.line("  mul.u64 off, down, %d\n  add.u64 off, off, at\n  add.u64 from, top, %[1]d\n  mul.u64 aside, from, %d\n  mul.u64 wide, from, %d", below, size, w.acc.Size())
	if s.once {
		element(true)
		return
	}
	for k, stat := range s.r.Stats {
		w.line("  mov.%v s%dx%d, %s", w.acc, k, i, kernels.Identity(stat.Combine, w.acc))
	}
	w.labels++
	n := w.labels
	w.line("  loop rounds, round%d", n)
	element(false)
	w.line("  add.u64 off, off, round\n  add.u64 aside, aside, %d\n  add.u64 wide, wide, %d\nround%d:", s.partials*int64(size), s.partials*int64(w.acc.Size()), n)
	if s.exact {
		return
	}
	// All lanes of the block have one more element, or none.
	w.line("  add.u32 here, group, %d\n  set.ge.u32 p, here, left\n  bra over%d, p", below, n)
	element(false)
	w.line("over%d:", n)
}
