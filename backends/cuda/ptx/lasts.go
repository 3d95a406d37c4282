package ptx

import "fmt"

// What is read lasts in the L2 cache longer than what is written (Options.Lasts). Of what goes
// through it once that makes an H200 faster, presumably because writes leave it sooner and
// together. What lasts would stay behind the launch, too, where nothing reads it any more, and
// others would have less of the cache. So the last blocks, whose reads are what it then holds,
// take that back from their share of every slot that is read: blocks and what they read are
// taken to be in one order. Where they aren't, no more is lost than some of the cache.

// cacheLine is how many bytes the L2 cache has or has not at a time, and mostBack how many of a
// slot a block takes back at most: few blocks have large shares, whose beginnings are long gone.
const (
	cacheLine = 128
	mostBack  = 16 << 20
)

// hint and policy are what a load has behind its space and behind its address.
func (e *emitter) hint(s *spot) string {
	if !e.opt.Lasts || s.space != "global" {
		return ""
	}
	return ".L2::cache_hint"
}

func (e *emitter) policy(s *spot) string {
	if e.hint(s) == "" {
		return ""
	}
	return ", %policy"
}

// makePolicy makes the policy of loads, and finds out whether the block is before those that
// take it back, which most are: they end by one instruction.
func (e *emitter) makePolicy() {
	if !e.opt.Lasts {
		return
	}
	e.line("createpolicy.fractional.L2::evict_last.b64 %%policy, 1.0;")
	block := e.temp(bankR)
	e.line("mov.u32 %s, %%ctaid.x;", block)
	e.line("setp.lt.u32 %%lasts, %s, %s;", block, e.u32(atTail))
}

// takeBack has the lanes of the launch's last blocks, which begin with the one that the launch
// block says, take back what makes a block's share of what is read last.
func (e *emitter) takeBack() {
	if !e.opt.Lasts {
		return
	}
	e.line("@%%lasts ret;")
	block, grid, n, p := e.temp(bankRD), e.temp(bankRD), e.temp(bankR), e.temp(bankP)
	e.line("mov.u32 %s, %%ctaid.x;", n)
	e.line("cvt.u64.u32 %s, %s;", block, n)
	e.line("mov.u32 %s, %%nctaid.x;", n)
	e.line("cvt.u64.u32 %s, %s;", grid, n)
	first, step := e.temp(bankRD), e.temp(bankRD)
	e.line("mov.u32 %s, %%tid.x;", n)
	e.line("mul.wide.u32 %s, %s, %d;", first, n, cacheLine)
	e.line("mov.u32 %s, %%ntid.x;", n)
	e.line("mul.wide.u32 %s, %s, %d;", step, n, cacheLine)
	e.line("add.u64 %s, %s, 1;", block, block)
	for i, s := range e.fn.Slots {
		if !s.Reads {
			continue
		}
		share, at, end, id := e.temp(bankRD), e.temp(bankRD), e.temp(bankRD), e.place()
		e.line("div.u64 %s, %s, %s;", share, e.u64(e.p.Layout.bytes(i)), grid)
		e.line("setp.eq.u64 %s, %s, 0;", p, share)
		e.line("@%s bra taken_%d;", p, id)
		e.line("mad.lo.u64 %s, %s, %s, %s;", end, share, block, e.u64(e.p.Layout.Base(i)))
		e.line("min.u64 %s, %s, %d;", share, share, mostBack)
		e.line("sub.u64 %s, %s, %s;", at, end, share)
		e.line("and.b64 %s, %s, %d;", at, at, -cacheLine)
		e.line("add.u64 %s, %s, %s;", at, at, first)
		e.label(fmt.Sprintf("back_%d", id))
		e.line("setp.ge.u64 %s, %s, %s;", p, at, end)
		e.line("@%s bra taken_%d;", p, id)
		e.line("applypriority.global.L2::evict_normal [%s], %d;", at, cacheLine)
		e.line("add.u64 %s, %s, %s;", at, at, step)
		e.line("bra back_%d;", id)
		e.label(fmt.Sprintf("taken_%d", id))
	}
}
