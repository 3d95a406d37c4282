package ptx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Several elements a lane. A program that computes each element of its outputs
// alone (analysis.Class.Elementwise) may have a lane do many, so that memory is accessed 16
// bytes at a time and much is under way at once. The elements of a block are
//
//	Groups runs of VectorLanes · Vector elements; in each run a lane has Vector
//	neighbours
//
// Of a space with several dimensions, each run has an address of its own in every
// slot, and the neighbours lie in one row of the innermost. Where rows are no multiple
// of a run (Options.Odd), they may lie in two: then slots have the rows one behind the
// other, or one element of each, of which the second row's is loaded too.
//
// The body is written node by node where memory is accessed by index, for all
// elements together, and element by element in between, so each element sees the
// order that the program has. A block that the index space ends in does its
// elements one by one instead (the tail).

// VectorLanes is how many lanes a block has in variants with Vector, and groups
// how many runs of neighbours a lane does. Of 128, 256 and 512 lanes and 1, 2 and
// 4 groups these are the best on an H200, or within half a percent of it. What
// programs of 16-bit floats do takes as long as their memory, so that the
// instructions around it count: of manyNodes they have more groups, if few values
// live at a time (log, of which 8 do, takes 1.1 of its time so), and as few registers
// as leave room for residentBlocks: gelu, at the device's limit of power, gains 1 to 2 %
// by that, though a lane then keeps a register or two in memory meanwhile.
const (
	VectorLanes    = 128
	groups         = 2
	manyGroups     = 4
	manyNodes      = 38
	fewLive        = 6
	residentBlocks = 16
)

// The most elements of a lane side by side, the most nodes in a lane's code, and
// the most in the program where values have 64 bits and a lane does more than one
// run, or addresses bytes: beyond that arithmetic is what takes the time, and
// registers run out.
const (
	maxVector      = 8
	maxVectorNodes = 2048
	maxWideNodes   = 16
)

// vectors sets Vector and Groups.
func (p *Program) vectors() {
	a := analysis.New(p.fn)
	if !a.Class.Elementwise || !p.AnyBlock || leaves(p.fn.Body) {
		return
	}
	largest, nodes := 1, countNodes(p.fn.Body)
	for i, s := range p.fn.Slots {
		if s.Indexed {
			largest = max(largest, p.fn.SlotTypes[i].Size())
		}
	}
	p.writes, p.within = a.Class.Writes, loadedWithin(p.fn.Body)
	p.Vector = min(16/largest, maxVector)
	p.Groups = groups
	if largest == 2 && nodes > manyNodes && mostLive(p.fn.Body) <= fewLive {
		p.Groups = manyGroups
	}
	if largest == 8 && nodes > maxWideNodes {
		if slices.ContainsFunc(p.fn.Slots, func(u isa.SlotUse) bool { return u.Computed() }) {
			p.Vector, p.Groups = 0, 0
			return
		}
		p.Groups = 1
	}
	for p.Groups > 1 && p.Groups*p.Vector*nodes > maxVectorNodes {
		p.Groups /= 2
	}
	for p.Vector > 1 && p.Vector*nodes > maxVectorNodes {
		p.Vector /= 2
	}
	if p.Vector == 1 {
		p.Vector, p.Groups = 0, 0
	}
}

// loadedWithin has a bit for each slot that a construct in r loads from by index.
func loadedWithin(r *ir.Region) (slots uint64) {
	for _, n := range r.Nodes {
		for _, s := range n.Regions {
			slots |= loadedWithin(s)
			for _, m := range s.Nodes {
				if m.Op == ir.Op(isa.LDG) && m.Mem.Mode == isa.AddrIndex {
					slots |= 1 << m.Mem.Slot
				}
			}
		}
	}
	return slots
}

// leaves reports whether a lane may end before the end of r.
func leaves(r *ir.Region) bool {
	for _, n := range r.Nodes {
		if n.Op == ir.Br && n.Target == nil {
			return true
		}
		for _, s := range n.Regions {
			if leaves(s) {
				return true
			}
		}
	}
	return false
}

func countNodes(r *ir.Region) int {
	c := 0
	for _, n := range r.Nodes {
		c++
		for _, s := range n.Regions {
			c += countNodes(s)
		}
	}
	return c
}

// mostLive is how many values, but constants, are kept at a time for what comes later.
func mostLive(r *ir.Region) int {
	last := map[*ir.Node]int{} // where a node's values are used
	var uses func(at int, n *ir.Node)
	uses = func(at int, n *ir.Node) {
		for _, a := range n.Args {
			if a.Node != nil && a.Node.Op != ir.Const {
				last[a.Node] = at
			}
		}
		for _, s := range n.Regions {
			for _, n := range s.Nodes {
				uses(at, n)
			}
		}
	}
	for at, n := range r.Nodes {
		uses(at, n)
	}
	end := make([]int, len(r.Nodes)+1) // how many values are not used behind a node
	for _, at := range last {
		end[at]++
	}
	live, most := 0, 0
	for at, n := range r.Nodes {
		within := 0
		for _, s := range n.Regions {
			within = max(within, mostLive(s))
		}
		most = max(most, live+within)
		if live -= end[at]; last[n] > 0 {
			live++
		}
		most = max(most, live)
	}
	return most
}

