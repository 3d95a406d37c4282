package call

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/queue"
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

// TestAddressesOfElements: every address of a type that is no multiple of its size is refused,
// wherever the operand stands, and none that is one.
func TestAddressesOfElements(t *testing.T) {
	_, d := newSlow(t)
	table := NewTable(d, 64)
	for _, typ := range isa.NumericTypes {
		for off := range uintptr(2 * typ.Size()) {
			for i := range 2 {
				operands := []Operand{vector(1<<12, typ, 9), vector(1<<13, typ, 9)}
				operands[i].View.Addr += off
				err := bound(d, table, &Request{Op: kernels.Copy, Operands: operands})
				if off%uintptr(typ.Size()) == 0 {
					require.NoError(t, err, "%v %d", typ, off)
					continue
				}
				require.Equal(t, status.Invalid, status.CodeOf(err), "%v %d", typ, off)
				require.ErrorContains(t, err, fmt.Sprintf("copy: %s: address 0x%x is not a multiple of %d", kernels.Copy.Operands[i].Name, operands[i].View.Addr, typ.Size()))
			}
		}
	}
}

// TestOutputsOverThemselves: what is not made element by element may not be written to elements
// that share memory either, whatever its steps do; one element shares none.
func TestOutputsOverThemselves(t *testing.T) {
	_, d := newSlow(t)
	table := NewTable(d, 64)
	view := func(typ isa.Type, shape, stride []int64) Operand {
		o := Operand{View: backends.View{Addr: 1 << 20, Type: typ, Rank: len(shape)}}
		copy(o.View.Shape[:], shape)
		copy(o.View.Stride[:], stride)
		return o
	}
	in := view(isa.F32, []int64{3, 4}, []int64{4, 1})
	in.View.Addr = 1 << 12
	for name, c := range map[string]struct {
		typ   isa.Type
		shape []int64
		axes  int64
	}{
		"reduce_sum": {isa.F32, []int64{3}, 2},
		"argmax":     {isa.I64, []int64{4}, 1},
		"cumsum":     {isa.F32, []int64{3, 4}, 2},
		"softmax":    {isa.F32, []int64{3, 4}, 2},
		"gemm":       {isa.F32, []int64{3, 3}, 0},
	} {
		op, ok := kernels.Lookup(name)
		require.True(t, ok)
		operands, scalars := []Operand{in}, []Scalar(nil)
		var dims []int64
		if name == "gemm" {
			b := view(isa.F32, []int64{4, 3}, []int64{3, 1})
			b.View.Addr = 1 << 13
			operands, scalars = append(operands, b), []Scalar{Float(1), Float(0)}
		} else {
			dims = []int64{c.axes}
		}
		packed := view(c.typ, c.shape, nil)
		Pack(&packed.View)
		require.NoError(t, bound(d, table, &Request{Op: op, Operands: append(operands, packed), Dims: dims}, scalars...), name)
		for k := range c.shape {
			out := packed
			out.View.Stride[k] = 0
			err := bound(d, table, &Request{Op: op, Operands: append(operands, out), Dims: dims}, scalars...)
			require.Equal(t, status.Invalid, status.CodeOf(err), "%s %d", name, k)
			require.ErrorContains(t, err, "share memory", "%s %d", name, k)
		}
	}
}

// TestWhatAPreparedCallKeeps goes with it: all that calls side by side left.
func TestWhatAPreparedCallKeeps(t *testing.T) {
	_, d := newSlow(t)
	none := d.Host.Stats().InUse
	r := &Request{Op: kernels.VectorAbs, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	p, err := Prepare(d, r)
	require.NoError(t, err)
	var side []*Bound
	for range 5 {
		require.True(t, p.Acquire())
		b, err := p.Bind(d, r.Operands, nil, false, r)
		require.NoError(t, err)
		side = append(side, b)
	}
	for _, b := range side {
		b.Release()
	}
	require.Greater(t, d.Host.Stats().InUse, none)
	require.EqualValues(t, 4, d.kept.Load())
	p.Release()
	require.Equal(t, none, d.Host.Stats().InUse)
	require.Zero(t, d.kept.Load())
}

// ticking is a stream that gives tickets.
type ticking struct {
	backends.Stream
	given backends.Ticket
}

func (s *ticking) Launch(backends.Kernel, *backends.Launch) (backends.Ticket, error) {
	s.given++
	return s.given, nil
}

func (s *ticking) Passed() backends.Ticket { return s.given }

// TestStepsOfNoLanes: a launch of no lanes has the ticket of the one before it, and the call
// that of its last launch, whichever of its steps have none.
func TestStepsOfNoLanes(t *testing.T) {
	_, d := newSlow(t)
	r := &Request{Op: kernels.Softmax, Operands: []Operand{vector(1<<12, isa.F32, 30000), vector(1<<20, isa.F32, 30000)}, Dims: []int64{2, 15000}}
	p, err := Prepare(d, r)
	require.NoError(t, err)
	defer p.Release()
	n := len(p.steps)
	require.Greater(t, n, 2)
	for empty := range 1 << n {
		require.True(t, p.Acquire())
		b, err := p.Bind(d, r.Operands, nil, false, r)
		require.NoError(t, err)
		lanes := make([]uint64, n)
		for i := range n {
			if lanes[i] = b.launches[i].N; empty>>i&1 != 0 {
				b.launches[i].N = 0
			}
		}
		s := &ticking{}
		last, err := b.Run(&queue.Target{Line: &memory.Line{Stream: s}, Async: true, Order: new(lock.Mutex[lock.Order])})
		require.NoError(t, err)
		require.Equal(t, s.given, last, "%b", empty)
		want := backends.Ticket(0)
		for i := range n {
			if empty>>i&1 == 0 {
				want++
			}
			require.Equal(t, want, b.tickets[i], "%b", empty)
			b.launches[i].N = lanes[i]
		}
		b.Release()
	}
}

// TestProgramsOfSteps: a program of one form whose blocks meet is another in core than that of
// a step whose don't, and one for all steps that are alike.
func TestProgramsOfSteps(t *testing.T) {
	plan, err := kernels.Softmax.Plan(isa.F32, []int64{2, 5})
	require.NoError(t, err)
	alone := plan.Steps[0]
	met := alone
	met.Meeting = kernels.Meeting{Blocks: 2}
	require.NotSame(t, libraryProgram(&alone), libraryProgram(&met))
	again := met
	require.Same(t, libraryProgram(&again), libraryProgram(&met))
}
