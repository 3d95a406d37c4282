package kernels

// SoftmaxGradient is output[r, j] = (gradient[r, j] − Σ gradient[r, :] · result[r, :]) · result[r, j],
// the gradient by the input of a Softmax that gave result.
var SoftmaxGradient = rowwiseOp("softmax_gradient",
	"output[r, j] = (gradient[r, j] − Σ gradient[r, :] · result[r, :]) · result[r, j], by rows: the gradient of softmax",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "result", Reads: true}, {Name: "output", Writes: true}}, nil,
	&Rowwise{
		Shares: []Share{Whole, Whole, Whole},
		Stats:  []Stat{{Name: "total", Combine: "add", Of: "mul.{{.A}} z, gradient, result"}},
		Each:   "sub.{{.A}} z, gradient, total\n  mul.{{.A}} output, z, result",
	})
