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
