package workers

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bed is where workers sleep: on a futex, since the scheduler of goroutines has threads wake
// one by the other. Who is woken wakes some more, so that a caller need not wake all. While it
// sleeps, a worker has a thread, but no processor of Go's.
type bed struct {
	_ [64]byte
	// wakes is how many are to wake that have not yet, and whether the bed is closed: in one
	// word, since who looked at both apart could sleep on what was true of neither.
	wakes atomic.Uint32
	_     [60]byte
}

const closed = 1 << 31

func newBed() *bed { return &bed{} }

// fan is how many a thread wakes itself, which takes some microseconds each.
const fan = 4

// sleep returns true when the worker is woken, false when the bed is closed.
func (b *bed) sleep() bool {
	for {
		n := b.wakes.Load()
		switch {
		case n&closed != 0:
			return false
		case n == 0: // on Linux a wait ends early if the number changes meanwhile, or a signal comes
			_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.wakes)), futexWait, 0, 0, 0, 0)
		case b.wakes.CompareAndSwap(n, n-1):
			b.rouse(n - 1)
			return true
		}
	}
}

// pending is how many are to wake that have not yet.
func (b *bed) pending() int { return int(b.wakes.Load() &^ closed) }

// wake wakes so many, which is not more than sleep or are about to.
func (b *bed) wake(n int) { b.rouse(b.wakes.Add(uint32(n))) }

// rouse wakes those of so many that a thread wakes.
func (b *bed) rouse(n uint32) {
	if n > 0 {
		b.futexWake(min(n, fan))
	}
}

// close wakes all, for good.
func (b *bed) close() {
	b.wakes.Or(closed) // who is about to wait does not
	b.futexWake(math.MaxInt32)
}

// Operations of the system's call, on memory of this process alone.
const (
	private   = 128
	futexWait = private
	futexWake = private | 1
)

func (b *bed) futexWake(n uint32) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.wakes)), futexWake, uintptr(n), 0, 0, 0)
}
