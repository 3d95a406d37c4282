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
func (r reduction) plan(t isa.Type, rows, cols int64, d Device) (*kernels.Plan, error) {
	processors := d.Processors
	p := &kernels.Plan{}
	from, in, acc := kernels.Binding{Operand: 0, Type: t}, t, kernels.Accumulator(t)
	for {
		if blocks, ok := longBlocks(in, rows, cols, d); ok {
			v, err := r.long(in, t, cols, blocks)
			if err != nil {
				return nil, err
			}
			one := step(v, rows*blocks, []kernels.Binding{from, {Operand: 1, Type: t}})
			if blocks > 1 {
				one.Slots, one.Meeting = append(one.Slots, between(p, acc, rows*blocks)), meeting(blocks, 2)
			}
			p.Steps = append(p.Steps, one)
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
		if aRowEach(in, rows, cols, d) {
			v, err := r.round(in, t, cols)
			if err != nil {
				return nil, err
			}
			p.Steps = append(p.Steps, step(v, rows, []kernels.Binding{from, {Operand: 1, Type: t}}))
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

// manyLong is how many blocks a multiprocessor has at least where a block reduces several
// chunks: of fewer, a block for each finds more of them work.
const manyLong = 16

// How many bytes a block reads of a row of several chunks: all of it up to mostBytes, if there
// are rows enough; else fewBytes at least, and blocks meet. An H200 reads rows of 32,768 f32 at
// 4.4 TB/s by clusters of four blocks, at 4.2 by a block each; of bf16 at 4.3 by a block each.
// Rows of 262,144 bf16 take clusters of 16, 4.3 for 4.1 TB/s by chunks whose results take a
// launch of their own.
const (
	fewBytes  = 32 << 10
	mostBytes = 64 << 10
	// mostLong is how many elements a row has at most for a block that can't meet others.
	mostLong = 4 * chunk
)

// longBlocks is how many blocks reduce each row of several chunks together; ok is false where
// they can't meet, or elements are not dealt out evenly.
func longBlocks(t isa.Type, rows, cols int64, d Device) (blocks int64, ok bool) {
	if cols <= chunk || rows > maxBlocks {
		return 0, false
	}
	alone := cols%partials == 0 && cols <= mostLong && rows >= manyLong*d.Processors
	if alone && cols*int64(t.Size()) <= mostBytes {
		return 1, true
	}
	if cols%chunk == 0 {
		chunks, each := cols/chunk, int64(1)
		// The written order combines a block's chunks first where the blocks are a power of two.
		for chunks&(chunks-1) == 0 && each*chunk*int64(t.Size()) < fewBytes && rows*chunks >= 2*each*manyLong*d.Processors {
			each *= 2
		}
		if blocks = chunks / each; blocks <= 2*d.Meet && blocks <= d.meet(blocks) && rows*blocks <= maxBlocks {
			return blocks, true
		}
	}
	return 1, alone
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

// long reduces rows of so many elements, so many blocks each, which have chunks as many apart:
// all elements are added up before lanes are combined, so that no load waits for a barrier.
func (r reduction) long(t, out isa.Type, cols, blocks int64) (*isa.Verified, error) {
	return program(key{"long " + r.combine, t, out, shape{elements: cols, rows: blocks}}, func(w *writer) {
		w.t, w.acc, w.beside = t, kernels.Accumulator(t), beside(t)
		w.line("program reduce_long\nslot x %v\nslot y %v", t, out)
		if blocks > 1 {
			w.line("slot z_chunks %v", w.acc)
		}
		w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x\n  div.u32 row, b, %d\n  rem.u32 part, b, %[2]d", partials/w.beside, blocks)
		w.line("  cvt.u64.u32 base, row\n  mul.u64 base, base, %d\n  cvt.u64.u32 at, part\n  mul.u64 at, at, %d\n  add.u64 base, base, at", cols*int64(t.Size()), chunk*t.Size())
		w.line("  cvt.u64.u32 at, q\n  mul.u64 at, at, %d\n  add.u64 at, at, base", w.beside*t.Size())
		var all [][]string
		for first := int64(0); first < cols; first += blocks * chunk {
			all = append(all, w.partials(r.combine, first, min(cols-first, chunk)/partials))
		}
		var z []string
		for _, parts := range all {
			z = append(z, w.ofPartials(r.combine, parts))
		}
		w.line("  mov.%v z, %s", w.acc, w.tree(r.combine, z))
		if blocks > 1 {
			w.result(w.acc, "z_chunks")
			w.line("  bar_sync 0")
			w.line("  mov.%v z, %s", w.acc, w.ofBlocks("z_chunks", r.combine, blocks))
		}
		w.line("  or.u32 other, q, part\n  set.ne.u32 other, other, 0\n  bra end, other\n  cvt.u64.u32 to, row\n  mul.u64 to, to, %d", out.Size())
		w.store(out, "z", "y[to]")
		w.line("end:\n  exit")
	})
}

// roundLanes and roundBlocks: a block takes a row's chunks in turn, a lane for each partial, and
// a multiprocessor has so many such blocks at work.
const (
	roundLanes  = partials
	roundBlocks = 4
)

// aRowEach reports whether rows of many chunks are reduced by a block each: where all are at
// work at once, and are enough to keep memory busy. No launch has to come behind theirs then,
// and none waits for others: an H200 reads 200 to 528 rows of 262,144 f32 in 0.94 to 0.99 of
// the time that chunks take whose results have a launch of their own, 132 in 1.05, 1,056 in
// 1.015 (one run, with this rule and without; no command repeats it).
func aRowEach(t isa.Type, rows, cols int64, d Device) bool {
	return t.Size() == 4 && cols%chunk == 0 && cols <= roundLanes*chunk && 2*rows >= 3*d.Processors && rows <= roundBlocks*d.Processors
}

// round reduces rows of so many elements, a block each, chunk by chunk. Lane q keeps what
// chunk q gives, for the combination of all at the end.
func (r reduction) round(t, out isa.Type, cols int64) (*isa.Verified, error) {
	return program(key{"round " + r.combine, t, out, shape{elements: cols}}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program reduce_round\nslot x %v\nslot y %v\nblock %d", t, out, roundLanes)
		w.line("  sreg q, lane.x\n  sreg row, block.x\n  cvt.u64.u32 at, row\n  mul.u64 at, at, %d\n  cvt.u64.u32 k, q\n  mul.u64 k, k, %d\n  add.u64 at, at, k", cols*int64(t.Size()), t.Size())
		w.line("  mov.%v mine, %s\n  mov.u32 c, 0\n  mov.u32 rounds, %d\n  loop rounds, done", w.acc, kernels.Identity(r.combine, w.acc), cols/chunk)
		parts := w.partials(r.combine, 0, perLane)
		w.line("  set.eq.u32 here, q, c\n  add.u32 c, c, 1\n  add.u64 at, at, %d", chunk*t.Size())
		z := w.ofPartials(r.combine, parts)
		w.line("  sel.%v mine, here, %s, mine\ndone:\n  block_reduce_%s.%[1]v z, mine", w.acc, z, r.combine)
		w.line("  set.ne.u32 other, q, 0\n  bra end, other\n  cvt.u64.u32 to, row\n  mul.u64 to, to, %d", out.Size())
		w.store(out, "z", "y[to]")
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
			w.line("  mov.%v z, %s", w.acc, w.ofPartials(r.combine, w.partials(r.combine, 0, perLane)))
		}
		w.result(out, "y")
		w.line("  exit")
	})
}
