package workers

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// numbered reports whether the machine has RDTSCP.
func numbered() bool

// number is what Linux has RDTSCP say of the processor that it is on.
func number() int32

// hasNumber is whether it does: atomic, as tests change it.
var hasNumber atomic.Bool

func init() { hasNumber.Store(numbered()) }

// processor returns the number of the processor that the thread is on, which costs as much as
// to look at a clock; -1 if nobody tells.
func processor() int32 {
	if !hasNumber.Load() {
		return -1
	}
	return number()
}

// mask is a set of processors, as many as Linux can have.
type mask [128]uint64

// aside has the thread go to another processor, if it is on that one, and no other. For that it
// may not be there for a moment; then it may be again wherever it might, unless somebody else has
// said meanwhile where.
func aside(from int32) {
	runtime.LockOSThread() // what is taken from a thread has to be given back to it
	defer runtime.UnlockOSThread()
	var here uint32
	if _, _, e := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&here)), 0, 0); e != 0 || int32(here) != from {
		return // another kernel's emulation may not tell by RDTSCP
	}
	var may mask
	size := may.get()
	but := may
	if but[here/64] &^= 1 << (here % 64); size == 0 || but == (mask{}) || but == may {
		return
	}
	if _, _, e := syscall.Syscall(unix.SYS_SCHED_SETAFFINITY, 0, size, uintptr(unsafe.Pointer(&but))); e == 0 {
		but.giveBack(&may, size)
	}
}

// get asks where the thread may be. It returns the bytes of the kernel's masks.
func (m *mask) get() uintptr {
	size, _, e := syscall.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(*m), uintptr(unsafe.Pointer(m)))
	if e != 0 {
		return 0
	}
	return size
}

// put says where the thread may be, of where its control group has it.
func (m *mask) put(size uintptr) {
	_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, size, uintptr(unsafe.Pointer(m)))
}

// giveBack lets a thread that may be there be where it might before. A thread that might be wherever its control
// group was is let go everywhere: to processors that it is told by number it keeps when the group is given others.
func (m *mask) giveBack(might *mask, size uintptr) {
	var now, all mask
	if now.get(); now != *m {
		return
	}
	for i := range all {
		all[i] = ^uint64(0)
	}
	all.put(size)
	if now.get(); now != *might {
		might.put(size)
	}
}
