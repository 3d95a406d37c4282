package kernels

// LayerNorm is output = (input − mean) · 1/√(variance + eps) · weight + bias, mean
// and variance those of each row: Σ input / n and Σ (input − mean)² / n, in the
// order reduce.go states. weight and bias broadcast to the input with its axes
// last, or are numbers. f16 and bf16 are computed in f32, in which mean and variance
// are left, and rounded once. Those of rows without elements are NaN, 0 / 0.
var LayerNorm = rowwiseOp("layer_norm",
	"output = (input − mean) / √(variance + eps) · weight + bias, mean and variance those of each row, which are written, to f32 for f16 and bf16",
	[]Operand{{Name: "input", Reads: true}, {Name: "weight", Reads: true}, {Name: "bias", Reads: true},
		{Name: "mean", Writes: true, Kind: Sum}, {Name: "variance", Writes: true, Kind: Sum}, {Name: "output", Writes: true}},
	[]Scalar{{Name: "eps", Wide: true}},
	&Rowwise{
		Shares: []Share{Whole, Column, Column, Row, Row, Whole},
		Stats: []Stat{
			{Name: "mean", Combine: "add", Of: "mov.{{.A}} z, input", Done: mean},
			{Name: "variance", Combine: "add", Of: "sub.{{.A}} z, input, mean\n  mul.{{.A}} z, z, z", Done: mean},
		},
		After: "add.{{.A}} scale, variance, eps\n  rsqrt.{{.A}} scale, scale",
		Each: `sub.{{.A}} z, input, mean
  mul.{{.A}} z, z, scale
  mul.{{.A}} z, z, weight
  add.{{.A}} output, z, bias`,
	})
