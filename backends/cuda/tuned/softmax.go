package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// softmax reads each element once where a block can hold a row. Rows that are
// longer are gone through three times, by a block each; where they are fewer than
// multiprocessors the library's plan has more blocks.
func softmax(t isa.Type, rows, cols, processors int64) (*kernels.Plan, error) {
	s, ok := shapeFor(rows, cols, processors)
	if !ok {
		if rows < processors || cols > longest {
			return nil, nil
		}
		return longSoftmax(t, rows, cols)
	}
	blocks := ceil(rows, s.rows)
	if blocks > maxBlocks {
		return nil, nil
	}
	v, err := program(key{"softmax", t, t, s}, func(w *writer) {
		w.t, w.acc = t, kernels.Accumulator(t)
		w.line("program softmax_tile\nslot x %v\nslot y %v", t, t)
		w.tile(s)
		for r := range s.rows {
			w.mask("x", r, s, "-inf")
			w.combine("x", "max", r, s, name("m", r, 0))
		}
		for r := range s.rows {
			for j := range s.elements {
				w.exponential(name("x", r, j), name("m", r, 0))
			}
			w.mask("x", r, s, "-0.0")
			w.combine("x", "add", r, s, name("s", r, 0))
		}
		for r := range s.rows {
			for j := range s.elements {
				w.line("  div.%v %s, %[2]s, %s", w.acc, name("x", r, j), name("s", r, 0))
			}
		}
		w.storeRows(s)
		w.line("  exit")
	})
	if err != nil {
		return nil, err
	}
	one := step(v, blocks, s.lanes, []kernels.Binding{{Operand: 0, Type: t}, {Operand: 1, Type: t}}, rows, cols)
	one.InPlace = true
	return &kernels.Plan{Steps: []kernels.Step{one}}, nil
}

// exponential makes x e^(x − m).
func (w *writer) exponential(x, m string) {
	w.line("  sub.%v %s, %[2]s, %s\n  exp.%[1]v %[2]s, %[2]s", w.acc, x, m)
}
