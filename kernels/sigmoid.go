package kernels

import "github.com/hologram-project/hologram/isa"

// Sigmoid is output = 1 / (1 + e^−input), within 2 ULP.
var Sigmoid = elementwise("sigmoid", isa.SetFloat, "output = 1 / (1 + e^−input), within 2 ULP.", `
slot input {{.T}}
slot output {{.T}}
  ldg.{{.T}} x, input[index]
  sigmoid.{{.T}} z, x
  stg.{{.T}} z, output[index]
  exit
`)
