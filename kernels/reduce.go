package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// The written order of a reduction over an array. ReductionOrder is the version
// of all orders, those of products (see Gemm) among them.
//
// The array is cut in chunks of ChunkElements. Element i of a chunk goes to
// partial i mod Partials, in order; the partials are combined by a halving
// tree (s[q] += s[q+w], w = Partials/2 … 1). The results of the chunks are an
// array that is reduced the same way, until one is left. A sum's partials
// start at −0.0, so that absent elements change nothing, and a sum over no
// elements is +0.0. f16 and bf16 are accumulated in f32 and rounded once.
const (
	ReductionOrder = 2
	ChunkElements  = 8192
	Partials       = 256
)

// reductionText is one level of a reduction over the rows of a matrix: a block
// reduces one chunk of one row.
//
//	Extra    declarations and loads that stand before the loop
//	Map      text that makes z, of type A, from the element at byte offset off,
//	         which is number at of row number row; of other arrays than the
//	         first it is at {{offset i}}
//	Done     text that makes the result z from the row's accumulator acc
var reductionText = &source{text: `
program reduce_{{.Combine}}
slot a {{.T}}
{{.Extra}}
slot out {{.Out}}
param cols u64            ; elements in a row
param chunks u32          ; chunks in a row
param count {{.A}}        ; what a mean divides by
{{.Declared}}block {{.Lanes}}           ; 256, or as many as a shorter row needs: the others would hold the identity

  sreg q, lane.x
  sreg b, block.x
  ldp.u64 cols, cols
  ldp.u32 chunks, chunks
  div.u32 row, b, chunks
  rem.u32 chunk, b, chunks
  cvt.u64.u32 row, row
  cvt.u64.u32 first, chunk
  cvt.u64.u32 lane, q
  mul.u64 first, first, 8192

  sub.u64 len, cols, first       ; min(8192, elements left in the row)
  min.u64 len, len, 8192
  shr.u64 whole, len, 8
  cvt.u32.u64 rounds, whole      ; in so many all lanes have an element,
  mul.u64 whole, whole, 256
  sub.u64 left, len, whole
  cvt.u32.u64 left, left         ; and then so many lanes

  mul.u64 start, row, cols
  add.u64 start, start, first
  add.u64 start, start, lane
{{.Placed "start"}}  add.u64 at, first, lane        ; the element's place in its row
  mov.{{.A}} acc, {{.Identity}}
  loop rounds, done
    {{.Map}}
    {{.Combine}}.{{.A}} acc, acc, z
{{.Farther}}    add.u64 at, at, 256
done:
  set.eq.u32 p, left, 0          ; which all lanes agree on
  bra reduce, p
  set.ge.u32 p, q, left
  bra reduce, p
{{.Rest}}    add.u64 at, first, lane
    add.u64 at, at, whole
    {{.Map}}
    {{.Combine}}.{{.A}} acc, acc, z
reduce:
  block_reduce_{{.Combine}}.{{.A}} acc, acc
  set.ne.u32 p, q, 0
  bra end, p
  {{.Done}}
  cvt.u64.u32 at, b
  mul.u64 at, at, {{size .Out}}
  {{store "z" "out[at]"}}
end:
  exit
`}

// reduction is what tells one reduction from another.
type reduction struct {
	combine string
	// extra, m and done are as in reductionText, for the first level (extra and
	// m) and the last (done); they see the element type. Empty: none, the
	// element itself, the accumulator itself.
	extra, m, done func(f fields) string
}

// Identity is the value that changes nothing when combined, as text.
func Identity(combine string, t isa.Type) string {
	switch {
	case combine == "mul" && t.Float():
		return "1.0"
	case combine == "mul":
		return "1"
	case combine == "add" && t.Float():
		return "-0.0"
	case combine == "add":
		return "0"
	case t.Float():
		return map[string]string{"min": "inf", "max": "-inf"}[combine]
	}
	low, high := "0", fmt.Sprintf("0x%x", t.Mask())
	if t.Signed() {
		low, high = fmt.Sprintf("0x%x", t.Mask()>>1+1), fmt.Sprintf("0x%x", t.Mask()>>1)
	}
	return map[string]string{"min": high, "max": low}[combine]
}

