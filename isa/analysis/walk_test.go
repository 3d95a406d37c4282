package analysis

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/graph"
	"github.com/hologram-project/hologram/isa/ir"
)

// walk runs a Func lane by lane, by the table's evaluators, and tells of every
// value, access and fault. What it loads from memory is made up: proofs must
// hold whatever is there. What nothing writes is the same for all who read
// it; all else is different each time.
type walk struct {
	f     *ir.Func
	l     *Launch
	seed  uint64
	count uint64
	steps int // left for the lane

	lane   uint64
	index  [3]uint32
	block  [3]uint32
	cells  []uint64
	rounds []uint64 // of the loops around, from outside in
	loops  []*ir.Node
	stored uint64 // slots that the analysis says are written, and those that a lane has written

	onValue func(v *ir.Value, cell uint64)
	onFault func(n *ir.Node)
	onMem   func(n *ir.Node, offset int64)
	onRound func(n *ir.Node, round uint64)
}

func hashOf(values ...uint64) uint64 {
	h := uint64(1)
	for _, v := range values {
		h = (h ^ v) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// made returns a made up cell of type t: often a small number, at times the greatest
// or the least.
func made(t isa.Type, from uint64) uint64 {
	v := from >> 8
	switch from % 10 {
	case 0, 1, 2, 3:
		v %= 8
	case 4, 5:
		v = -(v % 4)
	case 6:
		v = t.Mask()>>1 + v%2
	}
	return v & t.Mask()
}

func (w *walk) random(t isa.Type) uint64 {
	w.count++
	x := (w.seed + w.count) * 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return made(t, x^x>>32)
}

// leave is what a Br throws; target nil ends the lane.
type leave struct {
	target *ir.Node
	args   []uint64
	tired  bool
}

// run runs a lane to its end or to its last step; false if that came first.
func (w *walk) run(lane uint64) bool {
	w.lane = lane
	per := uint64(w.l.Block[0]) * uint64(w.l.Block[1]) * uint64(w.l.Block[2])
	b, i := lane/per, lane%per
	w.index = [3]uint32{uint32(i % uint64(w.l.Block[0])), uint32(i / uint64(w.l.Block[0]) % uint64(w.l.Block[1])),
		uint32(i / uint64(w.l.Block[0]) / uint64(w.l.Block[1]))}
	w.block = [3]uint32{uint32(b % uint64(w.l.Grid[0])), uint32(b / uint64(w.l.Grid[0]) % uint64(w.l.Grid[1])),
		uint32(b / uint64(w.l.Grid[0]) / uint64(w.l.Grid[1]))}
	if w.cells == nil {
		w.cells = make([]uint64, w.f.NumValues)
	}
	w.rounds, w.loops, w.steps = w.rounds[:0], w.loops[:0], 1500
	w.stored |= storedSlots(w.f.Body)
	left := w.region(w.f.Body)
	return left == nil || !left.tired
}

func (w *walk) set(v *ir.Value, cell uint64) {
	w.cells[v.ID] = cell
	if w.onValue != nil {
		w.onValue(v, cell)
	}
}

func (w *walk) args(list []*ir.Value) []uint64 {
	out := make([]uint64, len(list))
	for i, v := range list {
		out[i] = w.cells[v.ID]
	}
	return out
}

func (w *walk) setAll(list []*ir.Value, cells []uint64) {
	for i, v := range list {
		w.set(v, cells[i])
	}
}

// region runs r and returns how it was left, nil if at its end.
func (w *walk) region(r *ir.Region) *leave {
	for _, n := range r.Nodes {
		if w.steps--; w.steps < 0 {
			return &leave{tired: true}
		}
		switch n.Op {
		case ir.Const:
			w.set(n.Result(), n.Imm)
		case ir.If:
			side := n.Regions[1]
			if w.cells[n.Args[0].ID] != 0 {
				side = n.Regions[0]
			}
			if left := w.region(side); left != nil {
				return left
			}
			w.setAll(n.Results, w.args(side.Yield))
		case ir.Block:
			left := w.region(n.Regions[0])
			switch {
			case left == nil:
				w.setAll(n.Results, w.args(n.Regions[0].Yield))
			case left.target == n && !left.tired:
				w.setAll(n.Results, left.args)
			default:
				return left
			}
		case ir.Loop:
			if left := w.loop(n); left != nil {
				return left
			}
		case ir.Br:
			return &leave{target: n.Target, args: w.args(n.Args)}
		default:
			w.inst(n)
		}
	}
	return nil
}

func (w *walk) loop(n *ir.Node) *leave {
	r := n.Regions[0]
	now := w.args(n.Args[inits(n):])
	count := uint64(1) << 62
	if n.Counted {
		count = w.cells[n.Args[0].ID]
	}
	w.loops, w.rounds = append(w.loops, n), append(w.rounds, 0)
	defer func() { w.loops, w.rounds = w.loops[:len(w.loops)-1], w.rounds[:len(w.rounds)-1] }()
	for round := range count {
		w.rounds[len(w.rounds)-1] = round
		if w.onRound != nil {
			w.onRound(n, round)
		}
		if w.steps--; w.steps < 0 {
			return &leave{tired: true}
		}
		w.setAll(r.Params, now)
		left := w.region(r)
		switch {
		case left == nil:
			now = w.args(r.Yield)
		case left.target == n && !left.tired:
			now = left.args
		default:
			return left
		}
	}
	w.setAll(n.Results, now)
	return nil
}

func (w *walk) special(s isa.Special) uint64 {
	switch {
	case s <= isa.LaneZ:
		return uint64(w.index[s])
	case s <= isa.BlockZ:
		return uint64(w.block[s-isa.BlockX])
	case s <= isa.BlockDimZ:
		return uint64(w.l.Block[s-isa.BlockDimX])
	case s <= isa.GridDimZ:
		return uint64(w.l.Grid[s-isa.GridDimX])
	case s == isa.GlobalLane:
		return w.lane
	}
	return w.l.N
}

func (w *walk) fault(n *ir.Node) {
	if w.onFault != nil {
		w.onFault(n)
	}
}

func (w *walk) inst(n *ir.Node) {
	args := w.args(n.Args)
	op := n.Op.Inst()
	row, _ := isa.Lookup(op)
	v := n.Result()
	result := func(cell uint64) {
		if v != nil {
			w.set(v, cell)
		}
	}
	if n.Mem.Mode != 0 {
		result(w.memory(n, args, row))
		return
	}
	switch {
	case op == isa.SREG:
		result(w.special(isa.Special(n.Imm)))
	case op == isa.LDP:
		result(w.l.Params[n.Imm])
	case op == isa.CLS_GET:
		result(uint64(graph.OfBlock(w.block[0])))
	case op == isa.UNITY_TEST:
		result(uint64(w.block[0] & 1))
	case op == isa.LDC:
		d := w.f.Data[n.Imm].Values
		if args[0] >= uint64(len(d)) {
			w.fault(n)
			result(0)
			return
		}
		result(d[args[0]])
	case op == isa.RES_ACCUM:
		if args[0] >= isa.NumClasses {
			w.fault(n)
		}
	case row.Effect&isa.Barrier != 0:
		switch op {
		case isa.BLOCK_REDUCE_ADD, isa.BLOCK_REDUCE_MIN, isa.BLOCK_REDUCE_MAX, isa.BLOCK_REDUCE_MUL:
			result(made(v.Type, hashOf(append([]uint64{w.seed, uint64(w.block[0]), uint64(w.block[1]), uint64(w.block[2]), uint64(v.ID)}, w.rounds...)...)))
		case isa.BAR_SYNC:
		default:
			result(w.random(v.Type))
		}
	case row.Effect&isa.State != 0:
		if v != nil {
			result(w.random(v.Type))
		}
	case row.Eval == nil || row.Expand.Has(n.Type):
		result(made(v.Type, hashOf(append(args, uint64(op))...)))
	default:
		var c [3]uint64
		if k := copy(c[:], args); k < 3 && op == isa.NBR_GET {
			c[k] = n.Imm
		}
		cell, kind := row.Eval(n.Form, c[0], c[1], c[2])
		if kind != isa.NoFault {
			w.fault(n)
		}
		result(cell)
	}
}

func (w *walk) memory(n *ir.Node, args []uint64, row *isa.Row) uint64 {
	slot := n.Mem.Slot
	if n.Mem.Mode == isa.AddrIndex {
		w.wrote(row, slot)
		if w.onMem != nil {
			w.onMem(n, 0)
		}
		return w.random(n.Type)
	}
	off := n.Mem.Offset
	stray := false
	if n.Mem.HasOff {
		reg := int64(args[n.AddrArgs()-1])
		sum := reg + off
		stray = (reg < 0) == (off < 0) && (sum < 0) != (reg < 0)
		off = sum
	}
	if w.onMem != nil {
		w.onMem(n, off)
	}
	reach := int64(0)
	switch n.Mem.Mode {
	case isa.AddrShared:
		reach = int64(w.f.Shared)
	case isa.AddrIndirect:
		if args[0] >= uint64(len(w.l.SlotBytes)) {
			w.fault(n)
			return 0
		}
		slot = int(args[0])
		reach = w.l.SlotBytes[slot]
	default:
		reach = w.l.SlotBytes[slot]
	}
	if stray || off < 0 || off > reach-int64(n.Type.Size()) {
		w.fault(n)
		return 0
	}
	if n.Mem.Mode != isa.AddrShared {
		w.wrote(row, slot)
	}
	if n.Mem.Mode == isa.AddrByte && row.Effect&isa.Reads != 0 && w.stored>>slot&1 == 0 {
		return made(n.Type, hashOf(w.seed, uint64(slot), uint64(off), uint64(n.Type)))
	}
	return w.random(n.Type)
}

// wrote notes what an access writes, whatever the analysis says of it.
func (w *walk) wrote(row *isa.Row, slot int) {
	if row.Effect&isa.Writes != 0 {
		w.stored |= 1 << slot
	}
}
