package gemm

import (
	"math"

	"github.com/hologram-project/hologram/backends/hostmem"
)

// Products by units that multiply groups of elements, pairs of 16 bits or fours of 8, and add
// them to sums of 32.
//
// B is packed in tiles of groups, a block of it at a time; A's rows are multiplied where they
// lie, or packed as well where they do not lie along k, or would compete for places of the
// caches. Of a product and the transposed one that is done which packs
// less, so a large matrix that few rows or columns meet is read once, in place. Two by two
// tiles of sums go through all of k where a panel meets few columns; else through some
// nearSteps of it, and wait in memory, as they are, while the panel's rows stay in the L1,
// and what of A comes next is fetched.
//
//	for rows of A, which are packed here if several blocks of B meet them in all of k
//	  for columns of B
//	    for k, as much as is packed of B at once
//	      for panels of A, 32 rows or, of vectors, 14 or 16
//	        for k, as much as goes with a panel: one call, or some
//
// Of floats the order (docs/REDUCTIONS.md) is the units' own: k is cut in steps of 32 from its
// start, of which the last is filled up with zeros, and sums go on from one to the next
// wherever they were meanwhile. So k alone decides here too.

// Sizes of blocks.
const (
	nearSteps   = 8       // of k that go with a panel at once: those of A and two tiles' columns of B fit the L1
	waitHigh    = 2048    // rows of A of a block where sums wait
	heldBytes   = 1 << 20 // of B that is packed at once
	heldSteps   = 256     // of k
	deepSteps   = 64      // of k where B is more
	onceBytes   = 8 << 20 // of A that is packed once for several blocks of B
	streamSteps = 4       // of k, where rows of B are read as they come
	stepsOfCall = 1024    // of a call of a micro-kernel, some 40 µs
	bytesOfCall = 256 << 10
)

// plainUnits gives dimensions of one element the stride that suits best.
func (p *product) plainUnits() {
	size := p.in.size
	if p.n == 1 {
		p.ccs = p.out.size
		if p.bcs = 0; p.brs != size {
			p.bcs = size
		}
	}
	if p.m == 1 && p.acs != size {
		p.ars = size
	}
	if p.k == 1 {
		p.acs, p.brs = size, size
	}
}

// orientUnits transposes the product where that packs less.
func (p product) orientUnits() product {
	q := p.swapped()
	p.plainUnits()
	q.plainUnits()
	size := p.in.size
	cost := func(x *product) int64 {
		side := func(along, across, elements int64, costs [3]int64) int64 {
			switch {
			case along == size:
				return costs[0] * elements
			case across == size:
				return costs[1] * elements
			}
			return costs[2] * elements
		}
		c := side(x.acs, x.ars, x.m*x.k, [...]int64{0, 8, 60}) + side(x.bcs, x.brs, x.n*x.k, [...]int64{2, 5, 60})
		if x.ccs != x.out.size {
			c += 8 * x.m * x.n
		}
		return c
	}
	if cost(&q) < cost(&p) {
		return q
	}
	return p
}

// unitNanoseconds estimates how long it takes, or so much of k of it: to multiply, or to
// read what is large.
func (p *product) unitNanoseconds(k int64) float64 {
	k = min(p.k, k)
	step := 8.0
	if !p.unit.tiles() {
		step = 40
	}
	tiles := float64(ceil(p.m, tileRows)) * float64(ceil(p.n, tileRows))
	return tiles*(step*float64(ceil(k, p.unit.stepWide()))+30) + 0.04*float64(p.in.size*k)*float64(p.m+p.n)
}

// What units take for a task, in nanoseconds: for a step of k by a tile of sums, to begin and end these, and
// for an element of A that lies along k, or across, and of B, each of which a task packs. With what part of
// a task some begin late, fitted to 400 cuts of 13 products of bf16 by 2 to 16 threads of a Xeon with AMX.
const (
	tileStepNanoseconds = 23
	dotsStepNanoseconds = 40
	sumsNanoseconds     = 20
	alongNanoseconds    = 0.07
	acrossNanoseconds   = 0.18
	unitPackNanoseconds = 0.11
	lateUnits           = 0.5
)

