// Package program is core's room for programs: verified, brought to their
// canonical form on first use, and compiled for devices by way of their caches.
package program

import (
	"errors"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
	"github.com/hologram-project/hologram/kernels"
)

// Program is a verified Atlas program, ready for any device. It is immutable.
type Program struct {
	Verified *isa.Verified
	// Residue says that launches of it accumulate residues, Phase that they read
	// or change the phase. Boundary is the slot of Φ-addresses, or -1.
	Residue, Phase bool
	Boundary       int
	asks           bool // the canonical form is given more than its parameters
	flat, isPacked bool // it has flat addresses; its canonical form is ir.Packed's
	packed         once[*Program]
	meeting        kernels.Meeting

	canonical once[*unit]
	analysis  once[*analysis.Analysis]
}

// unit is what a backend compiles, and the way back to the source.
type unit struct {
	backends.Unit
	srcs ir.Srcs
}

// Assemble makes a program of its text. file is what errors call the text.
func Assemble(file, text string, stop Stop) (*Program, error) {
	return alone("assemble", "assemble "+strconv.Quote(file), len(text)/leastText, stop, func(m *work.Meter) (*Program, error) {
		p, err := isa.AssembleMetered(m, file, text)
		if err != nil {
			return nil, status.Errorf(status.Syntax, "%w", err)
		}
		return verify(p, m)
	})
}

// leastText is how many bytes of a program's text an instruction takes at least, or nearly.
const leastText = 16

// Decode makes a program of its binary form.
func Decode(data []byte, stop Stop) (*Program, error) {
	return alone("decode", "decode", len(data)/leastText, stop, func(m *work.Meter) (*Program, error) {
		p, err := isa.Decode(data)
		if err != nil {
			return nil, status.Errorf(status.Syntax, "%w", err)
		}
		return verify(p, m)
	})
}

func verify(p *isa.Program, m *work.Meter) (*Program, error) {
	v, err := isa.VerifyMetered(m, p)
	if err != nil {
		return nil, status.Errorf(status.Unverified, "%w", err)
	}
	return New(v), nil
}

// OfStep makes a program of a plan's step.
func OfStep(s *kernels.Step) *Program {
	p := New(s.Program)
	p.meeting = s.Meeting
	return p
}

