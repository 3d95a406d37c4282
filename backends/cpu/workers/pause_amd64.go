package workers

// Pause is called between two looks at what another thread is to change: it leaves the
// core to the thread that shares it, and the memory alone.
func Pause()
