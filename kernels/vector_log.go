package kernels

import "github.com/hologram-project/hologram/isa"

// VectorLog is c = ln a, within 1 ULP; −inf at 0, NaN below.
var VectorLog = elementwise("vector_log", isa.SetFloat, "c = ln a, within 1 ULP; −inf at 0, NaN below.", `
slot a {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  log.{{.T}} z, x
  stg.{{.T}} z, c[index]
  exit
`)
