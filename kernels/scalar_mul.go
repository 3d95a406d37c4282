package kernels

import "github.com/hologram-project/hologram/isa"

// ScalarMul is c = a · scalar. Integers wrap.
var ScalarMul = elementwise("scalar_mul", isa.SetNumeric, "c = a · scalar. Integers wrap.", `
slot a {{.T}}
slot c {{.T}}
param scalar {{.T}}
  ldg.{{.T}} x, a[index]
  ldp.{{.T}} s, scalar
  mul.{{.T}} z, x, s
  stg.{{.T}} z, c[index]
  exit
`)
