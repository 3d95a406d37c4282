package kernels

// RMSNormGradient is the gradient of an RMSNorm by its input, given that by its
// result, and product = gradient · input / √(squares + eps), whose sums along what
// weight was broadcast are the gradient by that. With g = gradient · weight and
// r = 1/√(squares + eps) it is
//
//	output = (g − input · r² · Σ g·input / n) · r
var RMSNormGradient = rowwiseOp("rms_norm_gradient",
	"output is the gradient of rms_norm by its input, and product = gradient · input / √(squares + eps), whose sums are that by weight, in f32 for f16 and bf16",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "input", Reads: true}, {Name: "weight", Reads: true},
		{Name: "squares", Reads: true, Kind: Sum}, {Name: "product", Writes: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "eps", Wide: true}},
	&Rowwise{
		Shares: []Share{Whole, Whole, Column, Row, Whole, Whole},
		Stats: []Stat{{Name: "slope", Combine: "add",
			Of: "mul.{{.A}} z, gradient, weight\n  mul.{{.A}} z, z, input", Done: mean}},
		After: `add.{{.A}} scale, squares, eps
  rsqrt.{{.A}} scale, scale
  mul.{{.A}} pull, scale, scale
  mul.{{.A}} pull, pull, slope`,
		Each: `mul.{{.A}} z, gradient, weight
  mul.{{.A}} t, input, pull
  sub.{{.A}} z, z, t
  mul.{{.A}} output, z, scale
  mul.{{.A}} u, input, scale
  mul.{{.A}} product, gradient, u`,
	})
