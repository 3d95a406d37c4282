package core

import (
	"errors"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// copyPiece is how many bytes are copied at a time: a copy of more is long
// work, which can be cancelled between two pieces.
const copyPiece = 64 << 20

// transfer copies between a buffer and the host. A device that works by itself
// copies to and from memory of ours that it reaches: the caller's memory is
// touched only while the caller waits. Cancelled it ends between two pieces; once
// the last is queued the caller's memory is touched only by Outcome, and so not
// at all.
type transfer struct {
	caller
	ex     *Executor
	mem    *memory.Memory // the buffer's, counted as work
	at     uintptr        // in it
	host   uintptr        // the caller's memory
	bytes  int64
	toHost bool
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
	t.Order.Lock()
	defer t.Order.Unlock()
	if err := c.mem.Before(t.Line, !c.toHost); err != nil {
		staging.Release()
		return 0, err
	}
	dst, src := staging.Addr, device
	if !c.toHost {
		dst, src = device, staging.Addr
	}
	ticket, err := t.Copy(c.what(), dst, src, n)
	if err != nil {
		staging.Release()
		return 0, err
	}
	c.mem.After(t.Line, ticket, !c.toHost)
	staging.After(t.Line, ticket, c.toHost)
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
