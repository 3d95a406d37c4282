package jit

import (
	"slices"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Registers are allocated by linear scan over intervals without holes (Poletto
// and Sarkar, "Linear Scan Register Allocation", 1999): an interval goes from
// the first write to the last read, and to the end of every loop that it comes
// into from before. Where there are too few registers, the interval that is
// used the least for its length goes to memory, whole. A constant there costs
// nothing until it is read, and then most instructions take it from the pool.

// files are the registers that are dealt out, by class.
type files [numClasses][]x86.Reg

// visit calls f for the registers that in reads, and then for that which it writes.
func (in *inst) visit(f func(v vreg, write bool)) {
	for _, v := range [...]vreg{in.a, in.b, in.c, in.k} {
		if v != 0 {
			f(v, false)
		}
	}
	if in.mem != nil && in.mem.base != 0 {
		f(in.mem.base, false)
	}
	if in.d != 0 {
		if in.merge {
			f(in.d, false)
		}
		f(in.d, true)
	}
}

// intervals finds out when each vreg is needed.
func (u *unit) intervals() {
	// By instruction the innermost loop around it, by loop the one around that.
	inner, parent, depth := make([]int32, len(u.code)), make([]int32, len(u.loops)), make([]int8, len(u.loops))
	for i := range inner {
		inner[i] = -1
	}
	for k := len(u.loops) - 1; k >= 0; k-- {
		l := u.loops[k]
		if parent[k] = inner[l.first]; parent[k] >= 0 {
			depth[k] = min(depth[parent[k]]+1, int8(len(weights)-2))
		}
		for i := l.first; i <= l.last; i++ {
			inner[i] = int32(k)
		}
	}
	for i := range u.code {
		in := &u.code[i]
		in.visit(func(v vreg, write bool) {
			x := &u.info[v]
			at := int32(2 * i)
			if write && !in.early {
				at++
			}
			if x.end < 0 {
				x.start = at
			}
			x.end = max(x.end, at)
			k := inner[i]
			weight := 1.0
			if k >= 0 {
				weight = weights[depth[k]+1]
			}
			if in.rare && k >= 0 && x.start < 2*u.loops[k].first {
				weight /= 4 // what it alone reads of what was there before is nothing to keep in a register
			}
			x.weight += weight
			if k < 0 {
				return
			}
			for ; k >= 0 && 2*u.loops[k].first > x.start; k = parent[k] {
				x.end = max(x.end, 2*u.loops[k].last+1)
			}
		})
	}
}

// weights say how often code runs that is in so many loops.
var weights = [...]float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}

// allocate gives each vreg a register or a place in memory, and returns the
// number of places.
func (u *unit) allocate(f *files) (places int32) {
	u.intervals()
	order := make([]vreg, 0, len(u.info))
	for v := 1; v < len(u.info); v++ {
		if u.info[v].end >= 0 {
			order = append(order, vreg(v))
		}
	}
	slices.SortStableFunc(order, func(a, b vreg) int { return int(u.info[a].start - u.info[b].start) })
	for i := range u.code {
		u.hints(&u.code[i])
	}
	var free [numClasses]uint32
	for c := range files(*f) {
		for _, r := range f[c] {
			free[c] |= 1 << r
		}
	}
	var active [numClasses][]vreg
	spill := func(v vreg) {
		x := &u.info[v]
		x.reg = x86.None
		if !x.constant {
			x.slot = places
			places++
		}
	}
	for _, v := range order {
		x := &u.info[v]
		c := x.class
		kept := active[c][:0]
		for _, o := range active[c] {
			if u.info[o].end < x.start {
				free[c] |= 1 << u.info[o].reg
			} else {
				kept = append(kept, o)
			}
		}
		active[c] = kept
		if free[c] == 0 {
			worst := v
			for _, o := range active[c] {
				if u.density(o) < u.density(worst) {
					worst = o
				}
			}
			if worst == v {
				spill(v)
				continue
			}
			free[c] |= 1 << u.info[worst].reg
			active[c] = slices.DeleteFunc(active[c], func(o vreg) bool { return o == worst })
			spill(worst)
		}
		x.reg = pick(free[c], f[c])
		if h := x.hint; h != 0 {
			if r := u.info[h].reg; r != x86.None && free[c]>>r&1 != 0 {
				x.reg = r
			}
		}
		free[c] &^= 1 << x.reg
		active[c] = append(active[c], v)
	}
	return places
}

func pick(free uint32, order []x86.Reg) x86.Reg {
	for _, r := range order {
		if free>>r&1 != 0 {
			return r
		}
	}
	return x86.None
}

// density is how much a register for v is worth.
func (u *unit) density(v vreg) float64 {
	x := &u.info[v]
	w := x.weight
	if x.constant {
		w /= 3 // from memory it costs a load that most instructions do on the way
	}
	return w / float64(x.end-x.start+1)
}

// hints prefers for a result the register of a source that ends there.
func (u *unit) hints(in *inst) {
	if in.d == 0 || in.merge || u.info[in.d].hint != 0 {
		return
	}
	for _, s := range [...]vreg{in.c, in.a, in.b} {
		if s != 0 && u.info[s].class == u.info[in.d].class && u.info[s].end < u.info[in.d].start {
			u.info[in.d].hint = s
			return
		}
	}
}
