package ir

import (
	"slices"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// edges returns cells of type t at which identities break.
func edges(t isa.Type) []uint64 {
	if t == isa.Pred {
		return []uint64{0, 1}
	}
	top := uint64(1) << (t.Bits() - 1)
	if !t.Float() {
		return []uint64{0, 1, 2, 5, uint64(t.Bits()), top - 1, top, top + 1, t.Mask() - 1, t.Mask()}
	}
	inf := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
	var l []uint64
	for _, c := range []uint64{0, 1, 1<<t.MantissaBits() - 1, 1 << t.MantissaBits(), one(t), one(t) + 1, one(t) + 1<<t.MantissaBits(), inf - 1, inf, inf + 1<<(t.MantissaBits()-1)} {
		l = append(l, c, c|top)
	}
	return l
}

// TestIdentitiesHoldForAllInputs takes every pure instruction through the
// passes with one operand a constant, with both operands the same, and behind
// NOT, NEG, ABS or itself, and compares the answers on all edge values.
func TestIdentitiesHoldForAllInputs(t *testing.T) {
	brief.Alone(t)
	changed := 0
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Eval == nil || row.Effect&^isa.MayFault != isa.Pure || len(row.Operands) < 2 || row.Operands[1].Kind != isa.Src || row.From != 0 {
			continue
		}
		if row.Operands[1].Type != isa.TypeT || len(row.Operands) > 3 {
			continue
		}
		conds := []isa.Cond{isa.NoCond}
		if row.HasCond {
			conds = []isa.Cond{isa.EQ, isa.NE, isa.LT, isa.LE, isa.GT, isa.GE}
		}
		for _, ty := range row.Types.List() {
			if ty == isa.Pred || brief.Skips(int(op)+int(ty), 3) {
				continue
			}
			for _, cond := range conds {
				changed += identities(t, op, row, isa.Form{Type: ty, Cond: cond})
			}
		}
	}
	if changed < brief.Or(500, 150) {
		t.Errorf("only %d programs were simplified", changed)
	}
}

// identities tries one form of an instruction and returns how many of the
// programs became smaller.
func identities(t *testing.T, op isa.Op, row *isa.Row, f isa.Form) (changed int) {
	x, y := reg(0), reg(1)
	var forms [][]isa.Arg
	if len(row.Operands) == 2 {
		forms = append(forms, []isa.Arg{x})
	} else {
		forms = append(forms, []isa.Arg{x, x}, []isa.Arg{x, y})
		for _, c := range edges(f.Type) {
			imm := isa.Arg{Kind: isa.ArgImm, Bits: c}
			forms = append(forms, []isa.Arg{x, imm}, []isa.Arg{imm, x})
		}
	}
	for _, args := range forms {
		for _, twice := range []bool{false, true} {
			p := &isa.Program{Name: "p", Slots: []isa.Slot{{Name: "a", Type: f.Type}, {Name: "b", Type: f.Type}, {Name: "c", Type: f.Type}, {Name: "d", Type: f.Type}}}
			emit := func(op isa.Op, f isa.Form, args ...isa.Arg) {
				in := isa.Inst{Op: op, Form: f}
				copy(in.Args[:], args)
				p.Insts = append(p.Insts, in)
			}
			form := isa.Form{Type: f.Type}
			emit(isa.LDG, form, x, element(0))
			emit(isa.LDG, form, y, element(1))
			if row.HasCond { // choose by it, as it is and inverted
				q, r := isa.Arg{Kind: isa.ArgPred, Reg: 0}, isa.Arg{Kind: isa.ArgPred, Reg: 1}
				emit(op, f, append([]isa.Arg{q}, args...)...)
				emit(isa.NOT, isa.Form{Type: isa.Pred}, r, q)
				if twice {
					q.Not = true
				}
				emit(isa.SEL, form, reg(2), q, x, y)
				emit(isa.SEL, form, reg(3), r, x, imm(1))
			} else {
				emit(op, f, append([]isa.Arg{reg(2)}, args...)...)
				emit(isa.MOV, form, reg(3), reg(2))
				if twice {
					again := append([]isa.Arg{reg(2)}, args...)
					for i := range again[1:] {
						if again[i+1] == x {
							again[i+1] = reg(2)
							break
						}
					}
					emit(op, f, again...)
					if row, _ := isa.Lookup(isa.NEG); row.Types.Has(f.Type) {
						emit(isa.NEG, form, reg(3), reg(2))
						emit(isa.ABS, form, reg(3), reg(3))
					}
				}
			}
			emit(isa.STG, form, reg(2), element(2))
			emit(isa.STG, form, reg(3), element(3))
			emit(isa.EXIT, isa.Form{})
			v := verify(t, p)
			c := canonical(t, v)
			plain := canonical(t, v, Without("simplify", "fold", "number"))
			if count(c.Body) < count(plain.Body) {
				changed++
			}
			n := len(edges(f.Type))
			slots := make([][]byte, 4)
			for i := range slots {
				slots[i] = make([]byte, n*n*f.Type.Size())
			}
			for i, a := range edges(f.Type) {
				for j, b := range edges(f.Type) {
					at := (i*n + j) * f.Type.Size()
					put(slots[0][at:][:f.Type.Size()], a)
					put(slots[1][at:][:f.Type.Size()], b)
				}
			}
			g, w := newMachine(p, slots, nil, 0), newMachine(p, slots, nil, 0)
			both := slices.Contains(args, y)
			for at := range n * n {
				if !both && at%n != (at/n*7+3)%n {
					continue // y is only what is chosen instead of x
				}
				g.at, g.steps = at, 100
				w.at, w.steps = at, 100
				g.walkGraph(v)
				w.walkTree(c)
			}
			if gs, ws := g.state(), w.state(); gs != ws { // NaNs are one now
				at := 0
				for at < len(g.slots[2])-1 && g.slots[2][at] == w.slots[2][at] && g.slots[3][at] == w.slots[3][at] {
					at++
				}
				size := f.Type.Size()
				at -= at % size
				t.Fatalf("x %#x, y %#x: %#x, %#x became %#x, %#x\n%s\n%v", get(slots[0][at:][:size]), get(slots[1][at:][:size]),
					get(g.slots[2][at:][:size]), get(g.slots[3][at:][:size]), get(w.slots[2][at:][:size]), get(w.slots[3][at:][:size]), isa.Disassemble(p), c)
			}
		}
	}
	return changed
}

func count(r *Region) int {
	n := len(r.Nodes)
	for _, nd := range r.Nodes {
		for _, s := range nd.Regions {
			n += count(s)
		}
	}
	return n
}

func reg(r uint8) isa.Arg  { return isa.Arg{Kind: isa.ArgReg, Reg: r} }
func imm(c uint64) isa.Arg { return isa.Arg{Kind: isa.ArgImm, Bits: c} }
func element(s int) isa.Arg {
	return isa.Arg{Kind: isa.ArgAddr, Mode: isa.AddrIndex, Slot: uint16(s)}
}
