// Package fpenv gives Go code the floating-point state that Atlas programs
// mean: round to nearest even, subnormals kept, no traps. The thread that a
// host calls from may have another one (torch's set_flush_denormal leaves it
// so), and a thread inherits the state of the one that started it.
package fpenv

import "runtime"

// State is what Enter found, for Leave to put back.
type State struct{ control uint64 }

// Enter binds the goroutine to its thread and sets that thread's
// floating-point state. Every Enter is undone by one Leave on the same
// goroutine; pairs may nest. A worker thread calls it once for its lifetime.
func Enter() State {
	runtime.LockOSThread()
	s := State{control()}
	if s.control != standard {
		setControl(standard)
	}
	return s
}

// Leave restores the state that Enter returned and unbinds the goroutine.
func Leave(s State) {
	if s.control != standard {
		setControl(s.control)
	}
	runtime.UnlockOSThread()
}
