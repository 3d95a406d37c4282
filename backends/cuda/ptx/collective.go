package ptx

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Behind the program's own shared memory stand, for collectives, a counter that
// deals out ranks among the lanes that are there, and an element for each lane,
// padded to a power of two, for as many scans as are done together.
const (
	ticketAt  = 0
	scratchAt = 16
)

// collectives names the primitive that each collective repeats.
var collectives = map[isa.Op]isa.Op{
	isa.BLOCK_REDUCE_ADD: isa.ADD, isa.BLOCK_SCAN_ADD: isa.ADD,
	isa.BLOCK_REDUCE_MIN: isa.MIN, isa.BLOCK_SCAN_MIN: isa.MIN,
	isa.BLOCK_REDUCE_MAX: isa.MAX, isa.BLOCK_SCAN_MAX: isa.MAX,
	isa.BLOCK_REDUCE_MUL: isa.MUL, isa.BLOCK_SCAN_MUL: isa.MUL,
}

func isScan(op isa.Op) bool { return op >= isa.BLOCK_SCAN_ADD && op <= isa.BLOCK_SCAN_MUL }

// accumulator is the type in which a collective on t computes.
func accumulator(t isa.Type) isa.Type {
	if half(t) {
		return isa.F32
	}
	return t
}

// identity is the literal that changes nothing under op.
func identity(op isa.Op, t isa.Type) string {
	if t.Float() {
		v := map[isa.Op]float64{isa.ADD: math.Copysign(0, -1), isa.MUL: 1, isa.MIN: math.Inf(1), isa.MAX: math.Inf(-1)}[op]
		if t == isa.F64 {
			return literal(t, math.Float64bits(v))
		}
		return literal(t, uint64(math.Float32bits(float32(v))))
	}
	high := t.Mask()
	if t.Signed() {
		high >>= 1
	}
	return literal(t, map[isa.Op]uint64{isa.ADD: 0, isa.MUL: 1, isa.MIN: high, isa.MAX: ^high & t.Mask()}[op])
}

// element of the scratch: type of its loads and stores, and size.
func scratchType(t isa.Type) (string, int) {
	if t.Size() == 8 {
		return "b64", 8
	}
	return "b32", 4
}

// block is what a collective knows of its block.
type block struct {
	rank    string // of the lane among those that are there
	present string // how many are
	padded  string // the block's lanes, up to a power of two
	t       isa.Type
	op      isa.Op
}

// collective is BLOCK_REDUCE_* and BLOCK_SCAN_*. The lanes that are there do
// the work of those that are not, whose elements are the identity.
func (e *emitter) collective(n *ir.Node) {
	op := n.Op.Inst()
	t := accumulator(n.Type)
	if e.p.element < t.Size() {
		e.unsupported(op.String(), "its scratch was not found")
		return
	}
	if done, ok := e.done[n]; ok {
		e.collected(n, done)
		return
	}
	if len(e.frames) == 1 {
		e.gathered()
	}
	result := e.temp(bankOf(t))
	switch scan := isScan(op); {
	case e.whole() && e.opt.Block > warp:
		at := e.frames[len(e.frames)-1]
		run := follows(at.region, at.at)
		run = run[:e.p.together(len(run), e.opt.Block)]
		v := make([]string, len(run))
		for i, m := range run {
			v[i] = e.operand(m)
		}
		do := e.reduceTogether
		if scan {
			do, e.scans = e.scanTogether, true
		}
		for i, done := range do(collectives[op], t, v) {
			e.done[run[i]] = done
		}
		result = e.done[n]
	case scan && e.whole():
		result = e.scanWarp(collectives[op], t, e.operand(n))
	case scan:
		e.scanBlock(e.gather(collectives[op], t, e.operand(n)), result)
	case e.whole():
		result = e.reduceWarp(collectives[op], t, e.operand(n))
	default:
		e.reduceBlock(e.gather(collectives[op], t, e.operand(n)), result)
	}
	e.collected(n, result)
}

// operand is the register of what a collective combines, in the type in which it computes.
func (e *emitter) operand(n *ir.Node) string {
	v := e.arg(n.Args[0])
	if half(n.Type) {
		return e.widen(n.Type, v)
	}
	return e.register(n.Type, v)
}

