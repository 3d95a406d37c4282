package ir

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"pgregory.net/rapid"
)

// Programs of progen never read r239 and p15: rewrites may use them.
const (
	freeReg  = 239
	freePred = isa.NumPredicates - 1
)

// text is a program as a list that can be edited: labels go with what they
// stand before.
type text struct {
	p     *isa.Program
	items []item
}

type item struct {
	labels []int // indices of the program's labels that stand here
	inst   isa.Inst
}

func edit(p *isa.Program) *text {
	t := &text{p: p, items: make([]item, len(p.Insts)+1)}
	for i, in := range p.Insts {
		t.items[i].inst = in
	}
	for i, l := range p.Labels {
		t.items[l.At].labels = append(t.items[l.At].labels, i)
	}
	return t
}

// insert puts in before item i; labels of i then stand before in.
func (t *text) insert(i int, in isa.Inst) {
	it := item{inst: in, labels: t.items[i].labels}
	t.items[i].labels = nil
	t.items = slices.Insert(t.items, i, it)
}

// insertAfterLabels is insert, but the labels of i come first, so that loops
// begin where they did.
func (t *text) program() *isa.Program {
	q := *t.p
	q.Insts, q.Labels = nil, slices.Clone(t.p.Labels)
	for i, it := range t.items {
		for _, l := range it.labels {
			q.Labels[l].At = i
		}
		if it.inst.Op != isa.NoOp {
			q.Insts = append(q.Insts, it.inst)
		}
	}
	return &q
}

// rewriteSeeds is how many programs each rewrite is tried on.
const rewriteSeeds = 40

// rewrite is a change to a program that must not show in its canonical bytes.
type rewrite struct {
	name string
	do   func(s isatest.Source, t *text)
}

var rewrites = []rewrite{
	{"rename registers", renameRegisters},
	{"reorder independent instructions", reorder},
	{"swap commutative operands", swapOperands},
	{"move code into subroutines", outline},
	{"add dead code", addDead},
	{"unfold constants", unfold},
}

func renameRegisters(s isatest.Source, t *text) {
	regs, preds := make([]uint8, 256), make([]uint8, isa.NumPredicates)
	shuffle := func(l []uint8, n int) {
		for i := range l {
			l[i] = uint8(i)
		}
		for i := n - 1; i > 0; i-- {
			j := s.Intn(i + 1)
			l[i], l[j] = l[j], l[i]
		}
	}
	shuffle(regs, freeReg)
	shuffle(preds, freePred)
	for i := range t.items {
		for j := range t.items[i].inst.Args {
			switch a := &t.items[i].inst.Args[j]; a.Kind {
			case isa.ArgReg:
				a.Reg = regs[a.Reg]
			case isa.ArgPred:
				a.Reg = preds[a.Reg]
			case isa.ArgAddr:
				if a.HasReg {
					a.Reg = regs[a.Reg]
				}
				if a.Mode == isa.AddrIndirect {
					a.Handle = regs[a.Handle]
				}
			}
		}
	}
}

func straight(in *isa.Inst) bool {
	if in.Op == isa.NoOp {
		return false
	}
	row, _ := isa.Lookup(in.Op)
	return row.Effect&isa.Control == 0
}

// independent reports whether b may stand before a instead of behind it.
func independent(a, b *isa.Inst) bool {
	if !straight(a) || !straight(b) {
		return false
	}
	type access struct {
		use, def regset
		place    string
		write    bool
		index    bool
	}
	look := func(in *isa.Inst) (x access) {
		operands(in, x.use.add, x.def.add)
		row, _ := isa.Lookup(in.Op)
		if row.Effect&(isa.State|isa.Barrier) != 0 {
			x.place, x.write = "all", true
		}
		for _, arg := range in.Args {
			if arg.Kind != isa.ArgAddr {
				continue
			}
			x.write = row.Effect&isa.Writes != 0
			x.index = arg.Mode == isa.AddrIndex
			switch arg.Mode {
			case isa.AddrShared:
				x.place = "shared"
			case isa.AddrIndirect:
				x.place = "all"
			default:
				x.place = fmt.Sprint(arg.Slot)
			}
		}
		return x
	}
	x, y := look(a), look(b)
	for i := range x.use {
		if x.def[i]&(y.use[i]|y.def[i]) != 0 || x.use[i]&y.def[i] != 0 {
			return false
		}
	}
	if x.place == "" || y.place == "" || !x.write && !y.write {
		return true
	}
	if x.index && y.index && x.write != y.write {
		return false // the slots may be bound to the same view
	}
	return x.place != "all" && y.place != "all" && x.place != y.place
}

