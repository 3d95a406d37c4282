package call

import (
	"sync"

	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// libraryPrograms are the programs of plans, which live as long as the process.
var libraryPrograms sync.Map // from ofStep to *program.Program

type ofStep struct {
	program *isa.Verified
	meeting kernels.Meeting
}

func libraryProgram(s *kernels.Step) *program.Program {
	key := ofStep{s.Program, s.Meeting}
	if p, ok := libraryPrograms.Load(key); ok {
		return p.(*program.Program)
	}
	p, _ := libraryPrograms.LoadOrStore(key, program.OfStep(s))
	return p.(*program.Program)
}
