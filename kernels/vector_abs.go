package kernels

import "github.com/hologram-project/hologram/isa"

// VectorAbs is c = |a|. The smallest integer wraps to itself.
var VectorAbs = elementwise("vector_abs", isa.SetSigned|isa.SetFloat, "c = |a|. The smallest integer wraps to itself.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  abs.{{.T}} z, x
  stg.{{.T}} z, c[index]
  exit
`)
