// Package lookup runs the library's embedding on the processor by moving whole rows: a
// program of a lane for each element, as which it is written, finds its number's row anew
// for each, which for short rows takes most of the time. Where there is machine code,
// backends/cpu/tuned plans few rows of packed tables as blocks, which callers enter directly:
// those do not come here.
//
// What it declines, another engine runs by the program: launches that are not such as the
// library's plan makes, rows that are not packed, and whatever has a number that names no
// row, so that faults are those of the program.
package lookup

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Version is that of this engine, a part of cache keys.
const Version = "lookup/1"

// Program is what another engine makes of the program.
type Program interface {
	Run(*backends.Launch, *workers.Pool) error
	Estimate(lanes uint64, steps float64) float64
	Release()
}

// Kernel is the program of an embedding's plan.
type Kernel struct {
	other Program
	spare atomic.Pointer[launch] // for the next run
}

// Compile makes a kernel of the program that an embedding's plan launches. other makes
// what runs the launches that it declines. *backends.Unsupported says why there is none.
func Compile(v *isa.Verified, other func() (Program, error)) (*Kernel, error) {
	if !kernels.IsEmbedding(v) {
		return nil, &backends.Unsupported{Backend: "lookup", What: "the program", Why: "it is not the library's embedding"}
	}
	p, err := other()
	if err != nil {
		return nil, err
	}
	return &Kernel{other: p}, nil
}

// Estimate is the other engine's.
func (k *Kernel) Estimate(lanes uint64, steps float64) float64 { return k.other.Estimate(lanes, steps) }

// enteredPlaces is how many rows of one element machine code moves before this package has
// moved them, though it has to be called by Go.
const enteredPlaces = 1 << 10

// Direct is backends.Entered's, of what machine code does in few calls, unless this package is
// sooner done with it.
func (k *Kernel) Direct(l *backends.Launch, within float64) []backends.Direct {
	if l.Params[cols] == 1 && l.N > enteredPlaces {
		return nil
	}
	if e, ok := k.other.(interface {
		Direct(l *backends.Launch, within float64) []backends.Direct
	}); ok {
		return e.Direct(l, within)
	}
	return nil
}

// Release lets go of what the other engine made.
func (k *Kernel) Release() { k.other.Release() }

// The slots and parameters of the program.
const (
	table = iota
	place
	output
)

const (
	rows = iota
	cols
	down // elements from row to row
	step // and from column to column
)

// What a row takes in nanoseconds, and each of its bytes, where caches have about half of
// the table; and about how long rows are moved before a look at whether the launch is cancelled,
// and after how many of these another goroutine has its turn.
const (
	rowNanoseconds  = 1.0
	byteNanoseconds = 0.02
	lookNanoseconds = 50e3
	looksOfTurn     = 64
)

// perRow is how many nanoseconds a row of this launch takes.
func (r *launch) perRow() float64 { return rowNanoseconds + byteNanoseconds*float64(r.bytes) }

// launch is a run, shared by the workers that take part.
type launch struct {
	table, place, output unsafe.Pointer
	n                    int // places
	rows                 uint64
	bytes                uintptr // of a row
	fromNext, toNext     uintptr // bytes from row to row
	placeNext            uintptr
	chunk                int
	record               *backends.Record
	stray, stopped       atomic.Bool
}

// Run runs a launch to its end, on the caller's thread and, if there is enough to do, on
// workers.
func (k *Kernel) Run(l *backends.Launch, pool *workers.Pool) error {
	r := k.spare.Swap(nil)
	if r == nil {
		r = &launch{}
	}
	defer func() {
		r.record, r.table, r.place, r.output = nil, nil, nil, nil
		k.spare.Store(r)
	}()
	r.record = l.Record
	r.stray.Store(false)
	r.stopped.Store(false)
	if !r.prepare(l) {
		return k.other.Run(l, pool)
	}
	r.chunk = r.n
	work := float64(r.n) * r.perRow()
	if threads, chunk := pool.Share(work); threads > 1 {
		chunks := int(min(float64(threads*8), work/chunk+1))
		r.chunk = (r.n + chunks - 1) / chunks
	}
	if r.chunk >= r.n {
		r.move(0, r.n)
	} else {
		pool.Run((r.n+r.chunk-1)/r.chunk, r)
	}
	switch {
	case r.stopped.Load():
		return backends.ErrCancelled
	case r.stray.Load():
		return k.other.Run(l, pool) // which says where; what is written it writes again
	}
	return nil
}

