package ir

import (
	"github.com/hologram-project/hologram/isa"
)

// stmtKind is a kind of statement in the tree that structure makes.
type stmtKind uint8

const (
	stmtCode  stmtKind = iota // the code of block at
	stmtIf                    // on the predicate of block at's end; its body never reaches its end
	stmtLoop                  // with header at
	stmtBlock                 // whose end leads to block at
	stmtBr                    // to the Loop or Block `to`; nil ends the lane
)

// stmt is a statement of the tree. Registers are still registers in it.
type stmt struct {
	kind    stmtKind
	counted bool
	at      int // of Br: the block that ends with it
	head    int // of a counted loop: the block whose TermLoop starts it
	to      *stmt
	body    []*stmt

	defs regset   // of Block and Loop: the registers that it may change
	regs []uint16 // those that became results or parameters; see ssa.go
	node *Node
}

// structure turns a reducible graph into a tree, after Ramsey ("Beyond
// Relooper", 2022): a block's code is followed by what it dominates; a block
// that several edges lead to stands behind a Block that is left to get there;
// a loop's header becomes a Loop. Two things differ. What is dominated by a
// block of a loop but is not in the loop stands behind the loop, not in it.
// And a counted loop falls out at its end, so that what follows it follows in
// the tree as well.
//
// It nests as deep as constructs follow each other, and so counts them itself:
// the error is a *SizeError.
func structure(fl *flow) ([]*stmt, error) {
	s := &structurer{flow: fl, placement: fl.place()}
	s.target = make([]*stmt, len(fl.term))
	var body []*stmt
	s.emit(0, &body)
	if s.constructs > MaxConstructs {
		return nil, &SizeError{Inst: max(fl.src(s.last), 0), Constructs: true}
	}
	return body, nil
}

type structurer struct {
	*flow
	placement
	// target is, by block, the Block that is left to reach it or the Loop
	// whose next round it starts, while that is open.
	target []*stmt
	// constructs counts Ifs, Loops and Blocks, and last is the block that the
	// last of them is at. Beyond MaxConstructs nothing more is emitted.
	constructs, last int
}

// construct makes the statement of an If, Loop or Block.
func (s *structurer) construct(kind stmtKind, at int) *stmt {
	if s.constructs++; s.constructs <= MaxConstructs {
		s.last = at
	}
	return &stmt{kind: kind, at: at}
}

// emit appends block b and everything placed with it to out.
func (s *structurer) emit(b int, out *[]*stmt) {
	for s.constructs <= MaxConstructs {
		s.work.Step(1)
		if !s.back[b] {
			b = s.within(b, out)
		} else {
			b = s.loop1(s.construct(stmtLoop, b), out, -1)
		}
		if b < 0 {
			return
		}
	}
}

// loop1 appends a loop between the Blocks that lead to what stands behind it.
// A counted one is followed by the way to block next. It returns the last
// block behind it, which remains to be emitted, or -1.
func (s *structurer) loop1(loop *stmt, out *[]*stmt, next int) int {
	h := loop.at
	return s.around(s.after[h], out, func(out *[]*stmt) {
		s.target[h] = loop
		*out = append(*out, loop)
		body := &loop.body
		if b := s.within(h, body); b >= 0 {
			s.emit(b, body)
		}
		s.target[h] = nil
		if next >= 0 {
			s.lead(loop.head, next, out)
		}
	})
}

// within appends the code of block b and the way on, between the Blocks that
// lead to the merge points it dominates. It returns the last of these, which
// remains to be emitted, or -1.
func (s *structurer) within(b int, out *[]*stmt) int {
	return s.around(s.inside[b], out, func(out *[]*stmt) {
		if len(s.code[b]) > 0 {
			*out = append(*out, &stmt{kind: stmtCode, at: b})
		}
		s.end(b, out)
	})
}

// around nests a Block for each of the given merge points, the first one
// innermost, fills the innermost, and emits all merge points but the last,
// each behind its Block.
func (s *structurer) around(merges []int32, out *[]*stmt, fill func(*[]*stmt)) int {
	if len(merges) == 0 {
		fill(out)
		return -1
	}
	lists := make([]*[]*stmt, len(merges)+1)
	lists[len(merges)] = out
	for i := len(merges) - 1; i >= 0; i-- {
		blk := s.construct(stmtBlock, int(merges[i]))
		s.target[merges[i]] = blk
		*lists[i+1] = append(*lists[i+1], blk)
		lists[i] = &blk.body
	}
	fill(lists[0])
	last := len(merges) - 1
	for i, m := range merges {
		s.target[m] = nil
		if i < last {
			s.emit(int(m), lists[i+1])
		}
	}
	return int(merges[last])
}

// end appends what the end of block b says.
func (s *structurer) end(b int, out *[]*stmt) {
	t := &s.term[b]
	switch t.Kind {
	case isa.TermExit:
		*out = append(*out, &stmt{kind: stmtBr, at: b})
	case isa.TermJump, isa.TermLatch:
		s.lead(b, t.To[0], out)
	case isa.TermBranch:
		st := s.construct(stmtIf, b)
		*out = append(*out, st)
		s.lead(b, t.To[0], &st.body)
		s.lead(b, t.To[1], out)
	case isa.TermLoop:
		loop := s.construct(stmtLoop, t.To[0])
		loop.counted, loop.head = true, b
		if s.own[t.To[0]] {
			// The body never comes to its end, and so lies behind a loop around
			// it: what is left here is the way there, in the first round.
			*out = append(*out, loop)
			s.lead(b, t.To[0], &loop.body)
			s.lead(b, t.To[1], out)
			return
		}
		if last := s.loop1(loop, out, t.To[1]); last >= 0 {
			s.emit(last, out)
		}
	}
}

// lead appends the way from block b to block to.
func (s *structurer) lead(b, to int, out *[]*stmt) {
	switch {
	case s.exits(to):
		*out = append(*out, &stmt{kind: stmtBr, at: b})
	case s.turns(to):
		*out = append(*out, &stmt{kind: stmtBr, at: b, to: s.target[s.term[to].To[0]]})
	case to <= b || s.own[to]:
		*out = append(*out, &stmt{kind: stmtBr, at: b, to: s.target[to]})
	default:
		s.emit(to, out)
	}
}
