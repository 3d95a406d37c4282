package isa

import (
	"cmp"
	encoding "encoding/binary" // binary is a shorthand of the table
	"fmt"
	"hash/crc32"
	"slices"
)

// The binary form, version 1. All numbers are little-endian; n is an unsigned
// LEB128 number, z a zigzag one; a string is its length n and its bytes.
//
//	"ATLAS", version u16
//	name string
//	slots:  n, then each: type u8, name
//	params: n, then each: type u8, name
//	tables: n, then each: type u8, name, n values of the type's size
//	shared n; block 3 × n
//	instructions: n, then each: op n, type u8, from u8, cond u8, number of
//	    operands u8, then each: kind u8 (+0x80 if negated) and
//	      register, predicate: u8      immediate, label, …: n
//	      address: mode u8 (+0x80 with register), slot n or handle u8
//	        as the mode has, register u8, offset z
//	labels: n, then each: name, place n
//	names of registers, then of predicates: n, then each: number u8, name
//	CRC-32C of all that, u32
const (
	codecMagic   = "ATLAS"
	codecVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the program's binary form. Decode reads it if Check finds the
// program well formed.
func Encode(p *Program) []byte {
	p = p.labelsInOrder()
	e := encoder{encoding.LittleEndian.AppendUint16([]byte(codecMagic), codecVersion)}
	e.str(p.Name)
	e.num(uint64(len(p.Slots)))
	for _, s := range p.Slots {
		e.byte(byte(s.Type))
		e.str(s.Name)
	}
	e.num(uint64(len(p.Params)))
	for _, s := range p.Params {
		e.byte(byte(s.Type))
		e.str(s.Name)
	}
	e.num(uint64(len(p.Data)))
	for _, d := range p.Data {
		e.byte(byte(d.Type))
		e.str(d.Name)
		e.num(uint64(len(d.Values)))
		for _, v := range d.Values {
			e.value(d.Type, v)
		}
	}
	e.num(uint64(p.Shared))
	for _, n := range p.Block {
		e.num(uint64(n))
	}
	e.num(uint64(len(p.Insts)))
	for i := range p.Insts {
		e.inst(&p.Insts[i])
	}
	e.num(uint64(len(p.Labels)))
	for _, l := range p.Labels {
		e.str(l.Name)
		e.num(uint64(l.At))
	}
	e.names(p.Debug.Regs[:])
	e.names(p.Debug.Preds[:])
	return encoding.LittleEndian.AppendUint32(e.out, crc32.Checksum(e.out, castagnoli))
}

// labelsInOrder returns p, or a copy where p's labels do not stand in order of
// their places, as the text form has them.
func (p *Program) labelsInOrder() *Program {
	byPlace := func(i, j Label) int { return cmp.Compare(i.At, j.At) }
	if slices.IsSortedFunc(p.Labels, byPlace) {
		return p
	}
	order := make([]int, len(p.Labels)) // the old numbers in the new order
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return byPlace(p.Labels[i], p.Labels[j]) })
	q := *p
	q.Labels = make([]Label, len(order))
	q.Insts = slices.Clone(p.Insts)
	moved := make([]uint64, len(order))
	for to, from := range order {
		q.Labels[to] = p.Labels[from]
		moved[from] = uint64(to)
	}
	for i := range q.Insts {
		for k := range q.Insts[i].Args {
			if a := &q.Insts[i].Args[k]; a.Kind == ArgLabel && a.Bits < uint64(len(moved)) {
				a.Bits = moved[a.Bits]
			}
		}
	}
	return &q
}

type encoder struct{ out []byte }

func (e *encoder) byte(b byte)  { e.out = append(e.out, b) }
func (e *encoder) num(n uint64) { e.out = encoding.AppendUvarint(e.out, n) }

func (e *encoder) str(s string) {
	e.num(uint64(len(s)))
	e.out = append(e.out, s...)
}

// value writes a cell in the bytes of its type.
func (e *encoder) value(t Type, v uint64) {
	if !t.Valid() {
		return
	}
	for range t.Size() {
		e.byte(byte(v))
		v >>= 8
	}
}

const flagBit = 0x80

func flagged(b byte, flag bool) byte {
	if flag {
		return b | flagBit
	}
	return b
}

func (e *encoder) inst(in *Inst) {
	e.num(uint64(in.Op))
	e.byte(byte(in.Type))
	e.byte(byte(in.From))
	e.byte(byte(in.Cond))
	n := len(in.Args)
	for n > 0 && in.Args[n-1].Kind == ArgNone {
		n--
	}
	e.byte(byte(n))
	for k := range in.Args[:n] {
		e.arg(&in.Args[k])
	}
}

