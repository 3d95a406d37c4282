package driver

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// bound is a C function of one int that stands for entry points.
func bound(t testing.TB) uintptr {
	if runtime.GOOS != "linux" {
		t.Skip("needs a library to open that is no driver: libc.so.6")
	}
	lib, err := open("libc.so.6")
	require.NoError(t, err)
	at, err := find(lib, "abs")
	require.NoError(t, err)
	return at
}

// The calls of a launch pass their arguments on, and allocate nothing.
func TestDirectCallsAllocateNothing(t *testing.T) {
	a, at := &API{}, bound(t)
	for _, f := range []any{&a.CtxPush, &a.CtxPop, &a.CtxCurrent, &a.StreamQuery, &a.StreamIsCapturing, &a.StreamWriteValue,
		&a.StreamWaitValue, &a.EventRecord, &a.Copy, &a.Launch, &a.GraphLaunch, &a.ExecSetKernel} {
		require.True(t, direct(f, at), "%T", f)
	}
	require.False(t, direct(&a.Set32Rows, at))
	minus := int32(-7)
	require.Equal(t, Result(7), a.StreamQuery(Stream(uint32(minus))))
	require.Equal(t, Result(7), a.GraphLaunch(7, 2))
	require.Equal(t, Result(7), a.EventRecord(7, 2))
	require.Equal(t, Result(7), a.Copy(Pointer(uint32(minus)), 1, 2, 3))
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	params := new(unsafe.Pointer)
	c, capturing := new(Context), new(int32)
	allocs := testing.AllocsPerRun(1000, func() {
		_ = a.CtxCurrent(c)
		_ = a.CtxPush(1)
		_ = a.StreamIsCapturing(1, capturing)
		_ = a.Launch(1, 2, 3, 4, 5, 6, 7, 8, 9, params, nil)
		_ = a.StreamWriteValue(1, 2, 3, 4)
		_ = a.ExecSetKernel(1, 2, nil)
		_ = a.GraphLaunch(1, 2)
		_ = a.CtxPop(c)
	})
	require.Less(t, allocs, 1.0)
}

func BenchmarkLaunchCall(b *testing.B) {
	a, at := &API{}, bound(b)
	direct(&a.Launch, at)
	params := new(unsafe.Pointer)
	b.ReportAllocs()
	for b.Loop() {
		_ = a.Launch(1, 2, 3, 4, 5, 6, 7, 8, 9, params, nil)
	}
}

// BenchmarkLaunchByReflection is the same as purego binds it.
func BenchmarkLaunchByReflection(b *testing.B) {
	a, at := &API{}, bound(b)
	register(&a.Launch, at)
	params := new(unsafe.Pointer)
	b.ReportAllocs()
	for b.Loop() {
		_ = a.Launch(1, 2, 3, 4, 5, 6, 7, 8, 9, params, nil)
	}
}
