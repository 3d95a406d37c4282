package ptx

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// pollRounds is how many rounds a lane runs between looks at the cancel flag,
// which lies in the host's memory, a microsecond away.
const pollRounds = 1 << 14

func (e *emitter) ifNode(n *ir.Node) {
	id := e.place()
	other, end := fmt.Sprintf("else_%d", id), fmt.Sprintf("endif_%d", id)
	e.comment("if %s", describeValue(n.Args[0]))
	split := e.splits(n)
	e.split[n] = split
	e.line("@!%s bra %s;", e.name(n.Args[0]), other)
	for i, r := range n.Regions {
		if i == 1 {
			e.label(other)
		}
		e.region(n, r, split)
		if !r.Ends() {
			if split != "" && e.p.ahead(n.Regions[1-i].Nodes) && !e.p.ahead(r.Nodes) {
				e.part(split)
			}
			e.assign(n.Results, r.Yield)
			if i == 0 {
				e.line("bra %s;", end)
			}
		}
	}
	e.label(end)
}

func (e *emitter) blockNode(n *ir.Node) {
	id := e.place()
	e.blocks[n] = id
	e.region(n, n.Regions[0], "")
	if r := n.Regions[0]; !r.Ends() {
		e.assign(n.Results, r.Yield)
	}
	e.label(fmt.Sprintf("end_%d", id))
}

// brNode leaves for a block's end, a loop's next round, or for good.
func (e *emitter) brNode(n *ir.Node) {
	switch t := n.Target; {
	case t == nil:
		e.exit("")
	case t.Op == ir.Loop:
		e.assign(t.Regions[0].Params, n.Args)
		e.line("bra next_%d;", e.loops[t])
	default:
		e.partBr(t)
		e.assign(t.Results, n.Args)
		e.line("bra end_%d;", e.blocks[t])
	}
}

// loopNode counts a counted loop's rounds down. Its results are its
// parameters' last values, and have their registers.
func (e *emitter) loopNode(n *ir.Node) {
	id := e.place()
	e.loops[n] = id
	body, inits := n.Regions[0], n.Args
	e.comment("loop %d%s", id, map[bool]string{true: ", counted"}[n.Counted])
	left := ""
	if n.Counted {
		left = e.temp(bankR)
		e.line("mov.b32 %s, %s;", left, e.arg(n.Args[0]))
		inits = inits[1:]
	}
	for i, v := range n.Results {
		r := e.name(body.Params[i])
		e.names[e.el][v] = r
	}
	e.assign(body.Params, inits)
	top, next, end := fmt.Sprintf("loop_%d", id), fmt.Sprintf("next_%d", id), fmt.Sprintf("endloop_%d", id)
	e.label(top)
	if n.Counted {
		p := e.temp(bankP)
		e.line("setp.eq.u32 %s, %s, 0;", p, left)
		e.line("@%s bra %s;", p, end)
		e.charge(n)
		e.line("sub.u32 %s, %s, 1;", left, left)
	}
	e.region(n, body, "")
	if !body.Ends() {
		e.assign(body.Params, body.Yield)
	}
	e.label(next)
	if !n.Counted {
		e.charge(n)
	}
	e.line("bra %s;", top)
	e.label(end)
}

// charge takes a unit of fuel for a round that begins, and looks now and then
// whether the launch is cancelled.
func (e *emitter) charge(n *ir.Node) {
	if n.Free {
		return
	}
	if e.p.polls[n] {
		p, at, word := e.temp(bankP), e.temp(bankRD), e.temp(bankR)
		onward := fmt.Sprintf("onward_%d", e.place())
		e.line("sub.u32 %%poll, %%poll, 1;")
		e.line("setp.ne.u32 %s, %%poll, 0;", p)
		e.line("@%s bra %s;", p, onward)
		e.line("mov.b32 %%poll, %d;", pollRounds)
		e.param("u64", at, atRecord)
		e.line("ld.volatile.global.u32 %s, [%s+%d];", word, at, RecordCancel)
		e.line("setp.ne.u32 %s, %s, 0;", p, word)
		e.line("@%s st.volatile.global.u32 [%s+%d], 1;", p, at, RecordEnded)
		e.exit(p)
		e.label(onward)
	}
	if e.opt.Fuel {
		p := e.temp(bankP)
		e.line("setp.eq.u64 %s, %%fuel, 0;", p)
		e.fault(n, isa.FaultFuel, p)
		e.exit(p)
		e.line("sub.u64 %%fuel, %%fuel, 1;")
	}
}

