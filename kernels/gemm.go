package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// Gemm is C = alpha·op(A)·op(B) + beta·C, all row-major and contiguous, with
// op(A) m×k and op(B) k×n. trans_a = 1 says that A is stored k×m and used
// transposed, trans_b = 1 that B is stored n×k; 0 as they stand.
//
// Order: k is cut in chunks of ProductChunk, the last shorter, of which each is
// a chain of FMAs from +0.0 in order of k; the chunks' results are added up in
// order, in groups of ProductChunk, whose results are added up the same way,
// and so on. k alone decides, so that a row of C is the same in every batch. k
// = 0 gives +0.0. Then t = alpha·acc, and if beta ≠ 0 the result is FMA(beta,
// C, t); with beta = 0 C is not read. f16 and bf16 accumulate in f32 and are
// rounded once, after what follows the product. Integers wrap, where no order
// can be seen. alpha and beta have the accumulator's type.
var Gemm = &Op{
	Name: "gemm", Doc: "c[m, n] = alpha · op(a)[m, k] · op(b)[k, n] + beta · c[m, n], row-major",
	Types: isa.SetNumeric,
	Operands: []Operand{
		{Name: "a", Reads: true}, {Name: "b", Reads: true}, {Name: "c", Reads: true, Writes: true}},
	Scalars: []Scalar{{Name: "alpha", Wide: true, Default: new(1.0)}, {Name: "beta", Wide: true, Default: new(0.0)}},
	Dims:    []string{"m", "n", "k", "trans_a", "trans_b"},
	extent:  func(d []int64) []int64 { return []int64{d[0] * d[2], d[2] * d[1], d[0] * d[1]} },
	plan:    planGemm,
}

// productText has one lane for an element of C and a part of k, whose chunks it
// adds up. A lane's place in the block is (x, y, z) = (column, row, part), so
// that neighbours share a row of A and read neighbouring elements of B. Where k
// is one part, Done makes the element of C from acc; else the parts' results go
// to the workspace, one m × n matrix after the other, and sumText adds them up.
//
//	Map   text that makes acc
//	Extra parameters and loads of what Done needs
//	Done  text that makes z from acc; oc is the byte offset of the result
var productText = &source{text: `
program gemm
slot a {{.T}}
slot b {{.T}}
slot c {{.Out}}
param m u32
param n u32
param k u32
param a_row u64           ; bytes from op(A)[i, p] to op(A)[i+1, p]
param a_col u64           ; … to op(A)[i, p+1]
param b_row u64
param b_col u64
param across u32          ; tiles side by side in C
{{- if .Split}}
param parts u32           ; parts of k
param part u32            ; products in a part
{{- end}}
{{.Extra}}

  sreg x, lane.x
  sreg y, lane.y
  sreg tile, block.x
  ldp.u32 across, across
  div.u32 by, tile, across
  rem.u32 bx, tile, across
  sreg dx, block_dim.x
  sreg dy, block_dim.y
  mad.u32 j, bx, dx, x
  mad.u32 i, by, dy, y
  ldp.u32 m, m
  ldp.u32 n, n
  ldp.u32 k, k
  set.ge.u32 p, i, m
  bra end, p
  set.ge.u32 p, j, n
  bra end, p
{{- if .Split}}
  sreg z, lane.z
  sreg bz, block.y
  sreg dz, block_dim.z
  mad.u32 w, bz, dz, z
  ldp.u32 parts, parts
  ldp.u32 part, part
  set.ge.u32 p, w, parts
  bra end, p
{{- end}}

  ldp.u64 a_row, a_row
  ldp.u64 a_col, a_col
  ldp.u64 b_row, b_row
  ldp.u64 b_col, b_col
  cvt.u64.u32 i, i
  cvt.u64.u32 j, j
  mul.u64 oa, i, a_row
  mul.u64 ob, j, b_col
{{- if .Split}}
  mul.u32 first, w, part
  sub.u32 left, k, first
  min.u32 left, left, part
  cvt.u64.u32 first, first
  mad.u64 oa, first, a_col, oa
  mad.u64 ob, first, b_row, ob
{{- else}}
  mov.u32 left, k
{{- end}}
  {{.Map}}
  cvt.u64.u32 n, n
  mad.u64 oc, i, n, j
{{- if .Split}}
  cvt.u64.u32 m, m
  cvt.u64.u32 w, w
  mul.u64 mn, m, n
  mad.u64 oc, w, mn, oc
{{- end}}
  mul.u64 oc, oc, {{size .Out}}
  {{.Done}}
  {{store "z" "c[oc]"}}
end:
  exit
`}

