package kernels

import "github.com/hologram-project/hologram/isa"

// VectorMul is c = a · b. Integers wrap.
var VectorMul = ofBools(elementwise("vector_mul", isa.SetNumeric, "c = a · b. Integers wrap.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  mul.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`))
