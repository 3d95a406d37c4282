package ir

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// Build brings a verified program into structured SSA form as it stands: no
// pass has run, sites are numbered. Only instructions that compute a register
// nothing needs are gone.
func Build(v *isa.Verified) (*Func, error) {
	f, err := build(nil, v, false)
	if err != nil {
		return nil, err
	}
	renumber(f)
	return f, nil
}

func build(m *work.Meter, v *isa.Verified, packed bool) (*Func, error) {
	if err := checkLoops(&v.Graph); err != nil {
		return nil, err
	}
	lv := live(m, &v.Graph)
	fl, err := analyse(m, &v.Graph, lv)
	if err != nil {
		return nil, err
	}
	body, err := structure(fl)
	if err != nil {
		return nil, err
	}
	p := v.Program
	f := &Func{
		Shared: p.Shared, Block: p.Block, PoolBytes: v.PoolBytes,
		Slots: append([]isa.SlotUse(nil), v.Slots...),
		Body:  &Region{},
		work:  m,
	}
	for _, s := range p.Slots {
		f.SlotTypes = append(f.SlotTypes, s.Type)
	}
	for _, s := range p.Params {
		f.ParamTypes = append(f.ParamTypes, s.Type)
	}
	b := &builder{f: f, tables: f.addData(p.Data), flow: fl, live: lv, allocs: map[int]uint64{}, packed: packed}
	for i, s := range isa.PresetRegisters {
		b.env[isa.FirstPreset+i] = f.leaf(Op(isa.SREG), isa.Form{}, uint64(s), s.Type())
	}
	b.changes(body)
	b.list(body, f.Body)
	if b.err != nil {
		return nil, b.err
	}
	f.nodes = b.nodes
	return f, nil
}

// builder walks the tree with the value that each register has. What a nested
// region changes is undone behind it; what lives on comes back as results.
type builder struct {
	f       *Func
	flow    *flow
	live    *liveness
	env     [numVars]*Value
	undo    []change
	depth   int            // of the regions around the one at hand
	allocs  map[int]uint64 // POOL_ALLOC's ordinal, by instruction
	packed  bool           // see Packed
	tables  []uint64       // the number in f.Data of each of the program's tables
	region  *Region        // where nodes go
	nodes   int            // how many there are
	carried int            // values carried by constructs and Brs
	err     error
}

type change struct {
	reg int
	old *Value
}

func (b *builder) set(reg int, v *Value) {
	if b.depth > 0 { // else nothing undoes it
		b.undo = append(b.undo, change{reg, b.env[reg]})
	}
	b.env[reg] = v
}

// get returns the value of a register. That every register read has one is
// the verifier's promise.
func (b *builder) get(reg int) *Value {
	v := b.env[reg]
	if v == nil {
		if b.err == nil {
			name := fmt.Sprintf("r%d", reg)
			if reg >= isa.NumRegisters {
				name = fmt.Sprintf("p%d", reg-isa.NumRegisters)
			}
			b.err = fmt.Errorf("ir: %s is read where it may have no value; the program did not come from Verify", name)
		}
		return b.f.Const(isa.U64, 0)
	}
	return v
}

// changes records for each Block and Loop which registers its code may change.
func (b *builder) changes(list []*stmt) regset {
	var all regset
	for _, s := range list {
		var in regset
		if s.kind == stmtCode {
			in = b.live.def[s.at]
		} else {
			in = b.changes(s.body)
			s.defs = in
		}
		all.union(&in)
	}
	return all
}

// nested fills r from list and then takes back its changes to the registers.
func (b *builder) nested(list []*stmt, r *Region) {
	mark, outside := len(b.undo), b.region
	b.depth++
	b.list(list, r)
	b.depth--
	for len(b.undo) > mark {
		c := b.undo[len(b.undo)-1]
		b.undo = b.undo[:len(b.undo)-1]
		b.env[c.reg] = c.old
	}
	b.region = outside
}

