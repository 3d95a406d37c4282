package gemm

import (
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
)

// element is how numbers lie in memory, of so many bytes each.
type element struct {
	size int64
	wide widening
}

// widening is how elements become numbers of 4 bytes, and these elements again.
type widening int

const (
	asNumber widening = iota // as which they lie there already
	wideI8
	wideU8
	wideI16
	wideU16
	wideF16
	wideBF16 // and 16 bits up
)

// numberOf is the type in which products of elements of type t are computed, and
// how these lie in memory.
func numberOf(t isa.Type) (number, element) {
	size := int64(t.Size())
	switch t {
	case isa.F32:
		return f32, element{size, asNumber}
	case isa.F64:
		return f64, element{size, asNumber}
	case isa.I32, isa.U32:
		return i32, element{size, asNumber}
	case isa.I64, isa.U64:
		return i64, element{size, asNumber}
	case isa.I8:
		return i32, element{size, wideI8}
	case isa.U8:
		return i32, element{size, wideU8}
	case isa.I16:
		return i32, element{size, wideI16}
	case isa.U16:
		return i32, element{size, wideU16}
	case isa.F16:
		return f32, element{size, wideF16}
	case isa.BF16:
		return f32, element{size, wideBF16}
	}
	return numbers, element{}
}

// size is that of elements, in bytes.
func (w widening) size() int {
	if w <= wideU8 {
		return 1
	}
	return 2
}

var wideForms = [...]*x86.Form{wideI8: x86.SxBD, wideU8: x86.ZxBD, wideI16: x86.SxWD, wideU16: x86.ZxWD, wideF16: x86.PH2PS, wideBF16: x86.ZxWD}

// A register for what is on its way one by one.
const oneElement = x86.R12

// widener makes numbers of elements: of count rows, of which each has so many vectors as tiles
// says, or with s.mask so many elements. s.rows is the widening.
func widener(m machine, s tile) ([]byte, error) {
	wide := widening(s.rows)
	if s.mask {
		m.bytes = 16
	}
	g := newMaker(m, tile{t: s.t})
	return g.rowByRow(func(from, to x86.Reg) {
		v := x86.Inst{VL: m.bytes, IsMem: true, Mem: x86.At(from, 0)}
		f := wideForms[wide]
		if s.mask {
			load := g.Load
			if wide == wideI8 || wide == wideI16 {
				load = g.LoadSigned
			}
			load(x86.Width(wide.size()), oneElement, x86.At(from, 0))
			g.Emit(x86.MovDFrom, x86.Inst{VL: 16, B: oneElement})
			f, v = nil, x86.Inst{VL: 16}
			if wide == wideF16 {
				f = x86.PH2PS
			}
		}
		if f != nil {
			g.Emit(f, v)
		}
		if wide == wideBF16 {
			g.Emit(x86.SllD, x86.Inst{VL: m.bytes, D: 0, B: 0, Imm: 16})
		}
		if s.mask {
			g.Emit(x86.MovDTo, x86.Inst{VL: 16, IsMem: true, Mem: x86.At(to, 0)})
			return
		}
		g.store(x86.At(to, 0), 0, false)
	})
}

// narrower makes elements of numbers as widener does the other way: floats are rounded
// to nearest, of ties to even; of integers the low bits are left.
func narrower(m machine, s tile) ([]byte, error) {
	if s.mask {
		m.bytes = 16
	}
	g := newMaker(m, tile{t: s.t})
	const v, bits, half, one, low, quiet x86.Reg = 0, 1, 2, 3, 4, 5
	wide := widening(s.rows)
	for _, c := range []struct {
		r  x86.Reg
		is uint64
	}{{half, 0x7FFF}, {one, 1}, {low, 1<<(8*wide.size()) - 1}, {quiet, 0x7FC0}} {
		g.MovImm(x86.RAX, c.is)
		g.Emit(x86.MovDFrom, x86.Inst{VL: 16, D: c.r, B: x86.RAX})
		g.Emit(x86.BcastD, x86.Inst{VL: m.bytes, D: c.r, B: c.r})
	}
	and := x86.And
	if m.evex {
		and = x86.AndD
	}
	return g.rowByRow(func(from, to x86.Reg) {
		store := func(f *x86.Form, vl int) {
			g.Emit(f, x86.Inst{VL: vl, D: v, IsMem: true, Mem: x86.At(to, 0)})
		}
		if s.mask {
			g.Emit(x86.MovDFrom, x86.Inst{VL: 16, D: v, IsMem: true, Mem: x86.At(from, 0)})
		} else {
			g.load(v, x86.At(from, 0), false)
		}
		switch wide {
		case wideF16:
			if !s.mask {
				store(x86.PS2PH, m.bytes)
				return
			}
			g.Emit(x86.PS2PH, x86.Inst{VL: 16, D: v, B: v})
		case wideBF16:
			g.roundToBF16(and, v, bits, half, one, quiet)
		}
		switch {
		case s.mask:
			g.Emit(x86.MovDTo, x86.Inst{VL: 16, D: v, B: oneElement})
			g.Store(x86.Width(wide.size()), x86.At(to, 0), oneElement)
		case m.evex:
			store(map[int]*x86.Form{1: x86.DB, 2: x86.DW}[wide.size()], m.bytes)
		default: // packed in each half
			g.op(and, v, v, low)
			g.op(x86.PackUSDW, v, v, v)
			if m.bytes == 32 {
				g.Emit(x86.PermQ, x86.Inst{VL: 32, D: v, B: v, Imm: 0x08})
			}
			if wide.size() == 1 {
				g.Emit(x86.PackUSWB, x86.Inst{VL: 16, D: v, A: v, B: v})
			}
			store(map[int]*x86.Form{4: x86.MovDTo, 8: x86.StoreQ, 16: x86.StoreUPS}[m.bytes/4*wide.size()], 16)
		}
	})
}

