package workers

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// set says where a thread may be, 0 for this one.
func (m *mask) set(t *testing.T, thread int) {
	t.Helper()
	if _, _, e := syscall.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(thread), unsafe.Sizeof(*m), uintptr(unsafe.Pointer(m))); e != 0 && e != syscall.ESRCH {
		t.Fatal(e)
	}
}

// only is one processor of those where this thread may be.
func (m *mask) only() (one mask) {
	for i, w := range m {
		if w != 0 {
			one[i] = w & -w
			break
		}
	}
	return one
}

// TestAside: a thread leaves the processor it is on, and no other, and may be thereafter where it
// might; where it has no other, it stays.
func TestAside(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may mask
	if may.get() == 0 {
		t.Skip("nobody tells where threads may be")
	}
	one := may.only()
	if one == may {
		t.Skip("a second processor is missing here")
	}
	same := func(want mask) {
		t.Helper()
		var now mask
		if now.get(); now != want {
			t.Fatalf("the thread may be at %x; expected %x", now, want)
		}
	}
	left := 0
	for range 50 {
		one.set(t, 0)
		from := processor()
		if aside(from); processor() != from {
			t.Fatal("a thread went where it may not be")
		}
		same(one)
		may.set(t, 0) // it stays where it is
		aside(-1)
		if here := processor(); here == from {
			if aside(from); processor() != from {
				left++
			}
		}
		same(may)
	}
	if left == 0 { // the system may have it come back
		t.Error("no thread went aside")
	}
	other := may // somebody says meanwhile where it may be: that holds
	other.giveBack(&one, unsafe.Sizeof(one))
	same(one)
	other.giveBack(&may, unsafe.Sizeof(one))
	same(one)
	may.set(t, 0)
}

// TestAsideInAGroup: a thread that has gone aside gets the processors that its control group is given later, but those that
// somebody has taken from the thread itself.
func TestAsideInAGroup(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may mask
	if may.get() == 0 || may == may.only() {
		t.Skip("a second processor is missing here")
	}
	one, all := may.only(), mask{}
	number := 0
	for one[number/64]>>(number%64)&1 == 0 {
		number++
	}
	for i := range all {
		all[i] = ^uint64(0)
	}
	give := group(t)
	defer all.set(t, 0)
	for _, c := range []struct {
		name       string
		had, wants mask
		given      string // to the group, when the thread goes aside
	}{{"wherever the group is", all, may, strconv.Itoa(number)}, {"on one processor", one, one, ""}} {
		c.had.set(t, 0)
		give(c.given)
		one.giveBack(&one, unsafe.Sizeof(one))
		give("")
		var now mask
		if now.get(); now != c.wants {
			t.Errorf("%s: the thread may be at %x; expected %x", c.name, now, c.wants)
		}
	}
}

// group has the thread in a control group of its own till the end of the test, and returns what gives the group
// processors, all for "".
func group(t *testing.T) (give func(processors string)) {
	t.Helper()
	const root = "/sys/fs/cgroup/cpuset"
	own, err := os.MkdirTemp(root, "aside")
	if err != nil {
		t.Skipf("a control group of processors is missing here, and cannot be made: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(own); err != nil {
			t.Error(err)
		}
	})
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/cpuset.cpus", "/cpuset.mems"} {
		text, err := os.ReadFile(root + name)
		if err != nil {
			t.Skipf("a control group of processors is missing here: %v", err)
		}
		write(own+name, string(text))
	}
	before, err := os.ReadFile(root + "/cpuset.cpus")
	if err != nil {
		t.Fatal(err)
	}
	where, err := os.ReadFile("/proc/thread-self/cpuset")
	if err != nil {
		t.Fatal(err)
	}
	thread := strconv.Itoa(unix.Gettid())
	write(own+"/tasks", thread)
	t.Cleanup(func() { write(root+strings.TrimSpace(string(where))+"/tasks", thread) })
	return func(processors string) {
		t.Helper()
		if processors == "" {
			processors = string(before)
		}
		write(own+"/cpuset.cpus", processors)
	}
}

