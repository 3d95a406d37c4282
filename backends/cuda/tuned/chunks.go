package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Rows of many chunks: a block of 256 lanes, each a partial, has one chunk of one
// row. Where a row's last chunk is not whole, the last column's element stands
// beyond its end.

const each = chunk / partials // elements of a lane

// begin declares parameters, and finds a block's row and chunk, and the lane's
// first element: at. Where not all chunks are whole, left is what the chunk has.
func (w *writer) begin(whole bool) {
	size := w.t.Size()
	w.line("param cols u64\nparam chunks u32\nblock %d", partials)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 pitch, cols\n  ldp.u32 chunks, chunks")
	w.line("  div.u32 row, b, chunks\n  rem.u32 chunk, b, chunks\n  cvt.u64.u32 base, row\n  cvt.u64.u32 first, chunk")
	w.line("  mul.u64 first, first, %d\n  mul.u64 base, base, pitch\n  add.u64 base, base, first\n  mul.u64 base, base, %d", chunk, size)
	w.line("  cvt.u64.u32 at, q\n  mul.u64 at, at, %d\n  add.u64 at, at, base", size)
	if !whole {
		w.line("  sub.u64 left, pitch, first\n  min.u64 left, left, %d\n  cvt.u32.u64 left, left\n  sub.u32 last, left, 1", chunk)
	}
}

// place is the offset of the lane's element u.
func (w *writer) place(u int) string { return fmt.Sprintf("at + %d", u*partials*w.t.Size()) }

// chunkElements loads a lane's elements of slot x, to x0_<u>.
func (w *writer) chunkElements(whole bool) (x []string) {
	for u := range each {
		x = append(x, name("x", 0, int64(u)))
		place := w.place(u)
		if !whole {
			place = fmt.Sprintf("at%d", u)
			w.line("  add.u32 k, q, %d\n  min.u32 k, k, last\n  cvt.u64.u32 %s, k\n  mul.u64 %[2]s, %[2]s, %d\n  add.u64 %[2]s, %[2]s, base",
				u*partials, place, w.t.Size())
		}
		w.load(x[u], "x["+place+"]")
	}
	for _, x := range x {
		w.widen(x)
	}
	return x
}

// chunkCombine combines a lane's elements, and those of all lanes, sums in the
// written order, to z in all lanes.
func (w *writer) chunkCombine(combine string, x []string, whole bool) {
	for u, x := range x {
		if combine == "add" && !whole { // of the others, one seen twice changes nothing
			w.line("  add.u32 k, q, %d\n  set.ge.u32 beyond, k, left\n  sel.%v %s, beyond, %s, %[3]s", u*partials, w.acc, x, identity("add", w.acc))
		}
		if u == 0 {
			w.line("  mov.%v z, %s", w.acc, x)
		} else {
			w.line("  %s.%v z, z, %s", combine, w.acc, x)
		}
	}
	w.line("  block_reduce_%s.%v z, z", combine, w.acc)
}

// result has lane 0 store the block's result.
func (w *writer) result(out isa.Type) {
	w.line("  set.ne.u32 other, q, 0\n  bra end, other\n  cvt.u64.u32 b, b\n  mul.u64 b, b, %d", out.Size())
	w.store(out, "z", "y[b]")
	w.line("end:\n  exit")
}

// ofChunks combines what a slot has for each chunk of the block's row, of which
// there are at most as many as lanes, to a register in all of them: sums in the
// written order.
func (w *writer) ofChunks(slot, combine, to string) {
	w.line("  mul.u32 k, row, chunks\n  sub.u32 c, chunks, 1\n  min.u32 c, c, q\n  add.u32 k, k, c\n  cvt.u64.u32 of, k\n  mul.u64 of, of, %d", w.acc.Size())
	w.line("  ldg.%v %s, %s[of]", w.acc, to, slot)
	if combine == "add" {
		w.line("  set.ge.u32 beyond, q, chunks\n  sel.%v %s, beyond, %s, %[2]s", w.acc, to, identity("add", w.acc))
	}
	w.line("  block_reduce_%s.%v %s, %[3]s", combine, w.acc, to)
}

// between is workspace for n results of chunks.
func between(p *kernels.Plan, t isa.Type, n int64) kernels.Binding {
	b := kernels.Binding{Operand: kernels.Workspace, Offset: p.Workspace, Type: t, Shape: []int64{n}, Stride: []int64{1}}
	p.Workspace += (n*int64(t.Size()) + 63) &^ 63
	return b
}

// spreadSoftmax is softmax of rows of many chunks: their maxima, their sums, the
// quotients. The row's own maximum and sum are found by each block.
func spreadSoftmax(t isa.Type, rows, cols int64) (*kernels.Plan, error) {
	chunks := ceil(cols, chunk)
	if chunks > partials || rows*chunks > maxBlocks {
		return nil, nil
	}
	p, acc, whole := &kernels.Plan{}, kernels.Accumulator(t), cols%chunk == 0
	x, y := kernels.Binding{Operand: 0, Type: t}, kernels.Binding{Operand: 1, Type: t}
	m, s := between(p, acc, rows*chunks), between(p, acc, rows*chunks)
	maxima, err := reduction{"max"}.chunks(t, acc, whole)
	if err != nil {
		return nil, err
	}
	sums, err := program(key{what: "softmax sums", t: t, s: shape{exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_sums\nslot x %v\nslot m %v\nslot y %v", t, acc, acc)
		w.begin(whole)
		w.ofChunks("m", "max", "max")
		x := w.chunkElements(whole)
		for _, x := range x {
			w.exponential(x, "max")
		}
		w.chunkCombine("add", x, whole)
		w.result(acc)
	})
	if err != nil {
		return nil, err
	}
	quotients, err := program(key{what: "softmax quotients", t: t, s: shape{exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_quotients\nslot x %v\nslot m %v\nslot s %v\nslot y %v", t, acc, acc, t)
		w.begin(whole)
		w.ofChunks("m", "max", "max")
		w.ofChunks("s", "add", "sum")
		x := w.chunkElements(whole)
		for _, x := range x {
			w.exponential(x, "max")
		}
		w.reciprocal("sum")
		w.divide(x, "sum", "")
		for u, x := range x {
			if !whole {
				w.line("  add.u32 k, q, %d\n  set.ge.u32 beyond, k, left\n  bra end, beyond", u*partials)
			}
			w.store(t, x, "y["+w.place(u)+"]")
		}
		w.line("end:\n  exit")
	})
	if err != nil {
		return nil, err
	}
	for _, s := range []kernels.Step{
		step(maxima, rows*chunks, partials, []kernels.Binding{x, m}, cols, chunks),
		step(sums, rows*chunks, partials, []kernels.Binding{x, m, s}, cols, chunks),
		step(quotients, rows*chunks, partials, []kernels.Binding{x, m, s, y}, cols, chunks),
	} {
		s.InPlace = true
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}
