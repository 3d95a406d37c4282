package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// Gemm is C = alpha·op(A)·op(B) + beta·C, all row-major and contiguous, with
// op(A) m×k and op(B) k×n. trans_a = 1 says that A is stored k×m and used
// transposed, trans_b = 1 that B is stored n×k; 0 as they stand.
//
// Order: an element's products are accumulated by one chain of FMAs from +0.0
// in order of k, never split, whatever the shape (integers: MUL and ADD, which
// wrap). Then t = alpha·acc, and if beta ≠ 0 the result is FMA(beta, C, t);
// with beta = 0 C is not read. f16 and bf16 accumulate in f32 and are rounded
// once. alpha and beta have the accumulator's type.
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

// gemmText has one lane for an element of C. A lane's place in the block is
// (x, y) = (column, row), so that neighbours share a row of A and read
// neighbouring elements of B.
var gemmText = &source{text: `
program gemm
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
param m u32
param n u32
param k u32
param a_row u64           ; bytes from op(A)[i, p] to op(A)[i+1, p]
param a_col u64           ; … to op(A)[i, p+1]
param b_row u64
param b_col u64
param alpha {{.A}}
param beta {{.A}}
param across u32          ; tiles side by side in C

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
  set.ge.u32 p, i, m
  bra end, p
  set.ge.u32 p, j, n
  bra end, p

  ldp.u64 a_row, a_row
  ldp.u64 a_col, a_col
  ldp.u64 b_row, b_row
  ldp.u64 b_col, b_col
  cvt.u64.u32 i, i
  cvt.u64.u32 j, j
  mul.u64 oa, i, a_row
  mul.u64 ob, j, b_col
  mov.{{.A}} acc, 0
  ldp.u32 k, k
  loop k, done
    {{load "u" "a[oa]"}}
    {{load "v" "b[ob]"}}
    {{.Combine}}.{{.A}} acc, u, v, acc
    add.u64 oa, oa, a_col
    add.u64 ob, ob, b_row
done:
  cvt.u64.u32 n, n
  mad.u64 oc, i, n, j
  mul.u64 oc, oc, {{size .T}}
  ldp.{{.A}} alpha, alpha
  ldp.{{.A}} beta, beta
  mul.{{.A}} z, alpha, acc
  set.eq.{{.A}} p, beta, 0
  bra write, p
  {{load "w" "c[oc]"}}
  {{.Combine}}.{{.A}} z, beta, w, z
write:
  {{store "z" "c[oc]"}}
end:
  exit
`}

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
	f := elements(t)
	f.Combine = multiplyAdd(t)
	program, err := gemmText.instance(f)
	if err != nil {
		return nil, err
	}
	size := int64(t.Size())
	aRow, aCol := matrixStrides(size, m, k, d[3] == 1)
	bRow, bCol := matrixStrides(size, k, n, d[4] == 1)
	// A block has 256 lanes in as few rows as the width allows.
	bx := min(n, 256)
	by := min(m, max(1, 256/bx))
	gx, gy := (n+bx-1)/bx, (m+by-1)/by
	if gx*gy > maxDim {
		return nil, fmt.Errorf("gemm: m = %d, n = %d: too large for one launch", m, n)
	}
	p.Steps = []Step{{
		Program: program,
		Slots:   []Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}, {Operand: 2, Type: t}},
		Params: append(cells(uint64(m), uint64(n), uint64(k), uint64(aRow), uint64(aCol), uint64(bRow), uint64(bCol)),
			Param{Scalar: true, Value: 0}, Param{Scalar: true, Value: 1}, Param{Value: uint64(gx)}),
		Grid:  [3]uint32{uint32(gx * gy), 1, 1},
		Block: [3]uint32{uint32(bx), uint32(by), 1},
		Shape: []int64{gx * bx * gy * by},
	}}
	return p, nil
}

// multiplyAdd is the instruction that accumulates a product: one rounding for
// floats, wrapping for integers.
func multiplyAdd(t isa.Type) string {
	if t.Float() {
		return "fma"
	}
	return "mad"
}

// matrixStrides returns the bytes between rows and between columns of op(X),
// which is rows × cols, X being contiguous and row-major.
func matrixStrides(size, rows, cols int64, transposed bool) (row, col int64) {
	if transposed {
		return size, rows * size
	}
	return cols * size, size
}
