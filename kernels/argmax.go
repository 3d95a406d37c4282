package kernels

import (
	"fmt"
	"math"

	"github.com/hologram-project/hologram/isa"
)

// Argmax is output[r] = the place of the largest element of row r, the first of
// equal ones, −0 and +0 among them; of the first NaN if there is one, as in
// numpy. A row must have an element.
var Argmax = rowPlace("argmax", "output[r] = the place in row r of its largest element, the first of equal ones, or of the first NaN", "max")

// rowPlace makes the operation that finds where a row's reduction by combine is:
// first what it is, and then the least place of an element that is so.
func rowPlace(name, doc, combine string) *Op {
	value := &reduction{combine: combine}
	place := &reduction{
		combine: "min",
		extra:   func(f fields) string { return fmt.Sprintf("slot m %v", f.T) },
		m: func(f fields) string {
			text := fmt.Sprintf(`mul.u64 mo, row, %[1]d
    ldg.%[2]v m, m[mo]
    ldg.%[2]v x, a[off]
    cvt.%[4]v.u64 w, at
    set.eq.%[2]v p, x, m
    sel.%[4]v z, p, w, %[3]s`, f.T.Size(), f.T, f.Identity, f.A)
			if f.T.Float() { // where m is NaN nothing equals it
				text += fmt.Sprintf("\n    set.ne.%v p, x, x\n    sel.%v z, p, w, z", f.T, f.A)
			}
			return text
		},
	}
	op := rowOperation(name, doc)
	op.ScalarResult = false
	op.Operands[1].Kind = Index
	op.shapes = func(l []Layout, axes int) (*Plan, error) {
		lead, err := resultShape(op, l, axes, false)
		if err != nil {
			return nil, err
		}
		t := l[0].Type
		in := []array{operand(0, l[0])}
		number := isa.U32 // of a place, and what no place has
		if row := l[0].part(lead, len(l[0].Shape)); row.Elements() > math.MaxUint32 {
			number = isa.U64
		}
		return op.reduced(l[1], func(p *Plan, out array) error {
			m := p.room(t, l[0].Shape[:lead]...)
			if err := value.reduce(p, Accumulator(t), in, lead, nil, m, 0); err != nil {
				return err
			}
			return place.reduce(p, number, in, lead, []Binding{m.bytes()}, out, 0)
		})
	}
	return op
}