// collected gives a collective's node its result.
func (e *emitter) collected(n *ir.Node, result string) {
	if half(n.Type) {
		e.narrow(n.Type, e.name(n.Result()), result)
	} else {
		e.move(n.Type, e.name(n.Result()), result)
	}
}

// scratch returns the address of element i, a 32-bit register.
func (e *emitter) scratch(i string, t isa.Type) string {
	at := e.temp(bankRD)
	_, size := scratchType(t)
	e.line("mad.wide.u32 %s, %s, %d, %%shared;", at, i, size)
	return fmt.Sprintf("[%s+%d]", at, e.p.shared+scratchAt)
}

// gather puts the lanes' values into the scratch.
func (e *emitter) gather(op isa.Op, t isa.Type, v string) *block {
	b := &block{op: op, t: t, rank: "%lane", present: "%present", padded: e.temp(bankR)}
	e.folded = true
	word, _ := scratchType(t)
	id := e.place()
	less, lead, one := e.temp(bankR), e.temp(bankR), e.temp(bankR)
	e.line("sub.u32 %s, %%lanes, 1;", less)
	e.line("clz.b32 %s, %s;", lead, less)
	e.line("sub.u32 %s, 32, %s;", lead, lead)
	e.line("mov.b32 %s, 1;", one)
	e.line("shl.b32 %s, %s, %s;", b.padded, one, lead)

	if e.departs() {
		// Not by barrier.red.popc: in some programs an H200 refuses what ptxas 13.0 makes of
		// that at -O0, as an illegal instruction.
		e.comment("who is there, and each one's place among them")
		b.rank, b.present = e.temp(bankR), e.temp(bankR)
		ticket, all, first := fmt.Sprintf("[%%shared+%d]", e.p.shared+ticketAt), e.temp(bankP), e.temp(bankP)
		e.line("atom.shared.add.u32 %s, %s, 1;", b.rank, ticket)
		e.line("barrier.sync 0;")
		e.line("ld.shared.u32 %s, %s;", b.present, ticket)
		e.line("barrier.sync 0;")
		e.line("setp.eq.u32 %s, %s, 0;", first, b.rank)
		e.line("@%s st.shared.u32 %s, 0;", first, ticket)
		e.line("setp.eq.u32 %s, %s, %%lanes;", all, b.present)
		e.line("selp.b32 %s, %%lane, %s, %s;", b.rank, b.rank, all)
	} else {
		e.line("barrier.sync 0;")
	}
	whole, i, p := e.temp(bankP), e.temp(bankR), e.temp(bankP)
	e.line("setp.eq.u32 %s, %s, %s;", whole, b.present, b.padded)
	e.line("@%s bra whole_%d;", whole, id)
	e.comment("lanes that are not there count as the identity")
	none := e.temp(bankOf(t))
	e.move(t, none, identity(op, t))
	e.line("mov.b32 %s, %s;", i, b.rank)
	e.label(fmt.Sprintf("fill_%d", id))
	e.line("setp.ge.u32 %s, %s, %s;", p, i, b.padded)
	e.line("@%s bra filled_%d;", p, id)
	e.line("st.shared.%s %s, %s;", word, e.scratch(i, t), none)
	e.line("add.u32 %s, %s, %s;", i, i, b.present)
	e.line("bra fill_%d;", id)
	e.label(fmt.Sprintf("filled_%d", id))
	e.line("barrier.sync 0;")
	e.label(fmt.Sprintf("whole_%d", id))
	e.line("st.shared.%s %s, %s;", word, e.scratch("%lane", t), v)
	e.line("barrier.sync 0;")
	return b
}

