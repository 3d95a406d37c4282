package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A processor fetches by itself what is read in order, but only to the end of a page, and it
// knows where some thousands of pages lie. Who comes to another waits until that is looked up,
// and then until the fetching has begun anew. So what goes through as many pages as those asks,
// once a round, for the first line of the page that it will come to: by then the page is known.
// Measured on a Zen 4 with pages of 4 KB, loops in C read memory at 31 GB/s that way and at 22
// without, what the third cache holds of 32 MB at 60 and 41; with huge pages at 36 either way.
// Up to 16 MB the line comes into the nearest cache: to the second alone it does not help programs that do some
// instructions for each line, which wait as before (products of 2^23 bytes by a number took 265 µs either
// way, 210 so). Of more it costs: argmax of 2^26 f32 1.01 of numpy's speed, 0.86 so, products of 2^23 bytes by bytes 1.0 and 0.86.
// 8 KB ahead is as good in the third cache, but of what lies beyond it sums take 1.1 to 1.6 of the time.
// A line in each page is as good as the lines of all rounds, and what results go past the caches
// to needs no more than that. To ask for each line that is come to, at any distance, gains nothing, but where
// loops end soon: rows of a few columns, of which a segment goes through some, are asked for by the one before (rowsNext).
// A loop of six instructions to a line or more asks for nothing. It looks ahead over fewer lines, and has what memory gives
// without: copies in C of 2^23 bytes by vectors of 32 take 216 µs and 208 with asking, with four additions to each vector 195 and
// 211, with six 183 and 188; of 12 MB by three arrays, and reading alone with the line in the second cache, it turns there too.
const (
	pageAhead = 16 << 10
	pageBytes = 4 << 10
	manyPages = 12 << 20 // bytes of a launch's memory, from which on there are so many pages: a Zen 4 knows 3,072
	asksBelow = 6        // instructions for each line that a loop goes through
	farPages  = 16 << 20 // … beyond which to have them in the nearest cache costs; loops ask from there on, as sums of columns of 13 MB lose a twentieth by it
)

// asksPages reports whether a launch goes through so much memory, and does not compute for longer
// than that takes: who waits for nothing has no time to ask. Processors with AVX2 alone ask for none: on
// a Zen 1 sums of 2^20 f32 took 1.2 of the time with it, reading alone 2^23 of them 1.1.
func (r *run) asksPages() bool {
	if !r.k.t.evex {
		return false
	}
	many := int64(manyPages)
	if r.k.p.bytes {
		many = farPages
	}
	if r.memory() < many {
		return false
	}
	ns, bytes := r.costs()
	return ns < farNanoseconds*bytes
}

// memory is how many bytes a launch goes through.
func (r *run) memory() int64 {
	total := int64(0)
	for i := range r.views {
		switch w := &r.views[i]; {
		case r.k.p.bytes:
			total += r.l.Slots[i].Bytes
		case (r.k.p.reads|r.k.p.writes)>>i&1 != 0 && w.access != single:
			total += int64(r.lanes) * w.size
		}
	}
	return total
}

// askPage asks for the page that the groups' access at m will come to.
func (g *gen) askPage(m *mref) {
	if !g.shape.pages || g.u != g.lo || g.m != 0 {
		return
	}
	ahead, near := *m, g.shape.near
	ahead.disp += pageAhead
	g.add(inst{mem: &ahead, asks: true, inner: true, emit: func(e *encoder, in *inst) {
		e.Lea(x86.RAX, e.memory(in.mem, x86.RAX))
		e.OpImm(x86.AND, x86.W64, x86.RAX, -pageBytes)
		if line := x86.At(x86.RAX, 0); near {
			e.Prefetch(line)
		} else {
			e.PrefetchL2(line)
		}
	}})
}

// dropAsks leaves out what asks for pages where the loop right around it has asksBelow instructions to a line, or more.
func (u *unit) dropAsks() {
	for _, l := range u.loops { // inner ones first
		insts, bytes := 0, 0
		round := u.code[l.first : l.last+1]
		for i := range round {
			in := &round[i]
			moves := in.mem != nil && in.mem.indexed && in.vl > 0
			if in.f != nil || in.fma != nil || moves {
				insts++
			}
			if moves {
				bytes += in.vl
			}
		}
		drop := insts*cacheLine >= asksBelow*bytes
		for i := range round {
			if in := &round[i]; in.asks && drop {
				*in = nothing
			} else {
				in.asks = false // it is decided
			}
		}
	}
}

// inOrder reports whether rounds of a loop go from page to page by an access: its offset is what
// the loop carries, maybe with something added to it, and grows by no more than a page a round.
func inOrder(n *ir.Node) bool {
	v := n.Args[n.AddrArgs()-1]
	for v.Node != nil && slices.Contains([]ir.Op{ir.Op(isa.ADD), ir.Op(isa.CVT), ir.Op(isa.MIN)}, v.Node.Op) { // as unsigned offsets are made signed
		a := v.Node.Args
		if v = a[0]; v.Param == nil && len(a) > 1 && a[1].Param != nil {
			v = a[1]
		}
	}
	if v.Param == nil || int(v.Index) >= len(v.Param.Yield) {
		return false
	}
	next := v.Param.Yield[v.Index].Node
	if next == nil || next.Op != ir.Op(isa.ADD) {
		return false
	}
	for i, a := range next.Args {
		if c, ok := a.Const(); ok && next.Args[1-i] == v {
			return c <= pageBytes
		}
	}
	return false
}
