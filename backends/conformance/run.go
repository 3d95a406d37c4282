package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// layout places the elements of an index space in memory. It returns a stride
// for each dimension, in elements, and whether it repeats elements (so that
// it suits inputs alone).
type layout struct {
	name    string
	shift   int64 // elements past an aligned place
	strides func(shape []int64) []int64
	repeats bool
}

var layouts = []layout{
	{"packed", 0, packed, false},
	{"misaligned", 1, packed, false},
	{"strided", 0, func(s []int64) []int64 { return scale(packed(s), 3) }, false},
	{"reversed", 0, func(s []int64) []int64 { return scale(packed(s), -1) }, false},
	{"transposed", 3, transposed, false},
	{"repeated", 0, func(s []int64) []int64 {
		st := packed(s)
		st[len(st)-1] = 0
		return st
	}, true},
}

func packed(shape []int64) []int64 {
	st := make([]int64, len(shape))
	n := int64(1)
	for d := len(shape) - 1; d >= 0; d-- {
		st[d] = n
		n *= shape[d]
	}
	return st
}

func transposed(shape []int64) []int64 {
	r := slices.Clone(shape)
	slices.Reverse(r)
	st := packed(r)
	slices.Reverse(st)
	return st
}

func scale(st []int64, by int64) []int64 {
	for i := range st {
		st[i] *= by
	}
	return st
}

// shapes are the index spaces of element-wise runs.
var shapes = [][]int64{{1}, {31}, {32}, {33}, {1000}, {37, 29}, {7, 5, 9}}

// blocks are the block sizes that element-wise runs go through.
var blocks = []uint32{256, 32, 1024, 1, 96}

// operand is a slot's array as bound to one launch.
type operand struct {
	*array
	slot    isa.Slot
	strides []int64
	base    int64 // element that index 0 … 0 is at, from the array's start
}

// bindFlat makes v, of one dimension, what core makes of a slot that is accessed
// as slot[flat i], and notes in l, whose next slot it is, how its elements lie.
func bindFlat(l *backends.Launch, v *backends.View) {
	f, _ := backends.FlatOf(v)
	size := int64(v.Type.Size())
	v.Addr -= uintptr(f.First * size)
	v.Bytes = f.Reach(size)
	v.Rank, v.Shape, v.Stride = l.Rank, l.Shape, [isa.MaxRank]int64{}
	l.Flats = append(l.Flats, make([]backends.Flat, len(l.Slots)+1-len(l.Flats))...)
	l.Flats[len(l.Slots)] = f
}

// at returns the element (from the array's start) of lane g.
func (o *operand) element(shape []int64, g int64) int64 {
	e := o.base
	for d := len(shape) - 1; d >= 0; d-- {
		e += g % shape[d] * o.strides[d]
		g /= shape[d]
	}
	return e
}

// bind makes an array for a slot in the given layout over shape.
func (r *rig) bind(slot isa.Slot, l layout, shape []int64) (*operand, error) {
	o := &operand{slot: slot, strides: l.strides(shape)}
	low, high := int64(0), int64(1)
	for d, n := range shape {
		if s := (n - 1) * o.strides[d]; s < 0 {
			low += s
		} else {
			high += s
		}
	}
	o.base = -low
	size := int64(slot.Type.Size())
	var err error
	o.array, err = r.newArray((high-low)*size, l.shift*size)
	return o, err
}

func (o *operand) view(shape []int64) backends.View {
	size := int64(o.slot.Type.Size())
	v := backends.View{Addr: o.addr() + uintptr(o.base*size), Type: o.slot.Type, Rank: len(shape)}
	copy(v.Shape[:], shape)
	copy(v.Stride[:], o.strides)
	return v
}

// elementwise runs c over shape, slot s in layout number l+s. Lane g works on
// the case's element number lane(g).
func (r *rig) elementwise(c *Case, shape []int64, l int, block uint32) error {
	k, err := r.kernel(c.Program)
	if k == nil || err != nil {
		return err
	}
	p := c.Program.Program
	count := int64(c.elements())
	total := int64(1)
	for _, n := range shape {
		total *= n
	}
	repeats := layouts[l].repeats
	lane := func(g int64) int64 {
		if repeats {
			g /= shape[len(shape)-1]
		}
		return g % count
	}
	var ops []*operand
	launch := &backends.Launch{Rank: len(shape), N: uint64(total), Block: [3]uint32{block, 1, 1},
		Grid: [3]uint32{uint32((total + int64(block) - 1) / int64(block)), 1, 1}}
	copy(launch.Shape[:], shape)
	for s, slot := range p.Slots {
		in, isIn := c.In[slot.Name]
		choice := layouts[l]
		if !repeats {
			choice = layouts[(l+s)%(len(layouts)-1)]
		} else if !isIn {
			choice = layouts[0]
		}
		o, err := r.bind(slot, choice, shape)
		if err != nil {
			return err
		}
		defer r.give(o.mem)
		for g := range total {
			if isIn {
				o.put(slot.Type, o.element(shape, g), in[lane(g)])
			}
		}
		if err := r.upload(o.array); err != nil {
			return err
		}
		ops = append(ops, o)
		launch.Slots = append(launch.Slots, o.view(shape))
	}
	for _, param := range p.Params {
		launch.Params = append(launch.Params, c.In[param.Name][0])
	}
	launch.Give(r.units[c.Program].IR)
	if err := c.outcome(r.launch(k, launch)); err != nil {
		return err
	}
	for _, o := range ops {
		want := slices.Clone(o.host)
		if err := r.download(o.array); err != nil {
			return err
		}
		got := &array{at: o.at, host: slices.Clone(o.host)}
		for g := range total {
			if out, isOut := c.Out[o.slot.Name]; isOut {
				e := o.element(shape, g)
				if w, have := out[lane(g)], o.get(o.slot.Type, e); !same(o.slot.Type, w, have, c.ULP) {
					return fmt.Errorf("shape %v, layout %s, lane %d: %s = %s, want %s (inputs %s)", shape, layouts[l].name, g,
						o.slot.Name, cellText(o.slot.Type, have), cellText(o.slot.Type, w), c.inputsText(int(lane(g))))
				}
				// what was judged right is no difference for the guards
				(&array{at: o.at, host: want}).put(o.slot.Type, e, o.get(o.slot.Type, e))
			}
		}
		if i := firstDifference(got.host, want); i >= 0 {
			return fmt.Errorf("shape %v, layout %s: byte %d of the array of slot %s changed", shape, layouts[l].name, int64(i)-o.at, o.slot.Name)
		}
	}
	return nil
}