// Run takes part in a launch. It is for the pool.
func (r *launch) Run(j *workers.Job, at workers.Seat) {
	for i, ok := j.Next(&at); ok; i, ok = j.Next(&at) {
		r.move(i*r.chunk, min((i+1)*r.chunk, r.n))
	}
}

// prepare sets the run up; false if the launch has to be declined.
func (r *launch) prepare(l *backends.Launch) bool {
	from, at, to, p := &l.Slots[table], &l.Slots[place], &l.Slots[output], l.Params
	size := int64(from.Type.Size())
	// Dimensions of one element are not there: those of one column, or of one place.
	n, width, atNext, toNext, along := l.Shape[0], l.Shape[1], at.Stride[0], to.Stride[0], to.Stride[1]
	switch {
	case l.Rank == 1 && p[cols] == 1:
		width, along = 1, 1
	case l.Rank == 1:
		n, width, atNext, toNext, along = 1, l.Shape[0], 0, 0, to.Stride[0]
		if at.Stride[0] != 0 {
			return false
		}
	case l.Rank != 2 || at.Stride[1] != 0:
		return false
	}
	lanes := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2]) * uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
	const most = 1 << 31 // so that no product below is too long
	if n <= 0 || n > most || p[cols] != uint64(width) || p[rows] == 0 || p[rows] > most || p[cols] > most || p[down] > most ||
		width > 1 && (p[step] != 1 || along != 1) || lanes < l.N || l.N != uint64(n*width) {
		return false
	}
	if high, end := bits.Mul64((p[rows]-1)*p[down]+p[cols], uint64(size)); high != 0 || end > uint64(max(from.Bytes, 0)) {
		return false // a row that is there would not be the table's
	}
	if near(at, to, n, width, atNext, toNext) {
		return false // a launch that is run again has to see what it saw
	}
	r.table, r.place, r.output = hostmem.Pointer(from.Addr), hostmem.Pointer(at.Addr), hostmem.Pointer(to.Addr)
	r.n, r.rows, r.bytes = int(n), p[rows], uintptr(width*size)
	r.fromNext, r.toNext, r.placeNext = uintptr(p[down])*uintptr(size), uintptr(toNext*size), uintptr(atNext*8)
	return true
}

// near reports whether the places, and the rows of the output, may share memory.
func near(at, to *backends.View, n, width, atNext, toNext int64) bool {
	span := func(v *backends.View, wide, next int64) (low, high uintptr) {
		size := int64(v.Type.Size())
		return v.Addr + uintptr(min(0, (n-1)*next)*size), v.Addr + uintptr((max(0, (n-1)*next)+wide)*size)
	}
	a, b := span(at, 1, atNext)
	c, d := span(to, width, toNext)
	return a < d && c < b
}

// move moves the rows of some places, from number first to before last.
func (r *launch) move(first, last int) {
	atOnce := 1 + int(lookNanoseconds/r.perRow()) // of long rows few
	for look := 1; first < last && !r.stray.Load(); look++ {
		if r.record.Stopped() {
			r.stopped.Store(true)
			return
		}
		// Nothing else here lets the goroutine that stops it run, if there is but one processor; from C, two threads
		// change places for it.
		if look%looksOfTurn == 0 {
			runtime.Gosched()
		}
		end := min(first+atOnce, last)
		switch b := r.bytes; {
		case b == 2:
			single[uint16](r, first, end)
		case b == 4:
			single[uint32](r, first, end)
		case b == 8:
			single[uint64](r, first, end)
		case b == 16:
			single[sixteen](r, first, end)
		case b < 4:
			double[uint16](r, first, end)
		case b < 8:
			double[uint32](r, first, end)
		case b < 16:
			double[uint64](r, first, end)
		case b <= 32:
			double[sixteen](r, first, end)
		case b <= 64:
			r.quadruple(first, end)
		default:
			r.long(first, end)
		}
		first = end
	}
}

