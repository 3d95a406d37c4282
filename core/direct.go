package core

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
)

// Direct is a call that others run by themselves, in the turn of the executor's stream,
// and DirectStep a launch of it.
type (
	Direct     = call.Direct
	DirectStep = call.DirectStep
	// Retire ends what was published.
	Retire = call.Retire
)

// Loan is of a buffer's memory, to those who make Direct calls.
type Loan = memory.Loan

// OwnFrame is whose address a frame gets that gets its own; others that are less than 0
// are the workspace's.
const OwnFrame = backends.OwnFrame

// FrameAlign is what the addresses of a Direct's frames are multiples of.
const FrameAlign = backends.FrameAlign

// What a Gate's word says.
const (
	GateOpen   = queue.GateOpen
	GateTaken  = queue.GateTaken
	GateShut   = queue.GateShut
	GateWanted = queue.GateWanted
)

// Gate lets others take the turn of the executor's own stream, 0, or of one of others, on
// which there was a call, by a word, in memory that does not move, which is GateShut and
// from now on the executor's; from Close on it stays so. It reports whether calls on the
// stream can be Direct.
func (ex *Executor) Gate(stream uintptr, word *uint32) bool {
	if ex.device.Info.Enters == nil {
		return false
	}
	s, done, err := ex.gated(stream)
	if err != nil {
		return false
	}
	defer done()
	return s.Gate(word)
}

// Lend lends a buffer's memory to who makes Direct calls on a stream, until begin's Loan
// ends; nil: not now or, if never, ever.
func (ex *Executor) Lend(stream uintptr, b *Buffer, begin func() Loan) (loan Loan, never bool) {
	s, done, err := ex.gated(stream)
	if err != nil {
		return nil, false
	}
	defer done()
	if b.ex.device != ex.device || !b.begin() {
		return nil, false
	}
	defer b.mem.End()
	ex.device.order.Lock()
	defer ex.device.order.Unlock()
	return b.mem.Lend(s.Target().Line, begin), b.mem.IsForeign()
}

// gated returns a stream for who is about to do with it what Direct calls need, until
// done. On a device that works by itself these use memory of others in the order of their
// stream, or of buffers that is lent: other uses would have to be noted.
func (ex *Executor) gated(stream uintptr) (s queue.Stream, done func(), err error) {
	if stream == 0 {
		return ex.stream, func() {}, nil
	}
	if !ex.device.Info.Asynchronous {
		return nil, nil, Errorf(Unavailable, "calls on this stream are not direct")
	}
	f, err := ex.on(stream, true)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { ex.done(f) }, nil
}

// Direct publishes a call, which was made before and would be made again like that, as
// code that others may enter in the turn of its stream or, without steps, as one that
// they need not ask for. What publish returns ends that, unless it is forgotten before.
func (ex *Executor) Direct(c *Call, publish func(*Direct) Retire) {
	s, done, err := ex.gated(c.Stream)
	if err != nil {
		return
	}
	defer done()
	d := ex.draft(c)
	defer d.release()
	try := *c
	try.Try = true
	b, _, err := ex.bind(d, &try, nil)
	if err != nil {
		return
	}
	defer b.Release()
	enters := c.Deleter == nil && c.Residue == nil && c.Fuel == 0 && c.Ordered == (c.Stream != 0)
	if ex.device.Info.Asynchronous && (c.First != nil || b.Borrows()) { // for which somebody has to wait
		enters = false
	}
	b.Direct(s.Target().Line, enters, func(queued func(*memory.Line) (backends.Ticket, error)) error {
		_, err := s.Submit(inTurn(queued), queue.How{Try: true, Outcome: true})
		return err
	}, publish)
}

// inTurn is work that holds nothing.
type inTurn func(*memory.Line) (backends.Ticket, error)

func (f inTurn) Run(t *queue.Target) (backends.Ticket, error) { return f(t.Line) }
func (inTurn) Outcome(err error) error                        { return err }
func (inTurn) Cancel() bool                                   { return false }
func (inTurn) Release()                                       {}

// WatchProfiles has f told whether anybody profiles from now on, and so wants to be told
// of all calls. It is for the start of the process.
func WatchProfiles(f func(profiled bool)) { profile.Watch = f }
