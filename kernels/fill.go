package kernels

import "github.com/hologram-project/hologram/isa"

// Fill is dst = value, bit for bit.
var Fill = ofBools(elementwise("fill", isa.SetNumeric, "dst = value, bit for bit.", `
slot dst {{.T}}
param value {{.T}}
  ldp.{{.T}} z, value
  stg.{{.T}} z, dst[index]
  exit
`))
