package jit

import (
	"fmt"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
)

// Program runs launches that machine code is not made for.
type Program interface {
	Run(*backends.Launch, *workers.Pool) error
	Release()
}

// Declined is what runs the launches that a kernel of machine code declines: a
// program that is made when the first comes.
type Declined struct {
	make func() (Program, error)
	why  string // what is said of such a launch when there is no such program

	mu      sync.Mutex
	program Program
}

// NewDeclined returns one whose program is made by the given function.
func NewDeclined(why string, make func() (Program, error)) *Declined {
	return &Declined{make: make, why: why}
}

// Run runs a launch to its end.
func (d *Declined) Run(l *backends.Launch, pool *workers.Pool) error {
	p, err := d.made()
	if err != nil {
		return fmt.Errorf("%s: %w", d.why, err)
	}
	return p.Run(l, pool)
}

func (d *Declined) made() (Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program != nil {
		return d.program, nil
	}
	p, err := d.make()
	if err == nil {
		d.program = p
	}
	return p, err
}

// Any reports whether there was such a launch.
func (d *Declined) Any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.program != nil
}

// Release frees the program. No launch is under way.
func (d *Declined) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.program != nil {
		d.program.Release()
		d.program = nil
	}
}