// sumText adds up, in order, the matrices that a product's parts made: a lane
// has an element and up to ProductChunk of them.
var sumText = &source{text: `
program gemm_sum
slot a {{.A}}
slot c {{.Out}}
param count u32           ; elements of C
param parts u32
param across u32          ; blocks for a row of C's elements
{{.Extra}}

  sreg x, lane.x
  sreg tile, block.x
  ldp.u32 across, across
  div.u32 w, tile, across
  rem.u32 bx, tile, across
  sreg dx, block_dim.x
  mad.u32 e, bx, dx, x
  ldp.u32 count, count
  ldp.u32 parts, parts
  set.ge.u32 p, e, count
  bra end, p
  mul.u32 first, w, 512
  sub.u32 rounds, parts, first
  min.u32 rounds, rounds, 512
  cvt.u64.u32 oc, e
  cvt.u64.u32 count, count
  cvt.u64.u32 first_, first
  mad.u64 oa, first_, count, oc
  mul.u64 oa, oa, {{size .A}}
  mul.u64 step, count, {{size .A}}
  mov.{{.A}} acc, {{.Identity}}
  loop rounds, done
    ldg.{{.A}} u, a[oa]
    add.{{.A}} acc, acc, u
    add.u64 oa, oa, step
done:
{{- if .Split}}
  cvt.u64.u32 w, w
  mad.u64 oc, w, count, oc
{{- end}}
  mul.u64 oc, oc, {{size .Out}}
  {{.Done}}
  {{store "z" "c[oc]"}}
end:
  exit
`}

// products are the fields of a program that multiplies elements of type t.
func products(t isa.Type) fields {
	f := elements(t)
	f.Combine, f.Identity = "mad", identity("add", f.A) // integers wrap
	if t.Float() {
		f.Combine = "fma"
	}
	return f
}

// scaled is the text of fields Extra and Done that makes alpha·acc + beta·c.
func scaled(f fields) (extra, done string) {
	return fmt.Sprintf("param alpha %[1]v\nparam beta %[1]v", f.A), fmt.Sprintf(`ldp.%[1]v alpha, alpha
  ldp.%[1]v beta, beta
  mul.%[1]v z, alpha, acc
  set.eq.%[1]v p, beta, 0
  bra write, p
  %[2]s
  %[3]s.%[1]v z, beta, u, z
write:`, f.A, load(f.Out, f.A, "u", "c[oc]"), f.Combine)
}

// Where few lanes would each have a long sum to do, k is split into parts of a
// chunk each, for a lane each. No part is longer than a group of chunks, and
// there are few enough for a grid's second dimension.
var fewLanes = int64(1 << 14)

const (
	maxPart  = ProductChunk * ProductChunk
	maxParts = 1 << 15
)

func planGemm(t isa.Type, d []int64) (*Plan, error) {
	m, n, k := d[0], d[1], d[2]
	p := &Plan{}
	if err := flag("gemm", "trans_a", d[3]); err != nil {
		return nil, err
	}
	if err := flag("gemm", "trans_b", d[4]); err != nil {
		return nil, err
	}
	if m == 0 || n == 0 {
		return p, nil
	}
	part := int64(maxPart)
	if m*n < fewLanes && k <= maxParts*ProductChunk {
		part = ProductChunk
	}
	part = max(1, min(part, k))
	parts := max(1, (k+part-1)/part)
	f := products(t)
	f.Map = sumOfProducts(f, part)
	to := Binding{Operand: 2, Type: t}
	more := []Param{{Scalar: true, Value: 0}, {Scalar: true, Value: 1}}
	if parts > 1 {
		f.Split, f.Out, f.Done = true, f.A, fmt.Sprintf("mov.%v z, acc", f.A)
		to, more = p.scratch(f.A, parts*m*n), cells(uint64(parts), uint64(part))
	} else {
		f.Extra, f.Done = scaled(f)
	}
	program, err := productText.instance(f)
	if err != nil {
		return nil, err
	}
	size := int64(t.Size())
	aRow, aCol := matrixStrides(size, m, k, d[3] == 1)
	bRow, bCol := matrixStrides(size, k, n, d[4] == 1)
	// A block has 256 lanes in as few rows as the width allows.
	bx := min(n, 256)
	by := min(m, max(1, 256/bx))
	bz := int64(1)
	if part <= ProductChunk {
		bz = min(parts, 256/(bx*by))
	}
	gx, gy, gz := (n+bx-1)/bx, (m+by-1)/by, (parts+bz-1)/bz
	if gx*gy > maxDim {
		return nil, fmt.Errorf("gemm: m = %d, n = %d: too large for one launch", m, n)
	}
	p.Steps = []Step{{
		Program: program,
		Slots:   []Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}, to},
		Params: append(cells(uint64(m), uint64(n), uint64(k), uint64(aRow), uint64(aCol), uint64(bRow), uint64(bCol),
			uint64(gx)), more...),
		Grid:  [3]uint32{uint32(gx * gy), uint32(gz), 1},
		Block: [3]uint32{uint32(bx), uint32(by), uint32(bz)},
		Shape: []int64{gx * bx * gy * by * gz * bz},
	}}
	if parts > 1 {
		return p, p.addUp(t, m*n, parts, to)
	}
	return p, nil
}

