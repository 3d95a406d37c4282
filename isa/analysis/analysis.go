package analysis

import (
	"math"
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Analysis is what is known of a Func before any launch. It is immutable and
// may be shared.
type Analysis struct {
	Func     *ir.Func
	Accesses []Access // in program order
	Loops    []Loop   // in program order, those around first
	Class    Class

	vary []Vary
	tape *tape
	free sync.Pool // of *state
}

// Access is an instruction that reads or writes a slot or shared memory.
type Access struct {
	Node *ir.Node
	Loop int // innermost around it, index in Loops; −1: none
	// Offset is the byte offset in the slot or in shared memory, the static
	// part included, modulo 2^64. It holds in every launch if Always; else in
	// those where Proof.Affine says that what the program computes in narrower
	// types does not wrap. Of slot[index] it is nil, and holds.
	Offset Affine
	Always bool

	offset int32 // value on the tape, −1: none
}

// Loop is what is known of a loop.
type Loop struct {
	Node   *ir.Node
	Parent int // the loop around it, −1: none
	// Rounds is the most rounds that any launch makes, −1 if only the launch,
	// or nobody, knows.
	Rounds int64
	// Count is the count of a counted loop, as the program computes it.
	Count Affine
	// Insts estimates the instructions of a round, loops inside included with
	// Rounds rounds; +Inf if one of these is not known.
	Insts float64
	// Inductions are the parameters that grow by the same in each round.
	Inductions []Induction
}

// Induction is a loop's parameter Index, which is Init + Step · round modulo
// 2^64 (in narrower types: where it does not wrap).
type Induction struct {
	Index      int
	Init, Step Affine
}

// Short reports whether a lane runs at most the given number of instructions
// in the loop, whatever the launch.
func (l *Loop) Short(insts float64) bool {
	return l.Rounds >= 0 && float64(l.Rounds)*l.Insts <= insts
}

// New analyses f, in time near-linear in its nodes. f may be expanded or not.
func New(f *ir.Func) *Analysis {
	a, _ := NewMetered(nil, f)
	return a
}

// NewMetered is New, counted and stopped by m; the error is then m's.
func NewMetered(m *work.Meter, f *ir.Func) (a *Analysis, err error) {
	defer work.Catch(&err)
	a = &Analysis{Func: f, vary: varies(m, f), tape: newTape(m, f, questions{loops: true, checks: true, inductions: true})}
	found := findAffines(m, a.tape, a.vary)
	s := newState(a.tape)
	s.in, s.work = anyLaunch(f), m
	s.run()
	w := walker{a: a, s: s, offsets: found.offsets, work: m, number: map[*ir.Node]int{}}
	a.Loops = found.loops
	for i, l := range a.tape.loops {
		w.number[l.node] = i
		w.loop(i, l)
	}
	w.region(f.Body, -1)
	a.classify(m)
	s.in, s.work = launch{}, nil
	a.free.Put(s) // whoever analyses a program proves something next
	return a, nil
}

// Vary says between which lanes a value of the Func may differ.
func (a *Analysis) Vary(v *ir.Value) Vary { return a.vary[v.ID] }

// walker fills an Analysis from the tape's state in any launch.
type walker struct {
	a       *Analysis
	s       *state
	offsets []Affine // of the accesses to come
	work    *work.Meter
	number  map[*ir.Node]int
}

// loop completes what the forms have told of a loop.
func (w *walker) loop(i int, l *tapeLoop) {
	out := &w.a.Loops[i]
	out.Node, out.Parent, out.Rounds = l.node, -1, -1
	if n, known := mostRounds(w.s.rounds[i]); known {
		out.Rounds = int64(n)
	}
}

// region lists accesses and returns the instructions that a run through r takes.
func (w *walker) region(r *ir.Region, loop int) (insts float64) {
	w.work.Step(len(r.Nodes))
	for _, n := range r.Nodes {
		inner := loop
		switch n.Op {
		case ir.Const, ir.Block:
		case ir.Loop:
			inner = w.number[n]
			l := &w.a.Loops[inner]
			l.Parent = loop
			l.Insts = 1 + w.region(n.Regions[0], inner)
			rounds := float64(l.Rounds)
			switch {
			case n.Free:
				rounds = 1
			case l.Rounds < 0:
				rounds = math.Inf(1)
			}
			insts += 1 + rounds*l.Insts
			continue
		default:
			insts += weight(n)
			if n.Mem.Mode != 0 {
				w.access(n, loop)
			}
		}
		for _, s := range n.Regions {
			insts += w.region(s, inner)
		}
	}
	return insts
}

func (w *walker) access(n *ir.Node, loop int) {
	acc := Access{Node: n, Loop: loop, offset: -1, Always: true}
	if n.Mem.Mode != isa.AddrIndex {
		acc.Offset = number(n.Mem.Offset)
		if n.Mem.HasOff {
			acc.offset = w.s.place(n.Args[n.AddrArgs()-1])
			acc.Offset, _ = sum(w.offsets[0], 1, acc.Offset)
			w.offsets = w.offsets[1:]
			acc.Always = w.s.values[acc.offset].mod
		}
	}
	w.a.Accesses = append(w.a.Accesses, acc)
}

// Proof is what a launch's sizes prove. The zero Proof proves nothing; one may
// be used again and again.
type Proof struct {
	sites, affine bitset
	all           bool
}

// Site reports whether site number i of the Func cannot fault in the launch:
// an access stays inside its memory, a divisor is not 0, in every lane that
// comes there. Of lanes that do not, as they are masked off, nothing is said.
func (p *Proof) Site(i int) bool { return p.sites.has(i) }

// Affine reports whether the Offset of Accesses[i] holds in the launch.
func (p *Proof) Affine(i int) bool { return p.affine.has(i) }

// All reports whether no site can fault and every Offset holds: what a fast
// variant of the code may rest on.
func (p *Proof) All() bool { return p.all }

// Prove sets p to what the sizes of a launch prove. It takes some microseconds
// for a program of the library's size and allocates nothing once p and a have
// been used.
func (a *Analysis) Prove(l *Launch, p *Proof) {
	s, _ := a.free.Get().(*state)
	if s == nil {
		s = newState(a.tape)
	}
	s.in.of(a.Func, l)
	s.run()
	p.sites.reset(len(a.Func.Sites))
	copy(p.sites, s.proved)
	p.affine.reset(len(a.Accesses))
	p.all = true
	for i, n := range a.Func.Sites {
		p.all = p.all && (p.Site(i) || !n.CanFault())
	}
	for i := range a.Accesses {
		if acc := &a.Accesses[i]; acc.Always || s.values[acc.offset].mod {
			p.affine.put(i)
		} else {
			p.all = false
		}
	}
	s.in = launch{}
	a.free.Put(s)
}
