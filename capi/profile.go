package main

// #include "support.h"
import "C"

import (
	"math"

	"github.com/hologram-project/hologram/core"
)

// go_profile_start begins a profile: what happens in the process from now on, on all
// executors, until hologram_profile_stop. It keeps the first limit events, some 120
// bytes each, and counts those beyond; 0: 262144. Several may be under way at a time,
// and each gets everything.
//
//hologram:quick
//export go_profile_start
func go_profile_start(limit C.int64_t, profile_out *C.hologram_profile) (status C.int32_t) {
	defer guard(&status)
	if profile_out == nil {
		return null("profile_start", "profile_out")
	}
	p, err := core.NewProfile(int64(limit))
	return adopt(kindProfile, p, err, profile_out, (*core.Profile).Close)
}

// go_profile_stop ends a profile. What began before it ended is still told to it,
// until it is freed; *under_way_out receives how many launches and copies are still
// under way on devices that work by themselves, of whose end it is yet to be told.
// To stop it again only counts these.
//
//hologram:quick
//export go_profile_stop
func go_profile_stop(profile C.hologram_profile, under_way_out *C.int64_t) (status C.int32_t) {
	defer guard(&status)
	if under_way_out == nil {
		return null("profile_stop", "under_way_out")
	}
	p, err := lookup(handle(profile), kindProfile, "profile_stop")
	if err != nil {
		return fail(err)
	}
	*under_way_out = C.int64_t(p.Stop())
	return C.HOLOGRAM_OK
}

// go_profile_trace gives a profile's events so far as JSON, an object of Chrome's trace
// event format, which Perfetto reads, too: traceEvents with name, cat, ph, ts and dur
// (microseconds since the profile began), pid, tid, a track for each thread that called
// and for each stream, and args; and otherData with the library's version, start_unix_us,
// the time of ts 0, and dropped, the number of events beyond the limit. cat is call (of
// an operation, a launch or a replay, by a thread), wait (of a thread for work), kernel
// (a launch on a stream), copy (likewise; or a fill), compile, cache (what was compiled
// before) or memory (taken from the device or given back). Of a kernel or copy args has
// bytes, GB/s and queue_us, how long it had waited for its turn. Where a device works by
// itself and does not tell when, a launch has no duration. size_out receives the text's
// size in bytes, of which at most capacity are written to text_out; no NUL is added. A text
// that is longer is kept for the next call that has room for it, which gets the same one.
//
//export go_profile_trace
func go_profile_trace(profile C.hologram_profile, text_out *C.char, capacity C.size_t, size_out *C.size_t) (status C.int32_t) {
	defer guard(&status)
	p, err := lookup(handle(profile), kindProfile, "profile_trace")
	if err != nil {
		return fail(err)
	}
	room := 0
	if text_out != nil {
		room = int(min(capacity, math.MaxInt))
	}
	text, err := p.Chrome(version, room)
	if err != nil {
		return fail(err)
	}
	return give(string(text), text_out, capacity, size_out)
}

// go_profile_free ends a profile and frees its events.
//
//hologram:quick
//export go_profile_free
func go_profile_free(profile C.hologram_profile) (status C.int32_t) {
	defer guard(&status)
	p, err := unregister(handle(profile), kindProfile, "profile_free")
	if err != nil {
		return fail(err)
	}
	p.Close()
	return C.HOLOGRAM_OK
}
