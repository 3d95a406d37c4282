package kernels

import "github.com/hologram-project/hologram/isa"

// VectorMin is c = min(a, b). NaN if either is NaN; −0 < +0.
var VectorMin = ofBools(elementwise("vector_min", isa.SetNumeric, "c = min(a, b). NaN if either is NaN; −0 < +0.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  min.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`))
