package interp

import (
	"encoding/binary"
	"math"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/graph"
)

// element is the operation that a reduction, scan or atomic repeats.
var element = map[isa.Op]isa.Op{
	isa.REDUCE_ADD: isa.ADD, isa.REDUCE_MIN: isa.MIN, isa.REDUCE_MAX: isa.MAX, isa.REDUCE_MUL: isa.MUL,
	isa.BLOCK_REDUCE_ADD: isa.ADD, isa.BLOCK_REDUCE_MIN: isa.MIN, isa.BLOCK_REDUCE_MAX: isa.MAX, isa.BLOCK_REDUCE_MUL: isa.MUL,
	isa.BLOCK_SCAN_ADD: isa.ADD, isa.BLOCK_SCAN_MIN: isa.MIN, isa.BLOCK_SCAN_MAX: isa.MAX, isa.BLOCK_SCAN_MUL: isa.MUL,
	isa.ATOM_ADD: isa.ADD, isa.ATOM_MIN: isa.MIN, isa.ATOM_MAX: isa.MAX,
	isa.ATOM_AND: isa.AND, isa.ATOM_OR: isa.OR, isa.ATOM_XOR: isa.XOR,
}

// eval evaluates a primitive that cannot fault.
func eval(op isa.Op, t isa.Type, a, b uint64) uint64 {
	row, _ := isa.Lookup(op)
	r, _ := row.Eval(isa.Form{Type: t}, a, b, 0)
	return r
}

// read returns the cell that an operand holds.
func (l *lane) read(a *isa.Arg) uint64 {
	switch a.Kind {
	case isa.ArgReg:
		return l.regs[a.Reg]
	case isa.ArgPred:
		if l.preds[a.Reg] != a.Not {
			return 1
		}
		return 0
	}
	return a.Bits // an immediate, or the number of what is named
}

// write gives a register or predicate its value.
func (l *lane) write(a *isa.Arg, t isa.Type, cell uint64) {
	if a.Kind == isa.ArgPred {
		l.preds[a.Reg] = cell != 0
		return
	}
	l.regs[a.Reg], l.types[a.Reg] = cell, t
}

// integer returns the value of an integer operand of any type; false if it
// is not below 2^63.
func (l *lane) integer(a *isa.Arg) (int64, bool) {
	v := l.read(a)
	if a.Kind == isa.ArgReg {
		switch l.types[a.Reg] {
		case isa.I32:
			return int64(int32(v)), true
		case isa.U64:
			return int64(v), v < 1<<63
		}
	}
	return int64(v), true
}

// resultType returns the type of what in writes, or NoType if it writes nothing.
func resultType(in *isa.Inst) isa.Type {
	row, _ := isa.Lookup(in.Op)
	if len(row.Operands) == 0 || row.Operands[0].Kind != isa.Dst && row.Operands[0].Kind != isa.PredDst {
		return isa.NoType
	}
	return operandType(in, row.Operands[0])
}

// operandType returns the type of an operand of in.
func operandType(in *isa.Inst, o isa.Operand) isa.Type {
	switch o.Type {
	case isa.TypeT:
		return in.Type
	case isa.TypeFrom:
		return in.From
	case isa.TypeNamedT: // of SREG alone
		return isa.Special(in.Args[1].Bits).Type()
	}
	return o.Type
}

// stepLane runs the instruction at the lane's pc.
func (m *machine) stepLane(l *lane) {
	at := l.pc
	in := &m.Program.Insts[at]
	if m.watch != nil {
		m.watch.before(m, l, in)
	}
	switch {
	case in.Op == isa.BRA:
		if in.Args[1].Kind == isa.ArgNone || l.read(&in.Args[1]) != 0 {
			m.goTo(l, at, isa.BackTaken, m.label(&in.Args[0]))
		} else {
			m.goTo(l, at, isa.BackOnward, at+1)
		}
	case in.Op == isa.LOOP:
		m.enter(l, at, m.label(&in.Args[1]), uint32(l.read(&in.Args[0])))
	case in.Op == isa.CALL:
		l.calls = append(l.calls, at)
		l.pc = m.label(&in.Args[0])
	case in.Op == isa.RET:
		m.back(l)
	case in.Op == isa.EXIT:
		l.state = ended
	case m.decoded[at].row.Effect&isa.Barrier != 0:
		l.state = waiting // meet goes on
		return
	default:
		m.asked = backends.Asked{}
		cell, fault := m.execute(l, in)
		if fault != isa.NoFault {
			m.report(fault, at, l)
		}
		m.finish(l, in, cell)
		return
	}
	if l.step != nil {
		m.watch.after(l, in)
	}
}

// finish writes the result of the instruction at pc and goes on to the next.
func (m *machine) finish(l *lane, in *isa.Inst, cell uint64) {
	if t := m.decoded[l.pc].result; t != isa.NoType {
		l.write(&in.Args[0], t, cell)
	}
	if l.step != nil {
		m.watch.after(l, in)
	}
	m.goTo(l, l.pc, isa.BackOnward, l.pc+1)
}

