package status

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
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
