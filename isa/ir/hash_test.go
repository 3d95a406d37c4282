package ir

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// Operands that commute are put in order by what they compute. Two that differ
// in one static part alone, whichever, must not tie: then the order in which a
// program was written would show.
func TestEveryPartOfANodeIsInItsHash(t *testing.T) {
	const head = "program p\nslot a i32\nslot b i32\nslot c i32\nslot m u8\nslot n u8\nparam k i32\nparam l i32\n" +
		"data t i32 { 4, 5, 6 }\ndata u i32 { 7, 8 }\nshared 64\n  ldg.i32 x, a[index]\n  ldg.i32 y, b[index]\n  and.i32 o, x, 15\n  mov.i64 h, 3\n  cvt.i64.i32 h2, x\n"
	computations := []string{
		"ldg.i32 %s, a[index]", "ldg.i32 %s, b[index]", "ldg.i32 %s, m[o]", "ldg.i32 %s, m[o + 4]", "ldg.i32 %s, m[o + 8]",
		"ldg.i32 %s, m[0]", "ldg.i32 %s, m[4]", "ldg.i32 %s, n[o]", "ldg.i32 %s, n[0]", "lds.i32 %s, shared[o]", "lds.i32 %s, shared[o + 4]",
		"lds.i32 %s, shared[0]", "lds.i32 %s, shared[4]", "ldg.i32 %s, @h2[o]", "ldg.i32 %s, @h2[o + 4]",
		"ldp.i32 %s, k", "ldp.i32 %s, l", "ldc.i32 %s, t[o]", "ldc.i32 %s, u[o]", "mov.i32 %s, 77", "mov.i32 %s, 78",
		"add.i32 %s, x, y", "sub.i32 %s, x, y", "sub.i32 %s, y, x", "min.i32 %s, x, y", "max.i32 %s, x, y", "shl.i32 %s, x, y", "shr.i32 %s, x, y",
		"cvt.i32.i8 %s, e", "cvt.i32.u8 %s, f", "nbr_get n%[1]s, f, 1\n  cvt.i32.u8 %[1]s, n%[1]s", "nbr_get n%[1]s, f, 2\n  cvt.i32.u8 %[1]s, n%[1]s",
	}
	build := func(first, second, swap int) []byte {
		a, b := "s1", "s2"
		if swap == 1 {
			a, b = b, a
		}
		text := head + "  cvt.i8.i32 e, x\n  cvt.u8.i32 f, x\n" +
			fmt.Sprintf("  "+computations[first]+"\n", "s1") + fmt.Sprintf("  "+computations[second]+"\n", "s2") +
			fmt.Sprintf("  add.i32 z, %s, %s\n  stg.i32 z, c[index]\n  exit\n", a, b)
		return canonical(t, verified(t, text)).Bytes()
	}
	for i := range computations {
		for j := range i {
			p, q, r := build(i, j, 0), build(i, j, 1), build(j, i, 0)
			require.True(t, bytes.Equal(p, q), "%s plus %s: the order of operands shows", computations[i], computations[j])
			require.True(t, bytes.Equal(p, r), "%s and %s: the order in which they were written shows", computations[i], computations[j])
		}
	}
}

// A constant that an address starts from is taken into its offset where the sum
// can be held. Where it can't the access is stray, and stays so: it must not
// come round to the slot from below.
func TestOffsetsDoNotWrap(t *testing.T) {
	ends := []int64{math.MinInt64, math.MinInt64 + 4, -1 << 62, -8, -4, 0, 4, 8, 1 << 62, math.MaxInt64 - 4, math.MaxInt64}
	types := []struct {
		t    isa.Type
		from func(int64) (string, *big.Int)
	}{
		{isa.I64, func(v int64) (string, *big.Int) { return fmt.Sprint(v), big.NewInt(v) }},
		{isa.U64, func(v int64) (string, *big.Int) {
			return fmt.Sprintf("%#x", uint64(v)), new(big.Int).SetUint64(uint64(v))
		}},
	}
	for _, typ := range types {
		for _, base := range ends {
			for _, offset := range ends {
				number, exact := typ.from(base)
				text := fmt.Sprintf("program p\nslot a u32\nslot c u32\n  mov.%v o, %s\n  ldg.u32 x, a[o %s]\n  stg.u32 x, c[index]\n  stg.u32 7, a[o %s]\n  exit\n",
					typ.t, number, signed(offset), signed(offset))
				f := canonical(t, verified(t, text))
				exact.Add(exact, big.NewInt(offset))
				for _, n := range f.Body.Nodes {
					if n.Mem.Mode != isa.AddrByte {
						continue
					}
					at := big.NewInt(n.Mem.Offset)
					if n.Mem.HasOff {
						cell, ok := n.Args[0].Const()
						require.True(t, ok)
						at.Add(at, big.NewInt(int64(cell)))
					}
					const room = 1 << 40 // more than a slot has
					inside := exact.Sign() >= 0 && exact.Cmp(big.NewInt(room)) < 0
					if inside {
						require.Zero(t, exact.Cmp(at), "%v %s + %d is %v, in canonical form %v", typ.t, number, offset, exact, at)
					} else {
						require.False(t, at.Sign() >= 0 && at.Cmp(big.NewInt(room)) < 0, "%v %s + %d, which is stray, became %v", typ.t, number, offset, at)
					}
				}
			}
		}
	}
}

// signed writes an offset with its sign apart, as the assembler wants it.
func signed(v int64) string {
	if v < 0 {
		return "- " + new(big.Int).Neg(big.NewInt(v)).String()
	}
	return fmt.Sprintf("+ %d", v)
}
