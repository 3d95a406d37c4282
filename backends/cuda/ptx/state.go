package ptx

import (
	"fmt"
	"math"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/graph"
	"github.com/hologram-project/hologram/isa/ir"
)

// special is SREG. Blocks have one dimension for the driver, so the lane's
// indices are worked out of its number where the program asks.
func (e *emitter) special(n *ir.Node) {
	d, s := e.name(n.Result()), isa.Special(n.Imm)
	axis := int(s % 3)
	field := func(bits, at int) { e.param(fmt.Sprintf("u%d", bits), d, at) }
	switch {
	case s == isa.GlobalLane:
		if at := e.offset(); at > 0 {
			e.line("add.s64 %s, %%global, %d;", d, at)
		} else {
			e.line("mov.b64 %s, %%global;", d)
		}
	case s == isa.N:
		field(64, atN)
	case s >= isa.GridDimX:
		field(32, atGrid+4*axis)
	case s >= isa.BlockDimX:
		field(32, atBlock+4*axis)
	case s >= isa.BlockX:
		e.line("mov.b32 %s, %%block%c;", d, "xyz"[axis])
	case e.flat():
		if axis == 0 {
			e.line("mov.b32 %s, %%lane;", d)
		} else {
			e.line("mov.b32 %s, 0;", d)
		}
	case axis == 0:
		e.line("rem.u32 %s, %%lane, %s;", d, e.u32(atBlock))
	default:
		row := e.temp(bankR)
		e.line("div.u32 %s, %%lane, %s;", row, e.u32(atBlock))
		e.line("%s.u32 %s, %s, %s;", map[int]string{1: "rem", 2: "div"}[axis], d, row, e.u32(atBlock+4))
	}
}

// flat reports whether blocks are known to have one dimension.
func (e *emitter) flat() bool {
	s := e.fn.Block
	return s[0] > 0 && s[1] == 1 && s[2] == 1
}

// class returns a register with the class of the lane's block.
func (e *emitter) class() string {
	c := e.temp(bankR)
	e.line("rem.u32 %s, %%blockx, %d;", c, isa.NumClasses)
	return c
}

func (e *emitter) blockClass(n *ir.Node) {
	e.line("mov.b32 %s, %s;", e.name(n.Result()), e.class())
}

// unity is UNITY_TEST: a table of the classes that pass.
func (e *emitter) unity(n *ir.Node) {
	epsilon := math.Float64frombits(n.Imm)
	cells := make([]uint64, isa.NumClasses)
	for c := range cells {
		if float64(graph.UnityDistance(uint8(c))) <= epsilon {
			cells[c] = 1
		}
	}
	r := e.temp(bankR)
	e.lookUp(r, fmt.Sprintf("unity_%x", n.Imm), cells, e.class(), "")
	e.line("setp.ne.u32 %s, %s, 0;", e.name(n.Result()), r)
}

// classTable is MIRROR, NBR_COUNT and NBR_GET: a table over classes.
func (e *emitter) classTable(n *ir.Node) {
	op := n.Op.Inst()
	name := op.String()
	cells := make([]uint64, isa.NumClasses)
	for c := range cells {
		near := graph.Neighbours(uint8(c))
		switch {
		case op == isa.MIRROR:
			cells[c] = uint64(graph.Mirror(uint8(c)))
		case op == isa.NBR_COUNT:
			cells[c] = uint64(len(near))
		case n.Imm < uint64(len(near)):
			cells[c] = uint64(near[n.Imm])
		}
	}
	if op == isa.NBR_GET {
		name += fmt.Sprint(n.Imm)
	}
	class, ok := e.arg(n.Args[0]), e.temp(bankP)
	e.line("setp.lt.u32 %s, %s, %d;", ok, class, isa.NumClasses)
	e.fault(n, isa.FaultClass, "!"+ok)
	e.lookUp(e.name(n.Result()), name, cells, class, ok)
}

