package jit

import (
	"encoding/binary"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// element is the place of slot[index] of the group at hand.
func (g *gen) element(slot int, size int) *mref {
	m := &mref{base: g.bases[slot]}
	if g.shape.single>>slot&1 == 0 {
		m.indexed, m.scale, m.disp = true, uint8(size), int32(g.u*g.lanes*size)
	}
	return m
}

// loads are the instructions that load and extend a narrow type.
var loads = map[isa.Type]*x86.Form{
	isa.I8: x86.SxBD, isa.U8: x86.ZxBD, isa.I16: x86.SxWD, isa.U16: x86.ZxWD, isa.BF16: x86.ZxWD, isa.F16: x86.PH2PS,
}

// loadForm is the instruction that loads elements of a type, and extends those that are narrow.
func loadForm(t isa.Type) *x86.Form {
	if f := loads[t]; f != nil {
		return f
	}
	return loadV.of(t.Size())
}

func load(g *gen, n *ir.Node) {
	t := g.moved(n)
	size, reg := t.Size(), g.regSize(t)
	if n.Mem.Mode != isa.AddrIndex {
		if g.lin != nil && g.p.linearAccess(g.lin, n) {
			g.loadLinear(n)
		} else {
			g.loadBytes(n)
		}
		return
	}
	m := g.element(n.Mem.Slot, size)
	if g.shape.single>>n.Mem.Slot&1 != 0 {
		g.set(n.Result(), g.loadSingle(t, m))
		return
	}
	if reg < 4 {
		g.set(n.Result(), g.loadPacked(t, m, g.m))
		return
	}
	if g.p.insts > shortProgram && !g.t.fetches {
		g.fetchAhead(m, loadAhead)
	}
	d := g.newReg(classVec)
	in := inst{f: loadForm(t), vl: g.vl(reg), d: d, mem: m}
	switch {
	case g.m == 0:
	case g.t.evex:
		in.k, in.zero = g.m, true
	case size >= 4:
		in.f, in.a = pair{x86.MaskLoadD, x86.MaskLoadQ}.of(size), g.narrowMask(size, g.m)
	default:
		g.set(n.Result(), g.loadLanes(t, m))
		return
	}
	g.add(in)
	g.set(n.Result(), g.loaded(t, d))
}

// loaded brings what was loaded and extended to the form of registers.
func (g *gen) loaded(t isa.Type, d vreg) vreg {
	if t == isa.BF16 {
		return g.op1Imm(x86.SllD, 4, d, 16)
	}
	return d
}

// loadSingle loads the element that all lanes have.
func (g *gen) loadSingle(t isa.Type, m *mref) vreg {
	d := g.newReg(classVec)
	reg := g.regSize(t)
	if t.Size() == reg {
		g.add(inst{f: toAll.of(reg), vl: g.vl(reg), d: d, mem: m})
		return d
	}
	vl := g.vl(4)
	g.add(inst{d: d, mem: m, inner: true, pure: true, emit: func(e *encoder, in *inst) {
		at := e.memory(in.mem, x86.RAX)
		if t.Signed() {
			e.LoadSigned(x86.Width(t.Size()), x86.RAX, at)
		} else {
			e.Load(x86.Width(t.Size()), x86.RAX, at)
		}
		r := e.out(in.d, 0)
		e.spreadGPR(r, x86.RAX, 4, vl)
		e.done(in.d, r)
	}})
	return g.fromBits(t, d)
}

// spreadGPR puts a general register into all elements.
func (e *encoder) spreadGPR(d, s x86.Reg, size, vl int) {
	if e.t.evex {
		e.Emit(pair{x86.BcastDGPR, x86.BcastQGPR}.of(size), x86.Inst{VL: vl, D: d, B: s})
		return
	}
	e.Emit(pair{x86.MovDFrom, x86.MovQFrom}.of(size), x86.Inst{VL: 16, D: d, B: s})
	e.Emit(pair{x86.BcastD, x86.BcastQ}.of(size), x86.Inst{VL: vl, D: d, B: d})
}

// fromBits makes a value of a narrow type of its bits, extended by its sign.
func (g *gen) fromBits(t isa.Type, d vreg) vreg {
	if t == isa.F16 {
		return g.fromF16(g.packWords(d))
	}
	return g.loaded(t, d)
}

// toBits gives the bits of a value in the low end of its register.
func (g *gen) toBits(t isa.Type, v vreg) vreg {
	switch t {
	case isa.F16:
		d := g.newReg(classVec)
		g.add(inst{f: x86.ZxWD, vl: g.vl(4), d: d, b: g.toF16(v)})
		return d
	case isa.BF16:
		if sum, ok := g.unmasked[v]; ok {
			v = sum
		}
		return g.op1Imm(x86.SrlD, 4, v, 16)
	}
	return v
}

// loadLanes loads the lanes that run one by one: AVX2 masks no narrow elements. What
// others have is anything, but no more than the bits of the type.
func (g *gen) loadLanes(t isa.Type, m *mref) vreg {
	d := g.newReg(classVec)
	size := g.regSize(t)
	vl, lanes, w := g.vl(size), g.lanes, x86.Width(t.Size())
	g.add(inst{d: d, a: g.m, mem: m, emit: func(e *encoder, in *inst) {
		at := e.memory(in.mem, regT)
		e.Lea(regT, at)
		e.eachLane(in.a, lanes, func() {
			from := x86.Mem{Base: regT, Index: x86.RCX, Scale: uint8(w)}
			if t.Signed() {
				e.LoadSigned(w, x86.RAX, from)
			} else {
				e.Load(w, x86.RAX, from)
			}
			e.Store(x86.Width(size), lane(0, size), x86.RAX)
		})
		r := e.out(in.d, 0)
		e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(0))})
		e.done(in.d, r)
	}})
	if size < 4 {
		return d
	}
	if t == isa.F16 {
		d = g.and(4, d, g.number(4, 0xffff))
	}
	return g.fromBits(t, d)
}

