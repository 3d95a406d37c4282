// Package call is core's room for calls: what depends on the layout of a call's
// operands alone is made once, as a Prepared call, and found again by its
// signature; what each call brings, addresses and numbers, is bound to it.
//
// layout.go knows strides, space.go index spaces and grids, prepare.go and step.go make
// prepared calls of operations and launches, overlap.go says which operands may share
// memory, table.go finds prepared calls, bound.go is one call, batch.go many small ones,
// given.go what both take of what a call brings, quiet.go is a call of which nobody is told,
// direct.go one that its caller runs without coming here, published.go knows of those. What
// a layout decides is checked when a call is prepared, all else in given.go.
package call

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/profile"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Operand is an array of a call: memory seen through a layout.
type Operand struct {
	View     backends.View
	Packed   bool           // contiguous, row-major
	ReadOnly bool           // refused as an output
	Bool     bool           // its u8 are bools
	Number   bool           // one element at View's address, which the host sees, for all of its shape
	Mem      *memory.Memory // what holds it, counted for the call; nil: the caller does until the call is over
}

// Request is what a call asks for, but for its numbers.
type Request struct {
	Op      *kernels.Op      // an operation; nil: a launch of
	Program *program.Program // a program

	Operands    []Operand
	Dims        []int64 // an operation's sizes, a launch's index space; nil: none given
	Grid, Block [3]uint32
	Fuel        bool // whether the launches have a budget
	Stop        program.Stop
	// May is asked before a call is prepared or code is made for it; an error is
	// returned instead. Nil: it may be.
	May func() error
}

// What names the call in errors.
func (r *Request) What() string {
	if r.Op != nil {
		return r.Op.Name
	}
	return "launch " + strconv.Quote(r.Program.Source().Name)
}

// Name names operand i in errors.
func (r *Request) Name(i int) string {
	switch {
	case r.Op == nil:
		return "slot " + r.Program.Source().Slots[i].Name
	case i < len(r.Op.Operands):
		return r.Op.Operands[i].Name
	}
	return "operand " + strconv.Itoa(i)
}

// CheckCounts checks the numbers of operands and scalars.
func (r *Request) CheckCounts(operands, scalars int) error {
	if r.Op != nil {
		if operands != len(r.Op.Operands) {
			names := make([]string, len(r.Op.Operands))
			for i, o := range r.Op.Operands {
				names[i] = o.Name
			}
			return status.Errorf(status.Invalid, "%s takes %d operands (%s), got %d", r.Op.Name, len(names), strings.Join(names, ", "), operands)
		}
		if scalars != len(r.Op.Scalars) {
			return status.Errorf(status.Invalid, "%s takes %d scalars, got %d", r.Op.Name, len(r.Op.Scalars), scalars)
		}
		return nil
	}
	src := r.Program.Source()
	if operands != len(src.Slots) {
		return status.Errorf(status.Invalid, "%s: %d slots given; the program has %d: %s", r.What(), operands, len(src.Slots), slotNames(src))
	}
	if scalars != len(src.Params) {
		return status.Errorf(status.Invalid, "%s: %d parameters given; the program has %d", r.What(), scalars, len(src.Params))
	}
	return nil
}

// Prepared is a call in all that its layout settles. It is immutable, but for
// what it keeps for the next call.
type Prepared struct {
	memory.Refs
	hash uint64
	key  []uint64

	what      string
	operands  []operandUse
	scalars   []scalarUse
	steps     []step
	checks    []check
	numbers   []number
	workspace int64 // bytes that the plan and the kernels take
	cost      float64
	varies    bool // cost depends on parameters
	special   bool // code depends on how addresses are aligned
	sources   bool // fault sites are instructions
	residue   bool
	async     bool // the device works by itself
	phase     bool // a launch reads or changes the phase
	faults    bool // a launch may fault
	enters    bool // the device lets others enter all kernels
	loud      bool // one may, or is worth cancelling; see Quiet
	device    *Device
	stop      program.Stop // while it is prepared

	// spare is what the next call takes, and more what those beside it do.
	spare atomic.Pointer[Bound]
	// batched is of how many launches the last batch was for which code was made, of the best alignment.
	batched atomic.Int64
	mu      lock.Mutex[lock.Last]
	more    []*Bound
	lines   []*memory.Line // on which the call was published
}

