package mem

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func arena(t *testing.T, size int) *Arena {
	t.Helper()
	a, err := New(size)
	if err != nil {
		t.Skipf("%v", err)
	}
	return a
}

// Areas never overlap, keep what was put there, and go back whole.
func TestPutAndRelease(t *testing.T) {
	const size = 1 << 16
	a := arena(t, size)
	r := rand.New(rand.NewPCG(1, 2))
	type kept struct {
		c    *Code
		code []byte
	}
	var all []kept
	for range 3000 {
		if len(all) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(all))
			k := all[i]
			require.Equal(t, k.code, a.write[k.c.offset:k.c.offset+len(k.code)])
			k.c.Release()
			all = append(all[:i], all[i+1:]...)
			continue
		}
		code := make([]byte, 1+r.IntN(5000))
		for i := range code {
			code[i] = byte(r.Uint32())
		}
		c, err := a.Put(code)
		if errors.Is(err, ErrFull) {
			continue
		}
		require.NoError(t, err)
		require.Zero(t, c.Entry%granule)
		all = append(all, kept{c, code})
	}
	for _, k := range all {
		require.Equal(t, k.code, a.write[k.c.offset:k.c.offset+len(k.code)])
		k.c.Release()
	}
	require.Zero(t, a.Used())
	require.Equal(t, []span{{0, size}}, a.free)
	_, err := a.Put(make([]byte, size+1))
	require.ErrorIs(t, err, ErrFull)
}

// No mapping of the process can be both written and executed.
func TestNeverWritableAndExecutable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc/self/maps on " + runtime.GOOS)
	}
	a := arena(t, 1<<16)
	_, err := a.Put([]byte{0xC3})
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	views := 0
	for _, line := range strings.Split(string(maps), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		require.False(t, strings.Contains(f[1], "w") && strings.Contains(f[1], "x"), "%s", line)
		if strings.Contains(line, "hologram-code") {
			views++
		}
	}
	require.GreaterOrEqual(t, views, 2)
}
