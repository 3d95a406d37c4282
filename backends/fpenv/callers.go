package fpenv

import "runtime"

// Caller is a floating-point state other than the standard one, as a caller
// may come with.
type Caller struct {
	Name    string
	control uint64
}

// Callers lists such states of this machine, for tests; none where there is
// no control over them.
func Callers() []Caller {
	switch runtime.GOARCH {
	case "amd64":
		return []Caller{{"flush to zero", 0x1f80 | 1<<15}, {"denormals are zero", 0x1f80 | 1<<6}, {"round up", 0x1f80 | 2<<13}}
	case "arm64":
		return []Caller{{"flush to zero", 1 << 24}, {"round up", 1 << 22}}
	}
	return nil
}

// Run runs f in the caller's state, and reports whether f left that as it was.
func (c Caller) Run(f func()) (kept bool) {
	s := Enter()
	defer Leave(s)
	setControl(c.control)
	defer setControl(standard)
	f()
	return control() == c.control
}
