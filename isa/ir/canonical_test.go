package ir

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/hologram-project/hologram/isa/work"
)

// A program changed in one place so that some lane leaves something else
// behind must not have the same bytes.
func TestDifferentAnswersHaveDifferentBytes(t *testing.T) {
	brief.Alone(t)
	differ := 0
	for seed := range uint64(brief.Or(900, 200)) {
		s := isatest.FromSeed(seed)
		cfg := everything
		cfg.Size, cfg.Faults = 1+int(seed)%25, false
		c := progen.New(s, cfg)
		v := verify(t, c.Program)
		q := *c.Program
		q.Insts = slices.Clone(q.Insts)
		if !mutate(s, &q) {
			continue
		}
		w, err := isa.Verify(&q)
		if err != nil {
			continue
		}
		a := canonical(t, v)
		b := canonical(t, w)
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			if a.Hash() == b.Hash() {
				t.Fatal("different bytes, same hash")
			}
			differ++
			continue
		}
		for at := range int(c.N) {
			m, n := newMachine(c.Program, bind(c), c.Params, at), newMachine(&q, bind(c), c.Params, at)
			if m.walkGraph(v) && n.walkGraph(w) && m.state() != n.state() {
				t.Fatalf("seed %d: the answers differ, the bytes do not\n%s\n%s\n%v", seed, isa.Disassemble(c.Program), isa.Disassemble(&q), a)
			}
		}
	}
	if differ < brief.Or(100, 20) {
		t.Errorf("only %d programs were changed", differ)
	}
}

// mutate changes an operation, an immediate or an offset somewhere.
func mutate(s isatest.Source, p *isa.Program) bool {
	in := &p.Insts[s.Intn(len(p.Insts))]
	row, _ := isa.Lookup(in.Op)
	for i := range in.Args {
		a := &in.Args[i]
		switch {
		case a.Kind == isa.ArgImm && row.Operands[i].Kind == isa.Src && s.Intn(2) == 0:
			t := operandType(row.Operands[i].Type, in)
			a.Bits = (a.Bits + 1 + s.Uint64()%3) & t.Mask()
			return true
		case a.Kind == isa.ArgAddr && a.Mode == isa.AddrByte && s.Intn(2) == 0:
			a.Bits++
			return true
		}
	}
	other := []isa.Op{isa.ADD, isa.SUB, isa.MUL, isa.MIN, isa.MAX}
	if slices.Contains(other, in.Op) {
		was := in.Op
		for in.Op == was {
			in.Op = other[s.Intn(len(other))]
		}
		return true
	}
	if row.HasCond {
		in.Cond = isa.EQ + (in.Cond.Signed()-isa.EQ+1)%6
		return true
	}
	return false
}

