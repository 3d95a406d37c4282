package memory

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
)

// Scratch is a block that is held for one call, or for all that is made of one that is
// published: memory without a count.
type Scratch struct{ m *Memory }

// Scratch takes a block of at least the given size, for work on l, whose turn the
// caller has: where there is no other, l waits for what uses the block. With try
// it neither asks the device nor waits, but returns status.ErrBusy.
func (p *Pool) Scratch(l *Line, bytes int64, try bool) (Scratch, error) {
	m, err := p.take(request{line: l, size: classSize(bytes), try: try})
	if err != nil {
		return Scratch{}, err
	}
	if l != nil {
		if err := l.awaitAll(m.uses); err != nil {
			p.give(m)
			return Scratch{}, status.FromBackend("allocate", err)
		}
	}
	// The earlier uses stay: the work that is borrowed for may not come about.
	return Scratch{m}, nil
}

// Lasting is Scratch for all work on l until the block is returned, by who does not have
// its turn: what others than l still use is not taken, nor is the device asked.
func (p *Pool) Lasting(l *Line, bytes int64) (Scratch, error) {
	m, err := p.take(request{line: l, size: classSize(bytes), try: true})
	if err != nil {
		return Scratch{}, err
	}
	if !m.Claimed(l) {
		p.give(m)
		return Scratch{}, status.ErrBusy
	}
	return Scratch{m}, nil
}

// Held reports whether there is a block.
func (s *Scratch) Held() bool { return s.m != nil }

// Addr is where the block is.
func (s *Scratch) Addr() uintptr { return s.m.Addr }

// After notes work on the block. It may be returned before the work has passed.
func (s *Scratch) After(l *Line, t backends.Ticket) {
	s.m.uses = append(s.m.uses[:0], use{l, t})
}

// Return gives the block back, if there is one.
func (s *Scratch) Return() {
	if s.m != nil {
		s.m.pool.give(s.m)
		s.m = nil
	}
}