// exit ends the lane, if the predicate holds or is none. Each way out ends by
// itself. If ways out met, lanes that took one might wait there for neighbours
// of their warp that wait for them at a barrier; and ptxas (13.0, 13.5) keeps in
// registers of the warp what it takes to be the same in all lanes, across loops
// that lanes leave at different times, where it sees nothing but a distant end
// at which they meet.
func (e *emitter) exit(where string) {
	stay := ""
	if where != "" {
		stay = fmt.Sprintf("stay_%d", e.place())
		e.line("@!%s bra %s;", where, stay)
	}
	e.finish()
	if stay != "" {
		e.label(stay)
	}
}

// departs reports whether collectives must count with lanes that have ended.
func (e *emitter) departs() bool { return e.p.departs[map[bool]int{true: 1}[e.opt.Fuel]] }

// finish reports what the lane has to report, and ends it. The first lane to
// come to an empty record, one at a time by the lock, writes it.
func (e *emitter) finish() {
	if e.p.Phase {
		p, at := e.temp(bankP), e.u64(atPhaseOut)
		e.line("setp.eq.u64 %s, %%global, 0;", p)
		e.line("@%s st.volatile.global.u32 [%s], %%phase;", p, at)
	}
	if len(e.fn.Sites) > 0 {
		id := e.place()
		good, again := fmt.Sprintf("good_%d", id), fmt.Sprintf("report_%d", id)
		p, noted, held, kind, site := e.temp(bankP), e.temp(bankR), e.temp(bankR), e.temp(bankR), e.temp(bankR)
		e.line("setp.eq.u32 %s, %%fault, 0;", p)
		e.line("@%s bra %s;", p, good)
		at, lock := e.u64(atRecord), e.u64(atLock)
		e.label(again)
		e.line("ld.volatile.global.u32 %s, [%s+%d];", noted, at, recFault)
		e.line("setp.ne.u32 %s, %s, 0;", p, noted)
		e.line("@%s bra %s;", p, good)
		e.line("atom.global.cas.b32 %s, [%s], 0, 1;", held, lock)
		e.line("setp.ne.u32 %s, %s, 0;", p, held)
		e.line("@%s bra %s;", p, again)
		e.line("ld.volatile.global.u32 %s, [%s+%d];", noted, at, recFault)
		e.line("setp.ne.u32 %s, %s, 0;", p, noted)
		e.line("@%s bra %s_last;", p, again)
		e.line("and.b32 %s, %%fault, %d;", kind, 1<<kindBits-1)
		e.line("shr.u32 %s, %%fault, %d;", site, kindBits)
		e.line("sub.u32 %s, %s, 1;", site, site)
		e.line("st.volatile.global.u32 [%s+%d], %s;", at, recSite, site)
		lane := "%global"
		if e.opt.Vector > 0 {
			lane = "%faulty"
		}
		e.line("st.volatile.global.u64 [%s+%d], %s;", at, recLane, lane)
		e.line("st.volatile.global.u32 [%s+%d], %s;", at, recFault, kind)
		e.label(again + "_last")
		e.line("membar.sys;")
		e.line("atom.global.exch.b32 %s, [%s], 0;", held, lock)
		e.label(good)
	}
	e.takeBack()
	e.line("ret;")
}
