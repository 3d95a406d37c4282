package ptx

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/ptxas"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// The programs of the GPU's own plans are assembled, without spills.
func TestPlansAssemble(t *testing.T) {
	ptxas.Tool(t)
	var all []program
	seen, proved, meetings := map[*isa.Verified]bool{}, map[*Program]bool{}, map[*Program]kernels.Meeting{}
	add := func(s kernels.Step, shown bool, format string, args ...any) {
		x := compiled(t, fmt.Sprintf(format, args...), s.Program)
		all, proved[x.p], meetings[x.p] = append(all, x), shown, s.Meeting
	}
	ops := []*kernels.Op{kernels.Softmax, kernels.ReduceSum, kernels.ReduceMin}
	for _, op := range kernels.All {
		if op.Rowwise() != nil {
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		for _, typ := range []isa.Type{isa.BF16, isa.F32, isa.F64, isa.I8} {
			if !op.Types.Has(typ) {
				continue
			}
			for _, d := range [][]int64{{1 << 20, 64}, {1 << 20, 61}, {1 << 18, 256}, {1 << 16, 1024}, {5000, 1000}, {1 << 14, 8192}, {99, 32767}, {1 << 12, 32768}, {1 << 12, 65536}, {3, 1 << 20}, {3, 1 << 18}, {3, 200_000}} {
				if rowwise := op.Rowwise() != nil; rowwise && (d[1] < 1000 || d[1] == 1024) {
					continue // as the longer ones, with less in registers
				}
				plan, err := tuned.Plan(op, typ, d, tuned.Device{Processors: 132, Meet: map[bool]int64{true: 16}[len(all)%2 == 0 || op.Rowwise() != nil && d[1] != 32768]})
				require.NoError(t, err)
				if plan == nil {
					continue
				}
				for i, s := range plan.Steps {
					if !seen[s.Program] {
						seen[s.Program] = true
						add(s, len(plan.Steps) == 1 || d[1]%kernels.ChunkElements == 0, "%s %v %v, step %d", op.Name, typ, d, i)
					}
				}
			}
		}
	}
	for k, typ := range []isa.Type{isa.BF16, isa.F32, isa.F64, isa.I8} {
		for i, cols := range []int64{512, 4096, 3001, 1 << 18, 200_000, 1 << 20} {
			for j, rows := range []int64{64, 512} {
				if (i+j+k)%2 != 0 && !*everywhere || brief.Skips(i+k, 3) {
					continue
				}
				plan, err := tuned.Plan(kernels.Cumsum, typ, []int64{rows, cols}, tuned.Device{Processors: 132, Meet: 16})
				require.NoError(t, err)
				for j, s := range plan.Steps {
					if !seen[s.Program] {
						seen[s.Program] = true
						add(s, true, "cumsum %v of %d×%d, step %d", typ, rows, cols, j)
					}
				}
			}
		}
	}
	for _, d := range [][]int64{{8192, 4096}, {1000, 100}, {512, 1 << 18}} { // the sums of columns
		for _, typ := range []isa.Type{isa.F32, isa.BF16, isa.F64} {
			l := []kernels.Layout{{Type: typ, Shape: []int64{d[1], d[0]}, Stride: []int64{1, d[1]}}, kernels.Packed(typ, d[1])}
			plan, err := tuned.PlanShapes(kernels.ReduceSum, l, 1, tuned.Device{Processors: 132})
			require.NoError(t, err)
			add(plan.Steps[0], true, "columns %v %v", typ, d)
			// The numbers of columns of several arrays.
			acc := kernels.Accumulator(typ)
			row := kernels.Packed(acc, d[0])
			out := kernels.Packed(acc, d[1])
			plan, err = tuned.PlanShapes(kernels.LayerNormParameterGradients, []kernels.Layout{l[0], l[0], row, row, out, out}, 1, tuned.Device{Processors: 132})
			require.NoError(t, err)
			for i, s := range plan.Steps {
				add(s, true, "numbers of columns %v %v, step %d", typ, d, i)
			}
		}
	}
	count := 0
	texts, names := modules(t, all, func(p *Program) []Options {
		b := p.fn.Block
		o := Options{Block: int(b[0] * b[1] * b[2]), Proved: proved[p], Aligned: proved[p], Modern: true}
		o.Meeting = meetings[p].Blocks
		count++
		o.Lasts = o.Meeting == 0 && count%4 == 0
		if o.Waits = o.Meeting > 0 || count%2 == 0; o.Proved {
			o.Told = meetings[p].Told
		}
		return []Options{o}
	})
	each(t, texts, *everywhere, func(arch string, u map[string]ptxas.Usage) {
		for entry, x := range u {
			if x.Spills > 0 {
				t.Errorf("%s: %s spills %d bytes", arch, names[entry], x.Spills)
			}
			t.Logf("%s: %d registers: %s", arch, x.Registers, names[entry])
		}
	})
}
