// Package contraction is the engine of the CPU backend for matrix products in programs of users: it finds the loop
// that adds up products (isa/analysis), has gemm do it for all lanes at once, and runs the program with what that gave
// in the loop's place. So what stands before and behind the loop is machine code as any other, an epilogue is fused by
// being written, and the bits are those of the loop: a chain of FMAs along all of k (gemm.Chains).
//
// Whether lanes make up a product is known at launch alone, by numbers. form.go evaluates the loads' offsets as sums of
// multiples of what tells lanes apart and of the loop's round. They make up one if one offset grows with what says which
// row of lanes a lane is in, the other with its place in the row, and neither with both: rows of the index space, whose
// numbers come from divisions by their length, or those of a grid of blocks, of which z may count matrices. What is
// left is then launched row by row (places.go), unless something could tell. Launches that are not so, are small, have
// fuel, or whose loads are not proved to stay in their slots, run as the program is.
//
// Lanes that do not come to the loop, as behind the edge of a matrix, are multiplied with the rest, as far as there is
// memory to read; nobody looks at what comes of it. A loop whose product is not wanted by most lanes takes longer for it.
package contraction

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Name is what its errors have as their backend.
const Name = "contraction"

// Version is that of this engine, a part of cache keys.
const Version = "contraction/2"

// maxSlots is how many slots a program has at most, with that of the product.
const maxSlots = 64

// Program is what runs programs: the whole one, or what is left without the loop.
type Program interface {
	jit.Program
	Estimate(lanes uint64, steps float64) float64
}

// Compiler makes a Program of a Func.
type Compiler func(*work.Meter, *ir.Func) (Program, error)

// Kernel is a program with a contraction.
type Kernel struct {
	f       *ir.Func
	plain   Program
	compile [2]Compiler // of what is left without the loop: as machine code, and in any case
	a       *analysis.Analysis
	loop    *ir.Node
	result  int
	loads   [2]*ir.Node // in the order of the multiplication's operands
	chains  multiplier
	steps   []step
	counts  int    // so many of steps come to the loop's count, the last one of which it is
	offsets [2]int // of the loads: their steps, -1: none

	states sync.Pool // of *state
	rests  rests
	used   atomic.Uint64
	rows   atomic.Uint64
}

// multiplier is gemm.Chains.
type multiplier interface {
	Run(x *gemm.Matrices, record *backends.Record, pool *workers.Pool) error
}

// state is what a launch needs, kept for the next one.
type state struct {
	numbers numbers
	// What is known of the launch before: its numbers, and what came of them.
	any, proved, matches bool
	params               []uint64
	known                analysis.Launch // with params
	proof                analysis.Proof
	last                 product
	slots                []backends.View // room
}

// takeState returns one that no launch has now.
func (k *Kernel) takeState() *state {
	if s, _ := k.states.Get().(*state); s != nil {
		return s
	}
	return &state{}
}

// ErrNone is Compile's of a program that adds up no products in a loop.
var ErrNone = unsupported("it has no loop with a product")

// Taken says of a program that Compile takes what gemm does of it, and when.
func (k *Kernel) Taken() string {
	a, b := k.loads[0].Mem.Slot, k.loads[1].Mem.Slot
	return fmt.Sprintf("s%d · s%d of %v, added up by a loop, by gemm where a launch's lanes make up a matrix", min(a, b), max(a, b), k.loads[0].Type)
}

func unsupported(why string) error {
	return &backends.Unsupported{Backend: Name, What: "the program", Why: why}
}

// Compile makes a kernel of a program with a loop that is a contraction; *backends.Unsupported says why there is none.
// plain makes what runs f where its launches are declined, left what runs f without the loop, and fast, which may
// not support it, does so as machine code.
func Compile(m *work.Meter, f *ir.Func, l jit.Level, plain, fast, left Compiler) (*Kernel, error) {
	if !hasFMA(f.Body, false) {
		return nil, ErrNone
	}
	a, err := analysis.NewMetered(m, f)
	if err != nil {
		return nil, err
	}
	k := &Kernel{f: f, a: a, compile: [2]Compiler{fast, left}}
	if err := k.find(l); err != nil {
		return nil, err
	}
	if k.plain, err = plain(m, f); err != nil {
		return nil, err
	}
	return k, nil
}

// hasFMA reports whether there is a product to be added up in a loop: most programs have none, which is soon seen.
func hasFMA(r *ir.Region, loop bool) bool {
	for _, n := range r.Nodes {
		if loop && n.Op == ir.Op(isa.FMA) {
			return true
		}
		for _, s := range n.Regions {
			if hasFMA(s, loop || n.Op == ir.Loop && n.Counted) {
				return true
			}
		}
	}
	return false
}

