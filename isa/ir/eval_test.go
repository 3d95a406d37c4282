package ir

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// machine runs one lane, alone in its block, on slots whose element
// slot[index] is number at. It stands in for a backend in tests of the passes:
// walkGraph and walkTree share what an instruction does, so what they compare
// is the order and choice of instructions.
type machine struct {
	data    []isa.Data
	types   []isa.Type
	slots   [][]byte
	shared  []byte
	params  []uint64
	at      int
	phase   uint64
	residue [isa.NumClasses]uint64
	pools   map[uint64][]byte
	freed   map[uint64]bool
	faults  map[isa.FaultKind]bool
	steps   int // left, so that endless programs end
	fuel    int // left; −1: no limit
	met     int // barriers
}

type outOfSteps struct{}
type laneEnds struct{}

func newMachine(p *isa.Program, slots [][]byte, params []uint64, at int) *machine {
	m := &machine{data: p.Data, params: params, at: at, shared: make([]byte, p.Shared),
		pools: map[uint64][]byte{}, freed: map[uint64]bool{}, faults: map[isa.FaultKind]bool{}, steps: 1 << 16, fuel: -1}
	for i, s := range p.Slots {
		m.types = append(m.types, s.Type)
		m.slots = append(m.slots, slices.Clone(slots[i]))
	}
	return m
}

// state is all that one can see of a machine after a run; all NaNs are one.
func (m *machine) state() string {
	kinds := slices.Sorted(maps.Keys(m.faults))
	for i, t := range m.types {
		if !t.Float() {
			continue
		}
		inf := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
		for b := m.slots[i]; len(b) >= t.Size(); b = b[t.Size():] {
			if get(b[:t.Size()])&(t.Mask()>>1) > inf {
				put(b[:t.Size()], inf|1)
			}
		}
	}
	return fmt.Sprintf("slots %x phase %d residue %v faulted %v", m.slots, m.phase, m.residue, kinds)
}

func (m *machine) fault(k isa.FaultKind) {
	if k != isa.NoFault {
		m.faults[k] = true
	}
}

func (m *machine) step() {
	if m.steps--; m.steps < 0 {
		panic(outOfSteps{})
	}
}

func (m *machine) burn() {
	if m.fuel == 0 {
		m.fault(isa.FaultFuel)
		panic(laneEnds{})
	}
	if m.fuel > 0 {
		m.fuel--
	}
}

// place returns the bytes that an access of type t touches, nil if it is stray.
func (m *machine) place(mem Mem, handle, off int64, t isa.Type) []byte {
	area := m.shared
	switch mem.Mode {
	case isa.AddrIndex:
		n := t.Size()
		return m.slots[mem.Slot][m.at*n:][:n]
	case isa.AddrByte:
		area = m.slots[mem.Slot]
	case isa.AddrIndirect:
		if handle < 0 || handle >= int64(len(m.slots)) {
			m.fault(isa.FaultHandle)
			return nil
		}
		area = m.slots[handle]
	}
	at, size := off+mem.Offset, int64(t.Size())
	if off > 1<<62 || off < -1<<62 || at < 0 || at > int64(len(area))-size {
		m.fault(isa.FaultAccess)
		return nil
	}
	return area[at : at+size]
}

func get(b []byte) uint64 {
	var c [8]byte
	copy(c[:], b)
	return binary.LittleEndian.Uint64(c[:])
}

func put(b []byte, v uint64) {
	var c [8]byte
	binary.LittleEndian.PutUint64(c[:], v)
	copy(b, c[:])
}

