package asynctest

import "maps"

// The race detector. It asks of any two works on the same bytes, one of which
// writes them, that something orders them: the same queue; an Await, by itself
// or through others; or the host, which queued the one after it knew, from
// Passed or Wait, that the other had passed. That the one happened to be done
// before the other began does not count, so that what is missing shows
// whatever the timing.

// clock is a vector clock: of each queue, up to where its works are ordered
// before what the clock belongs to. That of a queue or work is not changed once
// made, so that they share it.
type clock map[*queue]uint64

// join returns the later of c and d in each queue.
func (c clock) join(d clock) clock {
	sum := maps.Clone(c)
	if sum == nil {
		sum = clock{}
	}
	sum.add(d)
	return sum
}

func (c clock) add(d clock) {
	for q, n := range d {
		c[q] = max(c[q], n)
	}
}

// access is a work's use of bytes of a block.
type access struct {
	work   *work
	lo, hi int64 // of the block's bytes
	write  bool
}

func (a *access) verb() string {
	if a.write {
		return "writes"
	}
	return "reads"
}

// use is an access that a work will have: captured work has one for each replay.
type use struct {
	block  *block
	lo, hi int64
	write  bool
}

// known reports whether the host knows that w has passed. The caller holds
// the lock, here and below.
func (b *Backend) known(w *work) bool { return w.seq <= b.seen[w.queue] }

// observe notes that the host knows all to have passed that is ordered before
// w, and w.
func (b *Backend) observe(w *work) {
	b.seen.add(w.clock)
	b.seen[w.queue] = max(b.seen[w.queue], w.seq)
}

// note adds w's accesses to the blocks' histories and finds those that nothing
// orders against earlier ones.
func (b *Backend) note(w *work, uses []use) {
	for _, u := range uses {
		a := access{w, u.lo, u.hi, u.write}
		kept := u.block.history[:0]
		for _, old := range u.block.history {
			if b.known(old.work) {
				continue
			}
			mine := old.work.queue == w.queue
			ordered := mine || old.work.seq <= w.clock[old.work.queue]
			if !ordered && old.lo < a.hi && a.lo < old.hi && (old.write || a.write) {
				_ = b.breach("race: %v %s bytes %d to %d of %v, which %v %s; nothing orders them",
					w, a.verb(), a.lo, a.hi, u.block, old.work, old.verb())
			}
			// What the new access covers tells nothing more.
			if !mine || old.lo < a.lo || old.hi > a.hi || old.write && !a.write {
				kept = append(kept, old)
			}
		}
		clear(u.block.history[len(kept):])
		u.block.history = append(kept, a)
	}
}

// unused says why a block cannot be freed.
func (b *Backend) unused(what string, k *block) error {
	return b.unusedIn(what, k, func(*work, int64, int64) bool { return true })
}

// unusedIn says the same of those bytes of a block that go, for a work or, where it
// is nil, for a captured graph.
func (b *Backend) unusedIn(what string, k *block, goes func(w *work, lo, hi int64) bool) error {
	for _, p := range k.pins {
		if goes(nil, p.lo, p.hi) {
			return b.breach("%s: a captured graph uses bytes %d to %d of %v", what, p.lo, p.hi, k)
		}
	}
	for _, a := range k.history {
		if !goes(a.work, a.lo, a.hi) {
			continue
		}
		if !a.work.passed {
			return b.breach("%s: %v is still to be done, on %v", what, a.work, k)
		}
		if !b.known(a.work) {
			_ = b.breach("%s: the host has not asked whether %v has passed, which uses %v", what, a.work, k)
		}
	}
	return nil
}
