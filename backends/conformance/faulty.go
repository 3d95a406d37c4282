package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/progen"
)

// faults are ways to do what is one in some lanes: g is the lane's number, i what
// goes past an end there, o that in bytes, and x the result. No two lanes touch one
// place, one of them writing.
var faults = []string{
	"div.i32 x, 1000, i", "rem.i32 x, 1000, i", "ldc.i32 x, table[i]",
	"ldg.i32 x, m[i]", "ldg.i32 x, m[i + 8]", "stg.i32 g, w%d[o]", "ldg.i32 x, m[o - 12]",
	"cvt.u8.i32 c, i\n mirror c, c\n cvt.i32.u8 x, c", "cvt.u8.i32 c, i\n nbr_count c, c\n cvt.i32.u8 x, c", "cvt.u8.i32 c, i\n bound_map b, 1, c, 3\n cvt.i32.u64 x, b",
	"pool_alloc h, 8\n cvt.u64.i32 b, i\n pool_load.i32 x, h, b", "pool_alloc h, 8\n set.gt.i32 q, i, 3\n sel.u64 h, q, 9, h\n pool_store.i32 g, h, 4",
	"set.gt.i32 q, i, 4\n sel.i32 h2, q, i, 0\n ldg.i32 x, @h2[4]", "cvt.u8.i32 c, i\n cvt.u64.i32 b, g\n res_accum c, b",
}

// faulty makes a program of a few accesses and divisions, most of which are faults
// in some of the lanes, and in none or all of them now and then.
func faulty(t testing.TB, s isatest.Source) *progen.Case {
	const elements = 7
	lanes := uint32(1 + s.Intn(70))
	statements := 1 + s.Intn(3)
	c := &progen.Case{Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{lanes, 1, 1}, N: uint64(2*lanes) - uint64(s.Intn(int(lanes)))}
	var b strings.Builder
	b.WriteString("program faulty\n")
	for i, name := range []string{"m", "out", "w0", "w1", "w2"} {
		slot, n := isa.Slot{Name: name, Type: isa.I32}, elements
		if name == "out" {
			n = 2 * int(lanes) * statements
		}
		fmt.Fprintf(&b, "slot %s i32\n", name)
		data := make([]byte, 4*n)
		for k := range data {
			data[k] = byte(7*k + i)
		}
		c.Slots = append(c.Slots, progen.Slot{Slot: slot, Elements: n, Data: data, Writes: name != "m"})
	}
	b.WriteString("data table i32 { 3, 1, 4, 1, 5 }\n cvt.i32.u64 g, r255\n")
	for k := range statements {
		fmt.Fprintf(&b, " mov.i32 x, %d\n sub.i32 i, g, %d\n mul.i32 o, i, 4\n", 100+k, s.Intn(int(2*lanes)))
		if s.Intn(2) == 0 {
			fmt.Fprintf(&b, " set.lt.i32 p, g, %d\n bra skip%d, p\n", s.Intn(int(2*lanes)), k)
		}
		fault := faults[s.Intn(len(faults))]
		if strings.Contains(fault, "%d") {
			fault = fmt.Sprintf(fault, k)
		}
		fmt.Fprintf(&b, " %s\nskip%d:\n mad.i32 o, g, %d, %d\n stg.i32 x, out[o]\n", fault, k, 4*statements, 4*k)
	}
	b.WriteString(" exit\n")
	c.Program = assemble(t, b.String()).Program
	return c
}
