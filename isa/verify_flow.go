package isa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa/work"
)

// Registers and predicates are numbered together where flow is computed:
// predicate p is firstPred+p.
const (
	firstPred = NumRegisters
	numRegs   = NumRegisters + NumPredicates
)

// holds returns the type of the value in operand o: a type, or TypeAnyInt.
func (in *Inst) holds(o *Operand) Type {
	switch o.Type {
	case TypeAnyInt:
		return TypeAnyInt
	case TypeNamedT:
		return Special(in.Args[1].Bits).Type() // of SREG alone, whose special value comes second
	}
	return o.Holds(in.Form)
}

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
					use(k, int(a.Reg)+r, in.holds(o))
				}
			}
		case Mem, SharedMem, AnyMem:
			if a.Mode == AddrIndirect {
				use(k, int(a.Handle), TypeAnyInt)
			}
			if a.HasReg && a.hasOffset() {
				use(k, int(a.Reg), TypeAnyInt)
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
		return int(in.Args[0].Reg), in.holds(o), true
	}
	return 0, NoType, false
}

// propagate calls visit for vertex 0 of n, then again and again, in order, for
// those that visit says the change of must be looked at. The order is a
// reverse postorder.
func propagate(m *work.Meter, n int, visit func(b int, touch func(to int))) {
	dirty := make([]bool, n)
	dirty[0] = true
	again := true
	for again {
		again = false
		for b := range dirty {
			if !dirty[b] {
				continue
			}
			dirty[b] = false
			m.Step(1)
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
	if *t == *u {
		return false
	}
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
// type on all paths. It runs before branches both ways of which lead to the
// same place are dropped: they read a predicate too.
//
// It goes through the nodes in reverse postorder, again and again until what
// comes back to the headers of loops adds nothing. Types are kept for headers
// and for nodes that were led to and not yet reached, since a set of them for
// each node would be most of what verifying takes.
func (g *inliner) checkRegisters() error {
	f := &typeFlow{inliner: g, entry: make([]*regTypes, len(g.order)), header: make([]bool, len(g.order))}
	for b, u := range g.order {
		for _, s := range g.nodes[u].successors() {
			if r := int(g.rank[s]); r <= b {
				f.header[r] = true
			}
		}
	}
	f.entry[0] = presetTypes()
	check := false
	for f.pass(check) || !check {
		check = true
	}
	if f.bad.inst == len(g.v.p.Insts) {
		return nil
	}
	return g.registerError(f.bad)
}

// typeFlow is the state of checkRegisters. Places in the order go for nodes.
type typeFlow struct {
	*inliner
	entry  []*regTypes // what is known to arrive; nil: nothing yet
	free   []*regTypes // for further entries
	header []bool      // of a loop: its entry is kept
	bad    badRead     // the first in the text
}

// pass goes once through the nodes, looks for bad reads if it is to, and
// reports whether more has come back to a header.
func (f *typeFlow) pass(check bool) (changed bool) {
	insts := f.v.p.Insts
	f.bad = badRead{inst: len(insts)}
	for b, u := range f.order {
		n := &f.nodes[u]
		f.v.work.Step(1 + int(n.to-n.from))
		t := f.entry[b]
		if f.header[b] || b == 0 {
			t = f.copy(t)
		} else {
			f.entry[b] = nil
		}
		for i := n.from; i < n.to; i++ {
			if check {
				f.check(int(i), u, t)
			}
			t.step(&insts[i])
		}
		if check && (n.kind == TermBranch || n.kind == TermLoop) {
			f.check(int(n.src), u, t)
		}
		for _, s := range n.successors() {
			r := f.rank[s]
			switch e := f.entry[r]; {
			case e == nil:
				f.entry[r] = f.copy(t)
			case e.join(t) && int(r) <= b:
				changed = true
			}
		}
		f.free = append(f.free, t)
	}
	return changed
}

// copy returns a copy of t.
func (f *typeFlow) copy(t *regTypes) *regTypes {
	if n := len(f.free); n > 0 {
		c := f.free[n-1]
		f.free = f.free[:n-1]
		*c = *t
		return c
	}
	c := *t
	return &c
}

// check looks at what instruction i, in node u, reads where registers hold t.
func (f *typeFlow) check(i int, u int32, t *regTypes) {
	if i >= f.bad.inst {
		return
	}
	uses(&f.v.p.Insts[i], func(_, reg int, want Type) {
		if has := t[reg]; want != has && (want != TypeAnyInt || !SetWide.Has(has)) && i < f.bad.inst {
			f.bad = badRead{i, u, reg, want, has}
		}
	})
}

// badRead is a read of a register that breaks a rule.
type badRead struct {
	inst      int
	node      int32
	reg       int
	want, has Type
}

// registerError explains why a register cannot be read.
func (g *inliner) registerError(r badRead) error {
	v := g.v
	need := r.want.String()
	if r.want == TypeAnyInt {
		need = SetWide.String()
	}
	name := v.regName(r.reg)
	if r.has != noOneType {
		return v.fail("regtype", r.inst, fmt.Sprintf("%s holds %v here, %s is needed", name, r.has, need), "cvt converts, bitcast keeps the bits")
	}
	set, unset := g.reaching(r)
	switch {
	case len(set) == 0:
		return v.fail("init", r.inst, name+" is read before anything is written to it", v.meant(r.inst, r.reg))
	case unset:
		return v.fail("init", r.inst, name+" is not initialised on every path", "written at "+v.whereAll(set))
	}
	return v.fail("regtype", r.inst, name+" holds values of different types on different paths", "written at "+v.whereAll(set))
}

// meant tells who gave a register the name of something else how to read that.
func (v *verifier) meant(inst, reg int) string {
	if reg >= firstPred {
		return ""
	}
	name := v.p.Debug.Regs[reg]
	for _, s := range v.p.Params {
		if s.Name == name {
			return fmt.Sprintf("%[1]s is a parameter: ldp.%[2]v %[1]s, %[1]s reads it into a register of that name", name, s.Type)
		}
	}
	for _, s := range v.p.Slots {
		if s.Name == name {
			return fmt.Sprintf("%[1]s is a slot: ldg.%[2]v %[1]s, %[1]s[index] loads an element of it into a register of that name", name, s.Type)
		}
	}
	for _, s := range v.p.Data {
		if s.Name == name {
			return fmt.Sprintf("%[1]s is a table: ldc.%[2]v %[1]s, %[1]s[i] loads an element of it into a register of that name", name, s.Type)
		}
	}
	if name != "" && slices.Contains(v.p.Debug.Preds[:], name) {
		return fmt.Sprintf("%[1]s is also a predicate, which has its own names: sel.u32 x, %[1]s, 1, 0 makes a number of it", name)
	}
	if slices.Contains(specialNames[:], name) {
		return fmt.Sprintf("sreg %[1]s, %[1]s reads that value into a register of that name", name)
	}
	for _, a := range v.p.Insts[inst].Args {
		if a.Kind == ArgAddr && a.Mode == AddrByte && a.HasReg && int(a.Reg) == reg {
			return "[index] is the lane's element, [flat i] element i; an offset in a register counts bytes"
		}
	}
	return ""
}

// reaching returns the instructions whose values may arrive at a read, and
// whether the register may arrive unwritten.
func (g *inliner) reaching(r badRead) (set []int, unset bool) {
	last := func(from, to int32) int {
		for i := to - 1; i >= from; i-- {
			if reg, _, ok := defines(&g.v.p.Insts[i]); ok && reg == r.reg {
				return int(i)
			}
		}
		return -1
	}
	if d := last(g.nodes[r.node].from, int32(r.inst)); d >= 0 {
		return []int{d}, false
	}
	seen := make([]bool, len(g.nodes))
	work := []int32{r.node}
	for len(work) > 0 {
		u := work[len(work)-1]
		work = work[:len(work)-1]
		// Nothing leads to the entry, where only presets are written.
		unset = unset || u == 0
		for _, w := range g.pred.of(u) {
			if seen[w] {
				continue
			}
			seen[w] = true
			if d := last(g.nodes[w].from, g.nodes[w].to); d >= 0 {
				set = append(set, d)
			} else {
				work = append(work, w)
			}
		}
	}
	slices.Sort(set)
	return slices.Compact(set), unset && (r.reg < FirstPreset || r.reg >= firstPred)
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
