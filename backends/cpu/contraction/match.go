package contraction

import (
	"math/bits"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
)

// product is what a launch multiplies.
type product struct {
	gemm.Matrices
	places int64 // of results
	byGrid bool  // … which lie by the grid, not by the index space

	batches        int64 // of such products, one behind the other in C
	aBatch, bBatch int64 // bytes from one to the next

	down       int   // the load that goes with rows
	quotient   int   // the atom that counts rows of the index space; 0: there is one row
	rows, cols int64 // of lanes of a batch
	width      int64 // lanes of a block, where rows are cut in blocks
	known      places
}

// match finds out whether a launch's lanes make up a product. A launch like the last one of a state, apart from where its
// slots lie, is as that.
func (k *Kernel) match(s *state, l *backends.Launch) (p product, ok bool) {
	if l.Fuel > 0 || l.N < 1 {
		return p, false
	}
	if !s.like(l) {
		s.last, s.matches = k.lookAt(s, l)
	}
	p = s.last
	p.A += l.Slots[k.loads[p.down].Mem.Slot].Addr
	p.B += l.Slots[k.loads[1-p.down].Mem.Slot].Addr
	return p, s.matches
}

// like reports whether a launch has the numbers of the one before, and keeps them.
func (s *state) like(l *backends.Launch) bool {
	x := &s.known
	same := s.any && x.N == l.N && x.Grid == l.Grid && x.Block == l.Block && slices.Equal(s.params, l.Params) &&
		slices.EqualFunc(x.SlotBytes, l.Slots, func(n int64, v backends.View) bool { return n == v.Bytes })
	if same {
		return true
	}
	s.any, s.proved = true, false
	s.params = append(s.params[:0], l.Params...)
	x.N, x.Params, x.Grid, x.Block, x.SlotBytes = l.N, s.params, l.Grid, l.Block, x.SlotBytes[:0]
	for i := range l.Slots {
		x.SlotBytes = append(x.SlotBytes, l.Slots[i].Bytes)
	}
	return false
}

// lookAt is match, of a launch whose numbers s has; where factors begin in their slots stands for their addresses.
func (k *Kernel) lookAt(s *state, l *backends.Launch) (p product, ok bool) {
	var at [2]form
	if p.K, ok = k.evaluate(s, l, &at); !ok {
		return p, false
	}
	inside := k.inside(s, l, &at)
	rows, cols, ok := p.lanes(&s.numbers, l, &at)
	if !ok {
		return p, false
	}
	p.rows, p.cols, p.batches = p.M, p.N, max(p.batches, 1)
	size := int64(k.loads[0].Type.Size())
	p.CRow = p.N * size
	hi, places := bits.Mul64(uint64(p.M), uint64(p.N))
	if hi != 0 || places > mostPlaces || uint64(p.batches) > mostPlaces/max(places, 1) {
		return p, false
	}
	p.places = int64(places) * p.batches
	slots := [2]*backends.View{&l.Slots[k.loads[rows].Mem.Slot], &l.Slots[k.loads[cols].Mem.Slot]}
	p.down = rows
	p.A, p.M, ok = matrix(slots[0], at[rows].c, p.ARow, p.M, p.ACol, p.K, size)
	if !ok {
		return p, false
	}
	if p.B, p.N, ok = matrix(slots[1], at[cols].c, p.BCol, p.N, p.BRow, p.K, size); !ok {
		return p, false
	}
	if hi, n := bits.Mul64(uint64(p.M)*uint64(p.N), uint64(p.K)); hi == 0 && n < least && n*uint64(p.batches) < least { // of up to 2³² batches
		return p, false
	}
	if !inside && !k.proved(s) {
		return p, false
	}
	lanes := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2]) * uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
	if p.quotient > 0 && l.N <= lanes || p.byGrid && l.N == lanes && k.faultless(s) {
		p.locate(&s.numbers)
	}
	return p, true
}

