package kernels

// LogSoftmaxGradient is output[r, j] = gradient[r, j] − e^result[r, j] · Σ gradient[r, :],
// the gradient by the input of a LogSoftmax that gave result.
var LogSoftmaxGradient = rowwiseOp("log_softmax_gradient",
	"output[r, j] = gradient[r, j] − e^result[r, j] · Σ gradient[r, :], by rows: the gradient of log_softmax",
	[]Operand{{Name: "gradient", Reads: true}, {Name: "result", Reads: true}, {Name: "output", Writes: true}}, nil,
	&Rowwise{
		Shares: []Share{Whole, Whole, Whole},
		Stats:  []Stat{{Name: "total", Combine: "add", Of: "mov.{{.A}} z, gradient"}},
		Each:   "exp.{{.A}} z, result\n  mul.{{.A}} z, z, total\n  sub.{{.A}} output, gradient, z",
	})
