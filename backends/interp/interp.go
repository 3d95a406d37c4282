// Package interp is the oracle: it runs a program as it was written, one lane
// after the other, one instruction after the other, by the table's evaluators.
// It is slow and short, and judges the other backends.
//
// interp.go is the backend, machine.go the lanes and the order they run in,
// exec.go the instructions, memory.go what addresses mean, collective.go the
// reductions and scans of a block, trace.go the record of one lane.
package interp

import (
	"fmt"
	"math"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	expansions "github.com/hologram-project/hologram/isa/math"
)

// New returns the interpreter backend. It has one device, which is the host.
func New() backends.Backend { return backend{} }

type backend struct{}

func (backend) Name() string { return "interp" }

func (backend) Devices() ([]backends.Info, error) { return []backends.Info{info}, nil }

func (backend) Open(i int) (backends.Device, error) {
	if i != 0 {
		return nil, fmt.Errorf("interp: open device %d: there is one, number 0", i)
	}
	return &device{hostmem.Device{Backend: "interp"}}, nil
}

var info = backends.Info{Name: "interpreter", HostVisible: true, DLPackType: 1, Codegen: "interp/1", RunsSource: true}

type device struct{ hostmem.Device }

func (*device) Info() backends.Info { return info }

func (d *device) Compile(u *backends.Unit, _ backends.Variant) (backends.Kernel, error) {
	c, err := compile(u.Source)
	if err != nil {
		return nil, err
	}
	k := &kernel{device: d, code: c}
	if u.IR != nil {
		if k.cost, err = analysis.NewCostMetered(u.Work, u.IR); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (d *device) NewStream() (backends.Stream, error) {
	return &stream{hostmem.Stream{Backend: "interp"}, d}, nil
}

type kernel struct {
	device *device
	code   *code
	cost   *analysis.Cost // nil: not known
}

// stepNanoseconds is about what an instruction of a lane takes.
const stepNanoseconds = 100

func (k *kernel) Cost(l *backends.Launch) float64 {
	if k.cost == nil {
		return math.Inf(1)
	}
	steps, bounded := k.cost.Of(l.N, l.Params)
	if !bounded {
		return math.Inf(1)
	}
	return steps * stepNanoseconds
}

func (*kernel) Workspace(*backends.Launch) int64 { return 0 }
func (*kernel) Release()                         {}

// stream runs what it is given at once.
type stream struct {
	hostmem.Stream
	device *device
}

func (s *stream) Launch(k backends.Kernel, l *backends.Launch) (backends.Ticket, error) {
	kn, ok := k.(*kernel)
	if !ok || kn.device != s.device {
		return 0, fmt.Errorf("interp: launch: the kernel is of another device")
	}
	return 0, launch(kn.code, l, nil)
}

// launch runs a program, telling watch, if not nil, of steps.
func launch(c *code, l *backends.Launch, watch *watch) error {
	// What the canonical form is given behind the parameters is of no use here.
	if len(l.Slots) != len(c.Program.Slots) || len(l.Params) < len(c.Program.Params) {
		return fmt.Errorf("interp: launch %q: %d slots and %d parameters given, it has %d and %d", c.Program.Name,
			len(l.Slots), len(l.Params), len(c.Program.Slots), len(c.Program.Params))
	}
	defer fpenv.Leave(fpenv.Enter())
	m := newMachine(c, l)
	m.watch = watch
	return m.run()
}

// code is a program ready to run.
type code struct {
	*isa.Verified
	expansions map[expansion]*code
	pools      map[int]int // ordinal of each POOL_ALLOC, by instruction
	rounds     []bool      // by instruction: BackEdges has it, in whichever routine
	decoded    []decoded   // by instruction
}

// decoded is what is the same each time that an instruction runs.
type decoded struct {
	row     *isa.Row
	result  isa.Type // NoType: it writes nothing
	sources []int    // its operands, but for what it writes
}

func decode(in *isa.Inst, row *isa.Row) decoded {
	d := decoded{row: row, result: resultType(in)}
	for i, o := range row.Operands {
		if o.Kind != isa.Dst && o.Kind != isa.PredDst {
			d.sources = append(d.sources, i)
		}
	}
	return d
}

type expansion struct {
	op isa.Op
	t  isa.Type
}

// compile decodes a program's instructions, finds the expansions that they need and numbers its scratch areas.
func compile(v *isa.Verified) (*code, error) {
	c := &code{Verified: v, expansions: map[expansion]*code{}, pools: map[int]int{}, rounds: make([]bool, len(v.Program.Insts))}
	for at := range v.BackEdges {
		c.rounds[at.Inst] = true
	}
	for i := range v.Program.Insts {
		in := &v.Program.Insts[i]
		row, ok := isa.Lookup(in.Op)
		if !ok {
			return nil, fmt.Errorf("interp: program %q: instruction %d has no row", v.Program.Name, i)
		}
		c.decoded = append(c.decoded, decode(in, row))
		if in.Op == isa.POOL_ALLOC {
			c.pools[i] = len(c.pools)
		}
		e := expansion{in.Op, in.Type}
		if row.Eval != nil || !row.Expand.Has(in.Type) || c.expansions[e] != nil {
			continue
		}
		x, ok := expansions.Expansion(in.Op, in.Type)
		if !ok {
			return nil, &backends.Unsupported{Backend: "interp", What: fmt.Sprintf("%v.%v", in.Op, in.Type), Why: "it has no expansion"}
		}
		sub, err := compile(x)
		if err != nil {
			return nil, err
		}
		c.expansions[e] = sub
	}
	return c, nil
}
