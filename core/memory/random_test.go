package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// world is a device with streams and what is done with its memory, kept as simply
// as can be: by addresses that never come twice from the device, and for each work
// all work that it comes behind.
type world struct {
	t     *testing.T
	r     *rand.Rand
	p     *Pool
	next  uintptr
	given map[uintptr]int64 // what the device gave and did not get back
	seen  map[uintptr]bool  // places, a cache line each, that were handed out before
	lines []*worldLine
	works []worldWork
	held  []*worldMemory
	a     Account
	sizes []int64
	// fails has a stream refuse to wait for another.
	fails bool
}

var errAwait = errors.New("the stream does not wait")

// worldLine is a stream. Its clock tells which tickets of every stream its next
// work comes behind, and clocks those of what is queued.
type worldLine struct {
	backends.Stream
	w      *world
	at     int
	line   *Line
	passed backends.Ticket
	clock  []backends.Ticket
	clocks [][]backends.Ticket
}

func (s *worldLine) Passed() backends.Ticket { return s.passed }
func (s *worldLine) Given() backends.Ticket  { return s.clock[s.at] }

func (s *worldLine) Await(other backends.Stream, t backends.Ticket) error {
	if s.w.fails {
		return errAwait
	}
	for i, c := range other.(*worldLine).clocks[t-1] {
		s.clock[i] = max(s.clock[i], c)
	}
	return nil
}

// queue queues work, behind all that the clock tells.
func (s *worldLine) queue() backends.Ticket {
	s.clock[s.at]++
	s.clocks = append(s.clocks, slices.Clone(s.clock))
	return s.clock[s.at]
}

// step lets the stream's next work pass, if what it comes behind has.
func (s *worldLine) step(all []*worldLine) {
	if int(s.passed) == len(s.clocks) {
		return
	}
	for i, c := range s.clocks[s.passed] {
		if i != s.at && all[i].passed < c {
			return
		}
	}
	s.passed++
}

// worldWork is work that was queued on a stretch of memory.
type worldWork struct {
	addr   uintptr
	bytes  int64
	line   int
	ticket backends.Ticket
	writes bool
	owner  *worldMemory
}

// worldMemory is memory that was taken, with its users counted.
type worldMemory struct {
	m       *Memory
	users   int
	account bool
	loan    *worldLoan // nil: there was none
}

// worldLoan is of memory to a stream, all of whose work counts as the memory's when it ends.
type worldLoan struct {
	line  *worldLine
	of    *worldMemory
	ended bool
}

func (l *worldLoan) End() {
	w, m := l.line.w, l.of.m
	for range w.r.IntN(2) { // until it has ended
		l.line.queue()
	}
	w.works = append(w.works, worldWork{m.Addr, m.size, l.line.at, l.line.Given(), true, l.of})
	l.ended = true
}

// busy lists the work on a stretch of memory that has not passed.
func (w *world) busy(addr uintptr, bytes int64) (list []worldWork) {
	w.works = slices.DeleteFunc(w.works, func(k worldWork) bool { return w.lines[k.line].passed >= k.ticket })
	for _, k := range w.works {
		if k.addr < addr+uintptr(bytes) && addr < k.addr+uintptr(k.bytes) {
			list = append(list, k)
		}
	}
	return list
}

func (w *world) alloc(bytes int64) (backends.Memory, error) {
	if w.r.IntN(10) == 0 {
		return backends.Memory{}, backends.ErrOutOfMemory
	}
	m := backends.Memory{Addr: w.next, Bytes: bytes}
	w.given[m.Addr] = bytes
	w.next += uintptr(bytes)
	return m, nil
}

func (w *world) free(m backends.Memory) error {
	require.Equal(w.t, w.given[m.Addr], m.Bytes, "what the device gave as such goes back to it")
	require.Empty(w.t, w.busy(m.Addr, m.Bytes), "work uses what the device gets back")
	for _, h := range w.held {
		require.False(w.t, h.m.Addr-m.Addr < uintptr(m.Bytes), "somebody has what the device gets back")
	}
	if w.r.IntN(10) == 0 {
		return errors.New("refused")
	}
	delete(w.given, m.Addr)
	return nil
}