// find looks for the loop.
func (k *Kernel) find(l jit.Level) error {
	sums := k.a.Class.Sums
	i := slices.IndexFunc(sums, func(s analysis.Accumulation) bool {
		return s.Alone && s.Node.Op == ir.Op(isa.FMA) && k.a.Loops[s.Loop].Parent < 0 && isLoad(s.Node.Args[0].Node) && isLoad(s.Node.Args[1].Node)
	})
	if i < 0 {
		if !slices.ContainsFunc(sums, func(s analysis.Accumulation) bool { return s.Node.Op == ir.Op(isa.FMA) && s.IsProduct() }) {
			return ErrNone
		}
		return unsupported("no loop outside of others does nothing but add up products of what it loads, unconverted")
	}
	s := &sums[i]
	k.loop, k.result = k.a.Loops[s.Loop].Node, s.Index
	k.loads = [2]*ir.Node{s.Node.Args[0].Node, s.Node.Args[1].Node}
	t := k.loop.Results[s.Index].Type
	r := k.loop.Regions[0]
	switch init, ok := k.loop.Args[1+s.Index].Const(); {
	case !ok || init != 0:
		return unsupported("the sum does not begin with +0.0")
	case len(k.f.SlotTypes) >= maxSlots:
		return unsupported("there is no slot left for the product")
	case k.loads[0] == k.loads[1]:
		return unsupported("it multiplies what it loads with itself")
	case usesHandles(k.f.Body):
		return unsupported("it has slots by number, of which that of the product would be one")
	case usesOthers(k.f.Body, k.loop, s.Index):
		return unsupported("more than the sum is used of what the loop leaves")
	}
	for _, n := range r.Nodes {
		if n.CanFault() && n != k.loads[0] && n != k.loads[1] {
			return unsupported("the loop has more to load")
		}
	}
	for _, n := range k.loads {
		if n.Type != t || k.f.Slots[n.Mem.Slot].Writes {
			return unsupported("a factor is of another type, or may be written")
		}
	}
	var err error
	if k.chains, err = gemm.NewChains(t, l); err != nil {
		return unsupported(fmt.Sprintf("gemm has no chains of %v, but of f32 and f64", t))
	}
	sl := slicer{loop: k.loop, numbers: map[*ir.Value]int{}}
	count, ok := sl.value(k.loop.Args[0])
	k.counts = len(sl.steps)
	for i, n := range k.loads {
		if k.offsets[i] = -1; n.Mem.HasOff && ok {
			k.offsets[i], ok = sl.value(n.Args[0])
		}
	}
	if !ok || count != k.counts-1 {
		return unsupported("what a factor's place is made of is not known before the launch")
	}
	k.steps = sl.steps
	return nil
}

// isLoad reports whether n loads from a byte address in a slot.
func isLoad(n *ir.Node) bool { return n != nil && n.Op == ir.Op(isa.LDG) && n.Mem.Mode == isa.AddrByte }

// usesHandles reports whether anything is accessed in a slot whose number is found in a lane.
func usesHandles(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool {
		return n.Mem.Mode == isa.AddrIndirect || slices.ContainsFunc(n.Regions, usesHandles)
	})
}

// usesOthers reports whether a result of the loop but that one is used.
func usesOthers(r *ir.Region, loop *ir.Node, result int) bool {
	other := func(v *ir.Value) bool { return v.Node == loop && int(v.Index) != result }
	for _, n := range r.Nodes {
		if slices.ContainsFunc(n.Args, other) || slices.ContainsFunc(n.Regions, func(s *ir.Region) bool { return usesOthers(s, loop, result) }) {
			return true
		}
	}
	return slices.ContainsFunc(r.Yield, other)
}

// slicer gathers what offsets are made of, in order.
type slicer struct {
	loop    *ir.Node
	steps   []step
	numbers map[*ir.Value]int
}

// maxSteps bounds what a launch evaluates.
const maxSteps = 256

// value returns the number of the step that makes v; false if forms know no such step.
func (s *slicer) value(v *ir.Value) (int, bool) {
	if i, ok := s.numbers[v]; ok {
		return i, i >= 0
	}
	s.numbers[v] = -1 // until it is known
	st := step{node: v.Node, t: v.Type, args: [2]int{-1, -1}}
	var args []*ir.Value
	switch n := v.Node; {
	case !v.Type.Integer():
		return 0, false
	case n == nil:
		next := s.next(v)
		if next == nil {
			return 0, false
		}
		st.carried, st.minus = true, next.Op == ir.Op(isa.SUB)
		by := next.Args[1]
		if by == v {
			by = next.Args[0]
		}
		args = []*ir.Value{s.loop.Args[1+v.Index], by}
	case n.Op == ir.Const:
	case !n.Op.IsInst():
		return 0, false
	default:
		switch n.Op.Inst() {
		case isa.LDP, isa.SREG:
		case isa.ADD, isa.SUB, isa.NEG, isa.MUL, isa.SHL, isa.CVT, isa.BITCAST, isa.MIN, isa.MAX, isa.DIV, isa.REM:
			args = n.Args
		default:
			return 0, false
		}
	}
	for i, a := range args {
		var ok bool
		if st.args[i], ok = s.value(a); !ok {
			return 0, false
		}
	}
	if len(s.steps) == maxSteps {
		return 0, false
	}
	s.numbers[v] = len(s.steps)
	s.steps = append(s.steps, st)
	return s.numbers[v], true
}

