package core

import (
	"errors"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// copyPiece is how many bytes a device that works while called copies at a time: a
// copy of more is long work, which can be cancelled between two pieces.
const copyPiece = 64 << 20

// transfer copies between a buffer and the host. A device that works by itself
// copies to and from the host's memory if that is locked; then the caller's memory
// is touched until the copy is over. Else it copies to and from memory of ours (see
// staging.go): the caller's memory is touched only while the caller waits. Cancelled it
// ends between two pieces; once the last is queued the caller's memory is touched only by
// Outcome, and so not at all.
type transfer struct {
	caller
	ex     *Executor
	mem    *memory.Memory // the buffer's, counted as work
	at     uintptr        // in it
	host   uintptr        // the caller's memory
	bytes  int64
	toHost bool
	direct bool           // the device reaches the caller's memory
	quiet  bool           // leave errors of earlier work to others
	on     queue.Stream   // of others, or made beside the executor's own; nil: that one
	before *Event         // work on another stream that it waits for; may be nil
	keep   *memory.Memory // what host is in, if it is ours
	owner  func()         // told once that the caller's memory is no longer used; may be nil

	line   *memory.Line // of the pieces
	pieces []staged     // under way, in order; or, of a copy to the device, that nobody has looked at
	queued bool
	failed bool // the caller was told; nothing of his is touched any more
	gathered
}

// long reports whether the copy is not for its caller's thread.
func (c *transfer) long() bool {
	switch {
	case !c.ex.device.Info.Asynchronous:
		return c.bytes > copyPiece
	case c.direct:
		return false
	case c.toHost: // of whose pieces all but the last are waited for
		return c.bytes > 2*stagePiece
	}
	return c.bytes > stageCount*stagePiece
}

func (c *transfer) Run(t *queue.Target) (backends.Ticket, error) {
	if !c.take() {
		return 0, c.cancelled(0)
	}
	if c.before != nil {
		if err := queue.Await(c.before, c.gone.Load); err != nil {
			return 0, err
		}
	}
	switch {
	case !t.Async:
		return c.inline(t)
	case c.direct:
		return c.whole(t)
	}
	return c.staged(t)
}

// inline copies piece by piece.
func (c *transfer) inline(t *queue.Target) (backends.Ticket, error) {
	for at := int64(0); ; {
		if c.gone.Load() {
			return 0, c.cancelled(at)
		}
		n := min(copyPiece, c.bytes-at)
		dst, src := c.ends(c.host+uintptr(at), at)
		if _, err := t.Copy(c.what(), dst, src, n); err != nil {
			return 0, c.named(err)
		}
		if at += n; at >= c.bytes {
			return 0, nil
		}
	}
}

// ends is where to and from where the copy goes, between host and byte at of the buffer.
func (c *transfer) ends(host uintptr, at int64) (dst, src uintptr) {
	if device := c.at + uintptr(at); !c.toHost {
		return device, host
	} else {
		return host, device
	}
}

// whole queues the copy as it is.
func (c *transfer) whole(t *queue.Target) (backends.Ticket, error) {
	ticket, err := c.give(t, c.host, 0, c.bytes, nil)
	if err != nil {
		return 0, c.named(err)
	}
	c.done()
	return ticket, nil
}

// give queues the copy of n bytes between host, which may be staging's, and byte at of the
// buffer.
func (c *transfer) give(t *queue.Target, host uintptr, at, n int64, staging *memory.Memory) (backends.Ticket, error) {
	t.Order.Lock()
	defer t.Order.Unlock()
	if err := c.mem.Before(t.Line, !c.toHost); err != nil {
		return 0, err
	}
	dst, src := c.ends(host, at)
	ticket, err := t.Copy(c.what(), dst, src, n)
	if err != nil {
		return 0, err
	}
	c.mem.After(t.Line, ticket, !c.toHost)
	if staging != nil {
		staging.After(t.Line, ticket, c.toHost)
	}
	return ticket, nil
}

// done says that all is queued: who gets the buffer's memory next waits for the ticket.
func (c *transfer) done() {
	c.queued = true
	if !c.mem.IsForeign() {
		c.mem.End()
		c.mem = nil
	}
}

// staged copies by way of memory of ours. A copy that is not long waits for nothing.
func (c *transfer) staged(t *queue.Target) (ticket backends.Ticket, err error) {
	c.line = t.Line
	defer func() { c.failed = err != nil }()
	for at := int64(0); at < c.bytes || at == 0; {
		if c.gone.Load() {
			return c.stop(ticket)
		}
		n := min(stagePiece, c.bytes-at)
		staging, _, none := c.ex.device.host.Take(nil, max(1, n), nil)
		if none != nil {
			return ticket, none
		}
		if !c.toHost {
			copyHost(staging.Addr, c.host+uintptr(at), n)
		}
		given, err := c.give(t, staging.Addr, at, n, staging)
		if err != nil {
			staging.Release()
			return ticket, c.named(err)
		}
		ticket = given
		if !c.toHost {
			staging.Release() // to who gets it next, the ticket is known
			staging = nil
		}
		c.pieces = append(c.pieces, staged{staging, at, n, ticket})
		if at += n; at >= c.bytes {
			break
		}
		t.Line.Stream.Passed() // asked for now, so that the device tells of this piece before it does the next
		if len(c.pieces) == stageCount {
			if stopped, err := c.first(t); err != nil {
				return ticket, c.named(err)
			} else if stopped {
				return c.stop(ticket)
			}
		}
	}
	for c.toHost && c.long() && len(c.pieces) > 1 {
		if stopped, err := c.first(t); err != nil {
			return ticket, c.named(err)
		} else if stopped {
			return c.stop(ticket)
		}
	}
	c.done()
	if !c.leave() {
		return ticket, c.cancelled(c.pieces[0].at)
	}
	return ticket, nil
}

// stop ends a copy that was cancelled, of which the device goes on with what it has.
func (c *transfer) stop(ticket backends.Ticket) (backends.Ticket, error) {
	if len(c.pieces) == 0 {
		return ticket, c.cancelled(0)
	}
	c.queued = true
	c.leave()
	return ticket, c.cancelled(c.pieces[0].at)
}

// first waits for the first piece that is under way, unless somebody cancels the copy.
func (c *transfer) first(t *queue.Target) (stopped bool, err error) {
	p := c.pieces[0]
	for err = backends.ErrPending; errors.Is(err, backends.ErrPending); {
		if c.gone.Load() {
			return true, nil
		}
		err = t.Line.Stream.Wait(p.ticket, queue.LookTime)
	}
	t.Track.Passed(p.ticket) // which nobody else waits for
	if err != nil {
		return false, err
	}
	c.arrived(p)
	c.pieces = append(c.pieces[:0], c.pieces[1:]...)
	return false, nil
}

// arrived hands the caller what the device has copied, and lets go of the piece.
func (c *transfer) arrived(p staged) {
	if p.memory != nil {
		copyHost(c.host+uintptr(p.at), p.memory.Addr, p.n)
		p.memory.Release()
	}
}

// ended looks how the pieces went that nobody waited for, all but the last.
func (c *transfer) ended() error {
	for i := 0; i < len(c.pieces)-1; i++ {
		if err := c.line.Stream.Wait(c.pieces[i].ticket, 0); err != nil {
			return err
		}
	}
	return nil
}

func (c *transfer) cancelled(at int64) error {
	return Errorf(Cancelled, "copy of %s: cancelled after %s", status.Size(c.bytes), status.Size(at))
}

func (c *transfer) named(err error) error {
	return status.FromBackend("copy of "+status.Size(c.bytes), err)
}

// what names the copy for profiles.
func (c *transfer) what() string {
	if c.toHost {
		return "copy to host"
	}
	return "copy from host"
}

func (c *transfer) Outcome(err error) error {
	if err == nil && !c.failed {
		err = c.ended()
	}
	if err != nil {
		return c.named(err)
	}
	if c.failed {
		return nil
	}
	if c.queued && !c.direct && !c.take() {
		return nil // nobody waits any more
	}
	for _, p := range c.pieces {
		c.arrived(p)
	}
	c.pieces = nil
	switch {
	case !c.toHost || c.quiet:
		return nil
	case c.on != nil: // who looks at one of these does not look at all
		return status.Join(c.on.Errors(), c.ex.stream.Errors())
	}
	return c.gathered.errors(c.ex)
}

func (c *transfer) Release() {
	c.letGo()
	for _, p := range c.pieces {
		if p.memory != nil {
			p.memory.Release()
		}
	}
	if c.keep != nil {
		c.keep.Release()
	}
	if c.mem != nil {
		c.mem.End()
	}
	if c.owner != nil {
		c.owner()
	}
}
