package strips

import (
	"errors"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// TestTotality compiles, for every row of the table and every type, a program
// of that instruction alone. What can't stand in the canonical form after
// expansion is left out; all else has a rule.
func TestTotality(t *testing.T) {
	count := 0
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Effect&(isa.Structural|isa.Control) != 0 {
			continue
		}
		for _, form := range forms(op, row) {
			count++
			tr := newTree(isa.U32)
			tr.f.Data = []isa.Data{{Type: form.Type, Values: []uint64{1, 2}}}
			tr.f.ParamTypes = []isa.Type{form.Type}
			tr.f.Shared = 64
			n := &ir.Node{Op: ir.Op(op), Form: form}
			result, sources := operandTypes(row, form)
			memory := row.Effect&(isa.Reads|isa.Writes) != 0
			if memory {
				n.Mem = ir.Mem{Mode: isa.AddrByte, HasOff: true}
				if op == isa.LDS || op == isa.STS {
					n.Mem.Mode = isa.AddrShared
				}
				n.Args = append(n.Args, tr.constant(isa.I64, 0))
			}
			for _, s := range sources {
				if s == isa.TypeAnyInt {
					s = isa.I64
				}
				n.Args = append(n.Args, tr.constant(s, 0))
			}
			if op == isa.SREG {
				result = isa.U32
			}
			var results []isa.Type
			if result != isa.NoType {
				results = append(results, result)
			}
			tr.node(n, results...)
			if op == isa.POOL_ALLOC {
				n.Imm = 8
			}
			if _, err := Compile(tr.f); err != nil {
				t.Errorf("%v %v: %v", op, form, err)
			}
		}
	}
	if count < 500 {
		t.Errorf("only %d forms", count)
	}
}

// TestUnsupported sees that what has no rule is refused by name.
func TestUnsupported(t *testing.T) {
	tr := newTree(isa.F32)
	tr.store(0, tr.op(isa.MULHI, isa.Form{Type: isa.F32}, isa.F32, tr.load(0), tr.load(0)))
	_, err := Compile(tr.f)
	var u *backends.Unsupported
	if !errors.As(err, &u) || u.What != "MULHI f32" {
		t.Errorf("error %v", err)
	}
}
