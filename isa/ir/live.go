package ir

import (
	"math/bits"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
)

// Registers and predicates share one numbering: register r is r, predicate p
// is 256+p.
const numVars = isa.NumRegisters + isa.NumPredicates

// regset is a set of registers and predicates.
type regset [(numVars + 63) / 64]uint64

func (s *regset) add(v int)      { s[v>>6] |= 1 << (v & 63) }
func (s *regset) remove(v int)   { s[v>>6] &^= 1 << (v & 63) }
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
			if a.Mode == isa.AddrIndirect {
				use(int(a.Handle))
			}
			if a.HasReg {
				use(int(a.Reg))
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

// liveness is, by block, the code that is needed, what that code writes (def)
// and what is live where the block starts (in).
type liveness struct {
	code    [][]isa.Located
	def, in []regset
}

// live computes liveness and with it which instructions are needed: what only
// computes a register that nothing needs makes nothing else live. So code that
// is dead leaves no trace even in the shape that structure finds.
//
// A block is looked at again only when what is live behind it grew, so at most
// once for each register and edge.
func live(m *work.Meter, g *isa.Graph) *liveness {
	n := len(g.Blocks)
	lv := &liveness{code: make([][]isa.Located, n), def: make([]regset, n), in: make([]regset, n)}
	pred := make([][]int32, n)
	work := make([]int32, n)
	queued := make([]bool, n)
	for b := range n {
		for _, s := range g.Blocks[b].Term.Successors() {
			pred[s] = append(pred[s], int32(b))
		}
		work[b], queued[b] = int32(b), true
	}
	l := &liveWalk{g: g, lv: lv, work: m}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		queued[b] = false
		l.block(int(b), nil)
		if !lv.in[b].union(&l.set) {
			continue
		}
		for _, p := range pred[b] {
			if !queued[p] {
				queued[p] = true
				work = append(work, p)
			}
		}
	}
	for b := range n {
		code := g.Blocks[b].Code
		kept := make([]bool, len(code))
		count := 0
		l.block(b, func(i int) {
			kept[i] = true
			count++
			operands(code[i].Inst, func(int) {}, func(v int) { lv.def[b].add(v) })
		})
		if count == len(code) {
			lv.code[b] = code
			continue
		}
		for i, k := range kept {
			if k {
				lv.code[b] = append(lv.code[b], code[i])
			}
		}
	}
	return lv
}

// liveWalk goes through a block backward.
type liveWalk struct {
	g    *isa.Graph
	lv   *liveness
	set  regset // what is live at the place reached
	work *work.Meter
}

// block sets l.set to what is live where block b starts, given what is known
// so far of its successors, and calls needed for each instruction that is.
func (l *liveWalk) block(b int, needed func(i int)) {
	blk := &l.g.Blocks[b]
	l.work.Step(1 + len(blk.Code))
	l.set = regset{}
	for _, s := range blk.Term.Successors() {
		l.set.union(&l.lv.in[s])
	}
	if t := &blk.Term; t.Kind == isa.TermBranch && t.Pred.Kind == isa.ArgPred {
		l.set.add(predVar(t.Pred.Reg))
	} else if t.Kind == isa.TermLoop && t.Count.Kind == isa.ArgReg {
		l.set.add(int(t.Count.Reg))
	}
	for i := len(blk.Code) - 1; i >= 0; i-- {
		in := blk.Code[i].Inst
		use, dst := operandSets(in)
		if dst >= 0 {
			if !l.set.has(dst) && removable(in) {
				continue
			}
			l.set.remove(dst)
		}
		l.set.union(&use)
		if needed != nil {
			needed(i)
		}
	}
}

func operandSets(in *isa.Inst) (use regset, dst int) {
	dst = -1
	operands(in, use.add, func(v int) { dst = v })
	return use, dst
}

// removable reports whether in does nothing but compute its result.
func removable(in *isa.Inst) bool {
	row, _ := isa.Lookup(in.Op)
	if row.Effect&^(isa.Pure|isa.Reads|isa.MayFault|isa.Structural) != 0 {
		return false
	}
	if row.Effect&isa.MayFault == 0 {
		return true
	}
	for i := range row.Operands {
		if a := &in.Args[i]; a.Kind == isa.ArgAddr {
			return a.Mode == isa.AddrIndex
		}
	}
	return (in.Op == isa.DIV || in.Op == isa.REM) && in.Type.Float()
}
