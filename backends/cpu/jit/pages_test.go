package jit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Loops go from page to page by what they carry if it grows by no more than a page a round.
func TestWhatGoesInOrder(t *testing.T) {
	for _, c := range []struct {
		name, start, before, place, step string
		inOrder                          bool
	}{
		{"side by side", "mov.u64 at, lane", "", "at", "add.u64 at, at, 1024", true},
		{"a page apart", "mov.u64 at, lane", "", "at", "add.u64 at, at, 4096", true},
		{"farther apart", "mov.u64 at, lane", "", "at", "add.u64 at, at, 4100", false},
		{"backwards", "mov.u64 at, lane", "", "at", "sub.u64 at, at, 1024", false},
		{"with something added", "mov.u64 at, lane\n  add.u64 more, lane, 4096", "", "from", "add.u64 at, at, 1024\n  add.u64 from, at, more", false}, // at is the next round's
		{"with a number added", "mov.u64 at, lane", "", "at + 64", "add.u64 at, at, 1024", true},
		{"nowhere", "mov.u64 at, lane", "", "lane", "add.u64 at, at, 1024", false},
		{"clamped", "mov.u64 at, lane", "min.u64 of, at, 65536", "of", "add.u64 at, at, 1024", true},
		{"signed", "mov.u64 at, lane", "cvt.i64.u64 of, at", "of", "add.u64 at, at, 1024", true},
		{"added to something", "mov.u64 at, 0", "add.u64 of, lane, at", "of", "add.u64 at, at, 1024", true},
		{"doubled", "mov.u64 at, lane", "add.u64 of, at, at", "of", "mul.u64 at, at, 2", false},
		{"from another on", "mov.u64 at, lane\n  add.u64 more, lane, 4096", "", "at", "add.u64 at, from, 1024\n  add.u64 from, at, more", false},
		{"by steps of lanes", "mov.u64 at, lane", "", "at", "add.u64 at, at, lane", false},
		{"by a large number, backwards", "mov.u64 at, lane", "", "at", "add.u64 at, at, 0xfffffffffffffc00", false},
	} {
		p, err := prepare(nil, canonical(t, "program p\nslot a f32\nslot b f32\nparam n u32\nblock 256\n  sreg q, lane.x\n  cvt.u64.u32 lane, q\n  mul.u64 lane, lane, 4\n  ldp.u32 n, n\n  mov.f32 s, 0x0p+0\n  mov.u64 from, lane\n  "+
			c.start+"\n  loop n, done\n  "+c.before+"\n  ldg.f32 z, a["+c.place+"]\n  add.f32 s, s, z\n  "+c.step+"\ndone:\n  block_reduce_add.f32 s, s\n  stg.f32 s, b[index]\n  exit\n"))
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

// Launches ask for pages that go through manyPages, by bytes farPages, or more, and do not compute for longer than that takes.
func TestWhoAsksForPages(t *testing.T) {
	index := "program p\nslot a f32\nslot b f32\nslot c f32\n  ldg.f32 x, a[index]\n  ldg.f32 y, b[index]\n  add.f32 x, x, y\n%s  stg.f32 x, c[index]\n  exit\n"
	bytes := "program p\nslot a f32\nslot b f32\nslot c f32\nblock 256\n  sreg lane, global_lane\n  mul.u64 at, lane, 4\n  ldg.f32 x, a[at]\n  ldg.f32 y, b[at]\n  add.f32 x, x, y\n%s  stg.f32 x, c[at]\n  exit\n"
	long := "  loop 500, done\n  mul.f32 x, x, y\n  add.f32 x, x, y\ndone:\n"
	const (
		third = manyPages / 12 // lanes whose three elements have so many bytes
		read  = (farPages/12 + 255) &^ 255
	)
	for name, c := range map[string]struct {
		text, more string
		lanes      int64
		single     bool // one of the slots is one element
		pages      bool
	}{
		"by index":                {index, "", third, false, true},
		"less":                    {index, "", third - 1, false, false},
		"one element":             {index, "", third, true, false},
		"less beside one element": {index, "", manyPages/8 - 1, true, false},
		"much beside one element": {index, "", manyPages / 8, true, true},
		"by bytes":                {bytes, "", read, false, true},
		"less by bytes":           {bytes, "", read - 256, false, false},
		"computing":               {index, long, 4 * third, false, false},
		"computing by bytes":      {bytes, long, 4 * read, false, false},
	} {
		k := kernelOf(t, fmt.Sprintf(c.text, c.more))
		l := &backends.Launch{Rank: 1, N: uint64(c.lanes), Grid: [3]uint32{uint32(c.lanes+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}}
		l.Shape[0] = c.lanes
		for i := range 3 { // of memory that is not touched
			w := backends.View{Addr: uintptr(i+1) << 32, Bytes: 4 * c.lanes, Type: isa.F32, Rank: 1, Shape: l.Shape}
			if w.Stride[0] = 1; c.single && i == 1 {
				w.Stride[0], w.Bytes = 0, 4
			}
			l.Slots = append(l.Slots, w)
		}
		r := k.takeRun()
		require.True(t, r.prepare(l, minRow), name)
		for _, level := range []Level{AVX2, AVX512} {
			k.t = targetOf(level)
			require.Equal(t, c.pages && level == AVX512, r.asksPages(), "%s, %v", name, level)
		}
		k.giveBack(r)
	}
}

// Who asks is decided by the innermost loop: with so many instructions to each line it does not.
func TestWhoHasNoNeedToAsk(t *testing.T) {
	at := &mref{base: 1, indexed: true}
	ask := inst{mem: at, asks: true, inner: true, emit: func(*encoder, *inst) {}}
	load := inst{f: x86.MovUPS, vl: 32, d: 2, mem: at}
	store := inst{vl: 32, b: 2, mem: at, inner: true, emit: func(*encoder, *inst) {}}
	long := inst{f: x86.MovUPS, vl: 64, d: 2, mem: at}
	shared := inst{f: x86.MovUPS, vl: 32, d: 2, mem: &mref{base: 1}}
	adds := inst{f: x86.AddD, vl: 32, d: 2, a: 2, b: 2}
	fused := inst{fma: &andOrD, vl: 32, d: 2, a: 2, b: 2, c: 2}
	for _, c := range []struct {
		name  string
		code  []inst
		loops []span
		asks  bool
	}{
		{"two to a vector", []inst{ask, load, adds, adds, store}, []span{{0, 4}}, true},
		{"one less than three", []inst{ask, load, adds, adds, adds, store}, []span{{0, 5}}, true},
		{"three", []inst{ask, load, adds, adds, adds, fused, store}, []span{{0, 6}}, false},
		{"of twice the length", []inst{ask, long, adds, adds, adds, fused, store}, []span{{0, 6}}, true},
		{"what lies elsewhere", []inst{ask, load, shared, adds, adds, fused, store}, []span{{0, 6}}, false},
		{"an inner loop of few", []inst{adds, adds, adds, ask, load, adds, adds}, []span{{3, 5}, {0, 6}}, true},
		{"an inner loop of many", []inst{load, load, ask, load, adds, adds}, []span{{2, 5}, {0, 5}}, false},
		{"in no loop", []inst{ask, adds}, nil, true},
	} {
		u := &unit{code: c.code, loops: c.loops}
		u.dropAsks()
		require.Equal(t, c.asks, slices.ContainsFunc(u.code, func(in inst) bool { return in.mem == at && in.vl == 0 }), c.name)
		require.Len(t, u.code, len(c.code), c.name)
	}
}
