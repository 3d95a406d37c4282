package ptx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// spot is where an access goes.
type spot struct {
	space string // global, shared, local
	addr  string // 64-bit register
	disp  int64  // beyond it
	ok    string // predicate: the access is not stray; "" if it cannot be
	// aligned: known to be so. Else the code looks, and goes byte by byte.
	aligned bool
}

func (s *spot) at(i int64) string {
	if s.disp+i == 0 {
		return "[" + s.addr + "]"
	}
	return fmt.Sprintf("[%s%+d]", s.addr, s.disp+i)
}

// memType is the type of a load or store.
func memType(t isa.Type) string {
	switch {
	case half(t):
		return "u16"
	case t.Float():
		return suffix(t)
	case t.Signed():
		return fmt.Sprintf("s%d", t.Bits())
	}
	return fmt.Sprintf("u%d", t.Bits())
}

// locate writes the address and the checks of n's access.
func (e *emitter) locate(n *ir.Node) spot {
	m, size := &n.Mem, n.Type.Size()
	if m.Mode == isa.AddrIndex {
		s := spot{space: "global", addr: e.element(m.Slot), aligned: true}
		if !e.opt.single(m.Slot) {
			s.disp = int64(e.beyond() * size)
		}
		return s
	}
	args, s := n.Args, spot{space: "global"}
	base, limit, named := "", "", ""
	natural := 1 // what the base is aligned to
	switch m.Mode {
	case isa.AddrShared:
		s.space, base, natural = "shared", "%shared", 16
		limit = fmt.Sprint(int64(e.fn.Shared) - int64(size))
	case isa.AddrIndirect:
		base, limit, named = e.slotOf(n, e.arg(args[0]))
		args = args[1:]
	default:
		base, natural = fmt.Sprintf("%%base%d", m.Slot), e.fn.SlotTypes[m.Slot].Size()
		if !e.opt.Proved {
			limit = e.temp(bankRD)
			e.line("sub.s64 %s, %%bytes%d, %d;", limit, m.Slot, size)
		}
	}
	if m.HasOff {
		s.aligned = natural >= size && e.p.multiple(whole(args[0], m.Offset))%size == 0 && m.Offset%int64(size) == 0
	} else {
		s.aligned = natural >= size && m.Offset%int64(size) == 0
	}
	if limit == "" {
		e.address(&s, n, base)
		return s
	}
	s.ok = e.temp(bankP)
	switch {
	case m.HasOff && m.Offset == math.MinInt64, !m.HasOff && m.Offset < 0:
		e.line("mov.pred %s, 0;", s.ok)
		s.addr = base
	case !m.HasOff:
		e.line("setp.ge.s64 %s, %s, %d;", s.ok, limit, m.Offset)
		s.addr, s.disp = base, m.Offset
		if m.Offset > math.MaxInt32 {
			s.addr, s.disp = e.temp(bankRD), 0
			e.line("add.s64 %s, %s, %d;", s.addr, base, m.Offset)
		}
	default:
		sum := e.arg(args[0])
		if m.Offset != 0 {
			sum = e.temp(bankRD)
			e.line("add.s64 %s, %s, %d;", sum, e.arg(args[0]), m.Offset)
		}
		e.line("setp.ge.s64 %s, %s, 0;", s.ok, sum)
		e.line("setp.le.and.s64 %s, %s, %s, %s;", s.ok, sum, limit, s.ok)
		if m.Offset <= -1<<62 { // the sum may have wrapped to where it looks good
			e.line("setp.ge.and.s64 %s, %s, %d, %s;", s.ok, e.arg(args[0]), -m.Offset, s.ok)
		}
		s.addr = e.temp(bankRD)
		e.line("add.s64 %s, %s, %s;", s.addr, base, sum)
	}
	if named != "" {
		e.fault(n, isa.FaultHandle, "!"+named)
		stray := e.temp(bankP)
		e.line("not.pred %s, %s;", stray, s.ok)
		e.line("and.pred %s, %s, %s;", stray, stray, named)
		e.line("and.pred %s, %s, %s;", s.ok, s.ok, named)
		e.fault(n, isa.FaultAccess, stray)
		return s
	}
	e.fault(n, isa.FaultAccess, "!"+s.ok)
	return s
}