// operandUse is what a call does with an operand.
type operandUse struct {
	name   string // as errors have it
	empty  bool   // it has no element that is used
	number int    // which of the call's numbers it is, counted from 1; 0: an array
	reads  bool   // what was there before
	writes bool
	align  uintptr
	lo, hi int64 // bytes from its address that it reaches
}

// number is an operand of one element that each call brings with it. A device that
// works by itself gets it with the call's work, in the workspace; for others it
// lies in the Bound.
type number struct {
	operand int
	size    int64 // in bytes
	at      int64 // where in the workspace
}

// scalarUse is a number that a call takes.
type scalarUse struct {
	name    string
	t       isa.Type
	boolean bool // what it makes is a bool, 0 or 1
}

// step is the launch of one program.
type step struct {
	what    string
	op      bool // of an operation, which has operands instead of slots
	inPlace bool // see kernels.Step
	// broadcasts: the index space is a shape, to which views broadcast as numpy's
	// arrays do; one number is no count.
	broadcasts bool
	info       *backends.Info
	program    *program.Program
	kernel     *program.Kernel
	l          backends.Launch // addresses are offsets from where the slots' memory starts
	slots      []slot
	params     []stepParam
	scratch    int64 // of the kernel's own workspace, where in the call's
	job        *profile.Job
	places     *kernels.Places
	divisor    string // see kernels.Op
}

// slot says what a step's slot is bound to: an operand, or the workspace.
type slot struct {
	name     string
	operand  int // kernels.Workspace: none
	readOnly bool
	// elements are those that a program may touch of a slot that it addresses by
	// bytes, between which others lie; nil: all.
	elements *backends.View
}

// stepParam is a parameter that a call's scalar gives.
type stepParam struct{ param, scalar int }

// name names a slot in errors.
func (s *step) name(i int) string {
	if s.op {
		return s.what + ": " + s.slots[i].name
	}
	return s.what + ": slot " + s.slots[i].name
}

// addSlot adds a slot. v's address counts from the start of the operand's view.
func (s *step) addSlot(v backends.View, name string, operand int, readOnly bool) {
	s.l.Slots = append(s.l.Slots, v)
	s.slots = append(s.slots, slot{name: name, operand: operand, readOnly: readOnly})
}

// Device is where calls are prepared for.
type Device struct {
	*program.Cache
	Pool *memory.Pool // of workspaces
	Host *memory.Pool // of Records
	kept atomic.Int64 // Bounds, beside each prepared call's one

	threads   atomic.Int32 // that plans are made for, 0: as many as at first; or changing
	published published
}

