package kernels

// BinaryCrossEntropyLoss is output[0] = −Σ (t·ln p + (1−t)·ln(1−p)) / n, with
// ln(1−p) as log1p(−p). What has weight 0, t or 1−t, counts 0, as p or 1−p is
// taken for 1 there; nothing is clamped.
var BinaryCrossEntropyLoss = loss("binary_cross_entropy_loss",
	"output[0] = −mean(target·ln pred + (1 − target)·ln(1 − pred)). Where target is 0 or 1, the other term is 0.", `
    set.eq.{{.A}} none, y, 0
    sel.{{.A}} l, none, 1, x
    log.{{.A}} l, l
    mul.{{.A}} z, y, l
    set.eq.{{.A}} none, y, 1
    sel.{{.A}} n, none, 0, x
    neg.{{.A}} n, n
    log1p.{{.A}} k, n
    sub.{{.A}} u, 1, y
    mul.{{.A}} u, u, k
    add.{{.A}} z, z, u`, true)