// inst does what an instruction does and returns its result. args are as in
// Node.Args.
func (m *machine) inst(op isa.Op, f isa.Form, imm uint64, mem Mem, args []uint64) uint64 {
	m.step()
	row, _ := isa.Lookup(op)
	var where []byte
	if mem.Mode != 0 {
		var handle, off int64
		if mem.Mode == isa.AddrIndirect {
			handle, args = int64(args[0]), args[1:]
		}
		if mem.HasOff {
			off, args = int64(args[0]), args[1:]
		}
		where = m.place(mem, handle, off, f.Type)
	}
	switch op {
	case isa.LDG, isa.LDS:
		return get(where)
	case isa.STG, isa.STS:
		if where != nil {
			put(where, args[0])
		}
		return 0
	case isa.LDP:
		return m.params[imm]
	case isa.LDC:
		d := m.data[imm]
		if args[0] >= uint64(len(d.Values)) {
			m.fault(isa.FaultAccess)
			return 0
		}
		return d.Values[args[0]]
	case isa.SREG:
		switch isa.Special(imm) {
		case isa.GlobalLane, isa.BlockX:
			return uint64(m.at)
		case isa.LaneX, isa.LaneY, isa.LaneZ, isa.BlockY, isa.BlockZ:
			return 0
		}
		return 1
	case isa.CLS_GET:
		return uint64(m.at % isa.NumClasses)
	case isa.UNITY_TEST:
		return uint64(m.at & 1)
	case isa.PHASE_GET:
		return m.phase
	case isa.PHASE_ADV:
		m.phase = (m.phase + imm) % 768
		return 0
	case isa.RES_ACCUM:
		if args[0] >= isa.NumClasses {
			m.fault(isa.FaultClass)
			return 0
		}
		m.residue[args[0]] += args[1]
		return 0
	case isa.BAR_SYNC:
		m.meet()
		return 0
	case isa.MEM_FENCE:
		return 0
	case isa.POOL_ALLOC:
		m.pools[imm>>32] = make([]byte, imm&(1<<32-1))
		delete(m.freed, imm>>32)
		return imm>>32 + 1
	case isa.POOL_FREE:
		if m.scratch(args[0]) != nil {
			m.freed[args[0]-1] = true
		}
		return 0
	case isa.POOL_LOAD, isa.POOL_STORE:
		h, off := args[len(args)-2], args[len(args)-1]
		area := m.scratch(h)
		if area == nil {
			return 0
		}
		if off > uint64(len(area)) || uint64(len(area))-off < uint64(f.Type.Size()) {
			m.fault(isa.FaultAccess)
			return 0
		}
		if op == isa.POOL_LOAD {
			return get(area[off : off+uint64(f.Type.Size())])
		}
		put(area[off:off+uint64(f.Type.Size())], args[0])
		return 0
	}
	if row.Effect&isa.Barrier != 0 {
		m.meet()
		return args[0] // a block of one lane
	}
	if row.Effect&isa.Writes != 0 {
		if where == nil {
			return 0
		}
		old := get(where)
		put(where, m.atomic(op, f, old, args))
		return old
	}
	if row.Eval == nil || row.Expand.Has(f.Type) {
		// Any function will do that is the same on both sides.
		r := uint64(op) * 0x9e3779b97f4a7c15
		for _, a := range args {
			r = (r ^ a) * 0xff51afd7ed558ccd
		}
		return r & f.Type.Mask() >> 2
	}
	var c [3]uint64
	k := copy(c[:], args)
	if k < 3 && op == isa.NBR_GET {
		c[k] = imm
	}
	r, fk := row.Eval(f, c[0], c[1], c[2])
	m.fault(fk)
	return r
}

// meet stands for what other lanes wrote before a barrier: all memory that they
// may write changes, at each barrier otherwise. So an access that has moved
// across one, or was left out for one before it, is seen, which lanes in
// lockstep would not show.
func (m *machine) meet() {
	m.met++
	for _, area := range append([][]byte{m.shared}, m.slots...) {
		for i := range area {
			area[i] ^= byte(mix(uint64(m.met), uint64(i)))
		}
	}
}

func (m *machine) scratch(h uint64) []byte {
	area := m.pools[h-1]
	if area == nil || m.freed[h-1] {
		m.fault(isa.FaultHandle)
		return nil
	}
	return area
}

func (m *machine) atomic(op isa.Op, f isa.Form, old uint64, args []uint64) uint64 {
	by := map[isa.Op]isa.Op{isa.ATOM_ADD: isa.ADD, isa.ATOM_MIN: isa.MIN, isa.ATOM_MAX: isa.MAX,
		isa.ATOM_AND: isa.AND, isa.ATOM_OR: isa.OR, isa.ATOM_XOR: isa.XOR}
	switch op {
	case isa.ATOM_EXCH:
		return args[0]
	case isa.ATOM_CAS:
		if old == args[0] {
			return args[1]
		}
		return old
	}
	row, _ := isa.Lookup(by[op])
	r, _ := row.Eval(f, old, args[0], 0)
	return r
}