func reorder(s isatest.Source, t *text) {
	for range 4 * len(t.items) {
		i := s.Intn(len(t.items) - 1)
		a, b := &t.items[i], &t.items[i+1]
		if len(b.labels) == 0 && independent(&a.inst, &b.inst) {
			a.inst, b.inst = b.inst, a.inst
		}
	}
}

func swapOperands(s isatest.Source, t *text) {
	for i := range t.items {
		in := &t.items[i].inst
		row, ok := isa.Lookup(in.Op)
		if !ok || s.Intn(2) == 0 {
			continue
		}
		if row.Commutes || in.Cond == isa.EQ || in.Cond == isa.NE {
			in.Args[1], in.Args[2] = in.Args[2], in.Args[1]
		}
	}
}

func outline(s isatest.Source, t *text) {
	// New code goes behind the program, whose last item stands for its end.
	last := len(t.items) - 1
	tail := []item{}
	for range 3 {
		i := s.Intn(last)
		j := i
		for j < last && j-i < 6 && straight(&t.items[j].inst) && (j == i || len(t.items[j].labels) == 0) {
			j++
		}
		if j == i {
			continue
		}
		label := len(t.p.Labels)
		q := *t.p
		q.Labels = append(slices.Clone(q.Labels), isa.Label{Name: fmt.Sprintf("sub%d", label)})
		t.p = &q
		body := slices.Clone(t.items[i:j])
		labels := body[0].labels
		body[0].labels = []int{label}
		call := item{labels: labels, inst: isa.Inst{Op: isa.CALL}}
		call.inst.Args[0] = isa.Arg{Kind: isa.ArgLabel, Bits: uint64(label)}
		t.items = slices.Replace(t.items, i, j, call)
		last -= j - i - 1
		tail = append(append(tail, body...), item{inst: isa.Inst{Op: isa.RET}})
	}
	end := t.items[last]
	t.items = append(append(t.items[:last], tail...), end)
}

func addDead(s isatest.Source, t *text) {
	for range 8 {
		i := s.Intn(len(t.items) - 1)
		in := t.items[i].inst
		row, ok := isa.Lookup(in.Op)
		if !ok {
			continue
		}
		byIndex := in.Op == isa.LDG && in.Args[1].Mode == isa.AddrIndex
		if row.Effect != isa.Pure && !byIndex || len(row.Operands) == 0 {
			// Something that uses a preset register instead.
			in = isa.Inst{Op: isa.MUL, Form: isa.Form{Type: isa.U32}}
			in.Args[1] = isa.Arg{Kind: isa.ArgReg, Reg: 252}
			in.Args[2] = isa.Arg{Kind: isa.ArgImm, Bits: s.Uint64() & isa.U32.Mask()}
			in.Args[0] = isa.Arg{Kind: isa.ArgReg}
		}
		if in.Args[0].Kind == isa.ArgPred {
			in.Args[0].Reg = freePred
		} else {
			in.Args[0].Reg = freeReg
		}
		if in.Op == isa.LDP || in.Op == isa.SREG || byIndex || s.Intn(2) == 0 {
			t.insert(i, in)
		} else if len(t.items[i].labels) == 0 {
			t.insert(i, in)
		}
	}
}

