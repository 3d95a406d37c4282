package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// seen is an event as the file has it.
type seen struct {
	Name, Cat, Ph string
	Ts            float64
	Dur           *float64
	Pid, Tid      int64
	Args          struct {
		Name, Of, Operands, Error string
		Bytes                     int64
		Bandwidth                 float64  `json:"GB/s"`
		Queued                    *float64 `json:"queue_us"`
	}
}

// profiled returns what a profile saw of f on the calling thread's and all streams'
// tracks, and how many events it had no room for. The work is over when f returns.
func profiled(t *testing.T, limit int64, f func()) (events []seen, dropped int64) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := NewProfile(limit)
	require.NoError(t, err)
	defer p.Close()
	f()
	require.Eventually(t, func() bool { return p.Stop() == 0 }, time.Minute, 100*time.Microsecond)
	return read(t, p)
}

func read(t *testing.T, p *Profile) (events []seen, dropped int64) {
	t.Helper()
	text, err := p.Chrome("1.2.3", math.MaxInt)
	require.NoError(t, err)
	var file struct {
		TraceEvents []seen
		OtherData   struct {
			Hologram string
			Start    float64 `json:"start_unix_us"`
			Dropped  int64
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Equal(t, "1.2.3", file.OtherData.Hologram)
	require.WithinDuration(t, time.Now(), time.UnixMicro(int64(file.OtherData.Start)), time.Minute)
	named := map[int64]bool{}
	for _, e := range file.TraceEvents {
		require.NotEmpty(t, e.Name)
		require.EqualValues(t, os.Getpid(), e.Pid)
		switch e.Ph {
		case "M":
			named[e.Tid] = named[e.Tid] || e.Name == "thread_name" && e.Args.Name != ""
			continue
		case "X":
			require.GreaterOrEqual(t, *e.Dur, 0.0, e.Name)
		default:
			require.Equal(t, "i", e.Ph, e.Name)
			require.Nil(t, e.Dur)
		}
		require.GreaterOrEqual(t, e.Ts, 0.0, e.Name)
		require.True(t, named[e.Tid], "%s: the track %d has no name", e.Name, e.Tid)
		require.LessOrEqual(t, e.Tid, int64(math.MaxInt32))
		events = append(events, e)
	}
	nest(t, events)
	return events, file.OtherData.Dropped
}

// nest requires that what is on one track comes one after the other, or one within
// the other.
func nest(t *testing.T, events []seen) {
	t.Helper()
	ns := func(us float64) int64 { return int64(math.Round(us * 1000)) }
	open := map[int64][]int64{} // ends, by track
	for _, e := range events {
		if e.Ph != "X" {
			continue
		}
		start := ns(e.Ts)
		end := start + ns(*e.Dur)
		stack := open[e.Tid]
		for len(stack) > 0 && stack[len(stack)-1] <= start {
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			require.LessOrEqual(t, end, stack[len(stack)-1], "%s overlaps what is before it on track %d: %+v", e.Name, e.Tid, events)
		}
		open[e.Tid] = append(stack, end)
	}
}

// of lists the events of a kind, and of a name unless that is "".
func of(events []seen, kind, name string) (list []seen) {
	for _, e := range events {
		if e.Cat == kind && (name == "" || e.Name == name) {
			list = append(list, e)
		}
	}
	return list
}

const profiledText = `
program profiled
slot a f32
slot c f32
  ldg.f32 x, a[index]
  add.f32 x, x, %s
  stg.f32 x, c[index]
  exit`

// profiledPrograms is how many there were, so that each is compiled.
var profiledPrograms float64

// TestProfile calls a program of its own three times: it is made once, runs three
// times, each within what is known of it.
func TestProfile(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		profiledPrograms++
		immediate := 0x1.5p+3 + profiledPrograms
		const n = 1000
		var list [n]float32
		a, c := floats(t, ex, list[:]...), floats(t, ex, list[:]...)
		var texts []string
		events, dropped := profiled(t, 0, func() {
			p := assemble(t, fmt.Sprintf(profiledText, fmt.Sprintf("%x", immediate)))
			again := assemble(t, strings.Replace(fmt.Sprintf(profiledText, fmt.Sprintf("%x", immediate)), "profiled", "again", 1))
			for range 3 {
				require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{a, c}})))
			}
			require.NoError(t, wait(ex.Launch(again, &LaunchArgs{Slots: []*Buffer{a, c}})))
			ev, err := ex.Synchronize()
			if ev != nil {
				err = Wait(ev, time.Minute)
			}
			require.NoError(t, err)
			require.Equal(t, float32(immediate), values(t, c)[n-1])
		})
		require.Zero(t, dropped)
		for _, e := range events {
			texts = append(texts, fmt.Sprint(e.Cat, " ", e.Name, " of ", e.Args.Of))
		}

		calls := of(events, "call", `launch "profiled"`)
		require.Len(t, calls, 3, texts)
		ran := of(events, "kernel", "profiled")
		require.Len(t, ran, 3, texts)
		for i, k := range ran {
			require.Equal(t, "f32[1000] f32[1000]", calls[i].Args.Operands)
			require.Equal(t, "f32[1000] f32[1000]", k.Args.Operands)
			require.Equal(t, `launch "profiled"`, k.Args.Of)
			require.EqualValues(t, 8*n, k.Args.Bytes, "read once, written once")
			require.Equal(t, "X", k.Ph)
			require.InEpsilon(t, 8*n / *k.Dur / 1000, k.Args.Bandwidth, 1e-6)
			require.NotEqual(t, calls[i].Tid, k.Tid)
			require.Equal(t, ran[0].Tid, k.Tid)
			require.GreaterOrEqual(t, *k.Args.Queued, 0.0)
			require.GreaterOrEqual(t, k.Ts, calls[i].Ts, "it runs when it was called")
			require.GreaterOrEqual(t, k.Ts-*k.Args.Queued, calls[i].Ts-0.01, "it is submitted in the call")
			if !ex.Device().Info.Asynchronous {
				require.LessOrEqual(t, k.Ts+*k.Dur, calls[i].Ts+*calls[i].Dur+0.01)
			}
		}

		// Each is made once, in its first call; the other of the same form is found.
		require.Len(t, of(events, "compile", "assemble"), 2, texts)
		program := func(list []seen, name string) []seen {
			return slices.DeleteFunc(list, func(e seen) bool { return e.Args.Of != `program "`+name+`"` })
		}
		compiled := program(of(events, "compile", "compile"), "profiled")
		require.Len(t, compiled, 1, texts)
		require.Empty(t, program(of(events, "compile", "compile"), "again"), texts)
		require.Len(t, program(of(events, "compile", "canonical form"), "profiled"), 1, texts)
		require.Len(t, program(of(events, "cache", ""), "again"), 1, texts)
		require.Len(t, of(events, "compile", "prepare"), 2, texts)
		require.Less(t, compiled[0].Ts, calls[0].Ts+*calls[0].Dur)
		require.Greater(t, compiled[0].Ts, calls[0].Ts)

		// The values came back as bytes too.
		copies := of(events, "copy", "copy to host")
		require.Len(t, copies, 1, texts)
		require.EqualValues(t, 4*n, copies[0].Args.Bytes)
		require.Equal(t, ran[0].Tid, copies[0].Tid)
	})
}