// reduceBlock halves: s[q] = s[q] op s[q+w] for q < w, w = padded/2 … 1.
func (e *emitter) reduceBlock(b *block, result string) {
	word, _ := scratchType(b.t)
	id := e.place()
	w, q, p, other := e.temp(bankR), e.temp(bankR), e.temp(bankP), e.temp(bankR)
	x, y, z := e.temp(bankOf(b.t)), e.temp(bankOf(b.t)), e.temp(bankOf(b.t))
	e.line("shr.u32 %s, %s, 1;", w, b.padded)
	e.label(fmt.Sprintf("halve_%d", id))
	e.line("setp.eq.u32 %s, %s, 0;", p, w)
	e.line("@%s bra halved_%d;", p, id)
	e.line("mov.b32 %s, %s;", q, b.rank)
	e.label(fmt.Sprintf("pair_%d", id))
	e.line("setp.ge.u32 %s, %s, %s;", p, q, w)
	e.line("@%s bra paired_%d;", p, id)
	e.line("add.u32 %s, %s, %s;", other, q, w)
	at := e.scratch(q, b.t)
	e.line("ld.shared.%s %s, %s;", word, x, at)
	e.line("ld.shared.%s %s, %s;", word, y, e.scratch(other, b.t))
	e.compute(b.op, isa.Form{Type: b.t}, z, x, y)
	e.line("st.shared.%s %s, %s;", word, at, z)
	e.line("add.u32 %s, %s, %s;", q, q, b.present)
	e.line("bra pair_%d;", id)
	e.label(fmt.Sprintf("paired_%d", id))
	e.line("barrier.sync 0;")
	e.line("shr.u32 %s, %s, 1;", w, w)
	e.line("bra halve_%d;", id)
	e.label(fmt.Sprintf("halved_%d", id))
	e.line("ld.shared.%s %s, [%%shared+%d];", word, result, e.p.shared+scratchAt)
}

const warp = 32 // lanes

// whole reports whether collectives can be of warps: all lanes of a known number
// come to them, whole warps or one.
func (e *emitter) whole() bool { return !e.departs() && e.opt.Whole(e.opt.Block) }

// Whole reports whether collectives of blocks of n lanes are quicker for being
// told that n.
func (*Options) Whole(n int) bool { return n > 0 && (n <= warp || n%warp == 0) }

// reduceTogether halves several values as reduceBlock does. The halvings above a warp's
// width are done in registers, where each lane has read the elements that meet there, by
// each warp for itself; the others by shuffles.
func (e *emitter) reduceTogether(op isa.Op, t isa.Type, v []string) (results []string) {
	lanes, warps := e.opt.Block, e.opt.Block/warp
	word, size := scratchType(t)
	e.side(t, v, lanes)
	at, q := e.temp(bankRD), e.temp(bankR)
	e.line("and.b32 %s, %%lane, %d;", q, warp-1)
	e.line("mad.wide.u32 %s, %s, %d, %%shared;", at, q, size)
	for i := range v {
		r := make([]string, warps)
		for k := range r {
			r[k] = e.temp(bankOf(t))
			e.line("ld.shared.%s %s, [%s+%d];", word, r[k], at, e.p.shared+scratchAt+(i*lanes+k*warp)*size)
		}
		results = append(results, e.halve(op, t, r))
	}
	for w := warp / 2; w > 0; w /= 2 { // what goes both ways leaves all lanes the result
		for i, x := range results {
			results[i] = e.temp(bankOf(t))
			e.compute(op, isa.Form{Type: t}, results[i], x, e.shuffle(t, x, "bfly", fmt.Sprintf("%d, 31, 0xffffffff", w), ""))
		}
	}
	return results
}

// side lays values of all lanes of a block side by side into scratch, each so many elements
// behind the one before, and returns the address of the lane's own place in the first.
func (e *emitter) side(t isa.Type, v []string, apart int) (own string) {
	word, size := scratchType(t)
	own = e.temp(bankRD)
	e.line("mad.wide.u32 %s, %%lane, %d, %%shared;", own, size)
	if e.folded || len(e.frames) > 1 { // what is there may still be read
		e.line("barrier.sync 0;")
	}
	e.folded = true
	for i, v := range v {
		e.line("st.shared.%s [%s+%d], %s;", word, own, e.p.shared+scratchAt+i*apart*size, v)
	}
	e.line("barrier.sync 0;")
	return own
}

// halve combines registers of a lane: r[q] with r[q+w], where there is one, w their
// number rounded up to a power of two, halved, … 1.
func (e *emitter) halve(op isa.Op, t isa.Type, r []string) string {
	w := 1
	for w < len(r) {
		w *= 2
	}
	for w /= 2; w > 0; w /= 2 {
		for i := 0; i < w && i+w < len(r); i++ {
			z := e.temp(bankOf(t))
			e.compute(op, isa.Form{Type: t}, z, r[i], r[i+w])
			r[i] = z
		}
		r = r[:min(w, len(r))]
	}
	return r[0]
}

