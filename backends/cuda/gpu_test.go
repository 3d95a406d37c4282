package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

func flat(n int) [3]uint32 { return [3]uint32{uint32(n), 1, 1} }

// Atomics and plain accesses at addresses that the machine cannot take as such.
func TestMisalignedAccesses(t *testing.T) {
	device(t)
	for _, typ := range []isa.Type{isa.I32, isa.U32, isa.I64, isa.U64} {
		for _, op := range []string{"add", "min", "max", "and", "or", "xor"} {
			for at := range 9 {
				for _, space := range []string{"out", "shared"} {
					memory := "atom_" + op
					text := fmt.Sprintf(`
slot out u8
slot x u64
shared 64
  ldg.u64 v, x[index]
  cvt.%[1]v.u64 v, v
  mov.i64 at, %[2]d
  %[3]s.%[1]v old, %[4]s[at], v
  bar_sync 0
  sreg l, lane.x
  set.ne.u32 p, l, 0
  bra end, p
  lds.u64 a, shared[at]
  lds.u32 b, shared[at + 9]
  stg.u64 a, out[at + 19]
  stg.u32 b, out[at + 37]
end:
  exit`, typ, at, memory, space)
					r := &run{grid: flat(1), block: flat(70), shape: []int64{70}, text: text,
						slots: []slotData{{bytes: numbers(40, false)}, {bytes: numbers(140, false)}}}
					r.compare(t)
				}
			}
		}
	}
}

// Blocks and grids of any shape, beyond what the driver takes of each axis.
func TestShapesOfBlocksAndGrids(t *testing.T) {
	device(t)
	text := `
slot out u32
  sreg v, lane.x
  sreg t, lane.y
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, lane.z
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, block.x
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, block.y
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, block.z
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, block_dim.y
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg t, grid_dim.z
  mul.u32 v, v, 31
  add.u32 v, v, t
  sreg g, global_lane
  cvt.u32.u64 g, g
  mul.u32 v, v, 31
  add.u32 v, v, g
  cls_get c
  cvt.u32.u8 c, c
  add.u32 v, v, c
  stg.u32 v, out[index]
  exit`
	for _, c := range []struct{ grid, block [3]uint32 }{
		{[3]uint32{3, 4, 5}, [3]uint32{5, 3, 2}},
		{[3]uint32{2, 1, 1}, [3]uint32{1, 1, 1024}},
		{[3]uint32{2, 1, 1}, [3]uint32{1, 1024, 1}},
		{[3]uint32{1, 70000, 1}, [3]uint32{2, 1, 1}},
		{[3]uint32{1, 1, 140000}, [3]uint32{1, 1, 1}},
		{[3]uint32{200, 2, 2}, [3]uint32{7, 1, 1}},
	} {
		n := int64(c.grid[0]) * int64(c.grid[1]) * int64(c.grid[2]) * int64(c.block[0]) * int64(c.block[1]) * int64(c.block[2])
		for _, n := range []int64{n, n - 1, n/2 + 1} {
			r := &run{grid: c.grid, block: c.block, shape: []int64{n}, text: text, slots: []slotData{{bytes: make([]byte, 4*n)}}}
			r.compare(t)
		}
	}
}

// The most shared memory beside the widest collective.
func TestMostSharedMemory(t *testing.T) {
	device(t)
	r := &run{grid: flat(2), block: flat(1024), shape: []int64{2000}, text: `
slot x f64
slot out f64
shared 49152
  ldg.f64 v, x[index]
  sreg l, lane.x
  mul.u32 l, l, 48
  lds.f64 z, shared[l + 8]
  sts.f64 v, shared[l + 40]
  bar_sync 0
  sub.u32 m, 49104, l
  lds.f64 w, shared[m + 40]
  add.f64 w, w, z
  block_scan_add.f64 w, w
  block_scan_add.f64 z, z
  add.f64 w, w, z
  stg.f64 w, out[index]
  exit`, slots: []slotData{{bytes: numbers(4000, true)}, {bytes: numbers(4000, true)}}}
	r.compare(t)
}