// bounded reports whether ptxas is to leave room for residentBlocks.
func (o *Options) bounded() bool { return o.Vector > 0 && o.Groups == manyGroups }

// Elements is how many elements a block has.
func (o *Options) Elements() int { return VectorLanes * o.Vector * o.Groups }

// Vectors says how slots lie for a launch of several elements a lane: one bit
// for each that stands for a single element, of all or of each row of the innermost
// dimension, and whether rows are no multiple of a lane's run. It fails where a slot is
// neither single nor contiguous along rows, or lies at an address, or has rows that lie
// apart, by what is no multiple of a lane's access, or lanes write one element, or a
// construct, which is written element by element, loads what odd rows have one of.
func (p *Program) Vectors(s *Space, l *backends.Launch) (single uint64, odd, ok bool) {
	if odd = s.Rank > 1 && s.shape[0]%int64(p.Vector) != 0; odd && (s.Rank != 2 || s.shape[0] < int64(p.Vector)) {
		return 0, false, false
	}
	for i, at := range p.Layout.strides {
		if at == 0 {
			continue
		}
		size := p.fn.SlotTypes[i].Size()
		switch stride := s.strides[i][0]; {
		case stride == 0 && p.writes>>i&1 == 0:
			if odd && p.within>>i&1 != 0 {
				return 0, false, false
			}
			single |= 1 << i
			continue
		case stride != int64(size) || l.Slots[i].Addr%uintptr(size*p.Vector) != 0:
			return 0, false, false
		}
		if odd && s.strides[i][1] == s.shape[0]*int64(size) {
			continue
		}
		for k := 1; k < s.Rank; k++ {
			stride := s.strides[i][k]
			if odd || stride%int64(size*p.Vector) != 0 || stride == 0 && p.writes>>i&1 != 0 {
				return 0, false, false
			}
		}
	}
	return single, odd, true
}

func (o *Options) single(slot int) bool { return o.Single>>slot&1 != 0 }

// offset is how many elements after the lane's first the element at hand is.
func (e *emitter) offset() int {
	if !e.many {
		return 0
	}
	return e.el/e.opt.Vector*VectorLanes*e.opt.Vector + e.el%e.opt.Vector
}

// runsApart reports whether a lane's runs lie each in a row of its own, and not all so
// far from the first.
func (e *emitter) runsApart() bool { return e.opt.Vector > 0 && e.opt.Rank > 1 }

// beyond is how many elements after the address that the lane has the element at hand is.
func (e *emitter) beyond() int {
	if e.many && e.runsApart() {
		return e.el % e.opt.Vector
	}
	return e.offset()
}

// manyElements is the prologue and body of a variant with Vector.
func (e *emitter) manyElements() {
	first, total, left, p := e.temp(bankRD), e.temp(bankRD), e.temp(bankRD), e.temp(bankP)
	e.line("mul.lo.u64 %s, %%block, %d;", first, e.opt.Elements())
	e.param("u64", total, atLanes)
	e.line("setp.ge.u64 %s, %s, %s;", p, first, total)
	e.line("@%s ret;", p)
	e.state()
	for i, s := range e.fn.Slots {
		if s.Indexed || s.Bytes {
			e.slot(i)
		}
	}
	e.line("sub.u64 %s, %s, %s;", left, total, first)
	e.line("setp.lt.u64 %s, %s, %d;", p, left, e.opt.Elements())
	e.line("@%s bra tail;", p)
	e.comment("%d elements a lane", e.opt.Vector*e.opt.Groups)
	e.firstOf(first, e.opt.Vector)
	e.many = true
	for g := 0; e.runsApart() && g < e.opt.Groups; g++ {
		e.el = g * e.opt.Vector
		number := e.temp(bankRD)
		e.line("add.u64 %s, %%global, %d;", number, e.offset())
		column := e.coordinates(e.indexed(), number)
		if e.opt.Odd {
			e.secondRow(column)
		}
	}
	e.el = 0
	e.together(e.fn.Body)
	e.many, e.el = false, 0
	clear(e.parts) // the tail has the same names
	e.finish()

	e.label("tail")
	e.firstOf(first, 1)
	e.label("tail_next")
	e.line("setp.lt.u64 %s, %%global, %s;", p, total)
	e.line("@!%s bra tail_end;", p)
	if e.runsApart() {
		e.coordinates(e.indexed(), "%global")
	}
	e.region(nil, e.fn.Body, "")
	e.line("add.u64 %%global, %%global, %d;", VectorLanes)
	for _, i := range e.indexed() {
		if !e.runsApart() && !e.opt.single(i) {
			e.line("add.u64 %%at%d, %%at%d, %d;", i, i, VectorLanes*e.fn.SlotTypes[i].Size())
		}
	}
	e.line("bra tail_next;")
	e.label("tail_end")
	e.finish()
}

