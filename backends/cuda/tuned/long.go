package tuned

import (
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// Softmax of rows of many chunks. Where blocks can meet, each keeps its chunk of a
// row in registers while they tell each other their maxima and sums, so that memory
// is read once; else, and of more chunks, it is read three times, in three steps.

// meetings are the programs whose blocks meet.
var meetings sync.Map // from [32]byte to meeting

type meeting struct {
	blocks int
	told   uint64
}

// Meeting says of a program, by its hash, how many blocks meet at its barriers,
// neighbours along x: 0 if barriers are a block's own. Launches by plans have a
// multiple of so many. Where blocks don't meet, such a program does the same if it
// is run once more than it has barriers, and its output is not its input: what it
// tells others is the same each time. It tells it by slots, a bit each, which nothing
// else is read of: see ptx.Options.
func Meeting(hash [32]byte) (blocks int, told uint64) {
	n, _ := meetings.Load(hash)
	m, _ := n.(meeting)
	return m.blocks, m.told
}

// meets notes of a program how many blocks meet, and which slots they tell each other by.
func meets(v *isa.Verified, blocks int64, told ...int) error {
	f, _, err := ir.Canonical(v)
	if err != nil {
		return err
	}
	m := meeting{blocks: int(blocks)}
	for _, slot := range told {
		m.told |= 1 << slot
	}
	meetings.Store(f.Hash(), m)
	return nil
}

// mostMeet is how many blocks can meet on every device whose blocks can.
const mostMeet = 8

// meetingSoftmax is softmax of rows whose chunks' blocks meet; ok is false if there
// are too many.
func meetingSoftmax(t isa.Type, rows, cols int64) (p *kernels.Plan, ok bool, err error) {
	chunks := ceil(cols, chunk)
	if chunks > mostMeet || rows*chunks > maxBlocks {
		return nil, false, nil
	}
	whole, acc := cols%chunk == 0, kernels.Accumulator(t)
	v, err := program(key{"softmax meeting", t, t, shape{elements: chunks, exact: whole}}, func(w *writer) {
		w.t, w.acc = t, acc
		w.line("program softmax_meeting\nslot x %v\nslot m %v\nslot s %v\nslot y %v", t, acc, acc, t)
		w.begin(chunks, whole)
		x := w.chunkElements(whole)
		w.chunkCombine("max", x, whole)
		w.result(acc, "m")
		w.line("  bar_sync 0")
		w.line("  mov.%v max, %s", acc, w.ofBlocks("m", "max", chunks))
		w.exponentials(x, "max", "")
		w.chunkCombine("add", x, whole)
		w.result(acc, "s")
		w.line("  bar_sync 0")
		w.line("  mov.%v sum, %s", acc, w.ofBlocks("s", "add", chunks))
		w.quotients(x, whole)
	})
	if err != nil {
		return nil, false, err
	}
	if err := meets(v, chunks, 1, 2); err != nil {
		return nil, false, err
	}
	p = &kernels.Plan{}
	m, s := between(p, acc, rows*chunks), between(p, acc, rows*chunks)
	one := step(v, rows*chunks, []kernels.Binding{{Operand: 0, Type: t}, m, s, {Operand: 1, Type: t}}, cols)
	one.InPlace = true
	p.Steps = []kernels.Step{one}
	return p, true, nil
}

// quotients divides what a lane has of y by sum, and stores it.
func (w *writer) quotients(x []string, whole bool) {
	w.reciprocal("sum")
	w.divide(x, "sum", "")
	for u, x := range x {
		if !whole {
			w.line("  add.u32 k, q, %d\n  set.ge.u32 beyond, k, left\n  bra end, beyond", u*partials)
		}
		w.store(w.t, x, "y["+w.place(u)+"]")
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
		w.chunkCombine("add", x, whole)
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
		w.quotients(x, whole)
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
