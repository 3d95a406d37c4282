package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// reduction is a reduction of each row of a matrix.
type reduction struct{ combine string }

var reductions = map[*kernels.Op]reduction{kernels.ReduceSum: {"add"}, kernels.ReduceMin: {"min"}, kernels.ReduceMax: {"max"}}

// identity is the literal that changes nothing when combined.
func identity(combine string, t isa.Type) string {
	low, high := "0", fmt.Sprintf("0x%x", t.Mask())
	switch {
	case t.Float():
		return map[string]string{"add": "-0.0", "min": "inf", "max": "-inf"}[combine]
	case t.Signed():
		low, high = fmt.Sprintf("0x%x", t.Mask()>>1+1), fmt.Sprintf("0x%x", t.Mask()>>1)
	}
	return map[string]string{"add": "0", "min": high, "max": low}[combine]
}

// plan reduces rows that a block holds in one step, and longer ones too where
// there are enough of them; else chunks first, by a block each, and then what they
// give.
func (r reduction) plan(t isa.Type, rows, cols, processors int64) (*kernels.Plan, error) {
	p := &kernels.Plan{}
	from, in := kernels.Binding{Operand: 0, Type: t}, t
	to := kernels.Binding{Operand: 1, Type: t}
	for {
		s, held := shapeFor(rows, cols, processors)
		chunks := ceil(cols, chunk)
		if blocks := max(ceil(rows, max(s.rows, 1)), rows*chunks); blocks > maxBlocks {
			return nil, nil
		}
		switch {
		case held:
			v, err := r.tile(in, t, s)
			if err == nil {
				p.Steps = append(p.Steps, step(v, ceil(rows, s.rows), s.lanes, []kernels.Binding{from, to}, rows, cols))
			}
			return p, err
		case rows >= 2*processors && cols <= longest:
			v, err := r.long(in, t)
			if err == nil {
				p.Steps = append(p.Steps, step(v, rows, partials, []kernels.Binding{from, to}, cols))
			}
			return p, err
		}
		acc := kernels.Accumulator(t)
		v, err := r.chunks(in, acc)
		if err != nil {
			return nil, err
		}
		between := kernels.Binding{Operand: kernels.Workspace, Offset: p.Workspace, Type: acc, Shape: []int64{rows * chunks}, Stride: []int64{1}}
		p.Workspace += (rows*chunks*int64(acc.Size()) + 63) &^ 63
		p.Steps = append(p.Steps, step(v, rows*chunks, partials, []kernels.Binding{from, between}, cols, chunks))
		from, in, cols = between, acc, chunks
	}
}

// tile reduces rows that a block holds.
func (r reduction) tile(t, out isa.Type, s shape) (*isa.Verified, error) {
	return program(key{"tile " + r.combine, t, out, s}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program reduce_tile\nslot x %v\nslot y %v", t, out)
		w.tile(s)
		for k := range s.rows {
			w.mask("x", k, s, identity(r.combine, w.acc))
			w.combine("x", r.combine, k, s, fmt.Sprintf("r%d", k))
		}
		w.line("  set.ne.u64 out, q, 0\n  bra end, out")
		for k := range s.rows {
			if s.rows > 1 {
				w.line("  set.ge.u64 out, row%d, rows\n  bra end, out", k)
			}
			w.line("  mul.u64 row%d, row%[1]d, %d", k, out.Size())
			w.store(out, fmt.Sprintf("r%d", k), fmt.Sprintf("y[row%d]", k))
		}
		w.line("end:\n  exit")
	})
}

// long reduces rows that a block goes through.
func (r reduction) long(t, out isa.Type) (*isa.Verified, error) {
	return program(key{what: "long " + r.combine, t: t, out: out}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program reduce_long\nslot x %v\nslot y %v", t, out)
		w.begin()
		if r.combine == "add" {
			w.sum("z", func(string) {})
		} else {
			w.extreme(r.combine, "z")
		}
		w.result(out, "row", "z")
	})
}

// chunks reduces each chunk of each row.
func (r reduction) chunks(t, out isa.Type) (*isa.Verified, error) {
	return program(key{what: "chunks " + r.combine, t: t, out: out}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program reduce_chunks\nslot x %v\nslot y %v", t, out)
		w.line("param cols u64\nparam chunks u32\nblock %d", partials)
		w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 pitch, cols\n  ldp.u32 chunks, chunks")
		w.line("  div.u32 base, b, chunks\n  rem.u32 chunk, b, chunks\n  cvt.u64.u32 row, b\n  cvt.u64.u32 base, base\n  cvt.u64.u32 first, chunk")
		w.line("  mul.u64 first, first, %d\n  mul.u64 base, base, pitch\n  add.u64 base, base, first\n  mul.u64 base, base, %d", chunk, w.t.Size())
		w.line("  sub.u64 left, pitch, first\n  min.u64 left, left, %d\n  cvt.u32.u64 cols, left\n  sub.u32 lastcol, cols, 1\n  mov.u32 i, q", chunk)
		if r.combine == "add" {
			w.chunkSum("z", func(string) {})
		} else {
			const n = chunk / partials
			w.loads(n)
			w.line("  mov.%v z, %s", w.acc, name("x", 0, 0))
			for u := int64(1); u < n; u++ {
				w.line("  %s.%v z, z, %s", r.combine, w.acc, name("x", 0, u))
			}
			w.line("  block_reduce_%s.%v z, z", r.combine, w.acc)
		}
		w.result(out, "row", "z")
	})
}

// result has lane 0 store the block's result.
func (w *writer) result(out isa.Type, at, r string) {
	w.line("  set.ne.u32 other, q, 0\n  bra end, other\n  mul.u64 %s, %[1]s, %d", at, out.Size())
	w.store(out, r, fmt.Sprintf("y[%s]", at))
	w.line("end:\n  exit")
}
