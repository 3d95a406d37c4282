package call

import (
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
)

// telling reports whether somebody is told of the call, or it may take so long that it is
// worth cancelling. within is what the device lets others enter.
func (p *Prepared) telling(within *backends.EnterBounds) bool {
	return !p.async || p.phase || p.residue || p.varies || within == nil || p.cost > within.Nanoseconds
}

// Quiet is queue.Quiet's: what the device queues of the call neither faults, as its sizes
// show, nor takes long, and uses memory of pools alone, or what its owner orders.
func (b *Bound) Quiet() bool {
	b.quiet = !b.p.loud && b.first == nil && b.residue == nil && profile.On() == nil && !b.Borrows()
	return b.quiet
}

// Borrows reports whether the call uses memory whose owner is told when that is over.
func (b *Bound) Borrows() bool {
	return slices.ContainsFunc(b.mems, func(m *memory.Memory) bool { return m != nil && m.IsForeign() })
}

// launchQuietly queues a launch without its Record, which another call may have when the
// device comes to it.
func launchQuietly(t *queue.Target, s *step, l *backends.Launch) (backends.Ticket, error) {
	record := l.Record
	defer func() { l.Record = record }() // also if the device panics: then the call is watched as others are
	l.Record = nil
	return t.Line.Stream.Launch(s.kernel.Kernel, l)
}

// Leave is queue.Quiet's. The kernels stay while the prepared call does.
func (b *Bound) Leave() queue.Released {
	p := b.p
	b.line, b.quiet = nil, false
	p.keep(b)
	return p
}

// What names the call in errors.
func (p *Prepared) What() string { return p.what }
