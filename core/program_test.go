package core

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

func TestProgramsFromTextAndBytes(t *testing.T) {
	p := assemble(t, double)
	q, err := Decode(p.Encode())
	must(t, err)
	first, err := p.Hash()
	must(t, err)
	second, err := q.Hash()
	must(t, err)
	if first != second || p.Disassemble() != q.Disassemble() || !LooksEncoded(p.Encode()) || LooksEncoded([]byte(double)) {
		t.Error("a program does not survive its binary form")
	}
	_, err = Assemble("f", "program p\n  foo x\n")
	wants(t, err, Syntax, "f:2:3")
	_, err = Assemble("f", "program p\n  bar_sync 0\n  add.f32 x, y, y\n  exit")
	if CodeOf(err) != Unverified && CodeOf(err) != Syntax {
		t.Errorf("error is %v", err)
	}
	_, err = Decode([]byte("ATLAS"))
	wants(t, err, Syntax, "")
}

func TestTheKernelCacheIsBoundedAndCounts(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	d.kernels = newKernelCache(4)
	ex := executorOn(t, d)
	c, err := ex.Allocate(1, isa.U32, true)
	must(t, err)
	var keep []*Program
	for i := range 10 {
		p := assemble(t, fmt.Sprintf("program p\nslot c u32\nstg.u32 %d, c[index]\nexit", i))
		keep = append(keep, p)
		must(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}})))
	}
	// Evicted, but the programs hold theirs.
	for _, p := range keep {
		must(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}})))
	}
	if s := d.KernelStats(); s.Entries != 4 || s.Misses != 10 || s.Hits != 0 || s.Evictions != 6 || s.Limit != 4 {
		t.Errorf("%+v", s)
	}
	same := assemble(t, "program another_name\nslot z u32\nstg.u32 9, z[index]\nexit")
	must(t, wait(ex.Launch(same, &LaunchArgs{Slots: []*Buffer{c}})))
	if s := d.KernelStats(); s.Hits != 1 {
		t.Errorf("an equal program was compiled again: %+v", s)
	}
	must(t, wait(ex.Synchronize()))
	for _, p := range keep {
		p.Close()
	}
	d.kernels.clear()
	if s := d.KernelStats(); s.Entries != 0 {
		t.Errorf("%+v", s)
	}
	must(t, wait(ex.Launch(keep[0], &LaunchArgs{Slots: []*Buffer{c}}))) // compiled anew
}

func TestCosts(t *testing.T) {
	for _, c := range []struct {
		text  string
		cells []uint64
		want  float64
	}{
		{"program p\nexit", nil, 1},
		{"program p\nloop 10, e\nmov.u32 x, 1\nmov.u32 x, 2\ne:\nexit", nil, 22},
		{"program p\nparam k u32\nldp.u32 n, k\nloop n, e\nmov.u32 x, 1\ne:\nexit", []uint64{100}, 103},
		{"program p\nparam k u32\nldp.u32 n, k\nloop n, e\nloop 5, f\nmov.u32 x, 1\nf:\nmov.u32 x, 1\ne:\nexit", []uint64{10}, 73},
		{"program p\na:\nbra a\n", nil, endless},
		// A call costs what it does where it stands, each time.
		{"program p\nloop 10, e\ncall f\ne:\nexit\nf:\nloop 5, g\nmov.u32 x, 1\ng:\nret\n", nil, 62},
		{"program p\ncall f\ncall f\nexit\nf:\nmov.u32 x, 1\nret\n", nil, 3},
		{"program p\nloop 10, e\ncall f\ne:\nexit\nf:\nbra f\n", nil, endless},
		{"program p\nparam k u32\nldp.u32 n, k\nloop n, e\ncall f\ne:\nexit\nf:\nloop n, g\nmov.u32 x, 1\ng:\nret\n", []uint64{1000}, 1001003},
		{"program p\nldc.u32 n, t[0]\nloop n, e\nmov.u32 x, 1\ne:\nexit\n", nil, endless},
	} {
		text := c.text
		if c.cells == nil && c.want == endless && len(text) > 20 {
			text = "program p\ndata t u32 { 4 }\n" + text[len("program p\n"):]
		}
		p := assemble(t, text)
		if got := p.cost.of(1, c.cells, 0); got != c.want {
			t.Errorf("%q: cost %v, expected %v", text, got, c.want)
		}
	}
}

