package kernels

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// call gives sizes that make every operation of more than one step take all of them.
func sizes(op *Op) []int64 {
	d := make([]int64, len(op.Dims))
	for i, name := range op.Dims {
		switch name {
		case "trans_a", "trans_b":
			d[i] = 1
		case "rows":
			d[i] = 3
		default:
			d[i] = 2*ChunkElements + 5
		}
	}
	if op == Gemm {
		copy(d, []int64{70, 300, 9})
	}
	return d
}

// Every operation assembles and verifies for every type it claims, and its
// description fits its programs.
func TestPrograms(t *testing.T) {
	for _, op := range All {
		for _, typ := range op.Types.List() {
			if op.Elementwise {
				v, err := op.Program(typ)
				if err != nil {
					t.Errorf("%s %v: %v", op.Name, typ, err)
					continue
				}
				if len(v.Slots) != len(op.Operands) || len(v.Program.Params) != len(op.Scalars) {
					t.Fatalf("%s: %d slots, %d parameters; described as %d, %d", op.Name, len(v.Slots), len(v.Program.Params), len(op.Operands), len(op.Scalars))
				}
				for i, use := range v.Slots {
					if o := op.Operands[i]; use.Reads != o.Reads || use.Writes != o.Writes || use.Bytes {
						t.Errorf("%s: operand %s is described as %+v, used as %+v", op.Name, o.Name, o, use)
					}
				}
				for i, p := range v.Program.Params {
					if p.Type != op.Scalars[i].Type(typ) {
						t.Errorf("%s: scalar %s is %v, described as %v", op.Name, p.Name, p.Type, op.Scalars[i].Type(typ))
					}
				}
				continue
			}
			p, err := op.Plan(typ, sizes(op))
			if err != nil {
				t.Errorf("%s %v: %v", op.Name, typ, err)
				continue
			}
			checkPlan(t, op, typ, p)
		}
	}
}

