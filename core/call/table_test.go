package call

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/queue"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// slow is a device whose launches cost what a test says.
type slow struct {
	backends.Device
	cost  float64
	asked int // what launches cost
}

type slowKernel struct {
	backends.Kernel
	d *slow
}

func (d *slow) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	k, err := d.Device.Compile(u, v)
	return &slowKernel{k, d}, err
}

func (k *slowKernel) Cost(l *backends.Launch) float64 {
	k.d.asked++
	if len(l.Params) > 0 {
		return k.d.cost * float64(l.Params[0])
	}
	return k.d.cost
}

func newSlow(t *testing.T) (*slow, *Device) {
	t.Helper()
	dev, err := cpu.New(1).Open(0)
	require.NoError(t, err)
	s := &slow{Device: dev, cost: 100}
	return s, &Device{Cache: program.NewCache(s), Pool: memory.NewPool(memory.Allocator{Alloc: dev.Alloc, Free: dev.Free}, 0),
		Host: memory.NewPool(memory.Allocator{Alloc: dev.AllocHost, Free: dev.FreeHost}, 0)}
}

// vector is an operand of n contiguous elements at an address.
func vector(addr uintptr, t isa.Type, n int64) Operand {
	o := Operand{View: backends.View{Addr: addr, Bytes: n * int64(t.Size()), Type: t, Rank: 1}, Packed: true}
	o.View.Shape[0], o.View.Stride[0] = n, 1
	return o
}

