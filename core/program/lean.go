package program

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/hologram-project/hologram/core/lock"
)

// leanPercent is by how much the heap may grow beyond what is in use while a large program
// is made: of a text of 60,000 instructions some 25 times its size is live, and the process
// then takes 42 times it, with the caller's texts. (./build.sh bench making)
const leanPercent = 10

// lean is how many large programs are being made, and what Go's collector was told before.
var lean struct {
	lock.Mutex[lock.Last]
	users, before int
}

// beLean has Go's collector leave less unused until endLean is called as often. What is
// there beyond that is collected before more is asked for: large pieces come at once.
func beLean() {
	lean.Lock()
	lean.users++
	first := lean.users == 1
	if first {
		lean.before = debug.SetGCPercent(leanPercent)
	}
	lean.Unlock()
	if !first {
		return
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	if metrics.Read(heap); heap[0].Value.Uint64() > heap[1].Value.Uint64() {
		runtime.GC()
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
