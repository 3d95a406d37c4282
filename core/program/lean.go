package program

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/hologram-project/hologram/core/lock"
)

// Large programs are made in as little memory as they can be: what is live of a text of
// 60,000 instructions is up to 40 times its size, and who is told that a program costs some
// 50 times its text should find the process that large. Go's collector by itself leaves as
// much again unused, and what is made while it marks it counts as live. So the maker waits
// for it, whenever the heap has grown by leanPart of itself, but by leanBytes at least.
// (./build.sh bench making)
const (
	leanPart    = 32
	leanBytes   = 1 << 20
	leanPercent = 50 // for what others do meanwhile
)

// leanSteps are the steps of a stage from which a program is large: what is made before is
// a few MB. Machine code for a hundred instructions takes 4,000, and a collection takes
// longer than it, the more programs there are.
const leanSteps = 1 << 15

// lean is how many large programs are being made, and what Go's collector was told before.
var lean struct {
	lock.Mutex[lock.Last]
	users, before int
	live          uint64 // bytes of the heap when it was last collected
}

// beLean has the heap grow only by what collect lets it, until endLean is called as often.
func beLean() {
	lean.Lock()
	defer lean.Unlock()
	if lean.users++; lean.users == 1 {
		lean.before, lean.live = debug.SetGCPercent(leanPercent), 0
	}
}

// endLean ends what beLean began.
func endLean() {
	lean.Lock()
	defer lean.Unlock()
	if lean.users--; lean.users == 0 {
		debug.SetGCPercent(lean.before)
	}
}

// collect collects what is not in use, if the heap has grown.
func collect() {
	lean.Lock()
	live := lean.live
	lean.Unlock()
	if heap() < live+max(live/leanPart, leanBytes) {
		return
	}
	runtime.GC()
	now := heap()
	lean.Lock()
	lean.live = now
	lean.Unlock()
}

// heap is how many bytes of the heap are in use, or were and are not collected.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