func store(g *gen, n *ir.Node) {
	if n.Mem.Mode != isa.AddrIndex {
		if g.lin != nil && g.p.linearAccess(g.lin, n) {
			g.storeLinear(n)
		} else {
			g.storeBytes(n)
		}
		return
	}
	t := g.moved(n)
	m := g.element(n.Mem.Slot, t.Size())
	if !g.shape.stream && !g.t.fetches {
		g.fetchAhead(m, storeAhead)
	}
	g.storeAs(t, m, g.val(n.Args[0]))
}

// How far ahead memory is fetched. A processor fetches by itself what is read in order,
// but Intel's not what is written, and stores that miss the nearest cache wait for each
// other: with this, sums of arrays beyond it take 0.87 of the time, copies 0.95. AMD's do
// fetch it, and what they are asked for beside only gets in the way: of arrays in the
// third cache, copies and sums would take 1.25 of the time. And while the instructions of a long
// program wait for what was loaded there is no room for those of the next groups: with
// this, on Intel's, tanh of 2^20 numbers takes 0.96 of the time, and of 2^23, in memory, 0.71. Short
// programs would only have more to do, and on Zen 4 all have: roots and sigmoid of 2^23 take 1.2
// to 1.3 of the time with it.
const (
	storeAhead = 1024
	loadAhead  = 4096
)

// fetchAhead fetches the lines that the group's access will come to, in programs that go
// straight along memory. One beyond the array is no fault.
func (g *gen) fetchAhead(m *mref, bytes int32) {
	if !g.p.level || g.shape.block > 0 || g.m != 0 || m.disp%cacheLine != 0 { // another group's too
		return
	}
	ahead := *m
	ahead.disp += bytes
	g.add(inst{mem: &ahead, inner: true, emit: func(e *encoder, in *inst) { e.Prefetch(e.memory(in.mem, x86.RAX)) }})
}