// unitTask estimates how long a task of so many rows and columns and so much of k takes, in nanoseconds.
func (p *product) unitTask(high, wide, k int64) float64 {
	step, perA := float64(tileStepNanoseconds), alongNanoseconds
	if !p.unit.tiles() {
		step = dotsStepNanoseconds
	}
	if p.acs != p.in.size {
		perA = acrossNanoseconds
	}
	tiles := float64(ceil(high, tileRows) * ceil(wide, tileRows))
	return tiles*(step*float64(ceil(k, p.unit.stepWide()))+sumsNanoseconds) + (perA*float64(high)+unitPackNanoseconds*float64(wide))*float64(k)
}

// divideUnits is divide for units: into tasks of as many rows and columns as are done soonest, as each packs
// what it needs.
func (r *launch) divideUnits(threads int, chunk float64) int64 {
	p := &r.first
	matrices := r.batches * r.parts
	n := min(int64(threads), int64(p.unitNanoseconds(r.part)*float64(matrices)/chunk))
	if threads == 1 || n < 2 || matrices >= int64(threads)*tasksOfThread {
		return matrices
	}
	const unit = 2 * tileRows
	rows, k := p.panelRows(), min(p.k, r.part)
	best := math.Inf(1)
	for parts := int64(1); parts <= min(2*n, ceil(p.n, unit)); parts++ {
		wide := ceil(ceil(p.n, parts), unit) * unit
		across := ceil(p.n, wide)
		for rounds := int64(1); rounds <= tasksOfThread; rounds++ {
			high := ceil(ceil(p.m, max(1, rounds*n/(across*matrices))), rows) * rows
			tasks := matrices * across * ceil(p.m, high)
			if ns := (float64(ceil(tasks, n)) + lateUnits) * p.unitTask(min(high, p.m), min(wide, p.n), k); ns < best {
				best, r.wide, r.high = ns, wide, high
			}
		}
	}
	r.across, r.down = ceil(p.n, r.wide), ceil(p.m, r.high)
	return matrices * r.down * r.across
}

// unitPlan is how a block is done.
type unitPlan struct {
	rows       int64 // of a panel
	deep, near int64 // of k that is packed of B at once, and that a panel goes through at once
	pairs      int64 // of tiles side by side, that is packed at once
	high       int64 // rows for which B stays
	packs      bool  // A's panels are packed
	once       bool  // all of them before they are multiplied, by one block of B after the other
	waits      int64 // panels whose sums wait in memory; 0: none
	turned     bool  // A's rows are transposed in registers
}

// planUnits plans so many rows and columns of the result.
func (p *product) planUnits(high, wide int64) unitPlan {
	h := unitPlan{rows: p.panelRows(), deep: p.k, near: p.k, pairs: ceil(wide, 2*tileRows), high: high, turned: p.turns()}
	stepWide := p.unit.stepWide()
	steps := ceil(p.k, stepWide)
	// Nearly nearSteps, so that no part of k is left that is short.
	nearDeep := nearSteps * stepWide
	near := ceil(ceil(p.k, max(1, (p.k+nearDeep/2)/nearDeep)), stepWide) * stepWide
	whole := h.pairs*steps*stepBytes <= heldBytes && steps <= heldSteps
	switch {
	case whole:
	case high <= h.rows && p.bcs == p.in.size: // B is read once, by rows that are as long as may be
		h.deep = streamSteps * stepWide
		h.near = h.deep
		h.pairs = min(h.pairs, heldBytes/(streamSteps*stepBytes))
		h.waits = 1
	default:
		parts := ceil(steps, deepSteps)
		h.deep = ceil(ceil(p.k, parts), near) * near
		h.pairs = min(h.pairs, max(1, heldBytes/(ceil(h.deep, stepWide)*stepBytes)))
		if parts > 1 {
			h.high = min(high, waitHigh/h.rows*h.rows)
			h.waits = ceil(h.high, h.rows)
		}
	}
	if h.pairs > 2 {
		h.near = min(h.near, near)
		h.waits = max(h.waits, 1)
		low := p.ars & 2047 // rows compete for the same places of the L1
		h.packs = low < 64 || low > 2048-64
	}
	if h.near = min(h.near, h.deep); h.near >= p.k {
		h.waits = 0
	}
	if p.acs != p.in.size {
		h.packs = true
	}
	if h.once = h.packs && h.deep >= p.k && wide > h.pairs*2*tileRows; h.once {
		h.high = min(high, max(1, onceBytes/(steps*p.aStepBytes()))*h.rows)
	}
	return h
}