// single moves rows of as many bytes as T has. The last step, here and below, leads behind the
// arrays, or before them, where nothing is read: so pointers are not checked under -race.
//
//go:nocheckptr
func single[T any](r *launch, first, last int) {
	table, rows, next := r.table, r.rows, r.fromNext
	at, to := unsafe.Add(r.place, uintptr(first)*r.placeNext), unsafe.Add(r.output, uintptr(first)*r.toNext)
	atNext, toNext := r.placeNext, r.toNext
	for range last - first {
		which := *(*uint64)(at) // a negative one is too large, too
		if which >= rows {
			r.stray.Store(true)
			return
		}
		*(*T)(to) = *(*T)(unsafe.Add(table, uintptr(which)*next))
		at, to = unsafe.Add(at, atNext), unsafe.Add(to, toNext)
	}
}

// double moves rows of one to two times as many bytes as T has: those at the beginning,
// and those at the end.
//
//go:nocheckptr
func double[T any](r *launch, first, last int) {
	var some T
	table, rows, next, rest := r.table, r.rows, r.fromNext, r.bytes-unsafe.Sizeof(some)
	at, to := unsafe.Add(r.place, uintptr(first)*r.placeNext), unsafe.Add(r.output, uintptr(first)*r.toNext)
	atNext, toNext := r.placeNext, r.toNext
	for range last - first {
		which := *(*uint64)(at)
		if which >= rows {
			r.stray.Store(true)
			return
		}
		from := unsafe.Add(table, uintptr(which)*next)
		*(*T)(to) = *(*T)(from)
		*(*T)(unsafe.Add(to, rest)) = *(*T)(unsafe.Add(from, rest))
		at, to = unsafe.Add(at, atNext), unsafe.Add(to, toNext)
	}
}

// sixteen are as many bytes as the compiler moves at once.
type sixteen = [16]byte

// quadruple moves rows of 32 to 64 bytes.
//
//go:nocheckptr
func (r *launch) quadruple(first, last int) {
	table, rows, next, rest := r.table, r.rows, r.fromNext, r.bytes-16
	at, to := unsafe.Add(r.place, uintptr(first)*r.placeNext), unsafe.Add(r.output, uintptr(first)*r.toNext)
	atNext, toNext := r.placeNext, r.toNext
	for range last - first {
		which := *(*uint64)(at)
		if which >= rows {
			r.stray.Store(true)
			return
		}
		from := unsafe.Add(table, uintptr(which)*next)
		*(*sixteen)(to) = *(*sixteen)(from)
		*(*sixteen)(unsafe.Add(to, 16)) = *(*sixteen)(unsafe.Add(from, 16))
		*(*sixteen)(unsafe.Add(to, rest-16)) = *(*sixteen)(unsafe.Add(from, rest-16))
		*(*sixteen)(unsafe.Add(to, rest)) = *(*sixteen)(unsafe.Add(from, rest))
		at, to = unsafe.Add(at, atNext), unsafe.Add(to, toNext)
	}
}

// long moves rows of any number of bytes.
//
//go:nocheckptr
func (r *launch) long(first, last int) {
	for i := uintptr(first); i < uintptr(last); i++ {
		which := *(*uint64)(unsafe.Add(r.place, i*r.placeNext))
		if which >= r.rows {
			r.stray.Store(true)
			return
		}
		to, from := unsafe.Add(r.output, i*r.toNext), unsafe.Add(r.table, uintptr(which)*r.fromNext)
		copy(unsafe.Slice((*byte)(to), r.bytes), unsafe.Slice((*byte)(from), r.bytes))
	}
}
