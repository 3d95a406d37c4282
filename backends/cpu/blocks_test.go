package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// meeting writes something that lanes of a block do together, or by addresses
// that step along them, and folds the outcome into a register.
func (w *writer) meeting() {
	types := []string{"u32", "i32", "f32", "f64", "i64", "u8", "i8", "i16", "f16", "bf16", "u64"}
	t := types[w.r.IntN(len(types))]
	size := map[string]int{"u8": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "f64": 8, "i64": 8, "u64": 8}[t]
	if size == 0 {
		size = 4
	}
	fold := func() {
		if t != "u32" {
			w.line("cvt.u32.%s t, z", t)
		} else {
			w.line("mov.u32 t, z")
		}
		r := w.reg()
		w.line("%s.u32 %s, %s, t", []string{"add", "xor"}[w.r.IntN(2)], r, r)
	}
	switch w.r.IntN(14) {
	case 10, 11: // what a lane leaves in the block's shared memory for another
		w.line("bar_sync 0\n  mul.u32 o, lane, 8\n  cvt.i64.u32 so, o")
		if t != "u32" {
			w.line("cvt.%s.u32 z, %s", t, w.reg())
		} else {
			w.line("mov.u32 z, %s", w.reg())
		}
		w.line("sts.%s z, shared[so + %d]", t, (w.r.IntN(9)/8)*w.r.IntN(60))
		w.line("bar_sync 0")
		switch w.r.IntN(3) {
		case 0: // the next one's
			w.line("mul.u32 o, lane, 8\n  add.u32 o, o, %d", 8*w.r.IntN(40))
		case 1: // backwards
			w.line("sub.u32 o, 299, lane\n  mul.u32 o, o, 8")
		default: // anyone's, or beyond all
			w.line("and.u32 o, %s, 0xfff", w.reg())
		}
		w.line("cvt.i64.u32 so, o\n  lds.%s z, shared[so]", t)
		fold()
	case 12: // atomic operations on what the lanes of a block share
		t = []string{"u32", "i32", "u64", "i64"}[w.r.IntN(4)]
		w.line("bar_sync 0")
		w.atomic(t, "shared", []string{"add", "min", "max", "and", "or", "xor"}[w.r.IntN(6)])
		w.line("bar_sync 0\n  and.u32 o, lane, 15\n  cvt.i64.u32 so, o\n  mul.i64 so, so, 8\n  lds.%s z, shared[so + 2600]", t)
		fold()
	case 13: // … and on what all lanes do
		w.atomic([]string{"u32", "i64"}[w.r.IntN(2)], "g", w.often)
	case 0, 1, 2, 3, 8, 9:
		if t != "u32" {
			w.line("cvt.%s.u32 z, %s", t, w.reg())
		} else {
			w.line("mov.u32 z, %s", w.reg())
		}
		w.line("block_%s_%s.%s z, z", []string{"reduce", "scan"}[w.r.IntN(2)], []string{"add", "min", "max", "mul"}[w.r.IntN(4)], t)
		fold()
	case 4:
		w.line("bar_sync 0")
	case 5: // rounds of loads that step along the lanes, or do not, or stray
		end := w.label()
		w.line("mul.u32 o, lane, %d", []int{0, 1, 1, 1, 2, 3}[w.r.IntN(6)]*size)
		w.line("cvt.u64.u32 at, o")
		if w.r.IntN(2) == 0 {
			w.line("cvt.u64.u32 b64, block\n  mul.u64 b64, b64, %d\n  add.u64 at, at, b64", size*(1+w.r.IntN(40)))
		}
		count := fmt.Sprint(w.r.IntN(5))
		switch w.r.IntN(3) {
		case 0:
			w.line("and.u32 n, %s, 3", w.reg())
			count = "n"
		case 1:
			w.line("and.u32 n, block, 3")
			count = "n"
		}
		w.line("cvt.%s.u8 s, 0", t)
		w.line("loop %s, %s", count, end)
		w.line("ldg.%s z, b%s[at + %d]", t, t, (w.r.IntN(12)-2)*size)
		w.line("%s.%s s, s, z", []string{"add", "max", "min"}[w.r.IntN(3)], t)
		w.line("add.u64 at, at, %d", w.r.IntN(3)*32*size)
		if w.r.IntN(2) == 0 {
			w.statement(0)
		}
		fmt.Fprintf(w, "%s:\n", end)
		w.line("mov.%s z, s", t)
		fold()
	case 6: // a load of one place
		w.line("cvt.u64.u32 at, block\n  mul.u64 at, at, %d", size*(1+w.r.IntN(40)))
		w.line("ldg.%s z, b%s[at + %d]", t, t, (w.r.IntN(60)-2)*size)
		fold()
		if size >= 4 && t[0] != 'f' && w.r.IntN(2) == 0 { // which says where the row begins that the lanes go along
			if t != "u64" {
				w.line("cvt.u64.%s at, z", t)
			} else {
				w.line("mov.u64 at, z")
			}
			w.line("min.u64 at, at, %d\n  mul.u64 at, at, %d\n  cvt.u64.u32 b64, lane\n  mul.u64 b64, b64, %[2]d\n  add.u64 at, at, b64", w.r.IntN(99), size)
			w.line("ldg.%s z, b%[1]s[at]", t)
			fold()
		}
	case 7: // a store to the lane's own place, some beyond the end
		if w.stores[t] {
			return
		}
		w.stores[t] = true
		w.line("mul.u64 at, gl, %d", size)
		if t != "u32" {
			w.line("cvt.%s.u32 z, %s", t, w.reg())
		} else {
			w.line("mov.u32 z, %s", w.reg())
		}
		w.line("stg.%s z, o%s[at + %d]", t, t, (w.r.IntN(8)-2)*size)
	}
}

