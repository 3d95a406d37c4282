//go:build !amd64

package workers

// Pause is called between two looks at what another thread is to change.
func Pause() {}
