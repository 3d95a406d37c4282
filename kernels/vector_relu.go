package kernels

import "github.com/hologram-project/hologram/isa"

// VectorRelu is c = max(a, 0). NaN stays NaN; −0 gives +0.
var VectorRelu = elementwise("vector_relu", isa.SetSigned|isa.SetFloat, "c = max(a, 0). NaN stays NaN; −0 gives +0.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  max.{{.T}} z, x, 0
  stg.{{.T}} z, c[index]
  exit
`)
