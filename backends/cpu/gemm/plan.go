package gemm

// plan is how a block of the result is done.
type plan struct {
	*product
	shape
	i0, i1, j0, j1 int64
	size, panels   int64 // bytes of a number; panels of A
	together       int64 // panels that meet a block of B, one after the other, before the next one
	tall           int64 // panels of one tile that are done in a call
	outer          int64 // columns that go through all of k before the next ones
	byColumns      bool
	sums, via      bool // sums of chunks wait in a room, of which sumStep are a row; so do those of the last, on the way to the result
	sumStep        int64
	packsFirst     bool  // what the first panel loads of B it also packs
	keeps          bool  // packed blocks of B stay for the next rows
	packedBlocks   int64 // that have room
	keptPanels     int64 // of A, likewise
	// Bytes of a packed panel, from one of its rows or columns to the next, and of a row of a packed tile of B.
	panelBytes, aStep, tileBytes int64
}

// plan plans rows i0 … i1 and columns j0 … j1, with B packed as block says, if that is not nil.
func (p *product) plan(i0, i1, j0, j1 int64, block *packed) plan {
	high, wide, vector := i1-i0, j1-j0, int64(p.lib.m.bytes)
	h := plan{product: p, i0: i0, i1: i1, j0: j0, j1: j1, size: p.t.size(), tall: 1, byColumns: p.byColumns(), packedBlocks: 1, keptPanels: 1}
	shared := block != nil && block.at != 0
	if block != nil {
		h.shape = block.shape
	} else {
		h.shape = p.shape(high, wide)
	}
	h.panels, h.tileBytes = ceil(high, h.rows), h.width*vector
	// Sums of chunks stay where the result goes, unless that is still needed, or of
	// another type, or in another order.
	h.via = p.leaves() && !h.byColumns
	h.sums = h.via || p.reads && h.chunks > 1
	if h.outer = wide; h.sums {
		h.outer = min(h.outer, h.perBlock)
	}
	h.sumStep = h.outer*h.size + 64
	within := func(bytes int64) int64 { return max(1, bytes/(chunk*h.size*h.rows)) } // panels
	h.together = min(h.panels, within(maxA))
	if n := ceil(wide, h.perBlock) * h.chunks; h.packB && !h.held && n*h.bBlock <= maxKept && within(maxKeptA) < h.panels {
		h.keeps, h.packedBlocks, h.together = true, n, within(maxKeptA)
	}
	if (h.held || !h.packB) && wide <= h.perBlock && !shared && (block == nil || h.chunks*h.bBlock <= maxHeld) {
		h.together = 1 // all of k for a panel, so that memory is read in a row
		if h.via {
			h.together = min(h.panels, square(p.t)) // in squares
		}
	}
	// Several tiles side by side each meet the lines of the result: from memory whole rows come faster.
	several, near := wide > h.across, int64(tallResult)
	if p.lib.m.evex { // whose L2 is larger
		near *= 4
	}
	if ns := p.tileNanoseconds(h.rows, wide); ns < tallNanoseconds && h.chunks == 1 && !h.packA && (!several || wide <= h.perBlock && p.m*p.n*h.size <= near) {
		h.tall = int64(runNanoseconds / ns)
		if several {
			h.tall = min(h.tall, max(1, tallBytes/(h.rows*wide*h.size)))
		}
		if h.via { // sums that are near when they are delivered
			h.tall = min(h.tall, max(square(p.t), tallSums/(h.rows*h.sumStep)))
		}
		h.together = min(h.panels, h.tall)
	}
	h.aStep = h.deep*h.size + 64
	h.panelBytes = h.rows * h.aStep
	if !h.along {
		h.aStep = ceil(h.rows, int64(p.lib.m.lanes(p.t))) * vector
		h.panelBytes = h.deep*h.aStep + 64 // or panels would compete for the same places of the caches
	}
	if h.outer > h.perBlock { // what meets one block of B is not kept for others
		h.keptPanels = h.together
	}
	if h.held {
		h.packedBlocks = h.chunks
	}
	// If it can be loaded as it lies; from memory a copy's longer rows come faster, but where the panels before have
	// fetched them.
	h.packsFirst = h.packB && !shared && !p.converts() && p.bcs == h.size && h.rows <= packsMost && h.tall == 1 &&
		(p.n*p.k*h.size <= maxPackedFirst || h.panels >= unroll*ceil(h.tileBytes, 64))
	return h
}

