// Package work lets a long computation be stopped, and its length be seen
// without a clock. Assembling, verifying, the passes, compiling and printing
// each count their steps on a Meter; every so many it asks whether to go on.
package work

// Meter counts the steps of a computation. Nil counts nothing and never stops.
// A Meter is for one goroutine at a time; one may serve several stages in turn.
type Meter struct {
	stop  func() error
	steps int64
	ask   int64 // the number of steps at which to ask next
}

// between is how many steps pass from one question to the next: a step takes
// some 10 ns to 1 µs, so that a computation stops within milliseconds.
const between = 1 << 12

// New returns a meter that asks stop every few thousand steps; an error ends
// the computation, which returns it. For a context that is its Err method.
// stop may be nil.
func New(stop func() error) *Meter { return &Meter{stop: stop, ask: between} }

// Steps returns how many steps were counted.
func (m *Meter) Steps() int64 {
	if m == nil {
		return 0
	}
	return m.steps
}

// Step counts n steps. If the computation is to stop, Step does not return: it
// panics with what Catch turns into the stage's error, so that no pass has to
// hand an error through its recursion.
func (m *Meter) Step(n int) {
	if m == nil {
		return
	}
	if m.steps += int64(n); m.steps >= m.ask {
		m.check()
	}
}

func (m *Meter) check() {
	m.ask = m.steps + between
	if m.stop == nil {
		return
	}
	if err := m.stop(); err != nil {
		m.ask = m.steps // asked again at once if somebody goes on with it
		panic(&stopped{err})
	}
}

// stopped is what Step panics with.
type stopped struct{ err error }

// Catch, deferred by a stage, makes the error with which it was stopped the
// stage's own. Other panics go on.
func Catch(err *error) {
	r := recover()
	if r == nil {
		return
	}
	s, ok := r.(*stopped)
	if !ok {
		panic(r)
	}
	*err = s.err
}
