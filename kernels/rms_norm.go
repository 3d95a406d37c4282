package kernels

// RMSNorm is output = input · 1/√(squares + eps) · weight, squares the mean of
// input² over each row. What LayerNorm says of weight and types holds here too.
var RMSNorm = rowwiseOp("rms_norm",
	"output = input / √(squares + eps) · weight, squares the mean of input² over each row, which is written, to f32 for f16 and bf16",
	[]Operand{{Name: "input", Reads: true}, {Name: "weight", Reads: true},
		{Name: "squares", Writes: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "eps", Wide: true}},
	&Rowwise{
		Shares: []Share{Whole, Column, Row, Whole},
		Stats:  []Stat{{Name: "squares", Combine: "add", Of: "mul.{{.A}} z, input, input", Done: mean}},
		After:  "add.{{.A}} scale, squares, eps\n  rsqrt.{{.A}} scale, scale",
		Each:   "mul.{{.A}} z, input, scale\n  mul.{{.A}} output, z, weight",
	})
