package core

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// What the C ABI needs of the ISA.
type Type = isa.Type

// Type codes and limits of the ISA that the C ABI names.
const (
	Pred       = isa.Pred
	MaxRank    = isa.MaxRank
	NumClasses = isa.NumClasses
)

// Program is a verified Atlas program, ready for any device. It is immutable
// but for the compiled kernels that it remembers.
type Program struct {
	verified *isa.Verified
	cost     cost

	canonical func() (*unit, error) // made on first use
	compiled  atomic.Pointer[compiled]
	mu        sync.Mutex // of changes to compiled
	residue   bool       // has RES_ACCUM
	phase     bool       // reads or changes the phase
	boundary  int        // the slot of Φ-addresses, or -1
	closed    bool
}

// unit is what a backend compiles, and the way back to the source.
type unit struct {
	backends.Unit
	srcs ir.Srcs
}

// compiled is a kernel that a program remembers for a device.
type compiled struct {
	device *Device
	k      *kernel
	next   *compiled
}

// Assemble makes a program of its text. file is what errors call the text.
func Assemble(file, text string) (*Program, error) {
	defer fpenv.Leave(fpenv.Enter()) // immediates are rounded here
	p, err := isa.Assemble(file, text)
	if err != nil {
		return nil, Errorf(Syntax, "%w", err)
	}
	return verify(p)
}

// Decode makes a program of its binary form.
func Decode(data []byte) (*Program, error) {
	p, err := isa.Decode(data)
	if err != nil {
		return nil, Errorf(Syntax, "%w", err)
	}
	return verify(p)
}

// LooksEncoded reports whether data starts as the binary form does.
func LooksEncoded(data []byte) bool { return bytes.HasPrefix(data, []byte("ATLAS")) }

func verify(p *isa.Program) (*Program, error) {
	v, err := isa.Verify(p)
	if err != nil {
		return nil, Errorf(Unverified, "%w", err)
	}
	return newProgram(v), nil
}

func newProgram(v *isa.Verified) *Program {
	p := &Program{verified: v, cost: costOf(v), boundary: -1}
	p.canonical = sync.OnceValues(func() (*unit, error) {
		defer fpenv.Leave(fpenv.Enter()) // constants are folded here
		f, srcs, err := ir.Canonical(v)
		if err != nil {
			return nil, Errorf(Internal, "program %q: canonical form: %w", v.Program.Name, err)
		}
		return &unit{Unit: backends.Unit{Source: v, IR: f, Hash: f.Hash()}, srcs: srcs}, nil
	})
	for i, s := range v.Program.Slots {
		if s.Name == isa.BoundarySlot {
			p.boundary = i
		}
	}
	for _, inst := range v.Program.Insts {
		switch inst.Op {
		case isa.RES_ACCUM:
			p.residue = true
		case isa.PHASE_GET, isa.PHASE_ADV:
			p.phase = true
		}
	}
	return p
}

// libraryPrograms are the programs of package kernels, which live as long as
// the process, by their verified form.
var libraryPrograms sync.Map

func libraryProgram(v *isa.Verified) *Program {
	if p, ok := libraryPrograms.Load(v); ok {
		return p.(*Program)
	}
	p, _ := libraryPrograms.LoadOrStore(v, newProgram(v))
	return p.(*Program)
}

// Source returns the program as written.
func (p *Program) Source() *isa.Program { return p.verified.Program }

// Verified returns the program as verified.
func (p *Program) Verified() *isa.Verified { return p.verified }

// Residue reports whether launches of the program accumulate residues.
func (p *Program) Residue() bool { return p.residue }

// Disassemble returns the program's text.
func (p *Program) Disassemble() string {
	defer fpenv.Leave(fpenv.Enter()) // immediates are written as floats
	return isa.Disassemble(p.Source())
}

// Encode returns the program's binary form.
func (p *Program) Encode() []byte { return isa.Encode(p.Source()) }

// Hash returns the hash of the canonical form: equal for programs that compute
// the same in the ways that SEMANTICS lists.
func (p *Program) Hash() ([32]byte, error) {
	u, err := p.canonical()
	if err != nil {
		return [32]byte{}, err
	}
	return u.Hash, nil
}

// Canonical returns a readable dump of the canonical form.
func (p *Program) Canonical() (string, error) {
	u, err := p.canonical()
	if err != nil {
		return "", err
	}
	defer fpenv.Leave(fpenv.Enter()) // constants are written as floats
	return u.IR.String(), nil
}

// Close lets go of the compiled kernels. Launches under way end as they would.
func (p *Program) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := p.compiled.Swap(nil); c != nil; c = c.next {
		c.k.release()
	}
}

// kernelOn returns the program's kernel for a device, which the caller releases.
func (p *Program) kernelOn(d *Device) (*kernel, error) {
	for c := p.compiled.Load(); c != nil; c = c.next {
		if c.device == d && c.k.acquire() {
			return c.k, nil
		}
	}
	return p.compile(d)
}

func (p *Program) compile(d *Device) (*kernel, error) {
	u := &unit{Unit: backends.Unit{Source: p.verified}}
	if d.Info.RunsSource {
		u.Hash = p.Source().Hash()
	} else {
		var err error
		if u, err = p.canonical(); err != nil {
			return nil, err
		}
	}
	key := kernelKey{hash: u.Hash, codegen: d.Info.Codegen, order: kernels.ReductionOrder}
	k, err := d.kernels.get(key, func() (backends.Kernel, error) {
		defer fpenv.Leave(fpenv.Enter()) // and where expansions are lowered
		return d.dev.Compile(&u.Unit)
	})
	if err != nil {
		return nil, fromBackend("program "+quote(p.Source().Name), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		k.n.Add(1)
		p.compiled.Store(&compiled{device: d, k: k, next: p.compiled.Load()})
	}
	return k, nil
}

// fault turns what a backend reports into the instruction as written.
func (p *Program) fault(what string, f *backends.ProgramFault, d *Device) error {
	inst := f.Site
	if !d.Info.RunsSource {
		u, err := p.canonical()
		if err != nil || f.Site < 0 || f.Site >= len(u.srcs) {
			return Errorf(Internal, "%s: %w", what, f)
		}
		inst = u.srcs[f.Site]
	}
	src := p.Source()
	fault := &Fault{Kind: f.Kind, Program: src.Name, Inst: inst, Lane: f.Lane}
	place := "instruction " + itoa(inst)
	if inst >= 0 && inst < len(src.Debug.Lines) {
		fault.Line = int(src.Debug.Lines[inst])
		place = "line " + itoa(fault.Line)
		if fault.Line >= 1 && fault.Line <= len(src.Debug.Text) {
			place += " (" + trimmed(src.Debug.Text[fault.Line-1]) + ")"
		}
	}
	e := Errorf(Faulted, "%s: %v in lane %d at %s; the launch ran to its end, and outputs keep what was written",
		what, f.Kind, f.Lane, place)
	e.Fault, e.cause = fault, f
	return e
}

// finish turns the outcome of a launch into an Error.
func (p *Program) finish(what string, err error, d *Device) error {
	var f *backends.ProgramFault
	if errors.As(err, &f) {
		return p.fault(what, f, d)
	}
	return fromBackend(what, err)
}