// units computes rows i0 … i1 and columns j0 … j1 of the result.
func (w *worker) units(p *product, i0, i1, j0, j1 int64) {
	w.p = p
	if w.tile == nil {
		w.tile = new(tileArgs)
	}
	t, stepWide := w.tile, p.unit.stepWide()
	t.alpha, t.beta = p.alpha, p.beta
	if p.isLines() {
		w.lines(p, i0, i1)
		return
	}
	h := p.planUnits(i1-i0, j1-j0)
	steps := max(1, ceil(h.deep, stepWide))
	b := w.room(roomB, h.pairs*steps*stepBytes)
	near, panels := max(1, ceil(h.near, stepWide)), int64(1)
	if h.once {
		near, panels = steps, ceil(h.high, h.rows)
	}
	aStep := p.aStepBytes()
	a := w.room(roomA, panels*near*aStep+stepBytes)
	rest := a + uintptr(panels*near*aStep)
	sums := w.room(roomSum, max(1, h.waits*h.pairs)*sumStep)
	if w.err != nil {
		return
	}
	t.sNext = 0
	if h.waits > 0 {
		t.sNext = sumStep
	}
	for ic := i0; ic < i1; ic += h.high {
		iEnd := min(ic+h.high, i1)
		for i := ic; h.once && i < iEnd && !w.ends(); i += h.rows {
			w.panelA(a+uintptr((i-ic)/h.rows*near*aStep), rest, true, i, min(h.rows, iEnd-i), 0, p.k)
		}
		for jc := j0; jc < j1; jc += h.pairs * 2 * tileRows {
			jEnd := min(jc+h.pairs*2*tileRows, j1)
			for pc := int64(0); pc == 0 || pc < p.k; pc += max(1, h.deep) {
				pEnd := min(pc+h.deep, p.k)
				w.packGroups(b, steps, pc, pEnd-pc, jc, jEnd)
				for i := ic; i < iEnd; i += h.rows {
					at := sums
					if h.waits > 1 {
						at += uintptr((i - ic) / h.rows * h.pairs * sumStep)
					}
					for qc := pc; qc == pc || qc < pEnd; qc += max(1, h.near) {
						if w.ends() {
							return
						}
						n, qEnd := min(h.rows, iEnd-i), min(qc+h.near, pEnd)
						if h.once {
							w.packedA(a+uintptr(((i-ic)/h.rows*near+qc/stepWide)*aStep), qEnd-qc)
						} else {
							w.panelA(a, rest, h.packs || h.turned && n%tileRows > 0, i, n, qc, qEnd-qc)
						}
						t.flags = 0
						if qc > 0 {
							t.flags |= flagBegin
						}
						if qEnd == p.k {
							t.flags |= flagFinish
							if p.scaled {
								t.flags |= flagScale
							}
							if p.reads {
								t.flags |= flagBeta
							}
						}
						w.fetchA(h, i, qc, pc, pEnd, iEnd)
						if h.once && t.next != 0 {
							t.next, t.nextStep, t.nextLine = t.a+uintptr(ceil(qEnd-qc, stepWide)*aStep), 64, 0
						}
						w.panel(b+uintptr((qc-pc)/stepWide*stepBytes), steps, at, i, n, jc, jEnd)
					}
				}
			}
		}
	}
}

// fetchA has the next panel call fetch what of A the one after it needs.
func (w *worker) fetchA(h unitPlan, i, qc, pc, pEnd, iEnd int64) {
	p, t := w.p, w.tile
	if t.next = 0; !p.unit.tiles() {
		return
	}
	if qc += max(1, h.near); qc >= pEnd {
		if i, qc = i+h.rows, pc; i >= iEnd {
			return
		}
	}
	t.next = p.a + uintptr(i*p.ars+qc*p.acs)
	if p.acs == p.in.size {
		t.nextStep, t.nextLine = uintptr(p.ars), uintptr(64-fetchLines*p.ars)
	} else {
		t.nextStep, t.nextLine = uintptr(p.acs), 0
	}
}