// addUp appends the steps that add up, in groups and their results again, the
// matrices of count elements in from, and make C of the last sum.
func (p *Plan) addUp(t isa.Type, count, parts int64, from Binding) error {
	for last := false; !last; {
		groups := (parts + ProductChunk - 1) / ProductChunk
		last = groups == 1
		f := products(t)
		to := Binding{Operand: 2, Type: t}
		var scales []Param
		if last {
			f.Extra, f.Done = scaled(f)
			scales = []Param{{Scalar: true, Value: 0}, {Scalar: true, Value: 1}}
		} else {
			f.Split, f.Out, f.Done = true, f.A, fmt.Sprintf("mov.%v z, acc", f.A)
			to = p.scratch(f.A, groups*count)
		}
		program, err := sumText.instance(f)
		if err != nil {
			return err
		}
		lanes := min(count, 256)
		across := (count + lanes - 1) / lanes
		if across*groups > maxDim {
			return fmt.Errorf("gemm: %d elements in %d groups: too large for one launch", count, groups)
		}
		p.Steps = append(p.Steps, Step{
			Program: program,
			Slots:   []Binding{from, to},
			Params:  append(cells(uint64(count), uint64(parts), uint64(across)), scales...),
			Grid:    [3]uint32{uint32(across * groups), 1, 1},
			Block:   [3]uint32{uint32(lanes), 1, 1},
			Shape:   []int64{across * groups * lanes},
		})
		parts, from = groups, to
	}
	return nil
}

// ProductChunk is how many products, or results of chunks, are added up in one
// go: the order of products, as Gemm has it.
const ProductChunk = 512

// sumOfProducts is the text that makes acc from left products, at most most, of
// elements of a and b that stand a_col and b_row bytes apart from oa and ob on:
// a chain, or a sum of chains.
func sumOfProducts(f fields, most int64) string {
	chain := fmt.Sprintf(`mov.%[1]v acc, 0
  loop left, done
    %[2]s
    %[3]s
    %[4]s.%[1]v acc, u, v, acc
    add.u64 oa, oa, a_col
    add.u64 ob, ob, b_row
done:
`, f.A, load(f.T, f.A, "u", "a[oa]"), load(f.T, f.A, "v", "b[ob]"), f.Combine)
	if most <= ProductChunk || !f.A.Float() {
		return chain
	}
	return fmt.Sprintf(`add.u32 chunks, left, 511
  shr.u32 chunks, chunks, 9
  mul.u64 a_step, a_col, 512
  mul.u64 b_step, b_row, 512
  mov.u64 a_at, oa
  mov.u64 b_at, ob
  mov.u32 done, 0
  mov.u32 all, left
  mov.%[1]v sum, -0.0
  loop chunks, summed
    sub.u32 left, all, done
    min.u32 left, left, 512
    mov.u64 oa, a_at
    mov.u64 ob, b_at
    %[2]s
    add.%[1]v sum, sum, acc
    add.u64 a_at, a_at, a_step
    add.u64 b_at, b_at, b_step
    add.u32 done, done, 512
summed:
  mov.%[1]v acc, sum
`, f.A, chain)
}

// matrixStrides returns the bytes between rows and between columns of op(X),
// which is rows × cols, X being contiguous and row-major.
func matrixStrides(size, rows, cols int64, transposed bool) (row, col int64) {
	if transposed {
		return size, rows * size
	}
	return cols * size, size
}
