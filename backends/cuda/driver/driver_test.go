package driver

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAbsentDriverHasAReason(t *testing.T) {
	_, err := bind("libhologram-no-such-driver.so")
	require.True(t, IsUnavailable(err), "%v", err)
	require.ErrorContains(t, err, "no NVIDIA driver")
}

func TestMissingSymbolIsNamed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a library to open that is no driver: libc.so.6")
	}
	_, err := bind("libc.so.6")
	require.True(t, IsUnavailable(err), "%v", err)
	require.ErrorContains(t, err, "libc.so.6 has no cuInit")
}

// fake is an API whose start-up calls answer as told.
func fake(version int32, initial Result, devices int32) *API {
	return &API{
		DriverGetVersion: func(v *int32) Result { *v = version; return Success },
		Init:             func(uint32) Result { return initial },
		DeviceGetCount:   func(n *int32) Result { *n = devices; return Success },
		GetErrorName:     func(_ Result, s **byte) Result { *s = &[]byte("CUDA_ERROR_X\x00")[0]; return Success },
		GetErrorString:   func(_ Result, s **byte) Result { *s = &[]byte("some text\x00")[0]; return Success },
	}
}

func TestStart(t *testing.T) {
	for _, c := range []struct {
		api  *API
		want string
	}{
		{fake(13000, Success, 1), ""},
		{fake(10020, Success, 1), "too old: it knows CUDA 10.2, needed is 11.7"},
		{fake(13000, NoDevice, 1), "no device"},
		{fake(13000, Success, 0), "no device"},
		{fake(13000, 999, 1), "does not start: CUDA_ERROR_X (some text)"},
	} {
		err := c.api.start()
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.True(t, IsUnavailable(err))
		require.ErrorContains(t, err, c.want)
	}
}

func TestErrorsNameTheCall(t *testing.T) {
	a := fake(0, 0, 0)
	require.NoError(t, a.Check("cuInit", Success))
	require.EqualError(t, a.Check("cuMemAlloc", OutOfMemory), "cuMemAlloc: CUDA_ERROR_X (some text)")
}

// Each entry point has a symbol, and no two the same.
func TestSymbols(t *testing.T) {
	seen := map[string]bool{}
	typ := reflect.TypeFor[API]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type.Kind() != reflect.Func {
			continue
		}
		s := f.Tag.Get("sym")
		require.True(t, strings.HasPrefix(s, "cu"), "%s", f.Name)
		require.False(t, seen[s], "%s stands twice", s)
		seen[s] = true
	}
}