// Prepare makes a call ready. Its counts have been checked.
func Prepare(d *Device, r *Request) (*Prepared, error) {
	p := &Prepared{what: r.What(), sources: d.Info.RunsSource, async: d.Info.Asynchronous, device: d, stop: r.Stop}
	p.Start(1)
	var err error
	switch {
	case r.Op == nil:
		err = p.launch(d, r)
	case r.Op.Elementwise:
		err = p.elementwise(d, r)
	default:
		err = p.planned(d, r)
	}
	if err == nil {
		err = p.complete(d, r)
	}
	p.stop = nil
	if err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Release takes a user away.
func (p *Prepared) Release() {
	if p.Drop() {
		p.retire(p.free)
	}
}

// free lets go of what calls used, which are over.
func (p *Prepared) free() {
	if b := p.spare.Swap(nil); b != nil {
		b.free()
	}
	for _, b := range p.more {
		b.free()
	}
	p.device.kept.Add(-int64(len(p.more)))
	for i := range p.steps {
		if k := p.steps[i].kernel; k != nil {
			k.Release()
		}
	}
}

// launch prepares the launch of a program.
func (p *Prepared) launch(d *Device, r *Request) error {
	src := r.Program.Source()
	s := step{what: p.what, info: &d.Info, program: r.Program}
	for i, declared := range src.Slots {
		o := &r.Operands[i]
		v := o.View
		v.Addr = 0
		s.addSlot(v, declared.Name, i, o.ReadOnly)
		if err := s.checkType(i, declared.Type); err != nil {
			return err
		}
		if i == r.Program.Boundary && v.Bytes != isa.BoundaryBytes {
			return status.Errorf(status.Invalid, "%s has %d bytes; a boundary pool has %d", s.name(i), v.Bytes, isa.BoundaryBytes)
		}
		p.operands = append(p.operands, operandUse{name: s.name(i), reads: r.Program.Verified.Slots[i].Reads, writes: r.Program.Verified.Slots[i].Writes})
	}
	for i, declared := range src.Params {
		p.scalars = append(p.scalars, scalarUse{name: p.what + ": parameter " + declared.Name, t: declared.Type})
		s.l.Params = append(s.l.Params, 0)
		s.params = append(s.params, stepParam{i, i})
	}
	return p.add(d, s, r.Dims, r.Grid, r.Block, !r.Fuel)
}

// types checks the operands of an operation.
func (p *Prepared) types(r *Request) (isa.Type, error) {
	op := r.Op
	t := r.Operands[op.Subject()].View.Type
	// Bools come before types: to who gave some, the type that their bytes are said to have says nothing.
	closed := op.Bools // whether no bytes other than 0 and 1 are written
	bools := false
	for i, o := range op.Operands {
		closed = closed && (o.Writes || o.Kind != kernels.Same || r.Operands[i].Bool)
	}
	for i, o := range op.Operands {
		if o.Writes && r.Operands[i].Bool && !closed && o.Kind != kernels.Mask {
			return t, status.Errorf(status.BadType, "%s: %s has dtype bool; the operation would write bytes other than 0 and 1", op.Name, o.Name)
		}
		bools = bools || o.Writes && r.Operands[i].Bool
		p.operands = append(p.operands, operandUse{name: op.Name + ": " + o.Name, reads: o.Reads, writes: o.Writes})
	}
	types := make([]isa.Type, len(r.Operands))
	for i := range r.Operands {
		types[i] = r.Operands[i].View.Type
	}
	if err := op.CheckTypes(types); err != nil {
		return t, status.Errorf(status.BadType, "%w", err)
	}
	for _, s := range op.Scalars {
		p.scalars = append(p.scalars, scalarUse{op.Name + ": " + s.Name, op.ScalarType(s, types), bools})
	}
	return t, nil
}

// elementwise prepares the one program of an elementwise operation.
func (p *Prepared) elementwise(d *Device, r *Request) error {
	t, err := p.types(r)
	if err != nil {
		return err
	}
	v, err := r.Op.Program(t)
	if err != nil {
		return status.Errorf(status.Internal, "%w", err)
	}
	shape, err := opShape(r)
	if err != nil {
		return err
	}
	s := step{what: p.what, op: true, broadcasts: r.Dims == nil, info: &d.Info, program: libraryProgram(&kernels.Step{Program: v}), divisor: r.Op.Divisor}
	for i := range r.Operands {
		o := &r.Operands[i]
		v := o.View
		v.Addr = 0
		s.addSlot(v, r.Op.Operands[i].Name, i, o.ReadOnly)
	}
	for i := range r.Op.Scalars {
		s.l.Params = append(s.l.Params, 0)
		s.params = append(s.params, stepParam{i, i})
	}
	return p.add(d, s, shape, [3]uint32{}, [3]uint32{}, !r.Fuel)
}

// opShape chooses the index space of an elementwise operation.
func opShape(r *Request) ([]int64, error) {
	op := r.Op
	if len(r.Dims) > 1 {
		return nil, status.Errorf(status.Invalid, "%s takes one size, n, got %d numbers", op.Name, len(r.Dims))
	}
	if len(r.Dims) == 1 {
		n := r.Dims[0]
		for i := range r.Operands {
			if has := Numel(&r.Operands[i].View); n > has {
				return nil, status.Errorf(status.Invalid, "%s: n = %d exceeds the %d elements of %s", op.Name, n, has, op.Operands[i].Name)
			}
		}
		if n < 0 {
			return nil, status.Errorf(status.Invalid, "%s: n = %d is negative", op.Name, n)
		}
		return r.Dims, nil
	}
	for i := range r.Operands {
		if out := &r.Operands[i].View; op.Operands[i].Writes {
			return out.Shape[:out.Rank], nil
		}
	}
	return nil, status.Errorf(status.Internal, "%s has no output", op.Name)
}

// planned prepares the steps of an operation on operands of the sizes given, or
// of their own shapes.
func (p *Prepared) planned(d *Device, r *Request) error {
	if _, err := p.types(r); err != nil {
		return err
	}
	op := r.Op
	seen := make([]backends.View, len(r.Operands)) // what the operation sees of the operands
	plan, err := p.plan(d, r, seen)
	if err != nil {
		return err
	}
	for i := range r.Operands {
		if r.Operands[i].ReadOnly && op.Operands[i].Writes {
			return status.Errorf(status.Invalid, "%s: %s is written, and the array bound to it is read-only", op.Name, op.Operands[i].Name)
		}
		if op.Operands[i].Writes && selfOverlaps(&seen[i]) {
			return status.Errorf(status.Invalid, "%s: %s is written, and elements of the array bound to it share memory", op.Name, op.Operands[i].Name)
		}
	}
	p.workspace = (plan.Workspace + 63) &^ 63
	p.wholeOperands(op, seen)
	for i := range plan.Steps {
		from := &plan.Steps[i]
		s := step{what: p.what, op: true, info: &d.Info, program: libraryProgram(from), inPlace: from.InPlace, places: from.Places}
		for k := range from.Slots {
			if err := s.addBinding(&from.Slots[k], op, r, seen, plan.Workspace); err != nil {
				return err
			}
		}
		for k, param := range from.Params {
			if param.Scalar {
				s.params = append(s.params, stepParam{k, int(param.Value)})
				param.Value = 0
			}
			s.l.Params = append(s.l.Params, param.Value)
		}
		if err := p.add(d, s, from.Shape, from.Grid, from.Block, !r.Fuel); err != nil {
			return err
		}
	}
	return nil
}

// plan plans a call of an operation, and sets what it sees of the operands.
func (p *Prepared) plan(d *Device, r *Request, seen []backends.View) (*kernels.Plan, error) {
	op, t := r.Op, r.Operands[0].View.Type
	layouts, axes := make([]kernels.Layout, len(r.Operands)), -1
	sized := r.Dims != nil && !(op.Axes && len(r.Dims) == 1)
	var rows Axes
	if r.Dims != nil && !sized {
		var err error
		first, out := &r.Operands[0].View, &r.Operands[len(r.Operands)-1].View
		if rows, err = AxesOf(op, r.Dims[0], first.Rank); err != nil {
			return nil, err
		}
		if err := rows.check(op, first, out); err != nil {
			return nil, err
		}
		axes = rows.count()
	}
	plain := true // as Plan has it
	for i := range r.Operands {
		v := &seen[i]
		*v = r.Operands[i].View
		v.Addr, v.Bytes = 0, 0
		if axes >= 0 {
			rows.last(v)
		}
		if i == 0 && !sized && op.Unordered(v.Type) {
			descend(v, rows.rank-rows.count(), op.Chooses())
		}
		if v.Rank == 0 {
			v.Rank, v.Shape[0], v.Stride[0] = 1, 1, 1
		}
		layouts[i] = kernels.Layout{Type: v.Type, Shape: slices.Clone(v.Shape[:v.Rank]), Stride: slices.Clone(v.Stride[:v.Rank])}
		plain = plain && r.Operands[i].Packed
	}
	if sized {
		err := flat(r, t, seen)
		if err != nil {
			return nil, err
		}
		for i := range layouts {
			if !r.Operands[i].Packed {
				layouts[i].Shape[0] = seen[i].Shape[0]
			}
		}
		usual, _, err := op.Layouts(t, r.Dims)
		if err != nil {
			return nil, status.Errorf(status.Invalid, "%w", err)
		}
		for i := range usual { // which is what a plan by sizes takes the operands to be
			plain = plain && layouts[i].Type == usual[i].Type
		}
		if layouts, axes, err = op.Sized(layouts, r.Dims); err != nil {
			return nil, status.Errorf(status.Invalid, "%w", err)
		}
	}
	if d.Info.FewLanes {
		if plan, err := op.Whole(layouts); err != nil {
			return nil, status.Errorf(status.Invalid, "%w", err)
		} else if plan != nil {
			return plan, nil
		}
	}
	if sized && plain {
		return planOf(d, op, t, r.Dims)
	}
	plan, err := op.PlanShapes(layouts, axes)
	if err != nil {
		return nil, status.Errorf(status.Invalid, "%w", err)
	}
	if planner, ok := d.Device.(backends.Planner); ok {
		if sizes := op.Sizes(layouts, axes); sizes != nil {
			return planOf(d, op, t, sizes)
		}
		if own, err := planner.PlanShapes(op, layouts, axes); err != nil {
			return nil, status.FromBackend(op.Name, err)
		} else if own != nil {
			return own, nil
		}
	}
	return plan, nil
}

// flat checks the operands of a call by sizes, and sets what it sees of those
// that lie packed, and of vectors that a call on one row takes: the first elements.
func flat(r *Request, t isa.Type, seen []backends.View) error {
	op := r.Op
	extents, err := op.Extent(t, r.Dims)
	if err != nil {
		return status.Errorf(status.Invalid, "%w", err)
	}
	for i, n := range extents {
		o := &r.Operands[i]
		switch has := Numel(&o.View); {
		case has < n:
			return status.Errorf(status.Invalid, "%w", op.Short(i, has, n, r.Dims))
		case o.Packed:
			v := backends.View{Type: o.View.Type, Rank: 1, Bytes: n * int64(o.View.Type.Size())}
			v.Shape[0], v.Stride[0] = n, 1
			seen[i] = v
		case o.View.Rank == 1 && op.OneRow(r.Dims):
			seen[i].Shape[0] = n
		}
	}
	return nil
}

// planOf asks the device for a plan of its own, and takes the library's if it has none.
func planOf(d *Device, op *kernels.Op, t isa.Type, dims []int64) (*kernels.Plan, error) {
	if planner, ok := d.Device.(backends.Planner); ok {
		if plan, err := planner.Plan(op, t, dims); err != nil {
			return nil, status.FromBackend(op.Name, err)
		} else if plan != nil {
			return plan, nil
		}
	}
	plan, err := op.Plan(t, dims)
	if err != nil {
		return nil, status.Errorf(status.Invalid, "%w", err)
	}
	return plan, nil
}

// addBinding adds the next slot of a plan's step. seen are the operands. A plan that
// goes beyond them, or beyond the workspace that it asked for, is not carried out.
func (s *step) addBinding(b *kernels.Binding, op *kernels.Op, r *Request, seen []backends.View, workspace int64) error {
	v := backends.View{Addr: uintptr(b.Offset), Type: b.Type, Rank: len(b.Shape)}
	copy(v.Shape[:], b.Shape)
	copy(v.Stride[:], b.Stride)
	name, readOnly := "workspace", false
	if b.Operand != kernels.Workspace {
		name, readOnly = op.Operands[b.Operand].Name, r.Operands[b.Operand].ReadOnly
		if b.Shape == nil {
			v = seen[b.Operand]
		}
	}
	if Contiguous(&v) {
		v.Bytes = Numel(&v) * int64(b.Type.Size())
	}
	from, to := int64(0), workspace
	if b.Operand != kernels.Workspace {
		from, to, _ = Extent(&r.Operands[b.Operand].View)
	}
	at := int64(v.Addr)
	if lo, hi, ok := Extent(&v); !ok || lo < hi && (at < from-lo || at > to-hi) {
		return status.Errorf(status.Internal, "%s: a step reaches from byte %d to %d about byte %d of %s, which has %d to %d",
			op.Name, lo, hi, at, name, from, to)
	}
	s.addSlot(v, name, b.Operand, readOnly)
	if b.Operand != kernels.Workspace && v.Rank == 1 {
		s.slots[len(s.slots)-1].elements = &seen[b.Operand]
	}
	return nil
}

// complete settles what concerns all steps.
func (p *Prepared) complete(d *Device, r *Request) error {
	for i := range r.Operands {
		v := &r.Operands[i].View
		p.operands[i].align = uintptr(v.Type.Size())
		p.operands[i].empty = Numel(v) == 0
		p.operands[i].lo, p.operands[i].hi, _ = Extent(v)
		if r.Operands[i].Number && !p.operands[i].empty {
			p.numbers = append(p.numbers, number{operand: i, size: int64(v.Type.Size()), at: p.workspace})
			p.operands[i].number = len(p.numbers)
			if p.async {
				p.workspace += bestAlign
			}
		}
	}
	for i := range p.steps {
		s := &p.steps[i]
		p.varies = p.varies || len(s.params) > 0 && r.Op == nil
		p.cost += s.cost(&s.l)
	}
	p.loud = p.faults || !p.enters || p.telling(d.Info.Enters)
	return nil
}
