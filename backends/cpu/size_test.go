package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A program that would take hundreds of megabytes once its functions are
// expanded is refused by the name of what makes it so large.
func TestCompileRefusesTooMuch(t *testing.T) {
	text := "program p\nslot x f64\n  ldg.f64 x, x[index]\n" + strings.Repeat("  pow.f64 x, x, 1.01\n", 4096) + "  stg.f64 x, x[index]\n  exit\n"
	p, err := isa.Assemble("size.atlas", text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := isa.Verify(p)
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := ir.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(1).Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
	if !errors.As(err, new(*backends.Unsupported)) || !strings.Contains(err.Error(), "4096 uses of pow.f64") {
		t.Errorf("compile: %v", err)
	}
}

// The size of a program is of its nodes, what they give, and what branches and loops carry,
// in all that is nested, as far as it matters.
func TestSizeOf(t *testing.T) {
	values := func(n int) []*ir.Value { return make([]*ir.Value, n) }
	inner := &ir.Region{Params: values(2), Nodes: []*ir.Node{{Op: ir.Br, Args: values(3)}, {Op: ir.Op(isa.ADD), Args: values(2), Results: values(1)}}}
	outer := &ir.Region{Nodes: []*ir.Node{{Op: ir.Loop, Args: values(4), Results: values(2), Regions: []*ir.Region{inner, inner}}, {Op: ir.Const, Results: values(1)}}}
	const one = 2 + (1 + 3) + (1 + 1)
	for n, want := range map[int]int{0: 3 + 2*one + 2, maxMachineCode - 3: maxMachineCode + one + 2, maxMachineCode: maxMachineCode + 3 + 2} {
		if got := sizeOf(outer, n); got != want {
			t.Errorf("from %d: %d, expected %d", n, got, want)
		}
	}
}
