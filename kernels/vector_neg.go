package kernels

import "github.com/hologram-project/hologram/isa"

// VectorNeg is c = −a. The smallest integer wraps to itself.
var VectorNeg = elementwise("vector_neg", isa.SetSigned|isa.SetFloat, "c = −a. The smallest integer wraps to itself.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  neg.{{.T}} z, x
  stg.{{.T}} z, c[index]
  exit
`)
