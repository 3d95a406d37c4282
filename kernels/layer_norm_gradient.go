package kernels

// LayerNormGradient is the gradient of a LayerNorm by its input, given that by its
// result, and product = gradient · (input − mean) / √(variance + eps), whose sums
// along what weight was broadcast are the gradient by that. With
// g = gradient · weight, d = input − mean and r = 1/√(variance + eps) it is
//
//	output = (g − Σ g / n − d · r² · Σ g·d / n) · r
var LayerNormGradient = rowwiseOp("layer_norm_gradient",
	"output is the gradient of layer_norm by its input, and product = gradient · (input − mean) / √(variance + eps), whose sums are that by weight, in f32 for f16 and bf16",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "input", Reads: true}, {Name: "weight", Reads: true},
		{Name: "mean", Reads: true, Kind: Sum}, {Name: "variance", Reads: true, Kind: Sum},
		{Name: "product", Writes: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "eps", Wide: true}},
	&Rowwise{
		Shares: []Share{Whole, Whole, Column, Row, Row, Whole, Whole},
		Stats: []Stat{
			{Name: "shift", Combine: "add", Of: "mul.{{.A}} z, gradient, weight", Done: mean},
			{Name: "slope", Combine: "add", Of: "mul.{{.A}} z, gradient, weight\n  sub.{{.A}} u, input, mean\n  mul.{{.A}} z, z, u", Done: mean},
		},
		After: `add.{{.A}} scale, variance, eps
  rsqrt.{{.A}} scale, scale
  mul.{{.A}} pull, scale, scale
  mul.{{.A}} pull, pull, slope`,
		Each: layerNormInputGradient + `
  mul.{{.A}} u, u, scale
  mul.{{.A}} product, gradient, u`,
	})

// layerNormInputGradient makes output, and leaves input − mean in u.
const layerNormInputGradient = `sub.{{.A}} u, input, mean
  mul.{{.A}} z, gradient, weight
  sub.{{.A}} z, z, shift
  mul.{{.A}} t, u, pull
  sub.{{.A}} z, z, t
  mul.{{.A}} output, z, scale`