// reduceWarp does reduceBlock's halvings by shuffles, of a block that is one warp at most.
func (e *emitter) reduceWarp(op isa.Op, t isa.Type, x string) string {
	lanes, w := e.opt.Block, 1
	for w < lanes {
		w *= 2
	}
	mask := uint64(1)<<lanes - 1
	e.line("bar.warp.sync %#x;", mask) // a collective is a barrier, also for memory
	if w == lanes {                    // what goes both ways leaves all lanes the result
		for w /= 2; w > 0; w /= 2 {
			z := e.temp(bankOf(t))
			e.compute(op, isa.Form{Type: t}, z, x, e.shuffle(t, x, "bfly", fmt.Sprintf("%d, 31, %#x", w, mask), ""))
			x = z
		}
		return x
	}
	none, there := e.temp(bankOf(t)), e.temp(bankP)
	e.move(t, none, identity(op, t))
	for w /= 2; w > 0; w /= 2 {
		y := e.shuffle(t, x, "down", fmt.Sprintf("%d, %d, %#x", w, lanes-1, mask), there)
		z := e.temp(bankOf(t))
		e.line("selp.%s %s, %s, %s, %s;", banks[bankOf(t)].typ, y, y, none, there)
		e.compute(op, isa.Form{Type: t}, z, x, y)
		x = z
	}
	return e.shuffle(t, x, "idx", fmt.Sprintf("0, 31, %#x", mask), "")
}

// shuffle gives a lane another's value; how is the rest of the instruction, and
// there, if it is not empty, gets whether there was such a lane.
func (e *emitter) shuffle(t isa.Type, v, mode, how, there string) string {
	if there != "" {
		there = "|" + there
	}
	one := func(x string) string {
		y := e.temp(bankR)
		e.line("shfl.sync.%s.b32 %s%s, %s, %s;", mode, y, there, x, how)
		return y
	}
	to := e.temp(bankOf(t))
	if t.Size() < 8 {
		x := e.temp(bankR)
		e.line("mov.b32 %s, %s;", x, v)
		e.line("mov.b32 %s, %s;", to, one(x))
		return to
	}
	word, high, low, top := e.temp(bankRD), e.temp(bankRD), e.temp(bankR), e.temp(bankR)
	e.line("mov.b64 %s, %s;", word, v)
	e.line("cvt.u32.u64 %s, %s;", low, word) // by shifts: see storeBytes
	e.line("shr.u64 %s, %s, 32;", high, word)
	e.line("cvt.u32.u64 %s, %s;", top, high)
	low, top = one(low), one(top)
	e.line("cvt.u64.u32 %s, %s;", word, low)
	e.line("cvt.u64.u32 %s, %s;", high, top)
	e.line("shl.b64 %s, %s, 32;", high, high)
	e.line("or.b64 %s, %s, %s;", word, word, high)
	e.line("mov.b64 %s, %s;", to, word)
	return to
}

// scanBlock is Hillis and Steele's: s[q] = s[q−w] op s[q] for q ≥ w, for
// w = 1, 2, 4 …. Each round goes through the elements from the top in pieces of
// as many as there are lanes, so that s[q−w] is of the round before.
func (e *emitter) scanBlock(b *block, result string) {
	word, _ := scratchType(b.t)
	id := e.place()
	w, c, q, p, in, other := e.temp(bankR), e.temp(bankR), e.temp(bankR), e.temp(bankP), e.temp(bankP), e.temp(bankR)
	x, y, z := e.temp(bankOf(b.t)), e.temp(bankOf(b.t)), e.temp(bankOf(b.t))
	e.line("mov.b32 %s, 1;", w)
	e.label(fmt.Sprintf("scan_%d", id))
	e.line("setp.ge.u32 %s, %s, %s;", p, w, b.padded)
	e.line("@%s bra scanned_%d;", p, id)
	e.line("sub.u32 %s, %s, 1;", c, b.padded)
	e.line("div.u32 %s, %s, %s;", c, c, b.present)
	e.line("mul.lo.u32 %s, %s, %s;", c, c, b.present)
	e.label(fmt.Sprintf("piece_%d", id))
	e.line("add.u32 %s, %s, %s;", q, c, b.rank)
	e.line("setp.ge.u32 %s, %s, %s;", in, q, w)
	e.line("setp.lt.and.u32 %s, %s, %s, %s;", in, q, b.padded, in)
	e.line("sub.u32 %s, %s, %s;", other, q, w)
	at := e.scratch(q, b.t)
	e.line("@%s ld.shared.%s %s, %s;", in, word, y, at)
	e.line("@%s ld.shared.%s %s, %s;", in, word, x, e.scratch(other, b.t))
	e.line("barrier.sync 0;")
	e.compute(b.op, isa.Form{Type: b.t}, z, x, y)
	e.line("@%s st.shared.%s %s, %s;", in, word, at, z)
	e.line("barrier.sync 0;")
	e.line("setp.eq.u32 %s, %s, 0;", p, c)
	e.line("sub.u32 %s, %s, %s;", c, c, b.present)
	e.line("@!%s bra piece_%d;", p, id)
	e.line("shl.b32 %s, %s, 1;", w, w)
	e.line("bra scan_%d;", id)
	e.label(fmt.Sprintf("scanned_%d", id))
	e.line("ld.shared.%s %s, %s;", word, result, e.scratch("%lane", b.t))
}

