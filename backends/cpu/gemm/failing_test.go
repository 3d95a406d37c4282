package gemm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// launched is a product in memory, to be run as often as one likes.
type launched struct {
	k      *Kernel
	l      backends.Launch
	slots  [][]byte // the collector does not see them in l
	result []byte   // the last of them
	before []byte   // what is in it
}

// launchOf makes one of layouts of A, B and C, with random numbers that are f32, or bytes.
func launchOf(t *testing.T, layouts []kernels.Layout, u Units, beta float32) *launched {
	t.Helper()
	plan, err := kernels.Gemm.Whole(layouts)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 1)
	st := &plan.Steps[0]
	p := &launched{}
	p.k, err = Compile(st.Program, jit.Detect(), u, func() (jit.Program, error) { return nil, errors.New("declined") })
	require.NoError(t, err)
	p.l = backends.Launch{Grid: st.Grid, Block: st.Block, N: 1}
	for _, d := range st.Shape {
		p.l.N *= uint64(d)
	}
	r := rand.New(rand.NewPCG(61, 62))
	for i, bind := range st.Slots {
		elements := int64(1)
		for j, d := range layouts[i].Shape {
			elements += (d - 1) * layouts[i].Stride[j]
		}
		memory := make([]uint64, elements*int64(bind.Type.Size())/8+1)
		of := unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), elements*int64(bind.Type.Size()))
		for at := range memory {
			memory[at] = r.Uint64()
		}
		if size := bind.Type.Size(); bind.Type.Float() {
			for at := size - 1; at < len(of); at += size { // none is large, nor a NaN
				of[at] = of[at]&0x80 | 0x3c
			}
		}
		p.l.Slots = append(p.l.Slots, backends.View{Addr: uintptr(unsafe.Pointer(&memory[0])), Bytes: int64(len(of))})
		p.slots, p.result = append(p.slots, of), of
	}
	p.before = bytes.Clone(p.result)
	scalars := []uint64{1, uint64(beta)}
	if layouts[2].Type.Float() {
		scalars = []uint64{uint64(math.Float32bits(1)), uint64(math.Float32bits(beta))}
	}
	for _, x := range st.Params {
		if x.Scalar {
			x.Value = scalars[x.Value]
		}
		p.l.Params = append(p.l.Params, x.Value)
	}
	return p
}

// run runs it on what was there before.
func (p *launched) run(pool *workers.Pool, record *backends.Record) error {
	copy(p.result, p.before)
	p.l.Record = record
	return p.k.Run(&p.l, pool)
}

// stackOf is a stack of products' layouts of A, B and C.
func stackOf(t isa.Type, batch, m, n, k int64) []kernels.Layout {
	return []kernels.Layout{kernels.Packed(t, batch, m, k), kernels.Packed(t, batch, k, n), kernels.Packed(t, batch, m, n)}
}

func matrices(t isa.Type, m, n, k int64) []kernels.Layout {
	return []kernels.Layout{kernels.Packed(t, m, k), kernels.Packed(t, k, n), kernels.Packed(t, m, n)}
}

// turned are the layouts with some stored column by column.
func turned(l []kernels.Layout, which ...int) []kernels.Layout {
	for _, i := range which {
		n := len(l[i].Stride)
		l[i].Stride[n-1], l[i].Stride[n-2] = l[i].Shape[n-2], 1
	}
	return l
}

// apart are the layouts with the rows of B as far apart as three elements.
func apart(l []kernels.Layout) []kernels.Layout {
	l[1].Stride[0] = 3
	return l
}

// TestMemoryFails has each of the allocations of a product fail, whatever way it is done: it
// says so, or does without, and what comes next finds all in order.
func TestMemoryFails(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("no product is done by machine code: %v", err)
	}
	defer func(as func(int64) (uintptr, error)) { allocate = as }(allocate)
	for name, c := range map[string]struct {
		layouts []kernels.Layout
		beta    float32
		threads int
		units   Units
		without bool // one that is missing takes no more than time
	}{
		"blocks":                   {layouts: turned(matrices(isa.F32, 40, 70, 1030), 0, 1), beta: 1},
		"blocks that are shared":   {layouts: turned(matrices(isa.F32, 400, 700, 1030), 1), threads: 3, without: true},
		"f16":                      {layouts: turned(matrices(isa.F16, 40, 40, 600), 1), beta: 1},
		"f16 by threads":           {layouts: turned(matrices(isa.F16, 400, 700, 1030), 0), beta: 1, threads: 3, without: true},
		"rows":                     {layouts: turned(matrices(isa.F32, 3, 64, 600), 0, 1), beta: 1},
		"long sums":                {layouts: turned(matrices(isa.F32, 2, 2, 4099), 1)},
		"rows as they lie":         {layouts: matrices(isa.F32, 3, 1000, 600)},
		"a stack":                  {layouts: turned(stackOf(isa.F32, 50, 8, 8, 8), 0, 1), beta: 1},
		"a stack of f16":           {layouts: stackOf(isa.F16, 50, 8, 8, 8), beta: 1},
		"a stack of dots":          {layouts: stackOf(isa.F32, 50, 1, 1, 150)},
		"a stack of i8":            {layouts: stackOf(isa.I8, 50, 8, 8, 8), beta: 1},
		"pairs of i8":              {layouts: matrices(isa.I8, 100, 70, 600), units: Words, threads: 2},
		"a column of i8":           {layouts: apart(matrices(isa.I8, 100, 1, 600)), units: Words, beta: 1},
		"tiles of bf16":            {layouts: turned(matrices(isa.BF16, 100, 70, 600), 0), units: Tiles, beta: 1},
		"tiles of bf16 by threads": {layouts: matrices(isa.BF16, 300, 700, 600), units: Tiles, threads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Available(c.units); err != nil {
				t.Skip(err)
			}
			pool := workers.New(max(c.threads, 1))
			defer pool.Close()
			allocate = hostmem.Alloc
			p := launchOf(t, c.layouts, c.units, c.beta)
			require.NoError(t, p.run(pool, nil))
			want := bytes.Clone(p.result)
			without := false
			for fails := int64(0); ; fails++ {
				var n atomic.Int64
				Trim()
				allocate = func(bytes int64) (uintptr, error) {
					if n.Add(1)-1 == fails {
						return 0, fmt.Errorf("allocation %d: %w", fails, backends.ErrOutOfMemory)
					}
					return hostmem.Alloc(bytes)
				}
				err := p.run(pool, nil)
				allocate = hostmem.Alloc
				if err == nil {
					require.True(t, bytes.Equal(want, p.result), "allocation %d", fails)
					without = without || n.Load() > fails
				} else {
					require.ErrorIs(t, err, backends.ErrOutOfMemory)
				}
				require.NoError(t, p.run(pool, nil), "behind allocation %d", fails)
				require.True(t, bytes.Equal(want, p.result), "behind allocation %d", fails)
				if n.Load() <= fails {
					require.Positive(t, fails, "it allocates nothing")
					break
				}
			}
			require.Equal(t, c.without, without)
		})
	}
}
