package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// writer writes random programs whose lanes diverge in nested branches and
// loops and leave them in all ways there are.
type writer struct {
	strings.Builder
	r      *rand.Rand
	labels int
	inside []string // labels that a branch may go to: ends of constructs around
	budget int
	stores map[string]bool // types that something was stored in by bytes
	limits bool            // lanes may go by limits
	often  string          // what lanes do atomically to memory of the launch,
	odd    int             // and how far from multiples of its size
	own    int             // in the slot of that name: lane 0's element
}

const registers = 6

func (w *writer) reg() string { return fmt.Sprintf("v%d", w.r.IntN(registers)) }

func (w *writer) label() string {
	w.labels++
	return fmt.Sprintf("l%d", w.labels)
}

func (w *writer) line(format string, a ...any) { fmt.Fprintf(w, "  "+format+"\n", a...) }

// condition sets p from registers, some of them the same in all lanes.
func (w *writer) condition() {
	x := w.reg()
	switch w.r.IntN(4) {
	case 0:
		w.line("set.lt.u32 p, %s, %s", x, w.reg())
	case 1:
		w.line("and.u32 t, block, 1")
		w.line("set.eq.u32 p, t, 0")
	default:
		w.line("and.u32 t, %s, %d", x, 1<<w.r.IntN(6))
		w.line("set.eq.u32 p, t, 0")
	}
}

func (w *writer) statement(depth int) {
	w.budget--
	kinds := 12
	switch {
	case depth == 0 || w.budget < 0:
		kinds = 8
	case w.limits:
		kinds = 14
	}
	switch w.r.IntN(kinds) {
	case 0, 1, 2:
		op := []string{"add", "sub", "mul", "xor", "min", "max", "shr", "and", "or"}[w.r.IntN(9)]
		w.line("%s.u32 %s, %s, %s", op, w.reg(), w.reg(), w.reg())
	case 3:
		w.line("div.u32 %s, %s, %s", w.reg(), w.reg(), w.reg())
	case 4:
		w.line("add.u32 %s, %s, %d", w.reg(), w.reg(), w.r.IntN(100))
	case 5:
		w.line("and.u32 t, %s, 0x3ff", w.reg())
		w.line("ldg.u32 %s, in[t + %d]", w.reg(), w.r.IntN(8)-4)
	case 6:
		w.line("stg.u32 %s, out[index]", w.reg())
	case 7:
		if len(w.inside) == 0 {
			return
		}
		w.condition()
		w.line("bra %s, %sp", w.inside[w.r.IntN(len(w.inside))], []string{"", "!"}[w.r.IntN(2)])
	case 8, 9:
		other, end := w.label(), w.label()
		w.condition()
		w.line("bra %s, p", other)
		w.body(depth-1, end)
		if w.r.IntN(8) == 0 {
			w.line("exit")
		} else {
			w.line("bra %s", end)
		}
		w.line("%s:", other)
		w.body(depth-1, end)
		w.line("%s:", end)
	case 10:
		end, after := w.label(), w.label()
		if w.r.IntN(2) == 0 {
			w.line("loop %d, %s", w.r.IntN(5), end)
		} else {
			w.line("and.u32 n%d, %s, 7", w.labels, w.reg())
			w.line("loop n%d, %s", w.labels, end)
		}
		w.body(depth-1, end, after)
		w.line("%s:", end)
		w.statement(0)
		w.line("%s:", after)
	case 11:
		// at most some rounds, by a counter of its own
		again, after := w.label(), w.label()
		c := fmt.Sprintf("c%d", w.labels)
		w.line("and.u32 %s, %s, 7", c, w.reg())
		w.line("%s:", again)
		w.line("set.eq.u32 p, %s, 0", c)
		w.line("bra %s, p", after)
		w.line("sub.u32 %s, %s, 1", c, c)
		w.body(depth-1, after)
		if w.r.IntN(2) == 0 {
			w.condition()
			w.line("bra %s, p", again)
			w.body(depth-1, after)
		}
		w.line("bra %s", again)
		w.line("%s:", after)
	case 12, 13:
		w.limited(depth - 1)
	}
}

// body writes some statements from which branches may go to the given labels.
func (w *writer) body(depth int, ends ...string) {
	old := w.inside
	w.inside = append(append([]string(nil), old...), ends...)
	for range 1 + w.r.IntN(4) {
		w.statement(depth)
	}
	w.inside = old
}

// begin writes a program's slots, and fills its registers; end stores what these have come to.
func (w *writer) begin() {
	w.own = w.r.IntN(60) - 30
	w.WriteString("program random\nslot in u32\nslot a u32\nslot out u32\nslot own u32\n")
	w.line("sreg block, block.x")
	w.line("ldg.u32 v0, a[index]")
	w.line("sreg v1, lane.x")
	w.line("shr.u32 v2, v0, 16")
	w.line("mov.u32 v3, 3")
	w.line("mov.u32 v4, block")
	w.line("xor.u32 v5, v0, v1")
}

func (w *writer) end() {
	w.line("add.u32 v0, v0, v1")
	w.line("xor.u32 v0, v0, v2")
	w.line("add.u32 v0, v0, v3")
	w.line("xor.u32 v0, v0, v4")
	w.line("stg.u32 v0, out[index]")
	w.line("exit")
}

func randomProgram(r *rand.Rand) string {
	w := &writer{r: r, budget: 60, limits: r.IntN(2) == 0}
	w.begin()
	for range 3 + r.IntN(5) {
		w.statement(4)
	}
	w.end()
	return w.String()
}

// TestRandomControl compares random programs of branches and loops with the
// interpreter, with and without fuel to run to the end.
func TestRandomControl(t *testing.T) {
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { randomControl(t, on(t, l, 1)) })
	}
}

func randomControl(t *testing.T, tested backends.Backend) {
	count, first := conformance.Seeds(brief.Or(250, 50))
	oracle := interp.New()
	skipped := 0
	for i := first; i < first+uint64(count); i++ {
		r := rand.New(rand.NewPCG(i, 7))
		text := randomProgram(r)
		p, err := isa.Assemble("random.atlas", text)
		if err != nil {
			t.Fatalf("program %d: %v\n%s", i, err, text)
		}
		v, err := isa.Verify(p)
		if err != nil {
			skipped++ // a branch into nowhere makes what follows unreachable or so
			continue
		}
		sh := linear(int64(1+r.IntN(300)), pick[int64](r, 32, 32, 64, 100))
		sh.fuel = []uint64{0, 0, 3, 20}[r.IntN(4)]
		contents := randomContents(r, v, 300)
		want := run(t, oracle, v, sh, contents, nil, nil)
		got := run(t, tested, v, sh, contents, nil, nil)
		if err := same(v, got, want); err != nil {
			t.Fatalf("program %d, fuel %d: %v\n%s", i, sh.fuel, err, text)
		}
	}
	if skipped > count/4 {
		t.Errorf("%d of %d programs don't verify", skipped, count)
	}
}