// A launch block beyond what old drivers take, and views of every rank.
func TestManySlots(t *testing.T) {
	device(t)
	for rank := 1; rank <= isa.MaxRank; rank++ {
		shape, n := make([]int64, rank), int64(1)
		for k := range shape {
			shape[k] = int64(2 + (k+rank)%3)
			n *= shape[k]
		}
		var b strings.Builder
		r := &run{shape: shape, block: flat(64), grid: flat(int(n+63) / 64)}
		for i := range 63 {
			fmt.Fprintf(&b, "slot s%d u32\n", i)
			s := slotData{bytes: numbers(int(4*n), false), strides: make([]int64, rank)}
			stride := int64(1)
			for k := range rank { // dimensions in another order for each slot
				d := (k*5 + i) % rank
				if rank%5 == 0 {
					d = (k + i) % rank
				}
				s.strides[d] = stride
				stride *= shape[d]
			}
			if i%3 == 1 { // broadcast along one
				s.strides[i%rank] = 0
			}
			if i%4 == 2 { // and backward along another
				d := (i + 1) % rank
				s.at = int(4 * (shape[d] - 1) * s.strides[d])
				s.strides[d] *= -1
			}
			r.slots = append(r.slots, s)
		}
		b.WriteString("slot out u32\n mov.u32 v, 1\n")
		for i := range 63 {
			fmt.Fprintf(&b, " ldg.u32 x, s%d[index]\n mul.u32 v, v, 31\n add.u32 v, v, x\n", i)
		}
		b.WriteString(" stg.u32 v, out[index]\n exit\n")
		r.slots = append(r.slots, slotData{bytes: make([]byte, 4*n)})
		r.text = b.String()
		r.compare(t)
	}
}

// Slots by number, one that does not exist among them, and stray offsets.
func TestHandles(t *testing.T) {
	device(t)
	r := &run{grid: flat(1), block: flat(64), shape: []int64{64}, text: `
slot a u32
slot b u32
slot out u32
  sreg l, lane.x
  rem.u32 h, l, 2
  mul.u32 h, h, 3
  cvt.i64.u32 h, h
  mul.u32 o, l, 5
  cvt.i64.u32 o, o
  sub.i64 o, o, 9
  ldg.u32 v, @h[o + 2]
  mul.u32 l, l, 4
  stg.u32 v, out[l]
  exit`, slots: []slotData{{bytes: numbers(40, false)}, {bytes: numbers(64, false)}, {bytes: numbers(64, false)}}}
	got := r.compare(t)
	var f *backends.ProgramFault
	require.ErrorAs(t, got.err, &f)
}

// opened is a device with a stream and a kernel.
func opened(t testing.TB, text string) (backends.Device, backends.Stream, backends.Kernel) {
	d, err := cuda.New().Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	v := verified(t, text)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
	require.NoError(t, err)
	t.Cleanup(func() {
		k.Release()
		require.NoError(t, s.Close())
		require.NoError(t, d.Close())
	})
	return d, s, k
}

// More lanes than 32 bits count, flat and in rows.
func TestMoreThanFourBillionLanes(t *testing.T) {
	device(t)
	d, s, k := opened(t, `
slot out u8
  sreg g, global_lane
  mul.u64 g, g, 0x9e3779b97f4a7c15
  shr.u64 g, g, 56
  cvt.u8.u64 v, g
  stg.u8 v, out[index]
  exit`)
	const rows, cols = 65600, 65537
	m, err := d.Alloc(rows * (cols + 3))
	if err != nil {
		t.Skipf("no memory for it: %v", err)
	}
	defer func() { require.NoError(t, d.Free(m)) }()
	for _, pitch := range []int64{cols, cols + 3} {
		l := &backends.Launch{Rank: 2, Shape: [isa.MaxRank]int64{rows, cols}, N: rows * cols,
			Grid: flat((rows*cols + 1023) / 1024), Block: flat(1024)}
		l.Slots = []backends.View{{Addr: m.Addr, Type: isa.U8, Rank: 2, Shape: l.Shape, Stride: [isa.MaxRank]int64{pitch, 1}}}
		require.NoError(t, settle(t, s)(s.Launch(k, l)))
		got := host(t, d, cols)
		for _, row := range []int64{0, 1, 65534, 65535, 65536, 65537, rows - 1} {
			require.NoError(t, settle(t, s)(s.Copy(address(got), m.Addr+uintptr(row*pitch), cols)))
			for c := range int64(cols) {
				if want := byte(uint64(row*cols+c) * 0x9e3779b97f4a7c15 >> 56); got[c] != want {
					t.Fatalf("pitch %d, row %d, column %d: %d, want %d", pitch, row, c, got[c], want)
				}
			}
		}
	}
}

