package program

import (
	"runtime/debug"

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

// beLean has Go's collector leave less unused until endLean is called as often.
func beLean() {
	lean.Lock()
	defer lean.Unlock()
	if lean.users++; lean.users == 1 {
		lean.before = debug.SetGCPercent(leanPercent)
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
