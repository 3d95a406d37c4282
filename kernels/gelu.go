package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
)

// Gelu is output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³).
//
// It is the tanh form of Hendrycks and Gimpel (arXiv:1606.08415), with
// ½·(1 + tanh u) written as sigmoid(2u). f16 and bf16 are computed in f32 with
// the sigmoid of their precision and rounded once, within 0.54 ULP. Far below 0
// the exact product underflows to −0, which −inf gives too.
var Gelu = gelu()

func gelu() *Op {
	const doc = "output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³); f16 and bf16 within 0.54 ULP."
	op := elementwise("gelu", isa.SetFloat, doc, geluText)
	s := &source{text: "program gelu" + geluText}
	op.program = func(t isa.Type) (*isa.Verified, error) {
		f := elements(t)
		f.Map = fmt.Sprintf("sigmoid.%v s, x", f.A)
		if t != f.A {
			text, result := math.Short(isa.SIGMOID, t)
			f.Map = fmt.Sprintf("%s  mov.%v s, %s", text, f.A, result)
		}
		return s.instance(f)
	}
	return op
}

// Below −32 every type's result is −0.
const geluText = `
slot input {{.T}}
slot output {{.T}}
  {{load "g" "input[index]"}}
  max.{{.A}} g, g, -32
  mul.{{.A}} sq, g, g
  fma.{{.A}} w, sq, 0.07135481627260025, 1.5957691216057308      ; 2·√(2/π)·(0.044715·g² + 1)
  mul.{{.A}} x, g, w
  {{.Map}}
  mul.{{.A}} z, g, s
  {{store "z" "output[index]"}}
  exit
`
