package kernels

// LogSumExp finds the numbers of a row by which LogSoftmax makes its elements: most, the
// row's maximum, and log = ln Σ e^(input[r, j] − most) in the order reduce.go states. Both
// are in the accumulator's type, and apart: their sum would round off what is small beside
// a large maximum. A row that holds NaN or +inf, or nothing but −inf, has a log of NaN.
var LogSumExp = rowwiseOp("log_sum_exp", "most = the maximum of each row, and log = ln Σ e^(input[r, :] − most)",
	[]Operand{{Name: "input", Reads: true}, {Name: "most", Writes: true, Kind: Sum}, {Name: "log", Writes: true, Kind: Sum}}, nil,
	&Rowwise{
		Shares: []Share{Whole, Row, Row},
		Stats: []Stat{
			{Name: "most", Combine: "max", Of: "mov.{{.A}} z, input"},
			{Name: "log", Combine: "add", Of: "sub.{{.A}} z, input, most\n  exp.{{.A}} z, z", Done: "log.{{.A}} z, acc"},
		},
	})
