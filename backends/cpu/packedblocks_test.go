package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// packedBlocks is a program that does with narrow integers in blocks what stays packed:
// loads by addresses, some beyond the slot, in rounds and in part of the lanes;
// reductions; stores of lanes' numbers, and of what they share, which may be wider.
func packedBlocks(ty isa.Type) string {
	count := map[int]isa.Type{1: isa.U8, 2: isa.U16}[ty.Size()]
	var b strings.Builder
	line := func(form string, args ...any) { fmt.Fprintf(&b, form+"\n", args...) }
	line("program p\nslot x %v\nslot y %[1]v\nslot all %[1]v\nslot wide i64\nslot lanes %v\nslot apart %[1]v", ty, count)
	line("param off i64\nparam rounds u32\nparam left u32")
	line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.i64 off, off\n  ldp.u32 rounds, rounds\n  ldp.u32 left, left")
	line("  mad.u32 g, b, dx, q\n  cvt.u64.u32 lane, q\n  cvt.u64.u32 g64, b\n  cvt.u64.u32 dx64, dx\n  mul.u64 g64, g64, dx64\n  add.u64 g64, g64, lane")
	line("  mul.u64 at, g64, %d\n  cvt.u64.i64 o, off\n  add.u64 from, at, o", ty.Size())
	line("  mov.%v s, 3\n  mov.%[1]v p, 1\n  mov.%v n, 0", ty, count)
	line("  loop rounds, done\n  ldg.%v z, x[from]\n  add.%[1]v s, s, z\n  set.lt.%[1]v less, z, s\n  sel.%[1]v p, less, z, p\n  sel.%v n, less, n, 7\n  add.%[2]v n, n, 1\n  add.u64 from, from, %d\ndone:", ty, count, 64*ty.Size())
	line("  set.eq.u32 none, left, 0\n  bra over, none\n  set.ge.u32 beyond, q, left\n  bra over, beyond\n  ldg.%v z, x[from]\n  mul.%[1]v s, s, z\n  max.%[1]v p, p, z\nover:", ty)
	for i, op := range []string{"add", "min", "max", "mul"} {
		line("  block_reduce_%s.%v r%d, %s", op, ty, i, []string{"s", "p", "s", "p"}[i])
	}
	line("  xor.%v t, r0, r1\n  sub.%[1]v t, t, r2\n  add.%[1]v t, t, r3\n  add.%[1]v t, t, p\n  stg.%[1]v t, y[at]", ty)
	line("  cvt.%v.u32 w, g\n  add.%[1]v w, w, n\n  stg.%[1]v w, lanes[at]", count)
	line("  stg.%v r0, all[index]", ty)
	line("  mul.u64 at, g64, %d\n  ldg.%v z, x[at]\n  add.%[2]v z, z, p\n  stg.%[2]v z, apart[at]", 2*ty.Size(), ty)
	line("  set.ne.u32 other, q, 0\n  bra end, other")
	line("  cvt.i64.%v k, r1\n  cvt.i32.%[1]v i, r0\n  mul.i32 i, i, 77\n  cvt.i64.i32 j, i\n  add.i64 k, k, j\n  cvt.u64.u32 to, b\n  mul.u64 to, to, 8\n  stg.i64 k, wide[to]\nend:\n  exit", ty)
	return b.String()
}

// Narrow integers have the oracle's bits where they lie packed in blocks of any length,
// with rows that begin anywhere, lanes that have nothing, and loads that stray.
func TestPackedBlocks(t *testing.T) {
	oracle := interp.New()
	for _, ty := range []isa.Type{isa.I8, isa.U8, isa.I16, isa.U16} {
		v := verify(t, packedBlocks(ty))
		r := rand.New(rand.NewPCG(3, uint64(ty)))
		for _, block := range []int64{1, 2, 15, 16, 31, 33, 63, 64, 65, 128, 200, 256, 300} {
			n := block * 3
			if block%2 == 1 {
				n -= block / 2
			}
			off := int64(r.IntN(3)) * int64(ty.Size())
			if block == 33 {
				off = -2 * int64(ty.Size())
			}
			params := []uint64{uint64(off), uint64(r.IntN(4)), uint64(r.Int64N(block + 3))}
			contents := randomContents(r, v, n+40)
			sh := linear(n, block)
			want := run(t, oracle, v, sh, contents, nil, params)
			for _, l := range levels {
				got := run(t, on(t, l, 1), v, sh, contents, nil, params)
				if err := same(v, got, want); err != nil {
					t.Errorf("%v, %v, %d lanes in blocks of %d, params %v: %v", ty, l, n, block, params, err)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}

// Lanes that a number tells from the others, by any comparison, in either order, also where
// what counts them wraps among them.
func TestEdges(t *testing.T) {
	brief.Alone(t)
	oracle := interp.New()
	for _, count := range []string{"add.u32 c, q, 5", "sub.u32 c, q, 5", "cvt.u64.u32 c, q"} {
		wide := strings.Split(count, ".")[1][:3]
		var b strings.Builder
		fmt.Fprintf(&b, "program p\nslot out u32\nparam limit %[1]s\n  sreg q, lane.x\n  sreg g, global_lane\n  ldp.%[1]s k, limit\n  mov.u32 s, 0\n", wide)
		fmt.Fprintf(&b, "  %s\n", count)
		for i, cond := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
			fmt.Fprintf(&b, "  set.%s.%s p, c, k\n  sel.u32 m, p, %d, 0\n  or.u32 s, s, m\n", cond, wide, 1<<i)
			fmt.Fprintf(&b, "  set.%s.%s p, k, c\n  sel.u32 m, p, %d, 0\n  or.u32 s, s, m\n", cond, wide, 64<<i)
		}
		b.WriteString("  block_reduce_max.u32 t, s\n  add.u32 s, s, t\n  mul.u64 at, g, 4\n  stg.u32 s, out[at]\n  exit\n")
		v := verify(t, b.String())
		for _, block := range []int64{1, 16, 40, 64, 70} {
			for _, limit := range []uint64{0, 1, 4, 5, 6, 20, 21, 22, 44, 45, 69, 74, 75, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63, 1<<64 - 1} {
				if wide == "u32" && limit >= 1<<32 {
					continue
				}
				params := []uint64{limit}
				contents := randomContents(rand.New(rand.NewPCG(1, 2)), v, 2*block)
				want := run(t, oracle, v, linear(2*block, block), contents, nil, params)
				for _, l := range levels {
					got := run(t, on(t, l, 1), v, linear(2*block, block), contents, nil, params)
					if err := same(v, got, want); err != nil {
						t.Fatalf("%s, %v, blocks of %d, limit %#x: %v", count, l, block, limit, err)
					}
				}
			}
		}
	}
}
