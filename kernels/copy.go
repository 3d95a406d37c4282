package kernels

import "github.com/hologram-project/hologram/isa"

// Copy is dst = src, bit for bit; it packs strided and broadcast operands.
var Copy = elementwise("copy", isa.SetNumeric, "dst = src, bit for bit; it packs strided and broadcast operands.", `
slot src {{.T}}
slot dst {{.T}}
  ldg.{{.T}} z, src[index]
  stg.{{.T}} z, dst[index]
  exit
`)