// lookUp loads an element of a table of bytes, 0 where ok does not hold.
func (e *emitter) lookUp(d, name string, cells []uint64, index, ok string) {
	table := e.data(name, isa.U8, cells)
	at, base := e.temp(bankRD), e.temp(bankRD)
	if index[0] == '%' {
		e.line("cvt.u64.u32 %s, %s;", at, index)
	} else {
		e.line("mov.b64 %s, %s;", at, index)
	}
	e.line("mov.b64 %s, %s;", base, table)
	e.line("add.u64 %s, %s, %s;", base, base, at)
	e.loadFrom(spot{space: "global", addr: base, ok: ok, aligned: true}, isa.U8, d)
}

func (e *emitter) boundMap(n *ir.Node) {
	d, ok, off := e.name(n.Result()), e.temp(bankP), e.temp(bankR)
	class, page, b := e.arg(n.Args[0]), e.arg(n.Args[1]), e.arg(n.Args[2])
	e.line("setp.lt.u32 %s, %s, %d;", ok, class, isa.NumClasses)
	e.line("setp.lt.and.u32 %s, %s, %d, %s;", ok, page, isa.PagesPerClass, ok)
	e.fault(n, isa.FaultClass, "!"+ok)
	e.line("mad.lo.u32 %s, %s, %d, %s;", off, class, isa.ClassBytes, b)
	e.line("mad.lo.u32 %s, %s, %d, %s;", off, page, isa.PageBytes, off)
	e.line("selp.b32 %s, %s, 0, %s;", off, off, ok)
	e.line("cvt.u64.u32 %s, %s;", d, off)
}

func (e *emitter) residue(n *ir.Node) {
	class, ok, at, i := e.arg(n.Args[0]), e.temp(bankP), e.u64(atResidue), e.temp(bankRD)
	e.line("setp.lt.u32 %s, %s, %d;", ok, class, isa.NumClasses)
	e.fault(n, isa.FaultClass, "!"+ok)
	if class[0] == '%' {
		e.line("cvt.u64.u32 %s, %s;", i, class)
	} else {
		e.line("mov.b64 %s, %s;", i, class)
	}
	e.line("mad.lo.u64 %s, %s, 8, %s;", at, i, at)
	e.line("@%s red.global.add.u64 [%s], %s;", ok, at, e.arg(n.Args[1]))
}

func (e *emitter) phaseGet(n *ir.Node) { e.line("mov.b32 %s, %%phase;", e.name(n.Result())) }

func (e *emitter) phaseAdvance(n *ir.Node) {
	e.line("add.u32 %%phase, %%phase, %d;", n.Imm)
	e.line("rem.u32 %%phase, %%phase, %d;", graph.Phases)
}

// area is the scratch of one POOL_ALLOC. Its handle is its number here, from 1.
type area struct {
	ordinal   uint32
	off, size int
}

func (p *Program) addArea(n *ir.Node) {
	if p.area(n) < 0 {
		size := int(uint32(n.Imm))
		p.areas = append(p.areas, area{uint32(n.Imm >> 32), p.pool, size})
		p.pool += max((size+7)&^7, 8)
	}
}

func (p *Program) area(n *ir.Node) int {
	for i, a := range p.areas {
		if a.ordinal == uint32(n.Imm>>32) {
			return i
		}
	}
	return -1
}

// poolAlloc zeroes the area.
func (e *emitter) poolAlloc(n *ir.Node) {
	k := e.p.area(n)
	a := e.p.areas[k]
	words := (a.size + 7) / 8
	if words <= 8 {
		for i := range words {
			e.line("st.local.u64 [%%pool+%d], 0;", a.off+8*i)
		}
	} else {
		id, at, end, p := e.place(), e.temp(bankRD), e.temp(bankRD), e.temp(bankP)
		e.line("add.u64 %s, %%pool, %d;", at, a.off)
		e.line("add.u64 %s, %s, %d;", end, at, 8*words)
		e.label(fmt.Sprintf("zero_%d", id))
		e.line("st.local.u64 [%s], 0;", at)
		e.line("add.u64 %s, %s, 8;", at, at)
		e.line("setp.lt.u64 %s, %s, %s;", p, at, end)
		e.line("@%s bra zero_%d;", p, id)
	}
	if e.p.live {
		live, one := e.temp(bankRD), e.temp(bankR)
		e.line("mov.u64 %s, live;", live)
		e.line("mov.b32 %s, 1;", one)
		e.line("st.local.u8 [%s+%d], %s;", live, k, one)
	}
	e.line("mov.b64 %s, %d;", e.name(n.Result()), k+1)
}

