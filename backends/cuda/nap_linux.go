package cuda

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps for a time far below a millisecond, to which time.Sleep rounds up
// in a process that has nothing else to do.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}