// explicit runs c with its own grid and block over flat arrays.
func (r *rig) explicit(c *Case) error {
	k, err := r.kernel(c.Program)
	if k == nil || err != nil {
		return err
	}
	p := c.Program.Program
	shape := c.Shape
	if shape == nil {
		shape = []int64{int64(c.Grid) * int64(c.Block)}
	}
	launch := &backends.Launch{Rank: len(shape), N: 1, Fuel: c.Fuel, Block: [3]uint32{c.Block, 1, 1}, Grid: [3]uint32{c.Grid, 1, 1}}
	launch.Record, launch.Phase = r.record()
	copy(launch.Shape[:], shape)
	for _, n := range shape {
		launch.N *= uint64(n)
	}
	arrays := make([]*array, len(p.Slots))
	for s, slot := range p.Slots {
		in, isIn := c.In[slot.Name]
		n := int64(max(len(in), len(c.Out[slot.Name])))
		a, err := r.newArray(n*int64(slot.Type.Size()), 0)
		if err != nil {
			return err
		}
		defer r.give(a.mem)
		if isIn {
			for i, cell := range in {
				a.put(slot.Type, int64(i), cell)
			}
		}
		if err := r.upload(a); err != nil {
			return err
		}
		v := backends.View{Addr: a.addr(), Bytes: n * int64(slot.Type.Size()), Type: slot.Type}
		if c.Program.Slots[s].Indexed {
			v.Rank = len(shape)
			copy(v.Shape[:], shape)
			copy(v.Stride[:], packed(shape))
		} else {
			v.Rank, v.Shape[0], v.Stride[0] = 1, n, 1
		}
		if c.Program.Slots[s].Flat {
			bindFlat(launch, &v)
		}
		launch.Slots = append(launch.Slots, v)
		arrays[s] = a
	}
	for _, param := range p.Params {
		launch.Params = append(launch.Params, c.In[param.Name][0])
	}
	launch.Give(r.units[c.Program].IR)
	if err := c.outcome(r.launch(k, launch)); err != nil {
		return err
	}
	for class, want := range c.Out["residue"] {
		if have := launch.Record.Residue[class]; have != want {
			return fmt.Errorf("residue[%d] = %d, want %d", class, have, want)
		}
	}
	for s, slot := range p.Slots {
		a := arrays[s]
		want := slices.Clone(a.host)
		if err := r.download(a); err != nil {
			return err
		}
		for i, w := range c.Out[slot.Name] {
			if have := a.get(slot.Type, int64(i)); !same(slot.Type, w, have, c.ULP) {
				return fmt.Errorf("%s[%d] = %s, want %s", slot.Name, i, cellText(slot.Type, have), cellText(slot.Type, w))
			}
			(&array{at: a.at, host: want}).put(slot.Type, int64(i), a.get(slot.Type, int64(i)))
		}
		if i := firstDifference(a.host, want); i >= 0 {
			return fmt.Errorf("byte %d of the array of slot %s changed", int64(i)-a.at, slot.Name)
		}
	}
	return nil
}

// elements returns how many elements the case's arrays have.
func (c *Case) elements() int {
	for _, s := range c.Program.Program.Slots {
		if v, ok := c.Out[s.Name]; ok {
			return len(v)
		}
	}
	return 0
}

// outcome compares a launch's error with the fault that the case expects.
func (c *Case) outcome(err error) error {
	var f *backends.ProgramFault
	switch {
	case errors.As(err, &f):
		if f.Kind != c.Fault {
			return fmt.Errorf("fault %v, want %v", f, c.Fault)
		}
		if c.Asked != nil && f.Asked.Known != 0 && f.Asked.At != *c.Asked {
			return fmt.Errorf("fault %v asked for %d, want %d", f, f.Asked.At, *c.Asked)
		}
		return nil
	case err != nil:
		return err
	case c.Fault != isa.NoFault:
		return fmt.Errorf("no fault, want %v", c.Fault)
	}
	return nil
}

func (c *Case) inputsText(i int) string {
	var b bytes.Buffer
	for _, s := range c.Program.Program.Slots {
		if v, ok := c.In[s.Name]; ok {
			fmt.Fprintf(&b, "%s=%s ", s.Name, cellText(s.Type, v[i]))
		}
	}
	return b.String()
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
