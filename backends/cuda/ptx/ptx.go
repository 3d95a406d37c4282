// Package ptx writes canonical functions as PTX, the text that NVIDIA's driver
// (or ptxas) turns into machine code. It is plain Go and runs on any machine.
//
// Every primitive, type and construct of the ISA has a rule: text forms in
// rules.go for what is one instruction, functions for the rest (convert.go,
// memory.go, control.go, collective.go, state.go). What isa/math defines by an
// expansion comes expanded. Nothing is approximate and nothing is fused that
// the program did not fuse: .rn forms only, neither .approx nor .ftz.
//
// How a program looks: one entry with one parameter, the launch block
// (layout.go), a prologue that finds the lane's place (prologue.go), then the
// tree of regions as labels and branches, with a line of the IR before the
// instructions that it became. Element-wise programs have variants in which a
// lane does several elements (vector.go). Nodes are moved where the driver's compiler
// would not: loads (early.go), and collectives to others (together.go). Value 12 is %r12 (integers up to 32 bits),
// %rd12 (64), %f12 (f32), %fd12 (f64), %h12 (bits of a 16-bit float) or %p12.
// Integers narrower than 32 bits are kept extended by their own sign.
package ptx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

// Version is the code generator's, a part of cache keys: it changes with the
// text made of any program.
const Version = "ptx/19"

// The lowest target that has what is used here: independent threads, whose
// barriers wait for those that have not exited, came with sm_70; sm_75 is the
// lowest that ptxas still knows.
const (
	version = "6.3"
	target  = "sm_75"
	// modernTarget has minima and maxima that keep a NaN, and rounds to bf16.
	modernVersion = "7.0"
	modernTarget  = "sm_80"
	// clusters, and launches that wait for others by themselves, are a target of their own.
	hopperVersion = "8.1"
	hopperTarget  = "sm_90"
	// wideVersion lets the launch block have more than narrowBlock bytes.
	wideVersion = "8.1"
	narrowBlock = 4352
)

// Options tell the variants of one program apart.
type Options struct {
	// Entry is the entry's name; "atlas" if empty.
	Entry string
	// Rank is the number of dimensions through which slot[index] goes by sizes
	// and strides; 0 and 1: element g lies at g times one stride.
	Rank int
	// Wide divides lane numbers in 64 bits, which grids of 2^32 lanes and more need.
	Wide bool
	// Fuel makes lanes count their rounds against the launch's fuel.
	Fuel bool
	// Lanes bounds the lanes of a block, by which registers are dealt out;
	// 0: MaxBlockLanes. A block shape that the program demands goes before it.
	Lanes int
	// Block, if not 0, is how many lanes every block has: all of them lie in the
	// index space. Not where AnyBlock.
	Block int
	// Aligned: every slot lies at a multiple of 16 bytes.
	Aligned bool
	// Meeting, if not 0, is how many blocks meet at barriers behind what others may read,
	// neighbours along x: a cluster, of which grids are multiples. From sm_90 on.
	Meeting int
	// Told has a bit for each slot by which blocks that meet tell each other: each
	// writes its own element, once, by one lane, after the first collective and before a
	// barrier, and reads those of all by displacements from the first's. With Meeting,
	// Block and Proved.
	Told uint64
	// Vector, if not 0, is Program.Vector: a lane does so many elements side by
	// side, which lie contiguously in every slot accessed by index but for Single,
	// and Groups times as many in all. Lanes is VectorLanes then. Not with Fuel.
	Vector, Groups int
	// Single has a bit for each slot that stands for one element, or one for each row.
	Single uint64
	// Odd: rows are no multiple of Vector, in a space of two dimensions. They lie one behind
	// the other, but in Single.
	Odd bool
	// Batch, if not 0, is the size in bytes of the parameter of a batch of launches; see Table.
	// Of a program that Batches. Not with Fuel, Meeting or Lasts.
	Batch int
	// Dense: the elements of every slot accessed by index lie one behind the other, so that
	// a batch has no strides in its table. Rank is at most 1, and Vector 0.
	Dense bool
	// Proved: accesses by bytes are in their slots, so nothing is checked.
	Proved bool
	// Modern: for devices from compute capability 8.0 on.
	Modern bool
	// Waits: blocks may start before what is before them on the stream has passed, for which
	// they wait first (programmatic dependent launch). They don't say when what comes behind may start: it is when all have ended, so
	// that others' kernels that read before they wait find what was written. From sm_90 on.
	Waits bool
	// Lasts: what is read lasts in the L2 cache longer than what is written, but for the
	// end of it: see Environment.Tail. With Waits, which devices have that can do that.
	Lasts bool
}

