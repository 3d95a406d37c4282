package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// scan is cumsum of rows that a block holds in registers, of whole chunks: each element
// is read and written once, where the library's plan, which has a launch for the chunks
// and one for what is before them, does so twice.
func scan(t isa.Type, rows, cols int64) (*kernels.Plan, error) {
	const lanes = kernels.ScanChunk
	acc := kernels.Accumulator(t)
	chunks, wide := cols/lanes, int64(acc.Size())
	if rows < 1 || rows > maxBlocks || cols%lanes != 0 || chunks < 2 || chunks*ceil(wide, 4) > warpRegisters {
		return nil, nil
	}
	v, err := program(key{"scan", t, t, shape{lanes: lanes, elements: chunks, rows: 1}}, func(w *writer) {
		w.t, w.acc = t, acc
		size := int64(t.Size())
		each := func(f func(x, address string, j int64)) {
			for j := range chunks {
				f(name("x", 0, j), fmt.Sprintf("[at + %d]", j*lanes*size), j)
			}
		}
		w.line("program scan_row\nslot x %v\nslot y %v\nshared %d\nblock %d", t, t, 2*chunks*wide, lanes)
		w.line("  sreg q, lane.x\n  sreg b, block.x\n  cvt.u64.u32 at, b\n  mul.u64 at, at, %d", cols)
		w.line("  cvt.u64.u32 k, q\n  add.u64 at, at, k\n  mul.u64 at, at, %d\n  mul.u32 mine, q, %d\n  mov.u32 base, 0", size, wide)
		each(func(x, address string, _ int64) { w.load(x, "x"+address) })
		each(func(x, _ string, _ int64) { w.widen(x) })
		each(func(x, _ string, _ int64) { w.line("  block_scan_add.%v %s, %[2]s", acc, x) })
		w.line("  set.ne.u32 p, q, %d\n  bra told, p", lanes-1)
		each(func(x, _ string, j int64) { w.line("  sts.%v %s, shared[base + %d]", acc, x, j*wide) })
		w.line("told:\n  bar_sync 0\n  mov.%v sum, %s\n  set.ge.u32 p, q, %d\n  bra seen, p", acc, kernels.Identity("add", acc), chunks)
		w.line("  lds.%v sum, shared[mine]\nseen:\n  block_scan_add.%[1]v sum, sum\n  bra kept, p", acc)
		w.line("  sts.%v sum, shared[mine + %d]\nkept:\n  bar_sync 0", acc, chunks*wide)
		each(func(x, _ string, j int64) {
			if j > 0 {
				w.line("  lds.%v before, shared[base + %d]\n  add.%[1]v %[3]s, before, %[3]s", acc, (chunks+j-1)*wide, x)
			}
		})
		each(func(x, address string, _ int64) { w.store(t, x, "y"+address) })
		w.line("  exit")
	})
	if err != nil {
		return nil, err
	}
	one := step(v, rows, []kernels.Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}})
	one.InPlace = true
	return &kernels.Plan{Steps: []kernels.Step{one}}, nil
}

// scanOf is scan of operands with shapes, whose rows are the last axes dimensions.
func scanOf(l []kernels.Layout, axes int) (*kernels.Plan, error) {
	if len(l) != 2 || l[0].Type != l[1].Type || !l[0].Packed() || !l[1].Packed() {
		return nil, nil
	}
	rows, cols := int64(1), int64(1)
	for k, n := range l[0].Shape {
		if k < len(l[0].Shape)-axes {
			rows *= n
		} else {
			cols *= n
		}
	}
	return scan(l[0].Type, rows, cols)
}
