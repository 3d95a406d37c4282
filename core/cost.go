package core

import "github.com/hologram-project/hologram/isa"

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

// costOf reads a program from top to bottom; calls and branches forward count
// as if they fell through.
func costOf(p *isa.Program) cost {
	type open struct {
		end     int
		rounds  float64
		param   int // or -1
		unknown bool
	}
	var c cost
	var loops []open
	back := backwardSpans(p)
	run := 0
	flush := func() {
		if run == 0 {
			return
		}
		t := costTerm{insts: float64(run)}
		unknown := false
		for _, l := range loops {
			t.insts *= l.rounds
			if l.param >= 0 {
				t.params = append(t.params, l.param)
			}
			unknown = unknown || l.unknown
		}
		if unknown {
			c.unknown += t.insts
		} else {
			c.terms = append(c.terms, t)
		}
		run = 0
	}
	for i, inst := range p.Insts {
		for len(loops) > 0 && loops[len(loops)-1].end <= i {
			flush()
			loops = loops[:len(loops)-1]
		}
		if end, ok := back[i]; ok {
			flush()
			loops = append(loops, open{end: end, rounds: 1, param: -1, unknown: true})
		}
		run++
		if inst.Op == isa.LOOP {
			flush()
			l := open{end: p.Labels[inst.Args[1].Bits].At, rounds: 1, param: -1}
			switch count := inst.Args[0]; count.Kind {
			case isa.ArgImm:
				l.rounds = float64(uint32(count.Bits))
			default:
				l.rounds, l.param, l.unknown = roundsOf(p, count.Reg)
			}
			loops = append(loops, l)
		}
	}
	flush()
	return c
}

// backwardSpans gives the loops made by branches: from the label to the branch.
func backwardSpans(p *isa.Program) map[int]int {
	spans := map[int]int{}
	for i, inst := range p.Insts {
		if inst.Op != isa.BRA && inst.Op != isa.CALL {
			continue
		}
		if at := p.Labels[inst.Args[0].Bits].At; at <= i {
			spans[at] = max(spans[at], i+1)
		}
	}
	return spans
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
