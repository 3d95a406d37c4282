package call

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// TestBindingsStayInside binds a plan's slots to all of an operand or the workspace,
// and to one byte more at either end: a plan that reaches beyond is not carried out.
func TestBindingsStayInside(t *testing.T) {
	// Six elements at x, from byte −20 to 4, and four at y, from byte 0 to 16.
	x := backends.View{Type: isa.F32, Rank: 1, Shape: [8]int64{6}, Stride: [8]int64{-1}}
	y := vector(0, isa.F32, 4).View
	r := &Request{Op: kernels.VectorAbs, Operands: []Operand{{View: x, ReadOnly: true}, {View: y, Packed: true}}}
	const workspace = 64
	for _, c := range []struct {
		operand       int
		offset        int64
		shape, stride []int64
		inside        bool
	}{
		{0, 0, nil, nil, true},
		{0, 0, []int64{6}, []int64{-1}, true},
		{0, -20, []int64{6}, []int64{1}, true},
		{0, -20, []int64{7}, []int64{1}, false},
		{0, -21, []int64{6}, []int64{1}, false},
		{0, -19, []int64{6}, []int64{1}, false},
		{0, 0, []int64{7}, []int64{-1}, false},
		{0, 1, []int64{6}, []int64{-1}, false},
		{0, -1, []int64{6}, []int64{-1}, false},
		{0, -20, []int64{2, 3}, []int64{1, 2}, true},
		{0, -20, []int64{2, 3}, []int64{2, 2}, false},
		{1, 0, []int64{4}, []int64{1}, true},
		{1, 0, []int64{4}, []int64{0}, true},
		{1, 0, []int64{4}, []int64{2}, false},
		{1, 0, []int64{5}, []int64{1}, false},
		{1, 13, []int64{1}, []int64{1}, false},
		{1, 12, []int64{1}, []int64{1}, true},
		{1, -1, []int64{1}, []int64{1}, false},
		{1, 1000, []int64{0}, []int64{1}, true},
		{1, math.MaxInt64, []int64{1}, []int64{1}, false},
		{1, math.MinInt64, []int64{1}, []int64{1}, false},
		{1, 0, []int64{1 << 40}, []int64{1 << 40}, false},
		{1, 0, []int64{2}, []int64{math.MinInt64}, false},
		{kernels.Workspace, 0, []int64{16}, []int64{1}, true},
		{kernels.Workspace, 0, []int64{17}, []int64{1}, false},
		{kernels.Workspace, 4, []int64{16}, []int64{1}, false},
		{kernels.Workspace, 60, []int64{16}, []int64{-1}, true},
		{kernels.Workspace, 56, []int64{16}, []int64{-1}, false},
		{kernels.Workspace, 64, []int64{1}, []int64{1}, false},
	} {
		s := &step{what: "abs", op: true}
		err := s.addBinding(&kernels.Binding{Operand: c.operand, Offset: c.offset, Type: isa.F32, Shape: c.shape, Stride: c.stride}, r.Op, r,
			[]backends.View{x, y}, workspace)
		if !c.inside {
			require.Equal(t, status.Internal, status.CodeOf(err), "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Len(t, s.slots, 1)
		require.Equal(t, c.operand == 0, s.slots[0].readOnly)
		if c.shape != nil {
			v := &s.l.Slots[0]
			require.EqualValues(t, c.offset, v.Addr)
			require.Equal(t, c.shape, v.Shape[:v.Rank])
			require.Equal(t, c.stride, v.Stride[:v.Rank])
			require.Equal(t, Contiguous(v), v.Bytes == 4*Numel(v), "%+v", c)
		}
	}
}

// TestWhoMakesBools takes every operation on bytes with each choice of which operands
// are bools: one that is written may be, if all that it is made of are and the
// operation makes bools of bools, or if it compares. The scalars of a call that makes
// bools are 0 or 1.
func TestWhoMakesBools(t *testing.T) {
	closed := []string{"fill", "copy", "reduce_min", "reduce_max", "vector_min", "vector_max", "vector_mul", "where"}
	compares := []string{"vector_equal", "vector_not_equal", "vector_less", "vector_less_equal", "vector_greater", "vector_greater_equal"}
	refused, taken := 0, 0
	for _, op := range kernels.All {
		if !op.Types.Has(isa.U8) {
			continue
		}
		for mask := range 1 << len(op.Operands) {
			r := &Request{Op: op}
			made, of := false, true
			for i, o := range op.Operands {
				typ := isa.U8
				if o.Kind == kernels.Index {
					typ = isa.I64
				}
				x := vector(64, typ, 4)
				x.Bool = mask>>i&1 != 0 && typ == isa.U8
				made = made || o.Writes && x.Bool
				of = of && (o.Writes || o.Kind != kernels.Same || x.Bool)
				r.Operands = append(r.Operands, x)
			}
			p := &Prepared{}
			_, err := p.types(r)
			if made && !slices.Contains(compares, op.Name) && !(of && slices.Contains(closed, op.Name)) {
				refused++
				require.Equal(t, status.BadType, status.CodeOf(err), "%s %b", op.Name, mask)
				require.ErrorContains(t, err, op.Name+": "+op.Operands[len(op.Operands)-1].Name+" has dtype bool")
				continue
			}
			taken++
			require.NoError(t, err, "%s %b", op.Name, mask)
			require.Len(t, p.operands, len(op.Operands))
			require.Len(t, p.scalars, len(op.Scalars))
			for i, s := range p.scalars {
				require.Equal(t, made, s.boolean, "%s %b", op.Name, mask)
				require.Equal(t, op.Scalars[i].Type(isa.U8), s.t)
			}
			for i, o := range p.operands {
				require.Equal(t, op.Operands[i].Writes, o.writes)
			}
		}
	}
	require.Greater(t, refused, 20)
	require.Greater(t, taken, 20)
}