// run calls f and reports whether it came to an end.
func (m *machine) run(f func()) (ended bool) {
	defer func() {
		switch e := recover(); e {
		case nil, any(laneEnds{}):
			ended = true
		case any(outOfSteps{}):
		default:
			panic(e)
		}
	}()
	f()
	return true
}

// walkGraph runs a verified program block by block on registers.
func (m *machine) walkGraph(v *isa.Verified) bool {
	return m.run(func() {
		var regs [numVars]uint64
		var wide [numVars]isa.Type
		for i, s := range isa.PresetRegisters {
			regs[isa.FirstPreset+i] = m.inst(isa.SREG, isa.Form{}, uint64(s), Mem{}, nil)
			wide[isa.FirstPreset+i] = s.Type()
		}
		allocs := map[int]uint64{}
		left := map[int]uint32{} // rounds, by header
		b := 0
		for {
			blk := &v.Graph.Blocks[b]
			for i := range blk.Code {
				m.walkInst(&blk.Code[i], &regs, &wide, allocs)
			}
			m.step()
			t := &blk.Term
			next := t.To[0]
			switch t.Kind {
			case isa.TermExit:
				return
			case isa.TermBranch:
				p := regs[predVar(t.Pred.Reg)] != 0
				if t.Pred.Kind == isa.ArgImm {
					p = t.Pred.Bits != 0
				}
				if p == t.Pred.Not {
					next = t.To[1]
				}
			case isa.TermLoop:
				n := uint32(t.Count.Bits)
				if t.Count.Kind == isa.ArgReg {
					n = uint32(regs[t.Count.Reg])
				}
				if left[t.To[0]] = n; n == 0 {
					next = t.To[1]
				} else {
					m.burn()
				}
			case isa.TermLatch:
				if left[t.To[0]]--; left[t.To[0]] == 0 {
					next = t.To[1]
				} else {
					m.burn()
				}
			}
			if next <= b && t.Kind != isa.TermLatch {
				m.burn()
			}
			b = next
		}
	})
}

func (m *machine) walkInst(in *isa.Located, regs *[numVars]uint64, types *[numVars]isa.Type, allocs map[int]uint64) {
	row, _ := isa.Lookup(in.Op)
	set := func(v uint64, t isa.Type) {
		d := &in.Args[0]
		switch d.Kind {
		case isa.ArgPred:
			regs[predVar(d.Reg)] = v
		case isa.ArgReg:
			regs[d.Reg], types[d.Reg] = v, t
		}
	}
	if first, count, ok := registerRun(in.Inst); ok {
		row, _ := isa.Lookup(reductions[in.Op])
		acc := regs[first]
		for r := first + 1; r < first+count; r++ {
			acc, _ = row.Eval(in.Form, acc, regs[r], 0)
		}
		set(acc, in.Type)
		return
	}
	signed := func(r uint8) uint64 { // as I64; what an U64 has beyond that is as far outside as its largest
		v, t := regs[r], types[r]
		if t == isa.U64 {
			return min(v, math.MaxInt64)
		}
		if t.Signed() {
			s := 64 - t.Bits()
			return uint64(int64(v<<s) >> s)
		}
		return v
	}
	var args []uint64
	var mem Mem
	var imm uint64
	var result isa.Type
	for i := range row.Operands {
		if a := &in.Args[i]; a.Kind == isa.ArgAddr {
			mem = Mem{Mode: a.Mode, Slot: int(a.Slot), Offset: a.Offset(), HasOff: a.HasReg}
			if mem.Mode == isa.AddrPhi {
				mem.Mode = isa.AddrByte
			}
			if mem.Mode == isa.AddrIndirect {
				args = append(args, signed(a.Handle))
			}
			if a.HasReg {
				args = append(args, signed(a.Reg))
			}
		}
	}
	for i := range row.Operands {
		o, a := &row.Operands[i], &in.Args[i]
		switch o.Kind {
		case isa.Dst:
			result = operandType(o.Type, in.Inst)
		case isa.Src, isa.SrcReg, isa.PredSrc:
			switch a.Kind {
			case isa.ArgImm:
				args = append(args, a.Bits&operandType(o.Type, in.Inst).Mask())
			case isa.ArgPred:
				v := regs[predVar(a.Reg)]
				if a.Not {
					v ^= 1
				}
				args = append(args, v)
			default:
				v := regs[a.Reg]
				if o.Type == isa.TypeAnyInt {
					v = signed(a.Reg)
				}
				args = append(args, v)
			}
		case isa.Imm, isa.ParamRef, isa.DataRef, isa.SpecialRef, isa.ScopeRef:
			imm = a.Bits
			if o.Kind == isa.SpecialRef {
				result = isa.Special(imm).Type()
			}
		}
	}
	switch in.Op {
	case isa.MOV:
		set(args[0], in.Type)
		return
	case isa.MOV_IMM:
		set(imm&in.Type.Mask(), in.Type)
		return
	case isa.POOL_ALLOC:
		if _, ok := allocs[in.Src]; !ok {
			allocs[in.Src] = uint64(len(allocs))
		}
		imm |= allocs[in.Src] << 32
	}
	set2 := len(row.Operands) > 0 && (row.Operands[0].Kind == isa.Dst || row.Operands[0].Kind == isa.PredDst)
	v := m.inst(in.Op, in.Form, imm, mem, args)
	if set2 {
		set(v, result)
	}
}

