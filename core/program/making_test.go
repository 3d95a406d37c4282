package program

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa/isatest/shapes"
	"github.com/hologram-project/hologram/isa/work"
)

var errStop = errors.New("stop")

func stopAtOnce() error { return errStop }

// slow is a device that compiles until it is let go, or until its meter stops it
// if it heeds that.
type slow struct {
	*counting
	heeds   bool
	letGo   chan struct{}
	stopped chan struct{}
}

func newSlow(t *testing.T, heeds bool) *slow {
	return &slow{counting: newCounting(t), heeds: heeds, letGo: make(chan struct{}), stopped: make(chan struct{}, 2)}
}

func (d *slow) Info() backends.Info {
	info := d.counting.Info()
	info.Heeds = d.heeds
	return info
}

func (d *slow) Compile(u *backends.Unit, v backends.Variant) (k backends.Kernel, err error) {
	for d.heeds {
		select {
		case <-d.letGo:
			return d.counting.Compile(u, v)
		default:
		}
		func() {
			defer work.Catch(&err)
			u.Work.Step(1 << 12)
		}()
		if err != nil {
			d.stopped <- struct{}{}
			return nil, err
		}
	}
	<-d.letGo
	return d.counting.Compile(u, v)
}

// Whoever waits for a kernel can leave, whether its compiler heeds that or not;
// the others get theirs.
func TestWaitersLeaveWhateverGoesOn(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		d := newSlow(t, heeds)
		c := NewCache(d)
		p := number(t, "p", 1)
		var group sync.WaitGroup
		begun := make(chan struct{})
		var once sync.Once
		group.Go(func() {
			k, err := p.Kernel(c, backends.Variant{}, func() error { once.Do(func() { close(begun) }); return nil })
			if err == nil {
				k.Release()
			}
			if err != nil {
				t.Error(err)
			}
		})
		<-begun // that one waits
		for range 3 {
			_, err := p.Kernel(c, backends.Variant{}, stopAtOnce)
			require.ErrorIs(t, err, errStop)
		}
		close(d.letGo)
		group.Wait()
		require.EqualValues(t, 1, d.compiled.Load())
		require.Equal(t, 1, c.Stats().Entries)
	}
}

// What nobody waits for any more is stopped, leaves no entry and no kernel, and
// is made anew for who asks next.
func TestWhatNobodyWaitsForIsStopped(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		d := newSlow(t, heeds)
		c := NewCache(d)
		p := number(t, "p", 1)
		for range 3 {
			_, err := p.Kernel(c, backends.Variant{}, stopAtOnce)
			require.ErrorIs(t, err, errStop)
			require.Zero(t, c.Stats().Entries)
			for range map[bool]int{true: 2}[heeds] { // when it is seen to be large, and for good
				select {
				case <-d.stopped:
				case <-time.After(time.Minute):
					t.Fatal("the compiler was not stopped")
				}
			}
		}
		close(d.letGo)
		k, err := p.Kernel(c, backends.Variant{}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 2, k.Users(), "the cache and this test")
		require.Equal(t, 1, c.Stats().Entries)
		k.Release()
		// Those that were made for nobody after all are let go.
		require.Eventually(t, func() bool {
			return d.compiled.Load() == map[bool]int32{true: 1, false: 4}[heeds] && d.alive.Load() == 1
		}, time.Minute, time.Millisecond)
		c.Clear()
		require.Zero(t, d.alive.Load())
	}
}

