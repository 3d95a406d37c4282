package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// reduction is a reduction of each row of a matrix.
type reduction struct {
	combine string
	op      *kernels.Op // the same, as an operation on rows
}

func reductionOf(combine string) reduction { return reduction{combine, kernels.Reduction(combine)} }

var reductions = map[*kernels.Op]reduction{
	kernels.ReduceSum: reductionOf("add"), kernels.ReduceMin: reductionOf("min"), kernels.ReduceMax: reductionOf("max"),
}

// plan reduces rows that a block holds in one step; of longer ones chunks first, by
// a block each, and then what they give.
func (r reduction) plan(t isa.Type, rows, cols, processors int64) (*kernels.Plan, error) {
	p := &kernels.Plan{}
	from, in, acc := kernels.Binding{Operand: 0, Type: t}, t, kernels.Accumulator(t)
	for {
		if isLong(rows, cols, processors) && rows <= maxBlocks {
			v, err := r.long(in, t, cols)
			if err != nil {
				return nil, err
			}
			p.Steps = append(p.Steps, step(v, rows, []kernels.Binding{from, {Operand: 1, Type: t}}))
			return p, nil
		}
		if s, ok := shapeFor(kernels.Accumulator(in), rows, cols, processors, together, mostRegisters); ok {
			s = s.words(in, rows, processors)
			if ceil(rows, s.rows) > maxBlocks {
				return nil, nil
			}
			v, err := r.tile(in, t, s)
			if err != nil {
				return nil, err
			}
			slots := []kernels.Binding{from, {Operand: 1, Type: t}}
			p.Steps = append(p.Steps, step(v, ceil(rows, s.rows), slots, s.params(rows, cols)...))
			return p, nil
		}
		chunks := ceil(cols, chunk)
		if rows*chunks > maxBlocks {
			return nil, nil
		}
		v, err := r.chunks(in, acc, cols%chunk == 0)
		if err != nil {
			return nil, err
		}
		to := between(p, acc, rows*chunks)
		p.Steps = append(p.Steps, step(v, rows*chunks, []kernels.Binding{from, to}, cols, chunks))
		from, in, cols = to, acc, chunks
	}
}

// manyLong is how many rows a multiprocessor has at least where a block reduces a long one: of
// fewer, a block for each chunk finds more of them work.
const manyLong = 16

// mostLong is how many elements such a row has at most. An H200 reads rows of 32,768 bf16 at
// 4.2 TB/s so, and by chunks, whose results take a launch of their own, at 3.9; f32 at 4.3.
const mostLong = 4 * chunk

// isLong reports whether a block reduces each row, of several chunks whose elements are dealt out
// evenly.
func isLong(rows, cols, processors int64) bool {
	return rows >= manyLong*processors && cols > chunk && cols <= mostLong && cols%partials == 0
}

// together is how many elements a lane may hold of several rows.
const together = 32

// fewElements is how many elements of a row a lane has at least where it loads them by words: a
// sum then combines lanes once for each element of a word.
const fewElements = 8

// words has lanes load elements of less than 32 bits by words where the shape is exact, and so
// many more of them that as many bytes are under way as of wider ones: by fewer lanes where a
// row has a partial each, of more rows where it has a warp. Rows of 1,024 bf16 take an H200
// from 3.1 to 4.1 TB/s.
func (s shape) words(t isa.Type, rows, processors int64) shape {
	beside := int64(4 / t.Size())
	for s.lanes > warp && s.elements*beside > exactRegisters {
		beside /= 2
	}
	if !s.exact || beside < 2 || s.lanes == warp && (s.elements < fewElements || s.elements%beside != 0) {
		return s
	}
	s.beside = beside
	if s.lanes > warp {
		s.lanes, s.elements = s.lanes/beside, s.elements*beside
		return s
	}
	for 2*s.rows*s.elements <= together*beside && rows%(2*s.rows) == 0 && rows >= 2*s.rows*fullBlocks*processors {
		s.rows *= 2
	}
	return s
}

// tile reduces rows that a block holds.
func (r reduction) tile(t, out isa.Type, s shape) (*isa.Verified, error) {
	return program(key{"tile " + r.combine, t, out, s}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program reduce_tile\nslot x %v\nslot y %v", t, out)
		w.tile(s)
		for k := range s.rows {
			w.mask("x", k, s, kernels.Identity(r.combine, w.acc))
			w.combine("x", r.combine, k, s, fmt.Sprintf("r%d", k))
		}
		w.line("  set.ne.u64 out, q, 0\n  bra end, out")
		for k := range s.rows {
			if s.rows > 1 && !s.exact {
				w.line("  set.ge.u64 out, row%d, rows\n  bra end, out", k)
			}
			w.line("  mul.u64 row%d, row%[1]d, %d", k, out.Size())
			w.store(out, fmt.Sprintf("r%d", k), fmt.Sprintf("y[row%d]", k))
		}
		w.line("end:\n  exit")
	})
}

// long reduces rows of so many elements, a block each: all are added up before lanes are
// combined, so that no load waits for a barrier.
func (r reduction) long(t, out isa.Type, cols int64) (*isa.Verified, error) {
	return program(key{"long " + r.combine, t, out, shape{elements: cols}}, func(w *writer) {
		w.t, w.acc, w.beside = t, kernels.Accumulator(t), beside(t)
		w.line("program reduce_long\nslot x %v\nslot y %v\nblock %d\n  sreg q, lane.x\n  sreg b, block.x", t, out, partials/w.beside)
		w.line("  cvt.u64.u32 base, b\n  mul.u64 base, base, %d\n  cvt.u64.u32 at, q\n  mul.u64 at, at, %d\n  add.u64 at, at, base", cols*int64(t.Size()), w.beside*t.Size())
		var all [][]string
		for first := int64(0); first < cols; first += chunk {
			all = append(all, w.partials(r.combine, first, min(cols-first, chunk)/partials))
		}
		var z []string
		for _, parts := range all {
			z = append(z, w.ofPartials(r.combine, parts))
		}
		w.line("  mov.%v z, %s", w.acc, w.tree(r.combine, z))
		w.result(out, "y")
		w.line("  exit")
	})
}

// chunks reduces each chunk of each row; whole says that all are whole. Then a lane
// has the elements of several partials side by side.
func (r reduction) chunks(t, out isa.Type, whole bool) (*isa.Verified, error) {
	return program(key{"chunks " + r.combine, t, out, shape{exact: whole}}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		if whole {
			w.beside = beside(t)
		}
		w.line("program reduce_chunks\nslot x %v\nslot y %v", t, out)
		w.begin(0, whole)
		if w.beside == 1 {
			w.chunkCombine(r.combine, w.chunkElements(whole), 0, whole)
		} else {
			w.line("  mov.%v z, %s", w.acc, w.ofPartials(r.combine, w.partials(r.combine, 0, perLane)))
		}
		w.result(out, "y")
		w.line("  exit")
	})
}
