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

// SetPacks sets when a reduction packs an array, of so many bytes that lie in so many,
// and returns what restores it.
func SetPacks(f func(bytes, lie int64) bool) (restore func()) {
	old := packs
	packs = f
	return func() { packs = old }
}
