// Package cpu is the backend "cpu": the host's processors and memory. Its
// streams are synchronous; a launch can be cancelled from another goroutine.
// A unit is compiled by the first of the engines that can.
package cpu

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/contraction"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/lookup"
	"github.com/hologram-project/hologram/backends/cpu/strips"
	"github.com/hologram-project/hologram/backends/cpu/tuned"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
	"github.com/hologram-project/hologram/kernels"
)

// engine is one way to run a function on the processor.
type engine struct {
	// name and version stand in cache keys.
	name    string
	compile func(*work.Meter, *isa.Verified, *ir.Func) (program, error)
	// library: it is for programs of the library alone.
	library bool
	// special: it is for programs of one kind, so that its no says nothing of others.
	special bool
}

// program is what an engine makes of a function.
type program interface {
	// Run runs a launch to its end and returns its outcome.
	Run(*backends.Launch, *workers.Pool) error
	// Estimate is about what so many lanes and instructions of lanes take, in nanoseconds.
	Estimate(lanes uint64, steps float64) float64
	// Release frees what the program keeps between launches.
	Release()
}

var portable = engine{name: "strips/1",
	compile: func(m *work.Meter, _ *isa.Verified, f *ir.Func) (program, error) { return strips.CompileMetered(m, f) }}

// products is the engine of the library's matrix products, for a level and units.
func products(l jit.Level, u gemm.Units) engine {
	name := gemm.Version + "/" + l.String()
	if u != gemm.NoUnits {
		name += "+" + u.String()
	}
	return engine{name: name, library: true, compile: func(_ *work.Meter, v *isa.Verified, f *ir.Func) (program, error) {
		k, err := gemm.Compile(v, l, u, func() (jit.Program, error) { return strips.Compile(f) })
		if err != nil {
			return nil, err
		}
		return k, nil
	}}
}

// lookups is the engine of the library's embedding; other runs what it declines.
func lookups(other engine) engine {
	return engine{name: lookup.Version, library: true, compile: func(m *work.Meter, v *isa.Verified, f *ir.Func) (program, error) {
		k, err := lookup.Compile(v, func() (lookup.Program, error) { return other.compile(m, v, f) })
		if err != nil {
			return nil, err
		}
		return k, nil
	}}
}

// compiler is the engine that makes machine code for a level.
func compiler(l jit.Level) engine {
	return engine{name: jit.Version + "/" + l.String(), compile: func(m *work.Meter, _ *isa.Verified, f *ir.Func) (program, error) {
		if size := sizeOf(f.Body, 0); size > maxMachineCode {
			return nil, tooLarge()
		}
		k, err := jit.Compile(m, f, l, func() (jit.Program, error) { return strips.Compile(f) })
		if err != nil {
			return nil, err
		}
		return k, nil
	}}
}

// contractions is the engine of programs with a matrix product among what other runs.
func contractions(l jit.Level, other engine) engine {
	return engine{name: other.name + "+" + contraction.Version, special: true, compile: func(m *work.Meter, v *isa.Verified, f *ir.Func) (program, error) {
		k, err := contraction.Compile(m, f, l,
			func(m *work.Meter, f *ir.Func) (contraction.Program, error) { return other.compile(m, v, f) },
			func(m *work.Meter, f *ir.Func) (contraction.Program, error) { return compiler(l).compile(m, nil, f) },
			func(m *work.Meter, f *ir.Func) (contraction.Program, error) {
				p, err := compiler(l).compile(m, nil, f)
				if errors.As(err, new(*backends.Unsupported)) {
					p, err = portable.compile(m, nil, f)
				}
				return p, err
			})
		if err != nil {
			return nil, err
		}
		return k, nil
	}}
}

func tooLarge() error {
	return &backends.Unsupported{Backend: "jit", What: "a program of this size",
		Why: fmt.Sprintf("more than %d nodes and values carried by branches", maxMachineCode)}
}

// maxMachineCode bounds the nodes, and values carried by branches and loops, of
// what becomes machine code: that takes some 5 KB and 10 µs for each, more where
// there are many loops, and some of it when a launch of another shape comes,
// which nobody can stop. What is larger runs in strips.
const maxMachineCode = 1 << 12

// sizeOf returns n and the size of r, as far as it matters.
func sizeOf(r *ir.Region, n int) int {
	n += len(r.Params)
	for _, node := range r.Nodes {
		n += 1 + len(node.Results)
		if node.Op == ir.Br {
			n += len(node.Args)
		}
		for _, inner := range node.Regions {
			if n <= maxMachineCode {
				n = sizeOf(inner, n)
			}
		}
	}
	return n
}

// Backend is the backend. Its device and all its streams share one pool of
// workers.
type Backend struct {
	pool    *workers.Pool
	engines []engine // tried in order; the last one compiles everything
	level   jit.Level
	how     string // what Devices says of them
	refused error  // why it does not open
}

