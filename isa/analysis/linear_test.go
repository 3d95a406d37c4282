package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// shapes make programs of about n instructions that stress different parts.
var shapes = []struct {
	name string
	make func(n int) string
}{
	{"chain of sums", func(n int) string {
		var b strings.Builder
		b.WriteString("param k u64\nldp.u64 k, k\nsreg x, global_lane\n")
		for i := range n / 3 {
			fmt.Fprintf(&b, "mul.u64 x, x, %d\nadd.u64 x, x, k\nstg.f32 1, a[x]\n", i%5+1)
		}
		return b.String() + "exit"
	}},
	{"many places", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\n")
		for i := range n / 3 {
			fmt.Fprintf(&b, "mul.u64 y, x, %d\nmin.u64 y, y, %d\nstg.f32 1, a[y]\n", 4*i, i)
		}
		return b.String() + "exit"
	}},
	{"gathers", func(n int) string {
		var b strings.Builder
		b.WriteString("ldg.u32 x, i[index]\n")
		for range n / 3 {
			b.WriteString("and.u32 x, x, 1023\nshl.u32 x, x, 2\nldg.u32 x, i[x]\n")
		}
		return b.String() + "stg.u32 x, i[index]\nexit"
	}},
	{"guards", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\nmul.u64 y, x, 4\n")
		for i := range n / 4 {
			fmt.Fprintf(&b, "set.ge.u64 p, x, %d\nbra out, p\nldg.f32 z, a[y]\nstg.f32 z, a[y]\n", n-i)
		}
		return b.String() + "out:\nexit"
	}},
	{"deep guards", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\nmul.u64 y, x, 4\n")
		for i := range n / 4 {
			fmt.Fprintf(&b, "set.eq.u64 p, x, %[1]d\nbra e%[1]d, p\nstg.f32 1, a[y]\n", i)
		}
		for i := n/4 - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "e%d:\nstg.f32 2, a[y]\n", i)
		}
		return b.String() + "exit"
	}},
	{"joins", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\nmov.u64 y, 0\n")
		for i := range n / 5 {
			fmt.Fprintf(&b, "set.eq.u64 p, x, %[1]d\nbra e%[1]d, p\nadd.u64 y, y, 4\ne%[1]d:\nstg.f32 1, a[y]\nadd.u64 x, x, y\n", i)
		}
		return b.String() + "exit"
	}},
	{"loops", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\nldg.u32 k, i[index]\n")
		for i := range n / 4 {
			fmt.Fprintf(&b, "loop k, e%[1]d\nldg.u32 z, i[x]\nadd.u64 x, x, 4\nadd.u32 k, k, z\ne%[1]d:\n", i)
		}
		return b.String() + "stg.u32 k, i[index]\nexit"
	}},
	{"ways out of loops", func(n int) string {
		var b strings.Builder
		b.WriteString("sreg x, global_lane\nmov.u64 y, 0\nagain:\n")
		for i := range n / 4 {
			fmt.Fprintf(&b, "ldg.f32 z, a[y]\nadd.u64 y, y, 4\nset.eq.u64 p, y, %d\nbra %s, p\n", i, []string{"again", "out"}[i%2])
		}
		return b.String() + "bra again\nout:\nstg.f32 1, a[y]\nexit"
	}},
}

// TestNearLinear counts the work on programs 8 times as large.
func TestNearLinear(t *testing.T) {
	brief.Alone(t)
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			work := func(n int) (steps int) {
				f := canonical(t, "program p\nslot a f32\nslot i u32\n"+shape.make(n))
				l := &Launch{N: 1000, Params: []uint64{3}, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{4000, 4000}}
				start := time.Now()
				a := New(f)
				var p Proof
				a.Prove(l, &p)
				took := time.Since(start)
				require.Less(t, took, 10*time.Second) // what counting misses
				s := newState(a.tape)
				s.in.of(f, l)
				s.run()
				terms := 0
				for i := range a.Accesses {
					terms += len(a.Accesses[i].Offset)
				}
				steps = a.tape.steps.len() + len(s.terms) + len(s.atoms) + terms + len(newVaryGraph(nil, f).to) + totalEffort - s.effort
				t.Logf("%d instructions: %d steps, %v", n, steps, took)
				return steps
			}
			small, large := work(1500), work(12000)
			require.Less(t, large, 12*small+totalEffort)
		})
	}
}