// step is what some panels of A do one after the other: a chunk of k with a block of B.
type step struct {
	ic, end, first int64   // the panels, and the row with which they begin
	p0, kc         int64   // of k
	jo, je         int64   // the columns that go through all of k, …
	jc, jEnd       int64   // … and those of the block
	b              uintptr // where the block is packed
	has            bool    // … already
}

// blocks does a block of the result as planned, with B packed as block says, if that is not nil.
func (w *worker) blocks(h *plan, block *packed) {
	p := h.product
	if h.packA {
		w.room(roomA, h.keptPanels*h.panelBytes)
	}
	b := uintptr(0) // where packed B is
	shared := block != nil && block.at != 0
	switch {
	case shared:
		b = block.at
	case h.packB:
		b = w.room(roomB, h.packedBlocks*h.bBlock)
	}
	if h.sums {
		bytes := min(h.i1-h.i0, h.together*h.rows) * h.sumStep
		w.room(roomSum, bytes)
		if h.via && p.reads {
			w.room(roomC, bytes)
		}
	}
	if w.err != nil {
		return
	}
	packPiece := func(pc, from, deep int64) {
		if deep = min(deep, min(p.k-pc*chunk, chunk)-from); deep > 0 {
			w.packB(b+h.packedAt(pc*chunk, h.j0), &h.shape, pc*chunk, from, deep, h.j0, h.j1)
		}
	}
	has := shared || block != nil && w.holds == block // all of it, before the first panel
	h.packsFirst = h.packsFirst && !has
	for pc := int64(0); h.held && !h.packsFirst && !has && pc*chunk < p.k; pc++ {
		packPiece(pc, 0, chunk)
	}
	w.holds = block
	for jo := h.j0; jo < h.j1; jo += h.outer {
		for ic := int64(0); ic < h.panels; ic += h.together {
			s := step{ic: ic, end: min(ic+h.together, h.panels), first: h.i0 + ic*h.rows, jo: jo, je: min(jo+h.outer, h.j1)}
			last := min(h.i0+s.end*h.rows, h.i1)
			for pc := range h.chunks {
				s.p0 = pc * chunk
				s.kc = min(p.k-s.p0, chunk)
				if shared && s.kc > 0 {
					block.need(pc, packPiece)
				}
				if pc == h.chunks-1 && h.via && p.reads {
					w.fetch(s.first, last, s.jo, s.je, h.sumStep)
				}
				for s.jc = jo; s.jc < s.je; s.jc += h.perBlock {
					s.jEnd = min(s.jc+h.perBlock, s.je)
					s.b, s.has = b+h.packedAt(s.p0, s.jc), h.held && !(h.packsFirst && ic == 0) || h.keeps && ic > 0
					if h.packB && !s.has && s.kc > 0 && !h.packsFirst {
						w.packB(s.b, &h.shape, s.p0, 0, s.kc, s.jc, s.jEnd)
					}
					if !w.panels(h, &s) {
						return
					}
				}
			}
			if h.via {
				w.deliver(s.first, last, s.jo, s.je, h.sumStep)
			}
		}
	}
}

// packedAt is how far behind the start of what is packed of B a block is, of a chunk of k and from a column on.
func (h *plan) packedAt(p0, jc int64) uintptr {
	if !h.held && !h.keeps {
		return 0
	}
	return uintptr(((jc-h.j0)/h.perBlock*h.chunks + p0/chunk) * h.bBlock)
}