// faultless reports whether no lane faults, so that nobody learns in which order they come.
func (k *Kernel) faultless(s *state) bool {
	k.prove(s)
	for i, n := range k.f.Sites {
		if n.CanFault() && !s.proof.Site(i) {
			return false
		}
	}
	return true
}

// matrix returns where in its slot a factor is, and how many of its lines are in its slot, of which each has k elements. Lanes
// that come to the loop have lines that are.
func matrix(v *backends.View, first, line, lines, step, k, size int64) (at uintptr, n int64, ok bool) {
	if first < 0 || line < 0 || step < 0 || first > mostBytes || line > mostBytes || step > mostBytes/k {
		return 0, 0, false
	}
	left := v.Bytes - first - step*(k-1) - size
	if left < 0 {
		return 0, 0, false
	}
	if line > 0 {
		lines = min(lines, left/line+1)
	}
	return uintptr(first), lines, true
}

// batch returns what is multiplied for batch z; false if none of its lanes comes to the loop.
func (k *Kernel) batch(p *product, l *backends.Launch, z int64) (m gemm.Matrices, ok bool) {
	m = p.Matrices
	if z == 0 {
		return m, true
	}
	size := int64(k.loads[0].Type.Size())
	a, b := &l.Slots[k.loads[p.down].Mem.Slot], &l.Slots[k.loads[1-p.down].Mem.Slot]
	first := func(at uintptr, v *backends.View, by int64) int64 { // less than 0 where no lane gets
		if n, fits := times(by, z); fits && n <= mostBytes {
			return n + int64(at-v.Addr)
		}
		return -1
	}
	if m.A, m.M, ok = matrix(a, first(p.A, a, p.aBatch), m.ARow, p.rows, m.ACol, m.K, size); !ok {
		return m, false
	}
	if m.B, m.N, ok = matrix(b, first(p.B, b, p.bBatch), m.BCol, p.cols, m.BRow, m.K, size); !ok {
		return m, false
	}
	m.A += a.Addr
	m.B += b.Addr
	m.C += uintptr(z * p.rows * p.cols * size)
	return m, true
}

// evaluate returns the rounds of the loop and the forms of the loads' offsets.
func (k *Kernel) evaluate(s *state, l *backends.Launch, at *[2]form) (rounds int64, ok bool) {
	n := &s.numbers
	n.begin(l)
	for i := range k.steps {
		f, ok := n.do(&k.steps[i])
		if !ok {
			return 0, false
		}
		n.forms = append(n.forms, f)
		if i == k.counts-1 {
			if rounds = f.c; !f.constant() || rounds < leastSteps {
				return 0, false
			}
			n.most[round] = rounds - 1
		}
	}
	for i, load := range k.loads {
		if k.offsets[i] >= 0 {
			at[i] = n.forms[k.offsets[i]]
		}
		c := at[i].c + load.Mem.Offset
		if (c > at[i].c) != (load.Mem.Offset > 0) && load.Mem.Offset != 0 {
			return 0, false
		}
		at[i].c = c
	}
	return rounds, true
}

// inside reports whether the loads stay in their slots in all lanes there are.
func (k *Kernel) inside(s *state, l *backends.Launch, at *[2]form) bool {
	for i, n := range k.loads {
		lo, hi, ok := s.numbers.bounds(&at[i])
		if !ok || lo < 0 || hi > l.Slots[n.Mem.Slot].Bytes-int64(n.Type.Size()) {
			return false
		}
	}
	return true
}

// proved reports whether the loads stay in their slots in all lanes that come there.
func (k *Kernel) proved(s *state) bool {
	k.prove(s)
	return s.proof.Site(k.loads[0].Site) && s.proof.Site(k.loads[1].Site)
}

// prove sets s.proof, once for a launch's numbers.
func (k *Kernel) prove(s *state) {
	if !s.proved {
		k.a.Prove(&s.known, &s.proof)
		s.proved = true
	}
}

