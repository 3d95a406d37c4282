package ptx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Collectives that need none of each other's results share barriers: what they need, which
// the canonical order has between them, goes before the first. Nothing else lets them meet.
func TestCollectivesTogether(t *testing.T) {
	head := "program p\nslot a f32\nslot b f32\nslot c u32\nblock 256\nldg.f32 x, a[index]\nldg.f32 y, b[index]\nldg.u32 k, c[index]\n"
	tail := "\nadd.f32 z, s, t\nstg.f32 z, b[index]\nexit\n"
	for _, c := range []struct {
		name, text string
		barriers   int
	}{
		{"apart", "mul.f32 x, x, x\nblock_reduce_add.f32 s, x\nmul.f32 y, y, 3.0\nadd.f32 y, y, 1.0\nblock_reduce_add.f32 t, y", 1},
		{"scans", "mul.f32 x, x, x\nblock_scan_add.f32 s, x\nmul.f32 y, y, 3.0\nadd.f32 y, y, 1.0\nblock_scan_add.f32 t, y", 2},
		{"of the other's result", "block_reduce_add.f32 s, x\nmul.f32 y, y, s\nblock_reduce_add.f32 t, y", 3},
		{"of the other's result at once", "block_reduce_add.f32 s, x\nblock_reduce_add.f32 t, s", 3},
		{"of two types", "block_reduce_add.f32 s, x\nblock_reduce_add.u32 k, k\ncvt.f32.u32 t, k", 3},
		{"a fault between", "block_reduce_add.f32 s, x\ndiv.u32 k, 7, k\ncvt.f32.u32 y, k\nblock_reduce_add.f32 t, y", 3},
		{"in a loop", "mov.f32 t, 0.0\nloop 3, done\nblock_reduce_add.f32 s, x\nadd.f32 x, x, 1.0\nadd.f32 t, t, s\ndone:\nmov.f32 s, x", 2},
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
	brief.Alone(t)
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

// What collectives that are done together keep in shared memory has room there, beside each
// other, and takes no more than blocks have.
func TestScratchOfCollectives(t *testing.T) {
	for _, c := range []struct {
		typ, kind        string
		n, lanes, shared int
	}{
		{"f32", "reduce", 3, 64, 0}, {"f32", "reduce", 20, 256, 0}, {"f64", "reduce", 20, 256, 0}, {"f32", "reduce", 70, 64, 0},
		{"f32", "scan", 20, 256, 0}, {"f32", "scan", 32, 256, 0}, {"f32", "scan", 64, 256, 0}, {"f64", "scan", 32, 256, 0}, {"f32", "scan", 12, 64, 0},
		{"f32", "scan", 24, 96, 40 << 10}, {"f32", "reduce", 9, 1024, 48 << 10}, {"f32", "reduce", 5, 96, 0}, {"f32", "reduce", 5, 1024, 0},
	} {
		var b strings.Builder
		b.WriteString("slot a T\nslot b T\n")
		if c.shared > 0 {
			fmt.Fprintf(&b, "shared %d\n", c.shared)
		}
		b.WriteString("ldg.T x, a[index]\nmov.T y, x\n")
		if c.shared > 0 {
			b.WriteString("sts.T x, shared[0]\n")
		}
		for i := range c.n {
			fmt.Fprintf(&b, "add.T t, x, %d.0\nblock_%s_add.T t, t\nadd.T y, y, t\n", i+1, c.kind)
		}
		p := fromText(t, strings.ReplaceAll(b.String()+"stg.T y, b[index]\nexit\n", "T", c.typ))
		text, err := p.Text(Options{Block: c.lanes, Lanes: c.lanes})
		require.NoError(t, err)
		size := map[string]int{"f32": 4, "f64": 8}[c.typ]
		accesses := regexp.MustCompile(`(?m)^\s(st|ld)\.shared\.b\d+ [^\n]*\+(\d+)\]`).FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, accesses)
		for _, m := range accesses {
			at, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			reach := c.lanes // from there on, a lane each
			if m[1] == "ld" && c.kind == "reduce" {
				reach = warp
			}
			require.LessOrEqual(t, at+reach*size, p.SharedBytes(c.lanes), "%v: %s", c, m[0])
			if m[1] == "st" && at >= p.shared+scratchAt && c.kind == "reduce" {
				require.Zero(t, (at-p.shared-scratchAt)%(c.lanes*size), "%v: %s", c, m[0])
			}
		}
		most := mostTogether
		if c.kind == "scan" && c.n <= scansAtOnce {
			most = mostScans
		}
		require.LessOrEqual(t, p.SharedBytes(c.lanes), min(leastShared, c.shared+scratchAt+max(most, c.lanes*size)), "%v", c)
	}
}

// A warp has as many scans at once as leave every warp some, up to what its lanes hold: the
// lanes of each are few where these are many.
func TestScansOfAWarp(t *testing.T) {
	for _, c := range []struct {
		n, lanes int
		widths   []int // of the groups in which they are done
	}{
		{1, 256, []int{32}}, {16, 256, []int{16}}, {19, 256, []int{32}}, {32, 256, []int{8}}, {40, 256, []int{8, 32}}, {48, 256, []int{8, 16}},
		{49, 256, []int{32, 32, 32, 32}}, {64, 256, []int{32, 32, 32, 32}}, {12, 64, []int{8}}, {32, 64, []int{2}}, {24, 96, []int{4}}, {32, 512, []int{32, 32}},
	} {
		var b strings.Builder
		b.WriteString("slot a f32\nslot b f32\n ldg.f32 x, a[index]\n mov.f32 y, x\n")
		for i := range c.n {
			fmt.Fprintf(&b, " add.f32 s%d, x, %[1]d.0\n", i)
		}
		for i := range c.n {
			fmt.Fprintf(&b, " block_scan_add.f32 s%d, s%[1]d\n", i)
		}
		for i := range c.n {
			fmt.Fprintf(&b, " add.f32 y, y, s%d\n", i)
		}
		text, err := fromText(t, b.String()+" stg.f32 y, b[index]\n exit").Text(Options{Block: c.lanes, Lanes: c.lanes})
		require.NoError(t, err)
		var widths []int
		for _, m := range regexp.MustCompile(`shr\.u32 %tr\d+, %lane, (\d+);\n\tand\.b32 %tr\d+, %lane, (\d+);`).FindAllStringSubmatch(text, -1) {
			shift, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(1<<shift-1), m[2])
			widths = append(widths, 1<<shift)
		}
		require.Equal(t, c.widths, widths, "%v", c)
	}
}

