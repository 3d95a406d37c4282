package core

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

func TestAllocateRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, c := range []struct {
			n    int64
			t    isa.Type
			code Code
		}{
			{0, isa.F32, Invalid}, {-1, isa.F32, Invalid}, {1, isa.Pred, BadType}, {1, 200, BadType}, {1 << 62, isa.F64, OutOfMemory},
			{1 << 52, isa.F64, OutOfMemory},
		} {
			_, err := ex.Allocate(c.n, c.t, true)
			wants(t, err, c.code, "allocate: ")
		}
	})
}

func TestBoundaryBuffers(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, c := range []struct {
			class, width, height int64
			t                    isa.Type
			code                 Code
			text                 string // of the error, or empty
		}{
			{0, 1, 1, isa.F32, OK, ""}, {95, 48, 64, isa.F32, OK, ""}, {95, 48, 32, isa.F64, OK, ""}, {95, 6, 256, isa.F64, OK, ""},
			{96, 1, 1, isa.F32, Invalid, "class_index is 96"}, {-1, 1, 1, isa.F32, Invalid, "class_index is -1"},
			{0, 49, 1, isa.U8, Invalid, "width is 49"}, {0, 0, 1, isa.U8, Invalid, "width is 0"}, {0, -1, 1, isa.U8, Invalid, "width is -1"},
			{0, 1, 257, isa.U8, Invalid, "height is 257"}, {0, 1, 0, isa.U8, Invalid, "height is 0"}, {0, -1, -1, isa.U8, Invalid, "width is -1"},
			{0, 1, -1, isa.U8, Invalid, "height is -1"}, {0, 48, 65, isa.F32, Invalid, "12480 bytes; a class has 12288"},
			{0, 48, 33, isa.F64, Invalid, "bytes; a class has 12288"}, {math.MinInt64, 1, 1, isa.U8, Invalid, "class_index"},
			{0, 1, 1, isa.Pred, BadType, "names no type"},
		} {
			b, err := ex.AllocateBoundary(c.class, c.width, c.height, c.t)
			if c.text != "" {
				wants(t, err, c.code, c.text)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.width*c.height, b.Len())
			b.Free()
		}
		all, err := ex.AllocateBoundary(95, 48, 256, isa.U8)
		require.NoError(t, err)
		small, err := ex.AllocateBoundary(95, 2, 2, isa.F32)
		require.NoError(t, err)
		if all.Class() != 95 || small.Len() != 4 || small.Layout().Addr != all.Layout().Addr || all.Layout().Bytes != isa.ClassBytes {
			t.Errorf("%+v, %+v", all, small)
		}
		require.NoError(t, wait(small.Fill(Float(1))))
		first := hostBytes(4)
		require.NoError(t, wait(all.Read(addressOf(first), 12, 4)))
		if !slices.Equal(first, []byte{0, 0, 0x80, 0x3f}) {
			t.Errorf("got %v", first)
		}
		// What sees a class keeps to it, however it came about.
		b, err := ex.AllocateBoundary(7, 2, 2, isa.F32)
		require.NoError(t, err)
		for range 2 {
			for _, offset := range []int64{-1, isa.ClassBytes / 4} {
				_, err = b.View(offset, []int64{1}, nil)
				wants(t, err, Invalid, "reach outside the buffer's 12288 bytes")
			}
			b, err = b.View(0, []int64{3}, nil)
			require.NoError(t, err)
			require.Equal(t, 7, b.Class())
		}
	})
}

