package kernels

import "github.com/hologram-project/hologram/isa"

// VectorMad is d = a · b + c with two roundings. Integers wrap.
var VectorMad = elementwise("vector_mad", isa.SetNumeric, "d = a · b + c with two roundings. Integers wrap.", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
slot d {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  ldg.{{.T}} w, c[index]
  mad.{{.T}} z, x, y, w
  stg.{{.T}} z, d[index]
  exit
`)
