package kernels

import "github.com/hologram-project/hologram/isa"

// VectorSqrt is c = √a, correctly rounded; NaN below −0.
var VectorSqrt = elementwise("vector_sqrt", isa.SetFloat, "c = √a, correctly rounded; NaN below −0.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  sqrt.{{.T}} z, x
  stg.{{.T}} z, c[index]
  exit
`)
