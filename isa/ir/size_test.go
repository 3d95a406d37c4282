package ir

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// A program within the limit on instructions must not ask for any amount of
// memory: of one that is too large the error says what makes it so.
func TestSizeIsBounded(t *testing.T) {
	brief.Alone(t)
	uses := func(n int) string {
		return "program p\nslot x f64\n  ldg.f64 x, x[index]\n" + strings.Repeat("  pow.f64 x, x, 1.01\n", n) + "  exp.f64 x, x\n  stg.f64 x, x[index]\n  exit\n"
	}
	each := expansionOf(isa.POW, isa.F64).nodes
	for _, n := range []int{1, MaxNodes/each - 1} {
		g, err := Expand(canonical(t, verified(t, uses(n))))
		if err != nil {
			t.Fatalf("%d uses: %v", n, err)
		}
		if k := sizeOf(g.Body).nodes; k > n*each+200 || k < n*each/4 {
			t.Errorf("%d uses: %d nodes, %d counted for one", n, k, each)
		}
	}
	for _, n := range []int{MaxNodes/each + 1, 4 * MaxNodes / each, isa.MaxInsts - 10} {
		_, err := Expand(canonical(t, verified(t, uses(n))))
		var size *SizeError
		if !errors.As(err, &size) || size.Uses != n || size.Most != "pow.f64" || size.MostNodes != n*each {
			t.Errorf("%d uses: %v (%+v)", n, err, size)
		} else if want := fmt.Sprintf("%d uses of pow.f64", n); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, without %s", err, want)
		}
	}
}

func TestReductionsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("program p\nslot x u32\n  ldg.u32 r0, x[index]\n")
	for r := 1; r < 250; r++ {
		fmt.Fprintf(&b, "  add.u32 r%d, r%d, %d\n", r, r-1, r)
	}
	const before = 250
	// Inside constructs, which must not be left half made.
	b.WriteString("  loop 3, e\n  set.lt.u32 p, r0, 9\n  bra s, p\n")
	b.WriteString(strings.Repeat("  reduce_add.u32 r0, r0, 250\n", 2000))
	b.WriteString("s:\ne:\n  stg.u32 r0, x[index]\n  exit\n")
	v := verified(t, b.String())
	for _, make := range []func(*isa.Verified) error{
		func(v *isa.Verified) error { _, err := Build(v); return err },
		func(v *isa.Verified) error { _, _, err := Canonical(v); return err },
	} {
		err := make(v)
		var size *SizeError
		if !errors.As(err, &size) || size.Inst < before || size.Inst > before+MaxNodes/249+5 || size.Nodes != 0 {
			t.Fatalf("%v (%+v)", err, size)
		}
	}
}

// What branches carry is bounded, too: here each of many takes hundreds of
// registers along.
func TestCarriedValuesAreBounded(t *testing.T) {
	brief.Alone(t)
	text := func(branches int) string {
		var b strings.Builder
		b.WriteString("program p\nslot x u32\nldg.u32 v, x[index]\n")
		for i := range 240 {
			fmt.Fprintf(&b, "add.u32 a%d, v, %d\n", i, i)
		}
		b.WriteString("h:\n")
		for i := range branches {
			fmt.Fprintf(&b, "add.u32 a%d, a%d, 1\nset.lt.u32 p0, a%d, %d\nbra h, p0\n", i%240, i%240, i%240, i)
		}
		for i := range 240 {
			fmt.Fprintf(&b, "add.u32 v, v, a%d\n", i)
		}
		b.WriteString("stg.u32 v, x[index]\nexit\n")
		return b.String()
	}
	most := MaxCarried / 240
	_, _, err := Canonical(verified(t, text(most-5)))
	require.NoError(t, err)
	_, _, err = Canonical(verified(t, text(most+5)))
	var size *SizeError
	require.ErrorAs(t, err, &size)
	require.True(t, size.Carried)
	require.Greater(t, size.Inst, 3*(most-5))
	require.ErrorContains(t, err, "more than 262144 values carried by branches and loops (MaxCarried), by instruction")
}

// So are the constructs, which cost several times what an instruction does: a
// guard is an If and, before it is made to fall through, the Block that it
// leaves; a loop until something holds a Loop, a Block and an If. What calls
// copy counts for each call.
func TestConstructsAreBounded(t *testing.T) {
	guards := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "set.lt.u32 p0, v, %d\nbra g%d, p0\nadd.u32 v, v, 1\ng%d:\n", i, i, i)
		}
		return b.String()
	}
	loops := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "l%d:\nadd.u32 v, v, 1\nset.lt.u32 p0, v, 9\nbra l%d, p0\n", i, i)
		}
		return b.String()
	}
	text := func(body string) string {
		return "program p\nslot x u32\nldg.u32 v, x[index]\n" + body + "stg.u32 v, x[index]\nexit\n"
	}
	called := func(n int) string {
		return "program p\nslot x u32\nldg.u32 v, x[index]\n" + strings.Repeat("call f\n", n) + "stg.u32 v, x[index]\nexit\nf:\n" + guards(32) + "ret\n"
	}
	for _, c := range []struct {
		name, most, more string
		inst             int // no earlier one is to blame
	}{
		{"guards", text(guards(MaxConstructs / 2)), text(guards(MaxConstructs/2 + 1)), 3 * (MaxConstructs/2 - 1)},
		{"loops", text(loops(MaxConstructs / 3)), text(loops(MaxConstructs/3 + 1)), 3 * (MaxConstructs/3 - 1)},
		{"calls", called(MaxConstructs / 64), called(MaxConstructs/64 + 1), MaxConstructs / 64},
	} {
		_, _, err := Canonical(verified(t, c.most))
		require.NoError(t, err, c.name)
		_, _, err = Canonical(verified(t, c.more))
		var size *SizeError
		require.ErrorAs(t, err, &size, c.name)
		require.True(t, size.Constructs, c.name)
		require.GreaterOrEqual(t, size.Inst, c.inst, c.name)
		require.ErrorContains(t, err, "more than 8192 branches, loops and places where branches meet (MaxConstructs), by instruction", c.name)
	}
}