func TestBackends(t *testing.T) {
	for _, name := range BackendNames() {
		b := DescribeBackend(name)
		if b.Available == (b.Reason != "") {
			t.Errorf("%s: available %v, reason %q", name, b.Available, b.Reason)
		}
	}
	_, err := DeviceFor("tpu")
	wants(t, err, Invalid, `Invalid backend "tpu"; expected auto or one of cpu, interp`)
	d, err := DeviceFor("AUTO")
	must(t, err)
	if again, _ := DeviceFor(d.Name); again != d {
		t.Error("a device is opened twice")
	}
	wants(t, SetThreads(0), Invalid, "1 … 1024")
	before := d.Threads()
	must(t, SetThreads(2))
	if d.Threads() != 2 {
		t.Errorf("%d threads", d.Threads())
	}
	must(t, SetThreads(before))
	wants(t, d.SetMemoryLimit(-1), Invalid, "-1")
}

// TestThreads asks for more threads than Go runs at once, and for numbers that
// cannot be, by the function and by the environment.
func TestThreads(t *testing.T) {
	d, err := DeviceFor("cpu")
	must(t, err)
	before, procs := d.Threads(), runtime.GOMAXPROCS(0)
	defer func() {
		must(t, SetThreads(before))
		runtime.GOMAXPROCS(procs)
	}()
	must(t, SetThreads(procs+3))
	if d.Threads() != procs+3 || runtime.GOMAXPROCS(0) != procs+3 {
		t.Errorf("%d threads and GOMAXPROCS %d; %d were asked for", d.Threads(), runtime.GOMAXPROCS(0), procs+3)
	}
	must(t, SetThreads(1))
	if d.Threads() != 1 || runtime.GOMAXPROCS(0) != procs+3 {
		t.Errorf("%d threads and GOMAXPROCS %d; 1 and as before were expected", d.Threads(), runtime.GOMAXPROCS(0))
	}
	for _, n := range []int{-1, 0, 1025} {
		wants(t, SetThreads(n), Invalid, "expected 1 … 1024")
	}
	for _, c := range []struct {
		text    string
		threads int // 0: refused
	}{{"3", 3}, {"1024", 1024}, {"1025", 0}, {"0", 0}, {"-1", 0}, {"two", 0}} {
		t.Setenv("HOLOGRAM_NUM_THREADS", c.text)
		fresh, err := open(sources[0])
		if c.threads == 0 {
			wants(t, err, Invalid, "HOLOGRAM_NUM_THREADS is \""+c.text+"\"; expected 1 … 1024")
			continue
		}
		must(t, err)
		if fresh.Threads() != c.threads {
			t.Errorf("HOLOGRAM_NUM_THREADS=%s: %d threads", c.text, fresh.Threads())
		}
	}
}

func TestTrace(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	p := assemble(t, double)
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	var lines []string
	must(t, wait(ex.Trace(p, &LaunchArgs{Slots: []*Buffer{a, c}}, 1, func(s string) { lines = append(lines, s) })))
	if len(lines) != 4 || lines[1] != fmt.Sprintf("   1  %-40s  dst=4  a=2  b=2", "add.f32 x, x, x") {
		t.Errorf("%q", lines)
	}
	_, err := ex.Trace(p, &LaunchArgs{Slots: []*Buffer{a, c}}, 2, nil)
	wants(t, err, Invalid, "lane is 2; the launch has 2 lanes")
}

// TestTracing uses the executor from the function that a trace calls, and
// cancels a trace without an end.
func TestTracing(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	p := assemble(t, double)
	var seen [][]float32
	must(t, wait(ex.Trace(p, &LaunchArgs{Slots: []*Buffer{a, c}}, 1, func(string) { seen = append(seen, values(t, c)) })))
	if len(seen) != 4 || seen[1][1] != 0 || seen[3][1] != 4 {
		t.Errorf("between the instructions the output held %v", seen)
	}
	end := assemble(t, "program endless\nslot c f32\nagain:\nmov.f32 x, 1.0\nbra again\n")
	running := make(chan struct{}, 1)
	ev, err := ex.Trace(end, &LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{1}}, 0, func(string) {
		select {
		case running <- struct{}{}:
		default:
		}
	})
	must(t, err)
	<-running
	ev.Cancel()
	wants(t, wait(ev, nil), Cancelled, "cancelled")
	advance := assemble(t, "program advance\nslot c f32\nphase_adv 5\nstg.f32 1.0, c[index]\nexit")
	for i := range int32(3) {
		must(t, wait(ex.Trace(advance, &LaunchArgs{Slots: []*Buffer{c}}, 0, func(string) {})))
		if got := phase(t, ex); got != 5*(i+1) {
			t.Errorf("phase is %d after %d traces", got, i+1)
		}
	}
	closing := executorOn(t, ex.device)
	d := floats(t, closing, 0)
	err = wait(closing.Trace(p, &LaunchArgs{Slots: []*Buffer{d, floats(t, closing, 0)}}, 0, func(string) { closing.Close() }))
	wants(t, err, Cancelled, "cancelled")
}
