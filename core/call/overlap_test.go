package call

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// bound makes a call of an operation, as far as binding, and ends it.
func bound(d *Device, table *Table, r *Request, scalars ...Scalar) error {
	p, err := table.Get(r, false)
	if err != nil {
		return err
	}
	b, err := p.Bind(d, r.Operands, scalars, false, r)
	if err != nil {
		p.Release()
		return err
	}
	b.Release()
	return nil
}

// TestOutputsAtAllDistances moves an output over an input byte by byte: refused
// is what shares a byte with it and is not the same, whether it was prepared at
// that distance or at another.
func TestOutputsAtAllDistances(t *testing.T) {
	_, d := newSlow(t)
	const n, at = 5, 1 << 12
	for _, typ := range []isa.Type{isa.U8, isa.U16, isa.F64} {
		size := int64(typ.Size())
		table := NewTable(d, 16)
		for shift := -(n + 2) * size; shift <= (n+2)*size; shift += size {
			out := vector(uintptr(at+shift), typ, n)
			far := vector(1<<20, typ, n)
			for _, operands := range [][]Operand{{vector(at, typ, n), far, out}, {far, vector(at, typ, n), out}} {
				err := bound(d, table, &Request{Op: kernels.VectorAdd, Operands: operands})
				if shift == 0 || max(shift, -shift) >= n*size {
					require.NoError(t, err, "%v at %d", typ, shift)
				} else {
					require.Equal(t, status.Invalid, status.CodeOf(err), "%v at %d", typ, shift)
					require.ErrorContains(t, err, "vector_add: c overlaps")
				}
			}
		}
	}
}

// TestOutputsOverRandomViews has operands of random strides: an output that shares
// bytes with an input is refused unless it is the same view, and one that lies
// beyond all its bytes is not.
func TestOutputsOverRandomViews(t *testing.T) {
	_, d := newSlow(t)
	r := rand.New(rand.NewPCG(3, 4))
	refused, taken := 0, 0
	for range 3000 {
		in := randomView(r)
		out := in
		for i := range out.Rank {
			if r.IntN(2) == 0 {
				out.Stride[i] = int64(r.IntN(13) - 6)
			}
		}
		out.Addr = uintptr(int64(in.Addr) + 4*int64(r.IntN(41)-20))
		if selfOverlaps(&out) || Numel(&in) == 0 {
			continue
		}
		used := map[int64]bool{}
		for _, p := range places(&in) {
			used[p] = true
		}
		shares := false
		for _, p := range places(&out) {
			shares = shares || used[p]
		}
		table := NewTable(d, 16)
		operand := func(v backends.View) Operand {
			o := Operand{View: v, Packed: Contiguous(&v)}
			if o.View.Bytes = 0; o.Packed {
				Pack(&o.View)
			}
			return o
		}
		request := &Request{Op: kernels.VectorAbs, Operands: []Operand{operand(in), operand(out)}}
		far := *request
		far.Operands = []Operand{operand(in), operand(out)}
		far.Operands[1].View.Addr += 1 << 20
		require.NoError(t, bound(d, table, &far), "%+v", far.Operands)
		err := bound(d, table, request)
		same := SameView(&request.Operands[0].View, &request.Operands[1].View)
		switch {
		case shares && !same:
			refused++
			require.Equal(t, status.Invalid, status.CodeOf(err), "%+v", request.Operands)
		case same:
			taken++
			require.NoError(t, err, "%+v", request.Operands)
		}
	}
	require.Greater(t, refused, 100)
	require.Greater(t, taken, 20)
}

// TestStepsInPlace has a step that goes by bytes: its output may be the identical
// array as its input where the plan answers for it, and nothing else that overlaps.
func TestStepsInPlace(t *testing.T) {
	source, err := isa.Assemble("step", "slot x f32\nslot y f32\n sreg i, global_lane\n mul.u64 i, i, 4\n ldg.f32 v, x[i]\n stg.f32 v, y[i]\n exit")
	require.NoError(t, err)
	verified, err := isa.Verify(source)
	require.NoError(t, err)
	for _, inPlace := range []bool{false, true} {
		p, s := &Prepared{what: "step"}, step{what: "step", program: program.New(verified), inPlace: inPlace}
		for i, name := range []string{"x", "y"} {
			v := vector(0, isa.F32, 8).View
			v.Addr = 0
			s.addSlot(v, name, i, false)
		}
		require.NoError(t, p.overlaps(&s))
		require.Len(t, p.checks, 1)
		for shift, allowed := range map[uintptr]bool{0: inPlace, 4: false, 28: false, 32: true} {
			operands := []Operand{vector(4096, isa.F32, 8), vector(4096+shift, isa.F32, 8)}
			require.Equal(t, allowed, p.checks[0].passes(operands), "in place %v, at %d", inPlace, shift)
		}
	}
}
