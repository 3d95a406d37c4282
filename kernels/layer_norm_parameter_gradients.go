package kernels

// LayerNormParameterGradients are the gradients of a LayerNorm by its weight and bias:
// by_weight = Σ gradient · ((input − mean) · scale) and by_bias = Σ gradient, with scale
// = 1/√(variance + eps), along the rows of this operation, which are LayerNorm's
// columns: a row has an element of each of LayerNorm's rows, and mean and scale have one
// for each place in a row. by_weight has the bits of a sum of LayerNormGradient's product.
var LayerNormParameterGradients = rowwiseOp("layer_norm_parameter_gradients",
	"by_weight = Σ gradient · ((input − mean) · scale) and by_bias = Σ gradient: those of layer_norm, whose columns are rows here, with scale = 1 / √(variance + eps)",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "input", Reads: true},
		{Name: "mean", Reads: true, Kind: Sum}, {Name: "scale", Reads: true, Kind: Sum},
		{Name: "by_weight", Writes: true, Kind: Sum}, {Name: "by_bias", Writes: true, Kind: Sum}},
	nil,
	&Rowwise{
		Shares: []Share{Whole, Whole, Column, Column, Row, Row},
		Stats: []Stat{
			{Name: "by_weight", Combine: "add", Of: "sub.{{.A}} u, input, mean\n  mul.{{.A}} u, u, scale\n  mul.{{.A}} z, gradient, u"},
			{Name: "by_bias", Combine: "add", Of: "mov.{{.A}} z, gradient"},
		},
	})
