//go:build !cgo || !linux

package driver

// Without C each of a submission's calls is one by itself.
type entries struct{}

func newEntries(func(symbol string) (uintptr, error)) (*entries, error) { return nil, nil }

func allocSubmission() *Submission { panic("no C") }

func growParameter(*Submission, int) { panic("no C") }

func freeSubmission(*Submission) { panic("no C") }

func enterCode() uintptr { panic("no C") }

func submit(*entries, *Submission) Result { panic("no C") }
