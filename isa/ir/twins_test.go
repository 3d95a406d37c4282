package ir

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// twins writes a program with two variables, x and y, that start alike and to
// which the same is done wherever lanes go, but in one place.
type twins struct {
	strings.Builder
	r      *rand.Rand
	labels int
	out    []string // labels that a branch may go to
	depth  int      // of constructs that may still be within
	places int      // so far
	ways   []int    // those of them on a way that only some lanes take
	differ int      // the place where y gets another number than x
}

func (w *twins) line(format string, a ...any) { fmt.Fprintf(w, "  "+format+"\n", a...) }

func (w *twins) label() string {
	w.labels++
	return fmt.Sprintf("l%d", w.labels)
}

// condition sets p by a number that is another each time.
func (w *twins) condition() {
	one, other := w.r.IntN(32), w.r.IntN(32)
	w.line("add.u32 v, v, 0x9e3779b9\n  and.u32 t, v, %d\n  set.eq.u32 p, t, 0", 1<<one|1<<other)
}

// place does the same to both, unless it is the one that differs.
func (w *twins) place() {
	c := w.r.IntN(4)
	form := []string{"mov.u32 %[1]s, %d", "add.u32 %[1]s, %[1]s, %d", "xor.u32 %[1]s, %[1]s, %d", "mad.u32 %[1]s, %[1]s, 5, %d", "sub.u32 %[1]s, v, %d"}[w.r.IntN(5)]
	other := c
	if w.places == w.differ {
		other += 4
	}
	w.places++
	w.line(form, "x", c)
	w.line(form, "y", other)
}

// body writes statements, from which branches may go to one label more.
func (w *twins) body(out ...string) {
	was := w.out
	w.out = append(append([]string(nil), was...), out...)
	w.depth--
	for range 1 + w.r.IntN(3) {
		w.statement()
	}
	w.depth++
	w.out = was
}

func (w *twins) statement() {
	kind := w.r.IntN(10)
	if w.depth < 0 {
		kind = w.r.IntN(6)
	}
	switch kind {
	case 0, 1:
		w.place()
	case 2, 3, 4: // out of here, some lanes with numbers of their own
		if len(w.out) == 0 {
			return
		}
		stay := w.label()
		w.condition()
		w.line("bra %s, p", stay)
		if w.r.IntN(4) > 0 {
			w.ways = append(w.ways, w.places)
			w.place()
		}
		w.line("bra %s\n%s:", w.out[w.r.IntN(len(w.out))], stay)
	case 5: // past what the others do, from within
		other, end := w.label(), w.label()
		for range 1 + w.r.IntN(2) {
			w.condition()
			w.line("bra %s, p", other)
		}
		w.ways = append(w.ways, w.places)
		w.place()
		w.line("bra %s\n%s:", end, other)
		w.place()
		w.line("%s:", end)
	case 6, 7:
		other, end := w.label(), w.label()
		w.condition()
		w.line("bra %s, p", other)
		w.body(end)
		w.line("bra %s\n%s:", end, other)
		if kind == 6 {
			w.body(end)
		}
		w.line("%s:", end)
	case 8:
		end := w.label()
		w.body(end)
		w.line("%s:", end)
	default:
		next, out := w.label(), w.label()
		w.line("and.u32 n, v, 3\n  loop n, %s", next)
		w.body(next, out)
		w.line("%s:\n  mov.u32 t, 0\n%s:", next, out)
	}
}

func twinProgram(seed uint64, differ int) *twins {
	w := &twins{r: rand.New(rand.NewPCG(seed, 3)), depth: 1 + int(seed%3), differ: differ}
	w.WriteString("program twins\nslot in u32\nslot a u32\nslot b u32\n")
	w.line("ldg.u32 v, in[index]\n  mov.u32 x, 1\n  mov.u32 y, 1\n  loop 3, next")
	w.body("next", "out")
	w.line("add.u32 v, v, 1\nnext:\n  mov.u32 t, 0\nout:\n  stg.u32 x, a[index]\n  stg.u32 y, b[index]\n  exit")
	return w
}