// address finds an access that is known not to be stray.
func (e *emitter) address(s *spot, n *ir.Node, base string) {
	s.addr, s.disp = base, n.Mem.Offset
	if n.Mem.HasOff {
		s.addr = e.temp(bankRD)
		e.line("add.s64 %s, %s, %s;", s.addr, base, e.arg(n.Args[0]))
	}
	if s.disp != int64(int32(s.disp)) {
		far := e.temp(bankRD)
		e.line("add.s64 %s, %s, %d;", far, s.addr, s.disp)
		s.addr, s.disp = far, 0
	}
}

// whole looks through the bound that the IR puts to unsigned offsets, the
// largest i64: an access there is stray, so its alignment does not matter.
func whole(v *ir.Value, offset int64) *ir.Value {
	n := v.Node
	if offset <= -1<<62 || n == nil || n.Op != ir.Op(isa.CVT) || n.From != isa.U64 {
		return v
	}
	if m := n.Args[0].Node; m != nil && m.Op == ir.Op(isa.MIN) {
		for i := range 2 {
			if c, ok := m.Args[i].Const(); ok && c == math.MaxInt64 {
				return m.Args[1-i]
			}
		}
	}
	return v
}

// slotOf looks up the slot that a handle names: its base, the last offset for
// an access of n's type, and whether there is such a slot.
func (e *emitter) slotOf(n *ir.Node, handle string) (base, limit, named string) {
	l := &e.p.Layout
	named = e.temp(bankP)
	e.line("setp.lt.u64 %s, %s, %d;", named, handle, l.slots)
	h, at := e.temp(bankRD), e.temp(bankRD)
	e.line("selp.b64 %s, %s, 0, %s;", h, handle, named)
	e.line("shl.b64 %s, %s, 3;", h, h)
	e.line("mov.b64 %s, %s_launch;", at, e.opt.Entry)
	e.line("add.s64 %s, %s, %s;", at, at, h)
	base, limit = e.temp(bankRD), e.temp(bankRD)
	e.line("ld.param.u64 %s, [%s+%d];", base, at, l.Base(0))
	e.line("ld.param.u64 %s, [%s+%d];", limit, at, l.bytes(0))
	e.line("sub.s64 %s, %s, %d;", limit, limit, n.Type.Size())
	return base, limit, named
}

// fault notes a fault of n where a predicate holds ("!p" where p doesn't), if n
// can have one. The lane reports it at its end.
func (e *emitter) fault(n *ir.Node, k isa.FaultKind, where string) {
	if n.Free || n.Site < 0 {
		return
	}
	e.line("@%s mov.b32 %%fault, %d;", where, faultCode(n.Site, k))
	if e.opt.Vector > 0 {
		e.line("@%s add.s64 %%faulty, %%global, %d;", where, e.offset())
	}
}

// load is LDG and LDS.
func (e *emitter) load(n *ir.Node) {
	if n.Op.Inst() == isa.LDG && n.Mem.Mode == isa.AddrByte && e.opt.told(n.Mem.Slot) {
		e.hear(n)
		return
	}
	e.loadFrom(e.locate(n), n.Type, e.name(n.Result()))
}

// loadFrom loads a value, 0 if the access is stray.
func (e *emitter) loadFrom(s spot, t isa.Type, d string) {
	guard := ""
	if s.ok != "" {
		e.move(t, d, zero(t))
		guard = "@" + s.ok + " "
	}
	if s.aligned || t.Size() == 1 {
		e.line("%sld.%s%s.%s %s, %s%s;", guard, s.space, e.hint(&s), memType(t), d, s.at(0), e.policy(&s))
		return
	}
	odd, even := e.alignment(s, t.Size())
	e.line("@%s ld.%s.%s %s, %s;", even, s.space, memType(t), d, s.at(0))
	skip := fmt.Sprintf("aligned_%d", e.place())
	e.line("@!%s bra %s;", odd, skip)
	e.fromCell(t, d, e.loadBytes(s, t.Size(), "ld"))
	e.label(skip)
}

// zero is a literal of value 0 for mov.
func zero(t isa.Type) string {
	if half(t) {
		return "0"
	}
	return literal(t, 0)
}

