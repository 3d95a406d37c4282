package ir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

func verified(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err, text)
	return v
}

func canonical(t testing.TB, v *isa.Verified, opts ...Option) *Func {
	t.Helper()
	opts = append(opts, After(func(pass string, f *Func) {
		if err := Check(f); err != nil {
			renumber(f)
			t.Fatalf("after %s: %v\n%v", pass, err, f)
		}
	}))
	f, srcs, err := Canonical(v, opts...)
	require.NoError(t, err)
	if err := Check(f); err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	if len(srcs) != len(f.Sites) {
		t.Fatalf("%d sources for %d sites", len(srcs), len(f.Sites))
	}
	for i, s := range srcs {
		if s < 0 || s >= len(v.Program.Insts) {
			t.Fatalf("site %d (%v) leads to instruction %d\n%v", i, f.Sites[i].Op, s, f)
		}
	}
	return f
}

// memory makes slots for p: n elements each, filled with a pattern of small
// values so that branches and indices vary.
func memory(p *isa.Program, n int) [][]byte {
	slots := make([][]byte, len(p.Slots))
	for i, s := range p.Slots {
		size := n * s.Type.Size()
		if s.Name == isa.BoundarySlot {
			size = 1024
		}
		slots[i] = make([]byte, size)
		for j := range slots[i] {
			if j%max(1, s.Type.Size()) == 0 {
				slots[i][j] = byte(j*7 + i*13)
			}
		}
	}
	return slots
}

// agree runs v as a graph and f as a tree and compares what they leave.
func agree(t testing.TB, v *isa.Verified, f *Func) {
	t.Helper()
	params := make([]uint64, len(v.Program.Params))
	for i := range params {
		params[i] = uint64(3+i) & v.Program.Params[i].Type.Mask()
	}
	agreeOn(t, v, f, memory(v.Program, 64), params, 8)
}

func agreeOn(t testing.TB, v *isa.Verified, f *Func, slots [][]byte, params []uint64, n int) {
	t.Helper()
	for _, at := range []int{0, n / 2, n - 1} {
		for _, fuel := range []int{-1, 3, 20} {
			g, w := newMachine(v.Program, slots, params, at), newMachine(v.Program, slots, params, at)
			g.fuel, w.fuel = fuel, fuel
			gEnds, wEnds := g.walkGraph(v), w.walkTree(f)
			if !gEnds && !wEnds {
				continue
			}
			if gs, ws := g.state(), w.state(); gEnds != wEnds || gs != ws {
				t.Fatalf("lane %d, fuel %d: graph (ended %v)\n%s\ntree (ended %v)\n%s\n%v\n%s", at, fuel, gEnds, gs, wEnds, ws, f, isa.Disassemble(v.Program))
			}
		}
	}
}

func TestBuildMeansTheSame(t *testing.T) {
	files, err := filepath.Glob("testdata/*.atlas")
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".atlas"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			v := verified(t, string(text))
			f, err := Build(v)
			require.NoError(t, err)
			if err := Check(f); err != nil {
				t.Fatalf("%v\n%v", err, f)
			}
			agree(t, v, f)
			c := canonical(t, v)
			agree(t, v, c)
			t.Logf("\n%v", c)
		})
	}
}

// A large program's memory is mostly that of its nodes, and of the values in
// them: a field more costs every program.
func TestNodesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Node{}), uintptr(208))
	require.LessOrEqual(t, unsafe.Sizeof(Value{}), uintptr(40))
}
