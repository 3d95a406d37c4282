package analysis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/stretchr/testify/require"
)

// quiet reports whether nothing in these nodes can be told from outside.
func quiet(nodes []*ir.Node) bool {
	for _, n := range nodes {
		if n.Op.IsInst() {
			if row, _ := isa.Lookup(n.Op.Inst()); row.Effect&(isa.Writes|isa.State|isa.Barrier) != 0 {
				return false
			}
		}
		for _, r := range n.Regions {
			if !quiet(r.Nodes) {
				return false
			}
		}
	}
	return true
}

// barriers holds every barrier in r against Vary: all conditions and counts
// around it are the same for a block, or else lanes that go the other way do
// nothing more, which the verifier allows. after says whether what comes after
// r is quiet. It returns how many barriers there are.
func barriers(t *testing.T, a *Analysis, r *ir.Region, after bool) (count int) {
	for i, n := range r.Nodes {
		if n.Op.IsInst() {
			if row, _ := isa.Lookup(n.Op.Inst()); row.Effect&isa.Barrier != 0 {
				count++
			}
			continue
		}
		rest := after && quiet(r.Nodes[i+1:])
		for k, s := range n.Regions {
			inside := barriers(t, a, s, rest && n.Op != ir.Loop)
			count += inside
			if inside == 0 || len(n.Args) == 0 || a.Vary(n.Args[0]) < PerLane {
				continue
			}
			switch {
			case n.Op == ir.Loop && n.Counted:
				t.Fatalf("a barrier in a loop of which the count differs between lanes\n%v", a.Func)
			case n.Op == ir.If && (!rest || !quiet(n.Regions[1-k].Nodes)):
				t.Fatalf("a barrier where not all lanes come\n%v", a.Func)
			}
		}
	}
	return count
}

// TestBarriersAreUniform demands that what the verifier found uniform, so that
// barriers may stand there, is uniform here as well.
func TestBarriersAreUniform(t *testing.T) {
	brief.Alone(t)
	total := 0
	check := func(f *ir.Func) { total += barriers(t, New(f), f.Body, true) }
	for seed := range uint64(400) {
		s := isatest.FromSeed(seed)
		c := progen.New(s, progen.Config{Size: 10 + int(seed%50), Lanes: true, Faults: seed%2 == 0})
		check(canonicalOf(t, c.Program))
	}
	files, err := filepath.Glob("../../backends/conformance/corpus/*.atlas")
	require.NoError(t, err)
	require.Greater(t, len(files), 50)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var p *isa.Program
		for _, typ := range []string{"f32", "u32"} { // what a template is a template of
			p, err = isa.Assemble(name, strings.NewReplacer("$T", typ, "$S", "u32").Replace(string(text)))
			if err == nil {
				break
			}
		}
		require.NoError(t, err)
		check(canonicalOf(t, p))
	}
	t.Logf("%d barriers", total)
	require.Greater(t, total, 200)
}

func TestVary(t *testing.T) {
	const head = "program p\nslot a u32\nslot in u32\nparam k u32\nsreg x, lane.x\nsreg b, block.x\nldp.u32 k, k\n"
	const tail = "\nshl.u32 z, z, 2\nstg.u32 0, a[z]\nexit"
	for _, c := range []struct {
		name, text string
		want       Vary
	}{
		{"parameter", "add.u32 z, k, 1", PerLaunch},
		{"block", "add.u32 z, k, b", PerBlock},
		{"lane", "add.u32 z, k, x", PerLane},
		{"one lane wide", "sreg z, lane.y\nadd.u32 z, z, k\n", PerLane},
		{"demanded to be one lane wide", "sreg z, lane.y\nadd.u32 z, z, k\n", PerLaunch},
		{"number of lanes", "sreg z, block_dim.y\nadd.u32 z, z, k\n", PerLaunch},
		{"chosen by the block", "mov.u32 z, 5\nset.eq.u32 p, b, 1\nbra o, p\nmov.u32 z, 6\no:", PerBlock},
		{"chosen by the lane", "mov.u32 z, 5\nset.eq.u32 p, x, 1\nbra o, p\nmov.u32 z, 6\no:", PerLane},
		{"read by all", "ldg.u32 z, in[4]", PerLaunch},
		{"read by a block", "and.u32 z, b, 60\nldg.u32 z, in[z]", PerBlock},
		{"read where it is written", "ldg.u32 z, a[4]", PerLane},
		{"read where a handle may write", "mov.u32 h, 1\nstg.u32 x, @h[4]\nldg.u32 z, in[4]", PerLane},
		{"counted by a parameter", "mov.u32 z, 0\nloop k, e\nadd.u32 z, z, 1\ne:", PerLaunch},
		{"counted by the lane", "mov.u32 z, 0\nloop x, e\nadd.u32 z, z, 1\ne:", PerLane},
		{"left by the block", "mov.u32 z, 0\na:\nadd.u32 z, z, 1\nset.lt.u32 p, z, b\nbra a, p", PerBlock},
		{"left by the lane", "mov.u32 z, 0\na:\nadd.u32 z, z, 1\nset.lt.u32 p, z, x\nbra a, p", PerLane},
		{"reduced", "block_reduce_add.u32 z, x", PerBlock},
		{"scanned", "block_scan_add.u32 z, k", PerLane},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := head + c.text + tail
			if strings.HasPrefix(c.name, "demanded") {
				text = strings.Replace(text, "sreg", "block 64\nsreg", 1)
			}
			f := canonical(t, text)
			a := New(f)
			n := f.Body.Nodes[len(f.Body.Nodes)-1]
			require.Equal(t, ir.Op(isa.STG), n.Op)
			require.Equal(t, c.want, a.Vary(n.Args[0]), "%v", f)
		})
	}
}