// unfold replaces immediates by registers that hold computed constants.
func unfold(s isatest.Source, t *text) {
	for i := len(t.items) - 1; i >= 0; i-- {
		in := &t.items[i].inst
		row, ok := isa.Lookup(in.Op)
		if !ok || s.Intn(2) == 0 {
			continue
		}
		for k, o := range row.Operands {
			a := &in.Args[k]
			ty := operandType(o.Type, in)
			if o.Kind != isa.Src || a.Kind != isa.ArgImm || !ty.Numeric() {
				continue
			}
			c := isa.Inst{Op: isa.XOR, Form: isa.Form{Type: ty}}
			if ty.Float() {
				c.Op = isa.NEG
				c.Args[1] = isa.Arg{Kind: isa.ArgImm, Bits: a.Bits ^ minusZero(ty)}
			} else {
				x := s.Uint64() & ty.Mask()
				c.Args[1] = isa.Arg{Kind: isa.ArgImm, Bits: a.Bits ^ x}
				c.Args[2] = isa.Arg{Kind: isa.ArgImm, Bits: x}
			}
			c.Args[0] = isa.Arg{Kind: isa.ArgReg, Reg: freeReg}
			*a = c.Args[0]
			t.insert(i, c)
			break
		}
	}
}

func checkRewrite(t testing.TB, s isatest.Source, c *progen.Case, list ...rewrite) {
	v := verify(t, c.Program)
	f := canonical(t, v)
	e := edit(c.Program)
	for _, r := range list {
		r.do(s, e)
	}
	q := e.program()
	w := verify(t, q)
	g := canonical(t, w)
	if !bytes.Equal(f.Bytes(), g.Bytes()) {
		t.Fatalf("the bytes differ\n%s\nbecame\n%s\nand\n%v\nbecame\n%v", isa.Disassemble(c.Program), isa.Disassemble(q), f, g)
	}
}

func TestRewritesKeepTheBytes(t *testing.T) {
	brief.Alone(t)
	for _, r := range rewrites {
		t.Run(r.name, func(t *testing.T) {
			for seed := range uint64(rewriteSeeds) {
				s := isatest.FromSeed(seed)
				cfg := everything
				cfg.Size = 1 + int(seed)%60
				checkRewrite(t, s, progen.New(s, cfg), r)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		for seed := range uint64(rewriteSeeds) {
			s := isatest.FromSeed(seed + 1000)
			cfg := everything
			cfg.Size = 1 + int(seed)%60
			checkRewrite(t, s, progen.New(s, cfg), rewrites...)
		}
	})
}

func TestRewritesKeepTheBytesRapid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := isatest.FromRapid(rt)
		cfg := everything
		cfg.Size = 1 + s.Intn(12)
		checkRewrite(tb{t, rt}, s, progen.New(s, cfg), rewrites[s.Intn(len(rewrites))])
	})
}

// rereads makes a program that loads from few places of each kind of memory, stores
// to them, loads again, and combines what it has: what tells two equal loads apart is
// what was written between them.
func rereads(t *testing.T, s isatest.Source) *progen.Case {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("program rereads\nslot m u8\nslot c i32\nshared 16\npool_alloc h, 16\nldg.i32 v0, c[index]\nadd.i32 v1, v0, 1\nmul.i32 v2, v0, 3\nmov.i32 v3, 5")
	for range 6 + s.Intn(12) {
		x, y, z := s.Intn(4), s.Intn(4), s.Intn(4)
		switch s.Intn(3) {
		case 0:
			line([]string{"ldg.i32 v%d, m[0]", "ldg.i32 v%d, m[8]", "lds.i32 v%d, shared[0]", "pool_load.i32 v%d, h, 0", "phase_get g\ncvt.i32.u16 v%d, g"}[s.Intn(5)], x)
		case 1:
			line([]string{"stg.i32 v%d, m[0]", "sts.i32 v%d, shared[0]", "pool_store.i32 v%d, h, 0", "phase_adv %d"}[s.Intn(4)], x)
		default:
			line("%s.i32 v%d, v%d, v%d", []string{"add", "mul", "xor", "max"}[s.Intn(4)], x, y, z)
		}
	}
	line("add.i32 v0, v0, v1\nxor.i32 v2, v2, v3\nmul.i32 v0, v0, v2\nstg.i32 v0, c[index]\nexit")
	return &progen.Case{Program: verified(t, b.String()).Program}
}

func TestRereadsKeepTheBytes(t *testing.T) {
	for seed := range uint64(4 * rewriteSeeds) {
		s := isatest.FromSeed(seed)
		checkRewrite(t, s, rereads(t, s), rewrites...)
	}
}
