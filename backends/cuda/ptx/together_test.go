package ptx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Collectives that need none of each other's results share barriers: what they need, which
// the canonical order has between them, goes before the first. Nothing else lets them meet.
func TestCollectivesTogether(t *testing.T) {
	head := "program p\nslot a f32\nslot b f32\nblock 256\nldg.f32 x, a[index]\nldg.f32 y, b[index]\n"
	tail := "\nadd.f32 z, s, t\nstg.f32 z, b[index]\nexit\n"
	for _, c := range []struct {
		name, text string
		barriers   int
	}{
		{"apart", "mul.f32 x, x, x\nblock_reduce_add.f32 s, x\nmul.f32 y, y, 3.0\nadd.f32 y, y, 1.0\nblock_reduce_add.f32 t, y", 1},
		{"scans", "mul.f32 x, x, x\nblock_scan_add.f32 s, x\nmul.f32 y, y, 3.0\nadd.f32 y, y, 1.0\nblock_scan_add.f32 t, y", 2},
		{"of the other's result", "block_reduce_add.f32 s, x\nmul.f32 y, y, s\nblock_reduce_add.f32 t, y", 3},
		{"of two kinds", "block_reduce_add.f32 s, x\nmul.f32 y, y, 3.0\nblock_reduce_max.f32 t, y", 3},
		{"a store between", "block_reduce_add.f32 s, x\nstg.f32 s, a[index]\nmul.f32 y, y, 3.0\nblock_reduce_add.f32 t, y", 3},
		{"a load between", "block_reduce_add.f32 s, x\nldg.f32 y, a[index]\nblock_reduce_add.f32 t, y", 3},
		{"a barrier between", "block_reduce_add.f32 s, x\nbar_sync 0\nblock_reduce_add.f32 t, y", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := isa.Assemble("p", head+c.text+tail)
			require.NoError(t, err)
			v, err := isa.Verify(p)
			require.NoError(t, err)
			x := compiled(t, c.name, v)
			text, err := x.p.Text(Options{Block: 256, Lanes: 256})
			require.NoError(t, err)
			require.Equal(t, c.barriers, strings.Count(text, "barrier.sync 0;"), text)
		})
	}
}

// A region with its collectives moved together has its nodes, each once, behind what it
// needs, and those with effects in their order.
func TestRegroupedRegions(t *testing.T) {
	moved := 0
	for _, x := range library(t) {
		var check func(r *ir.Region)
		check = func(r *ir.Region) {
			g := regrouped(r)
			require.ElementsMatch(t, r.Nodes, g.Nodes, x.name)
			if g != r {
				moved++
			}
			seen, here := map[*ir.Node]bool{}, map[*ir.Node]bool{}
			for _, n := range r.Nodes {
				here[n] = true
			}
			var was, is []string
			for i, n := range g.Nodes {
				for _, a := range n.Args {
					require.False(t, here[a.Node] && !seen[a.Node], "%s: %d", x.name, i)
				}
				seen[n] = true
				if !free(n) {
					is = append(is, fmt.Sprintf("%p", n))
				}
				if !free(r.Nodes[i]) {
					was = append(was, fmt.Sprintf("%p", r.Nodes[i]))
				}
				for _, s := range n.Regions {
					check(s)
				}
			}
			require.Equal(t, was, is, x.name)
		}
		check(x.p.fn.Body)
	}
	require.Positive(t, moved)
}