// TestProfileOfOperations counts the bytes of views and of several launches.
func TestProfileOfOperations(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const n = 1 << 17
		x, err := ex.Allocate(n, isa.F32, true)
		require.NoError(t, err)
		row, err := x.View(0, []int64{4, 8}, []int64{0, 1}) // one row of 8, four times
		require.NoError(t, err)
		out, err := ex.Allocate(32, isa.F32, true)
		require.NoError(t, err)
		to, err := out.View(0, []int64{4, 8}, []int64{8, 1})
		require.NoError(t, err)
		sum, err := ex.Allocate(4, isa.F32, true)
		require.NoError(t, err)
		events, _ := profiled(t, 0, func() {
			require.NoError(t, wait(ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: row}, {Buffer: to}}})))
			require.NoError(t, wait(ex.Call(&Call{Op: kernels.ReduceSum, Operands: []Operand{{Buffer: x}, {Buffer: sum}}, Dims: []int64{1, n}})))
			_, err := ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{{Buffer: x}}})
			require.Error(t, err)
			require.NoError(t, wait(ex.Synchronize()))
		})
		of1 := func(call string) (bytes int64, launches int) {
			for _, e := range of(events, "kernel", "") {
				if e.Args.Of == call {
					bytes += e.Args.Bytes
					launches++
				}
			}
			return
		}
		bytes, launches := of1("copy")
		require.EqualValues(t, 1, launches)
		require.EqualValues(t, 4*8+4*32, bytes, "a broadcast row is read once")
		bytes, launches = of1("reduce_sum")
		require.GreaterOrEqual(t, launches, 1)
		require.GreaterOrEqual(t, bytes, int64(4*n))
		require.Less(t, bytes, int64(4*n*3/2))
		calls := of(events, "call", "")
		require.Len(t, calls, 3)
		require.Equal(t, "f32[4,8] f32[4,8]", calls[0].Args.Operands)
		require.Contains(t, calls[2].Args.Error, "copy takes 2 operands")
	})
}

