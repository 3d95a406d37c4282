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
	used := queue{regs: regs}
	var spots []spot
	var spotOf []int32  // by number
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
	for i := range regs {
		c.work.Step(1)
		r := &regs[i]
		if r.lasting {
			continue
		}
		for used.ended(r.start) {
			old := &regs[used.take()]
			free[old.size] = append(free[old.size], spotOf[old.number])
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
			spotOf = append(spotOf, make([]int32, len(c.k.regs)-len(spotOf))...)
			spotOf[*number-1] = at
		}
		r.number = *number - 1
		used.add(int32(i))
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
	c.work.Step(r.steps.len())
	for k := range r.steps.len() {
		s := r.steps.at(k)
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
		p := &list[i]
		temp, d := p.temp(), p.to()
		if c.rename(&d, &p.s); temp {
			d = ^d
		}
		p.d = d
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

// queue is a heap of registers, of which that is taken first that ends first, or, of
// those that end together, that was made last.
type queue struct {
	regs []regInfo
	heap []int32
}

func (q *queue) before(i, j int32) bool {
	x, y := q.regs[i].end, q.regs[j].end
	return x < y || x == y && i > j
}

// ended reports whether there is one that ends before a time.
func (q *queue) ended(time int32) bool { return len(q.heap) > 0 && q.regs[q.heap[0]].end < time }

func (q *queue) add(i int32) {
	q.heap = append(q.heap, i)
	h, k := q.heap, len(q.heap)-1
	for ; k > 0 && q.before(i, h[(k-1)/2]); k = (k - 1) / 2 {
		h[k] = h[(k-1)/2]
	}
	h[k] = i
}

func (q *queue) take() int32 {
	last := len(q.heap) - 1
	first, i := q.heap[0], q.heap[last]
	q.heap = q.heap[:last]
	h, k := q.heap, 0
	for 2*k+1 < last {
		child := 2*k + 1
		if child+1 < last && q.before(h[child+1], h[child]) {
			child++
		}
		if !q.before(h[child], i) {
			break
		}
		h[k], k = h[child], child
	}
	if last > 0 {
		h[k] = i
	}
	return first
}