// Program is a function made ready to be written.
type Program struct {
	Layout Layout
	// AnyBlock: the program takes no notice of blocks, so a launch may divide
	// its lanes into blocks as it likes.
	AnyBlock bool
	// Indexed: slot[index] occurs, so that Rank and Wide matter.
	Indexed bool
	// Loops: a round may cost fuel, so that Fuel matters.
	Loops bool
	// Collective: there are collectives, to which no lane is missing but those that
	// a block lacks, so that Block matters.
	Collective bool
	// Neighbours: there are accesses that Aligned makes wider.
	Neighbours bool
	// Residue and Phase say which state of the launch is used.
	Residue, Phase bool
	// Batches: launches can be a batch.
	Batches bool
	// Vector and Groups are what Options may have; 0: a lane does one element.
	Vector, Groups int

	writes, within uint64 // slots written by index, and those loaded so within constructs, a bit each

	fn       *ir.Func
	shared   int               // bytes of the program's own shared memory, rounded up
	element  int               // bytes of an element of collectives' scratch; 0: no collectives
	run      int               // of collectives, how many at most could be done together
	scans    bool              // there are scans among them
	departs  [2]bool           // a lane may end before a collective that others come to: without and with fuel
	barriers map[*ir.Node]bool // barriers and collectives, and constructs that hold one
	polls    map[*ir.Node]bool
	areas    []area
	pool     int                // bytes of a lane's scratch
	live     bool               // which areas there are has to be kept: one is freed, or named by a handle that only the lane knows
	aligned  map[*ir.Value]int  // see multiple
	vary     *analysis.Analysis // nil without barriers
}

// Compile prepares a canonical function. *backends.Unsupported says what has no rule.
func Compile(fn *ir.Func) (*Program, error) {
	x, err := ir.Expand(fn)
	if err != nil {
		return nil, &backends.Unsupported{Backend: "cuda", What: "a program of this size", Why: err.Error()}
	}
	p := &Program{fn: x, Layout: layoutOf(x), AnyBlock: true, polls: map[*ir.Node]bool{}, barriers: map[*ir.Node]bool{}, aligned: alignments(x)}
	p.scan(x.Body)
	if p.findBarriers(x.Body) {
		p.vary = analysis.New(x)
	}
	if p.live && len(p.areas) == 0 { // a handle of nothing: let there be an area that nobody makes
		p.areas, p.pool = []area{{^uint32(0), 0, 0}}, 8
	}
	p.departs = [2]bool{departures(x, false), departures(x, true)}
	p.Collective = p.element > 0 && !p.departs[0]
	for _, s := range x.Slots {
		p.Indexed = p.Indexed || s.Indexed
	}
	if x.Shared > 0 {
		p.shared, p.AnyBlock = (int(x.Shared)+15)&^15, false
	}
	p.vectors()
	p.Batches = p.batches()
	p.Neighbours = p.hasNeighbours(x.Body)
	// Writing it once shows what has no rule.
	if _, err := p.Text(Options{Rank: 2, Fuel: true}); err != nil {
		return nil, err
	}
	return p, nil
}

// Text returns a variant of the program, a module with one entry.
func (p *Program) Text(o Options) (string, error) {
	if o.Batch > 0 {
		text, _, err := p.Batched(o)
		return text, err
	}
	e := p.written(o, nil)
	if e.err != nil {
		return "", e.err
	}
	return e.module(), nil
}

// written writes a variant's code, of a batch whose launches have these cells of their own.
func (p *Program) written(o Options, cells []int) *emitter {
	if o.Entry == "" {
		o.Entry = "atlas"
	}
	e := &emitter{p: p, fn: p.fn, opt: o, loops: map[*ir.Node]int{}, blocks: map[*ir.Node]int{}, split: map[*ir.Node]string{}, done: map[*ir.Node]string{},
		parts: map[string]part{}, joins: map[*ir.Node][]*ir.Node{}, cells: slices.Clone(cells)}
	e.prologue()
	if o.Vector == 0 {
		e.region(nil, p.fn.Body, "")
		if !p.fn.Body.Ends() {
			e.finish()
		}
	}
	return e
}

// Fold is a module whose entry "fold" adds residues in device memory to those of
// a Record, which the device reaches but slowly, and clears them. Its parameters
// are the two addresses; a lane does a class.
func Fold() string {
	return Header(false, false, false) + fmt.Sprintf(`
.visible .entry fold(.param .u64 residue, .param .u64 record)
.maxntid %d, 1, 1
{
	.reg .b32 %%lane;
	.reg .b64 %%from, %%to, %%sum, %%old, %%none;
	.reg .pred %%p;
	mov.u32 %%lane, %%tid.x;
	ld.param.u64 %%from, [residue];
	mad.wide.u32 %%from, %%lane, 8, %%from;
	ld.global.u64 %%sum, [%%from];
	setp.eq.u64 %%p, %%sum, 0;
	@%%p ret;
	mov.b64 %%none, 0;
	st.global.u64 [%%from], %%none;
	ld.param.u64 %%to, [record];
	mad.wide.u32 %%to, %%lane, 8, %%to;
	ld.volatile.global.u64 %%old, [%%to+%d];
	add.u64 %%sum, %%sum, %%old;
	st.volatile.global.u64 [%%to+%d], %%sum;
	ret;
}
`, isa.NumClasses, recResidue, recResidue)
}