// pairs of programs that must, or must not, have the same bytes.
func TestBytesOfPairs(t *testing.T) {
	const head = "slot a i32\nslot b i32\nslot c i32\nslot m u8\nparam k u32\ndata t i32 { 4, 5, 6 }\nshared 64\n"
	for _, tc := range []struct {
		name string
		same bool
		x, y string
	}{
		{"stores to different slots change places", true,
			"ldg.i32 x, a[index]; stg.i32 x, b[index]; stg.i32 7, c[index]",
			"ldg.i32 x, a[index]; stg.i32 7, c[index]; stg.i32 x, b[index]"},
		{"stores to one slot do not", false,
			"stg.i32 1, b[0]; stg.i32 2, b[2]",
			"stg.i32 2, b[2]; stg.i32 1, b[0]"},
		{"a load by index stays before a later store by index", false,
			"ldg.i32 x, a[index]; stg.i32 1, b[index]; stg.i32 x, c[index]",
			"stg.i32 1, b[index]; ldg.i32 x, a[index]; stg.i32 x, c[index]"},
		{"nor does it go behind a store after that one", false,
			"ldg.i32 x, c[index]; stg.i32 1, b[index]; ldg.u8 y, m[index]; cvt.i32.u8 y, y; stg.i32 y, a[index]; stg.i32 x, b[index]",
			"ldg.u8 y, m[index]; cvt.i32.u8 y, y; stg.i32 y, a[index]; ldg.i32 x, c[index]; stg.i32 1, b[index]; stg.i32 x, b[index]"},
		{"a load by byte address does not", true,
			"ldg.i32 x, m[4]; stg.i32 1, b[index]; stg.i32 x, c[index]",
			"stg.i32 1, b[index]; ldg.i32 x, m[4]; stg.i32 x, c[index]"},
		{"a load is shared across a store to another slot", true,
			"ldg.i32 x, a[index]; stg.i32 x, b[index]; ldg.i32 y, a[index]; stg.i32 y, c[index]",
			"ldg.i32 x, a[index]; stg.i32 x, b[index]; stg.i32 x, c[index]"},
		{"but not across one to its own", false,
			"ldg.i32 x, b[index]; stg.i32 3, b[0]; ldg.i32 y, b[index]; stg.i32 y, c[index]",
			"ldg.i32 x, b[index]; stg.i32 3, b[0]; stg.i32 x, c[index]"},
		{"nor across a barrier", false,
			"lds.i32 x, shared[0]; bar_sync 0; lds.i32 y, shared[0]; add.i32 x, x, y; stg.i32 x, c[index]",
			"lds.i32 x, shared[0]; bar_sync 0; add.i32 x, x, x; stg.i32 x, c[index]"},
		{"phase, residues and scratch change places", true,
			"phase_adv 3; cvt.u64.u32 v, r252; res_accum 1, v; pool_alloc h, 8; pool_store.u64 v, h, 0; pool_load.i32 x, h, 4; stg.i32 x, c[index]",
			"pool_alloc h, 8; cvt.u64.u32 v, r252; pool_store.u64 v, h, 0; res_accum 1, v; pool_load.i32 x, h, 4; phase_adv 3; stg.i32 x, c[index]"},
		{"residues add up in any order", true,
			"cvt.u64.u32 v, r252; res_accum 1, v; res_accum 2, v; res_accum 1, 7",
			"cvt.u64.u32 v, r252; res_accum 1, 7; res_accum 2, v; res_accum 1, v"},
		{"residues in constructs, too", true,
			"cvt.u64.u32 v, r252; ldg.i32 x, a[index]; set.lt.i32 p, x, 3; bra e, p; res_accum 1, v; e: res_accum 2, v; stg.i32 x, c[index]",
			"cvt.u64.u32 v, r252; ldg.i32 x, a[index]; res_accum 2, v; stg.i32 x, c[index]; set.lt.i32 p, x, 3; bra e, p; res_accum 1, v; e:"},
		{"every residue counts", false,
			"res_accum 1, 7; res_accum 1, 7",
			"res_accum 1, 7"},
		{"the phase is read before or after it moves", false,
			"phase_get g; phase_adv 3; cvt.i32.u16 x, g; stg.i32 x, c[index]",
			"phase_adv 3; phase_get g; cvt.i32.u16 x, g; stg.i32 x, c[index]"},
		{"scratch is read before or after it is written", false,
			"pool_alloc h, 8; pool_load.i32 x, h, 0; pool_store.i32 7, h, 0; stg.i32 x, c[index]",
			"pool_alloc h, 8; pool_store.i32 7, h, 0; pool_load.i32 x, h, 0; stg.i32 x, c[index]"},
		{"a barrier is nothing to the phase", true,
			"sts.i32 4, shared[0]; phase_adv 3; bar_sync 0; lds.i32 x, shared[0]; stg.i32 x, c[index]",
			"sts.i32 4, shared[0]; bar_sync 0; phase_adv 3; lds.i32 x, shared[0]; stg.i32 x, c[index]"},
		{"MAD is MUL and ADD", true,
			"ldg.i32 x, a[index]; mad.i32 x, x, 3, x; stg.i32 x, c[index]",
			"ldg.i32 x, a[index]; mul.i32 y, 3, x; add.i32 x, x, y; stg.i32 x, c[index]"},
		{"REDUCE is a chain", true,
			"ldg.i32 r1, a[index]; mul.i32 r2, r1, 7; mov.i32 r3, 9; reduce_min.i32 x, r1, 3; stg.i32 x, c[index]",
			"ldg.i32 x, a[index]; mul.i32 y, x, 7; min.i32 x, x, y; min.i32 x, x, 9; stg.i32 x, c[index]"},
		{"preset registers are special values", true,
			"cvt.i32.u32 x, r252; stg.i32 x, c[index]",
			"sreg l, lane.x; cvt.i32.u32 x, l; stg.i32 x, c[index]"},
		{"a constant offset joins the address", true,
			"mov.u32 o, 8; ldg.i32 x, m[o + 4]; stg.i32 x, c[index]",
			"ldg.i32 x, m[12]; stg.i32 x, c[index]"},
		{"so does one that only the passes find", true,
			"ldg.i32 x, a[index]; xor.i32 o, x, x; add.i32 o, o, 8; ldg.i32 x, m[o + 4]; stg.i32 x, c[index]",
			"ldg.i32 x, m[12]; stg.i32 x, c[index]"},
		{"phi is a byte address", true,
			"ldg.i32 x, phi(0, 1, 4); stg.i32 x, c[index]",
			"ldg.i32 x, boundary[260]; stg.i32 x, c[index]"},
		{"a constant element of a table is its value", true,
			"ldc.i32 x, t[1]; stg.i32 x, c[index]",
			"stg.i32 5, c[index]"},
		{"a diamond with equal sides for the predicate's inverse", true,
			"ldg.i32 x, a[index]; set.lt.i32 p, x, 3; bra l, p; add.i32 y, x, 1; bra e; l: mul.i32 y, x, 5; e: stg.i32 y, c[index]",
			"ldg.i32 x, a[index]; set.ge.i32 p, x, 3; bra l, p; mul.i32 y, x, 5; bra e; l: add.i32 y, x, 1; e: stg.i32 y, c[index]"},
		{"which lanes store matters", false,
			"ldg.i32 x, a[index]; set.lt.i32 p, x, 3; bra e, p; stg.i32 x, c[index]; e:",
			"ldg.i32 x, a[index]; set.lt.i32 p, x, 3; bra e, !p; stg.i32 x, c[index]; e:"},
		{"a branch on a constant is gone", true,
			"set.lt.i32 p, 3, 4; bra e, p; stg.i32 1, c[index]; e: stg.i32 2, b[index]",
			"stg.i32 2, b[index]"},
		{"a loop of no rounds is gone", true,
			"mov.i32 x, 1; loop 0, e; add.i32 x, x, 1; e: stg.i32 x, c[index]",
			"stg.i32 1, c[index]"},
		{"a loop costs fuel even if it does nothing", false,
			"loop 3, e; e: stg.i32 1, c[index]",
			"stg.i32 1, c[index]"},
		{"what may fault is not dead", false,
			"ldg.i32 x, a[4]; stg.i32 1, c[index]",
			"stg.i32 1, c[index]"},
		{"nor is a division by what may be 0", false,
			"ldg.i32 x, a[index]; rem.i32 x, 3, x; stg.i32 1, c[index]",
			"stg.i32 1, c[index]"},
		{"but of floats, which never faults, it is", true,
			"ldg.i32 x, a[index]; cvt.f32.i32 y, x; div.f32 y, 3.0, y; stg.i32 1, c[index]",
			"stg.i32 1, c[index]"},
		{"so is a division by a constant", true,
			"ldg.i32 x, a[index]; div.i32 x, x, 3; stg.i32 1, c[index]",
			"stg.i32 1, c[index]"},
		{"an invariant loop variable is none", true,
			"ldg.i32 x, a[index]; mov.i32 s, 0; loop 5, e; mov.i32 y, x; add.i32 s, s, y; mov.i32 x, y; e: stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 s, 0; loop 5, e; add.i32 s, s, x; e: stg.i32 s, c[index]"},
		{"loop variables are told apart", true,
			"mov.i32 i, 0; mov.i32 s, 0; loop 5, e; add.i32 s, s, i; add.i32 i, i, 1; e: stg.i32 s, c[index]",
			"mov.i32 s, 0; mov.i32 i, 0; loop 5, e; add.i32 s, i, s; add.i32 i, i, 1; e: stg.i32 s, c[index]"},
		{"nested loops' variables too", true,
			"mov.i32 i, 0; mov.i32 s, 0; loop 5, e; mov.i32 j, 0; loop 4, f; add.i32 y, i, j; add.i32 s, s, y; add.i32 j, j, 1; f: add.i32 i, i, 1; e: stg.i32 s, c[index]",
			"mov.i32 s, 0; mov.i32 i, 0; loop 5, e; mov.i32 j, 0; loop 4, f; add.i32 y, j, i; add.i32 j, j, 1; add.i32 s, y, s; f: add.i32 i, i, 1; e: stg.i32 s, c[index]"},
		{"nested loops that are alike, too", true,
			"mov.i32 i, 0; mov.i32 s, 0; loop 5, e; mov.i32 j, 0; loop 5, f; sub.i32 y, s, 1; mul.i32 z, i, j; xor.i32 s, y, z; add.i32 j, j, 1; f: add.i32 i, i, 1; e: stg.i32 s, c[index]",
			"mov.i32 i, 0; mov.i32 s, 0; loop 5, e; mov.i32 j, 0; loop 5, f; sub.i32 y, s, 1; mul.i32 z, j, i; xor.i32 s, y, z; add.i32 j, j, 1; f: add.i32 i, i, 1; e: stg.i32 s, c[index]"},
		{"loads before and after a store are told apart", true,
			"ldg.i32 x, m[0]; stg.i32 3, m[2]; ldg.i32 y, m[0]; mul.i32 z, x, y; stg.i32 z, c[index]",
			"ldg.i32 x, m[0]; stg.i32 3, m[2]; ldg.i32 y, m[0]; mul.i32 z, y, x; stg.i32 z, c[index]"},
		{"so are those of shared memory", true,
			"lds.i32 x, shared[0]; sts.i32 3, shared[0]; lds.i32 y, shared[0]; mul.i32 z, x, y; stg.i32 z, c[index]",
			"lds.i32 x, shared[0]; sts.i32 3, shared[0]; lds.i32 y, shared[0]; mul.i32 z, y, x; stg.i32 z, c[index]"},
		{"those of scratch", true,
			"pool_alloc h, 8; pool_load.i32 x, h, 0; pool_store.i32 7, h, 0; pool_load.i32 y, h, 0; mul.i32 z, x, y; stg.i32 z, c[index]",
			"pool_alloc h, 8; pool_load.i32 x, h, 0; pool_store.i32 7, h, 0; pool_load.i32 y, h, 0; mul.i32 z, y, x; stg.i32 z, c[index]"},
		{"and the phase before and after it moves", true,
			"phase_get g; phase_adv 3; phase_get k; mul.u16 z, g, k; cvt.i32.u16 x, z; stg.i32 x, c[index]",
			"phase_get g; phase_adv 3; phase_get k; mul.u16 z, k, g; cvt.i32.u16 x, z; stg.i32 x, c[index]"},
		{"a load in a loop sees the stores of earlier rounds", false,
			"ldg.i32 x, m[0]; loop 3, e; ldg.i32 y, m[0]; add.i32 y, y, 1; stg.i32 y, m[0]; e: stg.i32 x, c[index]",
			"ldg.i32 x, m[0]; loop 3, e; add.i32 y, x, 1; stg.i32 y, m[0]; e: stg.i32 x, c[index]"},
		{"two loop variables that are always equal are one", true,
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 j, 0; mov.i32 s, 1; loop 4, e; add.i32 s, s, i; mul.i32 s, s, j; xor.i32 i, s, x; mov.i32 j, i; e: stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 s, 1; loop 4, e; add.i32 s, s, i; mul.i32 s, s, i; xor.i32 i, s, x; e: stg.i32 s, c[index]"},
		{"two loop variables that start and are updated alike are one", true,
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 j, 0; mov.i32 s, 1; loop 4, e; mul.i32 s, s, i; xor.i32 s, s, j; mul.i32 i, i, 3; add.i32 i, i, x; mul.i32 j, 3, j; add.i32 j, x, j; e: stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 s, 1; loop 4, e; mul.i32 s, s, i; xor.i32 s, s, i; mul.i32 i, i, 3; add.i32 i, i, x; e: stg.i32 s, c[index]"},
		{"three in a loop with a way back in its middle, too", true,
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 j, 0; mov.i32 k, 0; l: add.i32 i, i, 1; add.i32 j, j, 1; mov.i32 k, j; atom_add.i32 o, m[0], i; set.lt.i32 p, o, x; bra l, p; add.i32 i, i, 2; add.i32 j, j, 2; add.i32 k, 2, k; atom_add.i32 o, m[4], k; set.lt.i32 p, i, 9; bra l, p; add.i32 s, i, j; mul.i32 s, s, k; stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 i, 0; l: add.i32 i, i, 1; atom_add.i32 o, m[0], i; set.lt.i32 p, o, x; bra l, p; add.i32 i, i, 2; atom_add.i32 o, m[4], i; set.lt.i32 p, i, 9; bra l, p; add.i32 s, i, i; mul.i32 s, s, i; stg.i32 s, c[index]"},
		{"not so if one round updates them differently", false,
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 j, 0; mov.i32 s, 1; loop 4, e; add.i32 s, s, i; xor.i32 s, s, j; add.i32 i, i, x; add.i32 j, j, 1; e: stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 s, 1; loop 4, e; add.i32 s, s, i; xor.i32 s, s, i; add.i32 i, i, x; e: stg.i32 s, c[index]"},
		{"nor if they change places with a third", false,
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 j, 0; mov.i32 k, x; mov.i32 s, 1; loop 4, e; sub.i32 s, s, i; xor.i32 s, s, j; add.i32 i, i, 1; add.i32 j, k, 1; mov.i32 k, i; e: stg.i32 s, c[index]",
			"ldg.i32 x, a[index]; mov.i32 i, 0; mov.i32 s, 1; loop 4, e; sub.i32 s, s, i; xor.i32 s, s, i; add.i32 i, i, 1; e: stg.i32 s, c[index]"},
		{"which loop a branch leaves matters", false,
			"ldg.i32 x, a[index]; loop 4, e; loop 3, f; atom_add.i32 o, m[0], x; set.lt.i32 p, o, 9; bra in, p; atom_add.i32 o, m[4], 1; f: atom_add.i32 o, m[8], 1; in: atom_add.i32 o, m[12], 1; e: atom_add.i32 o, m[16], 1; out: atom_add.i32 o, m[20], 1",
			"ldg.i32 x, a[index]; loop 4, e; loop 3, f; atom_add.i32 o, m[0], x; set.lt.i32 p, o, 9; bra out, p; atom_add.i32 o, m[4], 1; f: atom_add.i32 o, m[8], 1; in: atom_add.i32 o, m[12], 1; e: atom_add.i32 o, m[16], 1; out: atom_add.i32 o, m[20], 1"},
		{"float zeros differ", false,
			"cvt.f32.u32 x, r252; add.f32 x, x, 0x0p+0; bitcast.i32.f32 y, x; stg.i32 y, c[index]",
			"cvt.f32.u32 x, r252; bitcast.i32.f32 y, x; stg.i32 y, c[index]"},
		{"−0 is nothing to add", true,
			"cvt.f32.u32 x, r252; add.f32 x, x, -0x0p+0; bitcast.i32.f32 y, x; stg.i32 y, c[index]",
			"cvt.f32.u32 x, r252; bitcast.i32.f32 y, x; stg.i32 y, c[index]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var fs []*Func
			for _, code := range []string{tc.x, tc.y} {
				head := head
				if strings.Contains(tc.x, "phi") {
					head = strings.Replace(head, "shared", "slot boundary u8\nshared", 1)
				}
				text := "program p\n" + head + strings.ReplaceAll(code, ";", "\n") + "\nexit\n"
				v := verified(t, text)
				f := canonical(t, v)
				agree(t, v, f)
				fs = append(fs, f)
			}
			if same := bytes.Equal(fs[0].Bytes(), fs[1].Bytes()); same != tc.same {
				t.Errorf("same bytes: %v\n%v\n%v", same, fs[0], fs[1])
			}
		})
	}
}

// Sizes and declarations are part of what a program is.
func TestDeclarationsAreInTheBytes(t *testing.T) {
	seen := map[string]string{}
	for _, decl := range []string{
		"", "block 32\n", "block 32 2\n", "param k u32\n", "param k i32\n", "slot d u8\n", "slot d i8\n",
		"shared 4\nlds.i32 x, shared[0]\n", "shared 8\nlds.i32 x, shared[0]\n",
		"data t u8 { 1 }\nldc.u8 x, t[r252]\n", "data t u8 { 2 }\nldc.u8 x, t[r252]\n", "data t u8 { 1, 2 }\nldc.u8 x, t[r252]\n",
		"data t i8 { 1, 2 }\nldc.i8 x, t[r252]\n",
		"data t u8 { 1 }\ndata s u8 { 1, 2 }\nldc.u8 x, t[r252]\nldc.u8 x, s[r252]\n",
		"data s u8 { 1, 2 }\ndata t u8 { 1 }\nldc.u8 x, s[r252]\nldc.u8 x, s[r252]\nldc.u8 x, s[2]\n",
	} {
		f := canonical(t, verified(t, "program p\nslot c i32\n"+decl+"stg.i32 1, c[index]\nexit\n"))
		k := string(f.Bytes())
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same bytes", decl, other)
		}
		seen[k] = decl
	}
}

// What is declared and not used is not, nor are the order and number of tables.
func TestUnusedDeclarationsAreNotInTheBytes(t *testing.T) {
	const body = "mov.u32 i, 1\nldc.f32 x, a[r252]\nldc.f32 y, b[r252]\nadd.f32 x, y, x\nlds.f32 y, shared[0]\nadd.f32 x, x, y\nstg.f32 x, c[index]\n"
	for _, group := range [][][2]string{
		{
			{"", "stg.f32 2, c[index]\n"},
			{"data t u8 { 1 }\n", "stg.f32 2, c[index]\n"},
			{"shared 64\n", "stg.f32 2, c[index]\n"},
			{"data t f32 { 1, 2 }\n", "mov.u32 i, 1\nldc.f32 x, t[i]\nstg.f32 x, c[index]\n"},
			{"shared 64\ndata t f32 { 1, 2 }\n", "ldc.f32 x, t[0]\nstg.f32 2, c[index]\n"},
		}, {
			{"shared 4\ndata a f32 { 1, 2 }\ndata b f32 { 3 }\n", body},
			{"shared 4\ndata b f32 { 3 }\ndata a f32 { 1, 2 }\n", body},
			{"shared 4\ndata b f32 { 3 }\ndata u i8 { 7 }\ndata a f32 { 1, 2 }\n", body},
			{"shared 4\ndata a f32 { 3 }\ndata b f32 { 1, 2 }\n", body},
		}, {
			{"shared 4\ndata a f32 { 3 }\ndata b f32 { 3 }\n", body},
			{"shared 4\ndata a f32 { 3 }\n", strings.ReplaceAll(body, "b[", "a[")},
		},
	} {
		var first *Func
		for _, p := range group {
			v := verified(t, "program p\nslot c f32\n"+p[0]+p[1]+"exit\n")
			f := canonical(t, v)
			agree(t, v, f)
			if first == nil {
				first = f
			} else if !bytes.Equal(f.Bytes(), first.Bytes()) {
				t.Errorf("%q: the bytes differ\n%v\n%v", p[0], first, f)
			}
		}
	}
}

// What the verifier says of slots covers what the canonical form does.
func TestSlotsStayWithinTheVerifiers(t *testing.T) {
	for seed := range uint64(100) {
		c := progen.New(isatest.FromSeed(seed), everything)
		v := verify(t, c.Program)
		f := canonical(t, v)
		for i, u := range f.Slots {
			s := v.Slots[i]
			if u.Reads && !s.Reads || u.Writes && !s.Writes || u.Indexed && !s.Indexed || u.Bytes && !s.Bytes {
				t.Fatalf("slot %d: %+v, by the verifier %+v\n%v", i, u, s, f)
			}
			if !u.Indexed || u.Bytes {
				continue
			}
			for _, to := range u.LoadsAfterStoreTo {
				if o := f.Slots[to]; o.Indexed && !o.Bytes && !slices.Contains(s.LoadsAfterStoreTo, to) {
					t.Fatalf("seed %d: slot %d is loaded after a store to %d, which the program as written does not do\n%s\n%v", seed, i, to, isa.Disassemble(c.Program), f)
				}
			}
		}
	}
}

// The work of the passes must not outgrow n log n: ten times the program may
// be at most 10·log(10n)/log(n) times the work, with some room for what small
// programs save.
func TestWorkGrowsNoFasterThanNLogN(t *testing.T) {
	brief.Alone(t)
	for _, sh := range shapes {
		t.Run(sh.name, func(t *testing.T) {
			steps := func(n int) float64 {
				v := verified(t, sh.make(n))
				m := work.New(nil)
				_, _, err := Canonical(v, Metered(m))
				require.NoError(t, err)
				return float64(m.Steps()) / float64(len(v.Program.Insts))
			}
			small, large := steps(1000), steps(10000)
			t.Logf("steps an instruction: %.1f at 1000, %.1f at 10000", small, large)
			if large > small*4/3*1.1 {
				t.Errorf("steps an instruction: %.1f at 1000, %.1f at 10000", small, large)
			}
		})
	}
}

// Where a Br leads is in the bytes, even if nothing else tells.
func TestBrTargetsAreInTheBytes(t *testing.T) {
	f := canonical(t, verified(t, `program p
slot m u8
  loop 4, e
    loop 3, f
      atom_add.i32 o, m[0], 1
      set.lt.i32 p, o, 9
      bra in, p
    f:
    atom_add.i32 o, m[4], 1
  in:
    atom_add.i32 o, m[8], 1
  e:
  exit
`))
	found := 0
	var visit func(r *Region)
	visit = func(r *Region) {
		for _, n := range r.Nodes {
			if n.Op == Br && n.Target != nil {
				found++
				before, target := f.Bytes(), n.Target
				n.Target = nil
				if bytes.Equal(before, f.Bytes()) {
					t.Errorf("a Br to nowhere has the same bytes\n%v", f)
				}
				n.Target = target
			}
			for _, s := range n.Regions {
				visit(s)
			}
		}
	}
	visit(f.Body)
	if found == 0 {
		t.Fatalf("no Br\n%v", f)
	}
}
