package isa

import (
	"strings"
	"testing"
)

// Checking a form that is right must not make words for an error there is not.
func TestRightFormsTakeNoMemory(t *testing.T) {
	forms := 0
	for op := NoOp + 1; op < NumOps; op++ {
		row, _ := Lookup(op)
		f := Form{}
		if row.HasCond {
			f.Cond = EQ
		}
		for _, typ := range append([]Type{NoType}, row.Types.List()...) {
			for _, from := range append([]Type{NoType}, row.From.List()...) {
				f.Type, f.From = typ, from
				if row.checkForm(f) != nil {
					continue // NoType where there is to be one
				}
				forms++
				if n := testing.AllocsPerRun(10, func() { row.checkForm(f) }); n != 0 {
					t.Errorf("%s: %v allocations", row.Typed(f), n)
				}
			}
		}
	}
	if forms < int(NumOps) {
		t.Errorf("only %d forms were right", forms)
	}
}

func TestWrongForms(t *testing.T) {
	for _, c := range []struct {
		op   Op
		form Form
		part int
		want string
	}{
		{ADD, Form{Type: Pred}, 1, "add has no form for type pred"},
		{ADD, Form{Type: F32, From: I8}, 2, "add has no type i8"},
		{ADD, Form{Type: F32, Cond: LT}, 0, "add with condition"},
		{SET, Form{Type: F32}, 0, "set with condition"},
		{SET, Form{Type: I32, Cond: LTU}, 0, "condition ltu does not go with i32"},
		{BAR_SYNC, Form{Type: F32}, 1, "bar_sync has no type f32"},
	} {
		row, _ := Lookup(c.op)
		e := row.checkForm(c.form)
		if e == nil || e.part != c.part || !strings.Contains(e.msg, c.want) {
			t.Errorf("%s %+v: %+v, want part %d, %q", row.Name, c.form, e, c.part, c.want)
		}
	}
}
