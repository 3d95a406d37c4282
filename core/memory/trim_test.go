package memory

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// TestSlabsGoBack trims a pool of small blocks: slabs of which nothing is used, by
// anybody or by work, go back to the device, and no others.
func TestSlabsGoBack(t *testing.T) {
	p := NewPool(host(t), 0)
	line, stream := newLine("a")
	const size = 512 << 10 // eight a slab
	var list []*Memory
	for range 20 {
		m, _, err := p.Take(line, size, nil)
		require.NoError(t, err)
		list = append(list, m)
	}
	require.EqualValues(t, 3*slabBytes, p.Stats().Reserved)
	require.Zero(t, p.Trim())
	kept := list[3] // of the first slab
	list[9].After(line, 1, true)
	for _, m := range list {
		if m != kept {
			m.Release()
		}
	}
	require.EqualValues(t, slabBytes, p.trim(0), "the last: nothing is used of it")
	require.EqualValues(t, 2*slabBytes, p.Stats().Reserved)
	stream.passed = 1
	require.EqualValues(t, slabBytes, p.Trim(), "the second, whose work has passed")
	require.Zero(t, p.Trim())
	kept.Release()
	require.EqualValues(t, slabBytes, p.Trim())
	s := p.Stats()
	require.Zero(t, s.Reserved+s.InUse+s.Cached)
}

// TestSmallBlocksMakeRoom asks for a large block where small ones that nobody uses
// take the room.
func TestSmallBlocksMakeRoom(t *testing.T) {
	p := NewPool(host(t), 64<<20)
	var list []*Memory
	for range 100 {
		m, _, err := p.Take(nil, 500<<10, nil)
		require.NoError(t, err)
		list = append(list, m)
	}
	for _, m := range list {
		m.Release()
	}
	m, _, err := p.Take(nil, 48<<20, nil)
	require.NoError(t, err)
	m.Release()
}

// TestSlabsThatTheDeviceDoesNotTake are cut again.
func TestSlabsThatTheDeviceDoesNotTake(t *testing.T) {
	a := host(t)
	free, refused := a.Free, 0
	a.Free = func(m backends.Memory) error {
		if refused++; refused == 1 {
			return errors.New("refused")
		}
		return free(m)
	}
	p := NewPool(a, 0)
	p.patience = time.Millisecond
	m, _, err := p.Take(nil, 64, nil)
	require.NoError(t, err)
	m.Release()
	require.Zero(t, p.Trim())
	s := p.Stats()
	require.EqualValues(t, slabBytes, s.Reserved)
	require.Equal(t, s.Reserved, s.Cached+p.slab.Bytes)
	m, _, err = p.Take(nil, 64, nil)
	require.NoError(t, err)
	require.EqualValues(t, slabBytes, p.Stats().Reserved, "another slab")
	m.Release()
	require.EqualValues(t, slabBytes, p.Trim())
}

// TestWhatTheDeviceDoesNotTakeWasUsed: neither what is cut of such a slab nor what is left
// of it passes for memory that is zero.
func TestWhatTheDeviceDoesNotTakeWasUsed(t *testing.T) {
	a := host(t)
	a.Free = func(backends.Memory) error { return errors.New("refused") }
	p := NewPool(a, 0)
	p.patience = time.Millisecond
	m, fresh, err := p.Take(nil, 64, nil)
	require.NoError(t, err)
	require.True(t, fresh)
	used := m.Addr
	m.Release()
	require.Zero(t, p.Trim())
	m, fresh, err = p.Take(nil, 64, nil)
	require.NoError(t, err)
	require.False(t, fresh)
	require.Equal(t, used, m.Addr)
	var sizes []int64
	for size := int64(64); size < largeBlock; size *= 2 {
		sizes = append(sizes, size)
	}
	for range 2 { // the second time what is left of the slab is cached
		for _, size := range sizes {
			m, err = p.Fresh(size, nil)
			require.NoError(t, err)
			require.False(t, m.Addr-used < slabBytes, "%d bytes", size)
		}
		for _, list := range p.cache {
			for _, m := range list {
				sizes = append(sizes, m.size)
			}
		}
	}
	require.Greater(t, len(sizes), 15, "nothing was left")
}

// TestSlabsAtRandom takes, gives back and trims: what is in use stays as it is, and the
// sums hold.
func TestSlabsAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := NewPool(host(t), 0)
	at := map[uintptr]*Memory{}
	for i := range 3000 {
		if r.IntN(100) < 50+40*(i/300%2) {
			m, _, err := p.Take(nil, 1+r.Int64N(1<<(1+r.IntN(19))), nil)
			require.NoError(t, err)
			require.NotContains(t, at, m.Addr)
			at[m.Addr] = m
		} else {
			for k, m := range at {
				m.Release()
				delete(at, k)
				break
			}
		}
		if i%50 == 0 {
			before := p.Stats().Reserved
			require.Equal(t, before-p.Trim(), p.Stats().Reserved)
		}
		s := p.Stats()
		require.Equal(t, s.Reserved, s.InUse+s.Cached+p.slab.Bytes)
	}
	for _, m := range at {
		m.Release()
	}
	p.Trim()
	require.Zero(t, p.Stats().Reserved)
}
