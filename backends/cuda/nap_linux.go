package cuda

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for a time far below a millisecond, to which time.Sleep rounds up
// in a process that has nothing else to do. Linux wakes a thread up to 50 µs late to wake
// others with it, unless it is told that the thread minds.
func nap(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err == nil && unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) }()
	}
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
