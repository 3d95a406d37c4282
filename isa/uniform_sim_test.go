package isa

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// uniformProgram makes a small program of branches, loops and barriers on the
// u32 registers r0 … r2, set from constants, the lane and the block, and p0, p1.
func uniformProgram(r *rand.Rand) *Program {
	n := 8 + r.IntN(14)
	p := &Program{Insts: make([]Inst, n+1)}
	for at := range n + 2 {
		p.Labels = append(p.Labels, Label{fmt.Sprintf("l%d", at), at})
	}
	reg := func() Arg { return Arg{Kind: ArgReg, Reg: uint8(r.IntN(3))} }
	imm := func(n int) Arg { return Arg{Kind: ArgImm, Bits: uint64(r.IntN(n))} }
	pred := func() Arg { return Arg{Kind: ArgPred, Reg: uint8(r.IntN(2)), Not: r.IntN(2) == 0} }
	label := func(from int) Arg { return Arg{Kind: ArgLabel, Bits: uint64(from + r.IntN(n+1-from))} }
	u32 := Form{Type: U32}
	less := Form{Type: U32, Cond: LT}
	for i := range 3 {
		p.Insts[i] = Inst{Op: MOV, Form: u32, Args: [MaxOperands]Arg{{Kind: ArgReg, Reg: uint8(i)}, imm(3)}}
	}
	for i := 3; i < 5; i++ {
		p.Insts[i] = Inst{Op: SET, Form: less, Args: [MaxOperands]Arg{{Kind: ArgPred, Reg: uint8(i - 3)}, {Kind: ArgReg, Reg: uint8(FirstPreset + r.IntN(2))}, imm(4)}}
	}
	p.Insts[n] = Inst{Op: EXIT}
	for i := 5; i < n; i++ {
		in := &p.Insts[i]
		switch r.IntN(16) {
		case 0:
			*in = Inst{Op: MOV, Form: u32, Args: [MaxOperands]Arg{reg(), {Kind: ArgReg, Reg: uint8(FirstPreset + r.IntN(3))}}}
		case 1, 2:
			*in = Inst{Op: MOV, Form: u32, Args: [MaxOperands]Arg{reg(), imm(3)}}
		case 3, 4:
			*in = Inst{Op: ADD, Form: u32, Args: [MaxOperands]Arg{reg(), reg(), imm(2)}}
		case 5, 6:
			*in = Inst{Op: SET, Form: less, Args: [MaxOperands]Arg{{Kind: ArgPred, Reg: uint8(r.IntN(2))}, reg(), imm(4)}}
		case 7, 8, 9:
			*in = Inst{Op: BRA, Args: [MaxOperands]Arg{label(5), pred()}}
		case 10:
			*in = Inst{Op: BRA, Args: [MaxOperands]Arg{label(i + 1)}}
		case 11:
			*in = Inst{Op: LOOP, Args: [MaxOperands]Arg{reg(), label(i + 1)}}
		case 12:
			*in = Inst{Op: BLOCK_REDUCE_MAX, Form: u32, Args: [MaxOperands]Arg{reg(), reg()}}
		case 13:
			*in = Inst{Op: BLOCK_SCAN_MAX, Form: u32, Args: [MaxOperands]Arg{reg(), reg()}}
		case 14:
			*in = Inst{Op: BAR_SYNC, Args: [MaxOperands]Arg{imm(1)}}
		case 15:
			*in = Inst{Op: EXIT}
		}
	}
	return p
}

