package status

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestJoin makes one error of several: of the first's kind, with all words, and
// with what others look for in any of them.
func TestJoin(t *testing.T) {
	cause, plain := errors.New("cause"), errors.New("plain")
	fault := &Fault{Line: 3}
	first := &Error{Code: Faulted, Msg: "first", Fault: fault}
	second := Errorf(Cancelled, "second: %w", cause)
	require.NoError(t, Join())
	require.NoError(t, Join(nil, nil))
	require.Same(t, error(first), Join(nil, first))
	require.Equal(t, plain, Join(plain, nil))
	require.Equal(t, Internal, CodeOf(Join(plain, plain)))
	all := Join(plain, first, nil, second)
	require.Equal(t, Faulted, CodeOf(all))
	require.EqualError(t, all, "plain\nfirst\nsecond: cause")
	require.ErrorIs(t, all, cause)
	require.ErrorIs(t, all, plain)
	var e *Error
	require.ErrorAs(t, all, &e)
	require.Same(t, fault, e.Fault)
}

// TestWithin puts words before an error's, and leaves all else of it.
func TestWithin(t *testing.T) {
	e := &Error{Code: Faulted, Msg: "it", Fault: &Fault{Line: 3}, Cause: errors.New("cause")}
	require.Equal(t, &Error{Code: Faulted, Msg: "before: it", Fault: e.Fault, Cause: e.Cause}, Within("before", e))
	require.Equal(t, "it", e.Msg, "the other stays as it is")
	require.Equal(t, e.Cause, Within("before", e.Cause))
	require.NoError(t, Within("before", nil))
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1024 KiB", 1 << 20: "1 MiB", 1 << 30: "1 GiB",
		1 << 40: "1 TiB", 1 << 50: "1 PiB", 1 << 60: "1 EiB", 1<<63 - 1: "8 EiB",
	} {
		require.Equal(t, want, Size(n))
	}
}

// TestLoss names what a device was lost by: not what only waited, and the first for ever.
func TestLoss(t *testing.T) {
	var l Loss
	lost := func(what string) error { return FromBackend(what, backends.ErrLost) }
	require.NoError(t, l.Tell(nil))
	other := Errorf(Invalid, "other")
	require.Equal(t, error(other), l.Tell(other))
	require.Equal(t, lost("wait").Error(), l.Add(lost("wait")).Error())
	require.Equal(t, lost("launch").Error(), l.Tell(lost("launch")).Error())
	for _, tell := range []func(error) error{l.Tell, l.Add} {
		err := tell(lost("copy"))
		require.Equal(t, Lost, CodeOf(err))
		require.ErrorIs(t, err, backends.ErrLost)
		require.ErrorContains(t, err, "copy: the device is lost")
		require.ErrorContains(t, err, "first not known to be done: launch: the device is lost")
	}
}
