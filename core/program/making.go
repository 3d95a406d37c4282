package program

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa/work"
)

// Stop is asked now and then by who waits for a program to be assembled,
// verified, brought to its canonical form or compiled, on the thread that waits
// and with no lock held; an error ends the wait, and is returned. Nil waits to
// the end.
type Stop func() error

// patience is how long one looks away before one asks again. Tests have less.
var patience = 20 * time.Millisecond

// making is something that is being made: at once by who asked for it first, if it is
// short, else on a goroutine of its own, so that who waits for it can leave at any time,
// whatever it is at, and so that code of the caller's that Stop runs may wait for it too.
// When all have left it is stopped.
type making[T any] struct {
	make    func(m *work.Meter) (T, error)
	keep    func(value T, err error) (T, error) // nil, or what becomes of what was made
	done    chan struct{}                       // closed when value or err is there
	value   T
	err     error
	waiting int // who waits; guarded by its owner's lock
	left    atomic.Bool

	event profile.Event // what profiles are told of it
	span  profile.Span  // of who waited first
	ended atomic.Bool   // that is told
}

// shortInsts are the instructions up to which a program may be short: what is made of it
// then takes a few milliseconds at most. Twice a goroutine's way from thread to thread, since
// who calls from C keeps his, took 80 µs, as long as all that is made of ten instructions.
const shortInsts = 512

// end tells profiles that the thing is made, or that who waited first has left.
func (g *making[T]) end(err error) {
	if !g.ended.Swap(true) {
		g.span.End(g.event, err)
	}
}

// plan returns what is to be made by f, for one who waits. The meter stops f when all have
// left; a panic is an error. stage is what is done, to which what names in errors.
func plan[T any](stage, what string, f func(m *work.Meter) (T, error)) *making[T] {
	return &making[T]{make: f, done: make(chan struct{}), waiting: 1, span: profile.Begin(),
		event: profile.Event{Kind: profile.Compile, Name: stage, Of: what}}
}

// begin plans a thing, and starts making it on a goroutine of its own.
func begin[T any](stage, what string, f func(m *work.Meter) (T, error)) *making[T] {
	g := plan(stage, what, f)
	go g.run(false)
	return g
}

// start starts making a thing, for a program of so many instructions. If it may be short it
// is made before start returns, unless it turns out to be large after all: that is begun anew
// on a goroutine of its own. No lock is held.
func (g *making[T]) start(insts int) {
	if insts <= shortInsts {
		lock.None()
		g.run(true)
	} else {
		go g.run(false)
	}
}

func (g *making[T]) run(short bool) {
	value, large, err := g.try(short)
	if short && large && err != nil {
		go g.run(false)
		return
	}
	if g.keep != nil {
		value, err = g.keep(value, err)
	}
	g.value, g.err = value, err
	g.make, g.keep = nil, nil // which hold what it was made of
	g.end(err)
	close(g.done)
}

// try makes the thing and reports whether it is large; with short it makes no large one.
func (g *making[T]) try(short bool) (value T, large bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = status.Errorf(status.Internal, "%s: the compiler ended before its time: %v\n%s", g.event.Of, r, debug.Stack())
		}
	}()
	defer fpenv.Leave(fpenv.Enter()) // immediates are rounded, and constants folded
	var m *work.Meter
	defer func() {
		if large && !short {
			endLean()
		}
	}()
	m = work.New(func() error {
		if !large && m.Steps() >= leanSteps { // most are made before
			large = true
			if !short {
				beLean()
			}
		}
		if large {
			if short {
				return errLarge
			}
			collect()
		}
		if g.left.Load() {
			return errLeft
		}
		return nil
	})
	value, err = g.make(m)
	return value, large, err
}

// errLeft is what became of a thing that nobody waited for any more; nobody sees it.
var errLeft = status.Errorf(status.Cancelled, "nobody waits for it any more")

// errLarge is what becomes of a thing that is not short after all; nobody sees it.
var errLarge = status.Errorf(status.Cancelled, "it is large")

// wait waits until the thing is there, which it tells, or stop ends the wait.
func (g *making[T]) wait(stop Stop) (there bool, err error) {
	if stop == nil {
		<-g.done
		return true, nil
	}
	select { // most are made at once
	case <-g.done:
		return true, nil
	default:
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		select {
		case <-g.done:
			return true, nil
		case <-t.C:
			lock.None()
			if err := stop(); err != nil {
				if g.span.Mine() {
					g.end(err)
				}
				return false, err
			}
			t.Reset(patience)
		}
	}
}

// alone makes a thing of a program of so many instructions, that nobody else waits for.
func alone[T any](stage, what string, insts int, stop Stop, f func(m *work.Meter) (T, error)) (T, error) {
	g := plan(stage, what, f)
	g.start(insts)
	if _, err := g.wait(stop); err != nil {
		g.left.Store(true)
		var none T
		return none, err
	}
	return g.value, g.err
}

// once is a thing that is made when it is first asked for, and kept, be it an
// error; unless all who waited for it left.
type once[T any] struct {
	made atomic.Pointer[making[T]] // done
	mu   lock.Mutex[lock.Last]
	g    *making[T] // under way
}

func (o *once[T]) get(stage, what string, insts int, stop Stop, f func(m *work.Meter) (T, error)) (T, error) {
	if g := o.made.Load(); g != nil {
		return g.value, g.err
	}
	o.mu.Lock()
	g := o.g
	mine := g == nil
	if mine {
		g = plan(stage, what, f)
		o.g = g
	} else {
		g.waiting++
	}
	o.mu.Unlock()
	if mine {
		g.start(insts)
	}
	there, err := g.wait(stop)
	if there {
		o.made.Store(g)
		return g.value, g.err
	}
	o.mu.Lock()
	if g.waiting--; g.waiting == 0 && o.g == g {
		g.left.Store(true)
		o.g = nil
	}
	o.mu.Unlock()
	var none T
	return none, err
}