// TestProfileOfAGraph captures, and replays when somebody profiles, and not.
func TestProfileOfAGraph(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		a, b, c := floats(t, ex, 1, 2), floats(t, ex, 3, 4), floats(t, ex, 0, 0)
		add := func() error { return wait(ex.Op("vector_add", []*Buffer{a, b, c}, nil, nil)) }
		require.NoError(t, add())
		require.NoError(t, wait(ex.Synchronize()))
		var g *Graph
		events, _ := profiled(t, 0, func() {
			require.NoError(t, ex.BeginCapture())
			require.NoError(t, add())
			require.NoError(t, add())
			var err error
			g, err = ex.EndCapture()
			require.NoError(t, err)
		})
		require.Empty(t, of(events, "kernel", ""), "what is recorded does not run")
		defer g.Release()
		events, _ = profiled(t, 0, func() { require.NoError(t, wait(ex.Replay(g))) })
		require.Len(t, of(events, "call", "replay"), 1)
		bytes := int64(0)
		for _, e := range of(events, "kernel", "") {
			bytes += e.Args.Bytes
			require.Equal(t, "X", e.Ph)
		}
		require.EqualValues(t, 2*3*8, bytes)
		require.NoError(t, wait(ex.Replay(g)))
	})
}

// TestProfilesAtOnce has one within another, and both get what happens in both; and
// none gets what happens after it, or before.
func TestProfilesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		a, b, c := floats(t, ex, 1, 2), floats(t, ex, 3, 4), floats(t, ex, 0, 0)
		add := func() {
			require.NoError(t, wait(ex.Op("vector_add", []*Buffer{a, b, c}, nil, nil)))
			require.NoError(t, wait(ex.Synchronize()))
		}
		add()
		outer, err := NewProfile(0)
		require.NoError(t, err)
		defer outer.Close()
		add()
		inner, _ := profiled(t, 0, add)
		add()
		require.Eventually(t, func() bool { return outer.Stop() == 0 }, time.Minute, 100*time.Microsecond)
		add()
		events, _ := read(t, outer)
		require.Len(t, of(events, "call", "vector_add"), 3)
		require.Len(t, of(events, "kernel", ""), 3)
		require.Len(t, of(inner, "call", "vector_add"), 1)
		require.Len(t, of(inner, "kernel", ""), 1)
		again, _ := read(t, outer)
		require.Equal(t, events, again)
	})
}