// Several threads with a stream each, launches in flight on all.
func TestStreamsAtOnce(t *testing.T) {
	device(t)
	const n, threads, launches = 100_000, 8, 50
	d, _, k := opened(t, `
slot a u32
param step u32
  ldp.u32 step, step
  ldg.u32 v, a[index]
  mul.u32 v, v, 3
  add.u32 v, v, step
  stg.u32 v, a[index]
  exit`)
	var wait sync.WaitGroup
	for thread := range threads {
		wait.Go(func() {
			s, err := d.NewStream()
			require.NoError(t, err)
			m, err := d.Alloc(4 * n)
			require.NoError(t, err)
			var last backends.Ticket
			want := uint32(0)
			for i := range launches {
				l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{n}, N: n, Grid: flat((n + 255) / 256), Block: flat(256),
					Params: []uint64{uint64(thread*1000 + i)}}
				l.Slots = []backends.View{{Addr: m.Addr, Type: isa.U32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}}}
				last, err = s.Launch(k, l)
				require.NoError(t, err)
				want = want*3 + uint32(thread*1000+i)
			}
			require.NoError(t, settle(t, s)(last, nil))
			require.Equal(t, last, s.Passed())
			got := host(t, d, 4*n)
			require.NoError(t, settle(t, s)(s.Copy(address(got), m.Addr, 4*n)))
			for i := range n {
				v := uint32(got[4*i]) | uint32(got[4*i+1])<<8 | uint32(got[4*i+2])<<16 | uint32(got[4*i+3])<<24
				if v != want {
					t.Errorf("thread %d: element %d is %d, want %d", thread, i, v, want)
					break
				}
			}
			require.NoError(t, d.Free(m))
			require.NoError(t, s.Close())
		})
	}
	wait.Wait()
}

// Fills of every size, and a stream that waits for another's ticket.
func TestFillsAndAwait(t *testing.T) {
	device(t)
	d, s, _ := opened(t, "slot a u8\n ldg.u8 x, a[index]\n stg.u8 x, a[index]\n exit")
	other, err := d.NewStream()
	require.NoError(t, err)
	m, err := d.Alloc(1 << 20)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(m)) }()
	got := host(t, d, 1<<20)
	for _, size := range []int{1, 2, 4, 8} {
		for _, cell := range []uint64{0, 0x0123456789abcdef, 0xfedcba98fedcba98} {
			last, err := s.Fill(m.Addr, 0x11, 1, 1<<20)
			require.NoError(t, err)
			require.NoError(t, other.Await(s, last))
			last, err = other.Fill(m.Addr+8, cell, size, 1001)
			require.NoError(t, err)
			require.NoError(t, s.Await(other, last))
			require.NoError(t, settle(t, s)(s.Copy(address(got), m.Addr, 1<<20)))
			for i, b := range got {
				want := byte(0x11)
				if i >= 8 && i < 8+1001*size {
					want = byte(cell >> (8 * ((i - 8) % size)))
				}
				if b != want {
					t.Fatalf("fill of %d bytes with %#x: byte %d is %#x, want %#x", size, cell, i, b, want)
				}
			}
		}
	}
	_, err = s.Fill(m.Addr, 0, 3, 1)
	require.ErrorContains(t, err, "3 bytes")
	require.NoError(t, other.Close())
}

// The legacy default stream, which others own, can be wrapped.
func TestWrappedStream(t *testing.T) {
	device(t)
	d, _, _ := opened(t, "slot a u8\n ldg.u8 x, a[index]\n stg.u8 x, a[index]\n exit")
	s, err := d.WrapStream(driver.StreamLegacy)
	require.NoError(t, err)
	got := host(t, d, 64)
	ticket, err := s.Fill(address(got), 7, 1, 64)
	require.NoError(t, settle(t, s)(ticket, err))
	require.Equal(t, byte(7), got[63])
	require.NoError(t, s.Close())
}