// EngineVariable is the variable of the environment that switches machine code
// off, or chooses what it is made for; see choices.
var EngineVariable = backends.NewVariable("HOLOGRAM_CPU_ENGINE")

// choices are the values of EngineVariable. Products of bf16 are the written order's to
// the bit where no units multiply them.
var choices = []struct {
	name  string
	level jit.Level
	units gemm.Units
}{
	{"strips", jit.None, gemm.NoUnits},
	{jit.AVX2.String(), jit.AVX2, gemm.NoUnits},
	{jit.AVX512.String(), jit.AVX512, gemm.NoUnits},
	{gemm.Words.String(), jit.AVX512, gemm.Words},
	{gemm.Dots.String(), jit.AVX512, gemm.Dots},
	{gemm.Tiles.String(), jit.AVX512, gemm.Tiles},
}

// New returns the backend, with launches on up to the given number of threads
// (the caller's included); 0 takes as many as Go runs at once. Programs become
// machine code where the machine, the system and EngineVariable allow it, and the best of
// what there is; where that asks for what is not there, the device does not open.
func New(threads int) *Backend {
	if wanted := EngineVariable.Get(); wanted != "" {
		var names []string
		for _, c := range choices {
			if names = append(names, c.name); c.name != wanted {
				continue
			}
			b, err := NewWith(threads, c.level, c.units)
			if err != nil {
				return refused(threads, fmt.Errorf("%s is %q: %w", EngineVariable.Name, wanted, err))
			}
			return b
		}
		last := len(names) - 1
		return refused(threads, fmt.Errorf("%s is %q; expected %s or %s", EngineVariable.Name, wanted, strings.Join(names[:last], ", "), names[last]))
	}
	l := jit.Detect()
	u, why := gemm.NoUnits, error(nil)
	if l == jit.AVX512 {
		u, why = gemm.Detect()
	}
	b, err := NewWith(threads, l, u)
	if err != nil {
		b, _ = NewFor(threads, jit.None)
		b.how += ": " + err.Error()
	} else if why != nil {
		b.how += "; " + why.Error()
	}
	return b
}

// refused is a backend that does not open.
func refused(threads int, err error) *Backend {
	b, _ := NewFor(threads, jit.None)
	b.refused = err
	return b
}

// NewFor is New with machine code for a given level, jit.None for none, or an
// error that says why there can be no such code.
func NewFor(threads int, l jit.Level) (*Backend, error) { return NewWith(threads, l, gemm.NoUnits) }

// NewWith is NewFor with units beside a level of AVX512 that multiply short elements.
func NewWith(threads int, l jit.Level, u gemm.Units) (*Backend, error) {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	b := &Backend{pool: workers.New(threads), level: l, how: "portable engine"}
	if l != jit.None {
		if err := jit.Available(l); err != nil {
			return nil, err
		}
		if err := gemm.Available(u); err != nil {
			return nil, err
		}
		b.engines = append(b.engines, products(l, u), lookups(compiler(l)), contractions(l, compiler(l)), compiler(l), contractions(l, portable))
		b.how = "machine code for " + l.String()
		if u != gemm.NoUnits {
			b.how += " and " + u.String()
		}
	} else {
		b.engines = append(b.engines, lookups(portable))
	}
	b.engines = append(b.engines, portable)
	return b, nil
}

// SetThreads sets how many threads a launch may use, the caller's included;
// less than 1 counts as 1. Launches under way go on as they are.
func (b *Backend) SetThreads(n int) { b.pool.SetThreads(n) }

// Threads tells how many threads a launch may use.
func (b *Backend) Threads() int { return b.pool.Threads() }

// Name returns "cpu".
func (*Backend) Name() string { return "cpu" }

// Devices lists the one device, the host; where it does not open, it is the error that says why.
func (b *Backend) Devices() ([]backends.Info, error) {
	if b.refused != nil {
		return nil, fmt.Errorf("cpu: %w", b.refused)
	}
	return []backends.Info{b.info()}, nil
}

func (b *Backend) info() backends.Info {
	codegen := runtime.GOARCH
	for _, e := range b.engines {
		codegen += " " + e.name
	}
	info := backends.Info{Name: "host, " + b.how, HostVisible: true, Heeds: true, DLPackType: 1, Codegen: codegen}
	if b.level != jit.None {
		info.FewLanes, info.Enters = true, &enters
	}
	return info
}

// enters bounds what is entered, which nobody can stop: as it is estimated, and by a caller who holds up nobody, for no
// longer than who stops it would notice. Where threads would share it sooner, the bound is that (workers.Alone).
var enters = backends.EnterBounds{Bytes: 256 << 10, Nanoseconds: backends.Held, Alone: 50e6}