// storeAs stores elements of type t that lie side by side.
func (g *gen) storeAs(t isa.Type, m *mref, v vreg) {
	size := t.Size()
	switch {
	case g.regSize(t) < 4:
		g.storePacked(size, m, v)
		return
	case !g.t.evex && size < 4:
		g.storeNarrow(t, m, v)
		return
	}
	in, past := inst{vl: g.vl(g.regSize(t)), mem: m}, g.shape.stream && g.m == 0
	switch {
	case size == 1:
		in.f = x86.DB
	case t == isa.F16:
		in.f = x86.PS2PH
	case size == 2:
		in.f, v = x86.DW, g.toBits(t, v)
	case !g.t.evex && g.m != 0:
		in.f, in.a = pair{x86.MaskStoreD, x86.MaskStoreQ}.of(size), g.narrowMask(size, g.m)
	case past:
		in.f = x86.StoreNTPS
	default:
		in.f = storeV.of(size)
	}
	if past && size < 4 && !g.partial(size) { // those that narrow have no form past the caches
		d := g.newReg(classVec)
		g.add(inst{f: in.f, vl: in.vl, d: d, b: v})
		in.f, in.vl, v = x86.StoreNTPS, g.lanes*size, d
	}
	if g.t.evex {
		in.k = g.m
	}
	g.store(in, v)
}

// store adds an instruction that stores v: what Inst calls D is read.
func (g *gen) store(in inst, v vreg) {
	f, imm, vl := in.f, in.imm, in.vl
	in.b, in.inner = v, true
	in.f = nil
	in.emit = func(e *encoder, in *inst) {
		x := x86.Inst{VL: vl, D: e.vec(in.b, 0, vl), Imm: imm, IsMem: true, Mem: e.memory(in.mem, x86.RAX)}
		if in.a != 0 {
			x.A = e.vec(in.a, 1, vl)
		}
		if in.k != 0 {
			x.K = e.mask(in.k, maskTemp1)
		}
		e.Emit(f, x)
	}
	g.add(in)
}

// storeNarrow stores 8 or 16 bits of each lane with AVX2.
func (g *gen) storeNarrow(t isa.Type, m *mref, v vreg) {
	w := x86.Width(t.Size())
	lanes := g.lanes
	bits := g.toBits(t, v)
	if g.m != 0 {
		g.storeLanes(4, w, m, bits)
		return
	}
	p := g.packWords(g.and(4, bits, g.number(4, t.Mask())))
	if w == x86.W8 {
		d := g.newReg(classVec)
		g.add(inst{f: x86.PackUSWB, vl: 16, d: d, a: p, b: p})
		p = d
	}
	f := map[int]*x86.Form{4: x86.MovDTo, 8: x86.StoreQ, 16: x86.StoreUPS}[lanes*int(w)]
	g.store(inst{f: f, vl: 16, mem: m}, p)
}

// storeLanes stores the low w bytes of elements in the lanes that run.
func (g *gen) storeLanes(size int, w x86.Width, m *mref, v vreg) {
	lanes, vl := g.lanes, g.vl(size)
	g.add(inst{a: g.m, b: v, mem: m, emit: func(e *encoder, in *inst) {
		e.spread(in.b, 0, vl)
		at := e.memory(in.mem, regT)
		e.Lea(regT, at)
		e.eachLane(in.a, lanes, func() {
			e.Load(x86.Width(size), x86.RAX, lane(0, size))
			e.Store(w, x86.Mem{Base: regT, Index: x86.RCX, Scale: uint8(w)}, x86.RAX)
		})
	}})
}

// parameter is LDP: the launch wrote it to the arguments in a register's form.
func parameter(g *gen, n *ir.Node) {
	d := g.newReg(classVec)
	size := g.regSize(n.Type)
	m := &mref{fixed: regArgs, disp: g.p.lay.params + int32(8*n.Imm)}
	g.add(inst{f: toAll.of(size), vl: g.vl(size), d: d, mem: m})
	g.set(n.Result(), d)
}