// reduce appends the steps that reduce the dimensions from lead on of the arrays
// in, of which all have one shape, to out, which is packed. Extras are bound to
// the first level's slots after those of in. acc is the type that sums are kept
// in, and count the cell of the number that a mean divides by.
func (r *reduction) reduce(p *Plan, acc isa.Type, in []array, lead int, extras []Binding, out array, count uint64) error {
	outer, inner := in[0].part(0, lead), in[0].part(lead, len(in[0].Shape))
	rows, cols := outer.Elements(), inner.Elements()
	if rows == 0 {
		return nil
	}
	if g, ok := rowsOf(in[0].Layout, lead); ok && len(in) == 1 && cols > 0 && rows >= manyRows && (cols <= shortRow || !in[0].Packed()) {
		return r.manyRows(p, acc, in[0], g, extras, out, count)
	}
	in = slices.Clone(in)
	for i := range in {
		var err error
		if in[i], err = p.few(in[i]); err != nil {
			return err
		}
	}
	return r.levels(p, acc, rows, cols, in, extras, out, count)
}

// levels appends the steps that reduce each row of rows × cols matrices to one
// element, a block at a time.
func (r *reduction) levels(p *Plan, acc isa.Type, rows, cols int64, in []array, extras []Binding, out array, count uint64) error {
	for first := true; ; first = false {
		chunks := max(1, (cols+ChunkElements-1)/ChunkElements)
		last := chunks == 1
		lanes := lanesFor(cols)
		w := walkOf(in)
		f := r.fields(acc, in, w.dims(), first)
		f.Lanes = lanes
		to := out
		if last {
			f.Out = out.Type
		} else {
			to = p.room(acc, rows*chunks)
		}
		f.Done = r.finish(f, last)
		program, err := reductionText.instance(f)
		if err != nil {
			return err
		}
		if rows*chunks > maxDim {
			return fmt.Errorf("%d rows of %d elements are too many for one launch", rows, cols)
		}
		p.Steps = append(p.Steps, Step{
			Program: program,
			Slots:   slices.Concat(w.slots(in), extras, []Binding{to.bytes()}),
			Params:  append(cells(uint64(cols), uint64(chunks), count), w.params(in)...),
			Grid:    [3]uint32{uint32(rows * chunks), 1, 1},
			Block:   [3]uint32{uint32(lanes), 1, 1},
			Shape:   []int64{rows * chunks * lanes},
		})
		if last {
			return nil
		}
		in, cols, extras = []array{to}, chunks, nil
	}
}

// fields are those of a program that reads the elements of in, in a walk of so many
// dimensions; first says whether they are the operation's own.
func (r *reduction) fields(acc isa.Type, in []array, dims int64, first bool) fields {
	t := in[0].Type
	f := fields{T: t, A: acc, Out: acc, Combine: r.combine, Identity: Identity(r.combine, acc), Map: load(t, acc, "z", "a[off]"), Walk: dims}
	for _, a := range in {
		f.Sizes += string(rune(a.Type.Size()))
	}
	if first && r.extra != nil {
		f.Extra = r.extra(f)
	}
	if first && r.m != nil {
		f.Map = r.m(f)
	}
	return f
}

// lanesFor is how many lanes reduce a chunk of a row: one for each partial that
// gets an element, rounded up to a power of two. The lanes that are left out
// would only add the identity in the first halvings of the tree.
func lanesFor(cols int64) int64 {
	lanes := int64(1)
	for lanes < min(cols, Partials) {
		lanes *= 2
	}
	return lanes
}

func (r *reduction) finish(f fields, last bool) string {
	text := fmt.Sprintf("mov.%v z, acc", f.A)
	if last && r.done != nil {
		text = r.done(f)
	}
	if r.combine == "add" && f.A.Float() {
		// A sum of no elements is +0.0, not the −0.0 it started from.
		return fmt.Sprintf("set.eq.u64 none, cols, 0\n  sel.%v acc, none, 0, acc\n  %s", f.A, text)
	}
	return text
}

// scratch reserves workspace for n elements of type t.
func (p *Plan) scratch(t isa.Type, n int64) Binding {
	b := Binding{Operand: Workspace, Offset: p.Workspace, Type: t, Shape: []int64{n}, Stride: []int64{1}}
	p.Workspace += (n*int64(t.Size()) + 63) &^ 63
	return b
}
