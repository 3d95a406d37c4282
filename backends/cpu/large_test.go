package cpu_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/strips"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/shapes"
	"github.com/hologram-project/hologram/isa/work"
)

// making is a text on its way to a kernel.
type making struct {
	text     string
	program  *isa.Program
	verified *isa.Verified
	f        *ir.Func
	kernel   *strips.Kernel
	dump     string
}

// stages are that way.
var stages = []struct {
	name string
	run  func(s *making, m *work.Meter) error
}{
	{"assemble", func(s *making, m *work.Meter) (err error) {
		s.program, err = isa.AssembleMetered(m, "large.atlas", s.text)
		return err
	}},
	{"verify", func(s *making, m *work.Meter) (err error) {
		s.verified, err = isa.VerifyMetered(m, s.program)
		return err
	}},
	{"canonical", func(s *making, m *work.Meter) (err error) {
		s.f, _, err = ir.Canonical(s.verified, ir.Metered(m))
		return err
	}},
	{"compile", func(s *making, m *work.Meter) (err error) {
		s.kernel, err = strips.CompileMetered(m, s.f)
		return err
	}},
	{"text", func(s *making, m *work.Meter) (err error) {
		s.dump, err = s.f.Text(m)
		return err
	}},
}

// cost is what a way took: by stage, steps and bytes allocated for a byte of
// the text. refused is whether a limit ended it.
type cost struct {
	steps, bytes [5]float64
	refused      bool
}

func costOf(t *testing.T, text string) (c cost) {
	t.Helper()
	s := &making{text: text}
	m := work.New(nil)
	var before, after runtime.MemStats
	for i, stage := range stages {
		steps := m.Steps()
		runtime.ReadMemStats(&before)
		err := stage.run(s, m)
		runtime.ReadMemStats(&after)
		c.steps[i] = float64(m.Steps()-steps) / float64(len(text))
		c.bytes[i] = float64(after.TotalAlloc-before.TotalAlloc) / float64(len(text))
		var size *ir.SizeError
		if errors.As(err, &size) {
			require.True(t, size.Carried || size.Constructs, "%v", err)
			c.refused = true
			return c
		}
		require.NoError(t, err, stage.name)
	}
	require.LessOrEqual(t, len(s.dump), max(40*len(text), 32*ir.MaxCarried), "the dump")
	return c
}

// Programs of every shape cost in proportion to their length, at every stage,
// up to the limits; what is beyond those is refused before it costs more.
func TestLargeProgramsCostTheirSize(t *testing.T) {
	brief.Alone(t)
	small, factor := 2000, brief.Or(8, 4)
	for i, shape := range shapes.All {
		if brief.Skips(i, 5) { // what is counted here is the same
			continue
		}
		t.Run(shape.Name, func(t *testing.T) {
			few, many := costOf(t, shape.Text(small)), costOf(t, shape.Text(small*factor))
			if many.refused && !few.refused { // what is not is half as large, but for what branches carry
				many = costOf(t, shape.Text(small*factor/2))
			}
			t.Logf("for a byte of text: steps %.1f, then %.1f; bytes %.0f, then %.0f", few.steps, many.steps, few.bytes, many.bytes)
			for i, stage := range stages {
				// n log n is 1.4 times as much for each here; small programs
				// save some, and a slice that grows has room to spare.
				require.LessOrEqual(t, many.steps[i], 1.6*few.steps[i]+0.5, "steps to %s", stage.name)
				require.LessOrEqual(t, many.bytes[i], 1.6*few.bytes[i]+10, "bytes to %s", stage.name)
			}
		})
	}
}

// What the device compiles, by whichever engine, takes memory in proportion to
// the program, beside a bounded amount.
func TestCompilingIsBounded(t *testing.T) {
	brief.Alone(t)
	d, err := cpu.New(1).Open(0)
	require.NoError(t, err)
	for _, shape := range shapes.All {
		for _, n := range []int{200, 1000, brief.Or(4000, 1000)}[:brief.Or(3, 2)] {
			s := &making{text: shape.Text(n)}
			failed := false
			for _, stage := range stages[:3] {
				failed = failed || stage.run(s, nil) != nil // by a limit
			}
			if failed {
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			k, err := d.Compile(&backends.Unit{Source: s.verified, IR: s.f, Hash: s.f.Hash()}, backends.Variant{})
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			k.Release()
			took := after.TotalAlloc - before.TotalAlloc
			require.Less(t, took, uint64(64<<20+400*len(s.text)), "%s of %d", shape.Name, n)
		}
	}
}

// Each stage stops when it is told to, wherever it is, and says why.
func TestStagesCanBeStopped(t *testing.T) {
	brief.Alone(t)
	why := errors.New("interrupted")
	for _, shape := range shapes.All {
		s := &making{text: shape.Text(brief.Or(1500, 600))}
		for _, stage := range stages {
			asked := 0
			counting := work.New(func() error { asked++; return nil })
			if err := stage.run(s, counting); err != nil {
				break // refused
			}
			for _, at := range []int{min(1, asked), asked / 2, asked} {
				if at < 1 {
					continue // too little work to be asked about
				}
				left := at
				m := work.New(func() error {
					if left--; left <= 0 {
						return why
					}
					return nil
				})
				again := *s
				require.ErrorIs(t, stage.run(&again, m), why, "%s: %s, asked %d times of %d", shape.Name, stage.name, at, asked)
				require.Zero(t, left, "%s: %s went on", shape.Name, stage.name)
			}
		}
	}
}

// A text is refused where it exceeds a limit, not after its end was read, and
// what is wrong with it is told without comparing everything with everything.
func TestHostileTextsAreRefusedEarly(t *testing.T) {
	brief.Alone(t)
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	lines := brief.Or(1<<20, 1<<17)
	const code = "ldg.u32 v, x[index]\n"
	for name, c := range map[string]struct{ text, want string }{
		"labels":           {many(lines, "label%d:\n"), "more than 65536 labels"},
		"labels in a line": {many(lines, "l%d: "), "more than 65536 labels"},
		"instructions":     {many(lines, "add.u32 r0, r0, %d\n"), "more than 65536 instructions"},
		"tables":           {many(lines, "data t%d u8 { 1 }\n"), "more than 1024 tables"},
		"a table":          {"data t u8 {" + strings.Repeat("1,", 4<<20) + "}", "more than 1048576 bytes of tables"},
		"slots":            {many(lines, "slot s%d u8\n"), "more than 64 slots"},
		"unknown labels":   {many(30000, "bra there%d\n") + many(30000, "here%d:\n") + "exit\n", "no label is called there0"},
		"long unknown labels": {many(5000, "bra "+strings.Repeat("there", 40)+"%d\n") + many(5000, strings.Repeat("there", 40)+"x%d:\n") + "exit\n",
			"no label is called there"},
		"unknown slots":     {"slot x u32\n" + code + many(60000, "ldg.u32 v, y%d[index]\n"), "no slot is called y0"},
		"unknown words":     {many(60000, "word%d\n"), "no instruction is called word0"},
		"registers":         {many(60000, "mov.u32 name%d, 1\n") + "exit\n", "no register is left for"},
		"an endless number": {"mov.u32 v, " + strings.Repeat("1", 8<<20), "number of 8388608 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			m := work.New(nil)
			_, err := isa.AssembleMetered(m, "hostile.atlas", c.text)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 20000)
			require.Less(t, m.Steps(), int64(10*isa.MaxInsts+2*isa.MaxDataBytes*4), "steps")
		})
	}
}
