package strips

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// edges are cells of type t worth trying: the ends of its range, small
// numbers, and for floats zeros, subnormals, infinities and a NaN.
func edges(t isa.Type) []uint64 {
	r := rand.New(rand.NewPCG(uint64(t), 1))
	m := t.Mask()
	if t == isa.Pred {
		return []uint64{0, 1}
	}
	var e []uint64
	if t.Float() {
		mb := t.MantissaBits()
		inf := (uint64(1)<<t.ExponentBits() - 1) << mb
		one := (uint64(1)<<(t.ExponentBits()-1) - 1) << mb
		sign := uint64(1) << (t.Bits() - 1)
		for _, v := range []uint64{0, 1, 2, 1<<mb - 1, 1 << mb, 1<<mb + 1, one, one + 1, one - 1, one + 1<<mb, one + 3<<(mb-1),
			one - 1<<mb, one - 2<<mb, one + 3<<mb + 5, inf - 1, inf, inf | 1<<(mb-1)} {
			e = append(e, v, v|sign)
		}
	} else {
		top := m >> 1
		e = append(e, 0, 1, 2, 3, 5, 7, 8, 15, 31, 33, 63, 64, 95, 96, 100, m, m-1, m-2, top, top+1, top+2, top-1)
	}
	for range 24 {
		e = append(e, r.Uint64()&m>>r.IntN(t.Bits()))
	}
	for i := range e {
		e[i] &= m
	}
	return e
}

// TestPrimitives runs every primitive and type over combinations of edge
// values and compares with the table's evaluator, lane by lane and, with
// operands that are the same for all lanes, as a uniform value.
func TestPrimitives(t *testing.T) {
	count := 0
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Eval == nil || row.Effect&isa.Structural != 0 {
			continue
		}
		for _, form := range forms(op, row) {
			count++
			testPrimitive(t, op, row, form)
		}
	}
	if count < 450 {
		t.Errorf("only %d forms", count)
	}
}

// forms lists what a mnemonic of the row may carry.
func forms(op isa.Op, row *isa.Row) []isa.Form {
	types := row.Types.List()
	if len(types) == 0 {
		types = []isa.Type{isa.NoType}
	}
	var out []isa.Form
	for _, ty := range types {
		switch {
		case row.Expand.Has(ty):
		case row.HasCond:
			for c := isa.EQ; c <= isa.GE; c++ {
				out = append(out, isa.Form{Type: ty, Cond: c})
			}
		case row.From != 0:
			for _, from := range row.From.List() {
				if op != isa.BITCAST || from.Size() == ty.Size() {
					out = append(out, isa.Form{Type: ty, From: from})
				}
			}
		default:
			out = append(out, isa.Form{Type: ty})
		}
	}
	return out
}

// operandTypes returns the types of the result and the value sources.
func operandTypes(row *isa.Row, form isa.Form) (result isa.Type, sources []isa.Type) {
	for _, o := range row.Operands {
		t := o.Type
		switch t {
		case isa.TypeT:
			t = form.Type
		case isa.TypeFrom:
			t = form.From
		}
		switch o.Kind {
		case isa.Dst, isa.PredDst:
			result = t
		case isa.Src, isa.SrcReg, isa.PredSrc:
			sources = append(sources, t)
		}
	}
	return result, sources
}

func testPrimitive(t *testing.T, op isa.Op, row *isa.Row, form isa.Form) {
	result, types := operandTypes(row, form)
	name := fmt.Sprintf("%v %v %v %v", op, form.Cond, form.Type, form.From)
	r := rand.New(rand.NewPCG(uint64(op), 2))
	// columns of operands: all pairs of edges, the third at random
	cols := make([][]uint64, len(types))
	var e [3][]uint64
	for i, ty := range types {
		e[i] = edges(ty)
	}
	for _, x := range e[0] {
		ys := []uint64{0}
		if len(types) > 1 {
			ys = e[1]
		}
		for _, y := range ys {
			row := []uint64{x, y, 0}
			if len(types) > 2 {
				row[2] = e[2][r.IntN(len(e[2]))]
			}
			for i := range cols {
				cols[i] = append(cols[i], row[i])
			}
		}
	}
	imm := uint64(2)
	// A predicate comes from a u8, and goes to one.
	slotType := func(ty isa.Type) isa.Type {
		if ty == isa.Pred {
			return isa.U8
		}
		return ty
	}
	n := len(cols[0])
	for _, uniform := range []int{0, 1, 2, 4, 7} {
		if uniform>>len(types) != 0 {
			continue
		}
		lanes, base := n, 0
		if uniform != 0 {
			lanes = min(n, 70)
			base = r.IntN(n - lanes + 1)
		}
		var slots []isa.Type
		for _, ty := range types {
			slots = append(slots, slotType(ty))
		}
		tr := newTree(append(slots, slotType(result))...)
		args := make([]*ir.Value, len(types))
		cell := func(i, lane int) uint64 {
			if uniform>>i&1 != 0 {
				return cols[i][base]
			}
			return cols[i][base+lane]
		}
		var views []backends.View
		kept = nil
		for i, ty := range types {
			var lanesOf []uint64
			for l := range lanes {
				lanesOf = append(lanesOf, cell(i, l))
			}
			views = append(views, bytesView(slots[i], pack(slots[i], lanesOf)))
			switch {
			case uniform>>i&1 != 0:
				args[i] = tr.constant(ty, cols[i][base])
			case ty == isa.Pred:
				args[i] = tr.set(isa.NE, tr.load(i), tr.constant(isa.U8, 0))
			default:
				args[i] = tr.load(i)
			}
		}
		nd := tr.op(op, form, result, args...)
		nd.Node.Imm = imm
		out := nd
		if result == isa.Pred {
			out = tr.op(isa.SEL, isa.Form{Type: isa.U8}, isa.U8, nd, tr.constant(isa.U8, 1), tr.constant(isa.U8, 0))
		}
		tr.store(len(types), out)
		res := pack(slotType(result), make([]uint64, lanes))
		views = append(views, bytesView(slotType(result), res))
		k, err := Compile(tr.f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		got := k.Run(flat(lanes, 256, views...), alone)
		faulted := map[isa.FaultKind]bool{}
		for l, have := range unpack(slotType(result), res) {
			var c [3]uint64
			for i := range types {
				c[i] = cell(i, l)
			}
			if op == isa.NBR_GET {
				c[1] = imm
			}
			want, fault := row.Eval(form, c[0], c[1], c[2])
			faulted[fault] = true
			if !sameCell(result, have, want) {
				t.Errorf("%s (uniform %b) of %#x %#x %#x = %#x, not %#x", name, uniform, c[0], c[1], c[2], have, want)
				return
			}
		}
		var pf *backends.ProgramFault
		if errors.As(got, &pf) {
			if !faulted[pf.Kind] || pf.Site != nd.Node.Site {
				t.Errorf("%s (uniform %b): %v, faults %v at site %d", name, uniform, got, faulted, nd.Node.Site)
			}
		} else if got != nil || len(faulted) > 1 || !faulted[isa.NoFault] {
			t.Errorf("%s (uniform %b): outcome %v, faults %v", name, uniform, got, faulted)
		}
	}
}