// TestOneBoundaryPool has several goroutines be the first to want the pool, which is
// the executor's then, whoever frees what.
func TestOneBoundaryPool(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for range 20 {
			ex, err := ex.device.NewExecutor()
			require.NoError(t, err)
			var group sync.WaitGroup
			begin := make(chan struct{})
			var buffers [8]*Buffer
			for class := range buffers {
				group.Go(func() {
					<-begin
					b, err := ex.AllocateBoundary(int64(class), 1, 1, isa.U8)
					if err != nil {
						t.Error(err)
					}
					buffers[class] = b
				})
			}
			close(begin)
			group.Wait()
			used := ex.Used()
			require.LessOrEqual(t, used, int64(isa.BoundaryBytes*9/8), "there is one")
			for _, b := range buffers {
				b.Free()
			}
			require.Equal(t, used, ex.Used())
			mem := ex.boundary
			require.True(t, mem.Acquire(), "it is still there")
			mem.Release()
			again, err := ex.AllocateBoundary(3, 1, 1, isa.U8)
			require.NoError(t, err)
			require.Equal(t, mem, again.mem)
			require.Equal(t, used, ex.Used())
			require.NoError(t, ex.Close())
			require.Zero(t, ex.Used())
		}
	})
}

func TestReadAndWriteWindows(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		b := floats(t, ex, 1, 2, 3)
		data := hostBytes(12)
		for _, c := range [][2]int64{{0, 13}, {1, 12}, {-1, 4}, {13, 0}, {0, -1}, {1 << 62, 1 << 62}} {
			_, err := b.Read(addressOf(data), c[0], c[1])
			wants(t, err, Invalid, "read: ")
			_, err = b.Write(addressOf(data), c[0], c[1])
			wants(t, err, Invalid, "write: ")
		}
		data[0] = 0xAA
		require.NoError(t, wait(b.Read(addressOf(data), 12, 0)))
		require.NoError(t, wait(b.Read(addressOf(data), 0, 0)))
		require.Equal(t, byte(0xAA), data[0], "nothing was read")
		strided, err := b.View(0, []int64{2}, []int64{2})
		require.NoError(t, err)
		_, err = strided.Read(addressOf(data), 0, 4)
		wants(t, err, Invalid, "strided view")
		runtime.KeepAlive(data)
	})
}

func TestViews(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		b := floats(t, ex, 0, 1, 2, 3, 4, 5)
		for _, c := range []struct {
			offset        int64
			shape, stride []int64
			text          string
		}{
			{0, []int64{7}, nil, "reach outside"}, {6, []int64{1}, nil, "reach outside"}, {-1, []int64{1}, nil, "reach outside"},
			{0, []int64{2}, []int64{6}, "reach outside"}, {0, []int64{2}, []int64{-1}, "reach outside"},
			{0, []int64{2, 2}, []int64{1}, "1 strides for 2 dimensions"}, {0, []int64{-1}, nil, "negative"},
			{0, make([]int64, 9), nil, "9 dimensions"}, {0, []int64{1 << 40, 1 << 40}, nil, "more elements"},
			{0, []int64{2}, []int64{1 << 62}, "beyond any memory"}, {1 << 60, []int64{1}, nil, "outside"}, {math.MinInt64, []int64{1}, nil, "outside"},
			{math.MaxInt64, []int64{1}, nil, "outside"}, {0, []int64{2}, []int64{math.MinInt64}, "beyond any memory"},
		} {
			_, err := b.View(c.offset, c.shape, c.stride)
			wants(t, err, Invalid, c.text)
		}
		v, err := b.View(5, []int64{2, 3}, []int64{-1, -2})
		require.NoError(t, err)
		if v.Contiguous() || v.Len() != 6 {
			t.Errorf("%+v", v.Layout())
		}
		empty, err := b.View(6, []int64{0}, nil)
		require.NoError(t, err)
		require.NoError(t, wait(empty.Fill(Float(3))))
		if n := b.mem.Users(); n != 3 {
			t.Errorf("the memory has %d users, expected 3", n)
		}
		b.Free()
		b.Free()
		_, err = b.View(0, []int64{1}, nil)
		wants(t, err, BadHandle, "freed")
		_, err = b.Lease()
		wants(t, err, BadHandle, "freed")
	})
}

