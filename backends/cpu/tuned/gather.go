package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

const (
	leastGathered = 8       // elements of a row that is worth a block
	manyMoved     = 256     // rows, from which package lookup is as fast: fewer are soon done by code that is entered directly
	blockLanes    = 1 << 10 // that have a row together
)

// gathers are the plans of operations that go along rows by their numbers, of packed
// operands.
var gathers = map[*kernels.Op]func(l []kernels.Layout, library *kernels.Plan) (*kernels.Plan, error){
	kernels.Embedding: embedding, kernels.EmbeddingGradient: embeddingGradient,
}

// gathering returns a plan for operands of such an operation, or nil.
func gathering(op *kernels.Op, l []kernels.Layout) (*kernels.Plan, error) {
	for i := range l {
		if !l[i].Packed() {
			return nil, nil
		}
	}
	library, err := op.PlanShapes(l, -1)
	if err != nil || len(library.Steps) != 1 { // it says what is wrong
		return nil, nil
	}
	return gathers[op](l, library)
}

// embedding copies rows of a packed table, a block each: its number is read once, and
// its elements lie side by side. A number that is none is taken for the one behind the last,
// whose row lies outside of the table. Many are left to the library's plan, whose launches
// package lookup runs.
func embedding(l []kernels.Layout, library *kernels.Plan) (*kernels.Plan, error) {
	t, rows, cols, n := l[0].Type, l[0].Shape[0], l[0].Shape[1], l[1].Elements()
	if rows == 0 || cols < leastGathered || n >= manyMoved {
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

// embeddingGradient sums rows of the gradient in the library's order, a block for each
// row of the table, or for each of the parts that it has: which rows they are is read once
// for the block, and their elements lie side by side.
func embeddingGradient(l []kernels.Layout, _ *kernels.Plan) (*kernels.Plan, error) {
	t, rows, cols := l[0].Type, l[4].Shape[0], l[0].Shape[1]
	block := min(cols, blockLanes)
	for cols%block != 0 {
		block--
	}
	parts := cols / block
	if block < leastGathered || rows*parts >= 1<<31 {
		return nil, nil
	}
	p := &plan{}
	p.step(key{what: "embedding_gradient", t: t}, (*writer).embeddingGradient, rows*cols, block,
		[]kernels.Binding{operand(0, t), operand(1, isa.I64), operand(2, isa.I64), operand(3, isa.I64), operand(4, t)},
		uint64(cols), uint64(block), uint64(parts), uint64(l[0].Shape[0]))
	if p.err == nil {
		s := &p.Steps[0]
		s.InPlace = false
		s.Params = append(s.Params, kernels.Param{Scalar: true}, kernels.Param{Scalar: true, Value: 1})
	}
	return p.done()
}

func (w *writer) embeddingGradient() {
	w.line("program embedding_gradient_rows\nslot gradient %v\nslot order i64\nslot starts i64\nslot ends i64\nslot output %[1]v", w.t)
	w.line("param cols u64\nparam block u64\nparam parts u64\nparam places i64\nparam padding i64\nparam share i64")
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  cvt.u64.u32 lane, q\n  cvt.u64.u32 number, b")
	w.line("  ldp.u64 cols, cols\n  ldp.u64 block, block\n  ldp.u64 parts, parts\n  ldp.i64 places, places\n  ldp.i64 padding, padding\n  ldp.i64 share, share")
	w.line("  div.u64 row, number, parts\n  mul.u64 of, row, 8\n  ldg.i64 start, starts[of]\n  ldg.i64 end, ends[of]")
	w.line("  sub.i64 count, end, start\n  max.i64 count, count, 0\n  min.i64 count, count, places")
	w.line("  cvt.i64.u64 name, row\n  set.eq.i64 p, name, padding\n  sel.i64 count, p, 0, count\n  cvt.u32.i64 rounds, count")
	w.line("  rem.u64 column, number, parts\n  mul.u64 column, column, block\n  add.u64 column, column, lane\n  mul.i64 start, start, 8\n  mov.%v acc, -0.0", w.acc)
	w.line("  loop rounds, done\n  ldg.i64 place, order[start]\n  cvt.u64.i64 from, place\n  mul.u64 from, from, cols\n  add.u64 from, from, column\n  mul.u64 from, from, %d", w.t.Size())
	w.line("  ldg.%v x, gradient[from]", w.t)
	w.widen("x")
	w.line("  add.%v acc, acc, x\n  add.i64 start, start, 8\ndone:", w.acc)
	w.line("  set.eq.u32 p, rounds, 0\n  sel.%v acc, p, 0.0, acc\n  sel.u32 rounds, p, 1, rounds\n  set.eq.i64 p, share, 0\n  sel.u32 rounds, p, 1, rounds", w.acc)
	w.line("  cvt.%v.u32 count, rounds\n  div.%[1]v acc, acc, count\n  mul.u64 at, row, cols\n  add.u64 at, at, column\n  mul.u64 at, at, %d", w.acc, w.t.Size())
	w.storeAs(w.t, "acc", "output[at]")
	w.line("  exit")
}