// take takes memory for a stream or the host, and checks that it is nobody else's.
func (w *world) take() {
	bytes := w.sizes[w.r.IntN(len(w.sizes))] + w.r.Int64N(3)
	var line *Line
	if at := w.r.IntN(len(w.lines) + 2); at < len(w.lines) {
		line = w.lines[at].line
	}
	h := &worldMemory{users: 1, account: w.r.IntN(2) == 0}
	var account *Account
	if h.account {
		account = &w.a
	}
	before := w.p.Stats()
	var err error
	var fresh, idle bool
	switch w.r.IntN(4) {
	case 0:
		h.m, err = w.p.Fresh(bytes, account)
		fresh, idle = true, true
	case 1:
		h.m, fresh, err = w.p.AtHand(bytes, account)
		idle = true
	default:
		h.m, fresh, err = w.p.Take(line, bytes, account)
		idle = line == nil
	}
	if err != nil {
		if status.CodeOf(err) != status.OutOfMemory {
			require.ErrorIs(w.t, err, status.ErrBusy)
		}
		require.Equal(w.t, before.InUse, w.p.Stats().InUse)
		return
	}
	require.Equal(w.t, bytes, h.m.Bytes)
	require.LessOrEqual(w.t, bytes, h.m.size)
	for _, o := range w.held {
		require.False(w.t, h.m.Addr < o.m.Addr+uintptr(o.m.size) && o.m.Addr < h.m.Addr+uintptr(h.m.size), "memory of two owners")
	}
	if idle {
		require.Empty(w.t, w.busy(h.m.Addr, h.m.size), "work uses what the host is to touch")
	}
	for at := h.m.Addr; at < h.m.Addr+uintptr(h.m.size); at += max(minBlock, uintptr(h.m.size)/64) {
		require.False(w.t, fresh && w.seen[at], "what was in use is said to be zero")
		w.seen[at] = true
	}
	w.held = append(w.held, h)
}

// work queues work on memory, and checks that it comes behind what it has to.
func (w *world) work(h *worldMemory) {
	s, writes := w.lines[w.r.IntN(len(w.lines))], w.r.IntN(2) == 0
	lent := h.lent()
	claimed := h.m.Claimed(s.line)
	busy := slices.DeleteFunc(w.busy(h.m.Addr, h.m.size), func(k worldWork) bool { return k.line == s.at })
	for _, k := range busy {
		require.False(w.t, claimed && s.clock[k.line] < k.ticket, "%+v is not seen", k)
	}
	require.True(w.t, claimed || len(busy) > 0, "nobody else has queued anything")
	require.Equal(w.t, lent && h.loan.line == s, h.lent())
	w.fails = w.r.IntN(8) == 0
	err := h.m.Before(s.line, writes)
	if w.fails = false; err != nil {
		require.ErrorIs(w.t, err, errAwait)
		return
	}
	for _, k := range busy {
		if writes || k.writes || k.owner != h {
			require.LessOrEqual(w.t, k.ticket, s.clock[k.line], "work does not wait for %+v", k)
		}
	}
	ticket := s.queue()
	h.m.After(s.line, ticket, writes)
	w.works = append(w.works, worldWork{h.m.Addr, h.m.size, s.at, ticket, writes, h})
}

// lent reports whether others use the memory without saying so.
func (h *worldMemory) lent() bool { return h.loan != nil && !h.loan.ended }

// lend lends memory to a stream, and queues work there of which the memory hears nothing.
func (w *world) lend(h *worldMemory) {
	s, before := w.lines[w.r.IntN(len(w.lines))], h.loan
	busy := slices.DeleteFunc(w.busy(h.m.Addr, h.m.size), func(k worldWork) bool { return k.line == s.at })
	loan := h.m.Lend(s.line, func() Loan {
		h.loan = &worldLoan{line: s, of: h}
		return h.loan
	})
	if loan == nil {
		return
	}
	for _, k := range busy {
		require.LessOrEqual(w.t, k.ticket, s.clock[k.line], "lent while %+v may use it", k)
	}
	require.Equal(w.t, Loan(h.loan), loan)
	require.True(w.t, h.lent() && h.loan.line == s)
	require.True(w.t, h.loan == before || before == nil || before.ended, "lent twice")
	for range w.r.IntN(3) {
		w.works = append(w.works, worldWork{h.m.Addr, h.m.size, s.at, s.queue(), true, h})
	}
}

// release takes a user away from a random one of what is held.
func (w *world) release() {
	at := w.r.IntN(len(w.held))
	h := w.held[at]
	if h.users--; h.users == 0 {
		w.held = slices.Delete(w.held, at, at+1)
	}
	h.m.Release()
	require.False(w.t, h.users == 0 && h.lent(), "lent by nobody")
}

