package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Softmax of rows of many chunks. Where blocks can meet, each keeps its chunk of a
// row in registers while they tell each other their maxima and sums, so that memory
// is read once; else, and of more chunks, it is read three times, in three steps.

// meeting is that of so many blocks, which tell each other by the slots told.
func meeting(blocks int64, told ...int) (m kernels.Meeting) {
	if blocks <= 1 {
		return m
	}
	m.Blocks = int(blocks)
	for _, slot := range told {
		m.Told |= 1 << slot
	}
	return m
}

// mostEach is how many bytes each element of a chunk's place may have in a block that has
// several, in registers: two of f32, one of f64.
const mostEach = 8

// meetingBlocks is how many blocks meet for a row, and how many chunks each has: chunks
// that are as many apart as there are blocks. Where each has several, the blocks are a
// power of two, so that the written order combines a block's chunks first.
func meetingBlocks(cols int64, acc isa.Type, d Device) (blocks, each int64, ok bool) {
	blocks, each = ceil(cols, chunk), 1
	meet := d.meet(blocks)
	for blocks > meet && each*int64(acc.Size()) < mostEach {
		blocks, each = meet, 2*each
	}
	return blocks, each, 0 < blocks && blocks <= meet && blocks*each*chunk >= cols
}

// meetingSoftmax is softmax of rows whose chunks' blocks meet; ok is false if there
// are too many.
func meetingSoftmax(t isa.Type, rows, cols int64, d Device) (p *kernels.Plan, ok bool, err error) {
	acc := kernels.Accumulator(t)
	blocks, each, ok := meetingBlocks(cols, acc, d)
	if !ok || rows*blocks > maxBlocks {
		return nil, false, nil
	}
	whole := blocks*each*chunk == cols
	v, err := program(key{"softmax meeting", t, t, shape{elements: blocks, rows: each, exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_meeting\nslot x %v\nslot m %v\nslot s %v\nslot y %v", t, acc, acc, t)
		w.beginSome(blocks, each, whole)
		var x []string
		for c := range each {
			x = append(x, w.chunkLoads(c*blocks*chunk, whole)...)
		}
		for _, x := range x {
			w.widen(x)
		}
		combine := func(combine, slot, to string) {
			var z []string
			for c := range each {
				w.chunkCombine(combine, x[c*perLane:(c+1)*perLane], c*blocks*chunk, whole)
				z = append(z, fmt.Sprintf("of_chunk_%d", c))
				w.line("  mov.%v %s, z", acc, z[c])
			}
			w.line("  mov.%v z, %s", acc, w.tree(combine, z))
			w.result(acc, slot)
			w.line("  bar_sync 0")
			w.line("  mov.%v %s, %s", acc, to, w.ofBlocks(slot, combine, blocks))
		}
		combine("max", "m", "max")
		w.exponentials(x, "max", "")
		combine("add", "s", "sum")
		w.quotients(x, blocks, whole)
	})
	if err != nil {
		return nil, false, err
	}
	p = &kernels.Plan{}
	m, s := between(p, acc, rows*blocks), between(p, acc, rows*blocks)
	one := step(v, rows*blocks, []kernels.Binding{{Operand: 0, Type: t}, m, s, {Operand: 1, Type: t}}, cols)
	one.InPlace, one.Meeting = true, meeting(blocks, 1, 2)
	p.Steps = []kernels.Step{one}
	return p, true, nil
}

// quotients divides what a lane has of y by sum, and stores it; of a row's chunks so many
// lie between those of a block.
func (w *writer) quotients(x []string, apart int64, whole bool) {
	w.reciprocal("sum")
	w.divide(x, "sum", "")
	if !whole { // the same as q, which the compiler does not see: see rowText.places
		w.line("  set.eq.u64 none, pitch, 0\n  sel.u32 again, none, last, q")
	}
	for i, x := range x {
		from, u := int64(i)/perLane*apart*chunk, int64(i)%perLane
		place := w.place(from + u*partials)
		if !whole {
			w.line("  add.u32 k, again, %d\n  set.gt.u32 beyond, k, last\n  bra end, beyond", from+u*partials)
			place = w.within("spot")
		}
		w.store(w.t, x, "y["+place+"]")
	}
	w.line("end:\n  exit")
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
	maxima, err := reductions[kernels.ReduceMax].chunks(t, acc, whole)
	if err != nil {
		return nil, err
	}
	sums, err := program(key{what: "softmax sums", t: t, s: shape{exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_sums\nslot x %v\nslot m %v\nslot y %v", t, acc, acc)
		w.begin(0, whole)
		w.ofChunks("m", "max", "max")
		x := w.chunkElements(whole)
		w.exponentials(x, "max", "")
		w.chunkCombine("add", x, 0, whole)
		w.result(acc, "y")
		w.line("  exit")
	})
	if err != nil {
		return nil, err
	}
	quotients, err := program(key{what: "softmax quotients", t: t, s: shape{exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_quotients\nslot x %v\nslot m %v\nslot s %v\nslot y %v", t, acc, acc, t)
		w.begin(0, whole)
		w.ofChunks("m", "max", "max")
		w.ofChunks("s", "add", "sum")
		x := w.chunkElements(whole)
		w.exponentials(x, "max", "")
		w.quotients(x, 1, whole)
	})
	if err != nil {
		return nil, err
	}
	for _, s := range []kernels.Step{
		step(maxima, rows*chunks, []kernels.Binding{x, m}, cols, chunks),
		step(sums, rows*chunks, []kernels.Binding{x, m, s}, cols, chunks),
		step(quotients, rows*chunks, []kernels.Binding{x, m, s, y}, cols, chunks),
	} {
		s.InPlace = true
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}