// TestCallsArePreparedOnce asks for a call twice, the second time where nothing
// may take long.
func TestCallsArePreparedOnce(t *testing.T) {
	_, d := newSlow(t)
	table := NewTable(d, 16)
	r := &Request{Op: kernels.VectorAbs, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	_, err := table.Get(r, true)
	require.ErrorIs(t, err, status.ErrBusy)
	p, err := table.Get(r, false)
	require.NoError(t, err)
	again, err := table.Get(r, true)
	require.NoError(t, err)
	require.Same(t, p, again)
	p.Release()
	again.Release()
}

// planner is a device whose plans are of so many threads.
type planner struct {
	*slow
	threads int
	planned []int  // how many, of each plan
	midway  func() // called while a plan is made
}

func (p *planner) Plan(*kernels.Op, isa.Type, []int64) (*kernels.Plan, error) {
	p.planned = append(p.planned, p.threads)
	if p.midway != nil {
		p.midway()
	}
	return nil, nil
}

func (p *planner) PlanShapes(op *kernels.Op, _ []kernels.Layout, _ int) (*kernels.Plan, error) {
	return p.Plan(op, isa.F32, nil)
}

// TestPlansAreForANumberOfThreads: a call is planned anew for another number, and what was planned for
// one that comes again is found again; but not while the number changes.
func TestPlansAreForANumberOfThreads(t *testing.T) {
	s, d := newSlow(t)
	dev := &planner{slow: s, threads: 1}
	d.Cache = program.NewCache(dev)
	table := NewTable(d, 16)
	defer table.Close()
	set := func(n int) { d.Replan(n, func(n int) { dev.threads = n }) }
	sum := &Request{Op: kernels.Cumsum, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	plain := &Request{Op: kernels.VectorAbs, Operands: sum.Operands}
	get := func(r *Request, try bool) *Prepared {
		p, err := table.Get(r, try)
		require.NoError(t, err)
		p.Release()
		return p
	}
	abs := get(plain, false)
	first := get(sum, false)
	set(2)
	_, err := table.Get(sum, true)
	require.ErrorIs(t, err, status.ErrBusy)
	second := get(sum, false)
	require.Same(t, abs, get(plain, true)) // nobody plans it
	set(3)
	get(sum, false)
	set(2)
	require.Same(t, second, get(sum, true))
	require.NotSame(t, first, second)
	require.Equal(t, []int{1, 2, 3}, dev.planned)

	dev.midway = func() { dev.midway = nil; set(4) } // of a plan for 2, or for both
	other := &Request{Op: kernels.Cumsum, Operands: []Operand{vector(64, isa.F32, 8), vector(128, isa.F32, 8)}}
	require.Zero(t, get(other, false).Users())
	d.Replan(5, func(n int) { require.Zero(t, get(other, false).Users()); dev.threads = n })
	require.Equal(t, []int{1, 2, 3, 2, 4}, dev.planned)
	get(other, false)
	get(other, true)
	require.Equal(t, []int{1, 2, 3, 2, 4, 5}, dev.planned)
}

// TestWhoAsksForTheCost binds a launch whose cost depends on a parameter: it is
// found out when somebody asks, and then with that parameter.
func TestWhoAsksForTheCost(t *testing.T) {
	s, d := newSlow(t)
	src, err := isa.Assemble("p", "program p\nslot c f32\nparam n u32\nldp.u32 k, n\nldg.f32 x, c[index]\nloop k, end\nadd.f32 x, x, 1.0\nend:\nstg.f32 x, c[index]\nexit")
	require.NoError(t, err)
	v, err := isa.Verify(src)
	require.NoError(t, err)
	r := &Request{Program: program.New(v), Operands: []Operand{vector(64, isa.F32, 9)}}
	p, err := NewTable(d, 16).Get(r, false)
	require.NoError(t, err)
	before := s.asked
	b, err := p.Bind(d, r.Operands, []Scalar{Int(5)}, false, r)
	require.NoError(t, err)
	require.Equal(t, before, s.asked)
	require.EqualValues(t, 500, b.Cost())
	require.Equal(t, before+1, s.asked)
	b.Release()
}

// passed is a stream all of whose tickets have passed.
type passed struct{ backends.Stream }

func (passed) Wait(backends.Ticket, time.Duration) error { return nil }

// TestTheStepThatFaults has each step of an operation note a fault: it is named
// by that step's program, once.
func TestTheStepThatFaults(t *testing.T) {
	_, d := newSlow(t)
	r := &Request{Op: kernels.Softmax, Operands: []Operand{vector(1<<12, isa.F32, 30000), vector(1<<20, isa.F32, 30000)}, Dims: []int64{2, 15000}}
	p, err := Prepare(d, r)
	require.NoError(t, err)
	defer p.Release()
	require.Greater(t, len(p.steps), 2)
	later := 0
	for i := range p.steps {
		p.Acquire()
		b, err := p.Bind(d, r.Operands, nil, false, r)
		require.NoError(t, err)
		b.line, b.failed = &memory.Line{Stream: passed{}}, len(p.steps)
		for k := range b.tickets {
			b.tickets[k] = backends.Ticket(k + 1)
		}
		b.launches[i].Record.Note(&backends.ProgramFault{Kind: isa.FaultAccess, Lane: 5})
		var told *status.Error
		require.ErrorAs(t, b.Outcome(nil), &told)
		if told.Fault != nil { // else the step's program has no place that may fault
			require.Equal(t, p.steps[i].program.Source().Name, told.Fault.Program)
			later += min(i, 1)
		}
		require.NoError(t, b.Outcome(nil), "a fault is told twice")
		b.Release()
	}
	require.Positive(t, later)
}

// TestKeys changes, one by one, all that a Request has: each is another signature, but
// what is named here, at which Prepare does not look.
func TestKeys(t *testing.T) {
	text := "program p\nslot a f32\nslot c f32\nldg.f32 x, a[index]\nstg.f32 x, c[index]\nexit"
	p, err := program.Assemble("test", text, nil)
	require.NoError(t, err)
	view := func() Operand {
		o := Operand{View: backends.View{Addr: 64, Type: isa.F32, Rank: isa.MaxRank}}
		for i := range isa.MaxRank {
			o.View.Shape[i], o.View.Stride[i] = int64(3+i), int64(20+i)
		}
		return o
	}
	base := func() *Request {
		return &Request{Program: p, Operands: []Operand{view(), view()}, Dims: []int64{3, 4}, Grid: [3]uint32{5, 6, 7}, Block: [3]uint32{8, 9, 10}}
	}
	seen := map[string]string{fmt.Sprint(base().key(nil)): "nothing"}
	changed := func(name string, r *Request) {
		key := fmt.Sprint(r.key(nil))
		require.Empty(t, seen[key], name)
		seen[key] = name
	}
	apart := []string{"Addr", "Bytes", "Mem", "Stop", "May", "Program", "Op"}
	var walk func(v reflect.Value, name string, of func(*Request) reflect.Value)
	walk = func(v reflect.Value, name string, of func(*Request) reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), v.Type().Field(i).Name, func(r *Request) reflect.Value { return of(r).Field(i) })
			}
			return
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(v.Index(i), fmt.Sprint(name, i), func(r *Request) reflect.Value { return of(r).Index(i) })
			}
			return
		}
		r := base()
		switch at := of(r); v.Kind() {
		case reflect.Bool:
			at.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			at.SetInt(v.Int() - 1)
		case reflect.Uint8, reflect.Uint32, reflect.Uintptr:
			at.SetUint(v.Uint() - 1)
		default:
			require.Contains(t, apart, name)
			return
		}
		if slices.Contains(apart, name) {
			require.Equal(t, base().key(nil), r.key(nil), name)
		} else {
			changed(name, r)
		}
	}
	walk(reflect.ValueOf(base()).Elem(), "", func(r *Request) reflect.Value { return reflect.ValueOf(r).Elem() })
	for name, change := range map[string]func(r *Request){
		"operation":   func(r *Request) { r.Op, r.Program = kernels.VectorAbs, nil },
		"another":     func(r *Request) { r.Op, r.Program = kernels.VectorNeg, nil },
		"a scalar":    func(r *Request) { r.Operands[1].View.Rank = 0 },
		"swapped":     func(r *Request) { r.Dims = []int64{4, 3} },
		"flat":        func(r *Request) { r.Dims = []int64{12} },
		"one lane":    func(r *Request) { r.Dims = []int64{} },
		"none":        func(r *Request) { r.Dims = nil },
		"one operand": func(r *Request) { r.Operands = r.Operands[:1] },
	} {
		r := base()
		change(r)
		changed(name, r)
	}
}

