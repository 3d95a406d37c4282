package isa

import (
	"fmt"
	"slices"
	"strings"
)

// Registers and predicates are numbered together where flow is computed:
// predicate p is firstPred+p.
const (
	firstPred = NumRegisters
	numRegs   = NumRegisters + NumPredicates
)

// uses calls use for each register that in reads: the operand, the register's
// number and the type it must have.
func uses(in *Inst, use func(operand, reg int, t Type)) {
	row, _ := Lookup(in.Op)
	for k := range row.Operands {
		o, a := &row.Operands[k], &in.Args[k]
		switch o.Kind {
		case Src, SrcReg, PredSrc:
			switch a.Kind {
			case ArgPred:
				use(k, firstPred+int(a.Reg), Pred)
			case ArgReg:
				n := 1
				if o.Kind == SrcReg {
					n = int(in.Args[k+1].Bits) // the REDUCE rows: src_base, count
				}
				for r := range n {
					use(k, int(a.Reg)+r, operandType(in, o))
				}
			}
		case Mem, SharedMem, AnyMem:
			if a.Addr.Mode == AddrIndirect {
				use(k, int(a.Addr.Handle), TypeAnyInt)
			}
			if a.Addr.HasReg && (a.Addr.Mode == AddrByte || a.Addr.Mode == AddrIndirect || a.Addr.Mode == AddrShared) {
				use(k, int(a.Addr.Reg), TypeAnyInt)
			}
		}
	}
}

// defines returns the register that in writes and its new type, or ok false.
func defines(in *Inst) (reg int, t Type, ok bool) {
	row, _ := Lookup(in.Op)
	if len(row.Operands) == 0 {
		return 0, NoType, false
	}
	switch o := &row.Operands[0]; o.Kind {
	case Dst, PredDst:
		if in.Args[0].Kind == ArgPred {
			return firstPred + int(in.Args[0].Reg), Pred, true
		}
		return int(in.Args[0].Reg), operandType(in, o), true
	}
	return 0, NoType, false
}

// propagate calls visit for the entry, then again and again, in the order of
// the blocks, for those that visit says the change of must be looked at.
func (g *Graph) propagate(visit func(b int, touch func(to int))) {
	dirty := make([]bool, len(g.Blocks))
	dirty[0] = true
	again := true
	for again {
		again = false
		for b := range dirty {
			if !dirty[b] {
				continue
			}
			dirty[b] = false
			visit(b, func(to int) {
				dirty[to] = true
				again = again || to <= b
			})
		}
	}
}

// noOneType is the type of a register that does not hold a value of one type
// on all paths.
const noOneType Type = 0xff

// regTypes holds the type of each register at some point; NoType while no path
// to that point is known.
type regTypes [numRegs]Type

// join adds the types that arrive on another path, and reports a change.
func (t *regTypes) join(u *regTypes) bool {
	changed := false
	for i, x := range u {
		if old := t[i]; old != x && old != noOneType {
			if old == NoType {
				t[i] = x
			} else {
				t[i] = noOneType
			}
			changed = true
		}
	}
	return changed
}

func (t *regTypes) step(in *Inst) {
	if r, nt, ok := defines(in); ok {
		t[r] = nt
	}
}

// presetTypes returns the types at a lane's start.
func presetTypes() *regTypes {
	t := new(regTypes)
	for i := range t {
		t[i] = noOneType
	}
	for i, s := range PresetRegisters {
		t[FirstPreset+i] = s.Type()
	}
	return t
}

