package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

const (
	leastGathered = 8       // elements of a row that is worth a block
	blockLanes    = 1 << 10 // that have a row together
)

// embedding copies rows of a packed table, a block each: its number is read once, and
// its elements lie side by side. A number that is none is taken for the one behind the
// last, whose row lies outside of the table.
func embedding(l []kernels.Layout) (*kernels.Plan, error) {
	for i := range l {
		if !l[i].Packed() {
			return nil, nil
		}
	}
	library, err := kernels.Embedding.PlanShapes(l, -1)
	if err != nil || len(library.Steps) != 1 { // it says what is wrong
		return nil, nil
	}
	t, rows, cols, n := l[0].Type, l[0].Shape[0], l[0].Shape[1], l[1].Elements()
	if rows == 0 || cols < leastGathered || n >= 1<<31 {
		return nil, nil
	}
	p, block := &plan{}, min(cols, blockLanes)
	p.step(key{what: "embedding", t: t, once: cols == block}, func(w *writer) { w.embedding(cols == block) },
		n*block, block, []kernels.Binding{operand(0, t), operand(1, isa.I64), operand(2, t)}, uint64(rows), uint64(cols))
	if p.err == nil {
		p.Steps[0].Shape, p.Steps[0].InPlace = []int64{n, block}, false
		p.Steps[0].Places = library.Steps[0].Places
	}
	return p.done()
}

// embedding writes the program; once says that each lane of a block has one element.
func (w *writer) embedding(once bool) {
	w.acc, w.block = w.t, blockLanes
	w.line("program embedding_rows\nslot table %v\nslot place i64\nslot output %[1]v\nparam rows u64\nparam cols u64", w.t)
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 rows, rows\n  ldp.u64 cols, cols\n  cvt.u64.u32 lane, q\n  cvt.u64.u32 block, b")
	w.line("  mul.u64 from, block, 8\n  ldg.i64 row, place[from]\n  cvt.u64.i64 row, row\n  min.u64 row, row, rows")
	w.line("  mul.u64 from, row, cols\n  mul.u64 at, block, cols\n  sub.u64 from, from, at\n  mul.u64 from, from, %d\n  add.u64 at, at, lane\n  mul.u64 at, at, %[1]d", w.t.Size())
	move := func() { w.line("  add.u64 of, from, at\n  ldg.%v x, table[of]\n  stg.%[1]v x, output[at]", w.t) }
	if once {
		move()
	} else {
		w.line("  cvt.u32.u64 n, cols\n  div.u32 rounds, n, %d\n  rem.u32 left, n, %[1]d", blockLanes)
		w.each("rounds", "left", move)
	}
	w.line("  exit")
}
