package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// A load becomes an operand where nothing else wants what it loads, nothing in between may
// change memory or the address, and the instruction takes it whole, in either place.
func TestFoldLoads(t *testing.T) {
	const a, b, s, d, base, k = 1, 2, 3, 4, 5, 6 // vectors, but for the address base and the mask k
	place := &mref{base: base}
	load := func(to vreg) inst { return inst{f: x86.MovUPS, vl: 64, d: to, mem: place} }
	op := func(f *x86.Form, to, x, y vreg) inst { return inst{f: f, vl: 64, d: to, a: x, b: y} }
	stored := inst{f: x86.StoreUPS, vl: 64, b: a, mem: place}
	narrow := load(s)
	narrow.vl = 32
	masked := load(s)
	masked.k = k
	emits := inst{emit: func(*encoder, *inst) {}}
	inner := inst{emit: func(*encoder, *inst) {}, inner: true}
	pure := inst{emit: func(*encoder, *inst) {}, inner: true, pure: true}
	moved := inst{d: base, emit: pure.emit, inner: true, pure: true}
	for _, c := range []struct {
		name string
		code []inst
		left []vreg // the operand that stays in a register, 0 if there is none; nil: nothing changes
	}{
		{"second", []inst{load(s), op(x86.SubPS, d, a, s)}, []vreg{a}},
		{"first, of a sum", []inst{load(s), op(x86.AddPS, d, s, a)}, []vreg{a}},
		{"first, of a difference", []inst{load(s), op(x86.SubPS, d, s, a)}, nil},
		{"first, of a difference of doubles", []inst{load(s), op(x86.SubPD, d, s, a)}, nil},
		{"first, of a difference of integers", []inst{load(s), op(x86.SubD, d, s, a)}, nil},
		{"first, of what clears the second's bits", []inst{load(s), op(x86.AndNotD, d, s, a)}, nil},
		{"first, of what gives the second of two zeros", []inst{load(s), op(x86.MaxPS, d, s, a)}, nil},
		{"of two the second", []inst{load(s), load(b), op(x86.AddPS, d, s, b)}, []vreg{s}},
		{"of one instruction", []inst{load(s), op(x86.AbsD, d, 0, s)}, []vreg{0}},
		{"past what computes", []inst{load(s), pure, op(x86.AddPS, d, a, s)}, []vreg{a}},
		{"read twice", []inst{load(s), op(x86.AddPS, d, a, s), op(x86.AddPS, d, a, s)}, nil},
		{"read twice by one", []inst{load(s), op(x86.AddPS, d, s, s)}, nil},
		{"written twice", []inst{load(s), op(x86.AddPS, d, a, s), load(s)}, nil},
		{"past a store", []inst{load(s), stored, op(x86.AddPS, d, a, s)}, nil},
		{"past an effect", []inst{load(s), inner, op(x86.AddPS, d, a, s)}, nil},
		{"past a jump", []inst{load(s), emits, op(x86.AddPS, d, a, s)}, nil},
		{"past a label", []inst{load(s), {label: 1}, op(x86.AddPS, d, a, s)}, nil},
		{"elsewhere meanwhile", []inst{load(s), moved, op(x86.AddPS, d, a, s)}, nil},
		{"of another length", []inst{narrow, op(x86.AddPS, d, a, s)}, nil},
		{"of some lanes", []inst{masked, op(x86.AddPS, d, a, s)}, nil},
		{"of a copy, which wants memory aligned", []inst{load(s), {f: x86.MovAPS, vl: 64, d: d, b: s, k: k, merge: true}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &unit{info: make([]vinfo, 7), code: c.code}
			u.info[k].class, u.info[base].class = classMask, classGPR
			u.foldLoads(targetOf(AVX512))
			var folded []vreg
			for i := range u.code {
				if in := &u.code[i]; in.mem != nil && in.d != 0 && !in.isLoad() && in.k == 0 {
					folded = append(folded, in.a)
					require.Equal(t, place, in.mem)
					require.Zero(t, in.b)
				}
			}
			require.Equal(t, c.left, folded)
		})
	}
}
