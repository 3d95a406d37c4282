package kernels

import "github.com/hologram-project/hologram/isa"

// comparison makes the operation that tells, as 1 or 0, whether a and b are in a
// relation, by SET with the condition cc.
func comparison(name, cc, doc string) *Op {
	return elementwise(name, isa.SetNumeric, doc, `
slot a {{.T}}
slot b {{.T}}
slot c u8
  {{load "x" "a[index]"}}
  {{load "y" "b[index]"}}
  set.`+cc+`.{{.A}} p, x, y
  sel.u8 z, p, 1, 0
  stg.u8 z, c[index]
  exit
`)
}
