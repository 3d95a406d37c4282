// Package status is the errors of core and its rooms: each has a code, which is
// the status that the C ABI returns, and a message for the person who meets it.
package status

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// Code is the kind of an error. The values are the status codes of the C ABI.
type Code int32

// The kinds. Pending is no error: the work goes on and can be waited for.
const (
	OK          Code = 0
	Pending     Code = 1
	Invalid     Code = 2  // an argument has a value that cannot be
	BadType     Code = 3  // an argument has the wrong dtype or kind
	BadHandle   Code = 4  // a handle that is null, freed, forged or of another kind
	OutOfMemory Code = 5  // a device's memory, its limit or an executor's quota is used up
	Syntax      Code = 6  // the text or bytes of a program are wrong
	Unverified  Code = 7  // a program breaks a rule of the verifier
	Faulted     Code = 8  // a launch ran to its end, and some lane did something that it must not
	Cancelled   Code = 9  // a launch was cancelled before its end
	Unavailable Code = 10 // a backend is not there, or cannot do what was asked
	Forked      Code = 11 // the process is a child of the one that loaded the library
	Internal    Code = 12 // a defect of Hologram
	Busy        Code = 13 // the call would have to wait, and was asked not to; nothing has happened
	Lost        Code = 14 // the device is of no more use to this process
)

// Error is what every function of core returns for what went wrong.
type Error struct {
	Code  Code
	Msg   string
	Fault *Fault // of Faulted
	Short *Short // of OutOfMemory; nil: nobody can tell
	Cause error
}

// Error returns the message: which argument, which value, what was expected.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the backend's or the assembler's own error, if there is one.
func (e *Error) Unwrap() error { return e.Cause }

// Fault says what a lane of a launch did.
type Fault struct {
	Kind    isa.FaultKind
	Program string
	Inst    int    // index of the instruction in the program as written
	Line    int    // 1-based line of its text; 0 where the program has none
	Lane    uint64 // one of the lanes, by its global number
}

// Short says how memory is short, in bytes.
type Short struct {
	Asked  int64
	Free   int64 // what was left to be taken from the device, within its limit or the executor's; 0: none, or not known
	Cached int64 // what the device's pool kept for reuse nevertheless
}

// ShortOf returns how memory was short, by which err came about; nil: it tells nothing of that.
func ShortOf(err error) *Short {
	for e := (*Error)(nil); errors.As(err, &e); err = e.Cause {
		if e.Short != nil {
			return e.Short
		}
	}
	return nil
}

// Loss is what is known of how a device was lost.
type Loss struct{ first atomic.Pointer[string] }

// Tell adds to an error which says that the device is lost what the first such error said,
// which may be this one.
func (l *Loss) Tell(err error) error {
	if err == nil || CodeOf(err) != Lost {
		return err
	}
	text := err.Error()
	l.first.CompareAndSwap(nil, &text)
	return l.Add(err)
}

// Add is Tell of an error that is not the first, whatever came before.
func (l *Loss) Add(err error) error {
	first := l.first.Load()
	if err == nil || first == nil || CodeOf(err) != Lost || strings.Contains(err.Error(), *first) {
		return err
	}
	return Errorf(Lost, "%w; what failed first, or was the first not known to be done: %s", err, *first)
}

// CodeOf returns the kind of err: OK for nil, Internal for an error that core
// did not make.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, backends.ErrPending):
		return Pending
	}
	return Internal
}

// Errorf makes an Error of the given kind; what %w stands for is its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Msg: err.Error(), Cause: errors.Unwrap(err)}
}

// FromBackend turns what a backend returned for the thing named what into an Error.
func FromBackend(what string, err error) error {
	if err == nil {
		return nil
	}
	var unsupported *backends.Unsupported
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, backends.ErrLost):
		return Errorf(Lost, "%s: %w", what, err)
	case errors.Is(err, backends.ErrOutOfMemory):
		return Errorf(OutOfMemory, "%s: %w", what, err)
	case errors.Is(err, backends.ErrCancelled):
		return Errorf(Cancelled, "%s: cancelled before its end; its outputs hold what was written until then%w", what, quiet{err})
	case errors.As(err, &unsupported):
		return Errorf(Unavailable, "%s: %w", what, err)
	}
	return Errorf(Internal, "%s: %w", what, err)
}

// quiet is a cause whose words are not for the message.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// Within puts what was called before an error's message.
func Within(what string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	named := *e
	named.Msg = what + ": " + e.Msg
	return &named
}

// Join is the errors of several works as one, of the first's kind.
func Join(list ...error) error {
	all := errors.Join(list...)
	var first *Error
	switch joined, ok := all.(interface{ Unwrap() []error }); {
	case !ok: // none
		return nil
	case len(joined.Unwrap()) == 1:
		return joined.Unwrap()[0]
	case !errors.As(all, &first):
		return all
	}
	return &Error{Code: first.Code, Msg: all.Error(), Fault: first.Fault, Cause: all}
}

// ErrBusy is the outcome of a call that would have had to wait.
var ErrBusy = &Error{Code: Busy, Msg: "the call would have to wait"}

// Size writes a number of bytes for people.
func Size(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	unit, f := -1, float64(n)
	for f >= 1<<10 && unit < len(units)-1 {
		f /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.4g %ciB", f, units[unit])
}