// Blocks that sum rows together tell each other words, whatever the type, and each has
// its own.
func TestSumsAreTold(t *testing.T) {
	for _, typ := range kernels.ReduceSum.Types.List() {
		plan, err := tuned.Plan(kernels.ReduceSum, typ, []int64{1, 5 * kernels.ChunkElements}, tuned.Device{Processors: 132, Meet: 8})
		require.NoError(t, err)
		s := plan.Steps[0]
		f, _, err := ir.Canonical(s.Program)
		require.NoError(t, err)
		n, told := s.Meeting.Blocks, s.Meeting.Told
		require.Equal(t, 5, n)
		require.Equal(t, uint64(4), told)
		p, err := Compile(f)
		require.NoError(t, err)
		text, err := p.Text(Options{Block: int(s.Block[0]), Proved: true, Aligned: true, Modern: true, Meeting: n, Told: told})
		require.NoError(t, err)
		word := max(4, kernels.Accumulator(typ).Size())
		require.NotContains(t, text, "arrive.release", typ)
		require.Regexp(t, `mbarrier\.init[^\n]*\n(?:[^\n]*expect_tx[^\n]*\n)[^\n]*fence\.mbarrier_init\.release\.cluster;\n[^\n]*barrier\.cluster\.arrive\.relaxed;`, text, "the others see barriers that are made")
		require.Contains(t, text, fmt.Sprintf("complete_tx::bytes.b%d ", 8*word), typ)
		require.Regexp(t, fmt.Sprintf(`expect_tx.shared.b64 _, \[[^\n]*\], %d;`, n*word), text, typ)
		_, elements := (&emitter{p: p, opt: Options{Block: int(s.Block[0]), Meeting: n, Told: told}}).teller(2)
		o := &Options{Told: told, Meeting: n}
		require.LessOrEqual(t, elements+n*word, (p.SharedBytes(int(s.Block[0]))+15)&^15+o.ToldBytes(), "beyond the block's shared memory")
		for k := range n {
			require.Regexp(t, fmt.Sprintf(`ld\.shared\.\S+ [^\n]*\[%%shared\+%d\]`, elements+k*word), text, typ)
		}
	}
}
