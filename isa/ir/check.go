package ir

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// Check reports the first way in which f is not well formed: values used
// outside their scope, operands of the wrong number or type, a Br that is not
// last or whose target does not enclose it, yields that do not match results.
// Every pass keeps what it checks.
func Check(f *Func) error {
	c := &checker{f: f, defined: map[*Value]bool{}, open: map[*Node]bool{}}
	for _, v := range f.leaves.list {
		c.defined[v] = true
		if !v.Node.isLeaf() {
			return fmt.Errorf("ir: %v is kept as a leaf and has operands", v.Node.Op)
		}
	}
	return c.region(f.Body, nil)
}

type checker struct {
	f       *Func
	defined map[*Value]bool
	open    map[*Node]bool // constructs around the node at hand
}

func (c *checker) define(list []*Value, node *Node, param *Region) error {
	for i, v := range list {
		switch {
		case v == nil:
			return fmt.Errorf("ir: result or parameter %d of %v is nil", i, opName(node))
		case c.defined[v]:
			return fmt.Errorf("ir: %%%d is defined twice", v.ID)
		case v.Node != node || v.Param != param || int(v.Index) != i:
			return fmt.Errorf("ir: value %d of %v does not point back to it", i, opName(node))
		case !v.Type.Valid():
			return fmt.Errorf("ir: value %d of %v has no type", i, opName(node))
		}
		c.defined[v] = true
	}
	return nil
}

func opName(n *Node) string {
	if n == nil {
		return "a region"
	}
	return n.Op.String()
}

// region checks r, whose yields must match results unless it ends.
func (c *checker) region(r *Region, results []*Value) error {
	for i, n := range r.Nodes {
		if err := c.node(n); err != nil {
			return err
		}
		if i+1 < len(r.Nodes) && ends(r.Nodes[:i+1]) {
			return fmt.Errorf("ir: %v is followed by %v, which control never reaches", n.Op, r.Nodes[i+1].Op)
		}
	}
	if r.Ends() {
		if len(r.Yield) > 0 {
			return fmt.Errorf("ir: a region that never reaches its end yields %d values", len(r.Yield))
		}
	} else if err := c.match("yield", r.Yield, results); err != nil {
		return err
	}
	for _, n := range r.Nodes {
		for _, v := range n.Results {
			delete(c.defined, v)
		}
	}
	for _, v := range r.Params {
		delete(c.defined, v)
	}
	return nil
}

func (c *checker) match(what string, have, want []*Value) error {
	if len(have) != len(want) {
		return fmt.Errorf("ir: %s gives %d values, %d are wanted", what, len(have), len(want))
	}
	for i, v := range have {
		if !c.defined[v] {
			return fmt.Errorf("ir: %s %d is used outside its scope", what, i)
		}
		if v.Type != want[i].Type {
			return fmt.Errorf("ir: %s %d is %v, %v is wanted", what, i, v.Type, want[i].Type)
		}
	}
	return nil
}

