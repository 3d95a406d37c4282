//go:build !linux || !amd64

package workers

// processor returns the number of the processor that the thread is on; -1 since nobody tells.
func processor() int32 { return -1 }

// aside has the thread go to another processor than that one.
func aside(int32) {}
