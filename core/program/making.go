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

// making is something that is being made, on a goroutine of its own, so that who
// waits for it can leave at any time, whatever it is at, and so that code of the
// caller's that Stop runs may wait for it too. When all have left it is stopped.
type making[T any] struct {
	done    chan struct{} // closed when value or err is there
	value   T
	err     error
	waiting int // who waits; guarded by its owner's lock
	left    atomic.Bool

	event profile.Event // what profiles are told of it
	span  profile.Span  // of who waited first
	ended atomic.Bool   // that is told
}

// end tells profiles that the thing is made, or that who waited first has left.
func (g *making[T]) end(err error) {
	if !g.ended.Swap(true) {
		g.span.End(g.event, err)
	}
}

// begin starts making a thing, for one who waits. The meter stops f when all have
// left; a panic is an error. stage is what is done, to which what names in errors.
func begin[T any](stage, what string, f func(m *work.Meter) (T, error)) *making[T] {
	g := &making[T]{done: make(chan struct{}), waiting: 1, span: profile.Begin(),
		event: profile.Event{Kind: profile.Compile, Name: stage, Of: what}}
	go func() {
		defer close(g.done)
		defer func() { g.end(g.err) }()
		defer func() {
			if r := recover(); r != nil {
				g.err = status.Errorf(status.Internal, "%s: the compiler ended before its time: %v\n%s", what, r, debug.Stack())
			}
		}()
		defer fpenv.Leave(fpenv.Enter()) // immediates are rounded, and constants folded
		var m *work.Meter
		large := false
		defer func() {
			if large {
				endLean()
			}
		}()
		m = work.New(func() error {
			if !large && m.Steps() >= leanSteps { // most are made before
				large = true
				beLean()
			}
			if large {
				collect()
			}
			if g.left.Load() {
				return errLeft
			}
			return nil
		})
		g.value, g.err = f(m)
	}()
	return g
}

// errLeft is what became of a thing that nobody waited for any more; nobody sees it.
var errLeft = status.Errorf(status.Cancelled, "nobody waits for it any more")

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

// alone makes a thing that nobody else waits for.
func alone[T any](stage, what string, stop Stop, f func(m *work.Meter) (T, error)) (T, error) {
	g := begin(stage, what, f)
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

func (o *once[T]) get(stage, what string, stop Stop, f func(m *work.Meter) (T, error)) (T, error) {
	if g := o.made.Load(); g != nil {
		return g.value, g.err
	}
	o.mu.Lock()
	g := o.g
	if g == nil {
		g = begin(stage, what, f)
		o.g = g
	} else {
		g.waiting++
	}
	o.mu.Unlock()
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
