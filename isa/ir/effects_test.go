package ir

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// touch is an instruction, or a construct, that touches something beside registers.
// Its code has $ for what makes registers and labels of two its own.
type touch struct {
	name, code    string
	reads, writes []string
}

const everySlot = "slot m, slot n, slot a, slot b"

// touches are what a lane may do beside computing, with what that reads and writes.
// end is whether the lane still runs: what may fault or leave something behind asks
// for it, and a loop, in which fuel may run out, decides it.
var touches = func() []touch {
	list := []touch{
		{"load m", "ldg.i32 v$, m[0]", []string{"slot m", "end"}, nil},
		{"load n", "ldg.i32 v$, n[8]", []string{"slot n", "end"}, nil},
		{"load a", "ldg.i32 v$, a[index]", []string{"slot a", "index"}, nil},
		{"load any", "ldg.i32 v$, @h[4]", []string{everySlot, "end"}, nil},
		{"load shared", "lds.i32 v$, shared[0]", []string{"shared", "end"}, nil},
		{"store m", "stg.i32 5, m[4]", []string{"end"}, []string{"slot m"}},
		{"store n", "stg.i32 6, n[4]", []string{"end"}, []string{"slot n"}},
		{"store b", "stg.i32 7, b[index]", []string{"end"}, []string{"slot b", "index"}},
		{"store any", "stg.i32 8, @h[8]", []string{"end"}, []string{everySlot}},
		{"store shared", "sts.i32 9, shared[4]", []string{"end"}, []string{"shared"}},
		{"atomic m", "atom_add.i32 v$, m[8], 3", []string{"slot m", "end"}, []string{"slot m"}},
		{"atomic any", "atom_max.i32 v$, @h[12], 3", []string{everySlot, "end"}, []string{everySlot}},
		{"atomic shared", "atom_cas.i32 v$, shared[8], 3, 4", []string{"shared", "end"}, []string{"shared"}},
		{"load scratch", "pool_load.i32 v$, area, 0", []string{"end"}, []string{"pool"}},
		{"store scratch", "pool_store.i32 4, area, 4", []string{"end"}, []string{"pool"}},
		{"get phase", "phase_get g$\ncvt.i32.u16 v$, g$", []string{"end"}, []string{"phase"}},
		{"advance phase", "phase_adv 3", []string{"end"}, []string{"phase"}},
		{"residue", "res_accum 1, 7", []string{"end"}, nil},
		{"barrier", "bar_sync 0", []string{"end"}, []string{everySlot, "shared"}},
		{"fence", "mem_fence device", []string{"end"}, []string{everySlot, "shared"}},
		{"loop", "loop times, e$\nxor.i32 v$, v$, 1\ne$:", nil, []string{"end"}},
	}
	for _, x := range slices.Clone(list) { // what a construct does is what is in it, and a loop's rounds
		list = append(list, touch{"if: " + x.name, "bra s$, few\n" + x.code + "\ns$:", x.reads, x.writes})
		if x.name != "loop" {
			list = append(list, touch{"loop: " + x.name, "loop times, f$\n" + x.code + "\nf$:", x.reads, append([]string{"end"}, x.writes...)})
		}
	}
	return list
}()

func setOf(list []string) map[string]bool {
	set := map[string]bool{}
	for _, p := range strings.Split(strings.Join(list, ", "), ", ") {
		if p != "" && p != "index" {
			set[p] = true
		}
	}
	return set
}

func with(code, own string) string { return strings.ReplaceAll(code, "$", own) }

func meet(a, b []string) bool {
	q := setOf(b)
	for p := range setOf(a) {
		if q[p] {
			return true
		}
	}
	return false
}

// touching is the canonical form of a program that does all of a list, in order, and
// stores what it got.
func touching(t *testing.T, list ...string) *Func {
	t.Helper()
	text := "program touching\nslot m u8\nslot n u8\nslot a i32\nslot b i32\nslot out i32\nshared 64\nparam k u32\n" +
		"ldp.u32 times, k\nset.lt.u32 few, times, 3\ncvt.u64.u32 h, times\npool_alloc area, 8\nmov.i32 vx, 1\nmov.i32 vy, 2\nmov.i32 vw, 3\n" +
		strings.Join(list, "\n") + "\nmul.i32 z, vx, 3\nsub.i32 z, z, vy\nstg.i32 z, out[index]\nexit\n"
	return canonical(t, verified(t, text))
}

// TestTheOrderOfEffects writes each two in both orders: the bytes tell the orders
// apart if one writes what the other touches, and only then. Of two slots that are
// accessed by index, which may be one array, a load stays in front of a store.
func TestTheOrderOfEffects(t *testing.T) {
	for i, x := range touches {
		for _, y := range touches[:i] {
			if nested := strings.Contains(x.name, ":"); nested && strings.Contains(y.name, ":") {
				continue // each is held against all that are not
			}
			if strings.TrimPrefix(strings.TrimPrefix(x.name, "if: "), "loop: ") == y.name {
				continue // two of a kind may be alike
			}
			keeps := meet(x.writes, y.writes) || meet(x.writes, y.reads) || meet(x.reads, y.writes) ||
				slices.Contains(x.reads, "index") && slices.Contains(y.writes, "index") || slices.Contains(x.writes, "index") && slices.Contains(y.reads, "index")
			a, b := with(x.code, "x"), with(y.code, "y")
			f, g := touching(t, a, b), touching(t, b, a)
			if same := bytes.Equal(f.Bytes(), g.Bytes()); same == keeps {
				t.Errorf("%s and %s: the same bytes in both orders: %v\n%v\n%v", x.name, y.name, same, f, g)
			}
		}
	}
}

// loadsLike counts the loads in f that are as a load is where nothing else is.
func loadsLike(t *testing.T, f *Func, load touch) (found int) {
	alone := canonical(t, verified(t, "program p\nslot m u8\nslot n u8\nslot a i32\nslot out i32\nparam k u32\nshared 64\nldp.u32 t, k\ncvt.u64.u32 h, t\n"+
		with(load.code, "x")+"\nstg.i32 vx, out[index]\nexit\n"))
	var is *Node
	for _, n := range alone.Body.Nodes {
		if n.Op == Op(isa.LDG) || n.Op == Op(isa.LDS) {
			is = n
		}
	}
	require.NotNil(t, is)
	var look func(r *Region)
	look = func(r *Region) {
		for _, n := range r.Nodes {
			if n.Op == is.Op && n.Mem.Mode == is.Mem.Mode && n.Mem.Offset == is.Mem.Offset {
				found++
			}
			for _, s := range n.Regions {
				look(s)
			}
		}
	}
	look(f.Body)
	return found
}

// TestLoadsAreSharedUntilSomethingIsWritten loads from one place before and behind
// each, and before a loop and in it, where each comes later in the round: there is one
// load left unless that may have written to the place.
func TestLoadsAreSharedUntilSomethingIsWritten(t *testing.T) {
	for _, load := range touches[:5] {
		for _, between := range touches {
			if strings.HasSuffix(between.name, load.name) {
				continue
			}
			want := 1
			if meet(between.writes, load.reads[:1]) {
				want = 2
			}
			x, w, y := with(load.code, "x"), with(between.code, "w"), with(load.code, "y")
			f := touching(t, x, w, y)
			require.Equal(t, want, loadsLike(t, f, load), "%s before and behind %s\n%v", load.name, between.name, f)
			f = touching(t, x, "loop times, round", y, w, "round:")
			require.Equal(t, want, loadsLike(t, f, load), "%s before a loop and in it, before %s\n%v", load.name, between.name, f)
		}
	}
}