// Captured work runs at each replay, on any stream, reads and writes Record and
// Phase as they are then, and memory comes and goes meanwhile.
func TestGraphs(t *testing.T) {
	device(t)
	d, s, k := opened(t, `
slot a u32
slot c u32
  ldg.u32 x, a[index]
  add.u32 x, x, 1
  stg.u32 x, a[index]
  div.u32 y, 1000, x
  stg.u32 y, c[index]
  res_accum 5, 2
  phase_adv 3
  exit`)
	other, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	const n = 1000
	m, err := d.Alloc(8 * n)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(m)) }()
	notes := host(t, d, int(unsafe.Sizeof(backends.Record{}))+8)
	record := (*backends.Record)(unsafe.Pointer(unsafe.SliceData(notes)))
	phase := (*uint32)(unsafe.Add(unsafe.Pointer(record), unsafe.Sizeof(*record)))
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{n}, N: n, Grid: flat(4), Block: flat(256), Record: record, Phase: phase}
	for i := range 2 {
		l.Slots = append(l.Slots, backends.View{Addr: m.Addr + uintptr(4*n*i), Type: isa.U32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	*phase = 10
	out := host(t, d, 4*n)
	require.NoError(t, settle(t, s)(s.Launch(k, l)))
	require.Equal(t, uint32(13), *phase)
	c := s.(backends.Capturer)
	require.NoError(t, c.BeginCapture())
	ticket, err := s.Fill(m.Addr+4*n, 0x77, 4, n)
	require.NoError(t, err)
	require.Zero(t, ticket)
	_, err = s.Launch(k, l)
	require.NoError(t, err)
	_, err = s.Copy(address(out), m.Addr+4*n, 4*n)
	require.NoError(t, err)
	extra, err := d.Alloc(1 << 16)
	require.NoError(t, err)
	require.NoError(t, d.Free(extra))
	require.NoError(t, settle(t, other)(other.Fill(m.Addr, 0xffff_fffd, 4, n)))
	g, err := c.EndCapture()
	require.NoError(t, err)
	require.Equal(t, uint32(13), *phase, "a capture ran")
	for i, on := range []backends.Stream{s, other, s, s} {
		record.Fault = 0
		require.NoError(t, settle(t, on)(g.Replay(on)))
		x := uint32(0xffff_fffd) + uint32(i) + 1
		var f *backends.ProgramFault
		if x == 0 {
			require.ErrorAs(t, record.Outcome(), &f)
		} else {
			require.NoError(t, record.Outcome())
			require.Equal(t, 1000/x, binary.LittleEndian.Uint32(out[4*(n-1):]))
		}
		require.Equal(t, uint64(2*n*(i+2)), record.Residue[5])
		require.Equal(t, uint32(13+3*(i+1)), *phase)
	}
	g.Release()
}

// Bad PTX, memory that is not there and misaligned views are refused in words.
func TestRefusals(t *testing.T) {
	device(t)
	d, s, k := opened(t, "slot a f32\n ldg.f32 x, a[index]\n stg.f32 x, a[index]\n exit")
	_, err := d.Alloc(1 << 50)
	require.ErrorIs(t, err, backends.ErrOutOfMemory)
	require.ErrorContains(t, err, "1125899906842624 bytes")
	m, err := d.Alloc(64)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(m)) }()
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{4}, N: 4, Grid: flat(1), Block: flat(32)}
	l.Slots = []backends.View{{Addr: m.Addr + 2, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}}}
	_, err = s.Launch(k, l)
	require.ErrorContains(t, err, "slot 0: address")
	l.Slots[0].Addr = m.Addr
	l.Block = flat(2048)
	_, err = s.Launch(k, l)
	require.ErrorContains(t, err, "2048 lanes; at most 1024")
	_, err = cuda.New().Open(1000)
	require.ErrorContains(t, err, "open device 1000")
}

