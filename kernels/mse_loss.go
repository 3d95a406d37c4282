package kernels

// MSELoss is output[0] = Σ (pred − target)² / n.
var MSELoss = loss("mse_loss", "output[0] = mean((pred − target)²)", `
    sub.{{.A}} d, x, y
    mul.{{.A}} z, d, d`, false)