// Two values that control flow carries are one where they are equal whichever way
// lanes come, and only there: all is alike but for one number on one of the ways.
func TestTwinsThatDifferOnOneWay(t *testing.T) {
	const n = 24
	for seed := range uint64(brief.Or(250, 80)) {
		r := rand.New(rand.NewPCG(seed, 4))
		alike := twinProgram(seed, -1)
		differ := r.IntN(alike.places + 1) // perhaps none
		if len(alike.ways) > 0 && seed%4 > 0 {
			differ = alike.ways[r.IntN(len(alike.ways))]
		}
		text := twinProgram(seed, differ).String()
		v := verified(t, text)
		slots := [][]byte{make([]byte, 4*n), make([]byte, 4*n), make([]byte, 4*n)}
		for i := range n {
			binary.LittleEndian.PutUint32(slots[0][4*i:], r.Uint32())
		}
		f := canonical(t, v)
		for range 4 {
			at := r.IntN(n)
			g, w := newMachine(v.Program, slots, nil, at), newMachine(v.Program, slots, nil, at)
			if gEnds, wEnds := g.walkGraph(v), w.walkTree(f); gEnds != wEnds || g.state() != w.state() {
				t.Fatalf("seed %d, lane %d: graph\n%s\ntree\n%s\n%v\n%s", seed, at, g.state(), w.state(), f, text)
			}
		}
	}
}

// nest does the same to both in one expression, depth operations deep, of whose leaves one
// may differ. What it is of is returned.
func (w *twins) nest(depth int) [2]string {
	if depth == 0 {
		c := w.r.IntN(4)
		other := c
		if w.places == w.differ {
			other = (c + 1 + w.r.IntN(3)) % 4
		}
		w.places++
		return [2]string{[]string{"x", "v", "0x1p-3", "0x3p+0"}[c], []string{"y", "v", "0x1p-3", "0x3p+0"}[other]}
	}
	op := []string{"fma", "fma", "add", "sub", "mul", "min"}[w.r.IntN(6)]
	args := make([][2]string, 2, 3)
	if op == "fma" {
		args = args[:3]
	}
	for i, deep := 0, w.r.IntN(len(args)); i < len(args); i++ {
		if args[i] = w.nest(0); i == deep {
			args[i] = w.nest(depth - 1)
		}
	}
	w.labels++
	var to [2]string
	for i, of := range []string{"x", "y"} {
		to[i] = fmt.Sprintf("%s%d", of, w.labels)
		first := 0
		if i == 1 && op != "sub" {
			first = w.r.IntN(2) // the other way round is the same
		}
		line := fmt.Sprintf("%s.f32 %s, %s, %s", op, to[i], args[first][i], args[1-first][i])
		if op == "fma" {
			line += ", " + args[2][i]
		}
		w.line("%s", line)
	}
	return to
}

// Two values that a loop carries are one where what is done to both is the same in
// each operand, however deep, and only there.
func TestTwinsThatDifferDeepWithin(t *testing.T) {
	brief.Alone(t)
	const n = 8
	for seed := range uint64(brief.Or(2000, 600)) {
		program := func(differ int) *twins {
			w := &twins{r: rand.New(rand.NewPCG(seed, 5)), differ: differ}
			w.WriteString("program twins\nslot in f32\nslot a f32\nslot b f32\n")
			w.line("ldg.f32 v, in[index]\n  mov.f32 x, 1\n  mov.f32 y, 1\n  loop 3, next")
			to := w.nest(1 + w.r.IntN(6))
			w.line("mov.f32 x, %s\n  mov.f32 y, %s\nnext:\n  stg.f32 x, a[index]\n  stg.f32 y, b[index]\n  exit", to[0], to[1])
			return w
		}
		r := rand.New(rand.NewPCG(seed, 6))
		text := program(r.IntN(program(-1).places+1) - 1).String() // perhaps none
		v := verified(t, text)
		slots := [][]byte{make([]byte, 4*n), make([]byte, 4*n), make([]byte, 4*n)}
		for i := range n {
			binary.LittleEndian.PutUint32(slots[0][4*i:], math.Float32bits(4*r.Float32()-2))
		}
		f := canonical(t, v)
		for at := range n {
			g, w := newMachine(v.Program, slots, nil, at), newMachine(v.Program, slots, nil, at)
			if gEnds, wEnds := g.walkGraph(v), w.walkTree(f); gEnds != wEnds || g.state() != w.state() {
				t.Fatalf("seed %d, lane %d: graph\n%s\ntree\n%s\n%v\n%s", seed, at, g.state(), w.state(), f, text)
			}
		}
	}
}
