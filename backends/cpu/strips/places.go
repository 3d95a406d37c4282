package strips

// regPlace is where the lanes of a frame's register stand, in bytes a lane.
type regPlace struct {
	place   int32
	size    uint8
	lasting bool
}

// spot is a place and the registers of frames that share it, by number plus one.
// A step's result may take the place of its operand, whose description is read
// while the result's is written: so they take turns. Those that may hold memory
// of slots are apart: what is only merged into never is to see such memory.
type spot struct {
	place   int32
	turn    uint8
	numbers [2][2]int32 // by foreign, turn
}

// allocate gives every register a place in the frame, and a number there:
// registers of one size that are not needed at the same time share. It goes
// through the registers in the order of their starts, which is that of their
// numbers but for those that last, and takes the place, if any, that was freed
// last, which is the likeliest to be in the cache.
func (c *compiler) allocate() {
	regs := c.infos
	times := int32(0)
	for i := range regs {
		times = max(times, regs[i].start+1, regs[i].end+1)
	}
	ends := newAgenda(times, len(regs))
	var spots []spot
	var free [9][]int32 // spots by size
	add := func(place int32, r *regInfo) int32 {
		c.k.regs = append(c.k.regs, regPlace{place, r.size, r.lasting})
		if r.foreign {
			c.k.foreign = append(c.k.foreign, int32(len(c.k.regs)-1))
		}
		return int32(len(c.k.regs) - 1)
	}
	for i := range regs {
		if r := &regs[i]; r.lasting {
			r.number = add(int32(c.k.laneBytes), r)
			c.k.laneBytes += int(r.size)
		}
	}
	next := int32(0)
	for now := range times {
		c.work.Step(1)
		for ; next < int32(len(regs)) && (regs[next].lasting || regs[next].start == now); next++ {
			r := &regs[next]
			if r.lasting {
				continue
			}
			at := int32(len(spots))
			if l := free[r.size]; len(l) > 0 {
				at = l[len(l)-1]
				free[r.size] = l[:len(l)-1]
			} else {
				spots = append(spots, spot{place: int32(c.k.laneBytes)})
				c.k.laneBytes += int(r.size)
			}
			s := &spots[at]
			s.turn ^= 1
			number := &s.numbers[b2u(r.foreign)][s.turn]
			if *number == 0 {
				*number = add(s.place, r) + 1
			}
			r.number, r.spot = *number-1, at
			ends.add(r.end, next)
		}
		// What is needed up to now is free for what starts later.
		for i := ends.first(now); i >= 0; i = ends.next[i] {
			free[regs[i].size] = append(free[regs[i].size], regs[i].spot)
		}
	}
}

// renumber puts the registers of frames in place of the compiler's.
func (c *compiler) renumber() {
	if len(c.infos) == 0 {
		return
	}
	for i := range c.k.constants {
		c.rename(&c.k.constants[i].reg)
	}
	for i := range c.k.params {
		c.rename(&c.k.params[i].reg)
	}
	for i := range c.k.specials {
		c.rename(&c.k.specials[i].reg)
	}
	c.renameIn(c.k.body)
}

func (c *compiler) renameIn(r *region) {
	c.work.Step(len(r.steps))
	for i := range r.steps {
		s := &r.steps[i]
		c.rename(&s.d, &s.a, &s.b, &s.c, &s.h)
		if s.rest == nil || s.table != nil {
			continue
		}
		c.rename(&s.m0, &s.m1, &s.m2)
		c.renamePairs(s.init)
		c.renamePairs(s.leave)
		for _, side := range s.sides {
			if side != nil {
				c.renameIn(side)
			}
		}
	}
	c.renamePairs(r.yield)
}

func (c *compiler) renamePairs(list []pair) {
	for i := range list {
		c.rename(&list[i].d, &list[i].s)
	}
}

// rename takes -1 for none.
func (c *compiler) rename(regs ...*int32) {
	for _, r := range regs {
		if *r >= 0 {
			*r = c.infos[*r].number
		}
	}
}

// agenda lists registers by a time.
type agenda struct{ at, next []int32 }

func newAgenda(times int32, regs int) agenda {
	a := agenda{make([]int32, times), make([]int32, regs)}
	for i := range a.at {
		a.at[i] = -1
	}
	return a
}

// add puts register i in front of the others of its time.
func (a *agenda) add(time, i int32) { a.next[i], a.at[time] = a.at[time], i }

func (a *agenda) first(time int32) int32 { return a.at[time] }
