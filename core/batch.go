package core

import (
	"slices"

	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// mostBatched bounds the launches of a batch: each may go alone, as large ones do, and a device
// blocks behind 1,024, of which as many again may be there already (see queue.MaxFlight).
const mostBatched = 512

// LaunchBatch launches a program n times, together if the device can: next puts the
// operands of each launch, in turn, into c, whose memory of others is Ordered. It is all or
// nothing: done is false if they are to be launched one by one, as where one uses what
// another writes, or where they are more than 512. With an error done is true if the device failed behind some. Like a call
// with Try, which c is, it waits for nothing: what is missing, ErrBusy says, PrepareBatch makes.
func (ex *Executor) LaunchBatch(c *Call, n int, next func(i int) error) (done bool, err error) {
	queued := new(bool)
	b, err := ex.batch(c, n, next, queued)
	if b != nil {
		_, err = ex.put(b, c.Stream, c.Ordered, queue.How{Try: true})
	}
	return *queued, ex.device.loss.Tell(err)
}

// PrepareBatch makes what LaunchBatch needs, the queue for c's stream too, and launches
// nothing. It may take long; c's Stop is asked meanwhile.
func (ex *Executor) PrepareBatch(c *Call, n int, next func(i int) error) error {
	b, err := ex.batch(c, n, next, new(bool))
	if b != nil {
		b.Release()
		var s *foreignStream
		if s, err = ex.on(c.Stream, false); err == nil {
			ex.done(s)
		}
	}
	return ex.device.loss.Tell(err)
}

// batch makes launches one piece of work; nil, if they cannot be that.
func (ex *Executor) batch(c *Call, n int, next func(i int) error, queued *bool) (all *call.Batch, err error) {
	if n > mostBatched || !ex.device.Info.Batches || !c.Ordered || c.Program == nil || c.Fuel > 0 || c.Residue != nil || c.First != nil || profile.On() != nil {
		return nil, nil
	}
	b := call.NewBatch(c.Try, queued)
	defer func() {
		if all == nil {
			b.Release()
		}
	}()
	d := ex.draft(c)
	defer d.release()
	for i := range n {
		if err := next(i); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(c.Operands, func(o Operand) bool { return o.Buffer != nil || o.Unbound || o.Number }) {
			return nil, nil
		}
		clear(d.operands)
		d.operands = d.operands[:0]
		p, _, err := ex.prepare(d, c, nil)
		if err != nil {
			return nil, err
		}
		if fits, err := b.Add(p, d.operands, c.Scalars); !fits {
			p.Release()
			endAll(d.operands)
			return nil, err
		}
	}
	if !b.Independent() {
		return nil, nil
	}
	if !c.Try {
		if err := d.ask(); err != nil {
			return nil, err
		}
	}
	if err := b.Specialize(&d.request); err != nil {
		return nil, status.FromBackend(d.request.What(), err)
	}
	return b, nil
}
