package kernels

// LayerNormInputGradient is LayerNormGradient without product, with the same bits.
// Where the gradients by weight and bias are sums of columns, it is half of what there
// is to do, and LayerNormParameterGradients the other: so product, as large as the input
// and in the accumulator's type, is nowhere written and read.
var LayerNormInputGradient = rowwiseOp("layer_norm_input_gradient",
	"output is the gradient of layer_norm by its input",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "input", Reads: true}, {Name: "weight", Reads: true},
		{Name: "mean", Reads: true, Kind: Sum}, {Name: "variance", Reads: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "eps", Wide: true}},
	&Rowwise{
		Shares: []Share{Whole, Whole, Column, Row, Row, Whole},
		Stats:  LayerNormGradient.rowwise.Stats,
		After:  LayerNormGradient.rowwise.After,
		Each:   layerNormInputGradient,
	})