// ProbeLanes is how many lanes a block of Probe has.
const ProbeLanes = 256

// Probe is a module whose entry "probe" does nothing: the driver is asked how many
// blocks of such could run together.
func Probe() string {
	return Header(false, true, true) + fmt.Sprintf(`
.extern .shared .align 16 .b8 room[];
.visible .entry probe()
.maxntid %d, 1, 1
{
	ret;
}
`, ProbeLanes)
}

// Header is what a module begins with; Body drops it, so that several programs
// can stand in one module.
func Header(wide, modern, hopper bool) string {
	v, target := version, target
	if modern {
		v, target = modernVersion, modernTarget
	}
	if hopper {
		v, target = hopperVersion, hopperTarget
	}
	if wide {
		v = wideVersion
	}
	return fmt.Sprintf(".version %s\n.target %s\n.address_size 64\n", v, target)
}

// Body returns a module's text less its header.
func Body(module string) string {
	_, body, _ := strings.Cut(module, ".address_size 64\n")
	return body
}

// Polls reports whether a lane looks now and then if the launch is cancelled, since
// nothing but the parameters may bound how long it takes.
func (p *Program) Polls() bool { return len(p.polls) > 0 }

// SharedBytes is the dynamic shared memory of a block of the given lanes.
func (p *Program) SharedBytes(lanes int) int {
	if p.element == 0 {
		return p.shared
	}
	padded := 1
	for padded < lanes {
		padded *= 2
	}
	run, each := p.together(p.run, lanes), lanes
	if run > 1 && p.shares() {
		each += scanApart
	}
	padded = max(padded, run*each)
	return p.shared + scratchAt + padded*p.element
}

// scan finds out what the program uses.
func (p *Program) scan(r *ir.Region) {
	r = regrouped(r)
	until := 0 // are collectives of the run before
	for i, n := range r.Nodes {
		switch {
		case n.Op == ir.Loop && !n.Free:
			p.Loops = true
			if rounds(n) > shortLoop {
				p.polls[n] = true
			}
		case n.Op.IsInst():
			p.scanInst(n)
			if _, ok := collectives[n.Op.Inst()]; ok && i >= until {
				run := len(follows(r, i))
				p.run, until = max(p.run, run), i+run
			}
		}
		for _, s := range n.Regions {
			p.scan(s)
		}
	}
}

func (p *Program) scanInst(n *ir.Node) {
	op := n.Op.Inst()
	if _, ok := collectives[op]; ok {
		p.element = max(p.element, 4, accumulator(n.Type).Size())
		p.AnyBlock, p.scans = false, p.scans || isScan(op)
		return
	}
	switch op {
	case isa.BAR_SYNC:
		p.AnyBlock = false
	case isa.MEM_FENCE:
		if isa.Scope(n.Imm) == isa.ScopeBlock {
			p.AnyBlock = false
		}
	case isa.SREG:
		if isa.Special(n.Imm) < isa.BlockDimX {
			p.AnyBlock = false
		}
	case isa.CLS_GET, isa.UNITY_TEST:
		p.AnyBlock = false
	case isa.RES_ACCUM:
		p.Residue = true
	case isa.PHASE_GET, isa.PHASE_ADV:
		p.Phase = true
	case isa.POOL_ALLOC:
		p.addArea(n)
	case isa.POOL_FREE:
		p.live = true
	case isa.POOL_LOAD, isa.POOL_STORE:
		handle := n.Args[0]
		if op == isa.POOL_STORE {
			handle = n.Args[1]
		}
		p.live = p.live || handle.Node == nil || handle.Node.Op != ir.Op(isa.POOL_ALLOC)
	}
}

// shortLoop is how many rounds a loop may run without looking whether the
// launch is cancelled.
const shortLoop = 1 << 16

// rounds bounds the rounds of a loop and the loops in it together; above
// shortLoop means not known or too many. Loops of expansions are short.
func rounds(n *ir.Node) uint64 {
	const many = shortLoop + 1
	inner := uint64(0)
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, m := range r.Nodes {
			if m.Op == ir.Loop && !m.Free {
				inner = min(inner+rounds(m), many)
				continue
			}
			for _, s := range m.Regions {
				walk(s)
			}
		}
	}
	walk(n.Regions[0])
	if !n.Counted {
		return many
	}
	count, ok := n.Args[0].Const()
	if !ok || count > shortLoop {
		return many
	}
	return min(count*(1+inner), many)
}