// checkPlan checks that a plan's bindings fit its programs and stay inside the
// operands and the workspace.
func checkPlan(t *testing.T, op *Op, typ isa.Type, p *Plan) {
	t.Helper()
	extent, err := op.Extent(typ, sizes(op))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) == 0 {
		t.Errorf("%s %v: no steps", op.Name, typ)
	}
	for i, s := range p.Steps {
		prog := s.Program.Program
		if len(s.Slots) != len(prog.Slots) || len(s.Params) != len(prog.Params) {
			t.Fatalf("%s %v step %d: %d bindings, %d parameters for %d slots, %d parameters", op.Name, typ, i, len(s.Slots), len(s.Params), len(prog.Slots), len(prog.Params))
		}
		for j, b := range s.Slots {
			if b.Type != prog.Slots[j].Type {
				t.Errorf("%s %v step %d: slot %s is %v, bound as %v", op.Name, typ, i, prog.Slots[j].Name, prog.Slots[j].Type, b.Type)
			}
			last := int64(0)
			for d, n := range b.Shape {
				last += (n - 1) * b.Stride[d]
			}
			switch {
			case b.Operand == Workspace:
				if b.Shape == nil || b.Offset%64 != 0 || b.Offset+(last+1)*int64(b.Type.Size()) > p.Workspace {
					t.Errorf("%s %v step %d: slot %s: %+v is outside a workspace of %d bytes", op.Name, typ, i, prog.Slots[j].Name, b, p.Workspace)
				}
			case b.Shape != nil && last >= extent[b.Operand]:
				t.Errorf("%s %v step %d: slot %s reaches element %d of %d", op.Name, typ, i, prog.Slots[j].Name, last, extent[b.Operand])
			}
			if use := s.Program.Slots[j]; b.Operand != Workspace && use.Writes && !op.Operands[b.Operand].Writes {
				t.Errorf("%s %v step %d: writes input %s", op.Name, typ, i, op.Operands[b.Operand].Name)
			}
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range All {
		if seen[op.Name] || op.Doc == "" || op.Name != strings.ToLower(op.Name) {
			t.Errorf("operation %q: name taken or not in lower case, or no doc", op.Name)
		}
		seen[op.Name] = true
		if got, ok := Lookup(op.Name); !ok || got != op {
			t.Errorf("Lookup(%q) gives another", op.Name)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		op   *Op
		typ  isa.Type
		dims []int64
		want string
	}{
		{Softmax, isa.I32, []int64{1, 2}, "dtype i32 is not supported"},
		{Softmax, isa.F32, []int64{1}, "takes the sizes rows, cols"},
		{Softmax, isa.F32, []int64{1, -2}, "cols = -2"},
		{Gemm, isa.F32, []int64{1, 1, 1, 2, 0}, "trans_a = 2; expected 0 or 1"},
		{Gemm, isa.F32, []int64{1 << 30, 1 << 30, 1, 0, 0}, "operand c has"},
		{ReduceMin, isa.F32, []int64{1, 0}, "no elements"},
		{MSELoss, isa.F32, []int64{0}, "no elements"},
		{VectorAdd, isa.F32, nil, "is an elementwise operation"},
	} {
		_, err := c.op.Plan(c.typ, c.dims)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.op.Name) {
			t.Errorf("%s %v %v: error %v, want one with %q", c.op.Name, c.typ, c.dims, err, c.want)
		}
	}
	if _, err := Gemm.Program(isa.F32); err == nil {
		t.Error("Gemm has a Program")
	}
}

// No elements are no work, but for sums, which give +0.
func TestEmpty(t *testing.T) {
	for _, c := range []struct {
		op    *Op
		dims  []int64
		steps int
	}{
		{Softmax, []int64{0, 5}, 0}, {Softmax, []int64{5, 0}, 0}, {ReduceSum, []int64{2, 0}, 1}, {ReduceSum, []int64{0, 2}, 0},
		{Gemm, []int64{0, 4, 4, 0, 0}, 0}, {Gemm, []int64{4, 4, 0, 0, 0}, 1},
	} {
		p, err := c.op.Plan(isa.F32, c.dims)
		if err != nil || len(p.Steps) != c.steps {
			t.Errorf("%s %v: %v, %v; want %d steps", c.op.Name, c.dims, p, err, c.steps)
		}
	}
}

// An operation has a file of its name, and a file that holds none is listed here.
func TestEveryFileIsRegistered(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	shared := []string{"kernels", "plan", "registry", "comparison", "layout", "reduce", "result", "rows", "loss", "rowwise", "rowplan", "gather", "product", "walk"}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".go")
		if strings.HasSuffix(name, "_test") {
			continue
		}
		if _, ok := Lookup(name); !ok && !slices.Contains(shared, name) {
			t.Errorf("%s: All in registry.go has no operation %s", file, name)
		}
	}
	for _, op := range All {
		if !slices.Contains(files, op.Name+".go") {
			t.Errorf("operation %s has no file %s.go", op.Name, op.Name)
		}
	}
}

// TestNumbersStay holds the numbers of operations, which are part of the C ABI:
// the list only grows, at its end.
func TestNumbersStay(t *testing.T) {
	names := strings.Fields(`vector_add vector_sub vector_mul vector_div vector_min vector_max vector_abs vector_neg
		vector_relu vector_clip scalar_add scalar_mul sigmoid tanh gelu softmax reduce_sum reduce_min reduce_max mse_loss
		cross_entropy_loss binary_cross_entropy_loss gemm matvec vector_mad vector_sqrt vector_exp vector_log fill copy
		argmin argmax reduce_prod cumsum vector_equal vector_not_equal vector_less vector_less_equal vector_greater
		vector_greater_equal where log_softmax log_softmax_gradient softmax_gradient layer_norm layer_norm_gradient rms_norm
		rms_norm_gradient nll nll_gradient embedding embedding_gradient layer_norm_input_gradient
		layer_norm_parameter_gradients cross_entropy_gradient log_sum_exp cross_entropy`)
	if len(names) != len(All) {
		t.Errorf("%d operations, of which %d are listed here", len(All), len(names))
	}
	for i, name := range names {
		if All[i].Name != name || All[i].Number() != i {
			t.Errorf("operation %d is %s, number %d; it was %s", i, All[i].Name, All[i].Number(), name)
		}
	}
}
