package gemm

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// What a product needs next is fetched into the L2 while tiles are multiplied, a line in
// every other step of k: from beyond, lines come too slowly to be waited for, whether a
// panel of A is read for the first time or a block of B packed.

// ahead is memory that is wanted next: of a tile's steps of k every fourth fetches a
// line, step bytes on from that before; the next tile begins so many on.
type ahead struct{ at, step, tile uintptr }

// lastPanels are those with which what is packed of B next is fetched.
const lastPanels = 8

// aheadOf has a call for panel q, of so many tiles, fetch the next panel of A and, if that is to be
// packed, its share of the next block of B: each of some panels does a part, which rows of A
// behind the first tiles' then wait for. It reports whether there is any.
func (w *worker) aheadOf(h *plan, s *step, q, tiles int64) bool {
	w.next = [2]ahead{{at: w.a}, {at: w.a}}
	panels := s.end - 1 - q // that follow
	if panels > 0 {
		from := h.a + uintptr((h.i0+(q+1)*h.rows)*h.ars+s.p0*h.acs)
		switch {
		case h.packA && s.jc > s.jo:
			each := h.panelBytes / tiles
			w.next[0] = ahead{w.a + uintptr(h.panelBytes), uintptr(each * unroll / max(s.kc, 1)), uintptr(each)}
		case h.along: // a tile a row
			w.next[0] = ahead{from, uintptr(unroll * h.size), uintptr(h.ars)}
			if tiles < h.rows {
				w.next[1] = w.next[0]
				w.next[1].at += uintptr(tiles * h.ars)
			}
		default: // a tile every fourth column, if there are so many both ends of them
			w.next[0] = ahead{from, uintptr(unroll * h.acs), uintptr(h.acs)}
			w.next[1] = w.next[0]
			if tiles < unroll {
				w.next[1].at += uintptr(tiles * h.acs)
			} else {
				w.next[1].at += uintptr((h.rows - 1) * h.size)
			}
		}
	}
	jNext, pNext := s.jc+h.perBlock, s.p0 // the block that comes next
	if jNext >= s.je {
		jNext, pNext = s.jo, s.p0+chunk
	}
	packB := h.packB && !s.has && panels < unroll*ceil(h.tileBytes, 64) && pNext < h.k
	if packB {
		step := max(h.brs, h.bcs) // one of which is an element
		w.next[1] = ahead{h.b + uintptr(pNext*h.brs+jNext*h.bcs+panels%unroll*step+panels/unroll*64), uintptr(unroll * step), uintptr(h.tileBytes)}
	}
	if h.keeps && s.has && pNext < h.k && panels < lastPanels { // packed already
		share := h.bBlock / lastPanels
		each := share / tiles
		from := s.b - h.packedAt(s.p0, s.jc) + h.packedAt(pNext, jNext)
		w.next[1] = ahead{from + uintptr(panels*share), uintptr(each * unroll / max(s.kc, 1)), uintptr(each)}
	}
	return packB || panels > 0
}

// aheadRegs are where fetching is in the two lists.
var aheadRegs = [...]x86.Reg{x86.RAX, x86.R15}

// argAhead is a field of one of the lists of what is wanted next.
func argAhead(list int, field uintptr) x86.Mem {
	return at(unsafe.Offsetof(shapeOfArgs.next) + uintptr(list)*unsafe.Sizeof(ahead{}) + field)
}

// lists is how many lists of what is wanted next a tile goes through: one that packs has fewer registers.
func (s tile) lists() int {
	switch {
	case !s.far:
		return 0
	case s.packs:
		return 1
	}
	return len(aheadRegs)
}

// fetchResult has a tile's part of the result on its way while its sums are made, a row in each of so many
// rounds of the loop, or a column: all its lines at once are more than are under way at a time.
func (g *maker) fetchResult() {
	wide := g.s.cols * g.m.bytes
	if g.s.byColumns {
		wide = g.s.rows * int(g.s.t.size())
	}
	skip := g.NewLabel()
	g.OpMem(x86.CMP, x86.W64, regCount, argFetched)
	g.Jcc(x86.L, skip)
	for at := 0; at < wide; at += 64 {
		g.PrefetchW(x86.At(resultReg, int32(at)))
	}
	g.OpMem(x86.ADD, x86.W64, resultReg, argDStep)
	g.Bind(skip)
}

// beginToFetch sets from which count of steps on there is nothing left to fetch.
func (g *maker) beginToFetch() {
	n := g.s.rows
	if g.s.byColumns {
		n = g.s.cols * g.m.lanes(g.s.t)
	}
	g.Mov(x86.W64, x86.RAX, regCount)
	g.OpImm(x86.SUB, x86.W64, x86.RAX, int32(unroll*n))
	g.Store(x86.W64, argFetched, x86.RAX)
	g.Load(x86.W64, resultReg, argD)
}

// resultReg is where the result goes, if no row of B is packed meanwhile. So few sums are not fetched.
const (
	resultReg = x86.R11
	fewSums   = 4
)
