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
	GateTaken = 1 // by such a caller, for microseconds or, if it holds no lock that others wait for, tens of milliseconds
	GateShut  = 2 // the lane has work, or wants all to come to it
	// GateWanted: it is taken, and the lane waits. Who has the turn gives it to the lane, by GateShut.
	GateWanted = 3
)

// gate is a lane's word, and whether it is shut.
type gate struct {
	word *uint32 // nil: there is none
	shut bool
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
// the lock goes meanwhile, and what the caller changed tells all others to wait.
func (l *lane) settle() {
	g := &l.gate
	shut := l.turn || l.worker || l.graph != nil || l.closed
	if g.word == nil || g.shut == shut {
		return
	}
	if g.shut = shut; !shut {
		atomic.StoreUint32(g.word, GateOpen)
		return
	}
	l.mu.Unlock()
	g.close()
	l.mu.Lock()
	l.closedGate()
}

// tryGate shuts the gate for a turn, unless somebody has the turn by it.
func (l *lane) tryGate() bool {
	g := &l.gate
	if g.word == nil || g.shut {
		return true
	}
	if !atomic.CompareAndSwapUint32(g.word, GateOpen, GateShut) {
		return false
	}
	g.shut = true
	l.closedGate()
	return true
}

// closedGate looks at what was queued by the gate, for who has shut it.
func (l *lane) closedGate() {
	if l.entered != nil {
		l.entered()
	}
}

// close waits until nobody has the turn by the gate, nor will.
func (g *gate) close() {
	if atomic.CompareAndSwapUint32(g.word, GateOpen, GateShut) {
		return
	}
	// Whoever has the turn is mostly in the midst of some microseconds of work, if the system
	// lets it; of tens of milliseconds at most.
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
