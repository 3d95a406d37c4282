package tuned_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// Cumulative sums are the library's to the bit, of rows that a block holds, that blocks
// which meet do, that a block has by rounds where there are many, and longer ones, whole and
// ragged, also in place where no blocks meet.
func TestScansHaveTheLibrarysBits(t *testing.T) {
	brief.Alone(t)
	r := newRig(t)
	for k, typ := range kernels.Cumsum.Types.List() {
		for i, c := range []struct{ rows, cols, meet, processors int64 }{
			{1, 512, 0, 132}, {3, 768, 0, 132}, {2, 4096, 0, 132}, {5, 257, 0, 132}, {3, 700, 0, 132}, {2, 3001, 0, 132},
			{2, 8192, 0, 132}, {1, 16384, 8, 132}, {3, 20000, 8, 132}, {2, 70000, 8, 132}, {1, 65536 + 256, 16, 132},
			{1, 131072, 16, 132}, {2, 200001, 16, 132}, {2, 40000, 0, 132}, {1, 600000, 8, 132},
			{3, 24576, 0, 1}, {3, 32768, 8, 1}, {4, 27001, 8, 1}, {3, 200001, 16, 1}, {3, 1 << 18, 0, 1},
			{1, 1<<18 + 600, 16, 0},
		} {
			if brief.Skips(i+k, 5) {
				continue
			}
			t.Run(fmt.Sprintf("%v %v", typ, c), func(t *testing.T) {
				r.TB = t
				d := tuned.Device{Processors: c.processors, Meet: c.meet}
				plan, err := tuned.Plan(kernels.Cumsum, typ, []int64{c.rows, c.cols}, d)
				require.NoError(t, err)
				meet := met(t, plan)
				if c.processors == 1 && c.cols <= 1<<18 {
					require.False(t, meet)
					require.Len(t, plan.Steps, 1)
				}
				library, err := kernels.Cumsum.Plan(typ, []int64{c.rows, c.cols})
				require.NoError(t, err)
				input := elements(typ, c.rows, c.cols)
				want := oneNaN(r.run(library, input, int64(len(input)), false, false), typ)
				for _, inPlace := range []bool{false, true} {
					if !inPlace || !meet {
						require.Equal(t, want, oneNaN(r.run(plan, input, int64(len(input)), true, inPlace), typ))
					}
				}
				l := kernels.Packed(typ, 1, c.rows, c.cols)
				shapes, err := tuned.PlanShapes(kernels.Cumsum, []kernels.Layout{l, l}, 1, d)
				require.NoError(t, err)
				require.Equal(t, plan.Steps[0].Program, shapes.Steps[0].Program)
			})
		}
	}
}

// What is before the last chunks of a row of which four chunks of sums are known, by blocks
// that meet or by one, is added up as the library has it: of 2²⁴, 1 and 1 the order decides.
func TestScansAddUpChunksOfSumsInOrder(t *testing.T) {
	r := newRig(t)
	const cols, large = 200001, 1 << 16 // elements of a chunk of sums
	library, err := kernels.Cumsum.Plan(isa.F32, []int64{1, cols})
	require.NoError(t, err)
	for _, d := range []tuned.Device{{Processors: 132, Meet: 16}, {Processors: 0}} {
		plan, err := tuned.Plan(kernels.Cumsum, isa.F32, []int64{1, cols}, d)
		require.NoError(t, err)
		require.Equal(t, d.Meet > 0, met(t, plan))
		for at := range 3 {
			input := make([]byte, 4*cols)
			for i := range 3 {
				x := float32(1)
				if i == at {
					x = 1 << 24
				}
				binary.LittleEndian.PutUint32(input[4*large*i:], math.Float32bits(x))
			}
			want := r.run(library, input, int64(len(input)), false, false)
			require.Equal(t, want, r.run(plan, input, int64(len(input)), true, false), "2²⁴ in number %d, %+v", at, d)
		}
	}
}

// met reports whether blocks meet in a plan.
func met(t *testing.T, p *kernels.Plan) (some bool) {
	for _, s := range p.Steps {
		some = some || s.Meeting.Blocks > 0
	}
	return some
}