func specialValue(g *gen, n *ir.Node) {
	d := g.newReg(classVec)
	s := isa.Special(n.Imm)
	place := map[isa.Special]int32{
		isa.N: argN, isa.GridDimX: argGrid, isa.GridDimY: argGrid + 4, isa.GridDimZ: argGrid + 8,
		isa.BlockDimX: argBlock, isa.BlockDimY: argBlock + 4, isa.BlockDimZ: argBlock + 8,
	}
	if at, ok := place[s]; ok {
		size := s.Type().Size()
		g.add(inst{f: pair{x86.BcastD, x86.BcastQ}.of(size), vl: g.vl(size), d: d, mem: &mref{fixed: regArgs, disp: at}})
		g.set(n.Result(), d)
		return
	}
	if s <= isa.BlockZ {
		g.place(n, s)
		return
	}
	vl, group := g.vl(8), int32(g.u*g.lanes)
	g.pure(d, 0, 0, 0, func(e *encoder, in *inst) {
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argFirst))
		e.Op(x86.ADD, x86.W64, x86.RAX, regIndex)
		e.OpImm(x86.ADD, x86.W64, x86.RAX, group)
		r := e.out(in.d, 0)
		e.spreadGPR(r, x86.RAX, 8, vl)
		e.done(in.d, r)
	})
	row := g.newReg(classVec)
	g.add(inst{f: x86.LoadUPD, vl: vl, d: row, mem: &mref{label: g.counting()}})
	g.set(n.Result(), g.op2(x86.AddQ, 8, d, row))
}

// counting is a table of 0, 1, 2 … in 64 bits.
func (g *gen) counting() x86.Label {
	l, ok := g.iota[8]
	if !ok {
		var b []byte
		for i := range g.lanes {
			b = binary.LittleEndian.AppendUint64(b, uint64(i))
		}
		l = g.table(b)
		g.iota[8] = l
	}
	return l
}

// place is an index of the lane or its block: (g / d) mod m of the lane's global
// number, with d and m from the launch. Most groups lie in one row of the index;
// others count through it.
func (g *gen) place(n *ir.Node, s isa.Special) {
	d := g.newReg(classVec)
	lanes, vl, group := g.lanes, g.vl(4), int32(g.u*g.lanes)
	at := x86.At(regArgs, argPlace+16*int32(s))
	mod := x86.At(regArgs, argPlace+16*int32(s)+8)
	g.pure(d, 0, 0, 0, func(e *encoder, in *inst) {
		r := e.out(in.d, 0)
		across, again, stay, done := e.NewLabel(), e.NewLabel(), e.NewLabel(), e.NewLabel()
		e.Load(x86.W64, x86.RAX, x86.At(regArgs, argFirst))
		e.Op(x86.ADD, x86.W64, x86.RAX, regIndex)
		e.OpImm(x86.ADD, x86.W64, x86.RAX, group)
		e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
		e.Load(x86.W64, regT, at)
		e.Un(x86.DIV, x86.W64, regT)
		e.Op(x86.SUB, x86.W64, regT, x86.RDX) // how many lanes have this quotient
		e.Op(x86.XOR, x86.W32, x86.RDX, x86.RDX)
		e.Load(x86.W64, x86.RCX, mod)
		e.Un(x86.DIV, x86.W64, x86.RCX) // the value is in RDX
		e.OpImm(x86.CMP, x86.W64, regT, int32(lanes))
		e.Jcc(x86.B, across)
		e.spreadGPR(r, x86.RDX, 4, vl)
		e.Jmp(done)
		e.Bind(across)
		e.Op(x86.XOR, x86.W32, x86.RCX, x86.RCX)
		e.Bind(again)
		e.Store(x86.W32, lane(2, 4), x86.RDX)
		e.OpImm(x86.SUB, x86.W64, regT, 1)
		e.Jcc(x86.NE, stay)
		e.Load(x86.W64, regT, at)
		e.OpImm(x86.ADD, x86.W32, x86.RDX, 1)
		e.Op(x86.XOR, x86.W32, x86.RAX, x86.RAX)
		e.OpMem(x86.CMP, x86.W32, x86.RDX, mod)
		e.CMov(x86.AE, x86.W32, x86.RDX, x86.RAX)
		e.Bind(stay)
		e.OpImm(x86.ADD, x86.W32, x86.RCX, 1)
		e.OpImm(x86.CMP, x86.W32, x86.RCX, int32(lanes))
		e.Jcc(x86.B, again)
		e.Emit(x86.MovUPS, x86.Inst{VL: vl, D: r, IsMem: true, Mem: x86.At(regArgs, scratch(2))})
		e.Bind(done)
		e.done(in.d, r)
	})
	g.set(n.Result(), d)
}
