package strips

// allocate gives every register a place in the frame: registers of one size
// that are not needed at the same time share. It goes through the registers
// in the order of their starts and takes the place, if any, that was freed
// last, which is the likeliest to be in the cache.
func (c *compiler) allocate() {
	regs := c.k.regs
	times := int32(0)
	for i := range regs {
		times = max(times, regs[i].start+1, regs[i].end+1)
	}
	starts, ends := newAgenda(times, len(regs)), newAgenda(times, len(regs))
	for i := len(regs) - 1; i >= 0; i-- {
		starts.add(regs[i].start, int32(i))
	}
	var free [9][]int32 // by size
	for now := range times {
		c.work.Step(1)
		for i := starts.first(now); i >= 0; i = starts.next[i] {
			r := &regs[i]
			if r.lasting {
				r.place = int32(c.k.laneBytes)
				c.k.laneBytes += int(r.size)
				continue
			}
			if l := free[r.size]; len(l) > 0 {
				r.place = l[len(l)-1]
				free[r.size] = l[:len(l)-1]
			} else {
				r.place = int32(c.k.laneBytes)
				c.k.laneBytes += int(r.size)
			}
			ends.add(r.end, i)
		}
		// What is needed up to now is free for what starts later.
		for i := ends.first(now); i >= 0; i = ends.next[i] {
			free[regs[i].size] = append(free[regs[i].size], regs[i].place)
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