// How many launches there are of which rows: of those that a block holds one, of those of
// blocks that meet too, and of so many that the device is full of them, of others one for the
// chunks' sums, some for what is before them, and one more.
func TestScansSteps(t *testing.T) {
	for _, c := range []struct {
		typ              isa.Type
		cols, meet, most int64
		steps            int
	}{
		{isa.F32, 16384, 0, 0, 1}, {isa.F32, 16385, 0, 0, 3}, {isa.F32, 16385, 8, 8, 1}, {isa.F32, 65536, 8, 8, 1},
		{isa.F64, 8193, 0, 0, 3}, {isa.F64, 8193, 8, 8, 1}, {isa.F32, 1 << 17, 8, 8, 1}, {isa.F32, 1<<17 + 1, 8, 8, 3},
		{isa.F32, 1<<17 + 1, 8, 16, 1}, {isa.F32, 1 << 18, 8, 16, 1}, {isa.F32, 1<<18 + 1, 8, 16, 3}, {isa.F32, 1 << 24, 8, 16, 3}, {isa.F32, 1 << 27, 0, 0, 5},
	} {
		p, err := tuned.Plan(kernels.Cumsum, c.typ, []int64{4, c.cols}, tuned.Device{Processors: 132, Meet: c.meet, Most: func() int64 { return c.most }})
		require.NoError(t, err)
		require.Len(t, p.Steps, c.steps, "%v", c)
	}
	for _, c := range []struct {
		typ        isa.Type
		rows, cols int64
		grid       int64
	}{
		{isa.F32, 395, 1 << 15, 2 * 395}, {isa.F32, 396, 1 << 15, 396}, {isa.F32, 396, 95 * 256, 2 * 396}, {isa.F32, 396, 96 * 256, 396}, {isa.F64, 396, 48 * 256, 396}, {isa.F64, 396, 47 * 256, 2 * 396}, {isa.F32, 396, 1 << 18, 396},
		{isa.F32, 397, 1 << 15, 2 * 397}, {isa.F32, 475, 1 << 15, 2 * 475}, {isa.F32, 476, 1 << 15, 476}, {isa.F32, 793, 1 << 15, 793},
		{isa.BF16, 131, 1 << 15, 3 * 131}, {isa.BF16, 132, 1 << 15, 132}, {isa.BF16, 132, 1 << 17, 132}, {isa.F64, 396, 1 << 14, 396},
	} {
		p, err := tuned.Plan(kernels.Cumsum, c.typ, []int64{c.rows, c.cols}, tuned.Device{Processors: 132, Meet: 8})
		require.NoError(t, err)
		require.Len(t, p.Steps, 1)
		require.EqualValues(t, c.grid, p.Steps[0].Grid[0], "%v", c)
	}
	p, err := tuned.Plan(kernels.Cumsum, isa.F32, []int64{396, 1<<18 + 1}, tuned.Device{Processors: 132, Meet: 8})
	require.NoError(t, err)
	require.Len(t, p.Steps, 3, "a block has the sums of 1,024 chunks at most")
	for _, d := range [][]int64{{3, 256}, {0, 512}, {4, 0}, {1 << 31, 1 << 31}} {
		p, err := tuned.Plan(kernels.Cumsum, isa.F32, d, tuned.Device{Processors: 132})
		require.NoError(t, err)
		require.Nil(t, p, "%v is the library's", d)
	}
}

// Results of a wider type are summed in it.
func TestScansOfWiderTypes(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ in, out isa.Type }{{isa.I32, isa.I64}, {isa.U8, isa.U64}, {isa.F16, isa.F32}, {isa.F32, isa.F64}} {
		for _, cols := range []int64{1000, 4096, 20000} {
			l := []kernels.Layout{kernels.Packed(c.in, 2, cols), kernels.Packed(c.out, 2, cols)}
			plan, err := tuned.PlanShapes(kernels.Cumsum, l, 1, tuned.Device{Processors: 132})
			require.NoError(t, err)
			library, err := kernels.Cumsum.PlanShapes(l, 1)
			require.NoError(t, err)
			input := elements(c.in, 2, cols)
			n := 2 * cols * int64(c.out.Size())
			require.Equal(t, oneNaN(r.run(library, input, n, false, false), c.out), oneNaN(r.run(plan, input, n, true, false), c.out), "%v", c)
		}
	}
}
