package ir

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
)

// Registers and predicates share one numbering: register r is r, predicate p
// is 256+p.
const numVars = isa.NumRegisters + isa.NumPredicates

// regset is a set of registers and predicates.
type regset [(numVars + 63) / 64]uint64

func (s *regset) add(v int)      { s[v>>6] |= 1 << (v & 63) }
func (s *regset) has(v int) bool { return s[v>>6]&(1<<(v&63)) != 0 }

func (s *regset) union(t *regset) (grew bool) {
	for i, w := range t {
		grew = grew || w&^s[i] != 0
		s[i] |= w
	}
	return grew
}

func (s *regset) and(t *regset) regset {
	var r regset
	for i := range r {
		r[i] = s[i] & t[i]
	}
	return r
}

// list returns the members in ascending order.
func (s *regset) list() []uint16 {
	var l []uint16
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			l = append(l, uint16(i<<6+bits.TrailingZeros64(w)))
		}
	}
	return l
}

func predVar(p uint8) int { return isa.NumRegisters + int(p) }

// operands calls use for each register that in reads, as the row says, and then
// def for each that it writes.
func operands(in *isa.Inst, use, def func(v int)) {
	row, _ := isa.Lookup(in.Op)
	dst := -1
	for i := range row.Operands {
		a := &in.Args[i]
		v := -1
		switch a.Kind {
		case isa.ArgReg:
			v = int(a.Reg)
		case isa.ArgPred:
			v = predVar(a.Reg)
		case isa.ArgAddr:
			if a.Addr.Mode == isa.AddrIndirect {
				use(int(a.Addr.Handle))
			}
			if a.Addr.HasReg {
				use(int(a.Addr.Reg))
			}
		}
		switch k := row.Operands[i].Kind; {
		case v < 0:
		case k == isa.Dst || k == isa.PredDst:
			dst = v
		default:
			use(v)
		}
	}
	if first, count, ok := registerRun(in); ok {
		for r := first + 1; r < first+count; r++ {
			use(r)
		}
	}
	if dst >= 0 {
		def(dst)
	}
}

// registerRun returns the registers that a reduction over registers reads.
func registerRun(in *isa.Inst) (first, count int, ok bool) {
	if _, ok := reductions[in.Op]; !ok {
		return 0, 0, false
	}
	return int(in.Args[1].Reg), int(in.Args[2].Bits), true
}

// liveness is what each block reads before writing it (use), writes (def), and
// what is live where it starts (in).
type liveness struct {
	def, in []regset
}

// live computes liveness over the real edges, a latch's exit included. A block
// is looked at again only when a set behind it grew, so at most once for each
// register and edge.
func (fl *flow) liveness() *liveness {
	n := len(fl.term)
	lv := &liveness{def: make([]regset, n), in: make([]regset, n)}
	succ := func(b int) []int { return fl.term[b].Successors() }
	pred := make([][]int32, n)
	for b := range n {
		if !fl.live[b] {
			continue
		}
		for _, s := range succ(b) {
			pred[s] = append(pred[s], int32(b))
		}
		use, def := &lv.in[b], &lv.def[b]
		onUse := func(v int) {
			if !def.has(v) {
				use.add(v)
			}
		}
		onDef := func(v int) { def.add(v) }
		code := fl.g.Blocks[b].Code
		for i := range code {
			operands(&code[i].Inst, onUse, onDef)
		}
		t := &fl.term[b]
		if t.Kind == isa.TermBranch && t.Pred.Kind == isa.ArgPred {
			onUse(predVar(t.Pred.Reg))
		}
		if t.Kind == isa.TermLoop && t.Count.Kind == isa.ArgReg {
			onUse(int(t.Count.Reg))
		}
	}
	queued := make([]bool, n)
	var work []int32
	for b := range n {
		if fl.live[b] {
			queued[b] = true
			work = append(work, int32(b))
		}
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		queued[b] = false
		for _, p := range pred[b] {
			through := lv.in[b]
			for i := range through {
				through[i] &^= lv.def[p][i]
			}
			if lv.in[p].union(&through) && !queued[p] {
				queued[p] = true
				work = append(work, p)
			}
		}
	}
	return lv
}
