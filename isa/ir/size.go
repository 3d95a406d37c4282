package ir

import (
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// MaxNodes bounds the nodes of a Func, in canonical form and with expansions
// in place. One instruction as written becomes one node, rarely three; but
// REDUCE_* may become hundreds, and so may what expands, so that the limit on
// instructions alone does not bound the memory that compiling takes. With this
// it is some 200 MB.
const MaxNodes = isa.MaxOperations

// MaxCarried bounds the values that constructs and branches carry: results of
// Blocks, parameters of Loops and what each Br gives for them. A branch takes
// along every register that was changed on the way and is needed where it
// leads, so that their number may grow with the product of branches and
// registers, where nodes grow with their sum.
const MaxCarried = isa.MaxCarried

// MaxConstructs bounds the Ifs, Blocks and Loops that a program becomes, before
// what merely continues is made to fall through. Each takes several times the
// memory of an instruction, here and in an engine, and a driver's compiler some
// milliseconds.
const MaxConstructs = isa.MaxConstructs

// SizeError says that a program as the IR writes it has more than MaxNodes
// nodes or MaxConstructs constructs, or carries more than MaxCarried values.
type SizeError struct {
	// Nodes is how many there would be; 0: more than MaxNodes, not counted further.
	Nodes int
	// Inst is the instruction, as written, that was one too many; -1: it is
	// the expansions that are.
	Inst int
	// Carried is whether it is MaxCarried that is exceeded, Constructs whether
	// it is MaxConstructs.
	Carried, Constructs bool
	// Most names the expansion with the most nodes, such as "pow.f64"; it has
	// Uses uses, with MostNodes nodes together.
	Most            string
	Uses, MostNodes int
}

func (e *SizeError) Error() string {
	if e.Carried {
		return fmt.Sprintf("more than %d values carried by branches and loops (MaxCarried), by instruction %d: each carries every register that was changed on the way and is needed where it leads; use fewer registers, branches or loops", MaxCarried, e.Inst)
	}
	if e.Constructs {
		return fmt.Sprintf("more than %d branches, loops and places where branches meet (MaxConstructs), by instruction %d, in called code for each call; select values by sel, or use a loop or a table", MaxConstructs, e.Inst)
	}
	if e.Inst >= 0 {
		return fmt.Sprintf("more than %d operations (MaxOperations), by instruction %d: a register reduction counts as one for each register, a flat address as some ten; use a loop or fewer of them", MaxNodes, e.Inst)
	}
	return fmt.Sprintf("%d operations with functions expanded, at most %d (MaxOperations) are compiled: %d of them are from %d uses of %s; use a loop or fewer of them",
		e.Nodes, MaxNodes, e.MostNodes, e.Uses, e.Most)
}

// sizes counts nodes as they will be after expansion.
type sizes struct {
	nodes int
	uses  map[*template]int
}

func (s *sizes) region(r *Region) {
	for _, n := range r.Nodes {
		if tp := n.expansion(); tp != nil {
			s.uses[tp]++
			s.nodes += tp.nodes
			continue
		}
		s.nodes++
		for _, sub := range n.Regions {
			s.region(sub)
		}
	}
}

// sizeOf returns how many nodes r has with expansions in place.
func sizeOf(r *Region) sizes {
	s := sizes{uses: map[*template]int{}}
	s.region(r)
	return s
}

// check returns a *SizeError if there are more than MaxNodes nodes.
func (s *sizes) check() error {
	if s.nodes <= MaxNodes {
		return nil
	}
	e := &SizeError{Nodes: s.nodes, Inst: -1}
	for tp, uses := range s.uses {
		if k := uses * tp.nodes; k > e.MostNodes || k == e.MostNodes && tp.name < e.Most {
			e.Most, e.Uses, e.MostNodes = tp.name, uses, k
		}
	}
	return e
}

// checkLoops refuses what has too many counted loops, each of which becomes a
// construct, before more is made of it.
func checkLoops(g *isa.Graph) error {
	left := MaxConstructs
	for i := range g.Blocks {
		if t := &g.Blocks[i].Term; t.Kind == isa.TermLoop {
			if left--; left < 0 {
				return &SizeError{Inst: t.Src, Constructs: true}
			}
		}
	}
	return nil
}

func expansionName(op isa.Op, t isa.Type) string {
	return strings.ToLower(op.String()) + "." + t.String()
}