// TestCallersMove: workers know the processor of the last launch's caller, wherever the ones before were.
func TestCallersMove(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may mask
	if may.get() == 0 || !hasNumber.Load() {
		t.Skip("RDTSCP, or the system's word of where threads may be, is missing here: nobody tells where they are")
	}
	p := New(2)
	defer p.Close()
	p.Run(50, newCounter(50)) // threads begin where their makers may be
	defer may.set(t, 0)
	for range 3 {
		for left := may; left != (mask{}); {
			one := left.only()
			for i := range left {
				left[i] &^= one[i]
			}
			one.set(t, 0)
			p.Run(50, newCounter(50))
			if at, here := p.caller.Load(), processor(); at != here {
				t.Fatalf("the caller is on processor %d; expected %d", at, here)
			}
		}
	}
}

// TestNobodyTells: where nobody tells which processor a thread is on, no worker is beside its caller, wherever
// that is not known to be.
func TestNobodyTells(t *testing.T) {
	defer hasNumber.Store(hasNumber.Load())
	hasNumber.Store(false)
	if at := processor(); at != -1 {
		t.Errorf("nobody tells where a thread is; expected -1, got %d", at)
	}
	p := New(2)
	defer p.Close()
	for range 2 {
		if p.beside() {
			t.Error("a worker is said to be beside its caller")
		}
		c := newCounter(50)
		p.Run(50, c)
		c.check(t)
	}
}

// TestAsideTogether: many that go aside at once, on more threads than there are processors, give each thread back what was
// taken from it, none what was another's.
func TestAsideTogether(t *testing.T) {
	var may mask
	if may.get() == 0 || may == may.only() {
		t.Skip("a second processor is missing here")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 300 {
				aside(processor())
			}
		})
	}
	all.Wait()
	mayBe(t, may)
}

// threads calls f with each thread of the process.
func threads(t *testing.T, f func(thread int)) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skip(err)
	}
	for _, d := range all {
		if n, err := strconv.Atoi(d.Name()); err == nil {
			f(n)
		}
	}
}

// mayBe has all threads of the process be where they may, once none goes aside any more.
func mayBe(t *testing.T, want mask) {
	t.Helper()
	threads(t, func(n int) {
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			var now mask
			_, _, e := syscall.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(n), unsafe.Sizeof(now), uintptr(unsafe.Pointer(&now)))
			if e != 0 || now == want {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("thread %d may be at %x; expected %x", n, now, want)
				return
			}
		}
	})
}

// TestOneProcessor has all threads on one processor: workers are beside their caller whatever
// they do, and help nevertheless. Thereafter all may be where they might.
func TestOneProcessor(t *testing.T) {
	var may mask
	if may.get() == 0 {
		t.Skip("nobody tells where threads may be")
	}
	one := may.only()
	defer threads(t, func(n int) { may.set(t, n) })
	threads(t, func(n int) { one.set(t, n) })
	p := New(3)
	defer p.Close()
	for i := range 30 {
		time.Sleep(time.Duration(i%3) * time.Millisecond)
		var here atomic.Int32
		all := make(chan struct{})
		c := newCounter(3)
		c.work = func(int) {
			if here.Add(1) == 3 {
				close(all)
			}
			<-all
		}
		p.Run(3, c)
		c.check(t)
	}
	mayBe(t, one)
}

// TestWorkersGoAside: a worker that is beside its caller leaves, before the launch and while it
// looks for one, and takes part.
func TestWorkersGoAside(t *testing.T) {
	var may mask
	if may.get() == 0 || may == may.only() {
		t.Skip("a second processor is missing here")
	}
	p := New(2)
	defer p.Close()
	var worker atomic.Int32
	beside := 0
	for i := range 300 {
		time.Sleep(time.Duration(i%2) * 200 * time.Microsecond)
		both := make(chan struct{})
		var here atomic.Int32
		c := newCounter(2)
		me := goroutine()
		c.work = func(int) {
			if goroutine() != me {
				worker.Store(processor())
			}
			if here.Add(1) == 2 {
				close(both)
			}
			<-both
		}
		p.caller.Store(worker.Load()) // for the worker that looks about
		p.Run(2, c)
		c.check(t)
		if worker.Load() == p.caller.Load() {
			beside++
		}
	}
	if beside > 200 { // a caller that the system moves meanwhile may come beside its worker
		t.Errorf("%d of 300 times the worker was beside its caller", beside)
	}
	mayBe(t, may)
}
