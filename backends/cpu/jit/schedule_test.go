package jit

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// What each instruction reads was written by the same one as before, effects on memory
// and looks at it keep their order, nothing leaves its stretch, and no more registers of
// a kind are wanted than there are or were.
func TestScheduleKeepsMeaning(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		const regs = 24
		u := &unit{info: make([]vinfo, regs+1)}
		for v := range u.info {
			u.info[v] = vinfo{end: -1, reg: x86.None}
			if v > regs-4 {
				u.info[v].class = classMask
			}
		}
		vec := func() vreg { return vreg(1 + rng.IntN(regs-4)) }
		mask := func() vreg { return vreg(regs - rng.IntN(4)) }
		nop := func(*encoder, *inst) {}
		// imm numbers the instructions that have no emit, vl all.
		for i := range 40 + rng.IntN(100) {
			var in inst
			switch rng.IntN(12) {
			case 0:
				in = inst{f: x86.MovUPS, d: vec(), mem: &mref{fixed: regArgs}}
			case 1:
				in = inst{b: vec(), mem: &mref{fixed: regArgs}, emit: nop, inner: true}
			case 2:
				in = inst{d: vec(), a: vec(), emit: nop, inner: true, pure: true}
			case 3:
				in = inst{f: x86.CmpPS, d: mask(), a: vec(), b: vec()}
			case 4:
				in = inst{f: x86.BlendPS, d: vec(), a: vec(), b: vec(), k: mask(), merge: rng.IntN(2) == 0}
			case 5:
				in = inst{fma: &fmaPS, d: vec(), a: vec(), b: vec(), c: vec()}
			case 6:
				if rng.IntN(4) == 0 {
					in = inst{emit: nop} // a jump
				} else {
					in = inst{f: x86.DivPS, d: vec(), a: vec(), b: vec()}
				}
			default:
				in = inst{f: x86.AddPS, d: vec(), a: vec(), b: vec()}
			}
			in.vl = i
			u.code = append(u.code, in)
		}
		if rng.IntN(2) == 0 {
			u.loops = append(u.loops, span{0, int32(len(u.code)) - 1})
		}
		before, jumps := meaning(u)
		u.schedule(targetOf(AVX512))
		after, same := meaning(u)
		require.Equal(t, jumps, same, "seed %d", seed)
		require.Equal(t, before, after, "seed %d", seed)
	}
}

// meaning says of each instruction, by its number, what it reads, and what happened to
// memory before it; and where the jumps are.
func meaning(u *unit) (reads map[int][]int, jumps map[int]int) {
	reads, jumps = map[int][]int{}, map[int]int{}
	writer := map[vreg]int{}
	effect := -1
	for i := range u.code {
		in := &u.code[i]
		in.visit(func(v vreg, write bool) {
			if write {
				writer[v] = in.vl + 1
			} else {
				reads[in.vl] = append(reads[in.vl], writer[v])
			}
		})
		switch {
		case in.emit != nil && !in.inner:
			jumps[in.vl] = i
		case in.mem != nil || in.emit != nil:
			reads[in.vl] = append(reads[in.vl], effect)
			if in.emit != nil && !in.pure {
				effect = in.vl
			}
		}
	}
	for v, w := range writer { // what is left there at the end
		reads[-int(v)-1] = []int{w}
	}
	return reads, jumps
}

// A long chain and what does not depend on it go side by side, and the chain first.
func TestScheduleInterleaves(t *testing.T) {
	u := &unit{info: []vinfo{{}}}
	next := func() vreg { return u.newReg(classVec) }
	load := func() vreg {
		d := next()
		u.code = append(u.code, inst{f: x86.MovUPS, vl: 64, d: d, mem: &mref{fixed: regArgs}})
		return d
	}
	chain := func(x vreg, n int) vreg {
		for range n {
			d := next()
			u.code = append(u.code, inst{f: x86.MulPS, vl: 64, d: d, a: x, b: x})
			x = d
		}
		return x
	}
	x := load()
	short := chain(x, 10)
	long := chain(x, 20)
	u.code = append(u.code, inst{f: x86.AddPS, vl: 64, d: next(), a: short, b: long})
	u.schedule(targetOf(AVX512))
	require.Equal(t, vreg(12), u.code[1].d, "the longer chain begins") // 1 is x, 2 to 11 the shorter chain
	at := map[vreg]int{}
	for i := range u.code {
		at[u.code[i].d] = i
	}
	require.Less(t, at[15], at[short], "the longer chain does not wait for the shorter one")
	require.Less(t, at[short], at[long])
}
