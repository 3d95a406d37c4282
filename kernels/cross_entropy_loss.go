package kernels

// CrossEntropyLoss is output[0] = −Σ target·ln(pred) / n, n counting all
// elements. Nothing is clamped: pred = 0 with target = 0 gives NaN.
var CrossEntropyLoss = loss("cross_entropy_loss", "output[0] = −mean(target · ln pred)", `
    log.{{.A}} l, x
    mul.{{.A}} z, y, l`, true)
