package cpu_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestAndsWithinOrs has ANDs that are one side of an OR or XOR, which there is one instruction for, and
// such as are more than that: both sides, the same twice, used elsewhere, on the other side of a
// loop's or a branch's begin, and from before lanes meet.
func TestAndsWithinOrs(t *testing.T) {
	brief.Alone(t)
	programs := map[string]string{}
	for _, typ := range []string{"i8", "u16", "i32", "u64"} {
		for what, body := range map[string]string{
			"one side":         "and.T r, x, y\n  or.T r, r, z",
			"the other":        "and.T r, x, y\n  or.T r, z, r",
			"a number":         "and.T r, x, 85\n  or.T r, r, z",
			"two numbers":      "and.T r, x, 85\n  or.T r, r, 32",
			"of one":           "and.T r, x, x\n  or.T r, r, x",
			"both sides":       "and.T r, x, y\n  and.T s, y, z\n  or.T r, r, s",
			"the same twice":   "and.T r, x, y\n  or.T r, r, r",
			"of two":           "and.T s, x, y\n  or.T r, s, z\n  or.T s, s, x\n  xor.T r, r, s",
			"used elsewhere":   "and.T s, x, y\n  or.T r, s, z\n  add.T r, r, s",
			"a chain":          "and.T r, x, y\n  or.T r, r, z\n  and.T r, r, 77\n  or.T r, r, x",
			"before a loop":    "and.T s, x, y\n  mov.T r, z\n  loop 3, done\n  or.T r, s, r\n  add.T r, r, 3\ndone:",
			"in a loop":        "mov.T r, z\n  loop 3, done\n  and.T s, x, r\n  or.T r, s, y\n  add.T r, r, 3\ndone:",
			"before a branch":  "and.T s, x, y\n  mov.T r, z\n  set.lt.T p, x, y\n  bra done, p\n  or.T r, s, z\ndone:",
			"lanes meet after": "and.T s, x, y\n  block_reduce_max.T m, z\n  or.T r, s, m",
			"and before":       "block_reduce_max.T m, z\n  and.T s, x, y\n  or.T r, s, m",
			"lanes' numbers":   "sreg w, lane.x\n  and.u32 v, w, 96\n  or.u32 w, v, w\n  cvt.T.u32 k, w\n  block_reduce_max.T m, z\n  or.T r, k, m",
			"a block's number": "sreg w, block.x\n  and.u32 v, w, 3\n  cvt.u32.T k, z\n  or.u32 w, k, v\n  cvt.T.u32 k, w\n  block_reduce_max.T m, k\n  or.T r, k, m",
		} {
			programs[what+", "+typ] = strings.ReplaceAll(fmt.Sprintf("program p\nslot a T\nslot b T\nslot c T\n  ldg.T x, a[index]\n  ldg.T y, b[index]\n  ldg.T z, c[index]\n  %s\n  stg.T r, c[index]\n  exit", body), "T", typ)
			programs[what+" of xor, "+typ] = strings.NewReplacer("xor.", "or.", "or.", "xor.").Replace(programs[what+", "+typ])
		}
	}
	compare(t, 2, programs)
}

// TestAndsBesideZero has ANDs that are compared with 0, for which there is one instruction: in either order, beside what is
// no AND, and with branches and loops between the two that leave other numbers where the AND's operands were.
func TestAndsBesideZero(t *testing.T) {
	brief.Alone(t)
	programs := map[string]string{}
	for _, typ := range []string{"i8", "u16", "i32", "u64"} {
		for _, cond := range []string{"eq", "ne"} {
			for what, body := range map[string]string{
				"a number":       "and.T s, x, 5\n  set.C.T p, s, 0\n  sel.T r, p, y, z",
				"two":            "and.T s, x, y\n  set.C.T p, 0, s\n  sel.T r, p, y, z",
				"used elsewhere": "and.T s, x, 5\n  set.C.T p, s, 0\n  sel.T r, p, s, z",
				"another number": "and.T s, x, 5\n  set.C.T p, s, 4\n  sel.T r, p, y, z",
				"one":            "and.T s, x, 5\n  set.C.T p, s, 1\n  sel.T r, p, y, z",
				"a parameter":    "and.T s, n, 4\n  set.C.T p, s, 0\n  sel.T r, p, y, z",
				"two parameters": "and.T s, n, n\n  set.C.T p, s, 0\n  sel.T r, p, y, z",
				"a branch's":     "and.T s, x, 5\n  set.C.T p, s, 0\n  mov.T r, z\n  bra done, p\n  add.T r, x, y\ndone:",
				"beyond one":     "and.T s, x, y\n  set.lt.T q, x, y\n  bra done, q\n  add.T x, x, 3\ndone:\n  set.C.T p, s, 0\n  sel.T r, p, x, z",
				"beyond a loop":  "and.T s, x, y\n  loop 3, done\n  add.T x, x, y\ndone:\n  set.C.T p, s, 0\n  sel.T r, p, x, z",
				"in a loop":      "mov.T r, z\n  loop 3, done\n  and.T s, r, x\n  set.C.T p, s, 0\n  sel.T r, p, y, r\n  add.T r, r, 1\ndone:",
			} {
				text := fmt.Sprintf("program p\nslot a T\nslot b T\nslot c T\nparam k T\n  ldg.T x, a[index]\n  ldg.T y, b[index]\n  ldg.T z, c[index]\n  ldp.T n, k\n  %s\n  stg.T r, c[index]\n  exit", body)
				programs[what+", "+cond+", "+typ] = strings.NewReplacer(".T", "."+typ, " T\n", " "+typ+"\n", ".C", "."+cond).Replace(text)
			}
		}
	}
	compare(t, 2, programs)
}

// TestNegsWithinFMAs has NEGs of which FMAs make their own, where lanes meet before, behind or between.
func TestNegsWithinFMAs(t *testing.T) {
	brief.Alone(t)
	programs := map[string]string{}
	for _, typ := range []string{"f32", "f64"} {
		for what, body := range map[string]string{
			"one factor": "neg.T s, x\n  fma.T r, s, y, z",
			"the other":  "neg.T s, x\n  fma.T r, y, s, z",
			"both":       "neg.T s, x\n  neg.T u, y\n  fma.T r, s, u, z",
			"behind":     "block_reduce_max.T m, z\n  neg.T s, x\n  fma.T r, s, y, m",
			"before":     "neg.T s, x\n  fma.T r, s, y, z\n  block_reduce_max.T m, z\n  add.T r, r, m",
			"between":    "neg.T s, x\n  block_reduce_max.T m, z\n  fma.T r, s, y, m",
		} {
			programs[what+", "+typ] = strings.ReplaceAll(fmt.Sprintf("program p\nslot a T\nslot b T\nslot c T\n  ldg.T x, a[index]\n  ldg.T y, b[index]\n  ldg.T z, c[index]\n  %s\n  stg.T r, c[index]\n  exit", body), "T", typ)
		}
	}
	compare(t, 2, programs)
}