// bandwidth measures element-wise work on f32 beyond the caches.
func bandwidth(b *testing.B, text string, arrays int) {
	device(b)
	const n = 1 << 27
	d, s, k := opened(b, text)
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{n}, N: n, Grid: flat(n / 256), Block: flat(256)}
	for range arrays {
		m, err := d.Alloc(4 * n)
		require.NoError(b, err)
		defer func() { require.NoError(b, d.Free(m)) }()
		l.Slots = append(l.Slots, backends.View{Addr: m.Addr, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	require.NoError(b, settle(b, s)(s.Launch(k, l)))
	b.SetBytes(int64(4 * n * arrays))
	var last backends.Ticket
	for b.Loop() {
		for range 20 {
			e, err := s.Launch(k, l)
			require.NoError(b, err)
			last = e
		}
		for s.Passed() < last { // to the microsecond, which Wait is not
		}
	}
	per := b.Elapsed().Seconds() / float64(b.N) / 20
	b.ReportMetric(float64(4*n*arrays)/per/1e9, "GB/s")
	b.SetBytes(0)
	require.False(b, math.IsInf(per, 0))
}

func BenchmarkAdd(b *testing.B) {
	bandwidth(b, "slot a f32\nslot b f32\nslot c f32\n ldg.f32 x, a[index]\n ldg.f32 y, b[index]\n add.f32 x, x, y\n stg.f32 x, c[index]\n exit", 3)
}

func BenchmarkCopy(b *testing.B) {
	bandwidth(b, "slot a f32\nslot c f32\n ldg.f32 x, a[index]\n stg.f32 x, c[index]\n exit", 2)
}

func BenchmarkSigmoid(b *testing.B) {
	bandwidth(b, "slot a f32\nslot c f32\n ldg.f32 x, a[index]\n neg.f32 x, x\n exp.f32 x, x\n add.f32 x, x, 1.0\n div.f32 x, 1.0, x\n stg.f32 x, c[index]\n exit", 2)
}

// BenchmarkCompile is the time for a program that the driver has not seen.
func BenchmarkCompile(b *testing.B) {
	device(b)
	for name, backend := range map[string]*cuda.Backend{"one": cuda.New(), "many": cuda.NewEager()} {
		b.Run(name, func(b *testing.B) {
			d, err := backend.Open(0)
			require.NoError(b, err)
			defer func() { require.NoError(b, d.Close()) }()
			s, err := d.NewStream()
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			m, err := d.Alloc(4 << 20)
			require.NoError(b, err)
			defer func() { require.NoError(b, d.Free(m)) }()
			n := 0
			for b.Loop() {
				n++
				v := verified(b, fmt.Sprintf("slot a f32\n ldg.f32 x, a[index]\n exp.f32 x, x\n add.f32 x, x, %d.5\n stg.f32 x, a[index]\n exit", n))
				f, _, err := ir.Canonical(v)
				require.NoError(b, err)
				k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{})
				require.NoError(b, err)
				l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{1 << 20}, N: 1 << 20, Grid: flat(4096), Block: flat(256)}
				l.Slots = []backends.View{{Addr: m.Addr, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}}}
				require.NoError(b, settle(b, s)(s.Launch(k, l)))
				k.Release()
			}
		})
	}
}

func BenchmarkExp(b *testing.B) {
	bandwidth(b, "slot a f32\nslot c f32\n ldg.f32 x, a[index]\n exp.f32 x, x\n stg.f32 x, c[index]\n exit", 2)
}

// BenchmarkLaunch is the host's time for a launch of a small kernel.
func BenchmarkLaunch(b *testing.B) {
	device(b)
	d, s, k := opened(b, "slot a f32\nslot c f32\n ldg.f32 x, a[index]\n stg.f32 x, c[index]\n exit")
	m, err := d.Alloc(8192)
	require.NoError(b, err)
	defer func() { require.NoError(b, d.Free(m)) }()
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{1024}, N: 1024, Grid: flat(4), Block: flat(256)}
	for i := range 2 {
		l.Slots = append(l.Slots, backends.View{Addr: m.Addr + uintptr(4096*i), Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	measure := func(b *testing.B) {
		var spent time.Duration
		for b.Loop() {
			var last backends.Ticket
			start := time.Now()
			for range 100 {
				if last, err = s.Launch(k, l); err != nil {
					b.Fatal(err)
				}
			}
			spent += time.Since(start)
			require.NoError(b, settle(b, s)(last, nil))
		}
		b.ReportMetric(spent.Seconds()/float64(b.N)/100*1e6, "µs/launch")
	}
	b.Run("no context", measure)
	b.Run("current context", func(b *testing.B) { // as in a thread of PyTorch's
		api, err := driver.Load()
		require.NoError(b, err)
		entered(b, api)
		measure(b)
	})
}

// entered makes device 0's context current on this thread, until the test's end.
func entered(t testing.TB, api *driver.API) {
	t.Helper()
	c := new(driver.Context)
	require.Zero(t, api.PrimaryRetain(c, 0))
	runtime.LockOSThread()
	require.Zero(t, api.CtxPush(*c))
	t.Cleanup(func() {
		require.Zero(t, api.CtxPop(c))
		runtime.UnlockOSThread()
		require.Zero(t, api.PrimaryRelease(0))
	})
}
