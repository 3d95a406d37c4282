package isa

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mustAssemble assembles text.
func mustAssemble(t testing.TB, text string) *Program {
	t.Helper()
	p, err := Assemble("test.atlas", text)
	require.NoError(t, err)
	return p
}

// dump writes a graph as one line a block: its code by source index, its end.
func dump(g *Graph) string {
	var b strings.Builder
	for i, blk := range g.Blocks {
		fmt.Fprintf(&b, "%d:", i)
		for _, l := range blk.Code {
			fmt.Fprintf(&b, " %d", l.Src)
		}
		t := blk.Term
		switch t.Kind {
		case TermExit:
			b.WriteString(" exit")
		case TermJump:
			fmt.Fprintf(&b, " jump %d", t.To[0])
		case TermBranch:
			fmt.Fprintf(&b, " branch %d %d", t.To[0], t.To[1])
		case TermLoop:
			fmt.Fprintf(&b, " loop %d %d", t.To[0], t.To[1])
		case TermLatch:
			fmt.Fprintf(&b, " latch %d %d", t.To[0], t.To[1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestGraphShape(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"straight", "mov.f32 x, 0\nexit", "0: 0 exit"},
		{"branch", `
			set.eq.i32 p, 1, 2
			bra a, p
			mov.i32 x, 1
			bra b
			a: mov.i32 x, 2
			b: add.i32 y, x, 1
			exit`,
			"0: 0 branch 1 2\n1: 4 jump 3\n2: 2 jump 3\n3: 5 exit"},
		{"both ways alike", `
			set.eq.i32 p, 1, 2
			bra a, p
			a: exit`, "0: 0 exit"},
		{"counted loop", `
			mov.i32 x, 0
			loop 3, end
			add.i32 x, x, 1
			end: exit`, "0: 0 loop 1 2\n1: 2 latch 1 2\n2: exit"},
		{"empty counted loop", "loop 3, end\nend: exit", "0: loop 1 2\n1: latch 1 2\n2: exit"},
		{"counted loop that starts with a loop of branches", `
			set.eq.i32 p, 1, 2
			loop 3, end
			again: bra again, p
			end: exit`, "0: 0 loop 1 4\n1: jump 2\n2: branch 2 3\n3: latch 1 4\n4: exit"},
		{"nested loops with one end", `
			loop 3, end
			loop 4, end
			mem_fence block
			end: exit`, "0: loop 1 4\n1: loop 2 3\n2: 2 latch 2 3\n3: latch 1 4\n4: exit"},
		{"continue and break", `
			set.eq.i32 p, 1, 2
			loop 3, end
			bra end, p
			bra out, !p
			mem_fence block
			end: mem_fence device
			out: exit`, "0: 0 loop 1 5\n1: branch 4 2\n2: branch 6 3\n3: 4 jump 4\n4: latch 1 5\n5: 5 jump 6\n6: exit"},
		{"a loop no round of which ends", `
			loop 3, end
			exit
			end: exit`, "0: loop 1 2\n1: exit\n2: exit"},
		{"while loop at the start", `
			top: mov.i32 x, 1
			bra top`, "0: jump 1\n1: 0 jump 1"},
		{"empty header", `
			set.eq.i32 p, 1, 2
			top: bra mid
			other: mem_fence block
			mid: mem_fence device
			bra other, p
			bra top`, "0: 0 jump 1\n1: jump 2\n2: 3 branch 3 1\n3: 2 jump 2"},
		{"rotated loop", `
			set.eq.i32 p, 1, 2
			bra test
			body: mem_fence block
			test: bra body, p
			exit`, "0: 0 jump 1\n1: branch 2 3\n2: 2 jump 1\n3: exit"},
		{"call twice", `
			call f
			call f
			exit
			f: mem_fence block
			ret`, "0: 3 3 exit"},
		{"call of what never returns", `
			call f
			f: exit`, "0: exit"},
		{"return out of a loop", `
			set.eq.i32 p, 1, 2
			call f
			exit
			f: loop 3, end
			bra end, p
			ret
			end: ret`, "0: 0 loop 1 3\n1: branch 2 3\n2: latch 1 3\n3: exit"},
		{"unreachable code", "exit\nmov.i32 x, y", "0: exit"},
		{"shared tail", `
			set.eq.i32 p, 1, 2
			bra done, p
			call f
			done: exit
			f: bra done, p
			ret`, "0: 0 branch 3 1\n1: branch 2 3\n2: exit\n3: exit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Verify(mustAssemble(t, c.text))
			require.NoError(t, err)
			if got := strings.TrimSpace(dump(&v.Graph)); got != c.want {
				t.Errorf("graph is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestBackEdges(t *testing.T) {
	type edges = map[RoutineInst]BackEdge
	for _, c := range []struct {
		name, text string
		want       edges
	}{
		{"none", "call f\nf: exit", edges{}},
		{"LOOP alone", "loop 3, end\nend: exit", edges{}},
		{"branch taken", "mov.pred p, true\na: bra a, p\nexit", edges{{0, 1}: BackTaken}},
		{"branch that also goes on", "mov.pred p, true\nbra t\nb: bra t, p\nt: bra b, p\nexit", edges{{0, 2}: BackTaken | BackOnward}},
		{"branch backward into a loop", "mov.pred p, true\nbra t\nb: mem_fence block\nt: bra b, p\nexit", edges{{0, 2}: BackOnward}},
		{"branch into a loop from code behind", "bra a\nb: bra b\na: bra b", edges{{0, 1}: BackTaken}},
		{"past a LOOP", "mov.pred p, true\nbra t\nb: loop 2, t\nmem_fence block\nt: bra b, p\nexit", edges{{0, 2}: BackOnward}},
		{"past a CALL", "mov.pred p, true\nbra t\nb: call f\nt: bra b, p\nexit\nf: ret", edges{{0, 2}: BackOnward}},
		{"past the second CALL", "mov.pred p, true\nbra t\nb: call f\ncall f\nt: bra b, p\nexit\nf: ret", edges{{0, 3}: BackOnward}},
		{"past a CALL, by each RET", "mov.pred p, true\nbra t\nb: call f\nt: bra b, p\nexit\nf: bra g, p\nret\ng: ret", edges{{0, 2}: BackOnward}},
		{"past a CALL of a CALL", "mov.pred p, true\nbra t\nb: call f\nt: bra b, p\nexit\nf: call g\nret\ng: ret", edges{{0, 2}: BackOnward}},
		{"CALL at a round's end of a LOOP", "loop 3, end\ncall f\nend: exit\nf: ret", edges{}},
		{"called twice", "mov.pred p, true\ncall f\ncall f\nexit\nf: bra f, p\nret", edges{{4, 4}: BackTaken}},
		{"called in a loop", "mov.pred p, true\na: call f\nbra a, p\nexit\nf: ret", edges{{0, 2}: BackTaken}},
		{"shared tail of two", "mov.pred p, true\ncall f\ncall g\nexit\nf: bra t\ng: mem_fence block\nt: bra g, p\nret",
			edges{{4, 5}: BackOnward, {5, 6}: BackTaken}},
		{"shared CALL", "mov.pred p, true\ncall f\ncall g\nexit\nf: bra t\ng: call h\nt: bra g, p\nret\nh: ret",
			edges{{4, 5}: BackOnward, {5, 6}: BackTaken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Verify(mustAssemble(t, c.text))
			require.NoError(t, err)
			if !maps.Equal(v.BackEdges, c.want) {
				t.Errorf("back edges %v, want %v", v.BackEdges, c.want)
			}
		})
	}
}
