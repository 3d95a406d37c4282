package product

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/backends/cuda/ptxas"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

var (
	update     = flag.Bool("update", false, "write the golden file anew")
	everywhere = flag.Bool("everywhere", false, "assemble every form for every architecture, not each for one")
)

// layout is that of the launch block of a product's program.
func layout(t testing.TB, typ isa.Type, p kernels.Product) *ptx.Layout {
	rows := []int64{64, 1 << 12}[btoi(p.Most > 1 || p.Split)]
	a, b, c := kernels.Packed(typ, 200, rows), kernels.Packed(typ, rows, 200), kernels.Packed(typ, 200, 200)
	if p.Batched {
		a, b, c = kernels.Packed(typ, 3, 200, rows), kernels.Packed(typ, 3, rows, 200), kernels.Packed(typ, 3, 200, 200)
	}
	few := int64(0)
	if p.Split {
		few = 1 << 30
	}
	plan, err := kernels.PlanProduct(kernels.Gemm, []kernels.Layout{a, b, c}, few, kernels.ProductChunk)
	require.NoError(t, err)
	got := kernels.ProductOf(plan.Steps[0].Program)
	require.NotNil(t, got)
	require.Equal(t, p.Split, got.Split)
	require.Equal(t, p.Batched, got.Batched)
	f, _, err := ir.Canonical(plan.Steps[0].Program)
	require.NoError(t, err)
	compiled, err := ptx.Compile(f)
	require.NoError(t, err)
	return &compiled.Layout
}

// Every shape of blocks is assembled in all walks, without spills.
func TestFormsAssemble(t *testing.T) {
	tool := ptxas.Tool(t)
	architectures := []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100"}
	programs := []kernels.Product{{}, {Most: 1 << 18}, {Batched: true}, {Split: true}}
	k := 0
	for _, typ := range []isa.Type{isa.F32, isa.F64, isa.BF16, isa.F16} {
		for i := range tiles[typ] {
			walks := []walk{alongK, across, wide, turned}
			if !units(typ) && (typ != isa.F32 || tiles[typ][i].blocks > 1) {
				walks = walks[:turned]
			}
			for _, a := range walks {
				for _, b := range walks {
					k++
					if !*everywhere && a != b && k%2 == 0 {
						continue
					}
					p := programs[k%len(programs)]
					f := Form{Type: typ, Tile: i, A: a, B: b, Wide: k%3 > 0, Totals: p.Most > 0, Sums: p}
					text := Text(f, layout(t, typ, p))
					for n, arch := range architectures {
						if !*everywhere && n != k%len(architectures) {
							continue
						}
						compute, err := strconv.Atoi(strings.Trim(arch, "sm_a"))
						require.NoError(t, err)
						if !f.registers(compute) {
							continue
						}
						u, err := ptxas.Assemble(t, tool, arch, text)
						require.NoError(t, err, "%+v", f)
						assert.Zero(t, u["atlas"].Spills, "%s: %+v", arch, f)
						require.LessOrEqual(t, u["atlas"].Registers*f.Threads()*f.tile().blocks, 1<<16, "%s: %+v", arch, f)
						t.Logf("%s: %d registers: %+v", arch, u["atlas"].Registers, f)
					}
				}
			}
		}
	}
}

// Devices with the least shared memory have some shape for each product, and an
// H200 all.
func TestFormsFit(t *testing.T) {
	for typ, list := range tiles {
		least := 1 << 30
		for i := range list {
			f := Form{Type: typ, Tile: i, Totals: true}
			least = min(least, f.shared())
			f.Totals = !units(typ) || i > 0 // the first is for one chunk
			require.LessOrEqual(t, f.shared(), 227<<10, "%+v", f)
		}
		require.LessOrEqual(t, least, 99<<10, "%v", typ)
	}
}

// The text of one form, as a file to read and to compare with.
func TestGolden(t *testing.T) {
	p := kernels.Product{Most: 1 << 18}
	got := Text(Form{Type: isa.F32, Tile: len(tiles[isa.F32]) - 1, A: alongK, B: wide, Wide: true, Totals: true, Sums: p}, layout(t, isa.F32, p))
	const golden = "testdata/product.ptx"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, fmt.Sprintf("%s differs; go test -update writes it anew, for you to read", golden))
}
