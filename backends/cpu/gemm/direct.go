package gemm

import (
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Short products that callers enter by themselves. What a launch does is a sequence
// of calls of machine code, which sizes and layouts decide: a worker goes through the
// product as ever, but writes the calls down, and the code of a sequence makes them.

// directCalls is in how many calls work is entered directly.
const directCalls = 256

// fetchNanoseconds is from how much work on it pays that its calls fetch what is next: two addresses
// more for each have to be made each time.
const fetchNanoseconds = 20e3

// A frame: alpha, beta, how many calls there are, the calls, then what was asked for as
// rooms.
const (
	frameAlpha = 0
	frameBeta  = 8
	frameCalls = 16
	frameFirst = 64

	callCode  = 0
	callFlags = 8
	callArgs  = 16
	callBytes = (callArgs + int(max(unsafe.Sizeof(args{}), unsafe.Sizeof(tileArgs{}))) + 63) &^ 63
)

// sequenceOf is a launch that was written down. Its slots lie at addresses of their own,
// spaceBytes apart, and its rooms behind them.
type sequenceOf struct {
	calls []writtenCall
	rooms uintptr // bytes
}

// writtenCall is a call: its args' bytes, where in them addresses are, and where how many tiles, which it counts
// down, or −1.
type writtenCall struct {
	code      *mem.Code
	args      []byte
	flags     uint64
	addresses []uintptr
	tiles     int
}

const (
	spaceBytes uintptr = 1 << 44
	roomsAt            = 8 * spaceBytes
)

var (
	errTooLong = errors.New("gemm: too long to be entered directly")
	errByHand  = errors.New("gemm: not done by machine code alone")
)

// add writes a call down, and leaves args as it would.
func (s *sequenceOf) add(kind codeKind, of tile, c *mem.Code, a *args) error {
	if len(s.calls) == directCalls {
		return errTooLong
	}
	call := writtenCall{c, bytesOf(a), a.flags, addressesOf(kind, of, a), -1}
	if kind.counts() {
		call.tiles = int(unsafe.Offsetof(a.tiles))
	}
	s.calls = append(s.calls, call)
	if !kind.counts() {
		return nil
	}
	tiles := uintptr(a.tiles)
	a.a += tiles * a.aNext
	a.b += tiles * a.bNext
	for _, at := range []*uintptr{&a.t, &a.s, &a.d, &a.c} {
		*at += tiles * a.dNext
	}
	if of.packs {
		a.dst += tiles * a.dstStep
	}
	if kind == multiplies {
		for i := range of.lists() {
			a.next[i].at += tiles * a.next[i].tile
		}
	}
	a.tiles = 0
	return nil
}

// addUnits writes a call of code for units down.
func (s *sequenceOf) addUnits(kind unitKind, of tile, c *mem.Code, t *tileArgs) error {
	if len(s.calls) == directCalls {
		return errTooLong
	}
	call := writtenCall{code: c, args: bytesOf(t), flags: t.flags, tiles: -1}
	switch kind {
	case interleaves, tilesByColumns, tilesByRows:
		call.addresses = []uintptr{unsafe.Offsetof(t.dst)}
		if of.rows > 0 {
			call.addresses = append(call.addresses, unsafe.Offsetof(t.src))
		}
		if kind == interleaves {
			call.addresses = append(call.addresses, unsafe.Offsetof(t.origin))
		}
	default:
		call.tiles = int(unsafe.Offsetof(t.tiles))
		call.addresses = []uintptr{unsafe.Offsetof(t.a), unsafe.Offsetof(t.b), unsafe.Offsetof(t.s), unsafe.Offsetof(t.c)}
		if t.rests > 0 {
			call.addresses = append(call.addresses, unsafe.Offsetof(t.rest))
		}
		if t.next > 0 {
			call.addresses = append(call.addresses, unsafe.Offsetof(t.next))
		}
	}
	s.calls = append(s.calls, call)
	return nil
}

// bytesOf is a copy of the bytes that something has.
func bytesOf[T args | tileArgs](x *T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(x)), unsafe.Sizeof(*x)))
}

// counts reports whether code goes from tile to tile, and counts them down.
func (k codeKind) counts() bool {
	switch k {
	case copies, transposes, moves, widens, narrows, outers:
		return false
	}
	return true
}

// room returns where so many bytes are.
func (s *sequenceOf) room(bytes int64) uintptr {
	at := roomsAt + s.rooms
	s.rooms += (uintptr(bytes) + 63) &^ 63
	return at
}

// byHand is asked before something is done that is not machine code: it reports whether
// calls are written down, which then are not all.
func (w *worker) byHand() bool {
	if w.written != nil {
		w.err = errByHand
	}
	return w.written != nil
}

