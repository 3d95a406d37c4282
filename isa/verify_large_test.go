package isa

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// largePrograms are programs near the limits, of shapes on which a careless
// algorithm needs time or memory that grows with the square of their length.
// Each is given a size, about the number of instructions, and must verify.
var largePrograms = map[string]func(n int) string{
	"straight": func(n int) string { return repeated(n-1, "mem_fence block") + "exit" },
	"exits": func(n int) string {
		return "mov.pred p, true\n" + repeated(n-2, "bra done, p") + "done: exit"
	},
	"divergent exits": func(n int) string {
		return "set.eq.u32 p, r252, 0\n" + repeated(n-4, "bra done, p") + "bar_sync 0\nmem_fence block\ndone: exit"
	},
	"nested ifs": func(n int) string {
		return "set.eq.u32 p, r252, 0\nbar_sync 0\n" + named(n/2-2, "bra e%d, p") +
			numbered(n/2-2, func(i int) string { return fmt.Sprintf("e%d: mem_fence block", n/2-3-i) }) + "exit"
	},
	"switch": func(n int) string {
		return "set.eq.u32 p, r252, 0\nbar_sync 0\n" + named(n/2-2, "bra e%d, p") + named(n/2-2, "e%d: mem_fence block") + "exit"
	},
	"loops in turn": func(n int) string {
		return "bar_sync 0\n" + numbered((n-2)/2, func(i int) string { return fmt.Sprintf("loop r252, e%d\nmem_fence block\ne%d:", i, i) }) + "exit"
	},
	"empty loops": func(n int) string {
		return numbered(n-1, func(i int) string { return fmt.Sprintf("loop 1, e%d\ne%d:", i, i) }) + "exit"
	},
	"nested loops": func(n int) string {
		return "bar_sync 0\nmov.pred p, true\n" + numbered((n-3)/(3*MaxLoopDepth), func(k int) string {
			return numbered(MaxLoopDepth, func(i int) string { return fmt.Sprintf("a%d.%d: mov.u32 r%d, %d", k, i, (k+i)%252, i) }) +
				numbered(MaxLoopDepth, func(i int) string {
					return fmt.Sprintf("mov.f32 r%d, 0\nbra a%d.%d, p", (7*k+i)%252, k, MaxLoopDepth-1-i)
				})
		}) + "exit"
	},
	// That r252 differs between lanes is passed on by one register a round.
	"slow chain": func(n int) string {
		return "bar_sync 0\n" + named(252, "mov.u32 r%d, 0") + "top:\n" +
			numbered(251, func(i int) string { return fmt.Sprintf("mov.u32 r%d, r%d", i, i+1) }) +
			"mov.u32 r251, r252\nset.eq.u32 p, r0, 1\n" + repeated(n-510, "mem_fence block") + "bra top, p\nexit"
	},
	"calls": func(n int) string {
		return numbered(n/4, func(i int) string { return fmt.Sprintf("call f%d", i%4) }) + "exit\nf0: ret\nf1: mem_fence block\nret\nf2: call f0\nret\nf3: call f1\nret"
	},
	"copies": func(int) string { return doubling(14, 4) },
	"goto maze": func(n int) string {
		return "mov.pred p, true\nbar_sync 0\n" + numbered((n-3)/2, func(i int) string {
			return fmt.Sprintf("l%d: mem_fence block\nbra l%d, p", i, min(i+1+(i*7919)%97, (n-3)/2-1))
		}) + "exit"
	},
}

func TestVerifyLarge(t *testing.T) {
	brief.Alone(t)
	n := brief.Or(MaxInsts-10, 5000) // instructions, about
	for name, program := range largePrograms {
		t.Run(name, func(t *testing.T) {
			v, err := Verify(mustAssemble(t, program(n)))
			if err != nil {
				t.Fatal(err)
			}
			if err := checkVerified(v); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestVerifyLargeRefused has programs that are refused after much work.
func TestVerifyLargeRefused(t *testing.T) {
	brief.Alone(t)
	for name, c := range map[string]struct{ text, rule string }{
		"last read":          {"mov.pred p, true\n" + numbered(30000, func(i int) string { return fmt.Sprintf("bra l%d, p\nmov.u32 x, 0\nl%d:", i, i) }) + "add.u32 y, x, 0\nexit", "init"},
		"ladder of barriers": {"set.eq.u32 p, r252, 0\n" + numbered(20000, func(i int) string { return fmt.Sprintf("bra l%d, p\nbar_sync 0\nl%d: mem_fence block", i, i) }) + "exit", "uniform"},
		"irreducible":        {"mov.pred p, true\n" + named(30000, "bra l%d, p") + named(30000, "l%d: mem_fence block") + "bra l0, p\nexit", "reducible"},
		"calls of calls": {numbered(3000, func(i int) string { return fmt.Sprintf("call f%d", i) }) + "exit\n" +
			numbered(3000, func(i int) string { return fmt.Sprintf("f%d: mem_fence block", i) }) + "ret", "inline"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(mustAssemble(t, c.text))
			var e *VerifyError
			if !errors.As(err, &e) || e.Rule != c.rule {
				t.Fatalf("error %v, want one of rule %s", err, c.rule)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		for _, name := range []string{"straight", "exits", "loops in turn", "nested ifs"} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p := mustAssemble(b, largePrograms[name](n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Verify(p); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
