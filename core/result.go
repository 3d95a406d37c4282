package core

import (
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Result is what a call of an operation makes where its caller has no array for it.
type Result struct {
	Type  isa.Type
	Bool  bool // the u8 are bools
	Shape []int64
}

// ResultOf tells what a call makes as the operand after those that it has; all that are
// missing are written alone. An operand that is not bound stands for a number, which has
// no say.
func ResultOf(c *Call) (*Result, error) {
	op := c.Op
	if k := len(c.Operands); k >= len(op.Operands) || !op.Makes(k) {
		return nil, Errorf(Invalid, "%s: %d operands; it makes the last %d of its %d", op.Name, k, op.Made(), len(op.Operands))
	}
	layouts := make([]kernels.Layout, len(c.Operands))
	types, bools := make([]isa.Type, len(c.Operands)), make([]bool, len(c.Operands))
	for i := range c.Operands {
		o := &c.Operands[i]
		v := &o.View
		switch b := o.Buffer; {
		case o.Unbound:
			continue
		case b != nil && b.freed.Load():
			return nil, Errorf(BadHandle, "%s: %s: the buffer is freed", op.Name, op.Operands[i].Name)
		case b != nil:
			own := b.Layout()
			v = &own
		}
		if o.Transposed {
			turned := *v
			transpose(&turned)
			v = &turned
		}
		types[i], bools[i] = v.Type, o.Bool
		layouts[i] = kernels.Layout{Type: v.Type, Shape: v.Shape[:v.Rank], Stride: v.Stride[:v.Rank]}
	}
	t, isBool, err := op.ResultType(types, bools)
	if err != nil {
		return nil, status.Errorf(BadType, "%w", err)
	}
	if !op.Elementwise && layouts[0].Type == 0 {
		return nil, Errorf(BadType, "%s: %s is no array", op.Name, op.Operands[0].Name)
	}
	var shape []int64
	if op.Axes && len(c.Dims) == 1 {
		first := layouts[0].Shape
		axes, no := call.AxesOf(op, c.Dims[0], len(first))
		shape, err = axes.Result(op, len(c.Operands), first), no
	} else {
		shape, err = op.ResultShape(layouts, c.Dims, -1)
	}
	if err == nil && len(shape) > isa.MaxRank {
		err = Errorf(Invalid, "%s: the result has %d dimensions; at most %d", op.Name, len(shape), isa.MaxRank)
	}
	if err != nil {
		return nil, status.Errorf(Invalid, "%w", err)
	}
	return &Result{t, isBool, shape}, nil
}