// panels does a step. It reports whether the worker goes on.
func (w *worker) panels(h *plan, s *step) bool {
	p := h.product
	for q, done := s.ic, int64(1); q < s.end; q += done {
		if w.ends() {
			return false
		}
		top := h.i0 + q*h.rows
		t := tile{t: p.t, rows: int(min(h.rows, h.i1-top)), cols: int(h.width), along: h.along, byColumns: h.byColumns,
			packs: h.packsFirst && !s.has && s.kc > 0 && q == s.ic}
		w.k = s.kc
		w.a, w.aStep = p.a+uintptr(top*p.ars+s.p0*p.acs), uintptr(p.ars)
		if !h.along {
			w.aStep = uintptr(p.acs)
		}
		panelAt, packsA := uintptr(0), false // as the first tile meets it
		if h.packA {
			panelAt = w.rooms[roomA].Addr + uintptr((q-s.ic)%h.keptPanels*h.panelBytes)
			switch {
			case s.jc > s.jo:
				w.a, w.aStep = panelAt, uintptr(h.aStep)
			case h.along:
				w.a, w.aStep = panelAt, uintptr(h.aStep)
				if s.kc > 0 {
					w.packA(w.a, h.aStep, top, int64(t.rows), s.p0, s.kc)
				}
			case s.je-s.jo > h.across: // no other tile meets it else
				packsA, w.aDst, w.aDstStep = true, panelAt, uintptr(h.aStep)
			}
		}
		to := place{p.c + uintptr(top*p.crs+s.jc*p.ccs), p.crs}
		if h.byColumns {
			to.step = p.ccs
		}
		at, was := to, to
		if h.sums {
			offset := uintptr((top-s.first)*h.sumStep + (s.jc-s.jo)*h.size)
			at = place{w.rooms[roomSum].Addr + offset, h.sumStep}
			if h.via {
				to, was = at, place{w.rooms[roomC].Addr + offset, h.sumStep}
			}
		}
		w.follow(s.p0 == 0, s.p0+chunk >= p.k, at, to, was)
		w.b, w.bStep, w.bNext = p.b+uintptr(s.p0*p.brs+s.jc*p.bcs), uintptr(p.brs), uintptr(h.across*h.size)
		packed := h.packB && !t.packs
		if packed {
			w.b, w.bStep, w.bNext = s.b, uintptr(h.tileBytes), uintptr(h.bTile)
		}
		if t.packs {
			w.dst, w.dstStep, w.ahead = s.b, uintptr(h.bTile), uintptr(packAhead*p.brs)
		}
		if done = min(h.tall, (h.i1-top)/h.rows); done > 1 {
			next := h.rows * at.step
			if h.byColumns {
				next = h.rows * h.size
			}
			a, b, bNext := w.a, w.b, w.bNext
			for j := int64(0); j < s.jEnd-s.jc; j += h.across {
				right := func(x place) place {
					if h.byColumns {
						return place{x.addr + uintptr(j*x.step), x.step}
					}
					return place{x.addr + uintptr(j*h.size), x.step}
				}
				w.follow(s.p0 == 0, s.p0+chunk >= p.k, right(at), right(to), right(was))
				w.a, w.b = a, b+uintptr(j/h.across)*bNext
				w.down(t, min(h.across, s.jEnd-s.jc-j), packed, done, h.rows*p.ars, next)
			}
			continue
		}
		done = 1
		left := s.jEnd - s.jc
		if !p.converts() && !w.short {
			t.far = w.aheadOf(h, s, q, ceil(left, h.across))
		}
		if packsA {
			t.packsA = true
			w.tilesOf(multiplies, t, min(left, h.across), packed)
			t.packsA, left = false, left-h.across
			w.a, w.aStep = panelAt, uintptr(h.aStep)
		}
		w.tilesOf(multiplies, t, left, packed)
	}
	return true
}
