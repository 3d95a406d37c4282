package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What is loaded for one instruction alone is its operand in memory. A processor waits for
// memory in as many places as it has room for instructions that are not done: sums of rows
// that lie in the third cache are so much the slower, the more there are to each line.

// foldLoads makes loads operands. Instructions stay where they are, for loops count them.
func (u *unit) foldLoads(t *target) {
	reads, writes := make([]int32, len(u.info)), make([]int32, len(u.info))
	for i := range u.code {
		u.code[i].visit(func(v vreg, write bool) {
			if write {
				writes[v]++
			} else {
				reads[v]++
			}
		})
	}
	loads := map[vreg]int{} // those that might as well be done here, by what they write
	for i := range u.code {
		in := &u.code[i]
		if in.apart() || in.emit != nil && !in.pure || in.d == 0 && in.mem != nil {
			clear(loads)
			continue
		}
		if in.isLoad() && reads[in.d] == 1 && writes[in.d] == 1 {
			loads[in.d] = i
			continue
		}
		if at, ok := u.operand(t, in, loads); ok {
			in.b, in.mem = 0, u.code[at].mem
			delete(loads, u.code[at].d)
			u.code[at] = nothing
		}
		if in.d != 0 && u.info[in.d].class == classGPR {
			for v, at := range loads {
				if u.code[at].mem.base == in.d {
					delete(loads, v)
				}
			}
		}
	}
}

// isLoad reports whether an instruction loads a vector, whole.
func (in *inst) isLoad() bool {
	return (in.f == x86.MovUPS || in.f == x86.LoadUPD) && in.emit == nil && in.d != 0 && in.mem != nil && in.a == 0 && in.b == 0 && in.c == 0 && in.k == 0
}

// operand finds the load that operand b of an instruction can be, if need be with the
// other in its place.
func (u *unit) operand(t *target, in *inst, loads map[vreg]int) (at int, ok bool) {
	// Copies want memory that is aligned.
	f := in.f
	if f == nil || in.emit != nil || in.fma != nil || in.mem != nil || in.b == 0 || f.Tuple != 0 || f.Layout == x86.MR || f == x86.MovAPS || f == x86.MovAPD || !f.Folds(t.evex) {
		return 0, false
	}
	last := len(f.Ops) - 1
	if f.Is4 {
		last--
	}
	if f.Ops[last] != 'v' {
		return 0, false
	}
	if at, ok = loads[in.b]; ok && u.code[at].vl == in.vl {
		return at, true
	}
	if at, ok = loads[in.a]; ok && u.code[at].vl == in.vl && in.a != in.b && commutes[f] {
		in.a, in.b = in.b, in.a
		return at, true
	}
	return 0, false
}

// commutes lists the instructions of which a and b may change places. All NaNs are one.
var commutes = map[*x86.Form]bool{
	x86.AddPS: true, x86.AddPD: true, x86.MulPS: true, x86.MulPD: true,
	x86.AddB: true, x86.AddW: true, x86.AddD: true, x86.AddQ: true, x86.MulLW: true, x86.MulLD: true, x86.MulLQ: true,
	x86.MinSB: true, x86.MinUB: true, x86.MinSW: true, x86.MinUW: true, x86.MinSD: true, x86.MinUD: true, x86.MinSQ: true, x86.MinUQ: true,
	x86.MaxSB: true, x86.MaxUB: true, x86.MaxSW: true, x86.MaxUW: true, x86.MaxSD: true, x86.MaxUD: true, x86.MaxSQ: true, x86.MaxUQ: true,
	x86.AndD: true, x86.OrD: true, x86.XorD: true, x86.AndQ: true, x86.OrQ: true, x86.XorQ: true, x86.And: true, x86.Or: true, x86.Xor: true,
}
