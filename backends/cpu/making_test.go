package cpu_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/hologram-project/hologram/isa/isatest/shapes"
	"github.com/hologram-project/hologram/isa/work"
)

// generators write large programs: every shape, and the random programs of
// every kind, n instructions or about as many.
func generators() []shapes.Shape {
	all := append([]shapes.Shape(nil), shapes.All...)
	for name, cfg := range map[string]progen.Config{
		"random": {}, "random, lanes": {Lanes: true}, "random, math": {Math: true},
		"random, Atlas": {Atlas: true, Faults: true}, "random, crowded": {Crowded: true, Lanes: true},
	} {
		all = append(all, shapes.Shape{Name: name, Text: func(n int) string {
			for cfg.Size = n; ; cfg.Size = cfg.Size * 3 / 4 {
				if c := progen.New(isatest.FromSeed(1), cfg); len(c.Program.Insts) <= max(n, 60000) {
					return isa.Disassemble(c.Program)
				}
			}
		}})
	}
	return all
}

// made is what a text took from its assembling to its kernel, or to the limit
// that refused it.
type made struct {
	text, size int // bytes: of the text, and of it with calls and functions written out
	refused    error
	live       uint64 // the most bytes in use at a time, beyond those before
	heap       uint64 // likewise with what was not yet collected
	allocated  uint64 // all together
	steps      int64  // as the meter counts them
	processor  time.Duration
	gap        time.Duration // the longest time between two questions whether to go on
}

// measure makes a text. If exact, it collects the garbage each time that as
// much as a few times the text was allocated, so that live is known.
func measure(text string, exact bool) (m made, err error) {
	m.text = len(text)
	var base, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&base)
	collected := base.TotalAlloc
	last := time.Now()
	used := func() uint64 {
		runtime.ReadMemStats(&now)
		sum := now.HeapAlloc + now.StackInuse
		return sum - min(sum, base.HeapAlloc+base.StackInuse)
	}
	look := func() error {
		m.gap = max(m.gap, time.Since(last))
		defer func() { last = time.Now() }()
		m.heap = max(m.heap, used())
		if exact && now.TotalAlloc-collected > 4*uint64(len(text)) {
			runtime.GC()
			m.live = max(m.live, used())
			collected = now.TotalAlloc
		}
		return nil
	}
	meter := work.New(look)
	s := &making{text: text}
	start := processorTime()
	for _, stage := range stages[:4] {
		err := stage.run(s, meter)
		if err == nil {
			_ = look()
			continue
		}
		var size *ir.SizeError
		var rule *isa.VerifyError
		if !errors.As(err, &size) && !(errors.As(err, &rule) && rule.Rule == "inline") {
			return m, err
		}
		m.refused = err
		break
	}
	m.processor = processorTime() - start
	_ = look()
	m.allocated, m.steps = now.TotalAlloc-base.TotalAlloc, meter.Steps()
	m.size = writtenOut(s)
	return m, nil
}

// expandedBytes is how much of a text an operation that a function expands to
// counts for.
const expandedBytes = 20

// writtenOut is the length of s's text with the lines of called code in place
// of each call, and what functions expand to in place of them; at least that of
// the text.
func writtenOut(s *making) int {
	size := len(s.text)
	if s.verified == nil {
		return size
	}
	lines, inlined := strings.Split(s.text, "\n"), 0
	for i := range s.verified.Graph.Blocks {
		b := &s.verified.Graph.Blocks[i]
		for _, in := range b.Code {
			inlined += len(lines[s.program.Debug.Lines[in.Src]-1]) + 1
		}
		if b.Term.Src >= 0 {
			inlined += len(lines[s.program.Debug.Lines[b.Term.Src]-1]) + 1
		}
	}
	size = max(size, inlined)
	if s.f == nil {
		return size
	}
	if f, err := ir.Expand(s.f); err == nil {
		size += expandedBytes * (nodes(f.Body) - nodes(s.f.Body))
	}
	return size
}

func nodes(r *ir.Region) int {
	count := len(r.Nodes)
	for _, n := range r.Nodes {
		for _, sub := range n.Regions {
			count += nodes(sub)
		}
	}
	return count
}

// processorTime is what this process has used; 0 where nobody says.
var processorTime = func() time.Duration { return 0 }

// A program takes at most 40 times its size of memory at once while it is made,
// with calls and functions written out, or is refused by a limit: with what is not
// collected yet, and the texts that a caller has, 50 times.
func TestMakingTakesFortyTimesTheProgram(t *testing.T) {
	if brief.On() {
		t.Skip("the race detector's own memory cannot be told apart, and small programs' share of what is there at once tells nothing")
	}
	const n = 60000
	for _, g := range generators() {
		m, err := measure(g.Text(n), true)
		require.NoError(t, err, g.Name)
		t.Logf("%s: %.1f times", g.Name, float64(m.live)/float64(m.size))
		require.LessOrEqual(t, m.live, 40*uint64(m.size), "%s: %d bytes of text, %d written out, %d live, refused: %v", g.Name, m.text, m.size, m.live, m.refused)
	}
}

// BenchmarkMaking assembles, verifies, brings into canonical form and compiles
// large programs of every generator:
//
//	go test ./backends/cpu -run '^$' -bench Making -benchtime 1x
//
// ns/op is time that passed, cpu-ms the processor's, the collector's threads
// included. The rest are bytes for a byte of the program, with calls and
// functions written out: live is the most in use at once (collected often, and
// not in ns/op), heap with garbage as it happens to lie there, allocated all
// together. gap-ms is the longest time that passed between two questions whether
// to go on, which is how late it may heed Ctrl-C. refused is 1 where a limit
// ended it.
func BenchmarkMaking(b *testing.B) {
	for _, g := range generators() {
		b.Run(strings.ReplaceAll(g.Name, " ", "-"), func(b *testing.B) {
			text := g.Text(60000)
			exact, err := measure(text, true)
			require.NoError(b, err)
			best := made{processor: math.MaxInt64}
			b.ResetTimer()
			for b.Loop() {
				m, err := measure(text, false)
				require.NoError(b, err)
				if m.processor < best.processor {
					best = m
				}
			}
			per := func(v uint64) float64 { return float64(v) / float64(exact.size) }
			b.ReportMetric(float64(best.processor.Microseconds())/1000, "cpu-ms")
			b.ReportMetric(float64(best.gap.Microseconds())/1000, "gap-ms")
			b.ReportMetric(float64(exact.text)/1000, "KB")
			b.ReportMetric(float64(exact.size)/1000, "written-KB")
			b.ReportMetric(per(exact.live), "live")
			b.ReportMetric(per(best.heap), "heap")
			b.ReportMetric(per(best.allocated), "allocated")
			refused := 0.0
			if exact.refused != nil {
				refused = 1
			}
			b.ReportMetric(refused, "refused")
		})
	}
}
