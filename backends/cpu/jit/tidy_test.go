package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Copies go where nobody can tell: where what they copy to is neither read nor written,
// and nothing comes or goes, between the first write of what they copy and them.
func TestTidy(t *testing.T) {
	const a, b, s, d, m, k = 1, 2, 3, 4, 5, 6 // vectors, but for the masks m and k
	add := func(to, x, y vreg) inst { return inst{f: x86.AddPS, vl: 64, d: to, a: x, b: y} }
	copied := func(to, x vreg) inst { return inst{f: x86.MovAPS, vl: 64, d: to, b: x} }
	stored := func(x vreg) inst { return inst{f: x86.StoreUPS, vl: 64, b: x, mem: &mref{fixed: regArgs}} }
	masked := func(to, x vreg) inst { return inst{f: x86.MovAPS, vl: 64, d: to, b: x, k: k, merge: true} }
	emits := inst{emit: func(*encoder, *inst) {}}
	inner := inst{emit: func(*encoder, *inst) {}, inner: true}
	narrow := add(s, a, b)
	narrow.vl = 32
	for _, c := range []struct {
		name string
		code []inst
		gone []int
	}{
		{"joined", []inst{add(s, a, b), copied(d, s), stored(d)}, []int{1}},
		{"of what it adds up", []inst{add(s, d, b), copied(d, s), stored(d)}, []int{1}},
		{"written by steps", []inst{add(s, d, b), masked(s, a), copied(d, s), stored(d)}, []int{2}},
		{"past what stays inside", []inst{add(s, a, b), inner, copied(d, s), stored(d)}, []int{2}},
		{"one after the other", []inst{add(s, a, b), copied(m, s), copied(d, m), stored(d)}, []int{1, 2}},
		{"read between", []inst{add(s, a, b), stored(d), copied(d, s), stored(d)}, nil},
		{"read by a later step", []inst{add(s, a, b), masked(s, d), copied(d, s), stored(d)}, nil},
		{"written between", []inst{add(s, a, b), add(d, a, b), stored(d), copied(d, s), stored(d)}, nil},
		{"read afterwards", []inst{add(s, a, b), copied(d, s), stored(d), stored(s)}, nil},
		{"past a label", []inst{add(s, a, b), {label: 1}, copied(d, s), stored(d)}, nil},
		{"past a jump", []inst{add(s, a, b), emits, copied(d, s), stored(d)}, nil},
		{"made narrower", []inst{narrow, copied(d, s), stored(d)}, nil},
		{"not made here", []inst{copied(d, s), stored(d)}, nil},
		{"unread", []inst{add(s, a, b), add(d, s, s), stored(a)}, []int{0, 1}},
		{"unread, with an effect", []inst{add(s, a, b), {d: d, a: s, emit: emits.emit, inner: true}, stored(a)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := &unit{info: make([]vinfo, 7), code: c.code}
			u.info[k].class = classMask
			u.tidy()
			var gone []int
			for i := range u.code {
				in := &u.code[i]
				if in.pure && in.d == 0 {
					gone = append(gone, i)
				}
				if len(c.gone) > 0 && c.name != "unread" {
					in.visit(func(v vreg, _ bool) { require.NotEqual(t, vreg(s), v) })
				}
			}
			require.Equal(t, c.gone, gone)
		})
	}
}