// check counts what there is.
func (w *world) check() {
	var inUse, account, reserved, cached int64
	for _, h := range w.held {
		inUse += h.m.size
		if h.account {
			account += h.m.size
		}
	}
	for _, bytes := range w.given {
		reserved += bytes
	}
	places := map[uintptr]bool{}
	for _, h := range w.held {
		places[h.m.Addr] = true
	}
	for _, list := range w.p.cache {
		for _, m := range list {
			require.False(w.t, places[m.Addr], "a block is in two places")
			places[m.Addr] = true
			cached += m.size
		}
	}
	s := w.p.Stats()
	require.Equal(w.t, Stats{InUse: inUse, Cached: cached, Reserved: reserved, Peak: s.Peak, Limit: s.Limit,
		Allocations: s.Allocations, Reused: s.Reused}, s)
	require.Equal(w.t, reserved, inUse+cached+w.p.slab.Bytes)
	used, _ := w.p.Account(&w.a)
	require.Equal(w.t, account, used)
	require.True(w.t, s.Limit == 0 || s.Reserved <= s.Limit)
}

// TestRandomUseOfAPool has streams and the host take memory, queue work on it and
// give it back: nobody gets what somebody else has, all work waits for what it has
// to, and nothing is lost.
func TestRandomUseOfAPool(t *testing.T) {
	for seed := range uint64(brief.Or(48, 12)) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), next: 1 << 40, given: map[uintptr]int64{}, seen: map[uintptr]bool{}}
		w.p = NewPool(Allocator{Alloc: w.alloc, Free: w.free}, 0)
		w.p.patience = 0
		for i := range 3 {
			s := &worldLine{w: w, at: i, clock: make([]backends.Ticket, 3)}
			s.line = &Line{Stream: s}
			w.lines = append(w.lines, s)
		}
		for range 1 + seed%3 {
			sizes := []int64{1, 65, 400, 5000, 1 << 19, largeBlock - 1, largeBlock, 3 << 20, 9 << 20}
			w.sizes = append(w.sizes, sizes[w.r.IntN(len(sizes))])
		}
		most := 10 + w.r.IntN(60)
		for i := range 600 {
			switch k := w.r.IntN(20); {
			case k < 8 && i/75%2 == 0 && len(w.held) < most || k == 0: // more and more, then less and less
				w.take()
			case k < 8 && len(w.held) > 0:
				w.release()
			case k < 13 && len(w.held) > 0:
				w.work(w.held[w.r.IntN(len(w.held))])
			case k == 13 && len(w.held) > 0 && w.r.IntN(2) == 0:
				w.lend(w.held[w.r.IntN(len(w.held))])
			case k == 13 && len(w.held) > 0:
				h := w.held[w.r.IntN(len(w.held))]
				require.True(t, h.m.Acquire())
				h.users++
			case k < 15:
				w.scratch()
			case k < 16 && w.r.IntN(4) == 0:
				before := w.p.Stats().Reserved
				require.Equal(t, before-w.p.Trim(), w.p.Stats().Reserved)
			case k < 17 && w.r.IntN(4) == 0:
				limit := []int64{0, w.p.Stats().Reserved, w.p.Stats().Reserved + 6<<20}[w.r.IntN(3)]
				require.NoError(t, w.p.SetLimit(limit), fmt.Sprint(limit))
			case i/75%4 == 0 || seed%2 == 0: // else streams are behind
				for range 1 + w.r.IntN(4) {
					w.lines[w.r.IntN(len(w.lines))].step(w.lines)
				}
			}
			w.check()
		}
	}
}

// scratch lends a block for work on a stream, which may not come about.
func (w *world) scratch() {
	s := w.lines[w.r.IntN(len(w.lines))]
	w.fails = w.r.IntN(4) == 0
	lent, err := w.p.Scratch(s.line, w.sizes[0], w.r.IntN(2) == 0)
	if w.fails = false; err != nil {
		if !errors.Is(err, errAwait) && status.CodeOf(err) != status.OutOfMemory {
			require.ErrorIs(w.t, err, status.ErrBusy)
		}
		return
	}
	m := lent.m
	for _, h := range w.held {
		require.False(w.t, m.Addr < h.m.Addr+uintptr(h.m.size) && h.m.Addr < m.Addr+uintptr(m.size), "memory of two owners")
	}
	for at := m.Addr; at < m.Addr+uintptr(m.size); at += max(minBlock, uintptr(m.size)/64) {
		w.seen[at] = true
	}
	for _, k := range w.busy(m.Addr, m.size) {
		require.True(w.t, k.line == s.at || k.ticket <= s.clock[k.line], "work does not wait for %+v", k)
	}
	if w.r.IntN(3) > 0 {
		ticket := s.queue()
		lent.After(s.line, ticket)
		w.works = append(w.works, worldWork{m.Addr, m.size, s.at, ticket, true, &worldMemory{}})
	}
	lent.Return()
}
