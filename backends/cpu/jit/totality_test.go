package jit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// textOf is the text of a program of one instruction between loads and a store.
func textOf(op isa.Op, row *isa.Row, f isa.Form) string {
	var slots, loads, operands, result strings.Builder
	typed := func(t isa.Type) isa.Type {
		switch t {
		case isa.TypeT:
			return f.Type
		case isa.TypeFrom:
			return f.From
		case isa.TypeAnyInt:
			return isa.I64
		}
		return t
	}
	name := strings.ToLower(op.String())
	if row.HasCond {
		name += "." + f.Cond.String()
	}
	if f.Type != isa.NoType {
		name += "." + f.Type.String()
	}
	if f.From != isa.NoType {
		name += "." + f.From.String()
	}
	out := func(t isa.Type, r string) {
		if t == isa.Pred {
			fmt.Fprintf(&result, "sel.u8 out, %s, 1, 0\n", r)
			t, r = isa.U8, "out"
		}
		fmt.Fprintf(&slots, "slot out %v\n", t)
		fmt.Fprintf(&result, "stg.%v %s, out[index]\n", t, r)
	}
	sep := " "
	for i, o := range row.Operands {
		t := typed(o.Type)
		text := ""
		switch o.Kind {
		case isa.Dst, isa.PredDst:
			if t == isa.TypeNamedT {
				t = isa.U64
			}
			text = "r"
			if t == isa.Pred {
				text = "q"
			}
			out(t, text)
		case isa.Src, isa.SrcReg, isa.PredSrc:
			text = fmt.Sprintf("v%d", i)
			if t == isa.Pred {
				text = fmt.Sprintf("p%d", i)
				fmt.Fprintf(&slots, "slot s%d u8\n", i)
				fmt.Fprintf(&loads, "ldg.u8 v%d, s%d[index]\nset.ne.u8 p%d, v%d, 0\n", i, i, i, i)
			} else {
				fmt.Fprintf(&slots, "slot s%d %v\n", i, t)
				fmt.Fprintf(&loads, "ldg.%v v%d, s%d[index]\n", t, i, i)
			}
		case isa.Mem:
			fmt.Fprintf(&slots, "slot m %v\n", f.Type)
			text = "m[index]"
		case isa.SharedMem:
			slots.WriteString("shared 64\n")
			text = "shared[8]"
		case isa.AnyMem:
			fmt.Fprintf(&slots, "slot m %v\n", f.Type)
			fmt.Fprintf(&slots, "slot at i64\n")
			fmt.Fprintf(&loads, "ldg.i64 at, at[index]\n")
			text = "m[at + 8]"
		case isa.ParamRef:
			fmt.Fprintf(&slots, "param k %v\n", f.Type)
			text = "k"
		case isa.DataRef:
			fmt.Fprintf(&slots, "data d %v { 1, 2, 3 }\n", f.Type)
			text = "d[v2]"
		case isa.SpecialRef:
			text = "global_lane"
		case isa.Imm:
			text = "0"
		case isa.ScopeRef:
			text = "block"
		}
		if i == 2 && op == isa.LDC {
			continue // the index stands with the table
		}
		operands.WriteString(sep + text)
		sep = ", "
	}
	return "program p\n" + slots.String() + loads.String() + name + operands.String() + "\n" + result.String() + "exit\n"
}

// Every row of the table has a rule, or a reason why it has none; and each of
// its forms that may have one compiles, at both widths, with all registers and
// with few.
func TestTotality(t *testing.T) {
	brief.Alone(t)
	count := 0
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Effect&(isa.Structural|isa.Control) != 0 {
			continue
		}
		_, ruled := rules[op]
		why, refused := declined[op]
		expanded := row.Expand != 0
		require.True(t, ruled && !refused || !ruled && refused && why != "" || expanded, "%v", op)
		if refused {
			continue
		}
		types, froms, conds := []isa.Type{isa.NoType}, []isa.Type{isa.NoType}, []isa.Cond{isa.NoCond}
		if row.Types != 0 {
			types = row.Types.List()
		}
		if row.From != 0 {
			froms = row.From.List()
		}
		if row.HasCond {
			conds = []isa.Cond{isa.EQ, isa.NE, isa.LT, isa.LE, isa.GT, isa.GE, isa.LTU, isa.LEU, isa.GTU, isa.GEU}
		}
		for _, ty := range types {
			for _, from := range froms {
				for _, c := range conds {
					f := isa.Form{Type: ty, From: from, Cond: c}
					if c.UnsignedOnly() && !ty.Unsigned() || op == isa.BITCAST && ty.Size() != from.Size() {
						continue
					}
					text := textOf(op, row, f)
					p, err := isa.Assemble("one.atlas", text)
					require.NoError(t, err, text)
					v, err := isa.Verify(p)
					require.NoError(t, err, text)
					fn, _, err := ir.Canonical(v)
					require.NoError(t, err, text)
					prepared, err := prepare(nil, fn)
					require.NoError(t, err, text)
					for _, l := range []Level{AVX2, AVX512, AVX2 | Few, AVX512 | Few} {
						shapes := []shape{{}, {single: 1}}
						if prepared.meets {
							m := targetOf(l)
							shapes = []shape{prepared.blockShape(shape{}, m, 256, true), prepared.blockShape(shape{}, m, 300, false), prepared.blockShape(shape{}, m, 1, true)}
						}
						for _, s := range shapes {
							_, _, err := prepared.generate(nil, targetOf(l), s)
							require.NoError(t, err, "%v\n%s", l, text)
						}
					}
					count++
				}
			}
		}
	}
	require.Greater(t, count, 500)
	t.Logf("%d forms", count)
}
