package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// librarySizes are sizes of calls by the names of the sizes: of one step and of
// several, with few rows and many, borders of chunks.
var librarySizes = map[string][][]int64{
	"":                      {{1}, {33}, {1000}}, // of an elementwise operation, the index space
	"n":                     {{1}, {300}, {8193}},
	"rows cols":             {{1, 1}, {3, 1000}, {2, 8200}, {70, 4}, {65, 17}, {70, 100}, {100, 40}, {5, 300}},
	"m n trans_a":           {{5, 700, 0}, {300, 9, 1}, {1, 1300, 0}},
	"m n k trans_a trans_b": {{3, 4, 5, 0, 0}, {2, 3, 0, 0, 1}, {1, 40, 513, 1, 1}, {17, 9, 70, 0, 1}, {130, 130, 8, 1, 0}, {130, 130, 520, 0, 0}},
}

// libraryShapes are operands with strides, by the number of operands and whether
// the operation takes axes.
var libraryShapes = map[string][]struct {
	operands [][2][]int64 // shape and strides
	axes     int
}{
	"rows": {
		{[][2][]int64{{{5, 7, 6}, {1, 30, 5}}, {{5, 7}, {1, 5}}}, 1},
		{[][2][]int64{{{70, 3, 4}, {24, 1, 6}}, {{70}, {3}}}, 2},
		{[][2][]int64{{{9, 8, 20}, {400, 1, 10}}, {{9, 8, 1}, {16, 2, 1}}}, 1},
		{[][2][]int64{{{80, 300}, {1, 80}}, {{80}, {1}}}, 1},
	},
	"softmax": {
		{[][2][]int64{{{5, 7, 6}, {1, 30, 5}}, {{5, 7, 6}, {42, 6, 1}}}, 1},
		{[][2][]int64{{{70, 40}, {1, 70}}, {{70, 40}, {80, 2}}}, 1},
		{[][2][]int64{{{70, 3, 4}, {24, 1, 6}}, {{70, 3, 4}, {12, 4, 1}}}, 2},
	},
	"loss": {{[][2][]int64{{{30, 20}, {1, 30}}, {{30, 20}, {40, 2}}, {{1}, {1}}}, 0}},
	"gemm": {
		{[][2][]int64{{{3, 5, 4}, {1, 3, 15}}, {{4, 6}, {1, 4}}, {{3, 5, 6}, {30, 6, 1}}}, 0},
		{[][2][]int64{{{2, 1, 5, 600}, {3000, 0, 1, 5}}, {{3, 600, 2}, {1200, 1, 600}}, {{2, 3, 5, 2}, {1, 20, 4, 2}}}, 0},
	},
	"matvec": {{[][2][]int64{{{2, 5, 700}, {3500, 1, 5}}, {{700}, {3}}, {{2, 5}, {1, 2}}}, 0}},
}

// runLibrary runs every operation of the library, in every type, by the plans of
// the library or the device's own, and compares all memory with what the
// library's plans give on the interpreter, bit for bit.
func runLibrary(t *testing.T, b backends.Backend) {
	r, oracle := newRig(t, b), newRig(t, interp.New())
	defer r.close()
	defer oracle.close()
	runs := 0
	for _, op := range kernels.All {
		for i, typ := range op.Types.List() {
			cases := libraryCases(t, op, typ)
			for k, c := range cases {
				if typ != isa.F32 && ((k+i)%3 != 0 || c.large) {
					continue // of other types a third
				}
				runs++
				err := r.library(oracle, op, c, uint64(runs))
				if err == errUnsupported { // which the log tells
					runs--
				} else if err != nil {
					t.Errorf("%s of %v, %s: %v", op.Name, typ, c.what, err)
				}
			}
		}
	}
	t.Logf("%s: %d calls of the library, no difference but those told", b.Name(), runs)
}

var errUnsupported = errors.New("not supported")

// libraryCase is a call: its plan, the device's own if it has one, and how
// many elements each operand takes in memory.
type libraryCase struct {
	what    string
	large   bool // takes the interpreter long
	sizes   []int64
	plan    *kernels.Plan
	types   []isa.Type
	reaches []int64
}