func TestWrap(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	memory, deleted := hostBytes(64), 0
	addr := addressOf(memory)
	for _, c := range []struct {
		addr          uintptr
		t             isa.Type
		shape, stride []int64
		code          Code
		text          string
	}{
		{0, isa.F32, []int64{1}, nil, Invalid, "null"}, {addr + 1, isa.F32, []int64{1}, nil, Invalid, "multiple of 4"},
		{addr, isa.Pred, []int64{1}, nil, BadType, "no type"}, {addr, isa.F32, []int64{2}, []int64{-(1 << 60)}, Invalid, "beyond any memory"},
	} {
		_, err := ex.Wrap(c.addr, c.t, c.shape, c.stride, false, func() { deleted++ })
		wants(t, err, c.code, c.text)
	}
	none, err := ex.Wrap(0, isa.F32, []int64{0}, nil, false, nil) // as what is empty may be
	require.NoError(t, err)
	none.Free()
	b, err := ex.Wrap(addr, isa.F32, []int64{2, 3}, nil, false, func() { deleted++ })
	require.NoError(t, err)
	require.NoError(t, wait(b.Fill(Float(1))))
	if memory[23] != 0x3f || memory[24] != 0 {
		t.Errorf("memory is %v", memory)
	}
	lease, err := b.Lease()
	require.NoError(t, err)
	b.Free()
	if deleted != 0 {
		t.Error("deleted while leased")
	}
	lease.Release()
	if deleted != 1 {
		t.Errorf("deleted %d times", deleted)
	}
	readOnly, err := ex.Wrap(addr, isa.F32, []int64{4}, nil, true, nil)
	require.NoError(t, err)
	_, err = readOnly.Fill(Float(0))
	wants(t, err, Invalid, "read-only")
	_, err = readOnly.Write(addr, 0, 4)
	wants(t, err, Invalid, "read-only")
	_, err = readOnly.CopyFrom(readOnly)
	wants(t, err, Invalid, "read-only")
	part, err := readOnly.View(1, []int64{2}, nil)
	require.NoError(t, err)
	if !part.ReadOnly() {
		t.Error("a view of read-only memory is not read-only")
	}
	runtime.KeepAlive(memory)
}

// TestRefusalsHoldNothing frees what was refused: all memory comes back.
func TestRefusalsHoldNothing(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		other := executorOn(t, asyncDevice(t, asynctest.Options{}))
		p := assemble(t, "program p\nslot a f32\nslot c f32\nldg.f32 x, a[index]\nstg.f32 x, c[index]\nexit")
		for name, refused := range map[string]func(here, there, freed *Buffer) error{
			"view beside a strided parent": func(here, _, _ *Buffer) error {
				parent, err := here.View(0, []int64{2}, []int64{2})
				require.NoError(t, err)
				defer parent.Free()
				_, err = parent.View(0, []int64{2}, []int64{1})
				return err
			},
			"view outside":          func(here, _, _ *Buffer) error { _, err := here.View(1, []int64{3}, nil); return err },
			"view of no shape":      func(here, _, _ *Buffer) error { _, err := here.View(0, []int64{-1}, nil); return err },
			"view of no offset":     func(here, _, _ *Buffer) error { _, err := here.View(1<<60, []int64{1}, nil); return err },
			"read outside":          func(here, _, _ *Buffer) error { return wait(here.Read(0, 8, 8)) },
			"copy to freed":         func(here, _, freed *Buffer) error { return wait(freed.CopyFrom(here)) },
			"copy to freed, across": func(_, there, freed *Buffer) error { return wait(freed.CopyFrom(there)) },
			"copy of freed, across": func(_, there, freed *Buffer) error { return wait(there.CopyFrom(freed)) },
			"operation on another device": func(here, there, _ *Buffer) error {
				return wait(ex.Op("vector_add", []*Buffer{here, here, there}, nil, nil))
			},
			"operation on freed": func(here, _, freed *Buffer) error {
				return wait(ex.Op("vector_add", []*Buffer{here, here, freed}, nil, nil))
			},
			"operation of other sizes": func(here, _, _ *Buffer) error {
				return wait(ex.Op("vector_add", []*Buffer{here, here, here}, nil, []int64{4}))
			},
			"operation of a number out of range": func(here, _, _ *Buffer) error {
				return wait(ex.Op("scalar_add", []*Buffer{here, here}, []Scalar{Float(1e300)}, nil))
			},
			"launch on another device": func(here, there, _ *Buffer) error {
				return wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{here, there}}))
			},
		} {
			here, there, freed := floats(t, ex, 1, 2, 3), floats(t, other, 1, 2, 3), floats(t, ex, 1, 2, 3)
			freed.Free()
			require.Error(t, refused(here, there, freed), name)
			here.Free()
			there.Free()
			require.Zero(t, ex.Used(), name)
			require.Zero(t, other.Used(), name)
		}
	})
}

