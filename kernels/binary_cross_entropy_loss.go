package kernels

// BinaryCrossEntropyLoss is output[0] = −Σ (t·ln p + (1−t)·ln(1−p)) / n, with
// ln(1−p) as log1p(−p). Nothing is clamped: p = 0 with t = 0 gives NaN.
var BinaryCrossEntropyLoss = loss("binary_cross_entropy_loss",
	"output[0] = −mean(target·ln pred + (1 − target)·ln(1 − pred))", `
    log.{{.A}} l, x
    mul.{{.A}} z, y, l
    neg.{{.A}} n, x
    log1p.{{.A}} k, n
    sub.{{.A}} u, 1, y
    mul.{{.A}} u, u, k
    add.{{.A}} z, z, u`, true)
