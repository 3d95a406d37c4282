package program

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
)

// counting is a device that counts, and delays, compilations, and may fail or panic.
type counting struct {
	backends.Device
	compiled atomic.Int32
	alive    atomic.Int32 // kernels
	err      error
	panics   bool
}

func (d *counting) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	d.compiled.Add(1)
	time.Sleep(time.Millisecond)
	if d.panics {
		panic("oh")
	}
	if d.err != nil {
		return nil, d.err
	}
	k, err := d.Device.Compile(u, v)
	if err != nil {
		return nil, err
	}
	d.alive.Add(1)
	return counted{k, &d.alive}, nil
}

type counted struct {
	backends.Kernel
	alive *atomic.Int32
}

func (k counted) Release() {
	k.alive.Add(-1)
	k.Kernel.Release()
}

func newCounting(t *testing.T) *counting {
	d, err := cpu.New(1).Open(0)
	require.NoError(t, err)
	return &counting{Device: d}
}

func number(t *testing.T, name string, i int) *Program {
	p, err := Assemble("test", fmt.Sprintf("program %s\nslot c u32\nstg.u32 %d, c[index]\nexit", name, i), nil)
	require.NoError(t, err)
	return p
}

func TestTheCacheIsBoundedAndCounts(t *testing.T) {
	d := newCounting(t)
	c := NewCache(d)
	c.limit = 4
	var held []*Kernel
	for i := range 10 {
		k, err := number(t, "p", i).Kernel(c, backends.Variant{}, nil)
		require.NoError(t, err)
		held = append(held, k)
	}
	require.Equal(t, Stats{Entries: 4, Limit: 4, Misses: 10, Evictions: 6}, c.Stats())
	// Another name is the same program, and what a device does not heed no other variant.
	k, err := number(t, "another", 9).Kernel(c, backends.Variant{Packed: true, NoFuel: true}, nil)
	require.NoError(t, err)
	require.Same(t, held[9], k)
	require.EqualValues(t, 10, d.compiled.Load())
	for i, k := range held {
		want := int64(1) // evicted: this test alone
		switch {
		case i == 9:
			want = 3
		case i >= 6:
			want = 2
		}
		require.Equal(t, want, k.Users(), i)
	}
	require.Equal(t, Stats{Entries: 4, Limit: 4, Hits: 1, Misses: 10, Evictions: 6}, c.Stats())
	// What was used last stays longest.
	for _, i := range []int{6, 10, 6, 11, 6} {
		k, err := number(t, "p", i).Kernel(c, backends.Variant{}, nil)
		require.NoError(t, err)
		k.Release()
	}
	require.Equal(t, Stats{Entries: 4, Limit: 4, Hits: 4, Misses: 12, Evictions: 8}, c.Stats())
	require.EqualValues(t, 12, d.compiled.Load())
	c.Clear()
	require.Zero(t, c.Stats().Entries)
	require.EqualValues(t, 2, k.Users())
}

// TestLeavingTooLate gives up on a kernel that was finished just then: it stays
// for those who ask next, and is released once.
func TestLeavingTooLate(t *testing.T) {
	d := newCounting(t)
	c := NewCache(d)
	p := number(t, "p", 1)
	u, err := p.unit(nil)
	require.NoError(t, err)
	e, _ := c.entry("p", backends.KeyOf(&u.Unit, backends.Variant{}, &c.Info), &u.Unit, backends.Variant{})
	c.start(e, &u.Unit)
	_, err = e.wait(nil)
	require.NoError(t, err)
	c.leave(e)
	k, err := p.Kernel(c, backends.Variant{}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, d.compiled.Load())
	k.Release()
	c.Clear()
	require.Zero(t, d.alive.Load())
}

// TestOneCompilationForAllWhoWait has many ask for a kernel at once, of which
// one compiles it, also where that fails or panics.
func TestOneCompilationForAllWhoWait(t *testing.T) {
	d := newCounting(t)
	c := NewCache(d)
	p := number(t, "p", 1)
	ask := func() (errs []error) {
		var group sync.WaitGroup
		var mu sync.Mutex
		for range 8 {
			group.Go(func() {
				defer func() { _ = recover() }()
				k, err := p.Kernel(c, backends.Variant{}, nil)
				if err == nil {
					k.Release()
				}
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			})
		}
		group.Wait()
		return errs
	}
	d.panics = true
	for _, err := range ask() {
		require.ErrorContains(t, err, "the compiler ended before its time")
	}
	d.panics, d.err = false, fmt.Errorf("no code: %w", backends.ErrOutOfMemory)
	for _, err := range ask() {
		require.ErrorContains(t, err, "no code")
	}
	require.Zero(t, c.Stats().Entries)
	d.err = nil
	before := d.compiled.Load()
	for _, err := range ask() {
		require.NoError(t, err)
	}
	require.Equal(t, before+1, d.compiled.Load())
}

