package kernels

import "github.com/hologram-project/hologram/isa"

// Where is c = mask ? a : b, bit for bit.
var Where = ofBools(bitwise(elementwise("where", isa.SetNumeric, "c = a where mask is true, else b, bit for bit.", `
slot mask u8
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.u8 m, mask[index]
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  set.ne.u8 p, m, 0
  sel.{{.T}} z, p, x, y
  stg.{{.T}} z, c[index]
  exit
`)))