func libraryCases(t *testing.T, op *kernels.Op, typ isa.Type) (cases []*libraryCase) {
	types := make([]isa.Type, len(op.Operands))
	for i, o := range op.Operands {
		types[i] = typ
		if o.Kind == kernels.Index {
			types[i] = isa.I64
		}
	}
	name := ""
	for i, d := range op.Dims {
		if i > 0 {
			name += " "
		}
		name += d
	}
	sizes, ok := librarySizes[name]
	if !ok {
		t.Errorf("conformance has no sizes %q for %s", name, op.Name)
	}
	for _, d := range sizes {
		c := &libraryCase{what: fmt.Sprintf("sizes %v", d), sizes: d, types: types, large: len(d) == 5 && d[0]*d[1]*d[2] > 1<<20}
		if op.Elementwise {
			v, err := op.Program(typ)
			if err != nil {
				t.Fatal(err)
			}
			s := kernels.Step{Program: v, Shape: d}
			for i := range op.Operands {
				s.Slots = append(s.Slots, kernels.Binding{Operand: i, Type: typ, Shape: d, Stride: []int64{1}})
				c.reaches = append(c.reaches, d[0])
			}
			for i := range op.Scalars {
				s.Params = append(s.Params, kernels.Param{Scalar: true, Value: uint64(i)})
			}
			c.plan, c.sizes = &kernels.Plan{Steps: []kernels.Step{s}}, nil
		} else {
			var err error
			if c.plan, err = op.Plan(typ, d); err != nil {
				t.Fatal(err)
			}
			if c.reaches, err = op.Extent(typ, d); err != nil {
				t.Fatal(err)
			}
		}
		cases = append(cases, c)
	}
	kind := op.Name
	switch {
	case len(op.Dims) == 1:
		kind = "loss"
	case op.Axes && op != kernels.Softmax:
		kind = "rows"
	}
	shapes := libraryShapes[kind]
	if len(shapes) == 0 && !op.Elementwise {
		t.Errorf("conformance has no shapes for %s", op.Name)
	}
	for _, s := range shapes {
		c := &libraryCase{what: fmt.Sprintf("shapes and strides %v, %d axes", s.operands, s.axes), types: types}
		var l []kernels.Layout
		for i, o := range s.operands {
			l = append(l, kernels.Layout{Type: types[i], Shape: o[0], Stride: o[1]})
			reach := int64(1)
			for d, n := range o[0] {
				reach += (n - 1) * o[1][d]
			}
			c.reaches = append(c.reaches, reach)
		}
		plan, err := op.PlanShapes(l, s.axes)
		if err != nil {
			t.Errorf("%s of %s: %v", op.Name, c.what, err)
			continue
		}
		c.plan = plan
		cases = append(cases, c)
	}
	return cases
}

