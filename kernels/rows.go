package kernels

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// Where there are many rows, and each short or not along memory, a block that
// works on one is mostly overhead: a lane has a row here, or a part of it, and
// lanes side by side have neighbouring rows. The order is that of reduce.go. Of
// 256 partials a lane keeps some that are far apart, q = g, g + groups, …, does
// with them the halvings of the tree that concern them alone, and leaves the
// rest, groups elements for each chunk, to the next level, which is a row again.
const (
	manyRows  = 64        // at least so many, and
	shortRow  = veryShort // at most so long if they lie along memory
	maxChunks = 1<<16 - 1 // a grid's third dimension
)

// geometry is rows seen through strides, in elements: row r1·n0 + r0 begins at
// r1·s1 + r0·s0, and has cols elements that are step apart.
type geometry struct{ n0, n1, s0, s1, cols, step int64 }

// rowsOf returns the geometry of a layout whose dimensions from lead on are
// rows; ok is false if there is none.
func rowsOf(l Layout, lead int) (g geometry, ok bool) {
	outer, inner := l.part(0, lead), l.part(lead, len(l.Shape))
	shape, walks := merged(outer.Shape, outer.Stride)
	along, steps := merged(inner.Shape, inner.Stride)
	if _, forward := l.span(); !forward || len(shape) > 2 || len(along) > 1 {
		return g, false
	}
	g = geometry{n0: 1, n1: 1, cols: 1}
	if n := len(shape); n > 0 {
		g.n0, g.s0 = shape[n-1], walks[0][n-1]
		if n > 1 {
			g.n1, g.s1 = shape[0], walks[0][0]
		}
	}
	if len(along) == 1 {
		g.cols, g.step = along[0], steps[0][0]
	}
	return g, true
}

// Rows tells whether the rows of a layout, its dimensions from lead on, begin pitch
// elements apart, one after the other, with an element each step.
func (l *Layout) Rows(lead int) (rows, cols, pitch, step int64, ok bool) {
	g, ok := rowsOf(*l, lead)
	rows, cols, pitch, step = g.n0, g.cols, g.s0, g.step
	if cols <= 1 {
		step = 1
	}
	if rows == 1 {
		pitch = cols * step
	}
	return rows, cols, pitch, step, ok && g.n1 == 1
}

// Columns tells whether the rows of a layout, its dimensions from lead on, are the
// columns of packed rows × cols matrices, one behind the other.
func (l *Layout) Columns(lead int) (matrices, rows, cols int64, ok bool) {
	g, ok := rowsOf(*l, lead)
	ok = ok && g.n1 > 0 && g.n0 > 1 && g.s0 == 1 && g.step == g.n0 && g.cols > 1 && (g.n1 == 1 || g.s1 == g.cols*g.n0)
	return g.n1, g.cols, g.n0, ok
}