// checkRegisters checks that every register read holds a value of the right
// type on all paths.
func (v *verifier) checkRegisters() error {
	g := &v.out.Graph
	entry := make([]regTypes, len(g.Blocks))
	entry[0] = *presetTypes()
	g.propagate(func(b int, touch func(int)) {
		t := entry[b]
		for i := range g.Blocks[b].Code {
			t.step(&g.Blocks[b].Code[i].Inst)
		}
		for _, s := range g.Blocks[b].Term.Successors() {
			if entry[s].join(&t) {
				touch(s)
			}
		}
	})
	// The error shown is that of the first instruction in the text.
	bad, badBlock, badReg := len(v.p.Insts), 0, 0
	var want, has Type
	for b := range g.Blocks {
		t := entry[b]
		check := func(src, reg int, need Type) {
			if src >= bad {
				return
			}
			if need == TypeAnyInt && SetWide.Has(t[reg]) || need == t[reg] {
				return
			}
			bad, badBlock, badReg, want, has = src, b, reg, need, t[reg]
		}
		for i := range g.Blocks[b].Code {
			l := &g.Blocks[b].Code[i]
			uses(&l.Inst, func(_, reg int, need Type) { check(l.Src, reg, need) })
			t.step(&l.Inst)
		}
		switch term := &g.Blocks[b].Term; {
		case term.Kind == TermBranch:
			check(term.Src, firstPred+int(term.Pred.Reg), Pred)
		case term.Kind == TermLoop && term.Count.Kind == ArgReg:
			check(term.Src, int(term.Count.Reg), U32)
		}
	}
	if bad == len(v.p.Insts) {
		return nil
	}
	return v.registerError(bad, badBlock, badReg, want, has)
}

// registerError explains why reg cannot be read at instruction i of block b.
func (v *verifier) registerError(i, b, reg int, want, has Type) error {
	need := want.String()
	if want == TypeAnyInt {
		need = SetWide.String()
	}
	name := v.regName(reg)
	if has != noOneType {
		return v.fail("regtype", i, fmt.Sprintf("%s holds %v here, %s is needed", name, has, need), "cvt converts, bitcast keeps the bits")
	}
	set, unset := v.reaching(i, b, reg)
	switch {
	case len(set) == 0:
		return v.failf("init", i, "%s is read before anything is written to it", name)
	case unset:
		return v.fail("init", i, name+" is not initialised on every path", "written at "+v.whereAll(set))
	}
	return v.fail("regtype", i, name+" holds values of different types on different paths", "written at "+v.whereAll(set))
}

// reaching returns the instructions whose values of reg may arrive at
// instruction i of block b, and whether the register may arrive unwritten.
func (v *verifier) reaching(i, b, reg int) (set []int, unset bool) {
	g := &v.out.Graph
	pred := make([][]int, len(g.Blocks))
	for u := range g.Blocks {
		for _, s := range g.Blocks[u].Term.Successors() {
			pred[s] = append(pred[s], u)
		}
	}
	last := func(code []Located) int {
		for k := len(code) - 1; k >= 0; k-- {
			if r, _, ok := defines(&code[k].Inst); ok && r == reg {
				return code[k].Src
			}
		}
		return -1
	}
	code := g.Blocks[b].Code
	for k := range code {
		if code[k].Src == i {
			code = code[:k]
			break
		}
	}
	if d := last(code); d >= 0 {
		return []int{d}, false
	}
	seen := make([]bool, len(g.Blocks))
	work := []int{b}
	for len(work) > 0 {
		u := work[len(work)-1]
		work = work[:len(work)-1]
		// Nothing leads to the entry, where only presets are written.
		unset = unset || u == 0
		for _, w := range pred[u] {
			if seen[w] {
				continue
			}
			seen[w] = true
			if d := last(g.Blocks[w].Code); d >= 0 {
				set = append(set, d)
			} else {
				work = append(work, w)
			}
		}
	}
	slices.Sort(set)
	return slices.Compact(set), unset && (reg < FirstPreset || reg >= firstPred)
}

// whereAll lists instructions, not too many.
func (v *verifier) whereAll(list []int) string {
	var b strings.Builder
	for k, i := range list {
		if k == 4 {
			fmt.Fprintf(&b, " and %d more", len(list)-k)
			break
		}
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.where(i))
	}
	return b.String()
}

// regName names a register or predicate as the program does.
func (v *verifier) regName(reg int) string {
	if reg >= firstPred {
		p := reg - firstPred
		if s := v.p.Debug.Preds[p]; s != "" {
			return "predicate " + s
		}
		return fmt.Sprintf("predicate p%d", p)
	}
	if s := v.p.Debug.Regs[reg]; s != "" {
		return "register " + s
	}
	return fmt.Sprintf("register r%d", reg)
}
