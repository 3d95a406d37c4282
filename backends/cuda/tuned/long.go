package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Rows that a block goes through: 256 lanes, each a partial. They take a chunk, or
// a part of one, at a time; what lies beyond the row's end is loaded from its last
// column.

// longest is the longest row that a block goes through: each chunk's sum is kept
// by a lane.
const longest = partials * chunk

// part is how many of a row's elements a lane loads at once where order plays no
// part.
const part = 8

// begin declares parameters, and finds a block's row.
func (w *writer) begin() {
	w.line("param cols u32")
	w.line("block %d", partials)
	w.line("  sreg q, lane.x\n  sreg row, block.x\n  ldp.u32 cols, cols\n  sub.u32 lastcol, cols, 1")
	w.line("  cvt.u64.u32 row, row\n  cvt.u64.u32 pitch, cols\n  mul.u64 pitch, pitch, %d\n  mul.u64 base, row, pitch", w.t.Size())
}

// places finds where elements i, i + 256 … of the row are: at<u>.
func (w *writer) places(n int64) {
	for u := range n {
		w.line("  add.u32 k%d, i, %d\n  min.u32 c%[1]d, k%[1]d, lastcol\n  cvt.u64.u32 at%[1]d, c%[1]d", u, u*partials)
		w.line("  mul.u64 at%d, at%[1]d, %d\n  add.u64 at%[1]d, at%[1]d, base", u, w.t.Size())
	}
}

// loads loads from places to x0_<u>.
func (w *writer) loads(n int64) {
	w.places(n)
	for u := range n {
		w.load(name("x", 0, u), fmt.Sprintf("x[at%d]", u))
	}
	for u := range n {
		w.widen(name("x", 0, u))
	}
}

// rounds writes a loop over a row in steps of n elements a lane.
func (w *writer) rounds(label string, n int64, whole bool, body func()) {
	w.line("  mov.u32 i, q")
	if whole {
		w.line("  div.u32 rounds, cols, %d", n*partials)
	} else {
		w.line("  add.u32 rounds, cols, %d\n  div.u32 rounds, rounds, %d", n*partials-1, n*partials)
	}
	w.line("  loop rounds, %s", label)
	body()
	w.line("  add.u32 i, i, %d\n%s:", n*partials, label)
}

// extreme leaves the row's minimum or maximum in all lanes. An element that is
// seen twice changes nothing.
func (w *writer) extreme(combine, to string) {
	w.line("  mov.%v %s, %s", w.acc, to, identity(combine, w.acc))
	w.rounds(to+"_done", part, false, func() {
		w.loads(part)
		for u := range int64(part) {
			w.line("  %s.%v %s, %s, %s", combine, w.acc, to, to, name("x", 0, u))
		}
	})
	w.line("  block_reduce_%s.%v %s, %s", combine, w.acc, to, to)
}

// chunkSum adds up the lanes' elements of a chunk, from i on, in the written
// order, to p in all lanes. Of each element it adds what f makes of it.
func (w *writer) chunkSum(p string, f func(x string)) {
	const n = chunk / partials
	w.loads(n)
	for u := range int64(n) {
		x := name("x", 0, u)
		f(x)
		w.line("  set.ge.u32 beyond, k%d, cols\n  sel.%v %s, beyond, %s, %[3]s", u, w.acc, x, identity("add", w.acc))
		if u == 0 {
			w.line("  mov.%v %s, %s", w.acc, p, x)
		} else {
			w.line("  add.%v %s, %[2]s, %s", w.acc, p, x)
		}
	}
	w.line("  block_reduce_add.%v %s, %[2]s", w.acc, p)
}

// sum leaves the row's sum in all lanes: lane c keeps that of chunk c, and these
// are added as the written order has it.
func (w *writer) sum(to string, f func(x string)) {
	w.line("  mov.%v %s, %s\n  mov.u32 chunk, 0", w.acc, to, identity("add", w.acc))
	w.rounds(to+"_done", chunk/partials, false, func() {
		w.chunkSum("p", f)
		w.line("  set.eq.u32 mine, chunk, q\n  sel.%v %s, mine, p, %[2]s\n  add.u32 chunk, chunk, 1", w.acc, to)
	})
	w.line("  block_reduce_add.%v %s, %[2]s", w.acc, to)
}

// longSoftmax is softmax of rows that a block goes through three times.
func longSoftmax(t isa.Type, rows, cols int64) (*kernels.Plan, error) {
	v, err := program(key{what: "long softmax", t: t}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program softmax_long\nslot x %v\nslot y %v", t, t)
		w.begin()
		w.extreme("max", "m")
		w.sum("s", func(x string) { w.exponential(x, "m") })
		w.reciprocal("s")
		var z []string
		for u := range int64(part) {
			z = append(z, name("x", 0, u))
		}
		quotients := func(label string) {
			w.loads(part)
			for _, z := range z {
				w.exponential(z, "m")
			}
			w.divide(z, "s", label)
		}
		w.rounds("whole", part, true, func() {
			quotients("_whole")
			for u, z := range z {
				w.store(t, z, fmt.Sprintf("y[at%d]", u))
			}
		})
		quotients("_rest")
		for u, z := range z {
			w.line("  set.ge.u32 beyond, k%d, cols\n  bra end, beyond", u)
			w.store(t, z, fmt.Sprintf("y[at%d]", u))
		}
		w.line("end:\n  exit")
	})
	if err != nil {
		return nil, err
	}
	one := step(v, rows, partials, []kernels.Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}}, cols)
	one.InPlace = true
	return &kernels.Plan{Steps: []kernels.Step{one}}, nil
}
