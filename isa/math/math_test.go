package math_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
)

// TestEveryExpansionLoads demands a sound program, of the agreed shape, for
// every row and type that the table says expands.
func TestEveryExpansionLoads(t *testing.T) {
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for _, ty := range row.Expand.List() {
			t.Run(math.FileName(op, ty), func(t *testing.T) {
				v, ok := math.Expansion(op, ty)
				if !ok {
					t.Fatal("no expansion")
				}
				p := v.Program
				sources := len(row.Operands) - 1
				if len(p.Slots) != sources+1 {
					t.Fatalf("%d slots, want %d sources and out", len(p.Slots), sources)
				}
				for i, s := range p.Slots {
					name := [...]string{"x", "y"}[i%2]
					if i == sources {
						name = "out"
					}
					if s.Name != name || s.Type != ty {
						t.Errorf("slot %d is %s %s, want %s %s", i, s.Name, s.Type, name, ty)
					}
					use := v.Slots[i]
					if use.Reads == (i == sources) || use.Writes != (i == sources) || use.Bytes {
						t.Errorf("slot %s: use %+v", s.Name, use)
					}
				}
				if len(p.Params) > 0 || p.Shared > 0 || v.HasBarrier || v.PoolBytes > 0 {
					t.Error("an expansion has no parameters, shared memory, barriers or pools")
				}
				if last := p.Insts[len(p.Insts)-1].Op; last != isa.EXIT {
					t.Errorf("ends with %s", last)
				}
				stores := 0
				for i, in := range p.Insts {
					r, _ := isa.Lookup(in.Op)
					if r.Expand.Has(in.Type) {
						t.Errorf("instruction %d, %s, is itself an expansion", i, in.Op)
					}
					switch in.Op {
					case isa.STG:
						stores++
					case isa.DIV, isa.REM:
						if in.Type.Integer() {
							t.Errorf("instruction %d can fault", i)
						}
					}
					if ty != isa.F64 && in.Type == isa.F64 {
						t.Errorf("instruction %d uses f64, which Metal lacks", i)
					}
				}
				if stores != 1 {
					t.Errorf("%d stores, want 1", stores)
				}
			})
		}
	}
	if _, ok := math.Expansion(isa.ADD, isa.F32); ok {
		t.Error("ADD has an expansion")
	}
	if _, ok := math.Expansion(isa.REM, isa.I32); ok {
		t.Error("integer REM has an expansion")
	}
}
