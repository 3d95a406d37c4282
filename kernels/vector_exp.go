package kernels

import "github.com/hologram-project/hologram/isa"

// VectorExp is c = e^a, within 1 ULP.
var VectorExp = elementwise("vector_exp", isa.SetFloat, "c = e^a, within 1 ULP.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  exp.{{.T}} z, x
  stg.{{.T}} z, c[index]
  exit
`)
