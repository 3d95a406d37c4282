package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

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
{{- if .Batched}}
param batch u32           ; the first of this launch
param a_batch u64         ; bytes from matrix to matrix
param b_batch u64
{{- end}}
{{- if .Split}}
param parts u32           ; parts of k
param part u32            ; products in a part
param count u64           ; elements of all matrices C
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
{{- if .Batched}}
  sreg bt, block.z
  ldp.u32 batch, batch
  add.u32 bt, bt, batch
  cvt.u64.u32 bt, bt
  ldp.u64 a_batch, a_batch
  ldp.u64 b_batch, b_batch
  mad.u64 oa, bt, a_batch, oa
  mad.u64 ob, bt, b_batch, ob
{{- end}}
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
{{- if .Batched}}
  cvt.u64.u32 m, m
  mul.u64 mn, m, n
  mad.u64 oc, bt, mn, oc
{{- end}}
{{- if .Split}}
  ldp.u64 count, count
  cvt.u64.u32 w, w
  mad.u64 oc, w, count, oc
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

// products are the fields of a program that multiplies elements of type t, whose products
// are of type out.
func products(t, out isa.Type) fields {
	f := elements(t)
	f.A, f.Out = Accumulator(out), out
	f.Combine, f.Identity = "mad", Identity("add", f.A) // integers wrap
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
