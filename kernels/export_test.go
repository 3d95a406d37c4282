package kernels

// SetFewLanes sets how many elements of C have k split, and returns what
// restores it.
func SetFewLanes(n int64) (restore func()) {
	old := fewLanes
	fewLanes = n
	return func() { fewLanes = old }
}

// Elementwise makes an operation that is not in the library.
var Elementwise = elementwise