// atomic writes an operation on shared memory, or on the slot of a type's name, whose result nobody asks for; maybe in a branch.
func (w *writer) atomic(t, where, op string) {
	offset := w.odd
	if where == "shared" {
		offset = 2600 + w.r.IntN(8)/7*w.r.IntN(16)
	} else {
		where += t
	}
	w.line("and.u32 o, %s, 15\n  cvt.i64.u32 so, o\n  mul.i64 so, so, 8\n  cvt.%s.u32 z, %s", w.reg(), strings.Replace(t, "u32", "i64", 1), w.reg())
	if t == "u32" {
		w.line("cvt.u32.i64 z, z")
	}
	over := w.label()
	if w.r.IntN(2) == 0 {
		w.line("and.u32 o, %s, 3\n  set.eq.u32 p, o, 0\n  bra %s, p", w.reg(), over)
	}
	w.line("atom_%s.%s old, %s[so + %d], z", op, t, where, offset)
	fmt.Fprintf(w, "%s:\n", over)
}

// randomMeetings writes a program that demands blocks of so many lanes, 0: of any.
func randomMeetings(r *rand.Rand, block int64) string {
	w := &writer{r: r, budget: 30, stores: map[string]bool{}, often: []string{"add", "min", "max", "and", "or", "xor"}[r.IntN(6)], odd: r.IntN(4) / 3 * r.IntN(16)}
	w.WriteString("program random\nslot in u32\nslot a u32\nslot out u32\nslot gu32 u32\nslot gi64 i64\nshared 2800\n")
	for _, t := range []string{"u32", "i32", "f32", "f64", "i64", "u8", "i8", "i16", "f16", "bf16", "u64"} {
		w.WriteString(fmt.Sprintf("slot b%[1]s %[1]s\nslot o%[1]s %[1]s\n", t))
	}
	if block > 0 {
		fmt.Fprintf(w, "block %d\n", block)
	}
	w.line("sreg block, block.x")
	w.line("sreg lane, lane.x")
	w.line("sreg gl, global_lane")
	w.line("ldg.u32 v0, a[index]")
	w.line("mov.u32 v1, lane")
	w.line("shr.u32 v2, v0, 16")
	w.line("mov.u32 v3, 3")
	w.line("mov.u32 v4, block")
	w.line("xor.u32 v5, v0, v1")
	depth := r.IntN(4)
	for range 2 + r.IntN(5) {
		for range r.IntN(3) {
			w.statement(depth)
		}
		w.meeting()
	}
	w.line("add.u32 v0, v0, v1")
	w.line("xor.u32 v0, v0, v2")
	w.line("add.u32 v0, v0, v3")
	w.line("xor.u32 v0, v0, v4")
	w.line("stg.u32 v0, out[index]")
	w.line("exit")
	return w.String()
}

