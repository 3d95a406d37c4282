package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// The fixed registers, beside one for each value:
//
//	%lane    the lane's number in its block, x fastest
//	%lanes   lanes of a block, surplus ones included
//	%block   the block's number in the grid, x fastest; %blockx … its indices
//	%global  the lane's number in the grid
//	%shared  the block's shared memory
//	%base0 …, %bytes0 …, %at0 …   slots: address, reach of byte addresses, and
//	         the address of the lane's element
//	%fault   the last fault's code, 0: none; %faulty the element that had it, in
//	         variants with Vector
//	%member  of a batch, where the parameter has what is the launch's own
//	%fuel, %poll, %phase, and %present, the lanes that collectives start with
func (e *emitter) fixed(b *strings.Builder) {
	b.WriteString("\t.reg .b32 %lane, %lanes, %blockx, %blocky, %blockz, %fault, %poll, %phase, %present;\n")
	b.WriteString("\t.reg .b64 %global, %block, %shared, %pool, %fuel;\n")
	if e.opt.Vector > 0 {
		b.WriteString("\t.reg .b64 %faulty;\n")
	}
	for i, s := range e.fn.Slots {
		if s.Indexed || s.Bytes {
			fmt.Fprintf(b, "\t.reg .b64 %%base%d, %%bytes%d, %%at%d;\n", i, i, i)
		}
		for g := 0; e.runsApart() && s.Indexed && g < e.opt.Groups; g++ {
			fmt.Fprintf(b, "\t.reg .b64 %%at%d_%d;\n", i, g)
			if e.opt.Odd && e.opt.single(i) {
				fmt.Fprintf(b, "\t.reg .b64 %%at%d_%d_last;\n", i, g)
			}
		}
	}
	if e.opt.Batch > 0 {
		b.WriteString("\t.reg .b64 %member;\n")
	}
	if e.opt.Lasts {
		b.WriteString("\t.reg .b64 %policy;\n\t.reg .pred %lasts;\n")
	}
	if e.p.pool > 0 {
		fmt.Fprintf(b, "\t.local .align 8 .b8 pool[%d];\n", e.p.pool)
	}
	if e.p.live {
		fmt.Fprintf(b, "\t.local .align 8 .b8 live[%d];\n", len(e.p.areas))
	}
}

func (e *emitter) sharedUsed() bool { return e.p.shared > 0 || e.p.element > 0 }

// param loads a field of the launch block.
func (e *emitter) param(kind, to string, at int) {
	if e.opt.Batch > 0 && e.p.own(at) {
		e.line("ld.param.%s %s, [%%member+%d];", kind, to, e.ofMember(at))
		return
	}
	e.line("ld.param.%s %s, [%s_launch+%d];", kind, to, e.opt.Entry, at)
}

// u32 loads a field of the launch block.
func (e *emitter) u32(at int) string {
	r := e.temp(bankR)
	e.param("u32", r, at)
	return r
}

func (e *emitter) u64(at int) string {
	r := e.temp(bankRD)
	e.param("u64", r, at)
	return r
}

