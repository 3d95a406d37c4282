package kernels

// LogSoftmax is output[r, j] = input[r, j] − m − log s over each row of a matrix,
// m the row's maximum and s = Σ e^(input[r, j] − m) in the order reduce.go states.
// f16 and bf16 are computed in f32 and rounded once. A row that holds NaN or +inf,
// or nothing but −inf, gives NaN.
var LogSoftmax = rowwiseOp("log_softmax", "output[r, j] = input[r, j] − max − ln Σ e^(input[r, :] − max), by rows",
	[]Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true}}, nil,
	&Rowwise{
		Shares: []Share{Whole, Whole},
		Stats: []Stat{
			{Name: "most", Combine: "max", Of: "mov.{{.A}} z, input"},
			{Name: "total", Combine: "add", Of: "sub.{{.A}} z, input, most\n  exp.{{.A}} z, z"},
		},
		After: "log.{{.A}} log, total",
		Each:  "sub.{{.A}} output, input, most\n  sub.{{.A}} output, output, log",
	})
