package program

import (
	"runtime/debug"

	"github.com/hologram-project/hologram/core/lock"
)

// leanPercent is by how much the heap may grow beyond what is in use while a large program
// is made. With Go's own 100 a text of 60,000 instructions takes 70 to 78 times its size up
// to its machine code, so 55 to 60, and a quarter more time.
const leanPercent = 20

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
