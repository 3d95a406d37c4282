package accuracy

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
)

// NewEvaluator compiles the expansion of op for t into a list of loops over
// vectors, one an instruction. With plain, every instruction is left to the
// table's own evaluator: slow, and what the loops are tested against.
func NewEvaluator(op isa.Op, t isa.Type, plain bool) (*Evaluator, error) {
	v, ok := math.Expansion(op, t)
	if !ok {
		return nil, fmt.Errorf("%s has no expansion for %s", op, t)
	}
	p := v.Program
	c := &compiler{p: p, plain: plain, e: &Evaluator{ty: t, out: new(vector)}}
	for range p.Slots[1:] {
		c.e.in = append(c.e.in, new(vector))
	}
	err := c.body(&body{c: c, file: new(file)}, 0, len(p.Insts), &c.e.steps)
	return c.e, err
}

// compiler turns the instructions of a program into steps. Expansions are
// straight-line but for loops and branches forward, one level deep, so the
// type of a register is that of the last write before, in the order of the
// program.
type compiler struct {
	p     *isa.Program
	plain bool
	types [isa.NumRegisters]isa.Type
	e     *Evaluator
}

// body is straight-line code at work on one register file, and what it does to
// the registers it shares with the code around it.
type body struct {
	c    *compiler
	file *file
	// reads holds the type of each register or predicate read before it is
	// written, writes that of the last write.
	reads, writes map[*vector]isa.Type
	outer         map[*vector]*vector // the enclosing file's vector for each
	up            *body
}

func (b *body) vector(a isa.Arg) *vector {
	regs := b.file.regs[:]
	if a.Kind == isa.ArgPred {
		regs = b.file.preds[:]
	}
	v := &regs[a.Reg]
	if *v == nil {
		*v = new(vector)
		if b.up != nil {
			b.outer[*v] = b.up.vector(a)
		}
	}
	return *v
}

func (b *body) read(a isa.Arg, t isa.Type) *vector {
	v := b.vector(a)
	if b.up != nil && b.writes[v] == isa.NoType {
		b.reads[v] = t
	}
	return v
}

func (b *body) write(a isa.Arg, t isa.Type) *vector {
	v := b.vector(a)
	if b.up != nil {
		b.writes[v] = t
	}
	return v
}

// body compiles instructions from … to−1.
func (c *compiler) body(b *body, from, to int, steps *[]step) error {
	for at := from; at < to; at++ {
		in := &c.p.Insts[at]
		switch in.Op {
		case isa.EXIT:
			continue
		case isa.LOOP, isa.BRA:
			label := in.Args[0]
			if in.Op == isa.LOOP {
				label = in.Args[1]
			}
			end := c.p.Labels[label.Bits].At
			s, err := c.detour(b, in, at+1, end)
			if err != nil {
				return err
			}
			*steps = append(*steps, s)
			at = end - 1
			continue
		}
		s, err := c.instruction(b, in)
		if err != nil {
			return fmt.Errorf("instruction %d, %s: %v", at, in.Op, err)
		}
		*steps = append(*steps, s)
	}
	return nil
}

// operandType returns the type of operand o of in.
func (c *compiler) operandType(in *isa.Inst, o isa.Operand, a isa.Arg) isa.Type {
	switch o.Type {
	case isa.TypeT:
		return in.Type
	case isa.TypeFrom:
		return in.From
	case isa.TypeAnyInt:
		if a.Kind == isa.ArgReg {
			return c.types[a.Reg]
		}
		return isa.I64
	}
	return o.Type
}