// scanWarp does scanBlock's rounds by shuffles, of a block that is one warp.
func (e *emitter) scanWarp(op isa.Op, t isa.Type, v string) string {
	lanes := e.opt.Block
	mask, x, there := uint64(1)<<lanes-1, v, e.temp(bankP)
	e.line("bar.warp.sync %#x;", mask) // a collective is a barrier, also for memory
	for w := 1; w < lanes; w *= 2 {
		y := e.shuffle(t, x, "up", fmt.Sprintf("%d, 0, %#x", w, mask), there)
		x = e.combine(op, t, there, y, x)
	}
	return x
}

// scanTogether does scanBlock's rounds of several scans, each by one warp or a part of one,
// of which a lane has every width-th element: rounds below that width are shuffles among
// lanes, those above are a lane's own. Were a scan done by all warps, each would read most
// elements too.
func (e *emitter) scanTogether(op isa.Op, t isa.Type, v []string) (results []string) {
	lanes, warps := e.opt.Block, e.opt.Block/warp
	word, size := scratchType(t)
	// A warp has parts for several scans where there are enough for all warps: shuffles are what
	// takes longest, and the more parts a warp has, the fewer rounds have them.
	each := 1
	for e.p.shares() && 2*each*warps <= len(v) && len(v)%(2*each) == 0 && 2*each*lanes <= warp*mostOfScan {
		each *= 2
	}
	width, apart := warp/each, lanes
	if each > 1 {
		apart += width // so that a warp's scans are in different banks
	}
	own := e.side(t, v, apart)
	at, next, last := e.temp(bankRD), e.temp(bankR), e.temp(bankR)
	e.line("shr.u32 %s, %%lane, %d;", next, bits.TrailingZeros(uint(width)))
	e.line("and.b32 %s, %%lane, %d;", last, width-1)
	id, p, x := e.place(), e.temp(bankP), make([]string, lanes/width)
	again := len(v) > each*warps
	if each == 1 || again {
		e.label(fmt.Sprintf("scan_%d", id))
		e.line("setp.ge.u32 %s, %s, %d;", p, next, len(v))
		e.line("@%s bra scanned_%d;", p, id)
	}
	from := e.temp(bankR)
	e.line("mad.lo.u32 %s, %s, %d, %s;", from, next, apart, last)
	e.line("mad.wide.u32 %s, %s, %d, %%shared;", at, from, size)
	place := func(i int) string { return fmt.Sprintf("[%s+%d]", at, e.p.shared+scratchAt+i*width*size) }
	for i := range x {
		x[i] = e.temp(bankOf(t))
		e.line("ld.shared.%s %s, %s;", word, x[i], place(i))
	}
	for w := 1; w < width; w *= 2 {
		inside := e.temp(bankP)
		e.line("setp.ge.u32 %s, %s, %d;", inside, last, w)
		e.line("sub.u32 %s, %s, %d;", from, last, w) // of a lane's number the last bits count
		before := ""
		for i := range x {
			y := e.shuffle(t, x[i], "idx", fmt.Sprintf("%s, %d, 0xffffffff", from, (warp-width)<<8|(warp-1)), "")
			if i == 0 {
				x[i] = e.combine(op, t, inside, y, x[i])
			} else {
				z, both := e.temp(bankOf(t)), e.temp(bankOf(t))
				e.line("selp.%s %s, %s, %s, %s;", banks[bankOf(t)].typ, z, y, before, inside)
				e.compute(op, isa.Form{Type: t}, both, z, x[i])
				x[i] = both
			}
			before = y
		}
	}
	for w := 1; w < len(x); w *= 2 {
		for i := len(x) - 1; i >= w; i-- {
			z := e.temp(bankOf(t))
			e.compute(op, isa.Form{Type: t}, z, x[i-w], x[i])
			x[i] = z
		}
	}
	for i := range x {
		e.line("st.shared.%s %s, %s;", word, place(i), x[i])
	}
	if again {
		e.line("add.u32 %s, %s, %d;", next, next, warps*each)
		e.line("bra scan_%d;", id)
	}
	if each == 1 || again {
		e.label(fmt.Sprintf("scanned_%d", id))
	}
	e.line("barrier.sync 0;")
	for i := range v {
		to := e.temp(bankOf(t))
		e.line("ld.shared.%s %s, [%s+%d];", word, to, own, e.p.shared+scratchAt+i*apart*size)
		results = append(results, to)
	}
	return results
}