func (b *builder) list(list []*stmt, r *Region) {
	b.region = r
	for _, s := range list {
		if b.err != nil {
			return
		}
		switch s.kind {
		case stmtCode:
			code := b.flow.code[s.at]
			r.Nodes = slices.Grow(r.Nodes, len(code))
			for i := range code {
				if b.nodes > MaxNodes && b.err == nil {
					b.err = &SizeError{Inst: code[i].Src}
				}
				if b.err != nil {
					return
				}
				b.f.work.Step(1)
				b.inst(code[i].Inst, code[i].Src)
			}
		case stmtIf:
			t := &b.flow.term[s.at]
			n := b.node(If, t.Src)
			n.Args = append(n.Args, b.arg(&t.Pred, isa.Pred, t.Src))
			n.Regions = []*Region{{}, {}}
			b.push(n)
			b.nested(s.body, n.Regions[0])
		case stmtBlock:
			s.node = b.node(Block, b.flow.src(s.at))
			s.node.Regions = []*Region{{}}
			lives := s.defs.and(&b.live.in[s.at])
			s.regs = lives.list()
			b.carry(len(s.regs), int(s.node.Src))
			b.push(s.node)
			b.nested(s.body, s.node.Regions[0])
			if b.err != nil {
				return
			}
			for i, reg := range s.regs {
				b.set(int(reg), s.node.Results[i])
			}
		case stmtLoop:
			b.loop(s)
		case stmtBr:
			b.br(s.to, s.at)
		}
	}
}

func (b *builder) loop(s *stmt) {
	head := b.live.in[s.at]
	src := b.flow.src(s.at)
	switch { // what a round's fuel is charged to
	case s.counted:
		src = b.flow.term[s.head].Src
	case b.flow.turn[s.at] >= 0:
		src = b.flow.turn[s.at]
	}
	n := b.node(Loop, src)
	n.Counted = s.counted
	if s.counted {
		t := &b.flow.term[s.head]
		head.union(&b.live.in[t.To[1]])
		n.Args = append(n.Args, b.arg(&t.Count, isa.U32, t.Src))
	}
	changed := s.defs.and(&head)
	s.regs = changed.list()
	b.carry(2*len(s.regs), src)
	s.node = n
	r := &Region{}
	n.Regions = []*Region{r}
	for _, reg := range s.regs {
		init := b.get(int(reg))
		n.Args = append(n.Args, init)
		r.addParam(init.Type)
	}
	b.push(n)
	mark := len(b.undo)
	b.depth++
	for i, reg := range s.regs {
		b.set(int(reg), r.Params[i])
	}
	b.nested(s.body, r)
	b.depth--
	for len(b.undo) > mark {
		c := b.undo[len(b.undo)-1]
		b.undo = b.undo[:len(b.undo)-1]
		b.env[c.reg] = c.old
	}
	if s.counted {
		for i, reg := range s.regs {
			b.set(int(reg), n.addResult(r.Params[i].Type))
		}
	}
}

// br appends a Br at the end of block at.
func (b *builder) br(to *stmt, at int) {
	n := b.node(Br, -1)
	if to != nil {
		n.Target = to.node
		b.carry(len(to.regs), b.flow.term[at].Src)
		n.Args = make([]*Value, 0, len(to.regs))
		for _, reg := range to.regs {
			n.Args = append(n.Args, b.get(int(reg)))
		}
		// A Block's results take their types from the first Br to it: all
		// agree where the register is live.
		if to.kind == stmtBlock && len(to.node.Results) < len(n.Args) {
			for _, a := range n.Args {
				to.node.addResult(a.Type)
			}
		}
	}
	b.push(n)
}

// carry counts values carried by what stands at instruction src.
func (b *builder) carry(count, src int) {
	if b.carried += count; b.carried > MaxCarried && b.err == nil {
		b.err = &SizeError{Inst: max(src, 0), Carried: true}
	}
	b.f.work.Step(1 + count)
}

