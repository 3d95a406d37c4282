//go:build lockorder

package lock

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// A place says when a lock may be taken: behind those of lower level that its
// holder has.
type place struct {
	name  string
	level int
	// memory: it is that of the order of memory, which nobody enters who looks at works.
	works, memory bool
	nests         bool // several may be held
}

// Place is where a lock is in the order.
type Place interface{ at() *place }

var (
	standard  = place{name: "the standard executor", level: 1}
	devices   = place{name: "the devices", level: 2}
	turn      = place{name: "a stream's turn", level: 3}
	looking   = place{name: "Deferred.looking", level: 4, works: true, nests: true}
	executor  = place{name: "Executor.mu", level: 5, works: true}
	lane      = place{name: "lane.mu", level: 6, works: true}
	event     = place{name: "Event.mu", level: 7, works: true}
	order     = place{name: "Device.order", level: 8, memory: true}
	line      = place{name: "memory.Line", level: 9}
	lastPlace = place{name: "a lock that is the last", level: 10}
)

func (Standard) at() *place { return &standard }
func (Devices) at() *place  { return &devices }
func (Turn) at() *place     { return &turn }
func (Looking) at() *place  { return &looking }
func (Executor) at() *place { return &executor }
func (Lane) at() *place     { return &lane }
func (Event) at() *place    { return &event }
func (Order) at() *place    { return &order }
func (Line) at() *place     { return &line }
func (Last) at() *place     { return &lastPlace }

// behind reports whether p may be taken by who holds h.
func (p *place) behind(h *place) bool {
	if p == h {
		return p.nests
	}
	return h.level < p.level && !(h.works && p.memory)
}

// Mutex is a mutex that has a place.
type Mutex[P Place] struct{ mu sync.Mutex }

// Lock locks it.
func (m *Mutex[P]) Lock() {
	id := goroutine()
	checkFor[P](id)
	m.mu.Lock()
	enter[P](id)
}

// TryLock locks it if nobody has it. Who does not wait may come out of order.
func (m *Mutex[P]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	Enter[P]()
	return true
}

// Unlock unlocks it.
func (m *Mutex[P]) Unlock() {
	Leave[P]()
	m.mu.Unlock()
}

// RWMutex is sync's likewise.
type RWMutex[P Place] struct{ mu sync.RWMutex }

// Lock locks it for writing.
func (m *RWMutex[P]) Lock() {
	id := goroutine()
	checkFor[P](id)
	m.mu.Lock()
	enter[P](id)
}

// Unlock unlocks it.
func (m *RWMutex[P]) Unlock() {
	Leave[P]()
	m.mu.Unlock()
}

// RLock locks it for reading.
func (m *RWMutex[P]) RLock() {
	id := goroutine()
	checkFor[P](id)
	m.mu.RLock()
	enter[P](id)
}

// RUnlock unlocks it.
func (m *RWMutex[P]) RUnlock() {
	Leave[P]()
	m.mu.RUnlock()
}

// held are the places of the locks that each goroutine has, in the order in which
// it took them.
var held struct {
	sync.Mutex
	by map[uint64][]*place
}

// broken is told of a broken order. A panic would be taken for one of a backend's.
var broken = func(text string) {
	fmt.Fprintf(os.Stderr, "lock: %s\n%s", text, debug.Stack())
	os.Exit(3)
}

// goroutine is the number of the one that asks.
func goroutine() uint64 {
	var text [64]byte
	fields := bytes.Fields(text[:runtime.Stack(text[:], false)]) // "goroutine 12 [running]: …"
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func own(id uint64) []*place {
	held.Lock()
	defer held.Unlock()
	return held.by[id]
}

// Check says that the goroutine may have to wait for what is as good as a lock.
func Check[P Place]() {
	checkFor[P](goroutine())
}

func checkFor[P Place](id uint64) {
	var p P
	for _, h := range own(id) {
		if !p.at().behind(h) {
			broken(fmt.Sprintf("%s is taken by who holds %s", p.at().name, h.name))
		}
	}
}

// Enter says that the goroutine has what is as good as a lock.
func Enter[P Place]() { enter[P](goroutine()) }

func enter[P Place](id uint64) {
	var p P
	held.Lock()
	defer held.Unlock()
	if held.by == nil {
		held.by = map[uint64][]*place{}
	}
	held.by[id] = append(held.by[id], p.at())
}

// Leave says that it has it no more.
func Leave[P Place]() {
	var p P
	id := goroutine()
	held.Lock()
	defer held.Unlock()
	list := held.by[id]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == p.at() {
			if list = append(list[:i:i], list[i+1:]...); len(list) == 0 {
				delete(held.by, id)
			} else {
				held.by[id] = list
			}
			return
		}
	}
	broken(fmt.Sprintf("%s is given back by who does not hold it", p.at().name))
}

// None says that code of others is about to run, for which no lock may be held.
func None() {
	if list := own(goroutine()); len(list) > 0 {
		names := make([]string, len(list))
		for i, p := range list {
			names[i] = p.name
		}
		broken("code of others runs under " + strings.Join(names, ", "))
	}
}
