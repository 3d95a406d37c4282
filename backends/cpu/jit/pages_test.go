package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Loops go from page to page by what they carry if it grows by no more than a page a round.
func TestWhatGoesInOrder(t *testing.T) {
	for _, c := range []struct {
		name, start, place, step string
		inOrder                  bool
	}{
		{"side by side", "mov.u64 at, lane", "at", "add.u64 at, at, 1024", true},
		{"a page apart", "mov.u64 at, lane", "at", "add.u64 at, at, 4096", true},
		{"farther apart", "mov.u64 at, lane", "at", "add.u64 at, at, 4100", false},
		{"backwards", "mov.u64 at, lane", "at", "sub.u64 at, at, 1024", false},
		{"with something added", "mov.u64 at, lane\n  add.u64 more, lane, 4096", "from", "add.u64 at, at, 1024\n  add.u64 from, at, more", false}, // at is the next round's
		{"with a number added", "mov.u64 at, lane", "at + 64", "add.u64 at, at, 1024", true},
		{"nowhere", "mov.u64 at, lane", "lane", "add.u64 at, at, 1024", false},
	} {
		p, err := prepare(nil, canonical(t, "program p\nslot a f32\nslot b f32\nparam n u32\nblock 256\n  sreg q, lane.x\n  cvt.u64.u32 lane, q\n  mul.u64 lane, lane, 4\n  ldp.u32 n, n\n  mov.f32 s, 0x0p+0\n  mov.u64 from, lane\n  "+
			c.start+"\n  loop n, done\n  ldg.f32 z, a["+c.place+"]\n  add.f32 s, s, z\n  "+c.step+"\ndone:\n  block_reduce_add.f32 s, s\n  stg.f32 s, b[index]\n  exit\n"))
		require.NoError(t, err, c.name)
		var found []bool
		var look func(r *ir.Region)
		look = func(r *ir.Region) {
			for _, n := range r.Nodes {
				if n.Op == ir.Op(isa.LDG) {
					found = append(found, inOrder(n))
				}
				for _, s := range n.Regions {
					look(s)
				}
			}
		}
		look(p.fn.Body)
		require.Equal(t, []bool{c.inOrder}, found, c.name)
	}
}
