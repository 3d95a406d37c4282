package profile

import "golang.org/x/sys/unix"

// thread is the number of the thread that calls, as the system has it.
func thread() int64 {
	id, _, _ := unix.RawSyscall(unix.SYS_THREAD_SELFID, 0, 0, 0)
	return int64(id)
}
