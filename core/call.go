package core

import (
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Operand is an array of a call: a buffer, or memory of others as View has it.
type Operand struct {
	Buffer *Buffer
	// View is memory of others, in place, through any strides; Bytes need not be set.
	View           backends.View
	ReadOnly, Bool bool
	// DeviceType and DeviceID are DLPack's, of memory of others.
	DeviceType, DeviceID int32
	// Number says that View is one element of the host's memory, read before the
	// call returns, which stands for all of View's shape: its strides are 0.
	Number bool
	// Unbound stands for the boundary slot of a program: the executor's own pool.
	Unbound bool
	// Transposed says that the last two dimensions change places, if there are two.
	Transposed bool
}

// Call is a call of an operation, or a launch of a program.
type Call struct {
	Op      *Operation // nil: a launch of
	Program *Program

	Operands []Operand
	Scalars  []Scalar // an operation's numbers, a program's parameters
	// Dims are an operation's sizes: an elementwise one takes one, n, or none.
	// Of a launch they are the index space: one number counts elements of
	// contiguous slots of any shape, from the first on. Nil: none given; the
	// shape that the arrays accessed by index broadcast to, or, if there are
	// none, all lanes of the grid.
	Dims []int64
	// Grid and Block are counts in x, y, z. A zero Block is the program's own or
	// (256, 1, 1); a zero Grid covers the index space.
	Grid, Block [3]uint32
	Fuel        uint64 // steps that a lane may take; 0: no limit
	// Residue receives what RES_ACCUM adds up; it may be nil.
	Residue *[isa.NumClasses]uint64
	// First receives element 0 of the last operand, which the host sees and no later
	// work writes until the event is done, in its low bytes when the work is done
	// without an error; it may be nil.
	First *uint64
	// Stream is the stream of others that the work is for, as DLPack numbers it;
	// 0: the executor's own.
	Stream uintptr
	// Try: rather than wait, or run long, return an error of kind Busy.
	Try bool
	// Stop is asked now and then while a program is brought to its canonical form,
	// compiled or loaded for the call; an error ends the call, of which nothing has
	// then run. So do the executor's Cancel and Close.
	Stop Stop
	// Deleter is told once when nobody uses the memory of others any more,
	// whatever becomes of the call, unless that was Busy. Without one the caller
	// keeps the memory until the call is over, for which it then waits: such a call
	// cannot be captured.
	Deleter func()
	// Ordered says that the owner of the memory of others uses and frees it in the order
	// of Stream, which is given, so that nobody has to be told, nor to wait: there is no
	// Deleter.
	Ordered bool
}

// draft is a call on its way to room call, where it is prepared and bound.
type draft struct {
	request  call.Request
	operands []call.Operand

	ex      *Executor
	cancels uint64 // of the executor's when the call began
	stop    Stop   // the caller's; may be nil
	asked   Stop   // ask

	native  uintptr // the stream of others that the call is for
	allowed func() error
}

var drafts = sync.Pool{New: func() any {
	d := new(draft)
	d.asked = d.ask
	d.allowed = func() error { return d.ex.uncaptured(d.native, &d.request) }
	return d
}}

// draft returns a draft of a call that begins now.
func (ex *Executor) draft(c *Call) *draft {
	d := drafts.Get().(*draft)
	d.ex, d.stop, d.cancels = ex, c.Stop, ex.cancels.Load()
	return d
}

// ask is what room program asks while the call waits for a program.
func (d *draft) ask() error {
	if d.ex.cancels.Load() != d.cancels {
		if d.ex.gone() {
			return queue.ErrFreed
		}
		return Errorf(Cancelled, "%s: cancelled before it began", d.request.What())
	}
	if d.stop == nil {
		return nil
	}
	return d.stop()
}

// release gives a draft back.
func (d *draft) release() {
	clear(d.operands)
	d.operands = d.operands[:0]
	d.request, d.ex, d.stop = call.Request{}, nil, nil
	drafts.Put(d)
}

// Call runs an operation or launches a program. An event is given if the call
// takes long, or has to be waited for; on an asynchronous device most have none,
// and errors come with the next call that waits.
func (ex *Executor) Call(c *Call) (*Event, error) {
	if set := profile.On(); set != nil {
		return ex.profiled(set, c)
	}
	d := ex.draft(c)
	ev, err := ex.call(d, c)
	d.release()
	return ev, err
}

// profiled is Call while somebody profiles.
func (ex *Executor) profiled(set *profile.Set, c *Call) (*Event, error) {
	span := set.Begin()
	d := ex.draft(c)
	ev, err := ex.call(d, c)
	span.Stop()
	if CodeOf(err) != Busy { // else the call comes again
		r := &d.request
		span.End(profile.Event{Kind: profile.Call, Name: r.What(),
			Operands: profile.Operands(len(d.operands), func(i int) *backends.View { return &d.operands[i].View })}, err)
	}
	d.release()
	return ev, err
}

func (ex *Executor) call(d *draft, c *Call) (*Event, error) {
	var owner *owner
	if c.Deleter != nil {
		owner = newOwner(c.Deleter)
	}
	var ev *Event
	b, outcome, err := ex.bind(d, c, owner)
	if err == nil {
		ev, err = ex.submit(b, c, outcome)
	}
	if err == queue.ErrCapturing {
		err = uncaptured(d, c)
	}
	owner.end(err)
	if err != nil {
		err = ex.device.loss.Tell(err)
	}
	return ev, err
}

// uncaptured says what about a call cannot be captured.
func uncaptured(d *draft, c *Call) error {
	r := &d.request
	for i := range c.Operands {
		if o := &c.Operands[i]; o.Buffer == nil && !o.Unbound && !o.Number && c.Deleter == nil && !c.Ordered {
			return Errorf(Invalid, "%s: %s: a stream that captures keeps what it records until the graph is released, which nobody would tell the owner of this array; wrap it in a buffer",
				r.What(), r.Name(i))
		}
	}
	if c.Residue != nil {
		return Errorf(Invalid, "%s: residues are there when a launch is over, for which a stream that captures cannot wait; launch it without them, or outside the capture", r.What())
	}
	return status.Within(r.What(), queue.ErrCapturing)
}

// submit submits a call to the executor's own stream, or to that of others.
// outcome says whether the caller waits for it.
func (ex *Executor) submit(b *call.Bound, c *Call, outcome bool) (*Event, error) {
	how := queue.How{Try: c.Try, Outcome: outcome}
	busy := outcome
	if !ex.device.Info.Asynchronous {
		cost := b.Cost()
		busy = !(cost <= backends.Held)
		how.Long = !(cost <= queue.Patience)
	}
	if c.Try && busy {
		b.Release()
		return nil, status.ErrBusy
	}
	return ex.put(b, c.Stream, c.Ordered, how)
}

// put submits work to the executor's own stream, or to that of others.
func (ex *Executor) put(w named, stream uintptr, ordered bool, how queue.How) (*Event, error) {
	if stream == 0 || stream == ex.native && !ordered {
		return ex.stream.Submit(w, how)
	}
	s, err := ex.on(stream, how.Try)
	if err == nil && ex.stream.Line() == nil {
		ex.done(s)
		err = Errorf(Invalid, "%s: the executor captures, and this call is for a stream of others, which it cannot record", w.What())
	}
	if err != nil {
		w.Release()
		return nil, err
	}
	defer ex.done(s)
	return s.Submit(w, how)
}

// named is work with a name for errors.
type named interface {
	queue.Work
	What() string
}

// prepare looks up what the call is about, into d, counts work on its memory, and prepares
// it. borrows says whether that has an owner.
func (ex *Executor) prepare(d *draft, c *Call, owner *owner) (p *call.Prepared, borrows bool, err error) {
	r := &d.request
	r.Op, r.Dims, r.Grid, r.Block, r.Fuel, r.Stop = c.Op, c.Dims, c.Grid, c.Block, c.Fuel > 0, d.asked
	if c.Stream != 0 && (c.Stream != ex.native || c.Ordered) {
		d.native, r.May = c.Stream, d.allowed
	}
	table := ex.device.calls
	if c.Op == nil {
		r.Program, table = c.Program.p, c.Program.table(ex.device)
	}
	if err := r.CheckCounts(len(c.Operands), len(c.Scalars)); err != nil {
		return nil, false, err
	}
	if c.Ordered && (c.Stream == 0 || owner != nil) {
		return nil, false, Errorf(Invalid, "%s: memory of others is in the order of a stream, which must be given, and nobody is told of its end: no deleter", r.What())
	}
	for i := range c.Operands {
		d.operands = append(d.operands, call.Operand{})
		foreign, err := ex.lookUp(&d.operands[i], &c.Operands[i], r, i, owner, c)
		if err != nil {
			endAll(d.operands[:i])
			return nil, false, err
		}
		borrows = borrows || foreign
	}
	r.Operands = d.operands
	if p, err = table.Get(r, c.Try); err != nil {
		endAll(d.operands)
		return nil, false, err
	}
	return p, borrows, nil
}

// bind prepares a call and binds it. outcome says whether the caller has to wait for that.
func (ex *Executor) bind(d *draft, c *Call, owner *owner) (b *call.Bound, outcome bool, err error) {
	p, borrows, err := ex.prepare(d, c, owner)
	if err != nil {
		return nil, false, err
	}
	r := &d.request
	b, err = p.Bind(&ex.device.call, d.operands, c.Scalars, c.Try, r)
	if err != nil {
		p.Release()
		endAll(d.operands)
		return nil, false, err
	}
	if c.Fuel > 0 {
		b.SetFuel(c.Fuel)
	}
	outcome = b.SetResidue(c.Residue) || borrows && owner == nil && !c.Ordered
	if c.First != nil && !ex.device.Info.HostVisible {
		err = Errorf(Invalid, "%s: the host does not see element 0 of an array on %s; read it by buffer_read", r.What(), ex.device.Name)
	} else if first, no := b.SetFirst(c.First, d.operands); no != nil {
		err = no
	} else {
		outcome = outcome || first
	}
	if err != nil {
		b.Release()
		return nil, false, err
	}
	return b, outcome, nil
}

// endAll takes away the work that was counted on operands.
func endAll(operands []call.Operand) {
	for i := range operands {
		if m := operands[i].Mem; m != nil {
			m.End()
		}
	}
}

// lookUp finds what operand i of a call is, and counts work on its memory. It
// reports whether that is borrowed.
func (ex *Executor) lookUp(to *call.Operand, o *Operand, r *call.Request, i int, owner *owner, c *Call) (borrowed bool, err error) {
	switch b := o.Buffer; {
	case b != nil:
		if !b.begin() {
			return false, Errorf(BadHandle, "%s: %s: the buffer is freed", r.What(), r.Name(i))
		}
		if b.ex.device != ex.device {
			b.mem.End()
			return false, Errorf(Invalid, "%s: %s: the buffer is on %s, the executor on %s", r.What(), r.Name(i), b.ex.device.Name, ex.device.Name)
		}
		b.layout(&to.View)
		if to.Packed = b.packed; o.Transposed {
			transpose(&to.View)
			to.Packed = call.Contiguous(&to.View)
		}
		to.ReadOnly, to.Bool, to.Mem = b.readOnly, o.Bool, b.mem
		return false, nil
	case o.Unbound:
		if r.Op != nil || i != r.Program.Boundary {
			return false, Errorf(Invalid, "%s: %s%s is not bound", r.What(), r.Name(i), typeText(r, i))
		}
		pool, err := ex.boundaryPool(c.Try)
		if err == status.ErrBusy {
			return false, err
		} else if err != nil {
			return false, status.Within(r.What(), err)
		}
		v := backends.View{Addr: pool.Addr, Type: isa.U8, Rank: 1, Bytes: isa.BoundaryBytes}
		v.Shape[0], v.Stride[0] = isa.BoundaryBytes, 1
		to.View, to.Packed, to.Mem = v, true, pool
		return false, nil
	case o.Number:
		return false, takeNumber(to, o, r, i)
	}
	return true, ex.borrow(to, o, r, i, owner, c.Ordered)
}

// transpose swaps the last two dimensions of a view.
func transpose(v *backends.View) {
	if n := v.Rank; n >= 2 {
		v.Shape[n-2], v.Shape[n-1] = v.Shape[n-1], v.Shape[n-2]
		v.Stride[n-2], v.Stride[n-1] = v.Stride[n-1], v.Stride[n-2]
	}
}

func typeText(r *call.Request, i int) string {
	if r.Op != nil {
		return ""
	}
	return " (" + r.Program.Source().Slots[i].Type.String() + ")"
}

// Op is Call with an operation, by its name, and buffers.
func (ex *Executor) Op(name string, operands []*Buffer, scalars []Scalar, dims []int64) (*Event, error) {
	op, ok := kernels.Lookup(name)
	if !ok {
		return nil, Errorf(Invalid, "no operation is called %q", name)
	}
	c := &Call{Op: op, Scalars: scalars, Dims: dims}
	for _, b := range operands {
		c.Operands = append(c.Operands, Operand{Buffer: b})
	}
	return ex.Call(c)
}

// OperandName names operand i of an operation in errors.
func OperandName(op *Operation, i int) string { return (&call.Request{Op: op}).Name(i) }