// Open opens device 0.
func (b *Backend) Open(i int) (backends.Device, error) {
	if i != 0 {
		return nil, fmt.Errorf("cpu: open device %d: there is one, number 0", i)
	}
	if _, err := b.Devices(); err != nil {
		return nil, err
	}
	return &device{hostmem.Device{Backend: "cpu"}, b}, nil
}

type device struct {
	hostmem.Device
	backend *Backend
}

// Trim gives back what products keep from launch to launch, of all devices of the process.
func (d *device) Trim() int64 { return gemm.Trim() + contraction.Trim() }

func (d *device) Info() backends.Info { return d.backend.info() }

// Plan is backends.Planner's.
func (d *device) Plan(op *kernels.Op, t isa.Type, dims []int64) (*kernels.Plan, error) {
	return tuned.Plan(op, t, dims, d.backend.pool.Threads())
}

// PlanShapes is backends.Planner's.
func (d *device) PlanShapes(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	return tuned.PlanShapes(op, l, axes, d.backend.pool.Threads())
}

// Compile compiles u by the first engine that supports it.
func (d *device) Compile(u *backends.Unit, _ backends.Variant) (backends.Kernel, error) {
	var why error
	for _, e := range d.backend.engines {
		p, err := e.compile(u.Work, u.Source, u.IR)
		if err == nil {
			cost, err := analysis.NewCostMetered(u.Work, u.IR)
			if err != nil {
				p.Release()
				return nil, err
			}
			return &kernel{d, p, e.name, cost, len(u.IR.Slots), len(u.IR.ParamTypes)}, nil
		}
		if why = err; !errors.As(err, new(*backends.Unsupported)) {
			break
		}
	}
	return nil, why
}

// Explain tells by which engine the backend runs a program on this machine, and
// why not by one that is faster; by none is a *backends.Unsupported, as Compile's is.
// Of a program that adds up products in a loop a second line tells whether gemm does, or why not.
// m, which may be nil, counts the work.
func Explain(m *work.Meter, f *ir.Func) (string, error) {
	return New(1).explain(m, f)
}

func (b *Backend) explain(m *work.Meter, f *ir.Func) (string, error) {
	why, product := "", ""
	for _, e := range b.engines {
		if e.library {
			continue
		}
		p, err := e.compile(m, nil, f)
		var none *backends.Unsupported
		switch {
		case err == nil:
			if k, ok := p.(*contraction.Kernel); ok {
				product = contractionLine + k.Taken()
			}
			p.Release()
			return e.name + why + product, nil
		case !errors.As(err, &none):
			return "", err
		case !e.special:
			why += "; " + err.Error()
		case none.Backend == contraction.Name && err != contraction.ErrNone:
			product = contractionLine + "not by gemm: " + none.Why
		}
	}
	return "", &backends.Unsupported{Backend: "cpu", What: "the program", Why: strings.TrimPrefix(why, "; ")}
}

const contractionLine = "\n  contraction: "

func (d *device) NewStream() (backends.Stream, error) {
	return &stream{hostmem.Stream{Backend: "cpu"}, d}, nil
}

type kernel struct {
	device        *device
	program       program
	engine        string // its name
	cost          *analysis.Cost
	slots, params int
}

func (k *kernel) Cost(l *backends.Launch) float64 {
	steps, bounded := k.cost.Of(l.N, l.Params)
	if !bounded {
		return math.Inf(1)
	}
	return k.program.Estimate(l.N, steps)
}

var _ backends.Entered = (*kernel)(nil)

// Direct is backends.Entered's: machine code alone is entered.
func (k *kernel) Direct(l *backends.Launch, _ backends.Stream) (parts []backends.Direct, never bool) {
	if e, ok := k.program.(interface {
		Direct(l *backends.Launch, within float64) []backends.Direct
	}); ok {
		parts = e.Direct(l, min(enters.Most(), workers.Alone(k.device.backend.Threads())))
	}
	return parts, parts == nil
}

func (k *kernel) Workspace(*backends.Launch) int64 { return 0 }
func (k *kernel) Release()                         { k.program.Release() }

// stream runs what it is given before it returns.
type stream struct {
	hostmem.Stream
	device *device
}

func (s *stream) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	kn, ok := k.(*kernel)
	if !ok || kn.device != s.device {
		return 0, errors.New("cpu: launch: the kernel is of another device")
	}
	if len(l.Slots) != kn.slots || len(l.Params) != kn.params {
		return 0, fmt.Errorf("cpu: launch: %d slots and %d parameters given, the program has %d and %d",
			len(l.Slots), len(l.Params), kn.slots, kn.params)
	}
	return 0, kn.program.Run(l, s.device.backend.pool)
}