// TestProfilesAreBounded keeps the first events and counts the rest.
func TestProfilesAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		a, b, c := floats(t, ex, 1, 2), floats(t, ex, 3, 4), floats(t, ex, 0, 0)
		const calls, room = 30, 7
		events, dropped := profiled(t, room, func() {
			for range calls {
				require.NoError(t, wait(ex.Op("vector_add", []*Buffer{a, b, c}, nil, nil)))
			}
			require.NoError(t, wait(ex.Synchronize()))
		})
		require.Len(t, events, room)
		require.GreaterOrEqual(t, dropped, int64(2*calls-room), "a call and a launch each")
	})
	for _, limit := range []int64{-1, 1 << 40} {
		_, err := NewProfile(limit)
		wants(t, err, Invalid, "limit is")
	}
}

// TestAProfilesTextStays while events go on: who made room for the size that he was
// told gets that text, and who comes next a newer one.
func TestAProfilesTextStays(t *testing.T) {
	p, err := NewProfile(0)
	require.NoError(t, err)
	defer p.Close()
	d, err := DeviceFor("cpu")
	require.NoError(t, err)
	ex := executorOn(t, d)
	text := func(room int) string {
		b, err := p.Chrome("1.2.3", room)
		require.NoError(t, err)
		return string(b)
	}
	floats(t, ex, 1)
	told := text(0)
	floats(t, ex, 1)
	require.Equal(t, told, text(len(told)))
	newer := text(len(told))
	require.Greater(t, len(newer), len(told))
	floats(t, ex, 1)
	require.Equal(t, newer, text(1<<30))
	require.Greater(t, len(text(1<<30)), len(newer))
}

// TestProfileOfThreads has threads call on executors of their own and on one that
// they share: each has its track, and each stream has one.
func TestProfileOfThreads(t *testing.T) {
	for name, d := range testDevices(t) {
		t.Run(name, func(t *testing.T) {
			const threads, calls = 4, 10
			shared := executorOn(t, d)
			events, _ := profiled(t, 0, func() {
				var group sync.WaitGroup
				for range threads {
					own := executorOn(t, d)
					group.Go(func() {
						runtime.LockOSThread() // for good: no other goroutine gets the thread's number
						for i := range 2 * calls {
							ex := own
							if i%2 == 0 {
								ex = shared
							}
							x, err := ex.Allocate(2, isa.F32, false)
							if err == nil {
								err = wait(ex.Op("copy", []*Buffer{x, x}, nil, nil))
								x.Free()
							}
							if err != nil {
								t.Error(err)
							}
						}
						if err := wait(own.Synchronize()); err != nil {
							t.Error(err)
						}
					})
				}
				group.Wait()
				require.NoError(t, wait(shared.Synchronize()))
			})
			callers, streams := map[int64]int{}, map[int64]int{}
			for _, e := range of(events, "call", "copy") {
				callers[e.Tid]++
			}
			for _, e := range of(events, "kernel", "") {
				streams[e.Tid]++
			}
			require.Len(t, callers, threads)
			for _, n := range callers {
				require.Equal(t, 2*calls, n)
			}
			require.Len(t, streams, threads+1)
			counts := []int{}
			for _, n := range streams {
				counts = append(counts, n)
			}
			slices.SortFunc(counts, cmp.Compare[int])
			require.Equal(t, []int{calls, calls, calls, calls, threads * calls}, counts)
		})
	}
}