// walkTree runs a Func.
func (m *machine) walkTree(f *Func) bool {
	m.data = f.Data
	w := &treeWalk{m: m, env: map[*Value]uint64{}}
	for _, v := range f.leaves.list {
		w.node(v.Node)
	}
	return m.run(func() { w.region(f.Body) })
}

type treeWalk struct {
	m   *machine
	env map[*Value]uint64
}

// jump is a Br under way: nil, or the Br with the values it carries.
type jump struct {
	to   *Node
	vals []uint64
}

func (w *treeWalk) vals(list []*Value) []uint64 {
	r := make([]uint64, len(list))
	for i, v := range list {
		c, ok := w.env[v]
		if !ok {
			panic(fmt.Sprintf("value %%%d has not been computed", v.ID))
		}
		r[i] = c
	}
	return r
}

func (w *treeWalk) assign(list []*Value, vals []uint64) {
	for i, v := range list {
		w.env[v] = vals[i]
	}
}

// region returns the Br that left r, or nil and the yield.
func (w *treeWalk) region(r *Region) (*jump, []uint64) {
	for _, n := range r.Nodes {
		if j := w.node(n); j != nil {
			return j, nil
		}
	}
	return nil, w.vals(r.Yield)
}

func (w *treeWalk) node(n *Node) *jump {
	args := w.vals(n.Args)
	switch n.Op {
	case Const:
		w.assign(n.Results, []uint64{n.Imm})
	case Br:
		return &jump{n.Target, args}
	case If, Block:
		w.m.step()
		r := n.Regions[0]
		if n.Op == If && args[0] == 0 {
			r = n.Regions[1]
		}
		j, vals := w.region(r)
		if j != nil {
			if n.Op == If || j.to != n {
				return j
			}
			vals = j.vals
		}
		w.assign(n.Results, vals)
	case Loop:
		r := n.Regions[0]
		rounds := uint64(0)
		vals := args
		if n.Counted {
			vals = args[1:]
		}
		for ; !n.Counted || rounds < args[0]; rounds++ {
			w.m.step()
			if (n.Counted || rounds > 0) && !n.Free {
				w.m.burn()
			}
			w.assign(r.Params, vals)
			j, next := w.region(r)
			if j != nil {
				if j.to != n {
					return j
				}
				next = j.vals
			}
			vals = next
		}
		w.assign(n.Results, vals)
	default:
		v := w.m.inst(n.Op.Inst(), n.Form, n.Imm, n.Mem, args)
		if len(n.Results) > 0 {
			w.env[n.Results[0]] = v
		}
	}
	return nil
}
