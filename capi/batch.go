package main

// #include "support.h"
import "C"

import (
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_launch_batch launches a program count times, together if the device can do that:
// args is of one launch, but that its operands are those of all, one launch's after the
// other's. They are memory of others with HOLOGRAM_ORDERED. Either all is queued or, where
// done_out receives 0, nothing, because the launches are to be made one by one: as on a
// device that works while called, where one uses what another writes, or where count is
// above 512. With an error
// done_out receives 1 if the device failed behind some of them. It waits for nothing, as
// with HOLOGRAM_TRY: with HOLOGRAM_BUSY it may be that hologram_prepare_batch makes what is
// missing.
//
//export go_launch_batch
func go_launch_batch(executor C.hologram_executor, args *C.hologram_call_args, count C.int32_t, done_out *C.int32_t) (status C.int32_t) {
	defer guard(&status)
	const what = "launch_batch"
	if done_out == nil {
		return null(what, "done_out")
	}
	*done_out = 0
	var done bool
	err := batch(executor, args, count, what, func(ex *core.Executor, c *core.Call, next func(int) error) (err error) {
		c.Try = true
		done, err = ex.LaunchBatch(c, int(count), next)
		return err
	})
	if done {
		*done_out = 1
	}
	if err != nil {
		return fail(err)
	}
	return C.HOLOGRAM_OK
}

// go_prepare_batch makes what hologram_launch_batch with the same arguments needs, which
// may take as long as a device's compiler does. It looks at addresses, and not at memory.
//
//export go_prepare_batch
func go_prepare_batch(executor C.hologram_executor, args *C.hologram_call_args, count C.int32_t) (status C.int32_t) {
	defer guard(&status)
	err := batch(executor, args, count, "prepare_batch", func(ex *core.Executor, c *core.Call, next func(int) error) error {
		c.Try = false
		return ex.PrepareBatch(c, int(count), next)
	})
	if err != nil {
		return fail(err)
	}
	return C.HOLOGRAM_OK
}

// batch reads the arguments of count launches for do, to which next gives the operands of each.
func batch(executor C.hologram_executor, args *C.hologram_call_args, count C.int32_t, what string,
	do func(ex *core.Executor, c *core.Call, next func(int) error) error) error {
	ex, err := executorOf(executor, what)
	if err != nil {
		return err
	}
	f := frames.Get().(*frame)
	defer f.release()
	if count < 1 {
		return core.Errorf(core.Invalid, "%s: count is %d; expected at least 1", what, count)
	}
	if err := f.read(what, args); err != nil {
		return err
	}
	if f.call.Op != nil || args.deleter != nil {
		return core.Errorf(core.Invalid, "%s: expected launches of a program on memory that nobody is told of", what)
	}
	n := int(args.num_operands)
	operands := unsafe.Slice(args.operands, n*int(count))
	return do(ex, &f.call, func(i int) error { return f.readOperands(operands[i*n:][:n]) })
}
