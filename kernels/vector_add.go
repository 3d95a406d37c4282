package kernels

import "github.com/hologram-project/hologram/isa"

// VectorAdd is c = a + b. Integers wrap.
var VectorAdd = elementwise("vector_add", isa.SetNumeric, "c = a + b. Integers wrap.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  add.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`)
