package main

// #include "support.h"
import "C"

import (
	"time"

	"github.com/hologram-project/hologram/core"
)

// go_event_wait waits for work up to milliseconds (0: only looks), and gives
// its outcome, or HOLOGRAM_PENDING if it still goes on.
//
//export go_event_wait
func go_event_wait(event C.hologram_event, milliseconds C.int32_t) (status C.int32_t) {
	defer guard(&status)
	ev, err := lookup(handle(event), kindEvent, "event_wait")
	if err != nil {
		return fail(err)
	}
	err = core.Wait(ev, time.Duration(max(0, milliseconds))*time.Millisecond)
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
	ev, err := lookup(handle(event), kindEvent, "event_cancel")
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
	_, err := unregister(handle(event), kindEvent, "event_free")
	return fail(err)
}