func (b *builder) node(op Op, src int) *Node {
	n := &Node{Op: op, Src: int32(src), Site: -1}
	n.Args = n.room[:0:roomForArgs]
	return n
}

func (b *builder) push(n *Node) *Node {
	b.nodes++
	b.region.Nodes = append(b.region.Nodes, n)
	return n
}

// reductions maps a reduction over registers to the operation of its chain.
var reductions = map[isa.Op]isa.Op{
	isa.REDUCE_ADD: isa.ADD, isa.REDUCE_MIN: isa.MIN, isa.REDUCE_MAX: isa.MAX, isa.REDUCE_MUL: isa.MUL,
}

// op2 appends op on two values of type t.
func (b *builder) op2(op isa.Op, t isa.Type, x, y *Value, src int) *Value {
	n := b.node(Op(op), src)
	n.Type = t
	n.Args = append(n.Args, x, y)
	return b.push(n).addResult(t)
}

// inst appends what an instruction becomes. Only the structural rows have
// cases of their own.
func (b *builder) inst(in *isa.Inst, src int) {
	def := func(v *Value) {
		if d := &in.Args[0]; d.Kind == isa.ArgPred {
			b.set(predVar(d.Reg), v)
		} else {
			b.set(int(d.Reg), v)
		}
	}
	t := in.Type
	switch in.Op {
	case isa.MOV:
		def(b.arg(&in.Args[1], t, src))
	case isa.MOV_IMM:
		def(b.f.Const(t, in.Args[1].Bits&t.Mask()))
	case isa.SREG:
		if s := isa.Special(in.Args[1].Bits); s > isa.N {
			def(b.inSpace(s, src))
			return
		}
		b.plain(in, src)
	case isa.MAD:
		p := b.op2(isa.MUL, t, b.arg(&in.Args[1], t, src), b.arg(&in.Args[2], t, src), src)
		def(b.op2(isa.ADD, t, p, b.arg(&in.Args[3], t, src), src))
	default:
		if first, count, ok := registerRun(in); ok {
			v := b.get(first)
			for r := first + 1; r < first+count; r++ {
				v = b.op2(reductions[in.Op], t, v, b.get(r), src)
			}
			def(v)
			return
		}
		b.plain(in, src)
	}
}

// plain appends the node of an instruction that keeps its operation.
func (b *builder) plain(in *isa.Inst, src int) {
	row, _ := isa.Lookup(in.Op)
	n := b.node(Op(in.Op), src)
	if k := len(row.Operands) - 1; k > roomForArgs {
		n.Args = make([]*Value, 0, k)
	}
	n.Form = in.Form
	n.Cond = in.Cond.Signed()
	var result isa.Type
	var dst int
	for i := range row.Operands {
		if a := &in.Args[i]; a.Kind == isa.ArgAddr {
			b.address(n, a, src)
		}
	}
	for i := range row.Operands {
		o, a := &row.Operands[i], &in.Args[i]
		t := operandType(o.Type, in)
		switch o.Kind {
		case isa.Dst, isa.PredDst:
			switch a.Kind {
			case isa.ArgReg:
				result, dst = t, int(a.Reg)
			case isa.ArgPred:
				result, dst = isa.Pred, predVar(a.Reg)
			default: // an optional result not asked for
				result, dst = t, -1
			}
		case isa.Src, isa.SrcReg, isa.PredSrc:
			v := b.arg(a, t, src)
			if o.Type == isa.TypeAnyInt {
				v = b.wide(v, src)
			}
			n.Args = append(n.Args, v)
		case isa.Imm, isa.ParamRef, isa.DataRef, isa.SpecialRef, isa.ScopeRef:
			n.Imm = a.Bits
			switch o.Kind {
			case isa.SpecialRef:
				result = isa.Special(a.Bits).Type()
			case isa.DataRef:
				n.Imm = b.tables[a.Bits]
			}
		}
	}
	switch in.Op {
	case isa.POOL_ALLOC:
		ord, ok := b.allocs[src]
		if !ok {
			ord = uint64(len(b.allocs))
			b.allocs[src] = ord
		}
		n.Imm |= ord << 32
	case isa.BAR_SYNC:
		n.Imm = 0 // all barriers of a block are one
	}
	if result == isa.NoType {
		b.push(n)
		return
	}
	var v *Value
	if n.isLeaf() {
		v = b.f.leaf(n.Op, n.Form, n.Imm, result)
	} else {
		v = b.push(n).addResult(result)
	}
	if dst >= 0 {
		b.set(dst, v)
	}
}