// prologue finds the lane's place, clears shared memory, ends surplus lanes and
// finds the lane's elements.
func (e *emitter) prologue() {
	if e.opt.Waits {
		e.comment("what is before this launch")
		e.line("griddepcontrol.wait;")
	}
	e.comment("the lane's place")
	e.line("mov.u32 %%lane, %%tid.x;")
	if e.opt.Block > 0 {
		e.line("mov.u32 %%lanes, %d;", e.opt.Block)
	} else {
		e.line("mov.u32 %%lanes, %%ntid.x;")
	}
	if e.opt.Batch > 0 {
		e.member()
	} else if e.p.AnyBlock {
		// The grid is the launcher's own: blocks in x, and rows of them in y.
		x, y, w := e.temp(bankR), e.temp(bankR), e.temp(bankR)
		e.line("mov.u32 %s, %%ctaid.x;", x)
		e.line("mov.u32 %s, %%ctaid.y;", y)
		e.line("mov.u32 %s, %%nctaid.x;", w)
		e.line("cvt.u64.u32 %%block, %s;", x)
		e.line("mad.wide.u32 %%block, %s, %s, %%block;", y, w)
	} else {
		for i, axis := range []string{"x", "y", "z"} {
			e.line("mov.u32 %%block%s, %%ctaid.%s;", axis, axis)
			e.line("add.u32 %%block%s, %%block%s, %s;", axis, axis, e.u32(atOrigin+4*i))
		}
		row, t := e.temp(bankRD), e.temp(bankRD)
		e.line("cvt.u64.u32 %s, %%blocky;", row)
		e.line("mad.wide.u32 %s, %%blockz, %s, %s;", row, e.u32(atGrid+4), row)
		e.line("cvt.u64.u32 %%block, %%blockx;")
		e.line("cvt.u64.u32 %s, %s;", t, e.u32(atGrid))
		e.line("mad.lo.u64 %%block, %s, %s, %%block;", row, t)
	}
	if e.opt.Vector > 0 {
		e.manyElements()
		return
	}
	t, first, lanes := e.temp(bankRD), e.temp(bankRD), e.temp(bankRD)
	e.line("cvt.u64.u32 %s, %%lanes;", lanes)
	e.line("mul.lo.u64 %s, %%block, %s;", first, lanes)
	e.line("cvt.u64.u32 %s, %%lane;", t)
	e.line("add.u64 %%global, %s, %s;", first, t)
	total := e.u64(atLanes)
	if e.sharedUsed() {
		e.line("mov.u64 %%shared, %s_shared;", e.opt.Entry)
		e.clearShared(first, total)
		e.tellers()
	}
	if e.opt.Block == 0 {
		p := e.temp(bankP)
		e.line("setp.ge.u64 %s, %%global, %s;", p, total)
		e.line("@%s ret;", p)
	}
	e.state()
	e.slots()
}

// state gives what the lane keeps of itself its first value.
func (e *emitter) state() {
	e.line("mov.b32 %%fault, 0;")
	e.makePolicy()
	if len(e.p.polls) > 0 {
		e.line("mov.b32 %%poll, %d;", pollRounds)
	}
	if e.opt.Fuel && e.p.Loops {
		e.param("u64", "%fuel", atFuel)
	}
	if e.p.Phase {
		e.line("ld.volatile.global.u32 %%phase, [%s];", e.u64(atPhaseIn))
	}
	if e.p.pool > 0 {
		e.line("mov.u64 %%pool, pool;")
	}
	if e.p.live {
		live, none := e.temp(bankRD), e.temp(bankR)
		e.line("mov.u64 %s, live;", live)
		e.line("mov.b32 %s, 0;", none)
		for i := range e.p.areas {
			e.line("st.local.u8 [%s+%d], %s;", live, i, none)
		}
	}
}

// clearShared makes all lanes of the block, surplus ones too, clear the
// program's shared memory.
func (e *emitter) clearShared(first, total string) {
	if e.p.shared > 0 {
		id := e.place()
		i, at, p := e.temp(bankR), e.temp(bankRD), e.temp(bankP)
		e.line("shl.b32 %s, %%lane, 3;", i)
		e.label(fmt.Sprintf("clear_%d", id))
		e.line("setp.ge.u32 %s, %s, %d;", p, i, e.p.shared)
		e.line("@%s bra cleared_%d;", p, id)
		e.line("cvt.u64.u32 %s, %s;", at, i)
		e.line("add.u64 %s, %%shared, %s;", at, at)
		e.line("st.shared.u64 [%s], 0;", at)
		e.line("mad.lo.u32 %s, %%lanes, 8, %s;", i, i)
		e.line("bra clear_%d;", id)
		e.label(fmt.Sprintf("cleared_%d", id))
	}
	if e.p.element > 0 && e.whole() {
		e.line("mov.b32 %%present, %d;", e.opt.Block)
	} else if e.p.element > 0 {
		left, there, p := e.temp(bankRD), e.temp(bankR), e.temp(bankP)
		e.line("sub.u64 %s, %s, %s;", left, total, first)
		lanes := e.temp(bankRD)
		e.line("cvt.u64.u32 %s, %%lanes;", lanes)
		e.line("min.u64 %s, %s, %s;", left, left, lanes)
		e.line("cvt.u32.u64 %s, %s;", there, left)
		e.line("mov.b32 %%present, %s;", there)
		e.line("setp.eq.u32 %s, %%lane, 0;", p)
		e.line("@%s st.shared.u32 [%%shared+%d], 0;", p, e.p.shared+ticketAt)
	}
	if e.p.shared > 0 || !e.whole() {
		e.line("barrier.sync 0;")
	}
}