// runLane runs a program of uniformProgram for one lane of block 1 and returns
// the barriers it comes to, by instruction, and whether it exits. What a
// collective gives depends on how many the lane met, a scan's also on the lane.
func runLane(p *Program, lane uint32, steps int) (barriers []int, exits bool) {
	var regs [NumRegisters]uint32
	var preds [NumPredicates]bool
	regs[252], regs[253], regs[254] = lane, 1, 4
	type loop struct {
		at   int
		left uint32
	}
	var loops []loop
	end := func(at int) int { return p.Labels[p.Insts[at].Args[1].Bits].At }
	pc := 0
	goTo := func(to int) {
		pc = to
		for n := len(loops); n > 0; n = len(loops) {
			top := &loops[n-1]
			if pc > top.at && pc < end(top.at) {
				return
			}
			if pc == end(top.at) {
				if top.left--; top.left > 0 {
					pc = top.at + 1
					if pc == end(top.at) {
						continue
					}
					return
				}
			}
			loops = loops[:n-1]
		}
	}
	value := func(a Arg) uint32 {
		if a.Kind == ArgReg {
			return regs[a.Reg]
		}
		return uint32(a.Bits)
	}
	for range steps {
		in := &p.Insts[pc]
		a := &in.Args
		to := pc + 1
		switch in.Op {
		case MOV:
			regs[a[0].Reg] = value(a[1])
		case ADD:
			regs[a[0].Reg] = (value(a[1]) + value(a[2])) % 5
		case SET:
			preds[a[0].Reg] = value(a[1]) < value(a[2])
		case BRA:
			if a[1].Kind == ArgNone || preds[a[1].Reg] != a[1].Not {
				to = p.Labels[a[0].Bits].At
			}
		case LOOP:
			if n := value(a[0]); n == 0 {
				to = end(pc)
			} else {
				loops = append(loops, loop{pc, n})
			}
		case BLOCK_REDUCE_MAX, BLOCK_SCAN_MAX, BAR_SYNC:
			if barriers = append(barriers, pc); in.Op != BAR_SYNC {
				v := uint32(7*len(barriers)+pc) % 5
				if in.Op == BLOCK_SCAN_MAX {
					v = (v + lane) % 5
				}
				regs[a[0].Reg] = v
			}
		case EXIT:
			return barriers, true
		}
		goTo(to)
	}
	return barriers, false
}

// TestBarriersMeet runs random verified programs: all lanes come to the same
// barriers in the same order, but for lanes that exit.
func TestBarriersMeet(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(5, 6))
	n := randomPrograms()
	refused, met, exited := 0, 0, 0
	for range n {
		p := uniformProgram(r)
		v, err := Verify(p)
		if err != nil {
			if err.(*VerifyError).Rule == "uniform" {
				refused++
			}
			continue
		}
		if !v.HasBarrier {
			continue
		}
		var most []int
		var lanes [4][]int
		var exits [4]bool
		for lane := range lanes {
			lanes[lane], exits[lane] = runLane(p, uint32(lane), 300)
			if len(lanes[lane]) > len(most) {
				most = lanes[lane]
			}
		}
		for lane, l := range lanes {
			if !slices.Equal(l, most[:len(l)]) {
				t.Fatalf("lane %d meets %v, another %v\n%v", lane, l, most, Disassemble(p))
			}
			// A lane that met fewer must have left, unless time ran out.
			if len(l) < len(most) {
				if !exits[lane] && exits[0] && exits[1] && exits[2] && exits[3] {
					t.Fatalf("lane %d stays behind\n%v", lane, Disassemble(p))
				}
				exited++
			}
		}
		if len(most) > 2 {
			met++
		}
	}
	t.Logf("%d programs refused, %d met three barriers or more, %d lanes exited before another's", refused, met, exited)
	if refused < n/1000 || met < n/1000 || exited < n/10000 {
		t.Error("too few programs of some kind")
	}
}

// TestRegions compares what a branch decides about in the graph of rounds with
// its definition: what is between it and its immediate postdominator.
func TestRegions(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	branches := 0
	for range randomPrograms() {
		p := flowProgram(r)
		v, err := Verify(p)
		if err != nil || len(v.Graph.Blocks) > 40 {
			continue
		}
		g := &v.Graph
		for b := range g.Blocks {
			u := newUniformity(g)
			if len(u.ways.of(int32(b))) < 2 {
				continue
			}
			branches++
			u.diverge(int32(b), func(int) {})
			want := slowRegion(u, int32(b))
			for c := range want {
				if got := u.cause[c] >= 0; got != want[c] {
					t.Fatalf("branch of block %d decides about vertex %d: %v, want %v\n%v", b, c, got, want[c], dump(g))
				}
			}
		}
	}
	if branches < 100 {
		t.Errorf("only %d branches", branches)
	}
}

// reaches returns what from leads to, not going through a vertex that is left out.
func reaches(u *uniformity, from []int32, without int32) []bool {
	seen := make([]bool, len(u.cause))
	work := slices.Clone(from)
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		if b != without && !seen[b] {
			seen[b] = true
			work = append(work, u.ways.of(b)...)
		}
	}
	return seen
}

func slowRegion(u *uniformity, b int32) []bool {
	last := len(u.cause) - 1
	passes := func(from, by int32) bool { return !reaches(u, []int32{from}, by)[last] }
	// The nearest postdominator is the one that all others postdominate.
	var posts []int32
	for p := range int32(len(u.cause)) {
		if p != b && passes(b, p) {
			posts = append(posts, p)
		}
	}
	nearest := int32(-1)
	for _, p := range posts {
		is := true
		for _, q := range posts {
			is = is && (q == p || passes(p, q))
		}
		if is {
			nearest = p
		}
	}
	return reaches(u, u.ways.of(b), nearest)
}