// instruction compiles one that is not control flow.
func (c *compiler) instruction(b *body, in *isa.Inst) (step, error) {
	row, _ := isa.Lookup(in.Op)
	args := make([]*vector, len(row.Operands))
	types := make([]isa.Type, len(row.Operands))
	for k := len(args) - 1; k >= 0; k-- { // sources before the result
		o, a := row.Operands[k], in.Args[k]
		t := c.operandType(in, o, a)
		types[k] = t
		switch {
		case a.Kind == isa.ArgPred && a.Not:
			return nil, fmt.Errorf("a negated predicate, which the measuring loops lack")
		case o.Kind == isa.Dst || o.Kind == isa.PredDst:
			args[k] = b.write(a, t)
			if a.Kind == isa.ArgReg {
				c.types[a.Reg] = t
			}
		case a.Kind == isa.ArgReg || a.Kind == isa.ArgPred:
			args[k] = b.read(a, t)
		case a.Kind == isa.ArgImm:
			args[k] = splat(t, a.Bits)
		}
	}
	switch in.Op {
	case isa.LDG:
		return move(in.Type, args[0], c.e.in[in.Args[1].Slot]), nil
	case isa.STG:
		return move(in.Type, c.e.out, args[0]), nil
	case isa.LDC:
		table, dst, index := c.p.Data[in.Args[1].Bits].Values, args[0], args[2]
		return func(n int) {
			for i := range n {
				store(dst, types[0], i, table[load(index, types[2], i)])
			}
		}, nil
	}
	if row.Eval == nil {
		return nil, fmt.Errorf("not a primitive")
	}
	if !c.plain {
		if s := fast(in, args); s != nil {
			return s, nil
		}
	}
	form, dst, src := in.Form, args[0], args[1:]
	return func(n int) {
		for i := range n {
			var v [3]uint64
			for k, s := range src {
				v[k] = load(s, types[k+1], i)
			}
			r, _ := row.Eval(form, v[0], v[1], v[2])
			store(dst, types[0], i, r)
		}
	}, nil
}

// detour compiles the instructions from … to−1, which only some lanes come to,
// or not all as often: those of a LOOP, or those that a BRA jumps over. Each
// round gathers the lanes that are still there into a register file of the
// body's own and puts back what the body wrote.
func (c *compiler) detour(up *body, in *isa.Inst, from, to int) (step, error) {
	if up.up != nil {
		return nil, fmt.Errorf("instruction %d: a loop or branch within another, which the measuring loops lack", from-1)
	}
	var goes func(lane int, round uint32) bool
	switch a := in.Args[0]; {
	case in.Op == isa.LOOP && a.Kind == isa.ArgReg:
		rounds := make([]uint32, width) // read once, and what it was read from may be written
		count := as[uint32](up.read(a, isa.U32))
		goes = func(lane int, round uint32) bool {
			if round == 0 {
				rounds[lane] = count[lane]
			}
			return rounds[lane] > round
		}
	case in.Op == isa.BRA && in.Args[1].Kind == isa.ArgPred && !in.Args[1].Not && to >= from:
		leaves := as[uint8](up.read(in.Args[1], isa.Pred))
		goes = func(lane int, round uint32) bool { return round == 0 && leaves[lane] == 0 }
	default:
		return nil, fmt.Errorf("instruction %d: a fixed count, or a branch back or under a negated predicate or none, which the measuring loops lack", from-1)
	}
	b := &body{c: c, file: new(file), up: up,
		reads: map[*vector]isa.Type{}, writes: map[*vector]isa.Type{}, outer: map[*vector]*vector{}}
	var steps []step
	if err := c.body(b, from, to, &steps); err != nil {
		return nil, err
	}
	var ins, outs []func(lanes []int)
	for v, t := range b.reads {
		ins = append(ins, gather(t, v, b.outer[v]))
	}
	for v, t := range b.writes {
		outs = append(outs, scatter(t, b.outer[v], v))
	}
	lanes := make([]int, 0, width)
	return func(n int) {
		for round := uint32(0); ; round++ {
			lanes = lanes[:0]
			for i := range n {
				if goes(i, round) {
					lanes = append(lanes, i)
				}
			}
			if len(lanes) == 0 {
				return
			}
			for _, g := range ins {
				g(lanes)
			}
			for _, s := range steps {
				s(len(lanes))
			}
			for _, s := range outs {
				s(lanes)
			}
		}
	}, nil
}