// alignment returns predicates: the access is good and misaligned, and good and
// aligned.
func (e *emitter) alignment(s spot, size int) (odd, even string) {
	a := e.temp(bankRD)
	odd, even = e.temp(bankP), e.temp(bankP)
	if s.disp != 0 {
		e.line("add.s64 %s, %s, %d;", a, s.addr, s.disp)
		e.line("and.b64 %s, %s, %d;", a, a, size-1)
	} else {
		e.line("and.b64 %s, %s, %d;", a, s.addr, size-1)
	}
	and, with := "", ""
	if s.ok != "" {
		and, with = ".and", ", "+s.ok
	}
	e.line("setp.ne%s.s64 %s, %s, 0%s;", and, odd, a, with)
	e.line("setp.eq%s.s64 %s, %s, 0%s;", and, even, a, with)
	return odd, even
}

// loadBytes loads a cell byte by byte, into a 64-bit register if it has 8.
func (e *emitter) loadBytes(s spot, size int, ld string) string {
	var words []string
	for i := range size {
		b := e.temp(bankR)
		e.line("%s.%s.u8 %s, %s;", ld, s.space, b, s.at(int64(i)))
		if i%4 == 0 {
			words = append(words, b)
			continue
		}
		w := words[len(words)-1]
		e.line("shl.b32 %s, %s, %d;", b, b, 8*(i%4))
		e.line("or.b32 %s, %s, %s;", w, w, b)
	}
	if size < 8 {
		return words[0]
	}
	c := e.temp(bankRD)
	e.line("mov.b64 %s, {%s, %s};", c, words[0], words[1])
	return c
}

// fromCell makes a value of a cell that stands in a register, cells of less
// than 64 bits in one of 32, with zeros above.
func (e *emitter) fromCell(t isa.Type, d, cell string) {
	e.line("mov.%s %s, %s;", width(t), d, cell)
	if t.Signed() {
		e.wrap(t, d)
	}
}

// toCell returns a register with the value's cell, whatever stands above it.
func (e *emitter) toCell(t isa.Type, v string) string {
	c := e.temp(bankR)
	if t.Size() == 8 {
		c = e.temp(bankRD)
	}
	e.line("mov.%s %s, %s;", width(t), c, v)
	return c
}

// store is STG and STS.
func (e *emitter) store(n *ir.Node) {
	if n.Op.Inst() == isa.STG && n.Mem.Mode == isa.AddrByte && e.opt.told(n.Mem.Slot) {
		e.tell(n)
		return
	}
	s := e.locate(n)
	e.storeTo(s, n.Type, e.arg(n.Args[n.AddrArgs()]))
}

func (e *emitter) storeTo(s spot, t isa.Type, v string) {
	v = e.register(t, v)
	guard := ""
	if s.ok != "" {
		guard = "@" + s.ok + " "
	}
	if s.aligned || t.Size() == 1 {
		e.line("%sst.%s.%s %s, %s;", guard, s.space, storeType(t), s.at(0), v)
		return
	}
	odd, even := e.alignment(s, t.Size())
	e.line("@%s st.%s.%s %s, %s;", even, s.space, storeType(t), s.at(0), v)
	skip := fmt.Sprintf("aligned_%d", e.place())
	e.line("@!%s bra %s;", odd, skip)
	e.storeBytes(s, t.Size(), e.toCell(t, v), "st")
	e.label(skip)
}

// register returns a register with an operand's value.
func (e *emitter) register(t isa.Type, v string) string {
	if half(t) || strings.HasPrefix(v, "%") {
		return v
	}
	r := e.temp(bankOf(t))
	e.move(t, r, v)
	return r
}

// storeType is the type of a store: of a narrow integer only the bits matter.
func storeType(t isa.Type) string {
	if t.Float() && !half(t) {
		return suffix(t)
	}
	return fmt.Sprintf("b%d", t.Bits())
}

// storeBytes stores a cell byte by byte.
func (e *emitter) storeBytes(s spot, size int, cell, st string) {
	words := []string{cell}
	if size == 8 {
		words = []string{e.temp(bankR), e.temp(bankR)}
		// Not mov.b64 {lo, hi}: where a branch has shown the cell to be a constant,
		// ptxas up to 12.9, and the driver's of 580, take its low word for both.
		high := e.temp(bankRD)
		e.line("cvt.u32.u64 %s, %s;", words[0], cell)
		e.line("shr.u64 %s, %s, 32;", high, cell)
		e.line("cvt.u32.u64 %s, %s;", words[1], high)
	}
	for i := range size {
		b := words[i/4]
		if i%4 > 0 {
			b = e.temp(bankR)
			e.line("shr.u32 %s, %s, %d;", b, words[i/4], 8*(i%4))
		}
		e.line("%s.%s.u8 %s, %s;", st, s.space, s.at(int64(i)), b)
	}
}