func (e *encoder) arg(a *Arg) {
	e.byte(flagged(byte(a.Kind), a.Kind == ArgPred && a.Not))
	switch a.Kind {
	case ArgNone:
	case ArgReg, ArgPred:
		e.byte(a.Reg)
	case ArgAddr:
		e.byte(flagged(byte(a.Mode), a.hasOffset() && a.HasReg))
		if a.hasSlot() {
			e.num(uint64(a.Slot))
		}
		if a.Mode == AddrIndirect {
			e.byte(a.Handle)
		}
		if a.hasOffset() && a.HasReg {
			e.byte(a.Reg)
		}
		if a.Mode != AddrIndex {
			e.out = encoding.AppendVarint(e.out, a.Offset())
		}
	default:
		e.num(a.Bits)
	}
}

// hasSlot reports whether the address names a slot.
func (a *Arg) hasSlot() bool {
	return a.Mode == AddrIndex || a.Mode == AddrByte || a.Mode == AddrPhi || a.Mode == AddrFlat
}

func (e *encoder) names(names []string) {
	n := 0
	for _, name := range names {
		if name != "" {
			n++
		}
	}
	e.num(uint64(n))
	for i, name := range names {
		if name != "" {
			e.byte(byte(i))
			e.str(name)
		}
	}
}

// DecodeError says why bytes are not the binary form of a program.
type DecodeError struct {
	Offset int // where, or -1 if the bytes as a whole are wrong
	Msg    string
}

// Error names the place and says what is wrong there.
func (e *DecodeError) Error() string {
	if e.Offset < 0 {
		return "binary program: " + e.Msg
	}
	return fmt.Sprintf("binary program: byte %d: %s", e.Offset, e.Msg)
}

// Decode reads a program's binary form. What it returns is well formed, as
// Check says, and encodes to the same bytes. The error is a *DecodeError. It
// takes memory and time in proportion to data.
func Decode(data []byte) (*Program, error) {
	d := &decoder{data: data}
	p, err := d.program()
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, &DecodeError{-1, err.Error()}
	}
	if !slices.Equal(Encode(p), data) {
		return nil, &DecodeError{-1, "a number is not in its shortest form, or the labels are not in order"}
	}
	return p, nil
}

// decoder reads data. The first error stays; from then on it reads zeros.
type decoder struct {
	data []byte
	pos  int
	err  *DecodeError
}

func (d *decoder) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = &DecodeError{at, fmt.Sprintf(format, args...)}
	}
	d.pos = len(d.data)
}

func (d *decoder) byte() byte {
	if d.pos >= len(d.data) {
		d.fail(d.pos, "the program ends too early")
		return 0
	}
	d.pos++
	return d.data[d.pos-1]
}

// num reads an unsigned number of at most limit.
func (d *decoder) num(what string, limit uint64) uint64 {
	v, n := encoding.Uvarint(d.data[d.pos:])
	switch {
	case n == 0:
		d.fail(d.pos, "the program ends too early")
		return 0
	case n < 0 || v > limit:
		d.fail(d.pos, "%s is more than %d", what, limit)
		return 0
	}
	d.pos += n
	return v
}

// list reads a count and then calls item so many times, as long as there is
// no error; each item takes a byte at least, so the count cannot run away.
func (d *decoder) list(what string, limit int, item func()) {
	n := d.num("the number of "+what, uint64(limit))
	for ; n > 0 && d.err == nil; n-- {
		item()
	}
}

func (d *decoder) name() string {
	n := int(d.num("the length of a name", MaxNameLen))
	if n > len(d.data)-d.pos {
		d.fail(d.pos, "the program ends too early")
		return ""
	}
	d.pos += n
	return string(d.data[d.pos-n : d.pos])
}

// numericType reads the type of a slot, parameter or table.
func (d *decoder) numericType() Type {
	t := Type(d.byte())
	if !t.Numeric() {
		d.fail(d.pos-1, "type %d; slots, parameters and tables have types 1 … %d", t, F64)
		return I8
	}
	return t
}

