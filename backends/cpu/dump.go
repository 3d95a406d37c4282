package cpu

import (
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// levels are what machine code is made for.
var levels = []jit.Level{jit.AVX2, jit.AVX512}

// Engines lists the names of the engines that make machine code.
func Engines() (names []string) {
	for _, l := range levels {
		names = append(names, l.String())
	}
	return names
}

// Stages lists the forms that Dump shows, in their order.
func Stages() (names []string) {
	for _, s := range jit.Stages {
		names = append(names, string(s))
	}
	return names
}

// Dump returns one of Stages of a program on its way to machine code as text: to that
// of one of Engines, which need not be the machine's, or, if engine is empty, of the
// one that runs the program here. lines has the text of each instruction of the
// program as written. m, which may be nil, counts the work.
func Dump(m *work.Meter, f *ir.Func, lines []string, engine, stage string) (string, error) {
	how := ""
	if engine == "" {
		var err error
		if how, err = Explain(m, f); err != nil {
			return "", err
		}
	}
	for _, l := range levels {
		if engine != l.String() && (how == "" || !strings.HasPrefix(how, compiler(l).name)) {
			continue
		}
		if size := sizeOf(f.Body, 0); size > maxMachineCode {
			return "", tooLarge()
		}
		return jit.Dump(m, f, l, jit.Stage(stage), lines)
	}
	return "", &backends.Unsupported{Backend: "cpu", What: "stage " + stage,
		Why: "the program runs by " + how + ", which makes no machine code; an engine that does can be named"}
}