// New makes a program of its verified form.
func New(v *isa.Verified) *Program {
	p := &Program{Verified: v, Boundary: -1}
	for i, s := range v.Program.Slots {
		if s.Name == isa.BoundarySlot {
			p.Boundary = i
		}
	}
	for _, use := range v.Slots {
		p.flat = p.flat || use.Flat
	}
	p.asks = p.flat
	for _, inst := range v.Program.Insts {
		switch inst.Op {
		case isa.SREG:
			p.asks = p.asks || inst.Args[1].Bits > uint64(isa.N)
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

// size is how many instructions the program has.
func (p *Program) size() int { return len(p.Source().Insts) }

// what names the program in errors.
func (p *Program) what() string { return "program " + strconv.Quote(p.Source().Name) }

// unit returns the canonical form.
func (p *Program) unit(stop Stop) (*unit, error) {
	return p.canonical.get("canonical form", p.what(), p.size(), stop, func(m *work.Meter) (*unit, error) {
		opts := []ir.Option{ir.Metered(m)}
		if p.isPacked {
			opts = append(opts, ir.Packed())
		}
		f, srcs, err := ir.Canonical(p.Verified, opts...)
		if large := (*ir.SizeError)(nil); errors.As(err, &large) {
			return nil, status.Errorf(status.Unverified, "%s: %w", p.what(), err)
		} else if err != nil {
			return nil, status.Errorf(status.Internal, "%s: canonical form: %w", p.what(), err)
		}
		return &unit{Unit: backends.Unit{Source: p.Verified, IR: f, Hash: f.Hash(), Meeting: p.meeting}, srcs: srcs}, nil
	})
}

// Hash returns the hash of the canonical form: equal for programs that compute
// the same in the ways that SEMANTICS lists.
func (p *Program) Hash(stop Stop) ([32]byte, error) {
	u, err := p.unit(stop)
	if err != nil {
		return [32]byte{}, err
	}
	return u.Hash, nil
}

// Canonical returns a readable dump of the canonical form.
func (p *Program) Canonical(stop Stop) (string, error) {
	u, err := p.unit(stop)
	if err != nil {
		return "", err
	}
	return alone("print", p.what(), p.size(), stop, u.IR.Text)
}

// Analysis returns what is known of the program before any launch, as text to
// read: what kind of program it is, where its accesses go, its loops; and, on a
// last line, what engine says of the canonical form.
func (p *Program) Analysis(stop Stop, engine func(*work.Meter, *ir.Func) (string, error)) (string, error) {
	u, err := p.unit(stop)
	if err != nil {
		return "", err
	}
	a, err := p.analysed(u, stop)
	if err != nil {
		return "", err
	}
	return alone("print", p.what(), p.size(), stop, func(m *work.Meter) (string, error) {
		by, err := engine(m, u.IR)
		if err != nil {
			return "", err
		}
		return a.String() + "  " + by + "\n", nil
	})
}

// Stage returns what dump makes of the canonical form and of the text of each
// instruction.
func (p *Program) Stage(stop Stop, dump func(m *work.Meter, f *ir.Func, lines []string) (string, error)) (string, error) {
	u, err := p.unit(stop)
	if err != nil {
		return "", err
	}
	return alone("print", p.what(), p.size(), stop, func(m *work.Meter) (string, error) {
		text, err := dump(m, u.IR, p.Lines())
		if err != nil {
			return "", status.FromBackend(p.what(), err)
		}
		return text, nil
	})
}

func (p *Program) analysed(u *unit, stop Stop) (*analysis.Analysis, error) {
	return p.analysis.get("analyse", p.what(), p.size(), stop, func(m *work.Meter) (*analysis.Analysis, error) {
		return analysis.NewMetered(m, u.IR)
	})
}

// Proved reports whether every access of a launch lies within its slot, and
// nothing else in it faults, as its sizes alone show.
func (p *Program) Proved(l *analysis.Launch, stop Stop) (bool, error) {
	u, err := p.unit(stop)
	if err != nil {
		return false, err
	}
	a, err := p.analysed(u, stop)
	if err != nil {
		return false, err
	}
	var proof analysis.Proof
	a.Prove(l, &proof)
	return proof.All(), nil
}

// Packed returns what to run instead in launches of the sizes of l, of which all
// flat slots are bound to packed views: p itself, or, if its accesses to them are
// shown to stay inside, the program in the form that engines know best.
func (p *Program) Packed(l *analysis.Launch, stop Stop) (*Program, error) {
	u, err := p.unit(stop)
	if err != nil {
		return nil, err
	}
	a, err := p.analysed(u, stop)
	if err != nil {
		return nil, err
	}
	var proof analysis.Proof
	a.Prove(l, &proof)
	for i, inst := range u.srcs {
		in := &p.Source().Insts[inst]
		for k := range in.Args {
			if in.Args[k].Kind == isa.ArgAddr && in.Args[k].Mode == isa.AddrFlat && !proof.Site(i) {
				return p, nil
			}
		}
	}
	return p.packed.get("analyse", p.what(), p.size(), stop, func(*work.Meter) (*Program, error) {
		q := New(p.Verified)
		q.isPacked, q.meeting = true, p.meeting
		return q, nil
	})
}

// Give tells a launch on a device what the program asks for beside its parameters.
func (p *Program) Give(l *backends.Launch, info *backends.Info, stop Stop) error {
	if !p.asks {
		return nil
	}
	u, err := p.unit(stop)
	switch {
	case err == nil:
		l.Give(u.IR)
	case !info.RunsSource || status.CodeOf(err) == status.Cancelled:
		return err
	}
	return nil
}

// Kernel returns the program's kernel for a device, which the caller releases.
func (p *Program) Kernel(c *Cache, v backends.Variant, stop Stop) (*Kernel, error) {
	u, err := p.unit(stop)
	if c.Info.RunsSource {
		source := &unit{Unit: backends.Unit{Source: p.Verified, Hash: p.Source().Hash()}}
		switch {
		case err == nil:
			source.IR = u.IR
		case status.CodeOf(err) == status.Cancelled:
			return nil, err
		} // else the estimate of its cost has no bound
		u = source
	} else if err != nil {
		return nil, err
	}
	k, err := c.get(p.what(), &u.Unit, v, stop)
	if err != nil {
		return nil, status.FromBackend(p.what(), err)
	}
	return k, nil
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
	lines := strings.Split(src.Debug.Text, "\n")
	for i, n := range src.Debug.Lines {
		if int(n) >= 1 && int(n) <= len(lines) {
			text, _, _ := strings.Cut(lines[n-1], ";")
			texts[i] = strings.TrimSpace(text)
		}
	}
	return texts
}
