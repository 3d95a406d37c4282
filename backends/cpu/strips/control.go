package strips

import "unsafe"

// How control flow works on a strip. f.m holds the lanes that run. A construct
// narrows it for its regions and leaves in it the lanes that reach its end.
// Lanes that are not in f.m compute along in steps that harm nobody; only
// where a value flows out of a region that not all lanes run, its lanes are
// merged under the mask. Where all lanes that entered a construct go the same
// way, values are assigned whole: what lanes outside hold does not matter.

// runIf runs one side if all lanes agree, else both under their masks.
func runIf(f *frame, s *step) {
	p, in := &f.regs[s.a], f.m
	then, other := f.regs[s.m0].own, f.regs[s.m1].own
	count := 0
	if p.kind != uni {
		count = maskSplit(then, other, in, p.lanes(f), f.n)
	} else if p.bits&1 != 0 {
		count = in.count
	}
	if count == 0 || count == in.count {
		f.side(s.sides[b2u(count == 0)])
		if f.m.count < in.count {
			// The mask is one of the region's, which does not last.
			f.m = maskCopy(then, f.m, f.n)
		} else {
			f.m = in
		}
		return
	}
	f.m = mask{then, count}
	f.side(s.sides[0])
	m := maskCopy(then, f.m, f.n)

	f.m = mask{other, in.count - count}
	f.region(s.sides[1])
	for _, y := range s.sides[1].yield {
		if m.count == 0 {
			f.assign(&f.regs[y.d], &f.regs[y.s])
		} else if f.m.count > 0 {
			f.merge(&f.regs[y.d], &f.regs[y.s], f.m)
		}
	}
	if m.count+f.m.count == in.count {
		f.m = in
	} else {
		f.m = maskOr(then, m, f.m, f.n)
	}
}

// side runs a region and gives what it yields to all lanes.
func (f *frame) side(r *region) {
	f.region(r)
	if f.m.count > 0 {
		for _, y := range r.yield {
			f.assign(&f.regs[y.d], &f.regs[y.s])
		}
	}
}

func runBlock(f *frame, s *step) {
	in := f.m
	x := &f.exits[s.exit]
	x.in, x.m, x.buf = in, mask{}, f.regs[s.m0].own
	f.region(s.sides[0])
	if f.m.count > 0 {
		f.arrive(x, s.sides[0].yield)
	}
	f.m = x.m
}

// arrive adds the running lanes to those that have left a Block, with values
// for its results.
func (f *frame) arrive(x *exit, values []pair) {
	for _, y := range values {
		if x.m.count == 0 {
			f.assign(&f.regs[y.to()], &f.regs[y.s])
		} else {
			f.merge(&f.regs[y.to()], &f.regs[y.s], f.m)
		}
	}
	x.add(f.m, f.n)
}

// add puts the lanes of m to those of the exit.
func (x *exit) add(m mask, n int) {
	if x.m.count+m.count == x.in.count {
		x.m = x.in
	} else {
		x.m = maskOr(x.buf, x.m, m, n)
	}
}

func runBr(f *frame, s *step) {
	if s.exit >= 0 {
		x := &f.exits[s.exit]
		if s.toLoop {
			// Other lanes still need the parameters of this round.
			f.next(s.leave, f.m, false)
			x.add(f.m, f.n)
		} else {
			f.arrive(x, s.leave)
		}
	}
	f.m = mask{}
}

// next gives a loop's parameters their values for the next round: to all
// lanes, or to those of m alone.
func (f *frame) next(values []pair, m mask, all bool) {
	for _, y := range values {
		if all || y.temp() {
			f.assign(&f.regs[y.to()], &f.regs[y.s])
		} else {
			f.merge(&f.regs[y.d], &f.regs[y.s], m)
		}
	}
}

// runLoop runs rounds until no lane is left. A round's lanes are act; those
// that a Br sends to the next round gather in the loop's exit; those whose
// count is up wait in done.
func runLoop(f *frame, s *step) {
	in := f.m
	for _, y := range s.init {
		f.assign(&f.regs[y.to()], &f.regs[y.s])
	}
	body, x := s.sides[0], &f.exits[s.exit]
	act, done := in, mask{}
	buf, gather, doneBuf := f.regs[s.m0].own, f.regs[s.m1].own, f.regs[s.m2].own
	var counts *reg
	limit, check := ^uint64(0), ^uint64(0)
	if s.counted {
		counts = &f.regs[s.a]
		if counts.kind == uni {
			limit = uint64(uint32(counts.bits))
		} else {
			if counts.kind == vec {
				// A copy, where they stand in a slot's memory: they are looked
				// at again, and somebody may write there.
				counts.private(f)
			}
			check = 0
		}
	}
	for round := uint64(0); act.count > 0; round++ {
		if round == limit {
			// The same for all: whoever still runs is done.
			break
		}
		if round == check {
			act, done, check = f.finish(counts, round, act, done, buf, doneBuf, in)
			if act.count == 0 {
				break
			}
		}
		if !s.free {
			if f.poll() {
				act = mask{}
				break
			}
			if s.counted || round > 0 {
				if act = f.charge(s, act, buf); act.count == 0 {
					break
				}
			}
		}
		x.in, x.m, x.buf = act, mask{}, gather
		f.m = act
		f.region(body)
		if f.m.count > 0 {
			f.next(body.yield, f.m, done.count == 0 && x.m.count == 0)
			x.add(f.m, f.n)
		}
		if act = x.m; act.p == gather {
			buf, gather = gather, buf
		}
	}
	switch {
	case !s.counted:
		f.m = mask{}
	case done.count == 0:
		f.m = act
	default:
		f.m = done
	}
}

// finish moves lanes whose count is up from act to done, and returns the
// round at which to look again.
func (f *frame) finish(counts *reg, round uint64, act, done mask, actBuf, doneBuf unsafe.Pointer, in mask) (mask, mask, uint64) {
	c := lanes[uint32](counts.lanes(f), f.n)
	again := ^uint64(0)
	left, up := 0, 0
	for i, v := range c {
		if act.has(i) {
			if uint64(v) > round {
				left++
				again = min(again, uint64(v))
			} else {
				up++
			}
		}
	}
	if up == 0 {
		return act, done, again
	}
	keep, fin := lanes[uint8](actBuf, (f.n+7)&^7), lanes[uint8](doneBuf, (f.n+7)&^7)
	for i := range keep {
		var k, d uint8
		if i < f.n {
			d = b2u(done.count > 0 && done.has(i))
			if act.has(i) {
				k = b2u(uint64(c[i]) > round)
				d |= 1 - k
			}
		}
		keep[i], fin[i] = k, d
	}
	act, done = mask{actBuf, left}, mask{doneBuf, done.count + up}
	if done.count == in.count {
		done = in
	}
	return act, done, again
}
