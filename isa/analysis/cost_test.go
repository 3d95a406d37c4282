package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/stretchr/testify/require"
)

func TestCostOfPrograms(t *testing.T) {
	for _, c := range []struct {
		name, text string
		n          uint64
		params     []uint64
		want       float64
		unbounded  bool
	}{
		{name: "nothing", text: "exit", n: 7, want: 7.0 / 8},
		{name: "straight", text: "slot a f32\nldg.f32 x, a[index]\nstg.f32 x, a[index]\nexit", n: 10, want: 20},
		{name: "no lanes", text: "slot a f32\nldg.f32 x, a[index]\nstg.f32 x, a[index]\nexit", n: 0, want: 0},
		// The loop and each of its rounds cost one.
		{name: "constant", text: "loop 10, e\ne:\nexit", n: 1, want: 11},
		{name: "nested constants", text: "loop 10, e\nloop 5, f\nf:\nmov.u32 x, 1\ne:\nexit", n: 1, want: 1 + 10*(1+1+5)},
		{name: "parameter", text: "param k u32\nldp.u32 n, k\nloop n, e\ne:\nexit", n: 3, params: []uint64{100}, want: 3 * (1 + 1 + 100)},
		{name: "no rounds", text: "param k u32\nldp.u32 n, k\nloop n, e\ne:\nexit", n: 3, params: []uint64{0}, want: 3 * (1 + 1)},
		{name: "square", text: "param k u32\nldp.u32 n, k\nloop n, e\nloop n, f\nf:\nmov.u32 x, 1\ne:\nexit", n: 1, params: []uint64{1000},
			want: 1 + 1 + 1000*(1+1+1000)},
		{name: "constant in parameter", text: "param k u32\nldp.u32 n, k\nloop n, e\nloop 5, f\nf:\nmov.u32 x, 1\ne:\nexit", n: 1, params: []uint64{10},
			want: 1 + 1 + 10*(1+1+5)},
		{name: "parameter in constant", text: "param k u32\nldp.u32 n, k\nloop 5, e\nloop n, f\nf:\nmov.u32 x, 1\ne:\nexit", n: 1, params: []uint64{10},
			want: 1 + 1 + 5*(1+1+10)},
		{name: "computed", text: "param k u32\nldp.u32 n, k\nadd.u32 n, n, 7\nshr.u32 n, n, 3\nloop n, e\ne:\nexit", n: 1, params: []uint64{100},
			want: 1 + 2 + 1 + 13},
		{name: "masked", text: "slot a u32\nldg.u32 n, a[index]\nand.u32 n, n, 3\nloop n, e\ne:\nexit", n: 1, want: 2 + 1 + 3},
		{name: "loaded", text: "slot a u32\nldg.u32 n, a[index]\nloop n, e\ne:\nexit", n: 5, want: 5 * (1 + 1 + 1), unbounded: true},
		{name: "converted", text: "slot a f32\nldg.f32 n, a[index]\ncvt.u32.f32 n, n\nloop n, e\ne:\nexit", n: 5, want: 5 * (2 + 1 + 1), unbounded: true},
		{name: "most rounds", text: "param k u32\nldp.u32 n, k\nloop n, e\ne:\nexit", n: 1, params: []uint64{1<<32 - 1}, want: 2 + (1<<32 - 1)},
		{name: "for ever", text: "a:\nbra a\n", n: 1, want: 2, unbounded: true},
		{name: "for ever in a loop", text: "loop 10, e\na:\nbra a\ne:\nexit\n", n: 1, want: 1 + 10*(1+2), unbounded: true},
		// if, ge, add: what holds at the test bounds the rounds.
		{name: "while", text: "param k u32\nldp.u32 n, k\nmov.u32 i, 0\na:\nset.ge.u32 p, i, n\nbra o, p\nadd.u32 i, i, 1\nbra a\no:\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 51*(1+1+1+1+1)},
		{name: "do while", text: "param k i32\nldp.i32 n, k\nmov.i32 i, 0\na:\nadd.i32 i, i, 2\nset.lt.i32 p, i, n\nbra a, p\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 25*(1+1+1+1+1)},
		{name: "down", text: "param k i32\nldp.i32 i, k\na:\nset.le.i32 p, i, 0\nbra o, p\nsub.i32 i, i, 1\nbra a\no:\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 51*(1+1+1+1+1)},
		{name: "down unsigned", text: "param k u32\nldp.u32 i, k\na:\nset.le.u32 p, i, 3\nbra o, p\nsub.u32 i, i, 3\nbra a\no:\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 17*(1+1+1+1+1)},
		{name: "not equal", text: "param k u32\nldp.u32 n, k\nmov.u32 i, 0\na:\nset.eq.u32 p, i, n\nbra o, p\nadd.u32 i, i, 1\nbra a\no:\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 1*(1+1+1+1+1), unbounded: true},
		{name: "halving", text: "param k u32\nldp.u32 i, k\na:\nset.eq.u32 p, i, 0\nbra o, p\nshr.u32 i, i, 1\nbra a\no:\nexit", n: 1,
			params: []uint64{50}, want: 1 + 1 + 1*(1+1+1+1+1), unbounded: true},
		{name: "lane", text: "block 64\nsreg x, lane.x\nloop x, e\ne:\nexit", n: 64, want: 64 * (1 + 1 + 63)},
		{name: "tail", text: "block 256\nparam cols u64\nldp.u64 l, cols\nmin.u64 l, l, 8192\nadd.u64 l, l, 255\nsreg x, lane.x\ncvt.u64.u32 x, x\n" +
			"sub.u64 l, l, x\nshr.u64 l, l, 8\ncvt.u32.u64 r, l\nloop r, e\ne:\nexit", n: 1000, params: []uint64{1 << 40}, want: 1000 * (8 + 1 + 32)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := canonical(t, "program p\n"+c.text)
			got, bounded := NewCost(f).Of(c.n, c.params)
			require.Equal(t, c.want, got, "%v", f)
			require.Equal(t, !c.unbounded, bounded)
		})
	}
}

// TestCostIsOfTheLaunchAsked demands that a Cost that was asked before answers as a
// fresh one does, also when parameters and sizes come again in another order.
func TestCostIsOfTheLaunchAsked(t *testing.T) {
	f := canonical(t, "program p\nparam j u32\nparam k u32\nldp.u32 n, j\nloop n, e\ne:\nldp.u32 n, k\nloop n, o\nmov.u32 x, 1\no:\nexit")
	asked := NewCost(f)
	for _, q := range [][3]uint64{{5, 1, 2}, {5, 2, 1}, {7, 2, 1}, {5, 1, 2}, {5, 1, 2}, {0, 1, 2}, {5, 3, 2}, {5, 1, 2}} {
		want, bounded := NewCost(f).Of(q[0], q[1:])
		require.True(t, bounded)
		got, bounded := asked.Of(q[0], q[1:])
		require.True(t, bounded)
		require.Equal(t, want, got, "%v", q)
	}
	params := []uint64{1, 2} // the caller's, who may change it
	asked.Of(5, params)
	params[0] = 100
	want, _ := NewCost(f).Of(5, params)
	got, _ := asked.Of(5, params)
	require.Equal(t, want, got)
}

// TestCostOfExpansions demands that what expands costs what its expansion does.
func TestCostOfExpansions(t *testing.T) {
	f := canonical(t, "program p\nslot a f32\nldg.f32 x, a[index]\nexp.f32 x, x\nstg.f32 x, a[index]\nexit")
	whole, bounded := NewCost(f).Of(1, nil)
	require.True(t, bounded)
	x, err := ir.Expand(f)
	require.NoError(t, err)
	expanded, bounded := NewCost(x).Of(1, nil)
	require.True(t, bounded)
	require.Greater(t, whole, 10.0)
	require.InEpsilon(t, expanded, whole, 0.5)
}

// TestCostTime makes programs with many loops, beside and inside one another.
func TestCostTime(t *testing.T) {
	brief.Alone(t)
	beside := func(n int, count string) string {
		var b strings.Builder
		b.WriteString("program p\nparam k u32\nldp.u32 n, k\nmov.u32 s, 0\n")
		for i := range n {
			fmt.Fprintf(&b, "add.u32 c, n, %d\nloop %s, e%d\nadd.u32 s, s, 1\ne%d:\n", i, count, i, i)
		}
		return b.String() + "exit"
	}
	inside := func(n int) string {
		var b strings.Builder
		b.WriteString("program p\nparam k u32\nldp.u32 n, k\nmov.u32 s, 0\n")
		for i := range n {
			fmt.Fprintf(&b, "loop n, e%d\nadd.u32 s, s, 1\n", i)
		}
		for i := n - 1; i >= 0; i-- {
			fmt.Fprintf(&b, "e%d:\nadd.u32 s, s, 1\n", i)
		}
		return b.String() + "exit"
	}
	for _, c := range []struct{ name, small, large string }{
		{"equal counts", beside(500, "n"), beside(8000, "n")},
		{"different counts", beside(500, "c"), beside(8000, "c")},
		{"nested", inside(4), inside(64)},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The work is counted, for clocks are not to be trusted; only what is
			// far beyond it is caught by time.
			work := func(text string) (steps int) {
				f := canonical(t, text)
				start := time.Now()
				cost := NewCost(f)
				_, bounded := cost.Of(1, []uint64{3})
				require.Less(t, time.Since(start), 5*time.Second)
				require.True(t, bounded)
				s := newState(cost.t)
				s.in = anyLaunch(f)
				s.run()
				require.GreaterOrEqual(t, s.effort, 0)
				return cost.t.steps.len() + len(s.terms) + len(s.atoms) + totalEffort - s.effort
			}
			small, large := work(c.small), work(c.large)
			t.Logf("%d → %d for 16 times the program", small, large)
			require.Less(t, large, 20*small+totalEffort)
		})
	}
}

// TestStateKeepsItsMemory demands that a second launch allocates nothing. (That
// states are used again is the pool's business, which under the race detector
// forgets some.)
func TestStateKeepsItsMemory(t *testing.T) {
	f := canonical(t, "program p\nslot a u8\nparam k u32\nldp.u32 n, k\nmov.u32 i, n\nloop n, e\nldg.u8 v, a[i]\nshr.u32 i, i, 1\ne:\nexit")
	for _, ask := range []questions{{loops: true}, {loops: true, checks: true, inductions: true}} {
		s := newState(newTape(nil, f, ask))
		s.in.of(f, &Launch{N: 5, Params: []uint64{7}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{5, 1, 1}, SlotBytes: []int64{8}})
		s.run()
		for i, n := range f.Sites {
			require.Equal(t, ask.checks && n.CanFault(), s.proved.has(i))
		}
		require.Zero(t, testing.AllocsPerRun(20, s.run))
	}
}

func BenchmarkCost(b *testing.B) {
	f := canonical(b, "program p\nparam k u32\nldp.u32 n, k\nloop n, e\nmov.u32 s, 0\ne:\nexit")
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			NewCost(f)
		}
	})
	c := NewCost(f)
	params := []uint64{5}
	b.Run("of", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Of(1000, params)
		}
	})
}
