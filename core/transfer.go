package core

import (
	"errors"
	"runtime"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// copyPiece is how many bytes are copied at a time: a copy of more is long
// work, which can be cancelled between two pieces.
const copyPiece = 64 << 20

// directBytes is how many bytes are worth the question whether memory is pinned, and
// a wait for all that was queued before.
const directBytes = 1 << 20

// transfer copies between a buffer and the host. A device that works by itself
// copies to and from memory of ours that it reaches: the caller's memory is
// touched only while the caller waits. Cancelled it ends between two pieces; once
// the last is queued the caller's memory is touched only by Outcome, and so not
// at all. Memory that somebody has pinned the device reaches itself: it has it while
// the caller waits, from when all that was queued before is done, so that the caller
// can give up within a piece or two.
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
	before *Event         // work on another stream that it waits for; may be nil
	keep   *memory.Memory // what host is in, if it is ours

	last   *memory.Memory // the piece that the device still copies to the host
	where  int64          // that it starts at
	queued bool
	gathered
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
	if c.direct && t.Async && !t.Capturing {
		return c.straight(t)
	}
	var ticket backends.Ticket
	for at := int64(0); ; {
		if c.gone.Load() {
			return 0, c.cancelled(at)
		}
		n := min(copyPiece, c.bytes-at)
		var err error
		if ticket, err = c.piece(t, at, n); err != nil {
			return 0, c.named(err)
		}
		if at += n; at >= c.bytes {
			break
		}
		if !t.Async {
			continue
		}
		for err = backends.ErrPending; errors.Is(err, backends.ErrPending); {
			if c.gone.Load() { // the device goes on with the piece, whose memory stays until then
				c.queued = true
				c.leave()
				return ticket, c.cancelled(at - n)
			}
			err = t.Line.Stream.Wait(ticket, queue.LookTime)
		}
		t.Track.Passed(ticket) // which nobody else waits for
		if err != nil {
			return 0, c.named(err)
		}
		c.arrived()
	}
	if c.queued = t.Async; c.queued {
		if !c.mem.IsForeign() { // who gets it next waits for the ticket
			c.mem.End()
			c.mem = nil
		}
		if !c.leave() {
			return ticket, c.cancelled(c.where)
		}
	}
	return ticket, nil
}

// straight copies between the device and the caller's own memory, one piece queued
// behind the other, and returns once the device has let go of it.
func (c *transfer) straight(t *queue.Target) (ticket backends.Ticket, err error) {
	before, err := t.Mark()
	if err != nil {
		return 0, c.named(err)
	}
	for err = backends.ErrPending; errors.Is(err, backends.ErrPending); {
		if c.gone.Load() {
			return 0, c.cancelled(0)
		}
		err = t.Line.Stream.Wait(before, queue.LookTime)
	}
	if err != nil {
		return 0, c.named(err)
	}
	t.Track.Passed(before) // which nobody else waits for
	last, at := backends.Ticket(0), int64(0) // last is of the piece before ticket's
	for at < c.bytes && !c.gone.Load() {
		n := min(copyPiece, c.bytes-at)
		var next backends.Ticket
		if next, err = c.queue(t, c.at+uintptr(at), c.host+uintptr(at), n, nil); err != nil {
			break
		}
		c.until(t, last)
		last, ticket = ticket, next
		at += n
	}
	c.until(t, ticket)
	if err == nil && at < c.bytes {
		err = c.cancelled(at)
	}
	if err != nil {
		t.Track.Passed(ticket)
		return 0, c.named(err)
	}
	t.Track.Passed(last)
	return ticket, nil
}

// until waits for a ticket, which takes no longer than some pieces do. 0 is none.
func (c *transfer) until(t *queue.Target, ticket backends.Ticket) {
	for start := time.Now(); t.Line.Stream.Passed() < ticket; {
		if time.Since(start) > queue.LookTime {
			time.Sleep(time.Millisecond)
		} else {
			runtime.Gosched()
		}
	}
}

// queue queues a piece, of which staging is the host's side, if that is ours.
func (c *transfer) queue(t *queue.Target, device, host uintptr, n int64, staging *memory.Memory) (backends.Ticket, error) {
	t.Order.Lock()
	defer t.Order.Unlock()
	if err := c.mem.Before(t.Line, !c.toHost); err != nil {
		return 0, err
	}
	dst, src := host, device
	if !c.toHost {
		dst, src = device, host
	}
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

// piece copies n bytes from byte at on, or queues that.
func (c *transfer) piece(t *queue.Target, at, n int64) (backends.Ticket, error) {
	device, host := c.at+uintptr(at), c.host+uintptr(at)
	if !t.Async {
		if c.toHost {
			return t.Copy(c.what(), host, device, n)
		}
		return t.Copy(c.what(), device, host, n)
	}
	staging, _, err := c.ex.device.host.Take(nil, max(1, n), nil)
	if err != nil {
		return 0, err
	}
	if !c.toHost {
		copy(hostmem.Bytes(staging.Addr, n), hostmem.Bytes(host, n))
	}
	ticket, err := c.queue(t, device, staging.Addr, n, staging)
	if err != nil {
		staging.Release()
		return 0, err
	}
	if c.toHost {
		c.last, c.where = staging, at
	} else {
		staging.Release()
	}
	return ticket, nil
}

// arrived hands the caller what the device has copied.
func (c *transfer) arrived() {
	if c.last != nil {
		copy(hostmem.Bytes(c.host+uintptr(c.where), min(c.last.Bytes, c.bytes-c.where)), hostmem.Bytes(c.last.Addr, min(c.last.Bytes, c.bytes-c.where)))
		c.last.Release()
		c.last = nil
	}
}

func (c *transfer) Outcome(err error) error {
	if err != nil {
		return c.named(err)
	}
	if c.queued && !c.take() {
		return nil // nobody waits any more
	}
	c.arrived()
	if c.toHost && !c.quiet {
		return c.gathered.errors(c.ex)
	}
	return nil
}

func (c *transfer) Release() {
	c.letGo()
	if c.last != nil {
		c.last.Release()
		c.last = nil
	}
	if c.keep != nil {
		c.keep.Release()
	}
	if c.mem != nil {
		c.mem.End()
	}
}
