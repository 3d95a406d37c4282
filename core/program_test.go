package core

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

func TestProgramsFromTextAndBytes(t *testing.T) {
	p := assemble(t, double)
	q, err := Decode(p.Encode(), nil)
	require.NoError(t, err)
	first, err := p.Hash(nil)
	require.NoError(t, err)
	second, err := q.Hash(nil)
	require.NoError(t, err)
	if first != second || p.Disassemble() != q.Disassemble() {
		t.Error("a program does not survive its binary form")
	}
	_, err = Assemble("f", "program p\n  foo x\n", nil)
	wants(t, err, Syntax, "f:2:3")
	_, err = Assemble("f", "program p\n  bar_sync 0\n  add.f32 x, y, y\n  exit", nil)
	if CodeOf(err) != Unverified && CodeOf(err) != Syntax {
		t.Errorf("error is %v", err)
	}
	_, err = Decode([]byte("ATLAS"), nil)
	wants(t, err, Syntax, "")
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
	_, err = DeviceFor("cpu:1")
	wants(t, err, Invalid, `Invalid backend "cpu:1"; cpu has 1 devices, numbered from 0`)
	for _, name := range []string{"cpu:x", "cpu:", "cpu:-1", "cpu:+0", "cpu:00", "cpu: 0", "cpu:0:0"} {
		_, err = DeviceFor(name)
		wants(t, err, Invalid, "after the colon stands the number of a device")
	}
	d, err := DeviceFor("AUTO")
	require.NoError(t, err)
	if again, _ := DeviceFor(d.Name + ":0"); again != d {
		t.Error("a device is opened twice")
	}
	wants(t, SetThreads(0), Invalid, "1 … 1024")
	before := d.Threads()
	require.NoError(t, SetThreads(2))
	if d.Threads() != 2 {
		t.Errorf("%d threads", d.Threads())
	}
	require.NoError(t, SetThreads(before))
	wants(t, d.SetMemoryLimit(-1), Invalid, "-1")
}

// TestThreads asks for more threads than Go runs at once, and for numbers that
// cannot be, by the function and by the environment.
func TestThreads(t *testing.T) {
	d, err := DeviceFor("cpu")
	require.NoError(t, err)
	before, procs := d.Threads(), runtime.GOMAXPROCS(0)
	defer func() {
		require.NoError(t, SetThreads(before))
		runtime.GOMAXPROCS(procs)
	}()
	require.NoError(t, SetThreads(procs+3))
	if d.Threads() != procs+3 || runtime.GOMAXPROCS(0) != procs+3 {
		t.Errorf("%d threads and GOMAXPROCS %d; %d were asked for", d.Threads(), runtime.GOMAXPROCS(0), procs+3)
	}
	require.NoError(t, SetThreads(1))
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
		fresh, err := (&source{name: "cpu", make: sources[0].make}).open("cpu", 0)
		if c.threads == 0 {
			wants(t, err, Invalid, "HOLOGRAM_NUM_THREADS is \""+c.text+"\"; expected 1 … 1024")
			continue
		}
		require.NoError(t, err)
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
	require.NoError(t, wait(ex.Trace((&LaunchArgs{Slots: []*Buffer{a, c}}).call(p), 1, func(s string) { lines = append(lines, s) })))
	if len(lines) != 4 || lines[1] != fmt.Sprintf("   1  %-40s  dst=4  a=2  b=2", "add.f32 x, x, x") {
		t.Errorf("%q", lines)
	}
	_, err := ex.Trace((&LaunchArgs{Slots: []*Buffer{a, c}}).call(p), 2, nil)
	wants(t, err, Invalid, "lane is 2; the launch has 2 lanes")
	require.EqualValues(t, 1, a.mem.Users())
	for _, c := range []struct {
		t    isa.Type
		bits uint64
		want string
	}{
		{isa.Pred, 1, "true"}, {isa.Pred, 0, "false"}, {isa.I8, 0xff, "-1"}, {isa.I64, 1 << 63, "-9223372036854775808"}, {isa.U8, 0xff, "255"},
		{isa.U64, 1 << 63, "9223372036854775808"}, {isa.F16, 0xbe00, "-1.5"}, {isa.BF16, 0x3fc0, "1.5"}, {isa.F32, 0x3fc00000, "1.5"},
		{isa.F64, 0x8000000000000000, "-0"}, {isa.NoType, 255, "0xff"},
	} {
		require.Equal(t, c.want, cellText(c.t, c.bits))
	}
	_, err = ex.Trace(&Call{Program: p, Operands: []Operand{{Buffer: a}, {View: c.Layout()}, {}}}, 0, nil)
	wants(t, err, Invalid, `launch "double": slot c: a trace takes buffers; wrap the memory of others`)
	_, err = ex.Trace(&Call{Program: p, Operands: []Operand{{Buffer: a}, {Buffer: c}, {}}}, 0, nil)
	wants(t, err, Invalid, "3 slots given; the program has 2")
}

