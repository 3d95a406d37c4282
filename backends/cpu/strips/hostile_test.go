package strips

import (
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
)

// These tests put a step of their own into a compiled kernel, which does at a
// known moment what otherwise another thread does at any.

// loopBody returns the body of the kernel's outermost loop.
func loopBody(t *testing.T, k *Kernel) *region {
	t.Helper()
	for i := range k.body.steps.len() {
		if s := k.body.steps.at(i); s.rest != nil && s.counted {
			return s.sides[0]
		}
	}
	require.Fail(t, "the kernel has no counted loop at its top")
	return nil
}

// insert puts a step in front of a region's others.
func insert(r *region, run func(*frame, *step)) {
	r.steps.pieces = slices.Insert(r.steps.pieces, 0, []step{{run: run, d: -1}})
}

// A loop's counts are what they were when it started, whoever writes to the
// memory that they were loaded from: rounds, and the lanes that take part in
// one, stay those of one set of counts.
func TestCountsAreReadOnce(t *testing.T) {
	const text = `
program p
slot n u32
slot c u32
  ldg.u32 r, n[index]
  mov.u32 a, 0
  loop r, done
  add.u32 a, a, 1
done:
  stg.u32 a, c[index]
  exit`
	const lanes = 200
	start := func(i int) uint32 { return uint32(i % 7) }
	for name, change := range map[string]func(i int) uint32{
		"more":  func(i int) uint32 { return start(i) + 20 },
		"fewer": func(int) uint32 { return 0 },
		"mixed": func(i int) uint32 { return uint32(i*i) % 13 },
	} {
		t.Run(name, func(t *testing.T) {
			k := mustCompile(t, canonical(t, text))
			n, c := make([]uint32, lanes), make([]uint32, lanes)
			for i := range n {
				n[i] = start(i)
			}
			rounds := 0
			insert(loopBody(t, k), func(*frame, *step) {
				if rounds++; rounds == 1 {
					for i := range n {
						n[i] = change(i)
					}
				}
			})
			l := flat(lanes, 64, view(isa.U32, n), view(isa.U32, c))
			l.Fuel = 1000
			require.NoError(t, k.Run(l, alone))
			for i, v := range c {
				require.Equal(t, start(i), v, "rounds of lane %d", i)
			}
		})
	}
}

// After a panic a kernel serves on: nothing of the launch is kept, nothing that
// is kept for the next one is lost, and the caller's floating-point state is
// back.
func TestPanic(t *testing.T) {
	for _, threads := range []int{1, 2} {
		k := mustCompile(t, addTree())
		var armed atomic.Bool
		insert(k.body, func(*frame, *step) {
			if armed.Load() {
				panic("planted")
			}
		})
		pool := workers.New(threads)
		defer pool.Close()
		const n = 1 << 20
		x := make([]float32, n)
		l := flat(n, 256, view(isa.F32, x), view(isa.F32, x), view(isa.F32, make([]float32, n)))
		require.NoError(t, k.Run(l, pool))
		armed.Store(true)
		for _, caller := range fpenv.Callers() {
			kept := caller.Run(func() { require.Panics(t, func() { _ = k.Run(l, pool) }) })
			require.True(t, kept, "%d threads: %s was lost", threads, caller.Name)
		}
		frames := k.frames.Clear()
		require.NotEmpty(t, frames, "%d threads: the frames are lost", threads)
		require.Len(t, k.runs, 1, "%d threads: the run is lost", threads)
		for _, f := range frames {
			require.True(t, f.r == nil && f.l == nil && f.slots == nil, "a frame remembers the launch")
		}
		r := k.runs[0]
		require.True(t, r.l == nil && r.slots[0].base == nil, "the run remembers the launch")
		armed.Store(false)
		require.NoError(t, k.Run(l, pool))
		kept = nil
	}
}

// A launch is cancelled if work was left out, not if it was asked to stop when
// all lanes were done.
func TestCancelAfterTheEnd(t *testing.T) {
	for _, n := range []int{1, 100, 3000, 1 << 20} {
		k := mustCompile(t, addTree())
		x, z := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i] = float32(i % 5)
		}
		l := flat(n, 256, view(isa.F32, x), view(isa.F32, x), view(isa.F32, z))
		l.Record = new(backends.Record)
		var left atomic.Int64
		left.Store(int64(n))
		*k.body.steps.add(1) = step{d: -1, run: func(f *frame, _ *step) {
			if left.Add(-int64(f.n)) == 0 {
				l.Record.Stop()
			}
		}}
		pool := workers.New(2)
		require.NoError(t, k.Run(l, pool), "%d lanes", n)
		for i := range z {
			require.Equal(t, 2*x[i], z[i])
		}
		require.ErrorIs(t, k.Run(l, pool), backends.ErrCancelled, "cancelled before it began")
		pool.Close()
		kept = nil
	}
}