func (m *machine) label(a *isa.Arg) int { return m.Program.Labels[a.Bits].At }

// execute returns what an instruction of straight-line code computes, having
// done what else it does.
func (m *machine) execute(l *lane, in *isa.Inst) (uint64, isa.FaultKind) {
	a := &in.Args
	switch in.Op {
	case isa.LDG, isa.LDS:
		p, fault := m.locate(l, &a[1], in.Type)
		return p.load(), fault
	case isa.STG, isa.STS:
		p, fault := m.locate(l, &a[1], in.Type)
		p.store(l.read(&a[0]))
		return 0, fault
	case isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR, isa.ATOM_EXCH, isa.ATOM_CAS:
		p, fault := m.locate(l, &a[1], in.Type)
		old, v := p.load(), l.read(&a[2])
		switch {
		case in.Op == isa.ATOM_EXCH:
			p.store(v)
		case in.Op != isa.ATOM_CAS:
			p.store(eval(element[in.Op], in.Type, old, v))
		case old == v:
			p.store(l.read(&a[3]))
		}
		return old, fault
	case isa.POOL_ALLOC:
		n := m.code.pools[l.pc]
		l.pools[n] = make([]byte, a[1].Bits)
		return uint64(n) + 1, isa.NoFault
	case isa.POOL_FREE:
		if l.pool(&a[0]) == nil {
			return 0, isa.FaultHandle
		}
		l.pools[l.read(&a[0])-1] = nil
	case isa.POOL_LOAD:
		p, fault := l.inPool(&a[1], &a[2], in.Type)
		return p.load(), fault
	case isa.POOL_STORE:
		p, fault := l.inPool(&a[1], &a[2], in.Type)
		p.store(l.read(&a[0]))
		return 0, fault
	case isa.LDC:
		table := m.Program.Data[a[1].Bits].Values
		i, ok := l.integer(&a[2])
		if !ok || i < 0 || i >= int64(len(table)) {
			if ok { // else it has more than 64 bits
				m.asked = backends.Asked{Known: 1, At: i}
			}
			return 0, isa.FaultAccess
		}
		return table[i], isa.NoFault
	case isa.MOV_IMM:
		return a[1].Bits & in.Type.Mask(), isa.NoFault
	case isa.LDP:
		return m.launch.Params[a[1].Bits], isa.NoFault
	case isa.SREG:
		return m.special(l, isa.Special(a[1].Bits)), isa.NoFault
	case isa.MEM_FENCE: // one lane at a time runs, in order
	case isa.CLS_GET:
		return uint64(graph.OfBlock(m.block[0])), isa.NoFault
	case isa.UNITY_TEST:
		if float64(graph.UnityDistance(graph.OfBlock(m.block[0]))) <= math.Float64frombits(a[1].Bits) {
			return 1, isa.NoFault
		}
	case isa.RES_ACCUM:
		class := l.read(&a[0])
		if class >= isa.NumClasses {
			return 0, isa.FaultClass
		}
		if r := m.launch.Record; r != nil {
			r.Residue[class] += l.read(&a[1])
		}
	case isa.PHASE_GET:
		return uint64(l.phase), isa.NoFault
	case isa.PHASE_ADV:
		l.phase = graph.AdvancePhase(l.phase, uint16(a[0].Bits))
	case isa.REDUCE_ADD, isa.REDUCE_MIN, isa.REDUCE_MAX, isa.REDUCE_MUL:
		regs := l.regs[a[1].Reg:][:a[2].Bits]
		sum := regs[0]
		for _, v := range regs[1:] {
			sum = eval(element[in.Op], in.Type, sum, v)
		}
		return sum, isa.NoFault
	default:
		return m.evaluate(l, in)
	}
	return 0, isa.NoFault
}

// evaluate computes a function of the operands, by the table's evaluator or,
// where it has none, by the expansion.
func (m *machine) evaluate(l *lane, in *isa.Inst) (uint64, isa.FaultKind) {
	d := &m.decoded[l.pc]
	var src [isa.MaxOperands]uint64
	for n, i := range d.sources {
		src[n] = l.read(&in.Args[i])
	}
	if d.row.Eval != nil {
		return d.row.Eval(in.Form, src[0], src[1], src[2])
	}
	return m.expand(expansion{in.Op, in.Type}, src[:len(d.sources)]), isa.NoFault
}

// expand runs an expansion, whose slots are its operands and, last, its
// result, as the one lane of a launch of its own.
func (m *machine) expand(e expansion, args []uint64) uint64 {
	x := m.nested[e]
	if x == nil {
		x = newMachine(m.expansions[e], &backends.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, N: 1})
		for range x.Program.Slots {
			x.slots = append(x.slots, slot{mem: make([]byte, 8)})
		}
		m.nested[e] = x
	}
	for i, cell := range args {
		binary.LittleEndian.PutUint64(x.slots[i].mem, cell)
	}
	out := x.slots[len(args)].mem
	clear(out)
	l := &x.lanes[0]
	x.start(l, 0, 0)
	for l.state == running {
		x.stepLane(l)
	}
	return binary.LittleEndian.Uint64(out)
}