// TestProfileOfADevicesTime has launches queued behind one another: the device says
// how long each takes, and it is not the host's time of the call.
func TestProfileOfADevicesTime(t *testing.T) {
	const delay = 3 * time.Millisecond
	b := asynctest.New(asynctest.Options{Delay: delay})
	ex := executorOn(t, openAsync(t, b, 0))
	x, y, z := floats(t, ex, 1, 2), floats(t, ex, 3, 4), floats(t, ex, 0, 0)
	add := func() { require.NoError(t, wait(ex.Op("vector_add", []*Buffer{x, y, z}, nil, nil))) }
	add()
	require.NoError(t, wait(ex.Synchronize()))
	const calls = 4
	events, _ := profiled(t, 0, func() {
		for range calls {
			add()
		}
	}) // which waits for them
	ran := of(events, "kernel", "")
	require.Len(t, ran, calls)
	called := of(events, "call", "vector_add")
	require.Len(t, called, calls)
	for i, k := range ran {
		require.GreaterOrEqual(t, *k.Dur, float64(delay.Microseconds()))
		require.GreaterOrEqual(t, k.Ts, called[0].Ts+float64(i)*float64(delay.Microseconds()), "each waits for those before it")
		// Its wait is counted from its own call, however late that came.
		const rounding = 0.01
		submitted := k.Ts - *k.Args.Queued
		require.GreaterOrEqual(t, submitted, called[i].Ts-rounding)
		require.LessOrEqual(t, submitted, called[i].Ts+*called[i].Dur+rounding)
	}
	require.Zero(t, b.Counts().Timings, "all are released")
}

// TestProfileOfWhatFails has launches refused at once, failing later, and the device
// lost: nothing waits for ever for their times, and none is kept.
func TestProfileOfWhatFails(t *testing.T) {
	for name, o := range map[string]asynctest.Options{"launch": {FailLaunch: 2}, "panic": {PanicLaunch: 2}, "lost": {Lose: 12}} {
		t.Run(name, func(t *testing.T) {
			o.Delay = 20 * time.Microsecond
			b := asynctest.New(o)
			ex := executorOn(t, openAsync(t, b, 0))
			x, y, z := floats(t, ex, 1, 2), floats(t, ex, 3, 4), floats(t, ex, 0, 0)
			failed := 0
			events, _ := profiled(t, 0, func() {
				for range 10 {
					if wait(ex.Op("vector_add", []*Buffer{x, y, z}, nil, nil)) != nil {
						failed++
					}
				}
				if wait(ex.Synchronize()) != nil {
					failed++
				}
			})
			require.NotZero(t, failed)
			require.NotEmpty(t, of(events, "kernel", ""))
			require.Zero(t, b.Counts().Timings)
		})
	}
}

// TestProfileOfACopyThatFails has the first piece of a long copy fail, of which the
// caller is told, and nothing come after it: no profile waits for the piece's time.
func TestProfileOfACopyThatFails(t *testing.T) {
	const bytes, slab = copyPiece + 64, 4 << 20
	for name, o := range map[string]asynctest.Options{"failed": {FailCopy: 1}, "failed later": {FailCopy: 2}, "no room": {HostMemory: 2*stagePiece + slab}, "lost": {Lose: 1}} {
		t.Run(name, func(t *testing.T) {
			o.Memory = 2 * copyPiece
			b := asynctest.New(o)
			ex := executorOn(t, openAsync(t, b, 0))
			x, err := ex.Allocate(bytes, isa.U8, false)
			require.NoError(t, err)
			defer x.Free()
			data := hostBytes(bytes)
			events, _ := profiled(t, 0, func() { require.Error(t, wait(x.Read(addressOf(data), 0, bytes))) })
			runtime.KeepAlive(data)
			if name != "no room" {
				require.NotEmpty(t, of(events, "copy", "copy to host"))
			}
			require.Zero(t, b.Counts().Timings)
		})
	}
}

// breaking is a stream on which the second launch panics, and nothing is queued after that.
type breaking struct {
	backends.Stream
	launches int
	last     backends.Ticket
}

func (s *breaking) Time() backends.Timing { return s.Stream.(backends.Timer).Time() }

func (s *breaking) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	if s.launches++; s.launches == 2 {
		panic("broken")
	}
	ticket, err := s.Stream.Launch(k, l)
	s.last = ticket
	return ticket, err
}