// TestTracing uses the executor from the function that a trace calls, and
// cancels a trace without an end.
func TestTracing(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	p := assemble(t, double)
	var seen [][]float32
	require.NoError(t, wait(ex.Trace((&LaunchArgs{Slots: []*Buffer{a, c}}).call(p), 1, func(string) { seen = append(seen, values(t, c)) })))
	if len(seen) != 4 || seen[1][1] != 0 || seen[3][1] != 4 {
		t.Errorf("between the instructions the output held %v", seen)
	}
	end := assemble(t, "program endless\nslot c f32\nagain:\nmov.f32 x, 1.0\nbra again\n")
	running := make(chan struct{}, 1)
	ev, err := ex.Trace((&LaunchArgs{Slots: []*Buffer{c}, Shape: []int64{1}}).call(end), 0, func(string) {
		select {
		case running <- struct{}{}:
		default:
		}
	})
	require.NoError(t, err)
	<-running
	ev.Cancel()
	wants(t, wait(ev, nil), Cancelled, "cancelled")
	advance := assemble(t, "program advance\nslot c f32\nphase_adv 5\nstg.f32 1.0, c[index]\nexit")
	for i := range int32(3) {
		require.NoError(t, wait(ex.Trace((&LaunchArgs{Slots: []*Buffer{c}}).call(advance), 0, func(string) {})))
		if got := phase(t, ex); got != 5*(i+1) {
			t.Errorf("phase is %d after %d traces", got, i+1)
		}
	}
	closing := executorOn(t, ex.device)
	d := floats(t, closing, 0)
	err = wait(closing.Trace((&LaunchArgs{Slots: []*Buffer{d}, Shape: []int64{1}}).call(end), 0, func(string) { closing.Close() }))
	wants(t, err, Cancelled, "cancelled")
}

// TestLaunchingAClosedProgram launches a program that somebody else closed: it
// runs, and nothing of it stays.
func TestLaunchingAClosedProgram(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	d := openAsync(t, b, 0)
	ex := executorOn(t, d)
	a, c := floats(t, ex, 1, 2), floats(t, ex, 0, 0)
	p := assemble(t, double)
	p.Close()
	require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, c}})))
	require.Equal(t, []float32{2, 4}, values(t, c))
	require.NoError(t, wait(ex.Synchronize()))
	d.kernels.Clear()
	require.Eventually(t, func() bool { return b.Counts().Kernels == 0 }, time.Second, time.Millisecond)
}

// A program that is merely large is told of where it is asked about, as where it is launched.
func TestWhatIsKnownOfALargeProgram(t *testing.T) {
	p := assemble(t, "program large\nslot x f32\nldg.f32 v, x[index]\n"+strings.Repeat("sin.f32 v, v\n", 2500)+"stg.f32 v, x[index]\nexit")
	text, err := p.Analysis(nil)
	require.NoError(t, err)
	require.Regexp(t, `on the CPU by none: .*2500 uses of sin.f32`, text)
	for _, engine := range append(engines(), "") {
		for _, stage := range stages()[1:] {
			_, err := p.Stage(engine, stage, nil)
			require.Equal(t, Unavailable, CodeOf(err), "%s %s: %v", engine, stage, err)
		}
	}
}
