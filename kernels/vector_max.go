package kernels

import "github.com/hologram-project/hologram/isa"

// VectorMax is c = max(a, b). NaN if either is NaN; −0 < +0.
var VectorMax = ofBools(elementwise("vector_max", isa.SetNumeric, "c = max(a, b). NaN if either is NaN; −0 < +0.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  max.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`))
