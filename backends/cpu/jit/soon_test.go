package jit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Sums of what loops leave are made behind the second of two, not behind all loops.
func TestSumsComeSoon(t *testing.T) {
	var text strings.Builder
	text.WriteString("program p\nslot x f32\nslot y f32\nparam n u32\n  sreg q, lane.x\n  ldp.u32 n, n\n  cvt.u64.u32 at, q\n  mul.u64 at, at, 4\n")
	for i := range 4 {
		fmt.Fprintf(&text, "  mov.f32 z%d, 0x0p+0\n  mul.u64 off, at, %d\n  loop n, round%[1]d\n  ldg.f32 v, x[off]\n  add.f32 z%[1]d, z%[1]d, v\n  add.u64 off, off, 4096\nround%[1]d:\n", i, i+2)
	}
	text.WriteString("  add.f32 a, z0, z1\n  add.f32 b, z2, z3\n  add.f32 a, a, b\n  stg.f32 a, y[at]\n  exit\n")
	f := canonical(t, text.String())
	seen := map[*ir.Node]bool{}
	order := ""
	for _, n := range soon(f.Body.Nodes, countUses(f.Body, map[*ir.Value]int{}), nil) {
		for _, a := range n.Args {
			require.True(t, a.Node == nil || seen[a.Node], "an operand comes later")
		}
		seen[n] = true
		switch {
		case n.Op == ir.Loop:
			order += "L"
		case n.Op == ir.Op(isa.ADD) && n.Type == isa.F32:
			order += "+"
		}
	}
	require.Len(t, seen, len(f.Body.Nodes))
	require.Equal(t, "LL+LL++", order)
}

// What goes on living behind a stretch begins after what ends in it, where registers are
// short: the next loop's sums after those of the last one are added up.
func TestScheduleCountsWhatGoesOn(t *testing.T) {
	target := targetOf(AVX512)
	u := &unit{info: []vinfo{{}}}
	jump := func() { u.code = append(u.code, inst{emit: func(*encoder, *inst) {}}) }
	load := func() vreg {
		d := u.newReg(classVec)
		u.code = append(u.code, inst{f: x86.MovUPS, vl: 64, d: d, mem: &mref{fixed: regArgs}})
		return d
	}
	add := func(a, b vreg) vreg {
		d := u.newReg(classVec)
		u.code = append(u.code, inst{f: x86.AddPS, vl: 64, d: d, a: a, b: b})
		return d
	}
	many := len(target.files[classVec]) / 2
	var a, b, sums, next []vreg
	for range many {
		a, b = append(a, load()), append(b, load())
	}
	jump()
	for i := range many {
		sums = append(sums, add(a[i], b[i]))
	}
	for range many {
		next = append(next, load())
	}
	jump()
	for i := range many {
		add(sums[i], next[i])
	}
	u.schedule(target)
	require.Zero(t, u.allocate(&target.files), "values in memory")
}