// roundToBF16 leaves in the low half of each element of v what it is as bf16.
func (g *maker) roundToBF16(and *x86.Form, v, bits, half, one, quiet x86.Reg) {
	shift := func(d, from x86.Reg) { g.Emit(x86.SrlD, x86.Inst{VL: g.m.bytes, D: d, B: from, Imm: 16}) }
	shift(bits, v)
	g.op(and, bits, bits, one) // half a step is added, or just less where the last bit is even
	g.op(x86.AddD, bits, bits, half)
	g.op(x86.AddD, bits, bits, v)
	shift(bits, bits)
	const unordered = 3
	if g.m.evex {
		g.Emit(x86.CmpPS, x86.Inst{VL: g.m.bytes, D: 1, A: v, B: v, Imm: unordered})
		g.op(x86.OrD, v, bits, bits)
		g.Emit(x86.MovAPS, x86.Inst{VL: g.m.bytes, D: v, B: quiet, K: 1})
		return
	}
	g.Emit(x86.VCmpPS, x86.Inst{VL: g.m.bytes, D: v, A: v, B: v, Imm: unordered})
	g.Emit(x86.BlendVB, x86.Inst{VL: g.m.bytes, D: v, A: bits, B: quiet, C: v})
}

// widen makes numbers of cols × rows such elements, whose columns lie colStep and whose rows
// rowStep bytes apart, in rows that lie step apart: vectors of them as they lie, which
// are transposed then where columns do as rows should, or one by one.
func (w *worker) widen(e element, dst uintptr, step int64, src uintptr, colStep, rowStep, cols, rows int64) {
	lanes, width := int64(w.p.lib.m.lanes(w.p.t)), w.p.t.size()
	if colStep == e.size && rowStep == cols*e.size && step == cols*width { // in one
		cols, rows = cols*rows, 1
	}
	if rowStep != e.size || rows < lanes || cols == 1 || colStep == e.size && cols >= lanes {
		w.convertRows(widens, e.wide, dst, step, width, src, rowStep, colStep, cols, rows, colStep == e.size)
		return
	}
	most := max(1, widenedBytes/(rows*width))
	room := w.room(roomWide, min(most, cols)*rows*width)
	for c := int64(0); c < cols; c += most {
		n := min(most, cols-c)
		w.convertRows(widens, e.wide, room, rows*width, width, src+uintptr(c*colStep), colStep, e.size, rows, n, true)
		w.move(dst+uintptr(c*width), step, width, room, rows*width, width, n, rows)
	}
}

// widenedBytes is how many bytes of numbers a call makes, and for how many there is room
// before they are transposed.
const widenedBytes = 128 << 10

// narrow makes elements of the result of rows × cols numbers, whose rows lie step apart: vectors
// of them, which are transposed first where the result's columns lie as its rows would, or one by one.
func (w *worker) narrow(dst uintptr, rowStep, colStep int64, src uintptr, step, rows, cols int64) {
	e := w.p.out
	lanes, width := int64(w.p.lib.m.lanes(w.p.t)), w.p.t.size()
	if colStep == e.size && rowStep == cols*e.size && step == cols*width { // in one
		cols, rows = cols*rows, 1
	}
	if rowStep != e.size || rows < lanes || colStep == e.size && cols >= lanes {
		w.convertRows(narrows, e.wide, dst, rowStep, colStep, src, step, width, cols, rows, colStep == e.size)
		return
	}
	most := max(1, widenedBytes/(rows*width))
	room := w.room(roomWide, min(most, cols)*rows*width)
	for c := int64(0); c < cols; c += most {
		n := min(most, cols-c)
		w.move(room, width, rows*width, src+uintptr(c*width), width, step, n, rows)
		w.convertRows(narrows, e.wide, dst+uintptr(c*colStep), colStep, e.size, room, rows*width, width, rows, n, true)
	}
}

// convertRows converts rows of elements, whose distances are given: in vectors, of which a row's last one lies
// on the one before, if they lie side by side and there are enough, else one by one.
func (w *worker) convertRows(kind codeKind, wide widening, dst uintptr, dstRow, dstCol int64, src uintptr, srcRow, srcCol, cols, rows int64, vectors bool) {
	lanes := int64(w.p.lib.m.lanes(w.p.t))
	s := tile{t: w.p.t, rows: int(wide)}
	if !vectors || cols < lanes {
		s.mask, lanes = true, 1
	}
	if cols == 0 {
		return
	}
	most, across := max(1, widenedBytes/(cols*4)), cols/lanes
	w.srcStep, w.srcNext, w.dstStep, w.bNext = uintptr(srcRow), uintptr(lanes*srcCol), uintptr(dstRow), uintptr(lanes*dstCol)
	for r := int64(0); r < rows; r += most {
		from, to := src+uintptr(r*srcRow), dst+uintptr(r*dstRow)
		w.src, w.dst, w.tiles, w.count = from, to, across, uintptr(min(most, rows-r))
		w.call(kind, s)
		if cols%lanes > 0 {
			w.src, w.dst, w.tiles = from+uintptr((cols-lanes)*srcCol), to+uintptr((cols-lanes)*dstCol), 1
			w.call(kind, s)
		}
	}
}
