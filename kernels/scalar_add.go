package kernels

import "github.com/hologram-project/hologram/isa"

// ScalarAdd is c = a + scalar. Integers wrap.
var ScalarAdd = elementwise("scalar_add", isa.SetNumeric, "c = a + scalar. Integers wrap.", `
slot a {{.T}}
slot c {{.T}}
param scalar {{.T}}
  ldg.{{.T}} x, a[index]
  ldp.{{.T}} s, scalar
  add.{{.T}} z, x, s
  stg.{{.T}} z, c[index]
  exit
`)
