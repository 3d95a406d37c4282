//go:build !linux && !windows && !darwin

package profile

// thread is the same for all where the system has no number that Go knows how to ask for.
func thread() int64 { return 1 }