// TestTableGrows where a call has no room, up to its bound, and keeps all till then.
func TestTableGrows(t *testing.T) {
	table := NewTable(nil, 1024)
	const most = 3 * ways
	var all []*Prepared
	at := func(hash uint64) *Prepared {
		p := &Prepared{hash: hash}
		p.Start(2)
		require.Nil(t, table.put(p))
		return p
	}
	for i := range uint64(most) {
		all = append(all, at(16*i)) // one set's, of 16, till there are more
	}
	require.Len(t, *table.sets.Load(), 64)
	for range 2 {
		for _, p := range all {
			require.Contains(t, held(setOf(*table.sets.Load(), p.hash)), p)
			require.EqualValues(t, 2, p.Users())
		}
		at(1)
	}
	for i := range uint64(ways) {
		all = append(all, at(256*i+7)) // one set's, however many there are
	}
	last := &Prepared{hash: 7}
	last.Start(2)
	require.Same(t, all[most], table.put(last))
	require.Len(t, *table.sets.Load(), 256)
	table.Close()
	for _, p := range all[most+1:] {
		require.EqualValues(t, 1, p.Users())
	}
	late := &Prepared{}
	require.Same(t, late, table.put(late))
}

func held(s *set) (found []*Prepared) {
	for i := range s.ways {
		found = append(found, s.ways[i].Load())
	}
	return found
}

// TestKeysThatHashAlike: a call is found by its whole signature.
func TestKeysThatHashAlike(t *testing.T) {
	_, d := newSlow(t)
	table := NewTable(d, 16)
	short := &Request{Op: kernels.VectorAbs, Operands: []Operand{vector(64, isa.F32, 9), vector(128, isa.F32, 9)}}
	long := &Request{Op: kernels.VectorAbs, Operands: []Operand{vector(64, isa.F32, 10), vector(128, isa.F32, 10)}}
	p, err := Prepare(d, short)
	require.NoError(t, err)
	p.key, p.hash = short.key(nil), hashOf(long.key(nil))
	setOf(*table.sets.Load(), p.hash).takes(p)
	found, err := table.Get(long, false)
	require.NoError(t, err)
	require.NotSame(t, p, found)
	found.Release()
	table.Close()
	require.Zero(t, p.Users())
}

// TestACapturedTry captures a call that was made to try: what it needs when it is
// replayed need not be at hand.
func TestACapturedTry(t *testing.T) {
	s, d := newSlow(t)
	d.Cache = program.NewCache(s.Device) // whose kernels run
	stream, err := s.NewStream()
	require.NoError(t, err)
	target := &queue.Target{Line: &memory.Line{Stream: stream}}
	const n = 1 << 20
	from, to := heap(n), heap(3)
	for i := range from {
		from[i] = 1
	}
	address := func(x []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }
	r := &Request{Op: kernels.ReduceSum, Operands: []Operand{vector(address(from), isa.F32, n), vector(address(to), isa.F32, 3)}, Dims: []int64{1, n}}
	p, err := Prepare(d, r)
	require.NoError(t, err)
	require.NotZero(t, p.workspace)
	first, err := p.Bind(d, r.Operands, nil, false, r)
	require.NoError(t, err)
	require.True(t, p.Acquire())
	first.Release() // without a workspace: none is at hand
	b, err := p.Bind(d, r.Operands, nil, true, r)
	require.NoError(t, err)
	_, err = b.Run(target)
	require.ErrorIs(t, err, status.ErrBusy)
	b.Captured()
	_, err = b.Run(target)
	require.NoError(t, b.Outcome(err))
	require.Equal(t, float32(n), to[0])
	b.Release()
	runtime.KeepAlive(from)
}

// heap makes memory that stays where it is, unlike a goroutine's stack.
//
//go:noinline
func heap(n int) []float32 { return make([]float32, n) }