// pooled finds the area that a handle names: its offset and size, as registers
// or literals, whether there is one, and its number.
func (e *emitter) pooled(n *ir.Node, handle *ir.Value) (off, size, ok, number string) {
	ok = e.temp(bankP)
	if v := handle.Node; v != nil && v.Op == ir.Op(isa.POOL_ALLOC) {
		k := e.p.area(v)
		off, size, number = fmt.Sprint(e.p.areas[k].off), fmt.Sprint(e.p.areas[k].size), fmt.Sprint(k)
		e.line("mov.pred %s, -1;", ok)
	} else {
		i, at, o, s := e.temp(bankRD), e.temp(bankRD), e.temp(bankRD), e.temp(bankRD)
		e.line("mov.b64 %s, %s;", i, e.arg(handle))
		e.line("sub.u64 %s, %s, 1;", i, i)
		e.line("setp.lt.u64 %s, %s, %d;", ok, i, len(e.p.areas))
		e.line("selp.b64 %s, %s, 0, %s;", i, i, ok)
		cells := make([]uint64, 0, 2*len(e.p.areas))
		for _, a := range e.p.areas {
			cells = append(cells, uint64(a.off), uint64(a.size))
		}
		e.line("mov.b64 %s, %s;", at, e.data("areas", isa.U64, cells))
		e.line("mad.lo.u64 %s, %s, 16, %s;", at, i, at)
		e.line("ld.global.u64 %s, [%s];", o, at)
		e.line("ld.global.u64 %s, [%s+8];", s, at)
		off, size, number = o, s, i
	}
	if e.p.live {
		live, b := e.temp(bankRD), e.temp(bankR)
		e.line("mov.u64 %s, live;", live)
		e.line("add.u64 %s, %s, %s;", live, live, number)
		e.line("ld.local.u8 %s, [%s];", b, live)
		e.line("setp.ne.and.u32 %s, %s, 0, %s;", ok, b, ok)
	}
	e.fault(n, isa.FaultHandle, "!"+ok)
	return off, size, ok, number
}

func (e *emitter) poolFree(n *ir.Node) {
	_, _, ok, number := e.pooled(n, n.Args[0])
	live, none := e.temp(bankRD), e.temp(bankR)
	e.line("mov.u64 %s, live;", live)
	e.line("add.u64 %s, %s, %s;", live, live, number)
	e.line("mov.b32 %s, 0;", none)
	e.line("@%s st.local.u8 [%s], %s;", ok, live, none)
}

// poolSpot finds where handle and offset lead.
func (e *emitter) poolSpot(n *ir.Node, handle, offset *ir.Value) spot {
	off, size, ok, _ := e.pooled(n, handle)
	last, in, stray, at, o := e.temp(bankRD), e.temp(bankP), e.temp(bankP), e.temp(bankRD), e.temp(bankRD)
	bytes := n.Type.Size()
	e.line("mov.b64 %s, %s;", o, e.arg(offset))
	e.line("mov.b64 %s, %s;", last, size)
	e.line("sub.s64 %s, %s, %d;", last, last, bytes)
	e.line("setp.ge.s64 %s, %s, 0;", in, o)
	e.line("setp.le.and.s64 %s, %s, %s, %s;", in, o, last, in)
	e.line("not.pred %s, %s;", stray, in)
	e.line("and.pred %s, %s, %s;", stray, stray, ok)
	e.fault(n, isa.FaultAccess, stray)
	e.line("and.pred %s, %s, %s;", in, in, ok)
	e.line("add.u64 %s, %%pool, %s;", at, o)
	e.line("add.u64 %s, %s, %s;", at, at, off)
	return spot{space: "local", addr: at, ok: in, aligned: e.p.multiple(offset)%bytes == 0}
}

func (e *emitter) poolLoad(n *ir.Node) {
	e.loadFrom(e.poolSpot(n, n.Args[0], n.Args[1]), n.Type, e.name(n.Result()))
}

func (e *emitter) poolStore(n *ir.Node) {
	e.storeTo(e.poolSpot(n, n.Args[1], n.Args[2]), n.Type, e.arg(n.Args[0]))
}
