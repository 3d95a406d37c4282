package kernels

// BinaryCrossEntropyLoss is output[0] = −Σ (t·ln p + (1−t)·ln(1−p)) / n, with
// ln(1−p) as log1p(−p). What has weight 0, t or 1−t, counts 0; nothing is
// clamped.
var BinaryCrossEntropyLoss = loss("binary_cross_entropy_loss",
	"output[0] = −mean(target·ln pred + (1 − target)·ln(1 − pred)). Where target is 0 or 1, the other term is 0.", `
    log.{{.A}} l, x
    mul.{{.A}} z, y, l
    set.eq.{{.A}} none, y, 0
    sel.{{.A}} z, none, 0, z
    neg.{{.A}} n, x
    log1p.{{.A}} k, n
    sub.{{.A}} u, 1, y
    mul.{{.A}} v, u, k
    set.eq.{{.A}} none, u, 0
    sel.{{.A}} v, none, 0, v
    add.{{.A}} z, z, v`, true)
