package ptx

import (
	"fmt"
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// What blocks that meet tell each other, by a slot that has an element for each of
// them, goes straight to the others' shared memory, and a barrier of the block's own
// counts it in. By way of device memory each meeting would wait until all writes are
// there, and throw away what the processor's cache has.
//
// Shared memory has, behind the collectives' scratch, a barrier for each such slot, and
// then for each the elements.

// ToldBytes is the shared memory of a block of so many lanes, beside SharedBytes, for
// variants with Told.
func (o *Options) ToldBytes() int { return bits.OnesCount64(o.Told) * (16 + o.toldRoom()) }

// toldRoom is what the elements of a slot take.
func (o *Options) toldRoom() int { return 8 * o.Meeting }

// toldSize is what an element of a slot takes there: what is sent are words.
func toldSize(t isa.Type) int { return max(4, t.Size()) }

func (o *Options) told(slot int) bool { return o.Told>>slot&1 != 0 }

// teller is where the barrier of a slot lies, and its elements.
func (e *emitter) teller(slot int) (barrier, elements int) {
	base := (e.p.SharedBytes(e.opt.Block) + 15) &^ 15
	k := bits.OnesCount64(e.opt.Told & (1<<slot - 1))
	return base + 16*k, base + 16*bits.OnesCount64(e.opt.Told) + e.opt.toldRoom()*k
}

// tellers makes the barriers, which expect an element of each block. The others must
// know that they are there before they tell anything: see gathered.
func (e *emitter) tellers() {
	if e.opt.Told == 0 {
		return
	}
	first, at := e.temp(bankP), e.temp(bankR)
	e.line("cvt.u32.u64 %s, %%shared;", at)
	e.line("setp.eq.u32 %s, %%lane, 0;", first)
	for i, t := range e.fn.SlotTypes {
		if e.opt.told(i) {
			barrier, _ := e.teller(i)
			e.line("@%s mbarrier.init.shared.b64 [%s+%d], 1;", first, at, barrier)
			e.line("@%s mbarrier.arrive.expect_tx.shared.b64 _, [%s+%d], %d;", first, at, barrier, e.opt.Meeting*toldSize(t))
		}
	}
	e.line("@%s fence.mbarrier_init.release.cluster;", first)
	e.line("barrier.cluster.arrive.relaxed;")
}

// gathered waits, once, until all blocks that meet have begun.
func (e *emitter) gathered() {
	if e.opt.Told != 0 && !e.begun {
		e.begun = true
		e.line("barrier.cluster.wait;")
	}
}

// tell is a store to a slot of which each block writes its own element.
func (e *emitter) tell(n *ir.Node) {
	if !e.begun {
		e.unsupported("a store", "blocks that meet have to be there before they are told anything")
		return
	}
	v := e.register(n.Type, e.arg(n.Args[n.AddrArgs()]))
	barrier, elements := e.teller(n.Mem.Slot)
	size := toldSize(n.Type)
	rank, own, own32, bits := e.temp(bankR), e.temp(bankR), e.temp(bankR), v
	e.line("mov.u32 %s, %%cluster_ctarank;", rank)
	e.line("cvt.u32.u64 %s, %%shared;", own32)
	e.line("mad.lo.u32 %s, %s, %d, %s;", own, rank, size, own32)
	word := "b32"
	if size == 8 {
		word, bits = "b64", e.temp(bankRD)
		e.line("mov.b64 %s, %s;", bits, v)
	} else {
		bits = e.temp(bankR)
		e.line("mov.b32 %s, %s;", bits, v)
	}
	for to := range e.opt.Meeting {
		at, counts := e.temp(bankR), e.temp(bankR)
		e.line("mapa.shared::cluster.u32 %s, %s, %d;", at, own, to)
		e.line("mapa.shared::cluster.u32 %s, %s, %d;", counts, own32, to)
		e.line("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.%s [%s+%d], %s, [%s+%d];", word, at, elements, bits, counts, barrier)
	}
	e.waits = append(e.waits, n.Mem.Slot)
	e.heardOf &^= 1 << n.Mem.Slot
}

// heard waits until all blocks have told what they tell before a meeting, and reports
// whether they tell anything.
func (e *emitter) heard() bool {
	for _, slot := range e.waits {
		barrier, _ := e.teller(slot)
		id, at, p := e.place(), e.temp(bankR), e.temp(bankP)
		e.line("cvt.u32.u64 %s, %%shared;", at)
		e.label(fmt.Sprintf("heard_%d", id))
		e.line("mbarrier.try_wait.parity.shared::cta.b64 %s, [%s+%d], 0;", p, at, barrier)
		e.line("@!%s bra heard_%d;", p, id)
		e.heardOf |= 1 << slot
	}
	some := len(e.waits) > 0
	e.waits = nil
	return some
}

// hear is a load of an element that a block has told: the first's lies where the
// address says, and the others' behind it.
func (e *emitter) hear(n *ir.Node) {
	if e.heardOf>>n.Mem.Slot&1 == 0 {
		e.unsupported("a load", "what other blocks tell is there behind a barrier")
		return
	}
	_, elements := e.teller(n.Mem.Slot)
	behind := n.Mem.Offset / int64(n.Type.Size()) * int64(toldSize(n.Type))
	e.loadFrom(spot{space: "shared", addr: "%shared", disp: int64(elements) + behind, aligned: true}, n.Type, e.name(n.Result()))
}
