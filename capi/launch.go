package main

// #include "support.h"
import "C"

import (
	"time"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_launch runs a program. It returns when the launch is done, or queued on an
// asynchronous device, whose errors come with the next call that waits; or with
// HOLOGRAM_PENDING if it takes more than some milliseconds.
//
//export go_launch
func go_launch(executor C.hologram_executor, program C.hologram_program, args *C.hologram_launch_args) (status C.int32_t) {
	defer guard(&status)
	const what = "launch"
	if args == nil {
		return null(what, "args")
	}
	ex, err := lookup[*core.Executor](handle(executor), kindExecutor, what)
	if err != nil {
		return fail(err)
	}
	p, err := lookup[*core.Program](handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	a, err := launchArgs(p, args)
	if err != nil {
		return fail(err)
	}
	return settle(ex.Launch(p, a))
}

func launchArgs(p *core.Program, args *C.hologram_launch_args) (*core.LaunchArgs, error) {
	const what = "launch"
	slots, err := items(what, "slots", (*handle)(unsafe.Pointer(args.slots)), args.num_slots)
	if err != nil {
		return nil, err
	}
	params, err := items(what, "params", args.params, args.num_params)
	if err != nil {
		return nil, err
	}
	shape, err := items(what, "sizes in shape", (*int64)(unsafe.Pointer(args.shape)), args.rank)
	if err != nil {
		return nil, err
	}
	a := &core.LaunchArgs{
		Slots: make([]*core.Buffer, len(slots)), Params: make([]core.Scalar, len(params)), Shape: shape,
		Fuel: uint64(args.fuel), Residue: (*[core.NumClasses]uint64)(unsafe.Pointer(args.residue)),
	}
	names := p.Source().Slots
	for i, h := range slots {
		if h == 0 {
			continue // unbound: an error unless it is the boundary slot
		}
		name := "slot"
		if i < len(names) {
			name = names[i].Name
		}
		if e := find(h); e != nil {
			if b, ok := e.object.(*core.Buffer); ok {
				a.Slots[i] = b
				continue
			}
		}
		return nil, badHandle(h, kindBuffer, what+": slot "+name)
	}
	for i, s := range params {
		a.Params[i] = scalar(s)
	}
	for i := range 3 {
		a.Grid[i], a.Block[i] = uint32(args.grid[i]), uint32(args.block[i])
	}
	return a, nil
}

// go_op_id gives the number of an operation of the library, such as
// "vector_add". It stays the same in all versions.
//
//export go_op_id
func go_op_id(name *C.char, op_out *C.int32_t) (status C.int32_t) {
	defer guard(&status)
	const what = "op_id"
	if name == nil {
		return null(what, "name")
	}
	if op_out == nil {
		return null(what, "op_out")
	}
	for i, op := range core.Ops() {
		if op.Name == C.GoString(name) {
			*op_out = C.int32_t(i)
			return C.HOLOGRAM_OK
		}
	}
	return fail(core.Errorf(core.Invalid, "%s: no operation is called %q", what, C.GoString(name)))
}

// go_op_name gives the name of operation number op, as go_program_text does;
// HOLOGRAM_INVALID past the last.
//
//export go_op_name
func go_op_name(op C.int32_t, text_out *C.char, capacity C.size_t, size_out *C.size_t) (status C.int32_t) {
	defer guard(&status)
	o, err := operation(op)
	if err != nil {
		return fail(err)
	}
	return give(o.Name, text_out, capacity, size_out)
}

func operation(op C.int32_t) (*core.Operation, error) {
	ops := core.Ops()
	if op < 0 || int(op) >= len(ops) {
		return nil, core.Errorf(core.Invalid, "op: number %d names no operation; there are %d", op, len(ops))
	}
	return ops[op], nil
}

// go_op runs an operation of the library. operands are its arrays, inputs and
// outputs in order; scalars its numbers; dims its sizes by the names in the
// operation's description: for an elementwise operation n or nothing.
//
//export go_op
func go_op(executor C.hologram_executor, op C.int32_t, operands *C.hologram_buffer, num_operands C.int32_t, scalars *C.hologram_scalar, num_scalars C.int32_t, dims *C.int64_t, num_dims C.int32_t) (status C.int32_t) {
	defer guard(&status)
	const what = "op"
	ex, err := lookup[*core.Executor](handle(executor), kindExecutor, what)
	if err != nil {
		return fail(err)
	}
	o, err := operation(op)
	if err != nil {
		return fail(err)
	}
	handles, err := items(what, "operands", (*handle)(unsafe.Pointer(operands)), num_operands)
	if err != nil {
		return fail(err)
	}
	numbers, err := items(what, "scalars", scalars, num_scalars)
	if err != nil {
		return fail(err)
	}
	sizes, err := items(what, "dims", (*int64)(unsafe.Pointer(dims)), num_dims)
	if err != nil {
		return fail(err)
	}
	values := make([]core.Scalar, len(numbers))
	for i, s := range numbers {
		values[i] = scalar(s)
	}
	return runOp(ex, o, handles, values, sizes)
}

// go_op_call is go_op for the common case, cheap to call: up to four operands
// (0 past the last), and neither numbers nor sizes.
//
//export go_op_call
func go_op_call(executor C.hologram_executor, op C.int32_t, a, b, c, d C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	ex, err := lookup[*core.Executor](handle(executor), kindExecutor, "op")
	if err != nil {
		return fail(err)
	}
	o, err := operation(op)
	if err != nil {
		return fail(err)
	}
	handles := [4]handle{handle(a), handle(b), handle(c), handle(d)}
	n := 4
	for n > 0 && handles[n-1] == 0 {
		n--
	}
	return runOp(ex, o, handles[:n], nil, nil)
}

func runOp(ex *core.Executor, op *core.Operation, handles []handle, scalars []core.Scalar, dims []int64) C.int32_t {
	var room [8]*core.Buffer
	buffers := room[:0]
	for i, h := range handles {
		e := find(h)
		if e == nil {
			return fail(badHandle(h, kindBuffer, op.Name+": "+core.OperandName(op, i)))
		}
		b, ok := e.object.(*core.Buffer)
		if !ok {
			return fail(badHandle(h, kindBuffer, op.Name+": "+core.OperandName(op, i)))
		}
		buffers = append(buffers, b)
	}
	return settle(ex.Run(op, buffers, scalars, dims))
}

// go_event_wait waits for work up to milliseconds (0: only looks), and gives
// its outcome, or HOLOGRAM_PENDING if it still goes on.
//
//export go_event_wait
func go_event_wait(event C.hologram_event, milliseconds C.int32_t) (status C.int32_t) {
	defer guard(&status)
	ev, err := lookup[*core.Event](handle(event), kindEvent, "event_wait")
	if err != nil {
		return fail(err)
	}
	err = ev.Wait(time.Duration(max(0, milliseconds)) * time.Millisecond)
	if core.CodeOf(err) == core.Pending {
		return C.HOLOGRAM_PENDING
	}
	return fail(err)
}

// go_event_cancel asks the work to end soon; wait for its outcome after that.
//
//export go_event_cancel
func go_event_cancel(event C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	ev, err := lookup[*core.Event](handle(event), kindEvent, "event_cancel")
	if err != nil {
		return fail(err)
	}
	ev.Cancel()
	return C.HOLOGRAM_OK
}

// go_event_free frees an event. Its work goes on.
//
//export go_event_free
func go_event_free(event C.hologram_event) (status C.int32_t) {
	defer guard(&status)
	_, err := unregister[*core.Event](handle(event), kindEvent, "event_free")
	return fail(err)
}

// go_trace runs a launch on the interpreter, in memory that must be the host's,
// and calls line with context for each instruction that one lane runs: its
// text, and what its operands hold. line is called from another thread until
// the launch is done, and may use the executor; the call returns
// HOLOGRAM_PENDING if that takes more than some milliseconds.
//
//export go_trace
func go_trace(executor C.hologram_executor, program C.hologram_program, args *C.hologram_launch_args, lane C.uint64_t, line C.hologram_line, context unsafe.Pointer) (status C.int32_t) {
	defer guard(&status)
	const what = "trace"
	if args == nil {
		return null(what, "args")
	}
	if line == nil {
		return null(what, "line")
	}
	ex, err := lookup[*core.Executor](handle(executor), kindExecutor, what)
	if err != nil {
		return fail(err)
	}
	p, err := lookup[*core.Program](handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	a, err := launchArgs(p, args)
	if err != nil {
		return fail(err)
	}
	return settle(ex.Trace(p, a, uint64(lane), func(text string) {
		C.hologram_support_line(line, context, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
	}))
}