// TestAProgramThatIsMerelyLarge is refused as such: the library has no defect.
func TestAProgramThatIsMerelyLarge(t *testing.T) {
	text := "program large\nslot c f32\nldg.f32 x, c[index]\n"
	for range 2000 {
		text += "sin.f64 y, 1.0\npow.f32 x, x, x\nerf.f32 x, x\n"
	}
	p, err := Assemble("test", text+"stg.f32 x, c[index]\nexit", nil)
	require.NoError(t, err)
	_, err = p.Kernel(NewCache(newCounting(t)), backends.Variant{}, nil)
	require.Error(t, err)
	require.NotEqual(t, status.Internal, status.CodeOf(err), err)
	require.ErrorContains(t, err, "large")
}

// failing is a kernel whose code for launches cannot be made, until it can.
type failing struct {
	backends.Kernel
	calls    atomic.Int32
	how      func() error // nil: it is made
	released atomic.Int32
}

func (k *failing) Specialize(_ *backends.Launch, try bool) error {
	if try && k.calls.Load() < 3 {
		return backends.ErrPending
	}
	if k.calls.Add(1) < 3 {
		return k.how()
	}
	return nil
}

func (k *failing) Release() { k.released.Add(1) }

// TestCodeThatCannotBeMade: whoever had it made is told, and the next tries anew.
func TestCodeThatCannotBeMade(t *testing.T) {
	for text, how := range map[string]func() error{
		"no code":                        func() error { return fmt.Errorf("no code: %w", backends.ErrOutOfMemory) },
		"ended before its time: oh dear": func() error { panic("oh dear") },
	} {
		f := &failing{how: how}
		k := &Kernel{Kernel: f, special: f}
		k.Start(1)
		for range 2 {
			require.ErrorContains(t, k.Specialize("it", &backends.Launch{}, false, nil), text)
		}
		require.NoError(t, k.Specialize("it", &backends.Launch{}, false, nil))
		require.NoError(t, k.Specialize("it", &backends.Launch{}, true, nil))
		require.EqualValues(t, 1, k.Users())
		k.Release()
		require.EqualValues(t, 1, f.released.Load())
	}
}

// keeping is a kernel whose code for a launch is made for even N, and found for others.
type keeping struct {
	kinds
	kept bool
}

func (k *keeping) Specialize(l *backends.Launch, try bool) error {
	k.kept = l.N%2 == 1
	return k.kinds.Specialize(l, try)
}

func (k *keeping) Kept() bool { return k.kept }

// TestCodeThatWasKept is told of in profiles, since it takes far less time than code
// that is made; what is there already is not.
func TestCodeThatWasKept(t *testing.T) {
	f := &keeping{kinds: kinds{begun: make(chan uint64, 10), goOn: make(chan struct{}, 10)}}
	k := &Kernel{Kernel: f, special: f}
	k.Start(1)
	p := profile.Start(100)
	defer p.Close()
	for _, n := range []uint64{1, 2, 1, 3} {
		f.goOn <- struct{}{}
		require.NoError(t, k.Specialize(fmt.Sprint("launch ", n), &backends.Launch{N: n}, false, nil))
	}
	p.Stop()
	var trace struct {
		TraceEvents []struct {
			Name, Cat string
			Args      struct{ Of string }
		}
	}
	text, err := p.Chrome("", 1<<20)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &trace))
	var told []string
	for _, e := range trace.TraceEvents {
		if e.Cat == profile.Cache.String() {
			told = append(told, e.Name+": "+e.Args.Of)
		}
	}
	require.Equal(t, []string{"kept on disk: launch 1", "kept on disk: launch 3"}, told)
}

// kinds is a kernel that makes code for launches by their N, when it is let.
type kinds struct {
	backends.Kernel
	begun chan uint64
	goOn  chan struct{}
	made  sync.Map
}

func (k *kinds) Specialize(l *backends.Launch, try bool) error {
	if _, ok := k.made.Load(l.N); ok {
		return nil
	}
	if try {
		return backends.ErrPending
	}
	k.begun <- l.N
	<-k.goOn
	k.made.Store(l.N, true)
	return nil
}

func (k *kinds) Release() {}

// TestCodeOfAnotherKind is waited for, since a kernel's is made one at a time, and is
// not taken for the code that is wanted.
func TestCodeOfAnotherKind(t *testing.T) {
	f := &kinds{begun: make(chan uint64), goOn: make(chan struct{})}
	k := &Kernel{Kernel: f, special: f}
	k.Start(1)
	ask := func(n uint64) chan error {
		done := make(chan error, 1)
		go func() { done <- k.Specialize("it", &backends.Launch{N: n}, false, nil) }()
		return done
	}
	first := ask(1)
	require.EqualValues(t, 1, <-f.begun)
	second := ask(2)
	time.Sleep(10 * time.Millisecond) // so that it waits, most times
	f.goOn <- struct{}{}
	require.NoError(t, <-first)
	select {
	case n := <-f.begun:
		require.EqualValues(t, 2, n)
		f.goOn <- struct{}{}
		require.NoError(t, <-second)
	case err := <-second:
		t.Fatal("it goes on without its code: ", err)
	}
	k.Release()
}
