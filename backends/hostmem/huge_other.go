//go:build unix && !linux

package hostmem

// adviseHuge does nothing: the system chooses its pages itself.
func adviseHuge([]byte) {}
