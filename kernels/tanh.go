package kernels

import "github.com/hologram-project/hologram/isa"

// Tanh is output = tanh(input), within 2 ULP.
var Tanh = elementwise("tanh", isa.SetFloat, "output = tanh(input), within 2 ULP.", `
slot input {{.T}}
slot output {{.T}}
  ldg.{{.T}} x, input[index]
  tanh.{{.T}} z, x
  stg.{{.T}} z, output[index]
  exit
`)
