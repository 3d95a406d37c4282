package kernels

import "github.com/hologram-project/hologram/isa"

// VectorClip is c = min(max(a, min_val), max_val). NaN in any of them gives NaN.
var VectorClip = elementwise("vector_clip", isa.SetNumeric, "c = min(max(a, min_val), max_val). NaN in any of them gives NaN.", `
slot a {{.T}}
slot c {{.T}}
param min_val {{.T}}
param max_val {{.T}}
  ldg.{{.T}} x, a[index]
  ldp.{{.T}} lo, min_val
  ldp.{{.T}} hi, max_val
  max.{{.T}} y, x, lo
  min.{{.T}} z, y, hi
  stg.{{.T}} z, c[index]
  exit
`)
