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
		if s, ok := rowShape(in, rows, cols, processors); ok {
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

// manyLong is how many a multiprocessor has at least where a block reduces rows of up to four
// chunks of f32: of fewer, a block for each chunk finds more of them work. An H200 reads rows
// of 32,768 at 4.07 TB/s so, and by chunks at 3.75, whose results take a launch of their own.
const manyLong = 16

// rowShape chooses the shape for rows that a block reduces.
func rowShape(t isa.Type, rows, cols, processors int64) (shape, bool) {
	exact := int64(mostRegisters)
	if t.Size() == 4 && rows >= manyLong*processors {
		exact = exactRegisters // of which ptxas needs few: no element is used twice
	}
	s, ok := shapeFor(kernels.Accumulator(t), rows, cols, processors, together, exact)
	return s.words(t, rows, processors), ok
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
			w.besideCombine(r.combine)
		}
		w.result(out, "y")
		w.line("  exit")
	})
}