// Byte addresses that are linear in the lane and leave the memory at either
// end: a load gives 0 there, a store does nothing, and the fault is that of the first
// lane that runs and strays.
func TestLinearAddressesAtTheEnds(t *testing.T) {
	const n, room = 40, 64
	for _, base := range []int64{-1 << 62, -200, -9, -8, -1, 0, 1, 8, 60, 100, 152, 156, 160, 255, 256, 1 << 40, 1<<62 + 8} {
		for _, stride := range []int64{-1 << 50, -64, -12, -8, -4, -1, 0, 1, 4, 5, 8, 64, 1 << 50} {
			for _, offset := range []int64{0, -4, 4, -160, 100, 1 << 60, -1 << 60, 1<<63 - 1, -1 << 63} {
				for _, masked := range []bool{false, true} {
					checkLinear(t, n, room, lin{base, stride}, offset, masked)
				}
			}
		}
	}
}

// checkLinear runs a load and a store of 4 bytes at l+offset in memory of 4·room bytes.
func checkLinear(t *testing.T, n, room int, l lin, offset int64, masked bool) {
	const guard = 64
	k := &Kernel{use: make([]isa.SlotUse, 1), regs: []regPlace{{size: 8}, {size: 4, place: 8}, {size: 4, place: 12}, {size: 1, place: 16}}, laneBytes: 17}
	f := newFrame(k, 64)
	memory := make([]uint32, room+2*guard)
	for i := range memory {
		memory[i] = uint32(i) | 0xabc00000
	}
	before := slices.Clone(memory)
	r := &run{k: k, slots: make([]slot, 1)}
	r.slots[0] = slot{base: unsafe.Pointer(&memory[guard]), bytes: int64(4 * room), size: 4}
	f.r, f.slots, f.n, f.m = r, r.slots, n, mask{count: n}
	in := func(i int) bool { return !masked || i%3 != 0 }
	if masked {
		m := lanes[uint8](f.regs[3].setVec(), 64)
		count := 0
		for i := range n {
			m[i] = b2u(in(i))
			count += int(m[i])
		}
		f.m = mask{f.regs[3].own, count}
	}
	at := func(i int) (int64, bool) { // the byte, if the access lies inside
		v := l.base + int64(i)*l.stride
		sum := v + offset
		fits := (v >= 0) != (offset >= 0) || (sum >= 0) == (v >= 0)
		return sum, fits && sum >= 0 && sum <= int64(4*room-4)
	}
	get := func(words []uint32, byteAt int64) uint32 {
		return *(*uint32)(unsafe.Add(unsafe.Pointer(&words[guard]), byteAt))
	}
	// As the register holds it: linear, or lane by lane where it can't.
	set := func() { f.regs[0].setLin(l) }
	s := &step{a: 0, b: 2, d: 1, h: -1, typ: isa.U32, imm: uint64(offset)}

	set()
	load(f, s)
	stray := -1
	got := lanes[uint32](f.regs[1].lanes(f), n)
	for i := range n {
		if !in(i) {
			continue
		}
		want := uint32(0)
		if o, ok := at(i); ok {
			want = get(before, o)
		} else if stray < 0 {
			stray = i
		}
		require.Equal(t, want, got[i], "load at %d + %d·%d + %d", l.base, i, l.stride, offset)
	}
	faults := func(what string) {
		require.Equal(t, stray >= 0, r.faulted, "fault of a %s at %v + %d", what, l, offset)
		if stray >= 0 {
			require.EqualValues(t, stray, r.first.Lane, "lane that faults in a %s at %v + %d", what, l, offset)
		}
	}
	faults("load")
	require.Equal(t, before, memory)

	set()
	r.faulted = false
	values := lanes[uint32](f.regs[2].setVec(), n)
	want := slices.Clone(memory)
	for i := range n {
		values[i] = uint32(i) + 7
		if o, ok := at(i); in(i) && ok {
			*(*uint32)(unsafe.Add(unsafe.Pointer(&want[guard]), o)) = values[i]
		}
	}
	store(f, s)
	require.Equal(t, want, memory, "store at %d + i·%d + %d", l.base, l.stride, offset)
	faults("store")
}
