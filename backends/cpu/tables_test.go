package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// lookups is a program that takes numbers of a table at indices that are loaded, or one that the
// launch has, maybe behind a barrier or a branch.
func lookups(r *rand.Rand) string {
	types := []string{"f32", "f64", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}
	of, by := types[r.IntN(len(types))], types[4+r.IntN(8)]
	size := []int{1, 2, 4, 5, 8, 9, 16, 17, 31, 32, 33, 40, 64, 65, 100}[r.IntN(15)]
	values := make([]string, size)
	for i := range values {
		values[i] = fmt.Sprint(1 + r.IntN(100))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "program tables\nslot at %s\nslot out %s\nslot also %s\nparam p %s\nparam q i64\ndata T %s { %s }\n", by, of, by, by, of, strings.Join(values, ", "))
	fmt.Fprintf(&b, "  "+[]string{"ldg.%[1]s i, at[index]", "ldg.%[1]s i, at[index]", "ldp.%[1]s i, p", "ldp.%[1]s i, p\n  and.%[1]s i, i, 7"}[r.IntN(4)]+"\n", by)
	if r.IntN(2) == 0 { // addresses of one's own are for code that runs by blocks, in which what lanes share are numbers
		fmt.Fprintf(&b, "  ldp.i64 o, q\n  and.i64 o, o, 0\n  ldg.%[1]s z, at[o]\n  stg.%[1]s z, also[index]\n", by)
	}
	inside := r.IntN(2) == 0
	if inside { // and so is it where a lane that is not there looks
		fmt.Fprintf(&b, "  cvt.u64.%s j, i\n  and.u64 j, j, 63\n  min.u64 j, j, %d\n  cvt.%s.u64 i, j\n", by, size-1, by)
	}
	wide := []string{"i32", "u32", "i64", "u64"}[r.IntN(4)]
	if wide == by {
		fmt.Fprintf(&b, "  mov.%s k, i\n", by)
	} else {
		fmt.Fprintf(&b, "  cvt.%s.%s k, i\n", wide, by)
	}
	if size&(size-1) == 0 && r.IntN(3) == 0 { // permutations need not be told
		fmt.Fprintf(&b, "  and.%[1]s k, k, %d\n", wide, size-1)
	}
	if r.IntN(3) == 0 {
		b.WriteString("  bar_sync 0\n")
	}
	switch r.IntN(3) {
	case 0:
		fmt.Fprintf(&b, "  mov.%s x, 7\n  set.lt.%s few, i, 3\n  bra past, few\n  ldc.%s x, T[k]\npast:\n", of, by, of)
	case 1:
		fmt.Fprintf(&b, "  ldc.%s x, T[%d]\n  ldc.%s y, T[k]\n  max.%s x, x, y\n", of, r.IntN(size), of, of)
	default:
		fmt.Fprintf(&b, "  ldc.%s x, T[k]\n", of)
	}
	fmt.Fprintf(&b, "  stg.%s x, out[index]\n  exit\n", of)
	return b.String()
}

// TestTables compares with the interpreter how tables of all types and of lengths about those
// of vectors are looked up, with indices of all types: inside and outside, where they fault.
func TestTables(t *testing.T) {
	oracle := interp.New()
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) {
			tested := on(t, l, 1)
			count, first := conformance.Seeds(brief.Or(600, 150))
			faults := 0
			for i := first; i < first+uint64(count); i++ {
				r := rand.New(rand.NewPCG(i, 53))
				text := lookups(r)
				p, err := isa.Assemble("tables.atlas", text)
				require.NoError(t, err, text)
				v, err := isa.Verify(p)
				require.NoError(t, err, text)
				n := int64(1 + r.IntN(100))
				contents := randomContents(r, v, n)
				for at, size := 0, v.Program.Slots[0].Type.Size(); at < len(contents[0]); at += size {
					if r.IntN(8) > 0 { // most are small, some negative
						clear(contents[0][at : at+size])
						contents[0][at] = byte(r.IntN(40))
					}
				}
				params := []uint64{uint64(r.IntN(40)) & v.Program.Slots[0].Type.Mask(), r.Uint64()}
				want := run(t, oracle, v, linear(n, 32), contents, nil, params)
				got := run(t, tested, v, linear(n, 32), contents, nil, params)
				if want.err != nil {
					faults++
				}
				if err := same(v, got, want); err != nil {
					t.Fatalf("program %d: %v\n%s", i, err, text)
				}
			}
			require.NotZero(t, faults)
			require.Less(t, faults, count)
		})
	}
}

// Tables of all lengths about those of vectors are looked up at indices that are known to be
// inside, as those of mathematical functions are: by the bits that an index has, or at most its
// greatest, beside numbers of its own width and wider ones.
func TestTablesOfKnownIndices(t *testing.T) {
	r := rand.New(rand.NewPCG(54, 55))
	has := engines(t, 1)
	for _, size := range []int{2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65} {
		for _, of := range []isa.Type{isa.F32, isa.I32, isa.F64, isa.U64, isa.F16, isa.U8} {
			for _, by := range []isa.Type{isa.U32, isa.I64} {
				values := make([]string, size)
				for i := range values {
					values[i] = fmt.Sprint(1 + r.IntN(100))
				}
				index := fmt.Sprintf("  and.%v i, x, %d\n", by, size-1)
				if size&(size-1) != 0 {
					index = fmt.Sprintf("  and.%[1]v i, x, 127\n  min.%[1]v i, i, %[2]d\n", by, size-1)
				}
				v := verify(t, fmt.Sprintf("program p\nslot at %[1]v\nslot out %[2]v\ndata T %[2]v { %[3]s }\n  ldg.%[1]v x, at[index]\n%[4]s  ldc.%[2]v y, T[i]\n  stg.%[2]v y, out[index]\n  exit\n",
					by, of, strings.Join(values, ", "), index))
				n := int64(1 + r.IntN(100))
				contents := randomContents(r, v, n)
				want := run(t, interp.New(), v, linear(n, 32), contents, nil, nil)
				for l, b := range has {
					m := newFree(t, b, v)
					if err := same(v, m.run(t, new(host).block, linear(n, 32), contents, nil, nil), want); err != nil {
						t.Errorf("%v, %d numbers %v by %v: %v", l, size, of, by, err)
					}
					m.k.Release()
				}
			}
		}
	}
}

// newFree is newReady of a program that looks tables up where the proof is the writer's, as what
// the library's functions become does.
func newFree(t *testing.T, b backends.Backend, v *isa.Verified) *ready {
	t.Helper()
	m := newReady(t, b, v)
	m.k.Release()
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	widens := map[*ir.Node]bool{}
	for _, n := range f.Body.Nodes {
		if n.Op != ir.Op(isa.LDC) {
			continue
		}
		n.Free = true
		if w := n.Args[0].Node; w.Op == ir.Op(isa.CVT) { // an index is as wide there as it was made
			n.Args[0], widens[w] = w.Args[0], true
		}
	}
	f.Body.Nodes = slices.DeleteFunc(f.Body.Nodes, func(n *ir.Node) bool { return widens[n] })
	m.k, err = m.d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
	require.NoError(t, err)
	return m
}
