package core

import (
	"runtime"
	"sync"
)

// reserved makes the threads that work will want, before any: where the system
// refuses another thread, for the process has as many as it may have, or no
// room for its stack, Go ends the process. Go keeps a thread for the next
// goroutine that is bound to one, as those are that compile or work on a launch.
var reserved = sync.OnceFunc(func() {
	// As many run Go, and as many its machine code; on a machine with much to do some
	// more are on their way to sleep. A thread takes some 40 µs.
	const most = 32 // of processors that are worth it
	n := 2*min(runtime.GOMAXPROCS(0), most) + 8
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait() // so that each has a thread of its own
		})
	}
	done.Wait()
})