// secondRow finds where slots with one element a row have that of the row in which the
// run at hand ends, and how many of its elements lie in the first row.
func (e *emitter) secondRow(column string) {
	left, second := e.temp(bankRD), e.temp(bankP)
	e.line("sub.u64 %s, %s, %s;", left, e.u64(atShape), column)
	e.line("setp.lt.u64 %s, %s, %d;", second, left, e.opt.Vector)
	e.left = append(e.left, left)
	for _, i := range e.indexed() {
		if e.opt.single(i) {
			first := e.element(i)
			e.el += e.opt.Vector - 1
			e.line("mov.b64 %s, %s;", e.element(i), first)
			e.line("@%s add.s64 %s, %[2]s, %s;", second, e.element(i), e.u64(e.p.Layout.strides[i]+8))
			e.el -= e.opt.Vector - 1
		}
	}
}

// loadRows loads what a slot has one of for each row: for each run that of its first and
// its last element's row, of which the elements between have one or the other.
func (e *emitter) loadRows(n *ir.Node) {
	v, last := n.Result(), e.opt.Vector-1
	for g := range e.opt.Groups {
		from := g * e.opt.Vector
		e.el = from
		e.load(n)
		first := e.name(v)
		e.el = from + last
		e.load(n)
		second := e.name(v)
		for k := 1; k < last; k++ {
			e.el = from + k
			p := e.temp(bankP)
			e.line("setp.gt.u64 %s, %s, %d;", p, e.left[g], k)
			e.line("selp.%s %s, %s, %s, %s;", banks[bankOf(n.Type)].typ, e.name(v), first, second, p)
		}
	}
	e.el = 0
}

// firstOf finds the lane's first element.
func (e *emitter) firstOf(first string, each int) {
	e.line("mad.wide.u32 %%global, %%lane, %d, %s;", each, first)
	if e.runsApart() {
		return
	}
	for _, i := range e.indexed() {
		if e.opt.single(i) {
			e.line("mov.b64 %%at%d, %%base%d;", i, i)
		} else {
			e.line("mad.lo.u64 %%at%d, %%global, %d, %%base%d;", i, e.fn.SlotTypes[i].Size(), i)
		}
	}
}

// indexed are the slots that are accessed by index.
func (e *emitter) indexed() (slots []int) {
	for i, s := range e.fn.Slots {
		if s.Indexed {
			slots = append(slots, i)
		}
	}
	return slots
}

// together writes the body for all of a lane's elements.
func (e *emitter) together(r *ir.Region) {
	e.frames = append(e.frames, frame{region: r})
	defer func() { e.frames = e.frames[:len(e.frames)-1] }()
	elements := e.opt.Vector * e.opt.Groups
	byIndex := func(n *ir.Node) bool { return n.Op.IsInst() && n.Mem.Mode == isa.AddrIndex }
	for i := 0; i < len(r.Nodes); {
		if n := r.Nodes[i]; byIndex(n) {
			e.comment("%s", describe(n))
			if n.Op.Inst() == isa.LDG {
				e.loadMany(n)
			} else {
				e.storeMany(n)
			}
			i++
			continue
		}
		end := i
		for end < len(r.Nodes) && !byIndex(r.Nodes[end]) {
			end++
		}
		for e.el = range elements {
			for k, n := range r.Nodes[i:end] {
				e.frames[len(e.frames)-1].at = i + k
				if n.Op.IsInst() && n.Op.Inst() == isa.LDP && e.el > 0 {
					e.share(n.Result(), 0)
					continue
				}
				e.node(n)
			}
		}
		i, e.el = end, 0
	}
}

// share lets the element at hand have another's register of a value.
func (e *emitter) share(v *ir.Value, from int) {
	el := e.el
	e.el = from
	r := e.name(v)
	e.el = el
	e.room(el)
	e.names[el][v] = r
}