// parameter is LDP.
func (e *emitter) parameter(n *ir.Node) {
	e.param(memType(n.Type), e.name(n.Result()), e.p.Layout.Param(int(n.Imm)))
}

// table is LDC: a constant table's element at an index, which is checked unless it is one of an
// expansion's of so few bits.
func (e *emitter) table(n *ir.Node) {
	d := &e.fn.Data[n.Imm]
	name := e.data(fmt.Sprintf("data%d", n.Imm), d.Type, d.Values)
	index, base := n.Args[0], e.temp(bankRD)
	if !n.CanFault() && index.Type == isa.U32 && bounded(index, len(d.Values)) {
		e.line("mov.b64 %s, %s;", base, name)
		e.line("mad.wide.u32 %s, %s, %d, %s;", base, e.name(index), d.Type.Size(), base)
		e.loadFrom(spot{space: "global", addr: base, aligned: true}, n.Type, e.name(n.Result()))
		return
	}
	at, ok := e.temp(bankRD), e.temp(bankP)
	if index.Type.Size() == 8 {
		e.move(index.Type, at, e.arg(index))
	} else if _, isConst := index.Const(); isConst {
		e.line("mov.b64 %s, %s;", at, e.arg(index))
	} else {
		e.line("cvt.%s.%s %s, %s;", map[bool]string{true: "s64", false: "u64"}[index.Type.Signed()], suffix(index.Type), at, e.name(index))
	}
	e.line("setp.lt.u64 %s, %s, %d;", ok, at, len(d.Values))
	e.fault(n, isa.FaultAccess, "!"+ok)
	e.line("mov.b64 %s, %s;", base, name)
	e.line("mad.lo.s64 %s, %s, %d, %s;", base, at, d.Type.Size(), base)
	e.loadFrom(spot{space: "global", addr: base, ok: ok, aligned: true}, n.Type, e.name(n.Result()))
}

// bounded reports whether a value is the AND of another with a number, and so below a bound.
func bounded(v *ir.Value, bound int) bool {
	return v.Node != nil && v.Node.Op == ir.Op(isa.AND) && slices.ContainsFunc(v.Node.Args, func(a *ir.Value) bool {
		c, ok := a.Const()
		return ok && c < uint64(bound)
	})
}

// data writes a table of cells at module level, once, and returns its name.
func (e *emitter) data(name string, t isa.Type, cells []uint64) string {
	name = e.opt.Entry + "_" + name
	if e.made[name] {
		return name
	}
	if e.made == nil {
		e.made = map[string]bool{}
	}
	e.made[name] = true
	fmt.Fprintf(&e.tables, ".global .align 8 .b%d %s[%d] = {", t.Bits(), name, max(len(cells), 1))
	for i, c := range cells {
		if i > 0 {
			e.tables.WriteString(", ")
		}
		if i%16 == 15 {
			e.tables.WriteString("\n\t")
		}
		fmt.Fprintf(&e.tables, "%#x", c)
	}
	if len(cells) == 0 {
		e.tables.WriteString("0")
	}
	e.tables.WriteString("};\n")
	return name
}

// atomics names the operation that an atomic does.
var atomics = map[isa.Op]isa.Op{
	isa.ATOM_ADD: isa.ADD, isa.ATOM_MIN: isa.MIN, isa.ATOM_MAX: isa.MAX,
	isa.ATOM_AND: isa.AND, isa.ATOM_OR: isa.OR, isa.ATOM_XOR: isa.XOR,
	isa.ATOM_EXCH: isa.MOV, isa.ATOM_CAS: isa.NoOp,
}

func atomicType(op isa.Op, t isa.Type) string {
	switch op {
	case isa.ATOM_ADD:
		if t == isa.I64 {
			return "u64"
		}
		return suffix(t)
	case isa.ATOM_MIN, isa.ATOM_MAX:
		return suffix(t)
	}
	return width(t)
}

