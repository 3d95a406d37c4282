package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// sharing writes a random program of branches and loops whose lanes have no numbers of 64 bits,
// but what the launch shares has: of such it makes bounds of loops, conditions and numbers.
func sharing(r *rand.Rand) string {
	longs := []string{"f64", "i64", "u64"}
	shorts := []string{"u32", "i32", "f32", "u16", "i8", "f16", "bf16"}
	w := &writer{r: r, budget: 30}
	w.WriteString("program random\nslot in u32\nslot a u32\nslot out u32\nparam p_f64 f64\nparam p_i64 i64\nparam p_u64 u64\nparam p_f32 f32\nparam p_u32 u32\n")
	count := map[string]int{}
	old := func(t string) string { return fmt.Sprintf("s_%s_%d", t, r.IntN(count[t])) }
	made := func(t string) string {
		count[t]++
		return fmt.Sprintf("s_%s_%d", t, count[t]-1)
	}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for _, t := range append([]string{"f32", "u32"}, longs...) {
		w.line("ldp.%s %s, p_%[1]s", t, made(t))
	}
	for _, t := range shorts {
		if count[t] == 0 {
			w.line("cvt.%s.u32 %s, s_u32_0", t, made(t))
		}
	}
	one := func() {
		t := longs[r.IntN(3)]
		if r.IntN(4) == 0 {
			t = shorts[r.IntN(len(shorts))]
		}
		float := strings.Contains(t, "f")
		x, y := old(t), old(t)
		switch r.IntN(8) {
		case 0, 1:
			w.line("%s.%s %s, %s, %s", pick("add", "sub", "mul", "min", "max"), t, made(t), x, y)
		case 2:
			if float {
				w.line("%s.%s %s, %s", pick("sqrt", "abs", "neg"), t, made(t), x)
			} else {
				w.line("%s.%s %s, %s, %s", pick("and", "or", "xor", "shr", "shl"), t, made(t), x, y)
			}
		case 3:
			if float {
				w.line("div.%s %s, %s, %s", t, made(t), x, y)
			} else {
				w.line("%s.%s %s, %s, %d", pick("div", "rem"), t, made(t), x, 1+r.IntN(100))
			}
		case 4:
			p := pick("sp", "sq", "sr")
			w.line("set.%s.%s %s, %s, %s", pick("lt", "le", "eq", "ne", "gt", "ge"), t, p, x, y)
			if r.IntN(2) == 0 {
				w.line("not.pred %s, %s", p, pick("sp", "sq", "sr"))
				w.line("%s.pred %s, %s, %s", pick("and", "or", "xor"), pick("sp", "sq", "sr"), p, pick("sp", "sq", "sr"))
			}
			if r.IntN(2) == 0 {
				t = longs[r.IntN(3)]
			}
			x, y = old(t), old(t)
			w.line("sel.%s %s, %s, %s, %s", t, made(t), pick("sp", "sq", "sr"), x, y)
		default:
			all := append(append([]string{}, longs...), shorts...)
			if u := all[r.IntN(len(all))]; u != t {
				w.line("cvt.%s.%s %s, %s", u, t, made(u), x)
			}
		}
	}
	w.line("set.lt.f64 sp, s_f64_0, 0.5\n  set.gt.i64 sq, s_i64_0, 5\n  not.pred sr, sp")
	for range r.IntN(12) {
		one()
	}
	w.line("ldg.u32 v0, a[index]")
	w.line("mov.u32 v1, 7")
	w.line("shr.u32 v2, v0, 16")
	w.line("mov.u32 v3, 3")
	w.line("sreg block, block.x")
	w.line("mov.u32 v4, block")
	w.line("xor.u32 v5, v0, v2")
	for range 2 + r.IntN(5) {
		switch r.IntN(6) {
		case 0:
			one()
		case 5:
			w.condition()
			w.line("%s.pred p, p, %s", pick("and", "or", "xor"), pick("sp", "sq", "sr"))
			end := w.label()
			w.line("bra %s, p", end)
			w.body(2, end)
			w.line("%s:", end)
		case 1:
			t := longs[r.IntN(3)]
			end := w.label()
			w.line("set.%s.%s p, %s, %s", pick("lt", "ge", "eq"), t, old(t), old(t))
			w.line("bra %s, p", end)
			w.body(2, end)
			w.line("%s:", end)
		case 2:
			w.line("min.i64 %s, %s, %d", made("i64"), old("i64"), r.IntN(6))
			w.line("max.i64 t64, s_i64_%d, 0", count["i64"]-1)
			w.line("cvt.u32.i64 n, t64")
			end, after := w.label(), w.label()
			w.line("loop n, %s", end)
			w.body(2, end, after)
			w.line("%s:", end)
			w.statement(0)
			w.line("%s:", after)
		case 3:
			t := shorts[r.IntN(len(shorts))]
			x := old(t)
			if t != "u32" {
				w.line("cvt.u32.%s t, %s", t, x)
				x = "t"
			}
			w.line("%s.u32 %s, %s, %s", pick("add", "xor", "mul"), w.reg(), w.reg(), x)
		case 4:
			t := longs[r.IntN(3)]
			w.line("cvt.u32.%s t, %s", t, old(t))
			w.line("%s.u32 %s, %s, t", pick("add", "xor", "div", "rem"), w.reg(), w.reg())
		}
		w.statement(2)
	}
	w.line("add.u32 v0, v0, v1\n  xor.u32 v0, v0, v2\n  add.u32 v0, v0, v3\n  xor.u32 v0, v0, v5\n  stg.u32 v0, out[index]\n  exit")
	return w.String()
}

// TestRandomShared compares such programs with the interpreter.
func TestRandomShared(t *testing.T) {
	brief.Alone(t)
	oracle := interp.New()
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) {
			tested := on(t, l, 1)
			count, first := conformance.Seeds(brief.Or(250, 50))
			skipped := 0
			for i := first; i < first+uint64(count); i++ {
				r := rand.New(rand.NewPCG(i, 47))
				text := sharing(r)
				p, err := isa.Assemble("random.atlas", text)
				if err != nil {
					t.Fatalf("program %d: %v\n%s", i, err, text)
				}
				v, err := isa.Verify(p)
				if err != nil {
					skipped++
					continue
				}
				n := int64(1 + r.IntN(200))
				contents := randomContents(r, v, n)
				for range 2 {
					params := []uint64{anyCell(r, isa.F64), anyCell(r, isa.I64), anyCell(r, isa.U64), anyCell(r, isa.F32), anyCell(r, isa.U32)}
					want := run(t, oracle, v, linear(n, 32), contents, nil, params)
					got := run(t, tested, v, linear(n, 32), contents, nil, params)
					if err := same(v, got, want); err != nil {
						t.Fatalf("program %d, parameters %#x: %v\n%s", i, params, err, text)
					}
				}
			}
			if skipped > count/3 { // a fifth of them don't
				t.Errorf("%d of %d programs don't verify", skipped, count)
			}
		})
	}
}
