package core

// This file stands in for the Call that core gets; it goes with it.

import (
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
)

// Operand is an array of a call.
type Operand struct {
	Buffer               *Buffer
	View                 backends.View // of memory of others
	ReadOnly, Bool       bool
	DeviceType, DeviceID int32
	Unbound              bool
}

// Call is an operation or a launch.
type Call struct {
	Op          *Operation
	Program     *Program
	Operands    []Operand
	Scalars     []Scalar
	Dims        []int64 // nil: none given
	Grid, Block [3]uint32
	Fuel        uint64
	Residue     *[NumClasses]uint64
	Stream      uintptr
	Try         bool
	Deleter     func()
}

var errBusy = &Error{Code: Busy, Msg: "the call would have to wait"}

// Call runs it.
func (ex *Executor) Call(c *Call) (*Event, error) {
	if c.Try && ex.busy(c) {
		return nil, errBusy
	}
	buffers := make([]*Buffer, len(c.Operands))
	foreign := 0
	for i := range c.Operands {
		if o := &c.Operands[i]; o.Buffer == nil && !o.Unbound {
			foreign++
		}
	}
	var users *atomic.Int32
	var drop func()
	if foreign > 0 {
		users = new(atomic.Int32)
		users.Store(1)
		deleter := c.Deleter
		drop = func() {
			if users.Add(-1) == 0 && deleter != nil {
				deleter()
			}
		}
	}
	var made []*Buffer
	var err error
	for i := range c.Operands {
		o := &c.Operands[i]
		if buffers[i] = o.Buffer; o.Buffer != nil || o.Unbound {
			continue
		}
		name := ""
		if c.Op != nil {
			name = c.Op.Name + ": " + OperandName(c.Op, i)
		} else if slots := c.Program.Source().Slots; i < len(slots) {
			name = "launch " + quote(c.Program.Source().Name) + ": slot " + slots[i].Name
		}
		if !ex.device.Info.HostVisible || o.DeviceType != 1 {
			err = Errorf(Unavailable, "%s: the memory is not one that %s works on", name, ex.device.Name)
			break
		}
		users.Add(1)
		b, werr := ex.Wrap(o.View.Addr, o.View.Type, o.View.Shape[:o.View.Rank], o.View.Stride[:o.View.Rank], o.ReadOnly, drop)
		if werr != nil {
			users.Add(-1)
			err = within(name, werr)
			break
		}
		buffers[i] = b
		made = append(made, b)
	}
	var ev *Event
	if err == nil {
		if c.Op != nil {
			ev, err = ex.Run(c.Op, buffers, c.Scalars, c.Dims)
		} else {
			ev, err = ex.Launch(c.Program, &LaunchArgs{Slots: buffers, Params: c.Scalars, Grid: c.Grid, Block: c.Block,
				Shape: c.Dims, Fuel: c.Fuel, Residue: c.Residue})
		}
	}
	if err != nil && users != nil {
		users.Add(1) // the deleter is not called
	}
	for _, b := range made {
		b.Free()
	}
	if foreign > 0 {
		drop()
	}
	return ev, err
}

func (ex *Executor) busy(c *Call) bool {
	s := ex.stream
	if !s.mu.TryLock() {
		return true
	}
	idle := s.last == nil
	s.mu.Unlock()
	if !idle {
		return true
	}
	if ex.device.async {
		return false
	}
	work := int64(1)
	for i := range c.Operands {
		o := &c.Operands[i]
		n := int64(0)
		if o.Buffer != nil {
			n = o.Buffer.n
		} else if !o.Unbound {
			n = numel(&o.View)
		}
		work = max(work, n)
	}
	if c.Op != nil && !c.Op.Elementwise {
		product := int64(1)
		for _, d := range c.Dims {
			product *= max(1, min(d, 1<<20))
		}
		work = max(work, product)
	}
	if c.Program != nil {
		for _, d := range c.Dims {
			work = max(work, d)
		}
		return c.Program.cost.of(uint64(work), paramCells(c), 0) > 1<<17
	}
	return work > 1<<14
}

func paramCells(c *Call) []uint64 {
	src := c.Program.Source()
	var cells []uint64
	for i, s := range c.Scalars {
		if i >= len(src.Params) {
			break
		}
		cell, err := s.Cell(src.Params[i].Type)
		if err != nil {
			return make([]uint64, len(src.Params))
		}
		cells = append(cells, cell)
	}
	for len(cells) < len(src.Params) {
		cells = append(cells, 0)
	}
	return cells
}