func TestCopies(t *testing.T) {
	host := executorOn(t, testDevices(t)["cpu"])
	first := executorOn(t, asyncDevice(t, asynctest.Options{}))
	second := executorOn(t, asyncDevice(t, asynctest.Options{}))
	executors := []*Executor{host, first, second}
	for _, from := range executors {
		for _, to := range executors {
			src, dst := floats(t, from, 1, 2, 3), floats(t, to, 0, 0, 0)
			require.NoError(t, wait(dst.CopyFrom(src)))
			require.NoError(t, wait(dst.CopyFrom(dst)))
			if got := values(t, dst); !slices.Equal(got, []float32{1, 2, 3}) {
				t.Errorf("%s to %s: got %v", from.device.Name, to.device.Name, got)
			}
			short, err := to.Allocate(2, isa.F32, true)
			require.NoError(t, err)
			_, err = short.CopyFrom(src)
			wants(t, err, Invalid, "sizes must be equal")
			ints, err := to.Allocate(3, isa.I32, true)
			require.NoError(t, err)
			_, err = ints.CopyFrom(src)
			wants(t, err, BadType, "dtype")
			view, err := dst.View(0, []int64{3}, []int64{0})
			require.NoError(t, err)
			if from.device != to.device {
				_, err = view.CopyFrom(src)
				wants(t, err, Invalid, "strided")
			}
			src.Free()
			_, err = dst.CopyFrom(src)
			wants(t, err, BadHandle, "freed")
		}
	}
}

func TestLimitsAndStatistics(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	ex := executorOn(t, d)
	b, err := ex.Allocate(1<<20, isa.F32, false)
	require.NoError(t, err)
	wants(t, d.SetMemoryLimit(1<<20), Invalid, "below the 4 MiB in use")
	require.NoError(t, d.SetMemoryLimit(6<<20))
	_, err = ex.Allocate(1<<20, isa.F32, false)
	wants(t, err, OutOfMemory, "limit of 6 MiB, of which 4 MiB is taken")
	b.Free()
	if _, err = ex.Allocate(5<<18, isa.F32, false); err != nil { // after the cached 4 MiB went back
		t.Error(err)
	}
	wants(t, ex.SetQuota(-1), Invalid, "-1")
	require.NoError(t, ex.SetQuota(1<<30))
	if ex.Quota() != 1<<30 || ex.Device() != d || phase(t, ex) != 0 || d.Trim() != 0 {
		t.Error("an executor does not say what it is")
	}
}

// TestViewsStayInTheirClass cuts views of boundary buffers: none reaches another class.
// A view sees elements of what it was made of alone, never what lies between them,
// through however many views: each keeps to the nearest above it that has gaps.
func TestViewsOfViewsSeeNothingBetween(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const n = 96
		whole := floats(t, ex, make([]float32, n)...)
		r := rand.New(rand.NewPCG(5, 6))
		made, between := [4]int{}, [4]int{} // at each depth
		for range 400 {
			v, at, step := whole, int64(0), int64(1)
			var sees []int64 // nil: all
			for depth := range made {
				next, first, many := 1+r.Int64N(8), r.Int64N(4), 2+r.Int64N(12>>depth)
				if r.IntN(3) > 0 {
					next, first = step*(1+r.Int64N(2)), step*r.Int64N(2)
				}
				var elements []int64
				ok, outside := true, false
				for i := range many {
					e := at + first + i*next
					elements = append(elements, e)
					outside = outside || e >= n
					ok = ok && (sees == nil || slices.Contains(sees, e))
				}
				w, err := v.View(first, []int64{many}, []int64{next})
				switch {
				case outside:
					wants(t, err, Invalid, "reach outside")
					continue
				case !ok:
					wants(t, err, Invalid, "between the elements")
					between[depth]++
					continue
				}
				require.NoError(t, err, "%v of %v", elements, sees)
				defer w.Free()
				v, at, step = w, elements[0], next
				if next > 1 {
					sees = elements
				}
				made[depth]++
			}
		}
		for depth := range made {
			if made[depth] < 40 || depth > 0 && between[depth] < 40 {
				t.Fatalf("%d views made and %d refused at the depths", made, between)
			}
		}
	})
}