// atomic is ATOM_*. At an address that the machine's own cannot take, a lock
// guards what is done instead; the lane that has it gives it back within the
// round of the loop, since its neighbours may be waiting in the same warp.
func (e *emitter) atomic(n *ir.Node) {
	op, t := n.Op.Inst(), n.Type
	name := strings.ToLower(strings.TrimPrefix(op.String(), "ATOM_"))
	if !t.Numeric() || half(t) || t.Size() < 4 {
		e.unsupported(op.String()+" "+t.String(), "there is no rule for it")
		return
	}
	s := e.locate(n)
	args := e.args(n.Args[n.AddrArgs():])
	d := e.name(n.Result())
	guard := ""
	if s.ok != "" {
		e.move(t, d, zero(t))
		guard = "@" + s.ok + " "
	}
	bits := bankR
	if t.Size() == 8 {
		bits = bankRD
	}
	odd := ""
	if !s.aligned {
		var even string
		odd, even = e.alignment(s, t.Size())
		guard = "@" + even + " "
	}
	if op == isa.ATOM_ADD && t == isa.F32 && s.space == "global" {
		e.addF32(s, strings.TrimSuffix(strings.TrimPrefix(guard, "@"), " "), d, args[0])
	} else {
		e.line("%satom.%s.%s.%s %s, %s, %s;", guard, s.space, name, atomicType(op, t), d, s.at(0), strings.Join(args, ", "))
	}
	if odd == "" {
		return
	}
	id := e.place()
	again, done := fmt.Sprintf("lock_%d", id), fmt.Sprintf("unlocked_%d", id)
	lock, held, old, p := e.temp(bankRD), e.temp(bankR), e.temp(bankOf(t)), e.temp(bankP)
	e.line("@!%s bra %s;", odd, done)
	e.param("u64", lock, atLock)
	e.label(again)
	e.line("atom.global.cas.b32 %s, [%s], 0, 1;", held, lock)
	e.line("setp.ne.s32 %s, %s, 0;", p, held)
	e.line("@%s bra %s;", p, again+"_next")
	e.line("membar.gl;")
	e.line("mov.%s %s, %s;", width(t), old, e.loadBytes(s, t.Size(), "ld.volatile"))
	now := e.temp(bankOf(t))
	if op == isa.ATOM_CAS {
		q := e.temp(bankP)
		e.line("setp.eq.%s %s, %s, %s;", suffix(t), q, old, args[0])
		e.line("selp.%s %s, %s, %s, %s;", width(t), now, args[1], old, q)
	} else if op == isa.ATOM_EXCH {
		e.move(t, now, args[0])
	} else {
		e.compute(atomics[op], isa.Form{Type: t}, now, old, args[0])
	}
	cell := e.temp(bits)
	e.line("mov.%s %s, %s;", width(t), cell, now)
	e.storeBytes(s, t.Size(), cell, "st.volatile")
	e.line("membar.gl;")
	e.line("atom.global.exch.b32 %s, [%s], 0;", held, lock)
	e.move(t, d, old)
	e.line("bra %s;", done)
	e.label(again + "_next")
	e.line("bra %s;", again)
	e.label(done)
}

// addF32 is ATOM_ADD of f32 in global memory, by comparing and exchanging: the
// machine's own takes subnormals for 0.
func (e *emitter) addF32(s spot, where, d, v string) {
	id := e.place()
	old, seen, sum, p := e.temp(bankR), e.temp(bankR), e.temp(bankF), e.temp(bankP)
	f, bits := e.temp(bankF), e.temp(bankR)
	if where != "" {
		e.line("@!%s bra added_%d;", where, id)
	}
	e.line("ld.volatile.global.u32 %s, %s;", old, s.at(0))
	e.label(fmt.Sprintf("add_%d", id))
	e.line("mov.b32 %s, %s;", f, old)
	e.line("add.rn.f32 %s, %s, %s;", sum, f, v)
	e.line("mov.b32 %s, %s;", bits, sum)
	e.line("atom.global.cas.b32 %s, %s, %s, %s;", seen, s.at(0), old, bits)
	e.line("setp.ne.b32 %s, %s, %s;", p, seen, old)
	e.line("mov.b32 %s, %s;", old, seen)
	e.line("@%s bra add_%d;", p, id)
	e.line("mov.b32 %s, %s;", d, old)
	e.label(fmt.Sprintf("added_%d", id))
}
