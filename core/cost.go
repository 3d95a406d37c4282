package core

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// cost estimates how many instructions a lane runs, so that a launch that may
// take long can be waited for in steps that Ctrl-C interrupts, and a short one
// costs no change of threads. It decides nothing else.
type cost struct {
	terms []costTerm
	// unknown is how many instructions stand in loops whose rounds are not
	// known before the launch.
	unknown float64
}

// costTerm is instructions · the product of launch parameters.
type costTerm struct {
	insts  float64
	params []int
}

// weight is how often the instructions of a block run, before any estimate.
type weight struct {
	rounds  float64 // of the counted loops around it whose count is known
	params  []int   // that count loops around it
	unknown bool    // whether it stands in a loop whose rounds are not known
}

// costOf adds up the blocks of a program's graph, where calls are inlined and
// loops nested as they run; of branches it counts both ways.
func costOf(v *isa.Verified) cost {
	blocks := v.Graph.Blocks
	from := make([][]int, len(blocks))
	counts := map[int]isa.Arg{} // of counted loops, by header
	for i := range blocks {
		t := &blocks[i].Term
		for _, to := range t.Successors() {
			from[to] = append(from[to], i)
		}
		if t.Kind == isa.TermLoop {
			counts[t.To[0]] = t.Count
		}
	}
	weights := make([]weight, len(blocks))
	for i := range weights {
		weights[i].rounds = 1
	}
	var c cost
	for header := range blocks {
		var latches []int // of a counted loop one, of others any number
		for _, b := range from[header] {
			if b >= header {
				latches = append(latches, b)
			}
		}
		if latches == nil {
			continue
		}
		rounds, param, unknown := 1.0, -1, true
		if blocks[latches[0]].Term.Kind == isa.TermLatch {
			if count := counts[header]; count.Kind == isa.ArgImm {
				rounds, unknown = float64(uint32(count.Bits)), false
			} else {
				rounds, param, unknown = roundsOf(v.Program, count.Reg)
			}
		}
		if unknown {
			c.unknown++ // such a loop takes long even if it has no instruction
		}
		for _, b := range loopOf(header, latches, from) {
			w := &weights[b]
			w.rounds *= rounds
			if param >= 0 {
				w.params = append(w.params, param)
			}
			w.unknown = w.unknown || unknown
		}
	}
	for i := range blocks {
		n := float64(len(blocks[i].Code))
		if t := &blocks[i].Term; t.Src >= 0 && t.Kind != isa.TermLatch {
			n++
		}
		c.add(&weights[i], n)
	}
	return c
}

// loopOf lists the blocks that reach a latch without passing the header, and that.
func loopOf(header int, latches []int, from [][]int) []int {
	in := map[int]bool{header: true}
	body := []int{header}
	for list := latches; len(list) > 0; {
		b := list[len(list)-1]
		list = list[:len(list)-1]
		if in[b] {
			continue
		}
		in[b] = true
		body = append(body, b)
		list = append(list, from[b]...)
	}
	return body
}

// add counts n instructions with a weight.
func (c *cost) add(w *weight, n float64) {
	n *= w.rounds
	if w.unknown {
		c.unknown += n
		return
	}
	slices.Sort(w.params)
	for i := range c.terms {
		if slices.Equal(c.terms[i].params, w.params) {
			c.terms[i].insts += n
			return
		}
	}
	c.terms = append(c.terms, costTerm{n, w.params})
}

// roundsOf finds what a loop's count register holds, where one instruction
// alone writes it and takes it from a parameter or an immediate.
func roundsOf(p *isa.Program, reg uint8) (rounds float64, param int, unknown bool) {
	writers := 0
	rounds, param, unknown = 1, -1, true
	for _, inst := range p.Insts {
		row, ok := isa.Lookup(inst.Op)
		if !ok || len(row.Operands) == 0 || row.Operands[0].Kind != isa.Dst || inst.Args[0].Reg != reg {
			continue
		}
		writers++
		switch {
		case inst.Op == isa.LDP:
			param, unknown = int(inst.Args[1].Bits), false
		case (inst.Op == isa.MOV || inst.Op == isa.MOV_IMM) && inst.Args[1].Kind == isa.ArgImm:
			rounds, unknown = float64(uint32(inst.Args[1].Bits)), false
		}
	}
	if writers != 1 {
		return 1, -1, true
	}
	return rounds, param, unknown
}

// of estimates the instructions of a launch of n lanes. longest is a bound on
// the rounds of loops that are not known; 0 says that there is none, and that
// they may take for ever.
func (c *cost) of(n uint64, cells []uint64, longest int64) float64 {
	if c.unknown > 0 && longest == 0 {
		return endless
	}
	lane := c.unknown * float64(longest)
	for i := range c.terms {
		t := c.terms[i].insts
		for _, k := range c.terms[i].params {
			t *= float64(cells[k])
		}
		lane += t
	}
	return lane * float64(n)
}

// endless is the cost of a launch that may never end.
const endless = 1e300
