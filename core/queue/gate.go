package queue

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// What a gate's word says. Callers outside of Go that run short work themselves take
// the turn by changing GateOpen to GateTaken, and give it back.
const (
	GateOpen  = 0
	GateTaken = 1 // by such a caller, for microseconds or, if it holds no lock that others wait for, some milliseconds
	GateShut  = 2 // the lane has work, or wants all to come to it
	// GateWanted: it is taken, and the lane waits. Who has the turn gives it to the lane, by GateShut.
	GateWanted = 3
)

// gate is a lane's word, and whether it is shut.
type gate struct {
	word    *uint32 // nil: there is none
	shut    bool
	closing bool // somebody waits for who has the turn by it
}

// taken reports whether a caller has the turn by it.
func (g *gate) taken() bool {
	if g.word == nil {
		return false
	}
	word := atomic.LoadUint32(g.word)
	return word == GateTaken || word == GateWanted
}

// Gate is Stream.Gate.
func (l *lane) Gate(word *uint32) bool {
	if _, ok := l.target.Line.Stream.(backends.Shared); l.target.Async && !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate.word != word {
		l.gate = gate{word: word, shut: true}
		l.settle()
	}
	return true
}

// settle shuts the gate or opens it, as the lane's state wants. The caller holds the
// lock and has changed that. To shut it may take as long as a call does that others make:
// it lets the lock go meanwhile, so that who only tries sees at once that he can't.
func (l *lane) settle() {
	g := &l.gate
	for g.word != nil && !g.closing {
		shut := l.turn || l.worker || l.graph != nil || l.closed
		if g.shut == shut {
			return
		}
		if g.shut = shut; !shut {
			atomic.StoreUint32(g.word, GateOpen)
			return
		}
		g.closing = true
		l.mu.Unlock()
		g.close()
		l.mu.Lock()
		g.closing = false
		if l.entered != nil {
			l.entered()
		}
	}
}

// close waits until nobody has the turn by the gate, nor will.
func (g *gate) close() {
	if atomic.CompareAndSwapUint32(g.word, GateOpen, GateShut) {
		return
	}
	// Whoever has the turn is mostly in the midst of some microseconds of work, if the system
	// lets it.
	for i := 0; ; i++ {
		switch atomic.LoadUint32(g.word) {
		case GateOpen:
			if atomic.CompareAndSwapUint32(g.word, GateOpen, GateShut) {
				return
			}
		case GateTaken:
			atomic.CompareAndSwapUint32(g.word, GateTaken, GateWanted)
		case GateShut: // given
			return
		}
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}