func (s *breaking) Fill(dst uintptr, cell uint64, size int, count int64) (backends.Ticket, error) {
	if s.launches >= 2 {
		return 0, errRefused
	}
	return s.Stream.Fill(dst, cell, size, count)
}

// TestProfileOfWhatNobodyCanTell has a call of several launches panic such that nobody
// can tell when the device is done with the first: no profile waits for it.
func TestProfileOfWhatNobodyCanTell(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	ex := executorOn(t, openAsync(t, b, 0))
	x, err := ex.Allocate(1<<20, isa.F32, true)
	require.NoError(t, err)
	out := floats(t, ex, 0)
	require.NoError(t, wait(ex.Synchronize()))
	line := ex.stream.Target().Line
	stream := &breaking{Stream: line.Stream}
	line.Stream = stream
	events, _ := profiled(t, 0, func() {
		_, err := ex.Op("reduce_sum", []*Buffer{x, out}, nil, []int64{1, 1 << 20})
		wants(t, err, Internal, "broken")
	})
	require.Len(t, of(events, "kernel", ""), 1)
	require.Zero(t, b.Counts().Timings)
	require.Eventually(t, func() bool { return stream.Passed() >= stream.last }, time.Minute, time.Millisecond) // before it is closed
}

// TestNobodyProfiles has calls cost no memory, before anybody profiles and after.
func TestNobodyProfiles(t *testing.T) {
	if instrumented {
		t.Skip("needs a build without -race and -tags lockorder: both allocate")
	}
	d, err := DeviceFor("cpu")
	require.NoError(t, err)
	ex := executorOn(t, d)
	x := floats(t, ex, 1, 2, 3)
	c := &Call{Op: kernels.VectorAdd, Operands: []Operand{{Buffer: x}, {Buffer: x}, {Buffer: x}}}
	call := func() {
		if _, err := ex.Call(c); err != nil {
			t.Error(err)
		}
	}
	call()
	require.Zero(t, testing.AllocsPerRun(200, call))
	events, _ := profiled(t, 0, func() { call() })
	require.Len(t, of(events, "call", ""), 1)
	require.Zero(t, testing.AllocsPerRun(200, call))
}

// TestLimitsOfProfiles: the last number of events that may be kept, and the next.
func TestLimitsOfProfiles(t *testing.T) {
	for limit, ok := range map[int64]bool{-1: false, 0: true, 1: true, 1 << 26: true, 1<<26 + 1: false} {
		p, err := NewProfile(limit)
		if !ok {
			wants(t, err, Invalid, fmt.Sprintf("profile: limit is %d events; expected 1 … 67108864, or 0 for 262144", limit))
			continue
		}
		require.NoError(t, err)
		p.Close()
	}
}

// TestNobodyWaitsForWhatIsDone, as a profile sees it.
func TestNobodyWaitsForWhatIsDone(t *testing.T) {
	d := asyncDevice(t, asynctest.Options{})
	ex := executorOn(t, d)
	events, _ := profiled(t, 0, func() {
		ev, err := ex.Synchronize()
		require.NoError(t, wait(ev, err))
		require.NoError(t, Wait(ev, time.Minute))
	})
	require.Empty(t, of(events, "wait", ""))
}

// TestProfileOfABusyCall: what was refused comes again, and counts once.
func TestProfileOfABusyCall(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x, y := floats(t, ex, make([]float32, 77)...), floats(t, ex, make([]float32, 77)...)
		c := &Call{Op: kernels.VectorNeg, Operands: []Operand{{Buffer: x}, {Buffer: y}}, Try: true}
		events, _ := profiled(t, 0, func() {
			_, err := ex.Call(c)
			wants(t, err, Busy, "would have to wait")
			c.Try = false
			require.NoError(t, wait(ex.Call(c)))
		})
		require.Len(t, of(events, "call", "vector_neg"), 1)
	})
}
