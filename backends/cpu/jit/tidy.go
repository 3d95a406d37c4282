package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What is written value by value is gone over once more before registers are dealt
// out: copies go where what they copy can be computed in their place, and so does what
// nothing reads.

// tidy does both. Instructions stay where they are, for loops count them.
func (u *unit) tidy() {
	u.joinCopies()
	u.dropUnread()
}

// nothing is what an instruction that is left out becomes.
var nothing = inst{emit: func(*encoder, *inst) {}, inner: true, pure: true}

// life is what is known of a vreg while instructions are gone over in their order.
type life struct {
	all, seen   int32 // how often it stands in an instruction: in all, and so far
	first       int32 // that which wrote it first
	read, write int32 // the last ones so far
	plain       bool  // first neither reads it nor writes it before it has read all else
	into        vreg  // what it was joined with
}

// isCopy reports whether an instruction copies b to d, both whole.
func (in *inst) isCopy() bool {
	return (in.f == x86.MovAPS || in.f == x86.MovUPS || in.f == x86.KMovQ) && in.emit == nil && in.d != 0 && in.b != 0 &&
		in.a == 0 && in.c == 0 && in.k == 0 && in.mem == nil && !in.merge
}

// joinCopies computes in d what a copy d ← s ends the life of: s is written for the
// first time after the last jump or label, and d neither read nor written since.
func (u *unit) joinCopies() {
	lives := make([]life, len(u.info))
	for i := range u.code {
		u.code[i].visit(func(v vreg, _ bool) {
			lives[v].all++
			lives[v].read, lives[v].write = -1, -1
		})
	}
	straight := int32(0) // from here on nothing comes from or goes elsewhere
	for i := range u.code {
		in, at := &u.code[i], int32(i)
		if in.isCopy() && u.joins(lives, in, straight) {
			d, s := &lives[in.d], &lives[in.b]
			if d.seen == 0 {
				d.first, d.plain = s.first, s.plain
			}
			d.all, d.seen = d.all+s.all-2, d.seen+s.seen // without the copy
			d.read, d.write = at, at
			s.into = in.d
			*in = nothing
			continue
		}
		if in.label != 0 || in.emit != nil && !in.inner {
			straight = at + 1
		}
		in.visit(func(v vreg, write bool) {
			x := &lives[v]
			if x.seen++; !write {
				x.read = at
				return
			}
			if x.seen == 1 {
				x.first, x.plain = at, !in.early
			}
			x.write = at
		})
	}
	root := func(v *vreg) {
		for *v != 0 && lives[*v].into != 0 {
			*v = lives[*v].into
		}
	}
	for i := range u.code {
		in := &u.code[i]
		for _, v := range [...]*vreg{&in.a, &in.b, &in.c, &in.k, &in.d} {
			root(v)
		}
		if in.mem != nil && in.mem.base != 0 {
			root(&in.mem.base)
		}
	}
}

// joins reports whether copy in can go, which is not counted yet.
func (u *unit) joins(lives []life, in *inst, straight int32) bool {
	d, s := &lives[in.d], &lives[in.b]
	if in.d == in.b || u.info[in.d].class != u.info[in.b].class || u.info[in.b].constant || u.info[in.d].constant ||
		s.all != s.seen+1 || s.seen == 0 || s.first < straight || !s.plain {
		return false
	}
	// An instruction of the table reads all that it reads before it writes.
	made := &u.code[s.first]
	if made.emit != nil || made.vl != in.vl && u.info[in.d].class == classVec {
		return false
	}
	return d.seen == 0 || d.write < s.first && d.read <= s.first
}

// dropUnread leaves out what computes values that nothing reads.
func (u *unit) dropUnread() {
	reads := make([]int32, len(u.info))
	count := func(in *inst, by int32) {
		in.visit(func(v vreg, write bool) {
			if !write {
				reads[v] += by
			}
		})
	}
	for i := range u.code {
		count(&u.code[i], 1)
	}
	for i := len(u.code) - 1; i >= 0; i-- { // what is read stands before, but for loops
		in := &u.code[i]
		if in.d == 0 || reads[in.d] > 0 || in.label != 0 || in.emit != nil && !in.pure {
			continue
		}
		count(in, -1)
		*in = nothing
	}
}
