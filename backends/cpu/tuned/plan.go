package tuned

import (
	"fmt"
	"sync"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// plan is a plan in the making. The first thing that goes wrong stays.
type plan struct {
	kernels.Plan
	err error
}

func (p *plan) done() (*kernels.Plan, error) {
	if p.err != nil {
		return nil, p.err
	}
	return &p.Plan, nil
}

// operand is a call's operand, from its first element on.
func operand(i int, t isa.Type) kernels.Binding { return kernels.Binding{Operand: i, Type: t} }

// room reserves workspace for n elements.
func (p *plan) room(t isa.Type, n int64) kernels.Binding {
	b := kernels.Binding{Operand: kernels.Workspace, Offset: p.Workspace, Type: t, Shape: []int64{n}, Stride: []int64{1}}
	p.Workspace += (n*int64(t.Size()) + 63) &^ 63
	return b
}

// step appends the launch of a program on n lanes in blocks of so many. In these
// plans a block reads what it overwrites before it does, and nothing else that is
// written in the step.
func (p *plan) step(k key, write func(w *writer), n, block int64, slots []kernels.Binding, params ...uint64) {
	s := kernels.Step{
		Slots: slots, Shape: []int64{n}, InPlace: true,
		Grid: [3]uint32{uint32((n + block - 1) / block), 1, 1}, Block: [3]uint32{uint32(block), 1, 1},
	}
	for _, v := range params {
		s.Params = append(s.Params, kernels.Param{Value: v})
	}
	p.add(k, write, s)
}

// steps appends the launch of a program on n elements, in blocks of any size.
func (p *plan) steps(k key, n int64, write func(w *writer), slots ...kernels.Binding) {
	p.add(k, write, kernels.Step{Slots: slots, Shape: []int64{n}})
}

// add appends the launch of a program, which is all that the step lacks.
func (p *plan) add(k key, write func(w *writer), s kernels.Step) {
	if p.err == nil {
		s.Program, p.err = program(k, write)
	}
	if p.err == nil {
		p.Steps = append(p.Steps, s)
	}
}

// key names a program: what it does, on elements of type t, to elements of type
// out, and what else its text depends on.
type key struct {
	what   string
	t, out isa.Type
	n      int64
	step   int64 // elements between those of a row that are read; 0: they are neighbours

	dealt
	shifted, exact, once bool
	full                 bool // see writer
}

// programs are verified once for the process: what is prepared is found by them.
var programs sync.Map

func program(k key, write func(w *writer)) (*isa.Verified, error) {
	if v, ok := programs.Load(k); ok {
		return v.(*isa.Verified), nil
	}
	w := &writer{t: k.t, acc: kernels.Accumulator(k.t), block: lanes, unit: chunk, step: max(k.step, 1)}
	if k.lanes > 0 {
		w.block, w.unit = k.lanes, k.unit
	}
	w.full = k.full
	write(w)
	p, err := isa.Assemble("tuned", w.String())
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, w.String())
	}
	v, err := isa.Verify(p)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, w.String())
	}
	made, _ := programs.LoadOrStore(k, v)
	return made.(*isa.Verified), nil
}
