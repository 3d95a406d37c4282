//go:build !linux

package workers

// bed is where workers sleep: in a channel, so that the scheduler of goroutines wakes them.
type bed struct {
	wakes  chan struct{} // each wakes a worker
	behind chan struct{} // see follow
	closed chan struct{}
}

func newBed() *bed {
	b := &bed{wakes: make(chan struct{}, maxThreads), behind: make(chan struct{}), closed: make(chan struct{})}
	go b.follow()
	return b
}

// sleep returns true when the worker is woken, false when the bed is closed.
func (b *bed) sleep() bool {
	select {
	case <-b.wakes:
		return true
	case <-b.closed:
		return false
	}
}

// pending is how many are to wake that have not yet.
func (b *bed) pending() int { return len(b.wakes) }

// wake wakes so many, which is not more than sleep or are about to.
func (b *bed) wake(n int) {
	for range n {
		select {
		case b.wakes <- struct{}{}:
		default:
		}
	}
	select {
	case b.behind <- struct{}{}:
	default: // it has not slept since the last launch
	}
}

// follow does nothing but be woken after the last worker that is. The one that was woken
// last has a place of its own, from which the scheduler's other threads take it only after
// a sleep of 3 µs, which systems make 50 and more; with another there, the worker is in the
// queue, from which they take it at once.
func (b *bed) follow() {
	for {
		select {
		case <-b.behind:
		case <-b.closed:
			return
		}
	}
}

// close wakes all, for good.
func (b *bed) close() { close(b.closed) }
