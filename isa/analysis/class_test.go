package analysis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
	"github.com/stretchr/testify/require"
)

func analyse(t testing.TB, v *isa.Verified) *analysis.Analysis {
	t.Helper()
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	return analysis.New(f)
}

func analyseText(t testing.TB, text string) *analysis.Analysis {
	t.Helper()
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return analyse(t, v)
}

// steps are the kinds of an operation's steps, in order, for dims that make
// all of them; of an elementwise one, of its program.
var steps = map[string]struct {
	dims  []int64
	kinds []analysis.Kind
}{
	"gemm":                           {[]int64{40, 50, 60, 0, 0}, []analysis.Kind{analysis.Product}},
	"matvec":                         {[]int64{40, 50, 0}, []analysis.Kind{analysis.Product}},
	"nll":                            {[]int64{40, 50}, []analysis.Kind{analysis.Map}},
	"nll_gradient":                   {[]int64{40, 50}, []analysis.Kind{analysis.Map, analysis.Other}},
	"cross_entropy_gradient":         {[]int64{40, 50}, []analysis.Kind{analysis.Map, analysis.Map, analysis.Other}},
	"cross_entropy":                  {[]int64{40, 50}, []analysis.Kind{analysis.Map}},
	"log_sum_exp":                    {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"embedding":                      {[]int64{40, 50}, []analysis.Kind{analysis.Map}},
	"embedding_gradient":             {[]int64{40, 50}, []analysis.Kind{analysis.Map}},
	"log_softmax":                    {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Map}},
	"log_softmax_gradient":           {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Map}},
	"softmax_gradient":               {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Map}},
	"layer_norm":                     {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Map}},
	"layer_norm_gradient":            {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Map}},
	"layer_norm_input_gradient":      {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Map}},
	"layer_norm_parameter_gradients": {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"rms_norm":                       {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Map}},
	"rms_norm_gradient":              {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Map}},
	"softmax":                        {[]int64{3, 1000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Map}},
	"reduce_sum":                     {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"reduce_min":                     {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"reduce_max":                     {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"reduce_prod":                    {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"cumsum":                         {[]int64{3, 1000}, []analysis.Kind{analysis.Other, analysis.Other, analysis.Other}},
	"argmin":                         {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Reduction, analysis.Reduction}},
	"argmax":                         {[]int64{3, 10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction, analysis.Reduction, analysis.Reduction}},
	"mse_loss":                       {[]int64{10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"cross_entropy_loss":             {[]int64{10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
	"binary_cross_entropy_loss":      {[]int64{10000}, []analysis.Kind{analysis.Reduction, analysis.Reduction}},
}

// TestLibraryIsClassified says of every program of the library what it is. An
// operation that is not elementwise and not in steps fails.
func TestLibraryIsClassified(t *testing.T) {
	for _, op := range kernels.All {
		t.Run(op.Name, func(t *testing.T) {
			for _, typ := range op.Types.List() {
				if op.Elementwise {
					v, err := op.Program(typ)
					require.NoError(t, err)
					a := analyse(t, v)
					require.Equal(t, analysis.Map, a.Class.Kind, "%v: %s", typ, a.Class.Reason)
					require.True(t, a.Class.Elementwise)
					last := len(op.Operands) - 1
					require.Equal(t, uint64(1)<<last, a.Class.Writes)
					require.Equal(t, uint64(1)<<last-1, a.Class.Reads)
					require.Zero(t, a.Class.Gathers)
					continue
				}
				want, ok := steps[op.Name]
				require.True(t, ok, "what are the steps of %s?", op.Name)
				plan, err := op.Plan(typ, want.dims)
				require.NoError(t, err)
				require.Len(t, plan.Steps, len(want.kinds))
				for k, s := range plan.Steps {
					a := analyse(t, s.Program)
					require.Equal(t, want.kinds[k], a.Class.Kind, "%v, step %d: %s\n%v", typ, k, a.Class.Reason, a.Func)
					switch want.kinds[k] {
					case analysis.Product:
						requireProduct(t, a)
						require.True(t, a.Class.Epilogue) // alpha, and beta of what was there
					case analysis.Reduction:
						requireReduction(t, a)
					}
				}
			}
		})
	}
}

// TestLongProducts says what the steps of products of more than one chunk are:
// sums of chains, and where k is split a sum of what the parts made.
func TestLongProducts(t *testing.T) {
	for _, c := range []struct {
		dims   []int64
		kinds  []analysis.Kind
		chunks int
	}{
		{[]int64{200, 300, 512, 0, 0}, []analysis.Kind{analysis.Product}, 0},
		{[]int64{200, 300, 513, 0, 1}, []analysis.Kind{analysis.Product}, 1},
		{[]int64{2, 3, 513, 0, 0}, []analysis.Kind{analysis.Product, analysis.Reduction}, 0},
		{[]int64{1, 1, 1 << 20, 0, 0}, []analysis.Kind{analysis.Product, analysis.Reduction, analysis.Reduction}, 0},
		{[]int64{200, 300, 1 << 20, 0, 0}, []analysis.Kind{analysis.Product, analysis.Reduction}, 1},
	} {
		for _, typ := range []isa.Type{isa.BF16, isa.F32, isa.F64} {
			plan, err := kernels.Gemm.Plan(typ, c.dims)
			require.NoError(t, err)
			require.Len(t, plan.Steps, len(c.kinds))
			for k, s := range plan.Steps {
				a := analyse(t, s.Program)
				require.Equal(t, c.kinds[k], a.Class.Kind, "%v %v, step %d: %s\n%v", typ, c.dims, k, a.Class.Reason, a.Func)
				if k > 0 {
					require.True(t, a.Class.Sums[0].Alone)
					continue
				}
				requireProduct(t, a)
				for _, sum := range a.Class.Sums {
					if sum.IsProduct() {
						require.Len(t, sum.Chunks, c.chunks)
					}
				}
			}
		}
	}
}

// TestShortSoftmax says what the one step of short rows is: reductions, whose
// lanes have an element each, so that there is no loop.
func TestShortSoftmax(t *testing.T) {
	plan, err := kernels.Softmax.Plan(isa.F32, []int64{3, 10})
	require.NoError(t, err)
	require.Len(t, plan.Steps, 1)
	a := analyse(t, plan.Steps[0].Program)
	require.Equal(t, analysis.Reduction, a.Class.Kind)
}

// requireProduct demands one loop over products, that can be replaced.
func requireProduct(t *testing.T, a *analysis.Analysis) {
	t.Helper()
	var found []analysis.Accumulation
	for _, s := range a.Class.Sums {
		if s.IsProduct() {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, "%v", a.Func)
	s := found[0]
	require.True(t, s.Alone)
	x, y := &a.Accesses[s.Factors[0]], &a.Accesses[s.Factors[1]]
	require.ElementsMatch(t, []int{0, 1}, []int{x.Node.Mem.Slot, y.Node.Mem.Slot})
	for _, f := range []*analysis.Access{x, y} {
		along, linear := f.Offset.AlongRound(s.Loop)
		require.True(t, linear)
		require.Equal(t, analysis.PerLaunch, along.Vary())
	}
}

// requireReduction demands the library's order: lanes side by side, 256 apart
// in each round, and a collective of the same operation.
func requireReduction(t *testing.T, a *analysis.Analysis) {
	t.Helper()
	require.Len(t, a.Class.Sums, 1)
	s := a.Class.Sums[0]
	require.False(t, s.IsProduct())
	require.True(t, s.Alone)
	require.NotNil(t, s.Collective)
	require.NotNil(t, s.Term)
	require.LessOrEqual(t, a.Func.Block[0], uint32(256)) // fewer for short rows
	require.Equal(t, [2]uint32{1, 1}, [2]uint32(a.Func.Block[1:]))
	require.EqualValues(t, 32, a.Loops[s.Loop].Rounds)
	for i := range a.Accesses {
		f := &a.Accesses[i]
		if f.Loop != s.Loop || f.Offset.Vary() != analysis.PerLane {
			continue
		}
		size := int64(f.Node.Type.Size())
		lanes, ok := f.Offset.AlongLanes()
		require.True(t, ok)
		require.Equal(t, size, lanes.Const())
		rounds, ok := f.Offset.AlongRound(s.Loop)
		require.True(t, ok)
		require.Equal(t, 256*size, rounds.Const())
	}
}

// TestClassesOfPrograms classifies what users may write.
// A loop adds something up where an operation of one order takes what the last round left,
// and an FMA where that is added: any other place of it, or operation, makes something else.
func TestWhatAccumulates(t *testing.T) {
	for op, places := range map[string]string{
		"add": "yy", "mul": "yy", "min": "yy", "max": "yy", "and": "yy", "or": "yy", "xor": "yy", "fma": "nny",
		"sub": "nn", "div": "nn", "rem": "nn", "shl": "nn", "shr": "nn", "pow": "nn",
	} {
		typ := "f32"
		if strings.Contains("and or xor rem shl shr", op) {
			typ = "u32"
		}
		for at, is := range places {
			t.Run(fmt.Sprintf("%s %d", op, at), func(t *testing.T) {
				args := []string{"x", "z", "x"}[:len(places)]
				args[at] = "y"
				a := analyseText(t, strings.ReplaceAll("slot a T\nslot b T\nslot c T\nldg.T x, a[index]\nldg.T z, b[index]\nmov.T y, 1\nloop 100, e\n"+
					op+".T y, "+strings.Join(args, ", ")+"\ne:\nstg.T y, c[index]\nexit", "T", typ))
				sums := 0
				if is == 'y' {
					sums = 1
				}
				require.Len(t, a.Class.Sums, sums)
			})
		}
	}
}

func TestClassesOfPrograms(t *testing.T) {
	const product = "slot a f32\nslot b f32\nslot c f32\nslot bias f32\nparam n u32\nparam k u32\nblock 64\n" +
		"sreg i, block.x\nsreg j, lane.x\ncvt.u64.u32 i, i\ncvt.u64.u32 j, j\nldp.u32 k, k\nldp.u32 n, n\ncvt.u64.u32 kk, k\ncvt.u64.u32 nn, n\n" +
		"mul.u64 oa, i, kk\nmul.u64 oa, oa, 4\nmul.u64 ob, j, 4\nmul.u64 row, nn, 4\nmov.f32 acc, 0\n"
	const inner = "ldg.f32 x, a[oa]\nldg.f32 y, b[ob]\nadd.u64 oa, oa, 4\nadd.u64 ob, ob, row\n"
	const epilogue = "mul.u64 o, j, 4\nldg.f32 t, bias[o]\nadd.f32 acc, acc, t\nmax.f32 acc, acc, 0\nmad.u64 o, i, nn, j\nmul.u64 o, o, 4\nstg.f32 acc, c[o]\nexit"
	for _, c := range []struct {
		name, text string
		kind       analysis.Kind
		sums       int
		reason     string
		check      func(t *testing.T, a *analysis.Analysis)
	}{
		{name: "several outputs", kind: analysis.Map,
			text: "slot a f32\nslot b f32\nslot c f32\nldg.f32 x, a[index]\nexp.f32 y, x\nstg.f32 y, b[index]\nstg.f32 x, c[index]\nexit"},
		{name: "in place", kind: analysis.Map, text: "slot a f32\nldg.f32 x, a[index]\nexp.f32 y, x\nstg.f32 y, a[index]\nexit"},
		{name: "iterated", kind: analysis.Map, sums: 1,
			text: "slot a f32\nslot b f32\nldg.f32 x, a[index]\nmov.f32 y, 0\nloop 100, e\nadd.f32 y, y, x\ne:\nstg.f32 y, b[index]\nexit"},
		{name: "gather", kind: analysis.Map,
			text: "slot a f32\nslot i u32\nslot b f32\nldg.u32 x, i[index]\nmul.u32 x, x, 4\nldg.f32 y, a[x]\nstg.f32 y, b[index]\nexit",
			check: func(t *testing.T, a *analysis.Analysis) {
				require.EqualValues(t, 1, a.Class.Gathers)
				require.EqualValues(t, 2, a.Class.Reads)
				require.EqualValues(t, 4, a.Class.Writes)
			}},
		{name: "reads what it writes elsewhere", kind: analysis.Other, reason: "a slot is written and read elsewhere",
			text: "slot b f32\nldg.f32 y, b[0]\nstg.f32 y, b[index]\nexit"},
		{name: "scatter", kind: analysis.Other, reason: "STG writes elsewhere",
			text: "slot b f32\nsreg g, global_lane\nmul.u64 g, g, 4\nstg.f32 1, b[g]\nexit"},
		{name: "histogram", kind: analysis.Other, reason: "ATOM_ADD writes elsewhere",
			text: "slot a u32\nslot h u32\nldg.u32 x, a[index]\nand.u32 x, x, 60\natom_add.u32 o, h[x], 1\nexit"},
		{name: "nothing", kind: analysis.Other, reason: "nothing is written", text: "exit"},
		{name: "shared", kind: analysis.Other, reason: "STS uses shared memory",
			text: "slot a u32\nshared 4\nsts.u32 1, shared[0]\nlds.u32 x, shared[0]\nstg.u32 x, a[index]\nexit"},
		{name: "residue", kind: analysis.Other, reason: "RES_ACCUM reads or changes",
			text: "slot a u64\nldg.u64 x, a[index]\nres_accum 3, x\nexit"},
		{name: "product with an epilogue", kind: analysis.Product, sums: 1,
			text: product + "loop k, e\n" + inner + "fma.f32 acc, x, y, acc\ne:\n" + epilogue, check: requireProduct},
		{name: "product that starts from a bias", kind: analysis.Product, sums: 1,
			text: product + "mul.u64 o, j, 4\nldg.f32 acc, bias[o]\nloop k, e\n" + inner + "fma.f32 acc, y, x, acc\ne:\n" + epilogue, check: requireProduct},
		{name: "product in chunks", kind: analysis.Product, sums: 2,
			text: product + "mov.f32 total, 0\nloop n, done\nmov.f32 acc, 0\nloop k, e\n" + inner +
				"fma.f32 acc, x, y, acc\ne:\nadd.f32 total, total, acc\ndone:\nmov.f32 acc, total\n" + epilogue,
			check: func(t *testing.T, a *analysis.Analysis) {
				requireProduct(t, a)
				for _, s := range a.Class.Sums {
					if s.IsProduct() {
						require.Equal(t, []int{0}, s.Chunks)
						require.Equal(t, 1, s.Loop)
					}
				}
			}},
		{name: "two products in one loop", kind: analysis.Product, sums: 2,
			text: product + "mov.f32 acd, 0\nloop k, e\n" + inner + "fma.f32 acc, x, y, acc\nfma.f32 acd, x, x, acd\ne:\nadd.f32 acc, acc, acd\n" + epilogue},
		{name: "a product that is seen on the way", kind: analysis.Other, reason: "STG writes elsewhere",
			text: product + "loop k, e\n" + inner + "fma.f32 acc, x, y, acc\nstg.f32 acc, c[ob]\ne:\n" + epilogue},
		{name: "factors by a table", kind: analysis.Reduction, sums: 1, // the second load goes nowhere evenly
			text: product + "loop k, e\n" + inner + "cvt.u64.f32 at, x\nldg.f32 y, b[at]\nfma.f32 acc, x, y, acc\ne:\n" + epilogue},
		{name: "factors offset by a table", kind: analysis.Reduction, sums: 1,
			text: product + "loop k, e\n" + inner + "cvt.u64.f32 at, x\nadd.u64 at, at, ob\nldg.f32 y, b[at]\nfma.f32 acc, x, y, acc\ne:\n" + epilogue},
		{name: "a product beside a store", kind: analysis.Reduction, sums: 1,
			text: product + "loop k, e\n" + inner + "fma.f32 acc, x, y, acc\nstg.f32 y, c[ob]\ne:\n" + epilogue,
			check: func(t *testing.T, a *analysis.Analysis) {
				require.True(t, a.Class.Sums[0].IsProduct())
				require.False(t, a.Class.Sums[0].Alone)
			}},
		{name: "a product beside another loop", kind: analysis.Reduction, sums: 1,
			text: product + "loop k, e\n" + inner + "fma.f32 acc, x, y, acc\nloop 3, f\nadd.u64 ob, ob, 4\nf:\ne:\n" + epilogue},
		{name: "a product that something else depends on", kind: analysis.Other, reason: "STG writes elsewhere",
			text: product + "mov.f32 other, 0\nloop k, e\n" + inner + "sub.f32 other, acc, other\nfma.f32 acc, x, y, acc\ne:\nadd.f32 acc, acc, other\n" + epilogue},
		{name: "a sum that chooses what is added", kind: analysis.Other, reason: "STG writes elsewhere",
			text: product + "loop k, e\ncvt.u64.f32 at, acc\nldg.f32 z, b[at]\nfma.f32 acc, z, z, acc\ne:\n" + epilogue},
		{name: "rounded sums", kind: analysis.Reduction, sums: 1, // a product has one rounding
			text: product + "loop k, e\n" + inner + "mul.f32 x, x, y\nadd.f32 acc, acc, x\ne:\n" + epilogue},
		{name: "rows by lanes", kind: analysis.Reduction, sums: 1,
			text: "slot a f32\nslot b f32\nparam k u32\nsreg g, global_lane\nldp.u32 k, k\ncvt.u64.u32 kk, k\nmul.u64 o, g, kk\nmul.u64 o, o, 4\nmov.f32 acc, -inf\n" +
				"loop k, e\nldg.f32 x, a[o]\nmax.f32 acc, acc, x\nadd.u64 o, o, 4\ne:\nmul.u64 g, g, 4\nstg.f32 acc, b[g]\nexit",
			check: func(t *testing.T, a *analysis.Analysis) {
				require.Nil(t, a.Class.Sums[0].Collective)
				require.True(t, a.Class.Sums[0].Alone)
			}},
		{name: "a block", kind: analysis.Reduction,
			text: "slot a f32\nslot b f32\nldg.f32 x, a[index]\nblock_reduce_add.f32 x, x\nsreg g, block.x\nmul.u32 g, g, 4\nstg.f32 x, b[g]\nexit"},
		{name: "a scan", kind: analysis.Other, reason: "BLOCK_SCAN_ADD lets the lanes",
			text: "slot a f32\nslot b f32\nldg.f32 x, a[index]\nblock_scan_add.f32 x, x\nstg.f32 x, b[index]\nexit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := analyseText(t, "program p\n"+c.text)
			require.Equal(t, c.kind, a.Class.Kind, "%s\n%v", a.Class.Reason, a.Func)
			require.Len(t, a.Class.Sums, c.sums)
			require.Contains(t, a.Class.Reason, c.reason)
			if c.check != nil {
				c.check(t, a)
			}
		})
	}
}

// TestUsersProducts: what ends in c[index] is a product too, and what is done with the sum is its epilogue.
func TestUsersProducts(t *testing.T) {
	const loop = `program p
slot a f32
slot b f32
slot c f32
param w u64
ldp.u64 w, w
sreg g, global_lane
mul.u64 o, g, 4
mov.f32 s, 0
mov.u64 q, 0
loop 100, done
  ldg.f32 x, a[q]
  ldg.f32 y, b[o]
  fma.f32 s, x, y, s
  add.u64 q, q, 4
  add.u64 o, o, w
done:
`
	for _, c := range []struct {
		name, text            string
		kind                  analysis.Kind
		elementwise, epilogue bool
		first                 string
	}{
		{"stored by index", loop + "stg.f32 s, c[index]\nexit", analysis.Product, true, false, "product\n"},
		{"stored by address", loop + "mul.u64 o, g, 4\nstg.f32 s, c[o]\nexit", analysis.Product, false, false, "product\n"},
		{"relu", loop + "max.f32 s, s, 0\nstg.f32 s, c[index]\nexit", analysis.Product, true, true, "product with an epilogue\n"},
		{"relu, by address", loop + "max.f32 s, s, 0\nmul.u64 o, g, 4\nstg.f32 s, c[o]\nexit", analysis.Product, false, true, "product with an epilogue\n"},
		{"stored and used", loop + "stg.f32 s, c[index]\nadd.f32 s, s, s\nmul.u64 o, g, 4\nstg.f32 s, c[o]\nexit", analysis.Product, false, true, "product with an epilogue\n"},
		{"beside other work", strings.Replace(loop, "  fma", "  stg.f32 x, c[index]\n  fma", 1) + "stg.f32 s, c[index]\nexit", analysis.Map, true, false, "map\n"},
		{"of one load", strings.Replace(loop, "fma.f32 s, x, y, s", "fma.f32 s, x, 2, s", 1) + "stg.f32 s, c[index]\nexit", analysis.Map, true, false, "map\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := analyseText(t, c.text)
			require.Equal(t, c.kind, a.Class.Kind)
			require.Equal(t, c.elementwise, a.Class.Elementwise)
			require.Equal(t, c.epilogue, a.Class.Epilogue)
			require.True(t, strings.HasPrefix(a.String(), c.first), "%v", a)
		})
	}
}