// next returns what makes the loop's parameter v of the next round, if that adds to it, or takes off; else nil.
func (s *slicer) next(v *ir.Value) *ir.Node {
	r := s.loop.Regions[0]
	if v.Param != r {
		return nil
	}
	n := r.Yield[v.Index].Node
	if n == nil || n.Op != ir.Op(isa.ADD) && n.Op != ir.Op(isa.SUB) || n.Args[0] != v && (n.Op != ir.Op(isa.ADD) || n.Args[1] != v) {
		return nil
	}
	return n
}

// Release frees what the kernel keeps.
func (k *Kernel) Release() {
	k.plain.Release()
	k.rests.release()
}

// Estimate is about what so many lanes and instructions of lanes take, in nanoseconds, where gemm does none of it.
func (k *Kernel) Estimate(lanes uint64, steps float64) float64 { return k.plain.Estimate(lanes, steps) }

// Used reports how many launches were done by way of gemm.
func (k *Kernel) Used() uint64 { return k.used.Load() }

// Rows reports of how many of these what is left was done row by row.
func (k *Kernel) Rows() uint64 { return k.rows.Load() }

// Direct is what the plain program says of launches that are not done by way of gemm.
func (k *Kernel) Direct(l *backends.Launch, within float64) []backends.Direct {
	e, ok := k.plain.(interface {
		Direct(l *backends.Launch, within float64) []backends.Direct
	})
	if !ok {
		return nil
	}
	s := k.takeState()
	defer k.states.Put(s)
	if _, ok := k.match(s, l); ok {
		return nil
	}
	return e.Direct(l, within)
}

// Run runs a launch to its end and returns its outcome.
func (k *Kernel) Run(l *backends.Launch, pool *workers.Pool) error {
	s := k.takeState()
	defer k.states.Put(s)
	p, ok := k.match(s, l)
	if !ok || k.overlaps(l) {
		return k.plain.Run(l, pool)
	}
	r := k.restFor(&p)
	if r.err != nil {
		return k.plain.Run(l, pool)
	}
	bytes := p.places * int64(k.loads[0].Type.Size())
	room, err := takeRoom(bytes)
	if err != nil {
		return k.plain.Run(l, pool) // which needs none
	}
	defer giveRoom(room)
	p.C = room.Addr
	for z := range p.batches {
		m, ok := k.batch(&p, l, z)
		if !ok {
			continue
		}
		switch err := k.chains.Run(&m, l.Record, pool); {
		case errors.Is(err, backends.ErrCancelled):
			k.used.Add(1)
			return err
		case err != nil:
			return k.plain.Run(l, pool) // likewise
		}
	}
	k.used.Add(1)
	if r.places.byRows {
		k.rows.Add(1)
	}
	return r.run(s, l, &p, k.loads[0].Type, pool)
}

// overlaps reports whether a slot that is written may overlap a factor's: core does not launch that.
func (k *Kernel) overlaps(l *backends.Launch) bool {
	for i := range l.Slots {
		if !k.f.Slots[i].Writes {
			continue
		}
		lo, hi := extent(&l.Slots[i])
		for _, n := range k.loads {
			if s := &l.Slots[n.Mem.Slot]; lo < int64(s.Addr)+s.Bytes && int64(s.Addr) < hi {
				return true
			}
		}
	}
	return false
}

// extent returns the first byte of a view, and the one behind the last.
func extent(v *backends.View) (lo, hi int64) {
	lo, hi = int64(v.Addr), int64(v.Addr)
	if v.Bytes > 0 {
		return lo, hi + v.Bytes
	}
	for d := range v.Rank {
		if by := (v.Shape[d] - 1) * v.Stride[d] * int64(v.Type.Size()); by < 0 {
			lo += by
		} else {
			hi += by
		}
	}
	return lo, hi + int64(v.Type.Size())
}

// least is how many products it takes that gemm does them, and the way there.
const (
	least      = 1 << 15
	leastSteps = 4
	mostBytes  = math.MaxInt64 >> 17 // of strides and sizes, whose products then fit
	mostPlaces = 1 << 32
)