func (d *decoder) program() (*Program, error) {
	if len(d.data) < len(codecMagic)+2+4 || string(d.data[:len(codecMagic)]) != codecMagic {
		return nil, &DecodeError{-1, fmt.Sprintf("it does not begin with %q; a program's text is assembled, in Python given as a str", codecMagic)}
	}
	if v := encoding.LittleEndian.Uint16(d.data[len(codecMagic):]); v != codecVersion {
		return nil, &DecodeError{len(codecMagic), fmt.Sprintf("format version %d; this library reads version %d", v, codecVersion)}
	}
	end := len(d.data) - 4
	if want, have := encoding.LittleEndian.Uint32(d.data[end:]), crc32.Checksum(d.data[:end], castagnoli); want != have {
		return nil, &DecodeError{-1, fmt.Sprintf("checksum %08x, and the bytes have %08x: they are damaged or cut", want, have)}
	}
	d.data = d.data[:end]
	d.pos = len(codecMagic) + 2
	p := &Program{Name: d.name()}
	d.list("slots", MaxSlots, func() {
		t := d.numericType()
		p.Slots = append(p.Slots, Slot{d.name(), t})
	})
	d.list("parameters", MaxParams, func() {
		t := d.numericType()
		p.Params = append(p.Params, Param{d.name(), t})
	})
	d.list("tables", len(d.data), func() { p.Data = append(p.Data, d.table()) })
	p.Shared = uint32(d.num("shared memory", MaxSharedBytes))
	for i := range p.Block {
		p.Block[i] = uint32(d.num("the block's size", MaxBlockLanes))
	}
	d.list("instructions", MaxInsts, func() { p.Insts = append(p.Insts, d.inst()) })
	d.list("labels", len(d.data), func() {
		name := d.name()
		p.Labels = append(p.Labels, Label{name, int(d.num("the place of a label", uint64(len(p.Insts))))})
	})
	d.names("names of registers", p.Debug.Regs[:])
	d.names("names of predicates", p.Debug.Preds[:])
	if d.err == nil && d.pos != len(d.data) {
		d.fail(d.pos, "%d bytes follow the program", len(d.data)-d.pos)
	}
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}

func (d *decoder) table() Data {
	t := d.numericType()
	table := Data{Name: d.name(), Type: t}
	d.list("values", MaxDataBytes/t.Size(), func() {
		var v uint64
		for i := range t.Size() {
			v |= uint64(d.byte()) << (8 * i)
		}
		table.Values = append(table.Values, v)
	})
	return table
}

func (d *decoder) inst() Inst {
	at := d.pos
	var in Inst
	in.Op = Op(d.num("the operation", uint64(NumOps-1)))
	if _, ok := Lookup(in.Op); !ok {
		d.fail(at, "there is no operation %d", in.Op)
	}
	in.Type, in.From, in.Cond = Type(d.byte()), Type(d.byte()), Cond(d.byte())
	n := int(d.byte())
	if n > MaxOperands {
		d.fail(d.pos-1, "%d operands; at most %d are possible", n, MaxOperands)
		return in
	}
	for i := range n {
		in.Args[i] = d.arg()
	}
	return in
}

func (d *decoder) arg() Arg {
	at := d.pos
	kind := d.byte()
	a := Arg{Kind: ArgKind(kind &^ flagBit), Not: kind&flagBit != 0}
	switch a.Kind {
	case ArgNone:
	case ArgReg, ArgPred:
		a.Reg = d.byte()
	case ArgImm, ArgLabel, ArgParam, ArgData, ArgName:
		a.Bits = d.num("an operand", ^uint64(0))
	case ArgAddr:
		d.addr(&a)
	default:
		d.fail(at, "there is no kind of operand %d", a.Kind)
	}
	return a
}

func (d *decoder) addr(a *Arg) {
	at := d.pos
	mode := d.byte()
	a.Mode, a.HasReg = AddrMode(mode&^flagBit), mode&flagBit != 0
	if a.Mode < AddrIndex || a.Mode > AddrFlat {
		d.fail(at, "there is no address mode %d", a.Mode)
		return
	}
	if a.hasSlot() {
		a.Slot = uint16(d.num("the number of a slot", MaxSlots-1))
	}
	if a.Mode == AddrIndirect {
		a.Handle = d.byte()
	}
	if a.hasOffset() && a.HasReg {
		a.Reg = d.byte()
	}
	if a.Mode != AddrIndex {
		v, n := encoding.Varint(d.data[d.pos:])
		if n <= 0 {
			d.fail(d.pos, "an offset does not end or has more than 64 bits")
			return
		}
		a.Bits = uint64(v)
		d.pos += n
	}
}

func (d *decoder) names(what string, names []string) {
	d.list(what, len(names), func() {
		at := d.pos
		i := int(d.byte())
		name := d.name()
		if d.err == nil && (i >= len(names) || names[i] != "" || name == "") {
			d.fail(at, "%s: number %d is out of range, named twice or named \"\"", what, i)
			return
		}
		if d.err == nil {
			names[i] = name
		}
	})
}