func (c *checker) node(n *Node) error {
	for i, a := range n.Args {
		if !c.defined[a] {
			return fmt.Errorf("ir: operand %d of %v is used outside its scope", i, n.Op)
		}
	}
	regions := 0
	var err error
	switch n.Op {
	case Const:
		if n.Imm&^n.Type.Mask() != 0 {
			return fmt.Errorf("ir: constant %#x does not fit %v", n.Imm, n.Type)
		}
	case If:
		regions = 2
		if len(n.Args) != 1 || n.Args[0].Type != isa.Pred {
			return fmt.Errorf("ir: If wants one predicate")
		}
	case Block:
		regions = 1
		if len(n.Args) != 0 {
			return fmt.Errorf("ir: Block has operands")
		}
	case Loop:
		regions = 1
		inits := n.Args
		if n.Counted {
			if len(inits) == 0 || inits[0].Type != isa.U32 {
				return fmt.Errorf("ir: a counted Loop wants a u32 count")
			}
			inits = inits[1:]
		}
		if len(n.Regions) != 1 {
			return fmt.Errorf("ir: Loop has %d regions", len(n.Regions))
		}
		if err := c.match("init of Loop", inits, n.Regions[0].Params); err != nil {
			return err
		}
		if !n.Counted && len(n.Results) > 0 {
			return fmt.Errorf("ir: a Loop that is not counted has results")
		}
		if n.Counted && len(n.Results) != len(inits) {
			return fmt.Errorf("ir: a counted Loop has %d results for %d parameters", len(n.Results), len(inits))
		}
	case Br:
		if n.Target == nil {
			err = c.match("Br", n.Args, nil)
		} else if !c.open[n.Target] {
			err = fmt.Errorf("ir: Br to a construct that does not enclose it")
		} else if n.Target.Op == Loop {
			err = c.match("Br", n.Args, n.Target.Regions[0].Params)
		} else {
			err = c.match("Br", n.Args, n.Target.Results)
		}
	default:
		err = c.inst(n)
	}
	if err != nil {
		return err
	}
	if len(n.Regions) != regions {
		return fmt.Errorf("ir: %v has %d regions, wants %d", n.Op, len(n.Regions), regions)
	}
	if regions > 0 {
		c.open[n] = true
		for _, r := range n.Regions {
			want := n.Results
			if n.Op == Loop {
				want = r.Params
				if err := c.define(r.Params, nil, r); err != nil {
					return err
				}
			} else if len(r.Params) > 0 {
				return fmt.Errorf("ir: a region of %v has parameters", n.Op)
			}
			if err := c.region(r, want); err != nil {
				return err
			}
		}
		delete(c.open, n)
	}
	return c.define(n.Results, n, nil)
}

// inst checks an instruction's operands against its row.
func (c *checker) inst(n *Node) error {
	row, ok := isa.Lookup(n.Op.Inst())
	if !ok {
		return fmt.Errorf("ir: no instruction has code %d", n.Op)
	}
	if row.Effect&(isa.Structural|isa.Control) != 0 {
		return fmt.Errorf("ir: %s has no place in the IR", row.Name)
	}
	if n.Cond.UnsignedOnly() {
		return fmt.Errorf("ir: condition %v has no place in the IR", n.Cond)
	}
	var want []isa.Type
	for range n.AddrArgs() {
		want = append(want, isa.I64)
	}
	in := &isa.Inst{Op: n.Op.Inst(), Form: n.Form}
	var result isa.Type
	addressed := false
	for _, o := range row.Operands {
		t := operandType(o.Type, in)
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc:
			want = append(want, t)
		case isa.Dst, isa.PredDst:
			result = t
			if o.Type == isa.TypeNamedT {
				if isa.Special(n.Imm) > isa.N {
					return fmt.Errorf("ir: %v has no place in the IR, where it is made of what is given", isa.Special(n.Imm))
				}
				result = isa.Special(n.Imm).Type()
			}
		case isa.Mem, isa.SharedMem, isa.AnyMem:
			addressed = true
		}
	}
	if addressed != (n.Mem.Mode != 0) {
		return fmt.Errorf("ir: %s: address mode %d", row.Name, n.Mem.Mode)
	}
	if addressed && (n.Mem.Slot < 0 || n.Mem.Slot > 0 && n.Mem.Slot >= len(c.f.SlotTypes)) {
		return fmt.Errorf("ir: %s: slot %d of %d", row.Name, n.Mem.Slot, len(c.f.SlotTypes))
	}
	if len(n.Args) != len(want) {
		return fmt.Errorf("ir: %s has %d operands, wants %d", row.Name, len(n.Args), len(want))
	}
	for i, a := range n.Args {
		inExpansion := n.Op == Op(isa.LDC) && n.Free && a.Type.Integer() && a.Type.Size() >= 4 // see cloner.node
		if a.Type != want[i] && !inExpansion {
			return fmt.Errorf("ir: operand %d of %s is %v, wants %v", i, row.Name, a.Type, want[i])
		}
	}
	switch {
	case result == isa.NoType && len(n.Results) == 0:
	case len(n.Results) != 1:
		return fmt.Errorf("ir: %s has %d results", row.Name, len(n.Results))
	case n.Results[0].Type != result:
		return fmt.Errorf("ir: %s gives %v, its row says %v", row.Name, n.Results[0].Type, result)
	}
	return nil
}