func TestViewsStayInTheirClass(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, class := range []int64{0, 2, isa.NumClasses - 1} {
			b, err := ex.AllocateBoundary(class, 4, 4, isa.U8)
			require.NoError(t, err)
			for _, c := range []struct {
				offset int64
				shape  []int64
				ok     bool
			}{{0, []int64{isa.ClassBytes}, true}, {isa.ClassBytes - 1, []int64{1}, true}, {isa.ClassBytes, []int64{1}, false},
				{-1, []int64{1}, false}, {1, []int64{isa.ClassBytes}, false}} {
				_, err := b.View(c.offset, c.shape, nil)
				if c.ok {
					require.NoError(t, err)
				} else {
					wants(t, err, Invalid, "reach outside the buffer's 12288 bytes")
				}
			}
		}
	})
}

// TestAFreedBufferIsNobodyElses uses a buffer after it was freed, whose memory, and
// what counts that, is another buffer's by then.
func TestAFreedBufferIsNobodyElses(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		old, err := ex.Allocate(4, isa.F32, true)
		require.NoError(t, err)
		old.Free()
		now := floats(t, ex, 1, 2, 3, 4)
		require.Same(t, old.mem, now.mem, "the memory comes again")
		room := hostBytes(16)
		for name, use := range map[string]func() error{
			"view":        func() error { _, err := old.View(0, []int64{2}, nil); return err },
			"export":      func() error { _, err := old.Lease(); return err },
			"read":        func() error { return wait(old.Read(addressOf(room), 0, 16)) },
			"write":       func() error { return wait(old.Write(addressOf(room), 0, 16)) },
			"synchronize": func() error { return wait(old.Synchronize()) },
			"fill":        func() error { return wait(old.Fill(Float(0))) },
			"copy":        func() error { return wait(old.CopyFrom(now)) },
			"free":        func() error { old.Free(); return wait(old.Synchronize()) },
		} {
			users := now.mem.Users()
			wants(t, use(), BadHandle, "the buffer is freed")
			require.Equal(t, users, now.mem.Users(), name)
		}
		require.Equal(t, []float32{1, 2, 3, 4}, values(t, now))
		now.Free()
		require.Zero(t, ex.Used())
	})
}

// TestAFreedBufferIsNobodyElsesInTime writes to buffers and makes views of them from
// another goroutine while they are freed and their memory becomes another's, which
// stays as it was.
func TestAFreedBufferIsNobodyElsesInTime(t *testing.T) {
	d, err := DeviceFor("cpu")
	require.NoError(t, err)
	ex := executorOn(t, d)
	var shown atomic.Pointer[Buffer]
	var done atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		nines := []byte{9, 9, 9, 9, 9, 9, 9, 9}
		for !done.Load() {
			if b := shown.Load(); b != nil {
				_ = wait(b.Write(addressOf(nines), 0, 8))
				if v, err := b.View(1, []int64{1}, nil); err == nil {
					v.Free()
				}
			}
		}
	})
	for i := range 2000 {
		b, err := ex.Allocate(2, isa.F32, true)
		require.NoError(t, err)
		shown.Store(b)
		if i%8 == 0 {
			runtime.Gosched()
		}
		b.Free()
		mine, err := ex.Allocate(2, isa.F32, true)
		require.NoError(t, err)
		require.Equal(t, []float32{0, 0}, values(t, mine))
		mine.Free()
	}
	done.Store(true)
	group.Wait()
	require.Zero(t, ex.Used())
}