// loadMany loads an element of each, by accesses that are as wide as they go.
func (e *emitter) loadMany(n *ir.Node) {
	v, slot, t := n.Result(), n.Mem.Slot, n.Type
	if e.opt.single(slot) && e.opt.Odd {
		e.loadRows(n)
		return
	}
	if e.opt.single(slot) {
		from := 0
		for e.el = range e.opt.Vector * e.opt.Groups {
			if e.el == 0 || e.runsApart() && e.el%e.opt.Vector == 0 {
				from = e.el
				e.load(n)
			} else {
				e.share(v, from)
			}
		}
		e.el = 0
		return
	}
	for g := range e.opt.Groups {
		var to []string
		for k := range e.opt.Vector {
			e.el = g*e.opt.Vector + k
			to = append(to, e.name(v))
		}
		e.el = g * e.opt.Vector
		s := e.locate(n)
		if e.opt.Vector <= 4 {
			e.line("ld.global%s%s.%s %s, %s%s;", e.hint(&s), vectorOf(len(to)), memType(t), braces(to), s.at(0), e.policy(&s))
			continue
		}
		words := e.words(t)
		e.line("ld.global%s%s.b32 %s, %s%s;", e.hint(&s), vectorOf(len(words)), braces(words), s.at(0), e.policy(&s))
		for k, d := range to {
			bit := k * t.Bits()
			e.take(t, d, words[bit/32], bit%32)
		}
	}
	e.el = 0
}

// part says that the bits of a 16-bit float are those of a word from a bit on.
type part struct {
	word string
	bit  int
}

// take makes d a value of the bits of a word from one on.
func (e *emitter) take(t isa.Type, d, word string, bit int) {
	cell := e.temp(bankR)
	if half(t) {
		e.parts[d] = part{word, bit}
	}
	e.line("bfe.u32 %s, %s, %d, %d;", cell, word, bit, t.Bits())
	e.fromCell(t, d, cell)
}

// rounded returns what v, a value of 16 bits, is rounded from, if that is an f32 and
// the machine rounds two at once.
func (e *emitter) rounded(v *ir.Value) (f32 *ir.Value, ok bool) {
	n := v.Node
	if n == nil || n.Op != ir.Op(isa.CVT) || !half(n.Type) || n.From != isa.F32 || !e.opt.Modern {
		return nil, false
	}
	return n.Args[0], true
}

// storeMany is likewise.
func (e *emitter) storeMany(n *ir.Node) {
	v, t := n.Args[n.AddrArgs()], n.Type
	f32, pairs := e.rounded(v)
	for g := range e.opt.Groups {
		if pairs && e.opt.Vector > 4 {
			e.storeRounded(n, f32, g)
			continue
		}
		var from []string
		for k := range e.opt.Vector {
			e.el = g*e.opt.Vector + k
			from = append(from, e.register(t, e.arg(v)))
		}
		e.el = g * e.opt.Vector
		s := e.locate(n)
		if e.opt.Vector <= 4 {
			e.line("st.global%s.%s %s, %s;", vectorOf(len(from)), storeType(t), s.at(0), braces(from))
			continue
		}
		words := e.words(t)
		if t.Size() == 1 {
			from = e.joined(from, "0x0040")
		}
		for k := range words {
			e.line("prmt.b32 %s, %s, %s, 0x5410;", words[k], from[2*k], from[2*k+1])
		}
		e.line("st.global%s.b32 %s, %s;", vectorOf(len(words)), s.at(0), braces(words))
	}
	e.el = 0
}

// storeRounded stores a group's elements, rounded by pairs.
func (e *emitter) storeRounded(n *ir.Node, f32 *ir.Value, g int) {
	words := e.words(n.Type)
	for k := range words {
		e.el = g*e.opt.Vector + 2*k
		low := e.register(isa.F32, e.arg(f32))
		e.el++
		e.line("cvt.rn.%vx2.f32 %s, %s, %s;", n.Type, words[k], e.register(isa.F32, e.arg(f32)), low)
	}
	e.el = g * e.opt.Vector
	s := e.locate(n)
	e.line("st.global%s.b32 %s, %s;", vectorOf(len(words)), s.at(0), braces(words))
	e.el = 0
}

// roundTwo rounds two f32 to a word.
func (e *emitter) roundTwo(t isa.Type, word string, low, high *ir.Value) {
	e.line("cvt.rn.%vx2.f32 %s, %s, %s;", t, word, e.register(isa.F32, e.arg(high)), e.register(isa.F32, e.arg(low)))
}

// joined puts pairs of registers into one each.
func (e *emitter) joined(from []string, selector string) (to []string) {
	for k := 0; k < len(from); k += 2 {
		r := e.temp(bankR)
		e.line("prmt.b32 %s, %s, %s, %s;", r, from[k], from[k+1], selector)
		to = append(to, r)
	}
	return to
}

// words are registers for a lane's elements side by side.
func (e *emitter) words(t isa.Type) []string {
	w := make([]string, e.opt.Vector*t.Size()/4)
	for i := range w {
		w[i] = e.temp(bankR)
	}
	return w
}

func vectorOf(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(".v%d", n)
}

func braces(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return "{" + strings.Join(list, ", ") + "}"
}