// slot loads what the launch says of a slot.
func (e *emitter) slot(i int) {
	e.param("u64", fmt.Sprintf("%%base%d", i), e.p.Layout.Base(i))
	if e.fn.Slots[i].Bytes {
		e.param("u64", fmt.Sprintf("%%bytes%d", i), e.p.Layout.bytes(i))
	}
}

// slots loads what the launch says of the slots, and finds the lane's element
// of those accessed by index.
func (e *emitter) slots() {
	var indexed []int
	for i, s := range e.fn.Slots {
		if !s.Indexed && !s.Bytes {
			continue
		}
		e.slot(i)
		if s.Indexed {
			indexed = append(indexed, i)
		}
	}
	if len(indexed) == 0 {
		return
	}
	e.comment("the lane's elements")
	if e.opt.Rank <= 1 {
		for _, i := range indexed {
			stride := strconv.Itoa(e.fn.SlotTypes[i].Size())
			if !e.opt.Dense {
				stride = e.u64(e.p.Layout.strides[i])
			}
			e.line("mad.lo.s64 %%at%d, %%global, %s, %%base%d;", i, stride, i)
		}
		return
	}
	e.coordinates(indexed, "%global")
}

// coordinates adds to each slot's address the distance of an element, by its number,
// along each dimension, the innermost first, of which it returns the coordinate.
func (e *emitter) coordinates(indexed []int, number string) (innermost string) {
	for _, i := range indexed {
		e.line("mov.b64 %s, %%base%d;", e.element(i), i)
	}
	rest := number
	if !e.opt.Wide {
		rest = e.temp(bankR)
		e.line("cvt.u32.u64 %s, %s;", rest, number)
	}
	for k := range e.opt.Rank - 1 {
		c := e.temp(bankRD)
		if e.opt.Wide {
			size, quotient := e.u64(atShape+8*k), e.temp(bankRD)
			e.line("div.u64 %s, %s, %s;", quotient, rest, size)
			e.line("mul.lo.u64 %s, %s, %s;", c, quotient, size)
			e.line("sub.u64 %s, %s, %s;", c, rest, c)
			rest = quotient
		} else {
			size, quotient, at := e.u32(atShape+8*k), e.temp(bankR), e.temp(bankR)
			e.line("div.u32 %s, %s, %s;", quotient, rest, size)
			e.line("mul.lo.u32 %s, %s, %s;", at, quotient, size)
			e.line("sub.u32 %s, %s, %s;", at, rest, at)
			e.line("cvt.u64.u32 %s, %s;", c, at)
			rest = quotient
		}
		e.advance(indexed, k, c)
		if k == 0 {
			innermost = c
		}
	}
	if !e.opt.Wide {
		c := e.temp(bankRD)
		e.line("cvt.u64.u32 %s, %s;", c, rest)
		rest = c
	}
	e.advance(indexed, e.opt.Rank-1, rest)
	return innermost
}

func (e *emitter) advance(indexed []int, k int, coordinate string) {
	for _, i := range indexed {
		e.line("mad.lo.s64 %s, %s, %s, %[1]s;", e.element(i), coordinate, e.u64(e.p.Layout.strides[i]+8*k))
	}
}

// element is the register with the address of the lane's element of a slot, or of the
// first of the run at hand; of a slot with one for each row, which may be two, that of
// the run's last element.
func (e *emitter) element(slot int) string {
	if e.many && e.opt.Odd && e.opt.single(slot) && e.el%e.opt.Vector == e.opt.Vector-1 {
		return fmt.Sprintf("%%at%d_%d_last", slot, e.el/e.opt.Vector)
	}
	if e.many && e.runsApart() {
		return fmt.Sprintf("%%at%d_%d", slot, e.el/e.opt.Vector)
	}
	return fmt.Sprintf("%%at%d", slot)
}
