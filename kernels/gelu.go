package kernels

import "github.com/hologram-project/hologram/isa"

// Gelu is output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³).
//
// It is the tanh form of Hendrycks and Gimpel (arXiv:1606.08415), with
// ½·(1 + tanh u) written as sigmoid(2u). Computed in f32 for f16 and bf16 and
// rounded once. For input below about −10 the exact product underflows to −0.
var Gelu = elementwise("gelu", isa.SetFloat, "output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³).", `
slot input {{.T}}
slot output {{.T}}
  {{load "x" "input[index]"}}
  mul.{{.A}} sq, x, x
  mul.{{.A}} cu, sq, 0.044715
  fma.{{.A}} u, cu, x, x
  mul.{{.A}} v, u, 1.5957691216057308      ; 2·√(2/π)
  sigmoid.{{.A}} s, v
  mul.{{.A}} z, x, s
  {{store "z" "output[index]"}}
  exit
`)