// Direct is backends.Entered's, of a launch within a bound in nanoseconds. Nil: it never is.
func (k *Kernel) Direct(l *backends.Launch, within float64) []backends.Direct {
	alone := *l
	alone.Record = nil // nobody cancels it
	alone.Slots = slices.Clone(l.Slots)
	for i := range alone.Slots {
		alone.Slots[i].Addr = uintptr(i+1) * spaceBytes
	}
	r, ok := k.prepare(&alone)
	if !ok || r == nil {
		return nil
	}
	defer k.spare.Store(r)
	p := &r.first
	ns := r.nanoseconds()
	if !(ns <= within) || p.k == 0 {
		return nil
	}
	if k.is.Scaled { // by whatever numbers a call brings
		p.scaled, p.reads = true, true
	}
	s := &sequenceOf{}
	w := &worker{written: s, short: ns < fetchNanoseconds}
	for i := range r.divide(1, 0) {
		r.task(w, i)
	}
	if w.err != nil {
		return nil
	}
	code, err := p.lib.get(sequences, tile{t: p.t, mask: k.is.Scaled})
	if err != nil {
		return nil
	}
	rooms := frameFirst + len(s.calls)*callBytes
	d := backends.Direct{Code: code.Entry, Frame: make([]byte, rooms+int(s.rooms)), Nanoseconds: ns, Bounded: true, Fault: -1}
	cell := func(at int) *uint64 { return (*uint64)(unsafe.Pointer(&d.Frame[at])) }
	*cell(frameCalls) = uint64(len(s.calls))
	if k.is.Scaled {
		t := k.is.Acc
		d.Params = []backends.ParamPlace{
			{Of: k.params.alpha, At: frameAlpha, Type: t},
			{Of: k.params.beta, At: frameBeta, Type: t},
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		at := frameFirst + i*callBytes
		*cell(at + callCode), *cell(at + callFlags) = uint64(c.code.Entry), c.flags
		copy(d.Frame[at+callArgs:], c.args)
		for _, field := range c.addresses {
			place := backends.AddressPlace{At: at + callArgs + int(field)}
			v := uintptr(*cell(place.At))
			if place.Of, place.Offset = backends.Base(v/spaceBytes)-1, int64(v%spaceBytes); v >= roomsAt {
				place.Of, place.Offset = backends.OwnFrame, int64(v-roomsAt)+int64(rooms)
			}
			d.Addresses = append(d.Addresses, place)
		}
		if c.tiles >= 0 {
			d.Words = append(d.Words, backends.Word{At: at + callArgs + c.tiles, Value: *cell(at + callArgs + c.tiles)})
		}
	}
	return []backends.Direct{d}
}

// addressesOf returns the fields of args that the code looks at and that are addresses.
func addressesOf(kind codeKind, s tile, a *args) []uintptr {
	switch kind {
	case copies, transposes, moves, widens, narrows:
		return []uintptr{unsafe.Offsetof(a.src), unsafe.Offsetof(a.dst)}
	case dotwise:
		return []uintptr{unsafe.Offsetof(a.a), unsafe.Offsetof(a.b), unsafe.Offsetof(a.d)}
	}
	fields := []uintptr{unsafe.Offsetof(a.a), unsafe.Offsetof(a.b), unsafe.Offsetof(a.d)}
	for _, x := range []struct{ flag, field uintptr }{{flagAdd, unsafe.Offsetof(a.s)}, {flagBeta, unsafe.Offsetof(a.c)},
		{flagBegin, unsafe.Offsetof(a.t)}} {
		if uintptr(a.flags)&x.flag != 0 {
			fields = append(fields, x.field)
		}
	}
	if kind != multiplies {
		return fields
	}
	if s.packs {
		fields = append(fields, unsafe.Offsetof(a.dst))
	}
	if s.packsA {
		fields = append(fields, unsafe.Offsetof(a.aDst))
	}
	for i := range s.lists() {
		fields = append(fields, unsafe.Offsetof(a.next)+uintptr(i)*unsafe.Sizeof(ahead{}))
	}
	return fields
}

// sequence makes the calls of a frame; with mask alpha and beta are those of the frame:
// C is not read where beta is zero.
func sequence(m machine, s tile) ([]byte, error) {
	g := newMaker(m, tile{t: s.t})
	g.begin()
	const frame, call, left, flags, value = x86.RBX, x86.RBP, x86.R13, x86.R12, x86.RAX
	field := func(offset uintptr) x86.Mem { return x86.At(call, callArgs+int32(offset)) }
	g.Mov(x86.W64, frame, x86.RDI)
	g.MovImm(flags, math.MaxUint64)
	width := x86.Width(s.t.size())
	if s.mask {
		reads, scaled := g.NewLabel(), g.NewLabel()
		g.Load(width, value, x86.At(frame, frameBeta))
		if s.t.float() { // −0 is zero
			g.Op(x86.ADD, width, value, value)
		}
		g.Test(width, value, value)
		g.Jcc(x86.NE, reads)
		g.OpImm(x86.AND, x86.W64, flags, ^flagBeta)
		g.Bind(reads)
		if s.t.float() {
			g.Load(width, value, x86.At(frame, frameAlpha))
			g.MovImm(x86.RCX, s.t.one())
			g.Op(x86.CMP, width, value, x86.RCX)
			g.Jcc(x86.NE, scaled)
			g.OpImm(x86.AND, x86.W64, flags, ^flagScale)
			g.Bind(scaled)
		}
	}
	g.Load(x86.W64, left, x86.At(frame, frameCalls))
	g.Lea(call, x86.At(frame, frameFirst))
	loop := g.NewLabel()
	g.Bind(loop)
	var a follows
	g.Load(x86.W64, value, x86.At(call, callFlags))
	g.Op(x86.AND, x86.W64, value, flags)
	g.Store(x86.W64, field(unsafe.Offsetof(a.flags)), value)
	if s.mask {
		g.Load(x86.W64, value, x86.At(frame, frameAlpha))
		g.Store(x86.W64, field(unsafe.Offsetof(a.alpha)), value)
		g.Load(x86.W64, value, x86.At(frame, frameBeta))
		g.Store(x86.W64, field(unsafe.Offsetof(a.beta)), value)
	}
	g.Lea(x86.RDI, field(0))
	g.Call(x86.At(call, callCode))
	g.OpImm(x86.ADD, x86.W64, call, int32(callBytes))
	g.OpImm(x86.SUB, x86.W64, left, 1)
	g.Jcc(x86.NE, loop)
	return g.end()
}
