package main

// #include "support.h"
import "C"

import (
	"encoding/json"
	"sync"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_call runs an operation of the library or launches a program. It returns
// when the work is done, or queued on an asynchronous device, whose errors come
// with the next call that waits; or with HOLOGRAM_PENDING if it takes more than
// some milliseconds; or with HOLOGRAM_TRY HOLOGRAM_BUSY at once if it would take
// more than some 100 microseconds. executor 0 is the default executor.
//
//export go_call
func go_call(executor C.hologram_executor, args *C.hologram_call_args, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "call"
	if event_out == nil {
		return null(what, "event_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return unread(args, err)
	}
	f := frames.Get().(*frame)
	defer f.release()
	if err := f.read(what, args); err != nil {
		return unread(args, err)
	}
	ev, err := ex.Call(&f.call)
	return settle(ev, err, event_out)
}

// unread tells of arguments that core has not seen, so that the deleter of the
// memory of others is told here.
func unread(args *C.hologram_call_args, err error) C.int32_t {
	if args != nil && int(args.size) == int(unsafe.Sizeof(*args)) && args.deleter != nil {
		C.hologram_support_delete(args.deleter, args.context)
	}
	return fail(err)
}

// frame is room for a call's arguments, so that a call allocates nothing. core
// keeps nothing of it when Call has returned.
type frame struct {
	call     core.Call
	operands []core.Operand
	scalars  []core.Scalar
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func (f *frame) release() {
	f.call = core.Call{}
	clear(f.operands) // the buffers
	frames.Put(f)
}

// read checks what C gave and puts it into f.
func (f *frame) read(what string, args *C.hologram_call_args) error {
	if args == nil {
		return core.Errorf(core.Invalid, "%s: args is NULL", what)
	}
	if int(args.size) != int(unsafe.Sizeof(*args)) {
		return core.Errorf(core.Invalid, "%s: args->size is %d; expected %d", what, args.size, unsafe.Sizeof(*args))
	}
	if err := onlyFlags(what, args.flags, C.HOLOGRAM_TRY|C.HOLOGRAM_ORDERED); err != nil {
		return err
	}
	c := &f.call
	if args.op == -1 {
		p, err := lookup(handle(args.program), kindProgram, what)
		if err != nil {
			return err
		}
		c.Program = p
	} else {
		op, err := operation(args.op)
		if err != nil {
			return err
		}
		c.Op = op
	}
	operands, err := items(what, "operands", args.operands, args.num_operands)
	if err != nil {
		return err
	}
	if err := f.readOperands(operands); err != nil {
		return err
	}
	scalars, err := items(what, "scalars", args.scalars, args.num_scalars)
	if err != nil {
		return err
	}
	f.scalars = f.scalars[:0]
	for _, s := range scalars {
		f.scalars = append(f.scalars, scalar(s))
	}
	c.Scalars = f.scalars
	if args.num_dims != -1 {
		dims, err := items(what, "dims", (*int64)(unsafe.Pointer(args.dims)), args.num_dims)
		if err != nil {
			return err
		}
		if c.Dims = dims; dims == nil {
			c.Dims = []int64{}
		}
	}
	for i := range 3 {
		c.Grid[i], c.Block[i] = uint32(args.grid[i]), uint32(args.block[i])
	}
	c.Fuel, c.Stream, c.Try = uint64(args.fuel), uintptr(args.stream), args.flags&C.HOLOGRAM_TRY != 0
	c.Ordered = args.flags&C.HOLOGRAM_ORDERED != 0
	c.Residue = (*[core.NumClasses]uint64)(unsafe.Pointer(args.residue))
	c.First = (*uint64)(unsafe.Pointer(args.first))
	c.Stop = interrupted
	if deleter, context := args.deleter, args.context; deleter != nil {
		c.Deleter = func() { C.hologram_support_delete(deleter, context) }
	}
	return nil
}

func (f *frame) readOperands(from []C.hologram_operand) error {
	f.operands = f.operands[:0]
	for i := range from {
		f.operands = append(f.operands, core.Operand{})
		if err := f.readOperand(&from[i], i); err != nil {
			return err
		}
	}
	f.call.Operands = f.operands
	return nil
}

func (f *frame) readOperand(from *C.hologram_operand, i int) error {
	o := &f.operands[i]
	o.Bool, o.Transposed = from.flags&C.HOLOGRAM_BOOL != 0, from.flags&C.HOLOGRAM_TRANSPOSED != 0
	if from.buffer != 0 {
		if o.Buffer = find(handle(from.buffer), kindBuffer); o.Buffer == nil {
			return badHandle(handle(from.buffer), anyKind(kindBuffer), f.operand(i))
		}
		return nil
	}
	switch {
	case from.rank == -1:
		o.Unbound = true
		return nil
	case from.rank < 0 || from.rank > core.MaxRank:
		return core.Errorf(core.Invalid, "%s has rank %d; at most %d dimensions", f.operand(i), from.rank, core.MaxRank)
	}
	if !known(from.dtype) {
		_, err := typeOf(f.operand(i), from.dtype)
		return err
	}
	t := core.Type(from.dtype)
	v := &o.View
	v.Addr, v.Type, v.Rank = uintptr(from.data), t, int(from.rank)
	for k := range v.Rank {
		v.Shape[k], v.Stride[k] = int64(from.shape[k]), int64(from.strides[k])
	}
	o.Number = from.flags&C.HOLOGRAM_NUMBER != 0
	o.ReadOnly, o.DeviceType, o.DeviceID = from.flags&C.HOLOGRAM_READ_ONLY != 0, int32(from.device_type), int32(from.device_id)
	return nil
}

// operand names an operand in errors.
func (f *frame) operand(i int) string {
	if op := f.call.Op; op != nil {
		return op.Name + ": " + core.OperandName(op, i)
	}
	if slots := f.call.Program.Source().Slots; i < len(slots) {
		return "launch: slot " + slots[i].Name
	}
	return "launch: slot"
}

func operation(op C.int32_t) (*core.Operation, error) {
	ops := core.Ops()
	if op < 0 || int(op) >= len(ops) {
		return nil, core.Errorf(core.Invalid, "op: number %d names no operation; there are %d", op, len(ops))
	}
	return ops[op], nil
}

// go_result tells what a call of an operation makes where nobody has an array for
// it: args has the operands before that one, of which rank -1 and no buffer stands
// for a number, and result_out receives its dtype, shape and HOLOGRAM_BOOL, with the
// strides of row-major memory. It and those after it, if there are any, which are
// asked for in turn, are written and not read. Scalars are not looked at.
//
//export go_result
func go_result(args *C.hologram_call_args, result_out *C.hologram_operand) (status C.int32_t) {
	defer guard(&status)
	const what = "result"
	if result_out == nil {
		return null(what, "result_out")
	}
	f := frames.Get().(*frame)
	defer f.release()
	if err := f.read(what, args); err != nil {
		return fail(err)
	}
	if f.call.Op == nil {
		return fail(core.Errorf(core.Invalid, "%s: args->op is %d; expected an operation", what, args.op))
	}
	r, err := core.ResultOf(&f.call)
	if err != nil {
		return fail(err)
	}
	*result_out = C.hologram_operand{dtype: C.int32_t(r.Type), rank: C.int32_t(len(r.Shape)), device_type: 1}
	if r.Bool {
		result_out.flags = C.HOLOGRAM_BOOL
	}
	stride := int64(1)
	for i := len(r.Shape) - 1; i >= 0; i-- {
		result_out.shape[i], result_out.strides[i] = C.int64_t(r.Shape[i]), C.int64_t(stride)
		stride *= r.Shape[i]
	}
	return C.HOLOGRAM_OK
}

// opText describes an operation as go_ops gives it.
type opText struct {
	Number       int           `json:"number"`
	Name         string        `json:"name"`
	Doc          string        `json:"doc"`
	Operands     []operandText `json:"operands"`
	Scalars      []scalarText  `json:"scalars"`
	Dims         []string      `json:"dims"`
	Types        []string      `json:"types"`
	Elementwise  bool          `json:"elementwise"`
	Reduces      bool          `json:"reduces"`
	ScalarResult bool          `json:"scalar_result"`
	Bools        bool          `json:"bools"`
	Axes         bool          `json:"axes"`
}

type operandText struct {
	Name   string `json:"name"`
	Reads  bool   `json:"reads"`
	Writes bool   `json:"writes"`
	Kind   string `json:"kind"`
}

type scalarText struct {
	Name    string   `json:"name"`
	Wide    bool     `json:"wide"`
	Default *float64 `json:"default"`
	Of      *string  `json:"of"`
}

var opsText = sync.OnceValues(func() (string, error) {
	var list []opText
	for i, op := range core.Ops() {
		t := opText{Number: i, Name: op.Name, Doc: op.Doc, Dims: append([]string{}, op.Dims...), Elementwise: op.Elementwise,
			Reduces: op.Reduces, ScalarResult: op.ScalarResult, Bools: op.Bools, Axes: op.Axes, Operands: []operandText{}, Scalars: []scalarText{}, Types: []string{}}
		for _, o := range op.Operands {
			t.Operands = append(t.Operands, operandText{o.Name, o.Reads, o.Writes, o.Kind.String()})
		}
		for _, s := range op.Scalars {
			var of *string
			if s.Of != "" {
				of = &s.Of
			}
			t.Scalars = append(t.Scalars, scalarText{s.Name, s.Wide, s.Default, of})
		}
		for dtype := core.Type(1); dtype.Numeric(); dtype++ {
			if op.Types.Has(dtype) {
				t.Types = append(t.Types, dtype.String())
			}
		}
		list = append(list, t)
	}
	text, err := json.Marshal(list)
	return string(text), err
})

// go_ops describes the operations of the library in JSON: a list of objects
// with number, name and doc; operands, each with name, reads, writes and kind
// (same: of the first one's dtype; sum: of it or a wider one; wider: likewise, of
// integers; index: i64; mask: bools); scalars,
// each with name, wide (of the accumulator's type rather than the elements'),
// default, null for none, and of, null or the output whose former elements it
// scales; the names of dims, which are flags if they begin with trans_; types;
// elementwise; axes, whether it takes one number in place of dims, in which bit i
// says that a row lies along dimension i of the first operand, and
// HOLOGRAM_KEEP_DIMS that what is reduced keeps these, as 1; reduces, whether
// without that it makes one number; scalar_result, whether element 0 of the last operand is that;
// and bools, whether it makes bools of bools. Numbers and operands stay the same
// from 1.0 on. size_out receives the text's size in bytes, of which at most capacity
// are written to text_out; no NUL is added.
//
//export go_ops
func go_ops(text_out *C.char, capacity C.size_t, size_out *C.size_t) (status C.int32_t) {
	defer guard(&status)
	text, err := opsText()
	if err != nil {
		return fail(err)
	}
	return give(text, text_out, capacity, size_out)
}

// go_trace makes a launch on the interpreter, in memory that must be the host's,
// and calls line with context for each instruction that one lane runs: its
// text, and what its operands hold. line is called from another thread until
// the launch is done, and may use the executor; the call returns
// HOLOGRAM_PENDING if that takes more than some milliseconds. The operands are
// buffers, so args has no deleter.
//
//export go_trace
func go_trace(executor C.hologram_executor, args *C.hologram_call_args, lane C.uint64_t, line C.hologram_line, context unsafe.Pointer, event_out *C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	const what = "trace"
	if line == nil {
		return null(what, "line")
	}
	if event_out == nil {
		return null(what, "event_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	f := frames.Get().(*frame)
	defer f.release()
	if err := f.read(what, args); err != nil {
		return fail(err)
	}
	c := &f.call
	if c.Program == nil {
		return fail(core.Errorf(core.Invalid, "%s: args->op is %d; expected -1, a launch", what, args.op))
	}
	if args.deleter != nil {
		return fail(core.Errorf(core.Invalid, "%s: args->deleter is given; a trace takes buffers alone, which nobody is told of", what))
	}
	ev, err := ex.Trace(c, uint64(lane), func(text string) {
		C.hologram_support_line(line, context, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
	})
	return settle(ev, err, event_out)
}