// library makes a call on r and on the oracle and returns the difference.
func (r *rig) library(oracle *rig, op *kernels.Op, c *libraryCase, seed uint64) error {
	plan := c.plan
	if planner, ok := r.device.(backends.Planner); ok && c.sizes != nil {
		own, err := planner.Plan(op, c.types[0], c.sizes)
		if err != nil {
			return err
		}
		if own != nil {
			plan = own
		}
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	var scalars []uint64
	for _, s := range op.Scalars {
		scalars = append(scalars, drawCell(draw, s.Type(c.types[0])))
	}
	var sides [2][]*array
	for i, n := range c.reaches {
		typ := c.types[i]
		size := int64(typ.Size())
		a, err := r.newArray(n*size, int64(draw.IntN(2))*size)
		if err != nil {
			return err
		}
		b, err := oracle.newArray(n*size, a.at-guardBytes)
		if err != nil {
			return err
		}
		sides[0], sides[1] = append(sides[0], a), append(sides[1], b)
		for k := range n {
			cell := drawCell(draw, typ)
			a.put(typ, k, cell)
			b.put(typ, k, cell)
		}
	}
	for i, x := range []*rig{r, oracle} {
		if i == 1 {
			plan = c.plan
		}
		if err := x.perform(plan, sides[i], scalars); err != nil {
			return err
		}
	}
	for i, o := range op.Operands {
		a, b := sides[0][i], sides[1][i]
		for k := range c.reaches[i] {
			if x, y := a.get(c.types[i], k), b.get(c.types[i], k); !same(c.types[i], x, y, 0) {
				return fmt.Errorf("element %d of %s in memory is %s; expected %s", k, o.Name, cellText(c.types[i], x), cellText(c.types[i], y))
			}
		}
		end := a.at + c.reaches[i]*int64(c.types[i].Size())
		if !bytes.Equal(a.host[:a.at], b.host[:b.at]) || !bytes.Equal(a.host[end:], b.host[end:]) {
			return fmt.Errorf("memory around %s was written", o.Name)
		}
		for j, x := range []*rig{r, oracle} {
			if err := x.device.Free(sides[j][i].mem); err != nil {
				return err
			}
		}
	}
	return nil
}

// drawCell draws bits of any kind for integers, of which none is 0 that divides,
// and for floats mostly ordinary numbers.
func drawCell(draw *rand.Rand, t isa.Type) uint64 {
	if !t.Float() {
		return draw.Uint64()&t.Mask() | 1
	}
	v := draw.NormFloat64()
	switch draw.IntN(40) {
	case 0:
		v *= 0x1p-30
	case 1:
		v = []float64{0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-140, 60000}[draw.IntN(8)]
	}
	return isa.Convert(t, isa.F64, math.Float64bits(v))
}

// perform runs a plan on arrays that are uploaded before and downloaded after.
func (r *rig) perform(plan *kernels.Plan, operands []*array, scalars []uint64) error {
	workspace, err := r.newArray(plan.Workspace, 0)
	if err != nil {
		return err
	}
	defer func() { _ = r.device.Free(workspace.mem) }()
	for _, a := range append(operands, workspace) {
		if err := r.upload(a); err != nil {
			return err
		}
	}
	for i := range plan.Steps {
		s := &plan.Steps[i]
		k, err := r.kernel(s.Program)
		if err != nil {
			return err
		}
		if k == nil {
			return errUnsupported
		}
		if err := r.launch(k, launchOf(s, workspace, operands, scalars)); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for _, a := range operands {
		if err := r.download(a); err != nil {
			return err
		}
	}
	return nil
}

func launchOf(s *kernels.Step, workspace *array, operands []*array, scalars []uint64) *backends.Launch {
	l := &backends.Launch{Grid: s.Grid, Block: s.Block, Rank: len(s.Shape), N: 1}
	copy(l.Shape[:], s.Shape)
	for _, n := range s.Shape {
		l.N *= uint64(n)
	}
	if l.Block == [3]uint32{} {
		l.Block = s.Program.Program.Block
	}
	if l.Block == [3]uint32{} {
		l.Block = [3]uint32{256, 1, 1}
	}
	if l.Grid == [3]uint32{} {
		lanes := uint64(l.Block[0]) * uint64(l.Block[1]) * uint64(l.Block[2])
		l.Grid = [3]uint32{uint32(max(1, (l.N+lanes-1)/lanes)), 1, 1}
	}
	for _, p := range s.Params {
		if p.Scalar {
			p.Value = scalars[p.Value]
		}
		l.Params = append(l.Params, p.Value)
	}
	for i, b := range s.Slots {
		a := workspace
		if b.Operand != kernels.Workspace {
			a = operands[b.Operand]
		}
		shape, stride := b.Shape, b.Stride
		if shape == nil { // the whole operand
			shape, stride = []int64{(int64(len(a.host)) - a.at - guardBytes) / int64(b.Type.Size())}, []int64{1}
		}
		v := backends.View{Addr: a.addr() + uintptr(b.Offset), Type: b.Type}
		if s.Program.Slots[i].Indexed {
			v.Rank = len(shape)
			copy(v.Shape[:], shape)
			copy(v.Stride[:], stride)
		} else {
			v.Rank = l.Rank
			v.Shape = l.Shape
		}
		if s.Program.Slots[i].Bytes {
			v.Bytes = int64(b.Type.Size())
			for _, n := range shape {
				v.Bytes *= n
			}
		}
		l.Slots = append(l.Slots, v)
	}
	return l
}