// operandType resolves an operand type of the table for an instruction.
func operandType(t isa.Type, in *isa.Inst) isa.Type {
	switch t {
	case isa.TypeT:
		return in.Type
	case isa.TypeFrom:
		return in.From
	case isa.TypeAnyInt:
		return isa.I64
	}
	return t
}

// arg returns the value of a source operand, t its type if it is an immediate.
func (b *builder) arg(a *isa.Arg, t isa.Type, src int) *Value {
	switch a.Kind {
	case isa.ArgImm:
		return b.f.Const(t, a.Bits&t.Mask())
	case isa.ArgPred:
		v := b.get(predVar(a.Reg))
		if a.Not {
			n := b.node(Op(isa.NOT), src)
			n.Type = isa.Pred
			n.Args = append(n.Args, v)
			v = b.push(n).addResult(isa.Pred)
		}
		return v
	}
	return b.get(int(a.Reg))
}

// clamp lowers unsigned 64-bit values to at most 2^63 - 1: with a positive
// constant added they are as stray as they were, where a negative number might
// not be.
func (b *builder) clamp(v *Value, src int) *Value {
	n := b.node(Op(isa.MIN), src)
	n.Type = isa.U64
	n.Args = append(n.Args, v, b.f.Const(isa.U64, 1<<63-1))
	return b.push(n).addResult(isa.U64)
}

// wide converts an integer to I64. Unsigned 64-bit values from 2^63 on come
// out negative, which is as stray as they were while nothing positive is added.
func (b *builder) wide(v *Value, src int) *Value {
	if v.Type == isa.I64 {
		return v
	}
	return b.convert(isa.I64, v, src)
}

// convert appends a CVT to another type.
func (b *builder) convert(to isa.Type, v *Value, src int) *Value {
	n := b.node(Op(isa.CVT), src)
	n.Type, n.From = to, v.Type
	n.Args = append(n.Args, v)
	return b.push(n).addResult(to)
}

// address makes the static and the value part of n's address.
func (b *builder) address(n *Node, a *isa.Arg, src int) {
	n.Mem = Mem{Mode: a.Mode, Slot: int(a.Slot), Offset: a.Offset()}
	switch a.Mode {
	case isa.AddrPhi:
		n.Mem.Mode = isa.AddrByte
	case isa.AddrIndirect:
		n.Mem.Slot = 0
		n.Args = append(n.Args, b.wide(b.get(int(a.Handle)), src))
	case isa.AddrShared:
		n.Mem.Slot = 0
	case isa.AddrIndex:
		n.Mem.Offset = 0
		return
	case isa.AddrFlat:
		b.flat(n, a, src)
		return
	}
	if a.HasReg {
		v := b.get(int(a.Reg))
		switch {
		case v.Type != isa.U64:
		case a.Offset() > 0:
			v = b.clamp(v, src)
		case a.Offset() < -1<<62:
			// It may lead back from 2^63 and beyond into a slot. What goes
			// below 0 comes out above 2^63, and is stray as it was.
			v = b.op2(isa.SUB, isa.U64, v, b.f.Const(isa.U64, uint64(-a.Offset())), src)
			n.Mem.Offset = 0
		}
		n.Mem.HasOff = true
		n.Args = append(n.Args, b.wide(v, src))
	}
}
