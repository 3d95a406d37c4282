package strips

import (
	"container/heap"
	"sort"
)

// allocate gives every register a place in the frame: registers of one size
// that are not needed at the same time share. It goes through the registers
// in the order of their starts and takes the place, if any, that was freed
// last, which is the likeliest to be in the cache.
func (c *compiler) allocate() {
	regs := c.k.regs
	order := make([]int, len(regs))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return regs[order[i]].start < regs[order[j]].start })
	free := map[uint8][]int{}
	var busy ends
	for _, i := range order {
		r := &regs[i]
		for len(busy) > 0 && busy[0].end < r.start {
			e := heap.Pop(&busy).(ending)
			free[e.size] = append(free[e.size], e.place)
		}
		if l := free[r.size]; len(l) > 0 && !r.lasting {
			r.place = l[len(l)-1]
			free[r.size] = l[:len(l)-1]
		} else {
			r.place = c.k.laneBytes
			c.k.laneBytes += int(r.size)
		}
		if !r.lasting {
			heap.Push(&busy, ending{r.end, r.place, r.size})
		}
	}
}

// ending is a place and when it becomes free.
type ending struct {
	end, place int
	size       uint8
}

// ends is a heap of endings, the next first.
type ends []ending

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].end < e[j].end }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push and Pop are for container/heap.
func (e *ends) Push(x any) { *e = append(*e, x.(ending)) }

// Pop removes the last.
func (e *ends) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
