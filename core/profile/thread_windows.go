package profile

import "golang.org/x/sys/windows"

// thread is the number of the thread that calls, as the system has it.
func thread() int64 { return int64(windows.GetCurrentThreadId()) }
