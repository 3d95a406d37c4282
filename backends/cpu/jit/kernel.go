package jit

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Version is the code generator's, a part of cache keys.
const Version = "jit/24"

// Kernel is a program as machine code, in those variants that launches have
// asked for.
type Kernel struct {
	p     *program
	t     *target
	cost  *analysis.Cost
	arena *mem.Arena
	other *Declined
	odd   uint32 // machine code's lock, see argLock

	mu       sync.Mutex
	variants atomic.Pointer[[]*variant]
	spare    atomic.Pointer[run]
	frames   workers.Kept[frame]
	runs     []*run
}

// variant is the machine code of a shape.
type variant struct {
	shape  shape
	code   *mem.Code
	lay    layout
	halves bool // floats of 16 bits are packed, as their bits
}

// arenaBytes is the room for the code of all kernels of the process: some
// thousands of them. Pages take memory when they are used.
const arenaBytes = 64 << 20

var theArena = sync.OnceValues(func() (*mem.Arena, error) { return mem.New(arenaBytes) })

// Available returns why no machine code can be made for a level here; nil if it can.
func Available(l Level) error {
	if l&^Few == None || l&^Few > Detect() {
		why := "the processor has no AVX2 with FMA, F16C and BMI"
		if l&^Few != None {
			why = fmt.Sprintf("the processor has no %v; what it has: %v", l, Detect())
		}
		return unsupported("machine code", why)
	}
	if _, err := theArena(); err != nil {
		return unsupported("machine code", err.Error())
	}
	return nil
}

// Compile makes a kernel of a canonical function for a level, counted and
// stopped by m. other makes, on demand, what runs launches that are declined.
// *backends.Unsupported says what cannot be compiled, and why.
func Compile(m *work.Meter, f *ir.Func, l Level, other func() (Program, error)) (k *Kernel, err error) {
	defer work.Catch(&err)
	if err := Available(l); err != nil {
		return nil, err
	}
	p, err := prepare(m, f)
	if err != nil {
		return nil, err
	}
	cost, err := analysis.NewCostMetered(m, f)
	if err != nil {
		return nil, err
	}
	k = &Kernel{p: p, t: targetOf(l), cost: cost, other: NewDeclined("jit: a launch that machine code is not made for", other)}
	k.arena, _ = theArena()
	k.variants.Store(&[]*variant{})
	first := shape{}
	if p.blocks != nil {
		first = p.blockShape(first, k.t, usualBlock, true)
	}
	if _, err := k.variant(m, first); err != nil {
		return nil, err
	}
	return k, nil
}

// usualBlock is the size of the blocks that code is made for before any launch asks.
const usualBlock = 256

// maxVariants bounds what one kernel keeps. Launches of further shapes are
// declined, but not those that are made to be faster alone: for these there is code of the shape
// that they need, for which some room is kept.
const (
	maxVariants = 32
	maxFaster   = 24 // variants, with which none is made any more for speed alone
)

var errVariants = errors.New("too many variants")

// variantFor returns the code for a launch of a shape: that of the shape, or where none can be made
// any more of what the launch needs of it.
func (k *Kernel) variantFor(s shape) (*variant, error) {
	v, err := k.variant(nil, s)
	if needed := s.needed(); err != nil && s != needed {
		v, err = k.variant(nil, needed)
	}
	return v, err
}

// variant returns the code for a shape, made if it is the first time.
func (k *Kernel) variant(m *work.Meter, s shape) (*variant, error) {
	if v := k.made(s); v != nil {
		return v, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.made(s); v != nil {
		return v, nil
	}
	if n := len(*k.variants.Load()); n == maxVariants || n >= maxFaster && s != s.needed() {
		return nil, errVariants
	}
	code, lay, err := k.p.generate(m, k.t, s)
	if err != nil {
		return nil, err
	}
	c, err := k.arena.Put(code)
	if err != nil {
		return nil, unsupported("a program", err.Error())
	}
	packing := k.p.packingOf(s)
	v := &variant{s, c, lay, packing.halves && k.t.packs(packing)}
	all := append(slices.Clip(*k.variants.Load()), v)
	k.variants.Store(&all)
	return v, nil
}

func (k *Kernel) made(s shape) *variant {
	for _, v := range *k.variants.Load() {
		if v.shape == s {
			return v
		}
	}
	return nil
}

// Release frees code and memory. No launch is under way.
func (k *Kernel) Release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range *k.variants.Load() {
		v.code.Release()
	}
	k.variants.Store(&[]*variant{})
	k.other.Release()
	k.frames.Clear()
	k.runs = nil
	k.spare.Store(nil)
}