// panel multiplies n rows of A, that are prepared, by columns jc … jEnd of B.
func (w *worker) panel(b uintptr, steps int64, sums uintptr, i, n, jc, jEnd int64) {
	p, t := w.p, w.tile
	s := tile{along: p.ccs != p.out.size || p.n == 1 && p.crs == p.out.size, unit: p.unit, out: uint8(p.out.size), far: t.next != 0}
	kind, tiles, high := dotted, ceil(n, tileRows), [2]int64{min(n, tileRows), max(0, n-tileRows)}
	switch s.rows = int(n); {
	case p.unit.tiles():
		kind, s.rows = tiled, int(tiles)
		t.setConfig(high)
	case p.turns():
		kind, s.far = turnedDots, p.m*p.ars > beyondL2
	}
	t.bNext = uintptr(steps * stepBytes)
	most := max(1, stepsOfCall/max(1, t.steps)) * 2 * tileRows
	for j := jc; j < jEnd; {
		wide := min(jEnd-j, most)
		if wide >= 2*tileRows {
			wide = wide / (2 * tileRows) * (2 * tileRows)
		}
		if s.cols = int(min(ceil(wide, tileRows), 2)); kind == turnedDots {
			s.rows, s.cols = int(wide), int(tiles)
		}
		across := [2]int64{min(wide, tileRows), min(max(0, wide-tileRows), tileRows)}
		t.b, t.s = b+uintptr((j-jc)/(2*tileRows)*steps*stepBytes), sums+uintptr((j-jc)/(2*tileRows)*int64(t.sNext))
		t.c, t.tiles = p.c+uintptr(i*p.crs+j*p.ccs), ceil(wide, 2*tileRows)
		lines, marked := high, across
		t.cStep, t.cNext = uintptr(p.crs), uintptr(2*tileRows*p.ccs)
		if s.along {
			lines, marked = across, high
			t.cStep = uintptr(p.ccs)
		}
		t.lines, t.mask = lines, uint64(1)<<(marked[0]+marked[1])-1
		w.enter(kind, s)
		j += wide
	}
}

// aStepBytes is how far packed steps of A lie apart, of a panel's one tile or two.
func (p *product) aStepBytes() int64 {
	if p.panelRows() > tileRows {
		return stepBytes
	}
	return tileBytes
}

// panelA prepares n rows of A from row i on and kc of k from pc on: packed, or as they lie,
// but for a last step that is not whole.
func (w *worker) panelA(a, rest uintptr, packs bool, i, n, pc, kc int64) {
	p, t, size, stepWide := w.p, w.tile, w.p.in.size, w.p.unit.stepWide()
	from := p.a + uintptr(i*p.ars+pc*p.acs)
	if !packs {
		t.a, t.aStep, t.aNext, t.aDown = from, uintptr(p.ars), 64, uintptr(tileRows*p.ars)
		t.steps, t.rests = kc/stepWide, 0
		if k := kc % stepWide; k > 0 {
			t.rests, t.rest, t.restDown = p.unit.rounds(k), rest, tileBytes
			for r := int64(0); r < n; r += tileRows {
				w.packTile(rest+uintptr(r*64), from+uintptr(r*p.ars+(kc-k)*size), p.ars, min(tileRows, n-r), k, true)
			}
		}
		return
	}
	steps, aStep := ceil(kc, stepWide), p.aStepBytes()
	t.aStep, t.aNext, t.aDown = 64, uintptr(aStep), tileBytes
	w.packedA(a, kc)
	for r := int64(0); r < n && kc > 0; r += tileRows {
		to, src, high := a+uintptr(r/tileRows*tileBytes), from+uintptr(r*p.ars), min(tileRows, n-r)
		switch {
		case p.acs == size:
			w.packTile(to, src, p.ars, high, kc, true)
		case p.ars == size:
			t.mask = 1<<high - 1
			t.src, t.srcStep, t.dst, t.dstNext, t.count = src, uintptr(p.acs), to, uintptr(aStep), kc/stepWide
			if t.count > 0 {
				w.enter(tilesByRows, tile{rows: int(stepWide), unit: p.unit})
			}
			if k := kc % stepWide; k > 0 {
				t.src, t.dst, t.count = src+uintptr((kc-k)*p.acs), to+uintptr(kc/stepWide*aStep), 1
				w.enter(tilesByRows, tile{rows: int(k), unit: p.unit})
			}
		default:
			if w.byHand() {
				return
			}
			clearTiles(to, steps, aStep)
			for j := range high {
				for k := range kc {
					p.unit.pack(to+uintptr(k/stepWide*aStep+j*64+k%stepWide*p.in.size), src+uintptr(j*p.ars+k*p.acs))
				}
			}
		}
	}
}

