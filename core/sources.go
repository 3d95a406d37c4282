package core

import (
	"errors"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cuda"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// sources lists the backends. A test-only one joins in sources_asynctest.go.
var sources = []source{
	{name: "cpu", make: func() backends.Backend { return cpu.New(0) }},
	{name: "interp", make: func() backends.Backend { return interp.New() }},
	{name: "cuda", make: func() backends.Backend { return cuda.New() }},
	{name: "metal", reason: "this version of Hologram has no Metal backend"},
}

// onCPU tells by which engine the CPU runs a program.
func onCPU(m *work.Meter, f *ir.Func) (string, error) {
	how, err := cpu.Explain(m, f)
	if none := (*backends.Unsupported)(nil); errors.As(err, &none) {
		return "on the CPU by none: " + none.Why, nil
	}
	return "on the CPU by " + how, err
}

// canonicalStage is the first of stages, which is the same for all engines.
const canonicalStage = "ir"

// stages are the forms of a program that can be shown.
func stages() []string { return append([]string{canonicalStage}, cpu.Stages()...) }

// engines are those that make machine code.
func engines() []string { return cpu.Engines() }

// dumped returns one of stages but the first.
func dumped(m *work.Meter, f *ir.Func, lines []string, engine, stage string) (string, error) {
	return cpu.Dump(m, f, lines, engine, stage)
}
