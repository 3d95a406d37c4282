package kernels

import "github.com/hologram-project/hologram/isa"

// VectorDiv is c = a / b. Integers truncate toward zero; division by zero gives 0
// and is reported as a fault.
var VectorDiv = dividedBy("b", elementwise("vector_div", isa.SetNumeric, "c = a / b. Integers truncate toward zero; an integer divided by zero gives 0 and a fault (ProgramFault), so that only a c that was given has the result", `
slot a {{.T}}
slot b {{.T}}
slot c {{.T}}
  ldg.{{.T}} x, a[index]
  ldg.{{.T}} y, b[index]
  div.{{.T}} z, x, y
  stg.{{.T}} z, c[index]
  exit
`))

// dividedBy says which operand of an operation its integers are divided by, so that
// errors name what is 0.
func dividedBy(operand string, op *Op) *Op {
	op.Divisor = operand
	return op
}
