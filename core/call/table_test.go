package call

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// slow is a device whose launches cost what a test says.
type slow struct {
	backends.Device
	cost float64
}

type slowKernel struct {
	backends.Kernel
	d *slow
}

func (d *slow) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	k, err := d.Device.Compile(u, v)
	return &slowKernel{k, d}, err
}

func (k *slowKernel) Cost(*backends.Launch) float64 { return k.d.cost }

func newSlow(t *testing.T) (*slow, *Device) {
	t.Helper()
	dev, err := cpu.New(1).Open(0)
	require.NoError(t, err)
	s := &slow{Device: dev, cost: 100}
	return s, &Device{Cache: program.NewCache(s), Pool: memory.NewPool(memory.Allocator{Alloc: dev.Alloc, Free: dev.Free}, 0),
		Host: memory.NewPool(memory.Allocator{Alloc: dev.AllocHost, Free: dev.FreeHost}, 0)}
}

// vector is an operand of n contiguous elements at an address.
func vector(addr uintptr, t isa.Type, n int64) Operand {
	o := Operand{View: backends.View{Addr: addr, Bytes: n * int64(t.Size()), Type: t, Rank: 1}, Packed: true}
	o.View.Shape[0], o.View.Stride[0] = n, 1
	return o
}

// TestCostFollowsThreads chooses another number of threads: a call that was
// prepared before costs what it does with them.
func TestCostFollowsThreads(t *testing.T) {
	s, d := newSlow(t)
	table := NewTable(d, 16)
	r := &Request{Op: kernels.VectorAbs, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	cost := func() float64 {
		p, err := table.Get(r, false)
		require.NoError(t, err)
		b, err := p.Bind(d, r.Operands, nil, false)
		require.NoError(t, err)
		defer b.Release()
		return b.Cost()
	}
	require.EqualValues(t, 100, cost())
	s.cost = 25
	d.Threads.Store(4)
	require.EqualValues(t, 25, cost())
	p, err := table.Get(r, true)
	require.NoError(t, err)
	require.NotNil(t, p, "a repeated call is prepared once")
	p.Release()
	s.cost = math.Inf(1)
	d.Threads.Store(0)
	require.EqualValues(t, 100, cost(), "what was prepared for as many threads is there still")
}