// packedA has the next panel call go through kc of k that are packed.
func (w *worker) packedA(a uintptr, kc int64) {
	t, stepWide := w.tile, w.p.unit.stepWide()
	t.a, t.steps, t.rests = a, ceil(kc, stepWide), 0
	if k := kc % stepWide; k > 0 && !w.p.unit.tiles() {
		t.steps--
		t.rests, t.rest, t.restDown = w.p.unit.rounds(k), a+uintptr(t.steps*w.p.aStepBytes()), tileBytes
	}
}

// clearTiles makes the tiles of a column zero, or of rows of A, so many bytes from step to step.
func clearTiles(at uintptr, steps, next int64) {
	for s := range steps {
		clear(hostmem.Bytes(at+uintptr(s*next), tileBytes))
	}
}

// packTile makes tiles of n rows, or columns, whose elements lie along k.
func (w *worker) packTile(dst, src uintptr, step, n, kc int64, rows bool) {
	t, unit := w.tile, w.p.unit
	t.src, t.srcStep, t.dst, t.dstNext, t.count = src, uintptr(step), dst, stepBytes, ceil(kc, unit.stepWide())
	if rows {
		t.dstNext = uintptr(w.p.aStepBytes())
	}
	t.mask = 1<<((kc-1)%unit.stepWide()+1) - 1
	w.enter(tilesByColumns, tile{rows: int(n), along: rows, unit: unit})
}

// packGroups packs kc of k from pc on and columns j … end of B, of which there is room for
// so many steps of two columns of tiles.
func (w *worker) packGroups(dst uintptr, room, pc, kc, j, end int64) {
	p, t, size, stepWide, group := w.p, w.tile, w.p.in.size, w.p.unit.stepWide(), w.p.unit.group()
	if kc == 0 {
		return
	}
	src := p.b + uintptr(pc*p.brs+j*p.bcs)
	wide := end - j
	next, steps := room*stepBytes, ceil(kc, stepWide)
	if p.bcs == size {
		t.srcStep, t.dstNext, t.origin, t.tiles = uintptr(p.brs), uintptr(next), dst, ceil(wide, 2*tileRows)
		t.mask = 1<<((wide-1)%(2*tileRows)+1) - 1
		line := func(group int64) uintptr { return dst + uintptr(group/tileRows*stepBytes+group%tileRows*64) }
		most := max(1, bytesOfCall/(wide*4))
		for k := int64(0); k < kc/group; k += most {
			t.src, t.dst, t.count = src+uintptr(group*k*p.brs), line(k), min(most, kc/group-k)
			w.enter(interleaves, tile{rows: int(group), unit: p.unit})
		}
		if left := kc % group; left > 0 {
			t.src, t.dst, t.count = src+uintptr((kc-left)*p.brs), line(kc/group), 1
			w.enter(interleaves, tile{rows: int(left), unit: p.unit})
		}
		if filled := ceil(kc, group); filled%tileRows > 0 {
			t.dst, t.count = line(filled), tileRows-filled%tileRows
			w.enter(interleaves, tile{unit: p.unit}) // of no rows
		}
		return
	}
	for c := range ceil(wide, tileRows) {
		n := min(tileRows, wide-c*tileRows)
		to, from := dst+uintptr(c/2*next+c%2*tileBytes), src+uintptr(c*tileRows*p.bcs)
		if p.brs == size {
			w.packTile(to, from, p.bcs, n, kc, false)
			continue
		}
		if w.byHand() {
			return
		}
		clearTiles(to, steps, stepBytes)
		for k := range kc {
			for j := range n {
				at := to + uintptr(k/stepWide*stepBytes+k%stepWide/group*64+j*4+k%group*size)
				p.unit.pack(at, from+uintptr(k*p.brs+j*p.bcs))
				if p.unit.flips() {
					*(*uint8)(hostmem.Pointer(at)) ^= signBits & 0xFF
				}
			}
		}
	}
}