// combine returns x op y where there is an x, else y.
func (e *emitter) combine(op isa.Op, t isa.Type, there, x, y string) string {
	both, z := e.temp(bankOf(t)), e.temp(bankOf(t))
	e.compute(op, isa.Form{Type: t}, both, x, y)
	e.line("selp.%s %s, %s, %s, %s;", banks[bankOf(t)].typ, z, both, y, there)
	return z
}

// barrier is BAR_SYNC: it waits for all lanes that have not ended, of the block or
// of all blocks that meet, which then see what the others have written.
func (e *emitter) barrier(*ir.Node) {
	if e.opt.Meeting == 0 || e.alone() {
		e.line("barrier.sync 0;")
		return
	}
	if e.heard() && e.onlyTold() {
		return
	}
	e.line("barrier.cluster.arrive.release;")
	e.line("barrier.cluster.wait.acquire;")
}

// alone reports of a barrier at which blocks would meet that no block can have something for
// others there: since the last one nothing was written but shared memory, a block's own.
func (e *emitter) alone() bool {
	f := e.frames[len(e.frames)-1]
	if len(e.frames) > 1 {
		return false
	}
	for _, n := range slices.Backward(f.region.Nodes[:f.at]) {
		if e.p.barriers[n] && !n.Op.IsInst() || e.writes(n) {
			return false
		}
		if n.Op.IsInst() && n.Op.Inst() == isa.BAR_SYNC {
			break
		}
	}
	return true
}

// onlyTold reports of a barrier that since the last one, or a collective, nothing was done to
// memory but to tell: to have heard it then orders all that there is.
func (e *emitter) onlyTold() bool {
	f := e.frames[len(e.frames)-1]
	if len(e.frames) > 1 {
		return false
	}
	for _, n := range slices.Backward(f.region.Nodes[:f.at]) {
		if isBarrier(n) {
			break
		}
		if e.p.barriers[n] || e.touches(n) {
			return false
		}
	}
	return true
}

// touches reports whether a node, or one within, does something to memory beside telling.
func (e *emitter) touches(n *ir.Node) bool {
	if n.Op.IsInst() {
		row, _ := isa.Lookup(n.Op.Inst())
		return row.Effect&(isa.Reads|isa.Writes) != 0 && !(n.Op.Inst() == isa.STG && e.opt.told(n.Mem.Slot))
	}
	return slices.ContainsFunc(n.Regions, func(r *ir.Region) bool { return slices.ContainsFunc(r.Nodes, e.touches) })
}

// writes reports whether a node, or one within, may write what other blocks read.
func (e *emitter) writes(n *ir.Node) bool {
	if n.Op.IsInst() {
		op := n.Op.Inst()
		row, _ := isa.Lookup(op)
		return op != isa.STS && row.Effect&isa.Writes != 0
	}
	return slices.ContainsFunc(n.Regions, func(r *ir.Region) bool { return slices.ContainsFunc(r.Nodes, e.writes) })
}

// fence is MEM_FENCE.
func (e *emitter) fence(n *ir.Node) {
	switch isa.Scope(n.Imm) {
	case isa.ScopeBlock:
		e.line("membar.cta;")
	case isa.ScopeDevice:
		e.line("membar.gl;")
	case isa.ScopeSystem:
		e.line("membar.sys;")
	}
}