// The same for a thing that is made once: it goes on while one waits, is made
// anew when all have left, and is kept.
func TestWhatIsMadeOnce(t *testing.T) {
	var o once[int]
	var begun atomic.Int32
	letGo := make(chan struct{})
	f := func(m *work.Meter) (int, error) {
		n := int(begun.Add(1))
		for {
			select {
			case <-letGo:
				return n, nil
			default:
				m.Step(1 << 12)
				time.Sleep(time.Microsecond)
			}
		}
	}
	_, err := o.get("make", "it", shortInsts+1, stopAtOnce, f)
	require.ErrorIs(t, err, errStop)
	var group sync.WaitGroup
	waits := make(chan struct{})
	var first sync.Once
	group.Go(func() {
		n, err := o.get("make", "it", shortInsts+1, func() error { first.Do(func() { close(waits) }); return nil }, f)
		if n != 2 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
	<-waits
	for range 3 {
		_, err := o.get("make", "it", shortInsts+1, stopAtOnce, f)
		require.ErrorIs(t, err, errStop)
	}
	close(letGo)
	group.Wait()
	n, err := o.get("make", "it", shortInsts+1, stopAtOnce, f)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.EqualValues(t, 2, begun.Load())
}

// Code of the caller's that runs while it waits, such as a signal handler, may
// ask for the same thing.
func TestStopMayAskForWhatItWaitsFor(t *testing.T) {
	d := newSlow(t, true)
	c := NewCache(d)
	p := number(t, "p", 1)
	asked := 0
	k, err := p.Kernel(c, backends.Variant{}, func() error {
		if asked++; asked > 1 {
			return nil
		}
		close(d.letGo)
		k, err := p.Kernel(c, backends.Variant{}, nil)
		require.NoError(t, err)
		k.Release()
		return nil
	})
	require.NoError(t, err)
	k.Release()
	require.EqualValues(t, 1, d.compiled.Load())
}

// Each stage of a program's making ends when it is told to, and can be done
// again.
func TestEachStageEnds(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Microsecond
	var text string
	for _, s := range shapes.All {
		if s.Name == "forward branches" {
			text = s.Text(10000)
		}
	}
	_, err := Assemble("large", text, stopAtOnce)
	require.ErrorIs(t, err, errStop)
	p, err := Assemble("large", text, nil)
	require.NoError(t, err)
	_, err = Decode(p.Encode(), stopAtOnce)
	require.ErrorIs(t, err, errStop)
	_, err = p.Hash(stopAtOnce)
	require.ErrorIs(t, err, errStop)
	_, err = p.Canonical(stopAtOnce)
	require.ErrorIs(t, err, errStop)
	c := NewCache(newCounting(t))
	_, err = p.Kernel(c, backends.Variant{}, stopAtOnce)
	require.ErrorIs(t, err, errStop)
	_, err = p.Hash(nil)
	require.NoError(t, err)
	_, err = p.Canonical(stopAtOnce)
	require.ErrorIs(t, err, errStop)
	_, err = p.Kernel(c, backends.Variant{}, stopAtOnce)
	require.ErrorIs(t, err, errStop)
	k, err := p.Kernel(c, backends.Variant{}, nil)
	require.NoError(t, err)
	k.Release()
	_, err = p.Canonical(nil)
	require.NoError(t, err)
}

// What is made of a short program is made by who asks, but for what turns out to be large: who
// asks can leave that, and whoever waits for it gets what is made anew.
func TestWhatIsShortIsMadeByWhoAsks(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = time.Microsecond
	for name, steps := range map[string]int{"short": leanSteps / 2, "large": 2 * leanSteps} {
		t.Run(name, func(t *testing.T) {
			mine := goroutine()
			var o once[string]
			var begun atomic.Int32
			letGo := make(chan struct{})
			f := func(m *work.Meter) (by string, err error) {
				defer work.Catch(&err)
				begun.Add(1)
				for range steps / 100 {
					m.Step(100)
				}
				if name == "large" {
					<-letGo
				}
				return goroutine(), nil
			}
			by, err := o.get("make", "it", shortInsts, stopAtOnce, f)
			if name == "short" {
				require.NoError(t, err)
				require.Equal(t, mine, by)
				require.EqualValues(t, 1, begun.Load())
				return
			}
			require.ErrorIs(t, err, errStop)
			close(letGo)
			by, err = o.get("make", "it", shortInsts, nil, f)
			require.NoError(t, err)
			require.NotEqual(t, mine, by)
		})
	}
}

// goroutine returns the first words of the stack, which name the goroutine.
func goroutine() string {
	stack, _, _ := strings.Cut(string(debug.Stack()), "[")
	return stack
}

// A panic in any stage is an error of the library's that says where.
func TestAPanicIsAnError(t *testing.T) {
	for _, insts := range []int{1, shortInsts + 1} {
		_, err := alone("assemble", "assemble \"x\"", insts, stopAtOnce, func(*work.Meter) (int, error) { panic("oh") })
		require.Equal(t, status.Internal, status.CodeOf(err))
		require.ErrorContains(t, err, `assemble "x": the compiler ended before its time: oh`)
		require.ErrorContains(t, err, "making_test.go")
	}
}

var garbage []byte

// Who makes a large program waits for the collector as the heap grows, so that garbage is
// gone before as much again is there.
func TestALargeProgramIsMadeBesideLittleGarbage(t *testing.T) {
	const pieces = 20
	g := begin("make", "it", func(m *work.Meter) (int, error) {
		var before, after runtime.MemStats
		m.Step(leanSteps)
		runtime.ReadMemStats(&before)
		for range pieces {
			garbage = make([]byte, 16*leanBytes)
			m.Step(10_000)
		}
		runtime.ReadMemStats(&after)
		return int(after.NumForcedGC - before.NumForcedGC), nil
	})
	<-g.done
	garbage = nil
	require.NoError(t, g.err)
	require.GreaterOrEqual(t, g.value, pieces/2, "collected so often")
}

// A program of a hundred instructions is made without a collection of its own.
func TestASmallProgramIsMadeWithoutACollection(t *testing.T) {
	g := begin("make", "it", func(m *work.Meter) (int, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range leanSteps/1000 - 1 {
			m.Step(1000)
		}
		runtime.ReadMemStats(&after)
		return int(after.NumForcedGC - before.NumForcedGC), nil
	})
	<-g.done
	require.NoError(t, g.err)
	require.Zero(t, g.value)
}

// While large programs are made the heap grows by less, and as before once they are, or were
// left, or panicked.
func TestTheHeapGrowsAsBeforeOnceALargeProgramIsMade(t *testing.T) {
	percent := func() int {
		now := debug.SetGCPercent(50)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	for name, end := range map[string]func(){"made": func() {}, "panicked": func() { panic("oh") }} {
		t.Run(name, func(t *testing.T) {
			first, second := make(chan struct{}), make(chan struct{})
			large := func(on <-chan struct{}) *making[int] {
				begun := make(chan struct{})
				g := begin("make", "it", func(m *work.Meter) (int, error) {
					m.Step(leanSteps)
					close(begun)
					<-on
					end()
					return 1, nil
				})
				<-begun
				return g
			}
			a := large(first)
			b := large(second)
			require.Equal(t, leanPercent, percent())
			close(first)
			<-a.done
			require.Equal(t, leanPercent, percent(), "one is still being made")
			close(second)
			<-b.done
			require.Equal(t, before, percent())
		})
	}
	_, err := alone("make", "it", shortInsts+1, stopAtOnce, func(m *work.Meter) (int, error) {
		for {
			m.Step(10_000)
		}
	})
	require.Error(t, err)
	require.Eventually(t, func() bool { return percent() == before }, 10*time.Second, time.Millisecond)
}
