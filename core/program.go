package core

import (
	"slices"
	"strings"

	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// Program is a verified Atlas program, ready for any device. It is immutable but
// for the calls that it has prepared.
type Program struct {
	p *program.Program

	mu     lock.RWMutex[lock.Last]
	calls  map[*Device]*call.Table
	closed bool
}

// Assemble makes a program of its text. file is what errors call the text.
func Assemble(file, text string, stop Stop) (*Program, error) {
	return made(program.Assemble(file, text, stop))
}

// Decode makes a program of its binary form.
func Decode(data []byte, stop Stop) (*Program, error) { return made(program.Decode(data, stop)) }

func made(p *program.Program, err error) (*Program, error) {
	if err != nil {
		return nil, err
	}
	return &Program{p: p, calls: map[*Device]*call.Table{}}, nil
}

// preparedLaunches is how many prepared launches a program keeps for a device, at most: so
// many that a few hundred shapes of parameters have room, wherever their hashes fall.
const preparedLaunches = 4096

// table returns the program's prepared launches on a device.
func (p *Program) table(d *Device) *call.Table {
	p.mu.RLock()
	t := p.calls[d]
	p.mu.RUnlock()
	if t != nil {
		return t
	}
	p.mu.Lock()
	closed := p.closed
	if t = p.calls[d]; t == nil {
		t = call.NewTable(&d.call, preparedLaunches)
		if !closed {
			p.calls[d] = t
		}
	}
	p.mu.Unlock()
	if closed {
		t.Close() // it serves this launch alone
	}
	return t
}

// Close lets go of the prepared launches, and so of compiled kernels. Launches
// under way end as they would.
func (p *Program) Close() {
	p.mu.Lock()
	tables := p.calls
	p.calls, p.closed = map[*Device]*call.Table{}, true
	p.mu.Unlock()
	for _, t := range tables {
		t.Close()
	}
}

// Source returns the program as written.
func (p *Program) Source() *isa.Program { return p.p.Source() }

// Verified returns the program as verified.
func (p *Program) Verified() *isa.Verified { return p.p.Verified }

// Residue reports whether launches of the program accumulate residues.
func (p *Program) Residue() bool { return p.p.Residue }

// Disassemble returns the program's text.
func (p *Program) Disassemble() string { return p.p.Disassemble() }

// Encode returns the program's binary form.
func (p *Program) Encode() []byte { return p.p.Encode() }

// Hash returns the hash of the canonical form: equal for programs that compute
// the same in the ways that SEMANTICS lists.
func (p *Program) Hash(stop Stop) ([32]byte, error) { return p.p.Hash(stop) }

// Canonical returns a readable dump of the canonical form.
func (p *Program) Canonical(stop Stop) (string, error) { return p.p.Canonical(stop) }

// Analysis returns what is known of the program before any launch, as text to
// read, and by which engine the CPU would run it.
func (p *Program) Analysis(stop Stop) (string, error) { return p.p.Analysis(stop, onCPU) }

// Stage returns a form of the program on its way to the CPU's machine code as text:
// "ir", the canonical form, or one of those after it, which Stages lists; for the
// engine of that name, or, if it is empty, the one that runs the program here.
func (p *Program) Stage(engine, stage string, stop Stop) (string, error) {
	if engines := engines(); engine != "" && !slices.Contains(engines, engine) {
		return "", Errorf(Invalid, "program_stage: engine is %q; those that make machine code are %s", engine, strings.Join(engines, ", "))
	}
	if stages := stages(); !slices.Contains(stages, stage) {
		return "", Errorf(Invalid, "program_stage: stage is %q; expected one of %s", stage, strings.Join(stages, ", "))
	}
	if stage == canonicalStage {
		return p.p.Canonical(stop)
	}
	return p.p.Stage(stop, func(m *work.Meter, f *ir.Func, lines []string) (string, error) {
		return dumped(m, f, lines, engine, stage)
	})
}