// TestRandomMeetings compares random programs whose lanes meet with the
// interpreter, in blocks of all sizes, the last ones not whole.
func TestRandomMeetings(t *testing.T) {
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { randomMeeting(t, on(t, l, 1)) })
	}
}

func randomMeeting(t *testing.T, tested backends.Backend) {
	count, first := conformance.Seeds(brief.Or(150, 40))
	oracle := interp.New()
	skipped := 0
	for i := first; i < first+uint64(count); i++ {
		r := rand.New(rand.NewPCG(i, 11))
		block := []int64{1, 1, 3, 8, 16, 32, 64, 100, 128, 256, 300}[r.IntN(11)]
		demanded := int64(0)
		if r.IntN(2) == 0 {
			demanded = block
		}
		text := randomMeetings(r, demanded)
		p, err := isa.Assemble("random.atlas", text)
		if err != nil {
			t.Fatalf("program %d: %v\n%s", i, err, text)
		}
		v, err := isa.Verify(p)
		if err != nil {
			skipped++
			continue
		}
		n := 1 + r.Int64N(700)
		if r.IntN(2) == 0 {
			n = block * (1 + r.Int64N(3))
		}
		sh := linear(n, block)
		contents := randomContents(r, v, n)
		want := run(t, oracle, v, sh, contents, nil, nil)
		got := run(t, tested, v, sh, contents, nil, nil)
		if err := same(v, got, want); err != nil {
			t.Fatalf("program %d, %d lanes in blocks of %d: %v\n%s", i, n, block, err, text)
		}
	}
	if skipped > count/4 {
		t.Errorf("%d of %d programs don't verify", skipped, count)
	}
}

// TestNegatedFactorOfALaterSegment has factors that an instruction negates behind a collective,
// for which what they are made of is kept.
func TestNegatedFactorOfALaterSegment(t *testing.T) {
	for _, typ := range []string{"f16", "f32", "f64"} {
		v := verify(t, "program p\nblock 64\nslot a "+typ+"\nslot c "+typ+"\nldg."+typ+" x, a[index]\nabs."+typ+" x, x\nmin."+typ+" x, x, 2.0\nneg."+typ+" y, x\nfma."+typ+" w, y, 0.5, 1.0\nblock_reduce_max."+typ+" z, w\nfma."+typ+" z, y, z, 1.0\nstg."+typ+" z, c[index]\nexit")
		contents := randomContents(rand.New(rand.NewPCG(31, 32)), v, 128)
		want := run(t, interp.New(), v, linear(128, 64), contents, nil, nil)
		for _, l := range levels {
			t.Run(typ+" "+l.String(), func(t *testing.T) {
				if err := same(v, run(t, on(t, l, 1), v, linear(128, 64), contents, nil, nil), want); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestFullBlocksBesideOthers: where a launch's last block is not full, its others' arrays are not
// filled up beyond their ends, where later segments have what they need.
func TestFullBlocksBesideOthers(t *testing.T) {
	v := verify(t, flows["block, values that are needed behind a sum"])
	for _, block := range []int64{256, 512, 1024} {
		n := 2*block + 10
		contents := randomContents(rand.New(rand.NewPCG(33, 34)), v, n)
		want := run(t, interp.New(), v, linear(n, block), contents, nil, nil)
		for _, l := range levels {
			require.NoError(t, same(v, run(t, on(t, l, 1), v, linear(n, block), contents, nil, nil), want), "%v, blocks of %d", l, block)
		}
	}
}
