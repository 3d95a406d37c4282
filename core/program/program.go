// Package program is core's room for programs: verified, brought to their
// canonical form on first use, and compiled for devices by way of their caches.
package program

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
)

var errPanicked = status.Errorf(status.Internal, "the compiler ended before its time")

// Program is a verified Atlas program, ready for any device. It is immutable.
type Program struct {
	Verified *isa.Verified
	// Residue says that launches of it accumulate residues, Phase that they read
	// or change the phase. Boundary is the slot of Φ-addresses, or -1.
	Residue, Phase bool
	Boundary       int

	canonical func() (*unit, error) // made on first use
	analysis  func() *analysis.Analysis
}

// unit is what a backend compiles, and the way back to the source.
type unit struct {
	backends.Unit
	srcs ir.Srcs
}

// Assemble makes a program of its text. file is what errors call the text.
func Assemble(file, text string) (*Program, error) {
	defer fpenv.Leave(fpenv.Enter()) // immediates are rounded here
	p, err := isa.Assemble(file, text)
	if err != nil {
		return nil, status.Errorf(status.Syntax, "%w", err)
	}
	return verify(p)
}

// Decode makes a program of its binary form.
func Decode(data []byte) (*Program, error) {
	p, err := isa.Decode(data)
	if err != nil {
		return nil, status.Errorf(status.Syntax, "%w", err)
	}
	return verify(p)
}

// LooksEncoded reports whether data starts as the binary form does.
func LooksEncoded(data []byte) bool { return bytes.HasPrefix(data, []byte("ATLAS")) }

func verify(p *isa.Program) (*Program, error) {
	v, err := isa.Verify(p)
	if err != nil {
		return nil, status.Errorf(status.Unverified, "%w", err)
	}
	return New(v), nil
}

// New makes a program of its verified form.
func New(v *isa.Verified) *Program {
	p := &Program{Verified: v, Boundary: -1}
	p.canonical = sync.OnceValues(func() (*unit, error) {
		defer fpenv.Leave(fpenv.Enter()) // constants are folded here
		f, srcs, err := ir.Canonical(v)
		if large := (*ir.SizeError)(nil); errors.As(err, &large) {
			return nil, status.Errorf(status.Unverified, "program %q: %w", v.Program.Name, err)
		} else if err != nil {
			return nil, status.Errorf(status.Internal, "program %q: canonical form: %w", v.Program.Name, err)
		}
		return &unit{Unit: backends.Unit{Source: v, IR: f, Hash: f.Hash()}, srcs: srcs}, nil
	})
	p.analysis = sync.OnceValue(func() *analysis.Analysis {
		u, err := p.canonical()
		if err != nil {
			return nil
		}
		return analysis.New(u.IR)
	})
	for i, s := range v.Program.Slots {
		if s.Name == isa.BoundarySlot {
			p.Boundary = i
		}
	}
	for _, inst := range v.Program.Insts {
		switch inst.Op {
		case isa.RES_ACCUM:
			p.Residue = true
		case isa.PHASE_GET, isa.PHASE_ADV:
			p.Phase = true
		}
	}
	return p
}

// Source returns the program as written.
func (p *Program) Source() *isa.Program { return p.Verified.Program }

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

// Proved reports whether every access of a launch lies within its slot, and
// nothing else in it faults, as its sizes alone show.
func (p *Program) Proved(l *analysis.Launch) bool {
	a := p.analysis()
	if a == nil {
		return false
	}
	var proof analysis.Proof
	a.Prove(l, &proof)
	return proof.All()
}

// Kernel returns the program's kernel for a device, which the caller releases.
func (p *Program) Kernel(c *Cache, v backends.Variant) (*Kernel, error) {
	u := &unit{Unit: backends.Unit{Source: p.Verified}}
	if c.Info.RunsSource {
		u.Hash = p.Source().Hash()
		if c, err := p.canonical(); err == nil { // else the estimate of its cost has no bound
			u.IR = c.IR
		}
	} else {
		var err error
		if u, err = p.canonical(); err != nil {
			return nil, err
		}
	}
	k, err := c.get(&u.Unit, v)
	if err != nil {
		return nil, status.FromBackend("program "+strconv.Quote(p.Source().Name), err)
	}
	return k, nil
}

// fault turns what a backend reports into the instruction as written.
func (p *Program) fault(what string, f *backends.ProgramFault, sources bool) error {
	inst := f.Site
	if !sources {
		u, err := p.canonical()
		if err != nil || f.Site < 0 || f.Site >= len(u.srcs) {
			return status.Errorf(status.Internal, "%s: %w", what, f)
		}
		inst = u.srcs[f.Site]
	}
	src := p.Source()
	fault := &status.Fault{Kind: f.Kind, Program: src.Name, Inst: inst, Lane: f.Lane}
	place := "instruction " + strconv.Itoa(inst)
	if inst >= 0 && inst < len(src.Debug.Lines) {
		fault.Line = int(src.Debug.Lines[inst])
		place = "line " + strconv.Itoa(fault.Line)
		if fault.Line >= 1 && fault.Line <= len(src.Debug.Text) {
			place += " (" + strings.TrimSpace(src.Debug.Text[fault.Line-1]) + ")"
		}
	}
	e := status.Errorf(status.Faulted, "%s: %v in lane %d at %s; the launch ran to its end, and outputs keep what was written",
		what, f.Kind, f.Lane, place)
	e.Fault, e.Cause = fault, f
	return e
}

// Outcome turns the outcome of a launch that what names into an Error. sources
// says that fault sites are instructions (backends.Info.RunsSource).
func (p *Program) Outcome(what string, err error, sources bool) error {
	if err == nil {
		return nil
	}
	var f *backends.ProgramFault
	if errors.As(err, &f) {
		return p.fault(what, f, sources)
	}
	return status.FromBackend(what, err)
}

// Lines returns the text of each instruction.
func (p *Program) Lines() []string {
	src := p.Source()
	if len(src.Debug.Lines) != len(src.Insts) {
		// From the binary form: what the disassembler would write.
		again, err := isa.Assemble("", p.Disassemble())
		if err != nil || len(again.Insts) != len(src.Insts) {
			return make([]string, len(src.Insts))
		}
		src = again
	}
	texts := make([]string, len(src.Insts))
	for i, n := range src.Debug.Lines {
		if int(n) >= 1 && int(n) <= len(src.Debug.Text) {
			text, _, _ := strings.Cut(src.Debug.Text[n-1], ";")
			texts[i] = strings.TrimSpace(text)
		}
	}
	return texts
}