// lanes finds which of the loads goes with rows of lanes and which with places in them, and sets the product's sizes
// and strides.
func (p *product) lanes(n *numbers, l *backends.Launch, at *[2]form) (rows, cols int, ok bool) {
	steps := [2]int64{at[0].k[round], at[1].k[round]}
	at[0].k[round], at[1].k[round] = 0, 0
	for _, find := range [...]func(*numbers, *backends.Launch, *form, *form) (row, col int64, ok bool){p.oneRow, p.inSpace, p.inGrid} {
		for rows = range 2 {
			cols = 1 - rows
			if row, col, ok := find(n, l, &at[rows], &at[cols]); ok {
				p.ARow, p.ACol, p.BRow, p.BCol = row, steps[rows], steps[cols], col
				return rows, cols, true
			}
		}
	}
	return 0, 0, false
}

// only returns the coefficient of an atom, if f has no other.
func (f *form) only(atom int) (k int64, ok bool) {
	rest := f.k
	rest[atom] = 0
	return f.k[atom], rest == [atoms]int64{}
}

// oneRow: one of the factors is the same in all lanes.
func (p *product) oneRow(_ *numbers, l *backends.Launch, row, col *form) (int64, int64, bool) {
	k, ok := col.only(global)
	p.M, p.N, p.byGrid = 1, int64(l.N), false
	return 0, k, ok && k > 0 && row.constant()
}

// inSpace: rows are counted by the quotient of the lane's number, and places in them by the remainder.
func (p *product) inSpace(n *numbers, _ *backends.Launch, row, col *form) (int64, int64, bool) {
	place := form{}
	place.k[global] = 1
	for i := range n.quotients {
		q := &n.quotients[i]
		if q.of != place {
			continue
		}
		r, ok := n.parts(*row)
		c, fits := n.parts(*col)
		if !ok || !fits {
			return 0, 0, false
		}
		quotient := firstQuotient + 2*i
		down, okDown := r.only(quotient)
		right, okRight := c.only(quotient + 1)
		p.M, p.N, p.byGrid, p.quotient = n.most[quotient]+1, q.by.c, false, quotient
		return down, right, okDown && okRight
	}
	return 0, 0, false
}

// inGrid: rows go with y in a grid of blocks, places in them with x, and matrices with z.
func (p *product) inGrid(n *numbers, l *backends.Launch, row, col *form) (int64, int64, bool) {
	if n.row {
		return 0, 0, false
	}
	r, c := *row, *col
	aBatch, okA := n.take(&r, laneZ, blockZ)
	bBatch, okB := n.take(&c, laneZ, blockZ)
	down, okDown := n.along(&r, laneY, blockY)
	right, okRight := n.along(&c, laneX, blockX)
	if !okA || !okB || !okDown || !okRight || aBatch < 0 || bBatch < 0 {
		return 0, 0, false
	}
	p.M, p.N, p.byGrid = int64(l.Grid[1])*int64(l.Block[1]), int64(l.Grid[0])*int64(l.Block[0]), true
	p.batches, p.aBatch, p.bBatch = int64(l.Grid[2])*int64(l.Block[2]), aBatch, bBatch
	return down, right, true
}

// take takes out of f what it grows by from lane to lane in a direction of the grid.
func (n *numbers) take(f *form, lane, block int) (int64, bool) {
	var of form
	of.k[lane], of.k[block] = f.k[lane], f.k[block]
	f.k[lane], f.k[block] = 0, 0
	return n.along(&of, lane, block)
}

// along returns what f grows by from lane to lane, through all blocks, in a direction of the grid, if it grows in no other.
func (n *numbers) along(f *form, lane, block int) (int64, bool) {
	rest := f.k
	rest[lane], rest[block] = 0, 0
	x, b := f.k[lane], f.k[block]
	switch {
	case rest != [atoms]int64{}:
		return 0, false
	case n.most[lane] == 0:
		return b, true
	case n.most[block] == 0:
		return x, true
	}
	by, ok := times(x, n.most[lane]+1)
	return x, ok && by == b
}
