package kernels

import "github.com/hologram-project/hologram/isa"

// VectorSub is c = a − b. Integers wrap.
var VectorSub = elementwise("vector_sub", isa.SetNumeric, "c = a − b. Integers wrap.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  sub.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`)
