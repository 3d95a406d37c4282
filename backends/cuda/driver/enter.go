package driver

import "unsafe"

// Tickets tell how far a stream is, in memory of the host's that the device writes to
// and that C sees.
type Tickets struct {
	Passed  uint64 // the last that the device wrote by a submission of Go's
	Entered uint64 // and by one of C's
	Last    uint64 // given
	asked   uint64 // the last that C had written, or that had passed when the stream began
}

// Begin begins with what has passed, of whichever stream.
func (t *Tickets) Begin() {
	t.Last = max(t.Passed, t.Entered)
	t.asked = t.Last
}

// Entry is a launch that C queues by itself: Enter's code, given its address, does what
// Submit does and gives the launch the stream's next ticket. The launch block follows it.
type Entry struct {
	Refused    uint32 // not 0 after it has done nothing: Submit may
	block      uint32
	entries    *entries
	tickets    *Tickets
	submission Submission
}

// Enters reports whether there is C, that Entries can be made.
func (a *API) Enters() bool { return a.entries != nil }

// Entry makes one of a submission that has a launch block and no word.
// It returns its code and bytes, in which the launch block begins at the place at.
func (a *API) Entry(s *Submission, block []byte, t *Tickets) (code uintptr, frame []byte, at int) {
	at = int(unsafe.Sizeof(Entry{})+63) &^ 63
	frame = make([]byte, at+len(block))
	e := Entry{block: uint32(at), entries: a.entries, tickets: t, submission: *s}
	e.submission.parameters, e.submission.params[0], e.submission.parameterSize = nil, nil, 0
	copy(frame, unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e)))
	copy(frame[at:], block)
	return enterCode(), frame, at
}
