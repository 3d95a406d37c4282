package core

import (
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
)

// LaunchBatch launches a program n times, together if the device can: next puts the
// operands of each launch, in turn, into c, whose memory of others is Ordered. It is all or
// nothing: done is false if they are to be launched one by one, as where one uses what
// another writes. Like a call with Try, which c is, it waits for nothing: what is missing,
// ErrBusy says, PrepareBatch makes.
func (ex *Executor) LaunchBatch(c *Call, n int, next func(i int) error) (done bool, err error) {
	b, fits, err := ex.batch(c, n, next)
	if err != nil || !fits {
		return false, ex.device.loss.Tell(err)
	}
	_, err = ex.put(b, c.Stream, c.Ordered, queue.How{Try: true})
	return err == nil, ex.device.loss.Tell(err)
}

// PrepareBatch makes what LaunchBatch needs, and launches nothing. It may take long; c's Stop
// is asked meanwhile.
func (ex *Executor) PrepareBatch(c *Call, n int, next func(i int) error) error {
	b, fits, err := ex.batch(c, n, next)
	if fits && err == nil {
		b.Release()
	}
	return ex.device.loss.Tell(err)
}

// batch binds launches as one piece of work, if they can be that.
func (ex *Executor) batch(c *Call, n int, next func(i int) error) (all *call.Batch, fits bool, err error) {
	if !ex.device.Info.Asynchronous || !c.Ordered || c.Program == nil || c.Fuel > 0 || c.Residue != nil || c.First != nil || profile.On() != nil {
		return nil, false, nil
	}
	all = call.NewBatch(n)
	defer func() {
		if !fits || err != nil {
			all.Release()
			all = nil
		}
	}()
	d := drafts.Get().(*draft)
	defer func() { d.release() }()
	for i := range n {
		if err := next(i); err != nil {
			return all, false, err
		}
		clear(d.operands)
		d.operands = d.operands[:0]
		b, _, err := ex.bind(d, c, nil)
		if err != nil {
			return all, false, err
		}
		if !all.Add(b, d.operands) {
			b.Release()
			return all, false, nil
		}
	}
	if !all.Independent() {
		return all, false, nil
	}
	if err := all.Specialize(c.Try, &d.request); err != nil {
		return all, false, status.FromBackend(d.request.What(), err)
	}
	return all, true, nil
}
