package core

import (
	"strings"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Operation is an operation of the library.
type Operation = kernels.Op

// Ops lists the operations; an operation's place is its number in the C ABI.
func Ops() []*Operation { return kernels.All }

// OperandName names operand i of an operation in errors.
func OperandName(op *Operation, i int) string {
	if i < len(op.Operands) {
		return op.Operands[i].Name
	}
	return "operand " + itoa(i)
}

// Op runs an operation of the library. dims are the sizes that the operation
// names; an elementwise operation takes one, n, or none. Without n it works on
// the smallest of its operands if all have one dimension, else on the shape of
// its output, to which the others broadcast.
func (ex *Executor) Op(name string, operands []*Buffer, scalars []Scalar, dims []int64) (*Event, error) {
	op, ok := kernels.Lookup(name)
	if !ok {
		return nil, Errorf(Invalid, "no operation is called %q", name)
	}
	return ex.Run(op, operands, scalars, dims)
}

// Run is Op for an operation that was looked up before.
func (ex *Executor) Run(op *kernels.Op, operands []*Buffer, scalars []Scalar, dims []int64) (*Event, error) {
	if err := checkCall(op, operands, scalars); err != nil {
		return nil, err
	}
	t := operands[0].view.Type
	if op.Elementwise {
		return ex.elementwise(op, t, operands, scalars, dims)
	}
	return ex.planned(op, t, operands, scalars, dims)
}

// appendCells converts a call's scalars.
func appendCells(to []uint64, op *kernels.Op, t isa.Type, scalars []Scalar) ([]uint64, error) {
	for i, s := range op.Scalars {
		cell, err := scalars[i].Cell(s.Type(t))
		if err != nil {
			return to, within(op.Name+": "+s.Name, err)
		}
		to = append(to, cell)
	}
	return to, nil
}

func checkCall(op *kernels.Op, operands []*Buffer, scalars []Scalar) error {
	if len(operands) != len(op.Operands) {
		names := make([]string, len(op.Operands))
		for i, o := range op.Operands {
			names[i] = o.Name
		}
		return Errorf(Invalid, "%s takes %d operands (%s), got %d", op.Name, len(names), strings.Join(names, ", "), len(operands))
	}
	if len(scalars) != len(op.Scalars) {
		return Errorf(Invalid, "%s takes %d scalars, got %d", op.Name, len(op.Scalars), len(scalars))
	}
	t := operands[0].view.Type
	if !op.Types.Has(t) {
		return Errorf(BadType, "%s: dtype %v is not supported; supported: %v", op.Name, t, op.Types)
	}
	for i, b := range operands {
		if b.view.Type != t {
			return Errorf(BadType, "%s: %s has dtype %v, and %s has %v: all operands must have the same",
				op.Name, op.Operands[i].Name, b.view.Type, op.Operands[0].Name, t)
		}
	}
	return nil
}

// elementwise runs the one program of an elementwise operation.
func (ex *Executor) elementwise(op *kernels.Op, t isa.Type, operands []*Buffer, scalars []Scalar, dims []int64) (*Event, error) {
	p, err := opProgram(op, t)
	if err != nil {
		return nil, err
	}
	if len(dims) > 1 {
		return nil, Errorf(Invalid, "%s takes one size, n, got %d numbers", op.Name, len(dims))
	}
	j := newLaunchJob(op.Name, p, ex.device)
	for i, b := range operands {
		if err := j.bindBuffer(b, op.Operands[i].Name); err != nil {
			j.release()
			return nil, err
		}
	}
	var room [1]int64
	shape, err := opShape(op, operands, dims, &room)
	if err == nil {
		j.l.Params, err = appendCells(j.l.Params, op, t, scalars)
	}
	if err == nil {
		err = j.prepare(ex, shape, [3]uint32{}, [3]uint32{})
	}
	if err != nil {
		j.release()
		return nil, err
	}
	long := !ex.device.async && p.cost.of(j.l.N, j.l.Params, 0) > ex.device.patience()
	return ex.stream.submit(j, long)
}

// opShape chooses the index space of an elementwise operation.
func opShape(op *kernels.Op, operands []*Buffer, dims []int64, room *[1]int64) ([]int64, error) {
	if len(dims) == 1 {
		for i, b := range operands {
			if dims[0] > b.n {
				return nil, Errorf(Invalid, "%s: n = %d exceeds the %d elements of %s", op.Name, dims[0], b.n, op.Operands[i].Name)
			}
		}
		if dims[0] < 0 {
			return nil, Errorf(Invalid, "%s: n = %d is negative", op.Name, dims[0])
		}
		room[0] = dims[0]
		return room[:], nil
	}
	smallest, flat := operands[0].n, true
	for _, b := range operands {
		smallest = min(smallest, b.n)
		flat = flat && b.view.Rank == 1
	}
	if flat {
		room[0] = smallest
		return room[:], nil
	}
	out := operands[len(operands)-1]
	return out.view.Shape[:out.view.Rank], nil
}

// planned runs the steps of an operation. All are checked before the first runs.
func (ex *Executor) planned(op *kernels.Op, t isa.Type, operands []*Buffer, scalars []Scalar, dims []int64) (*Event, error) {
	cells, err := appendCells(nil, op, t, scalars)
	if err != nil {
		return nil, err
	}
	extents, err := op.Extent(t, dims)
	if err != nil {
		return nil, Errorf(Invalid, "%w", err)
	}
	for i, need := range extents {
		if b := operands[i]; b.n < need {
			return nil, Errorf(Invalid, "%s: %s has %d elements; %s need %d", op.Name, op.Operands[i].Name, b.n, sizesText(op, dims), need)
		} else if !b.packed {
			return nil, Errorf(Invalid, "%s: %s is a strided view; this operation takes contiguous arrays", op.Name, op.Operands[i].Name)
		}
	}
	plan, err := op.Plan(t, dims, cells)
	if err != nil {
		return nil, Errorf(Invalid, "%w", err)
	}
	if err := checkOperands(op, operands, extents); err != nil {
		return nil, err
	}
	steps := &planJob{}
	if err := ex.prepareSteps(steps, op, plan, operands, extents); err != nil {
		steps.done()
		return nil, err
	}
	longest, work := int64(1), 0.0
	for _, d := range dims {
		longest = max(longest, d)
	}
	for _, s := range steps.jobs {
		work += s.program.cost.of(s.l.N, s.l.Params, longest)
	}
	return ex.stream.submit(steps, !ex.device.async && work > ex.device.patience())
}

// checkOperands refuses an output that shares memory with another operand, but
// for the identical array, of which each step says whether it may be. How many
// steps there are, and so which operands meet in one, depends on the sizes;
// what is refused must not.
func checkOperands(op *kernels.Op, operands []*Buffer, extents []int64) error {
	for w, out := range op.Operands {
		if !out.Writes {
			continue
		}
		to := needed(operands[w], extents[w])
		for o := range op.Operands {
			if o == w || op.Operands[o].Writes && o < w {
				continue
			}
			from := needed(operands[o], extents[o])
			if operands[o].mem.device != operands[w].mem.device || !overlap(&to, &from) || !op.Operands[o].Writes && sameView(&to, &from) {
				continue
			}
			why := "only the identical array may be both"
			if op.Operands[o].Writes {
				why = "two outputs must not share memory"
			}
			return Errorf(Invalid, "%s: %s overlaps %s in memory: %s", op.Name, out.Name, op.Operands[o].Name, why)
		}
	}
	return nil
}

// needed is the first n elements of a contiguous buffer, flat.
func needed(b *Buffer, n int64) backends.View {
	v := backends.View{Addr: b.view.Addr, Type: b.view.Type, Rank: 1, Bytes: n * int64(b.view.Type.Size())}
	v.Shape[0], v.Stride[0] = n, 1
	return v
}

func (ex *Executor) prepareSteps(steps *planJob, op *kernels.Op, plan *kernels.Plan, operands []*Buffer, extents []int64) error {
	var scratch *memory
	if plan.Workspace > 0 {
		var err error
		if scratch, err = ex.memory(plan.Workspace, false); err != nil {
			return within(op.Name+": workspace", err)
		}
		defer scratch.release() // the steps count themselves
	}
	for i := range plan.Steps {
		step := &plan.Steps[i]
		j := newLaunchJob(op.Name, libraryProgram(step.Program), ex.device)
		steps.jobs = append(steps.jobs, j)
		for k := range step.Slots {
			if err := j.bindStep(&step.Slots[k], op, operands, extents, scratch); err != nil {
				return err
			}
		}
		j.l.Params = append(j.l.Params, step.Params...)
		if err := j.prepare(ex, step.Shape, step.Grid, step.Block); err != nil {
			return err
		}
	}
	return nil
}

// bindStep binds the next slot of a plan's step.
func (j *launchJob) bindStep(b *kernels.Binding, op *kernels.Op, operands []*Buffer, extents []int64, scratch *memory) error {
	v := backends.View{Type: b.Type, Rank: len(b.Shape)}
	copy(v.Shape[:], b.Shape)
	copy(v.Stride[:], b.Stride)
	if b.Operand == kernels.Workspace {
		scratch.acquire()
		j.pins = append(j.pins, scratch)
		v.Addr = scratch.addr + uintptr(b.Offset)
		if isContiguous(&v) {
			v.Bytes = numel(&v) * int64(b.Type.Size())
		}
		j.bind(&v, "workspace", false)
		return nil
	}
	name := op.Operands[b.Operand].Name
	if err := j.bindBuffer(operands[b.Operand], name); err != nil {
		return err
	}
	bound := &j.l.Slots[len(j.l.Slots)-1]
	if b.Shape == nil {
		*bound = needed(operands[b.Operand], extents[b.Operand])
		return nil
	}
	if v.Addr = bound.Addr; isContiguous(&v) {
		v.Bytes = bound.Bytes
	}
	*bound = v
	return nil
}

func sizesText(op *kernels.Op, dims []int64) string {
	parts := make([]string, len(dims))
	for i, d := range dims {
		parts[i] = op.Dims[i] + " = " + itoa(int(d))
	}
	return strings.Join(parts, ", ")
}

// planJob runs launches one after the other.
type planJob struct{ jobs []*launchJob }

func (p *planJob) run(s *stream) error {
	for _, j := range p.jobs {
		if err := j.run(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *planJob) blocks(s *stream) bool {
	if s.inFlight()+len(p.jobs) > maxInflight {
		return true
	}
	for _, j := range p.jobs {
		if j.blocks(s) {
			return true
		}
	}
	return false
}

func (p *planJob) cancel() {
	for _, j := range p.jobs {
		j.cancel()
	}
}

func (p *planJob) done() {
	for _, j := range p.jobs {
		j.done()
	}
}

// opPrograms holds the program of each elementwise operation by type, once made.
var opPrograms = func() map[*kernels.Op]*[isa.Pred]atomic.Pointer[Program] {
	all := map[*kernels.Op]*[isa.Pred]atomic.Pointer[Program]{}
	for _, op := range kernels.All {
		if op.Elementwise {
			all[op] = new([isa.Pred]atomic.Pointer[Program])
		}
	}
	return all
}()

func opProgram(op *kernels.Op, t isa.Type) (*Program, error) {
	entry := &opPrograms[op][t]
	if p := entry.Load(); p != nil {
		return p, nil
	}
	v, err := op.Program(t)
	if err != nil {
		return nil, Errorf(Internal, "%w", err)
	}
	p := libraryProgram(v)
	entry.Store(p)
	return p, nil
}