// rowsText reduces a part of each row.
//
//	Extra  declarations and loads that stand before the first element's
//	Map    text that reduces the part's elements to acc
//	Done   text that makes the result z from acc
var rowsText = &source{text: `
program reduce_{{.Combine}}_rows
slot a {{.T}}
{{.Extra}}
slot out {{.Out}}
param n0 u32              ; rows side by side
param n1 u32              ; … and one below the other
param s0 u64              ; bytes from row to row
param s1 u64
param step u64            ; … and from element to element
param cols u64
param across u32          ; tiles of rows side by side
param count {{.A}}        ; what a mean divides by

  sreg x, lane.x
  sreg y, lane.y
  sreg dx, block_dim.x
  sreg dy, block_dim.y
  sreg b, block.x
  sreg g, block.y           ; which of a chunk's groups of partials
  sreg chunk, block.z
  ldp.u32 across, across
  rem.u32 bx, b, across
  div.u32 by, b, across
  mad.u32 j, bx, dx, x
  mad.u32 i, by, dy, y
  ldp.u32 n0, n0
  ldp.u32 n1, n1
  set.ge.u32 p, j, n0
  bra end, p
  set.ge.u32 p, i, n1
  bra end, p

  ldp.u64 s0, s0
  ldp.u64 s1, s1
  ldp.u64 step, step
  ldp.u64 cols, cols
  cvt.u64.u32 x, x               ; j and i, in 64 bits
  cvt.u64.u32 y, y
  cvt.u64.u32 dx, dx
  cvt.u64.u32 dy, dy
  cvt.u64.u32 bx, bx
  cvt.u64.u32 by, by
  mad.u64 j, bx, dx, x
  mad.u64 i, by, dy, y
  cvt.u64.u32 n0, n0
  mad.u64 row, i, n0, j
  cvt.u64.u32 at, chunk
  mul.u64 at, at, 8192
  sub.u64 len, cols, at          ; min(8192, elements left in the row)
  min.u64 len, len, 8192
  cvt.u64.u32 lane, g
  add.u64 at, at, lane
  mul.u64 off, at, step
  mad.u64 off, i, s1, off
  {{if .Stride}}mul.u64 beside, j, {{.Stride}}
  add.u64 off, off, beside
{{else}}mad.u64 off, j, s0, off
{{end}}  {{.Map}}
  {{.Done}}
  cvt.u64.u32 n1, n1
  mul.u64 rows, n0, n1
  cvt.u64.u32 part, chunk
  mad.u64 part, part, {{.Lanes}}, lane
  mad.u64 to, part, rows, row
  mul.u64 to, to, {{size .Out}}
  {{store "z" "out[to]"}}
end:
  exit
`}

// Elements, or partials, that a lane has: as many as one keeps in registers, and
// fewer where each costs a function.
const (
	laneElements = 16
	laneMapped   = 4
)

// channels is how many an image's element has at most, or any array's that is seen as x[..., 0].
const channels = 4

// manyRows appends the steps that reduce the rows of in to out.
func (r *reduction) manyRows(p *Plan, acc isa.Type, in array, g geometry, extras []Binding, out array, count uint64) error {
	most := int64(laneElements)
	if r.m != nil {
		most = laneMapped
	}
	f := r.fields(acc, []array{in}, 0, true)
	return r.rowsLevel(p, f, most, in, g, extras, out, true, count)
}

func (r *reduction) rowsLevel(p *Plan, f fields, most int64, in array, g geometry, extras []Binding, out array, last bool, count uint64) error {
	if g.cols <= most {
		return r.rowsStep(p, f, g.cols, 1, in, g, extras, out, last, count)
	}
	// The rest are levels of sums.
	next := (&reduction{combine: r.combine}).fields(f.A, []array{{Layout: Layout{Type: f.A}}}, 0, false)
	rows := g.n0 * g.n1
	chunks := (g.cols + ChunkElements - 1) / ChunkElements
	groups := int64(1) << bits.Len64(uint64(min(g.cols, Partials)-1)) / most
	parts := p.room(f.A, chunks, groups, rows)
	if err := r.rowsStep(p, f, most, groups, in, g, extras, parts, false, count); err != nil {
		return err
	}
	left := geometry{n0: rows, n1: chunks, s0: 1, s1: groups * rows, cols: groups, step: rows}
	if chunks == 1 {
		return r.rowsLevel(p, next, laneElements, parts, left, nil, out, last, count)
	}
	sums := p.room(f.A, chunks, rows)
	if err := r.rowsLevel(p, next, laneElements, parts, left, nil, sums, false, count); err != nil {
		return err
	}
	return r.rowsLevel(p, next, laneElements, sums, geometry{n0: rows, n1: 1, s0: 1, cols: chunks, step: rows}, nil, out, last, count)
}

