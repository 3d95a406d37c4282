package isa_test

import (
	"fmt"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"pgregory.net/rapid"
)

// roundTrip returns what is wrong with p's text and binary forms, or nil.
func roundTrip(p *isa.Program) error {
	if err := p.Check(); err != nil {
		return fmt.Errorf("not well formed: %w", err)
	}
	text := isa.Disassemble(p)
	q, err := isa.Assemble("disassembled", text)
	if err != nil {
		return fmt.Errorf("assembling what was disassembled: %w\n%s", err, text)
	}
	if !q.Equal(p) {
		return fmt.Errorf("disassembled and assembled, it is another program:\n%s\nbecame\n%s", text, isa.Disassemble(q))
	}
	if again := isa.Disassemble(q); again != text {
		return fmt.Errorf("disassembled again, it has another text:\n%s\nbecame\n%s", text, again)
	}
	bytes := isa.Encode(p)
	q, err = isa.Decode(bytes)
	if err != nil {
		return fmt.Errorf("decoding what was encoded: %w\n%s", err, text)
	}
	if got := isa.Disassemble(q); !q.Equal(p) || got != text {
		return fmt.Errorf("encoded and decoded, it is another program:\n%s\nbecame\n%s", text, got)
	}
	if q.Hash() != p.Hash() {
		return fmt.Errorf("encoded and decoded, it has another hash:\n%s", text)
	}
	return nil
}

func TestRandomProgramsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := roundTrip(isatest.Programs(20).Draw(t, "program")); err != nil {
			t.Fatal(err)
		}
	})
}

// Every row in every form, each operand in every shape it can have.
func TestEveryOperandOfEveryRowRoundTrips(t *testing.T) {
	s := isatest.FromSeed(1)
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, ok := isa.Lookup(op)
		if !ok || row.Name == "" {
			t.Fatalf("operation %d has no row", op)
		}
		t.Run(row.Mnemonic(), func(t *testing.T) {
			p := isatest.Declarations(s, 3)
			seen := map[isatest.Shape]bool{}
			for _, f := range isatest.Forms(row) {
				found := false
				shapes := make([][]isatest.Shape, len(row.Operands))
				most := 1
				for i, o := range row.Operands {
					shapes[i] = isatest.Shapes(o, f)
					if len(shapes[i]) == 0 {
						t.Fatalf("operand %s of %s can be nothing", o.Name, row.Typed(f))
					}
					most = max(most, len(shapes[i]))
				}
				for n := range most {
					choice := make([]isatest.Shape, len(shapes))
					for i := range shapes {
						choice[i] = shapes[i][(n+i)%len(shapes[i])]
					}
					in, ok := isatest.Inst(s, p, op, f, choice)
					if !ok {
						continue
					}
					found = true
					for _, c := range choice {
						seen[c] = true
					}
					p.Insts = append(p.Insts, in)
				}
				// BITCAST keeps the width, and so refuses many pairs of types.
				if !found && row.From == 0 {
					t.Errorf("%s: no operands were accepted", row.Typed(f))
				}
			}
			for _, o := range row.Operands {
				for _, f := range isatest.Forms(row) {
					for _, shape := range isatest.Shapes(o, f) {
						if !seen[shape] {
							t.Errorf("%s: operand %s was never %+v", row.Typed(f), o.Name, shape)
						}
					}
				}
			}
			if len(p.Insts) > 0 {
				if err := roundTrip(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEqualSeesEveryPart(t *testing.T) {
	const text = "program p\nslot s f32\nparam q i8\nshared 16\nblock 4\ndata d u8 { 1, 2 }\nreg v r3\npred c p2\n" +
		"top:\n  ldg.f32 v, s[r1 + 4]\n  add.f32 r2, v, 1.5\n  set.lt.f32 c, r2, v\n  bra top, !c\n  exit\n"
	assemble := func() *isa.Program {
		p, err := isa.Assemble("f", text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	base := assemble()
	same := assemble()
	same.Debug.File, same.Debug.Text, same.Debug.Lines, same.Debug.Cols = "", "", nil, nil
	if !base.Equal(same) || base.Hash() != same.Hash() {
		t.Error("where it was read from tells programs apart")
	}
	for name, change := range map[string]func(p *isa.Program){
		"name":           func(p *isa.Program) { p.Name = "other" },
		"slot name":      func(p *isa.Program) { p.Slots[0].Name = "z" },
		"slot type":      func(p *isa.Program) { p.Slots[0].Type = isa.F64 },
		"param":          func(p *isa.Program) { p.Params[0].Type = isa.U8 },
		"data type":      func(p *isa.Program) { p.Data[0].Type = isa.I8 },
		"data value":     func(p *isa.Program) { p.Data[0].Values[1] = 3 },
		"shared":         func(p *isa.Program) { p.Shared = 17 },
		"block":          func(p *isa.Program) { p.Block[1] = 2 },
		"register name":  func(p *isa.Program) { p.Debug.Regs[3] = "w" },
		"predicate name": func(p *isa.Program) { p.Debug.Preds[2] = "d" },
		"label name":     func(p *isa.Program) { p.Labels[0].Name = "bottom" },
		"label place":    func(p *isa.Program) { p.Labels[0].At = 1 },
		"operation":      func(p *isa.Program) { p.Insts[1].Op = isa.SUB },
		"type":           func(p *isa.Program) { p.Insts[1].Type = isa.F16 },
		"condition":      func(p *isa.Program) { p.Insts[2].Cond = isa.LE },
		"register":       func(p *isa.Program) { p.Insts[1].Args[0].Reg = 9 },
		"immediate":      func(p *isa.Program) { p.Insts[1].Args[2].Bits++ },
		"negation":       func(p *isa.Program) { p.Insts[3].Args[1].Not = false },
		"address mode":   func(p *isa.Program) { p.Insts[0].Args[1].Mode = isa.AddrShared },
		"no register":    func(p *isa.Program) { p.Insts[0].Args[1].HasReg = false },
		"offset":         func(p *isa.Program) { p.Insts[0].Args[1].Bits = ^uint64(3) },
		"one less":       func(p *isa.Program) { p.Insts = p.Insts[:4] },
	} {
		other := assemble()
		change(other)
		if base.Equal(other) || base.Hash() == other.Hash() {
			t.Errorf("%s does not tell programs apart", name)
		}
	}
}