// rowsStep appends the step that reduces each row's elements, or those of each
// of its groups of partials, of which a lane has some.
func (r *reduction) rowsStep(p *Plan, f fields, each, groups int64, in array, g geometry, extras []Binding, out array, last bool, count uint64) error {
	f.Lanes, f.Out = groups, out.Type
	if groups == 1 {
		f.Map = rowText(f, each)
	} else {
		f.Map = partialsText(f, each, groups, g.cols <= Partials)
	}
	f.Done = fmt.Sprintf("mov.%v z, acc", f.A)
	if last && r.done != nil {
		f.Done = r.done(f)
	}
	// The usual strides, of columns, of one of up to four interleaved channels and of
	// short rows, stand in the program, where engines see how lanes lie.
	if 0 < g.s0 && g.s0 <= channels || g.s0 == g.cols && g.step == 1 {
		f.Stride = g.s0 * int64(in.Type.Size())
	}
	program, err := rowsText.instance(f)
	if err != nil {
		return err
	}
	chunks := (g.cols + ChunkElements - 1) / ChunkElements
	bx := min(g.n0, 256)
	by := min(g.n1, max(1, 256/bx))
	across, down := (g.n0+bx-1)/bx, (g.n1+by-1)/by
	if across*down > maxDim || chunks > maxChunks {
		return fmt.Errorf("%d rows of %d elements are too many for one launch", g.n0*g.n1, g.cols)
	}
	size := int64(in.Type.Size())
	p.Steps = append(p.Steps, Step{
		Program: program,
		Slots:   append(append([]Binding{in.bytes()}, extras...), out.bytes()),
		Params: cells(uint64(g.n0), uint64(g.n1), uint64(g.s0*size), uint64(g.s1*size), uint64(g.step*size), uint64(g.cols),
			uint64(across), count),
		Grid:  [3]uint32{uint32(across * down), uint32(groups), uint32(chunks)},
		Block: [3]uint32{uint32(bx), uint32(by), 1},
		Shape: []int64{across * down * groups * chunks * bx * by},
	})
	return nil
}

// rowText reduces n elements, a whole row.
func rowText(f fields, n int64) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("  add.u64 off, off, step\n  add.u64 at, at, 1\n")
		}
		fmt.Fprintf(&b, "  %s\n  mov.%v z%d, z\n", f.Map, f.A, i)
	}
	b.WriteString(treeText(f, n))
	return b.String()
}

// partialsText keeps partials lane, lane + groups, … and reduces them. once says
// that none gets more than one element.
func partialsText(f fields, each, groups int64, once bool) string {
	var b strings.Builder
	width := each * groups
	for i := range each {
		fmt.Fprintf(&b, "  mul.u64 along%d, step, %d\n  mov.%v z%d, %s\n", i, i*groups, f.A, i, f.Identity)
	}
	element := func(i int64) string { // number i from the first
		return fmt.Sprintf("  add.u64 off, from, along%d\n  add.u64 at, place, %d\n  %s\n  %s.%v z%d, z%d, z\n", i, i*groups, f.Map, f.Combine, f.A, i, i)
	}
	b.WriteString("  mov.u64 from, off\n  mov.u64 place, at\n  mov.u64 left, len\n")
	if !once { // as often as all partials get an element
		fmt.Fprintf(&b, "  mul.u64 along, step, %d\n  shr.u64 full, len, %d\n  cvt.u32.u64 rounds, full\n  loop rounds, whole\n",
			width, bits.Len64(uint64(width))-1)
		for i := range each {
			b.WriteString(element(i))
		}
		fmt.Fprintf(&b, "  add.u64 from, from, along\n  add.u64 place, place, %d\nwhole:\n  mul.u64 full, full, %d\n  sub.u64 left, len, full\n", width, width)
	}
	for i := range each {
		fmt.Fprintf(&b, "  add.u64 q, lane, %d\n  set.ge.u64 p, q, left\n  bra partials, p\n%s", i*groups, element(i))
	}
	b.WriteString("partials:\n" + treeText(f, each))
	return b.String()
}

// treeText combines z0 … by halvings.
func treeText(f fields, n int64) string {
	var b strings.Builder
	for w := int64(1) << bits.Len64(uint64(n-1)) / 2; w > 0; w /= 2 {
		for q := int64(0); q+w < n; q++ {
			fmt.Fprintf(&b, "  %s.%v z%d, z%d, z%d\n", f.Combine, f.A, q, q, q+w)
		}
		n = min(n, w)
	}
	fmt.Fprintf(&b, "  mov.%v acc, z0", f.A)
	return b.String()
}
