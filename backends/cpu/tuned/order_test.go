package tuned_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// What has the same bits in any order is dealt out to other numbers of lanes than sums of floats are,
// which depend on the type and on how long a row is: at lengths about all of these, and in rows of
// several blocks, it is what the library makes of it, whichever program was made first.
func TestRowsInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	ops := map[string]*kernels.Op{"sum": kernels.ReduceSum, "prod": kernels.ReduceProd, "min": kernels.ReduceMin, "max": kernels.ReduceMax}
	type point struct {
		op         string
		ty         isa.Type
		rows, cols int64
	}
	var points []point
	for op, types := range map[string][]isa.Type{
		"sum": {isa.I8, isa.U16, isa.I32, isa.U64}, "prod": {isa.U8, isa.I64}, "max": {isa.U8, isa.I16, isa.F32, isa.F64, isa.BF16}, "min": {isa.I8, isa.U32, isa.F16, isa.F64},
	} {
		for _, ty := range types {
			for _, lanes := range []int64{256, 512, 1024, 2048, 4096, 8192} {
				for _, more := range []int64{1, 127, -1, 0} {
					points = append(points, point{op, ty, 3, lanes + more})
				}
			}
			if brief.On() {
				continue
			}
			points = append(points, point{op, ty, 1, 65_536}, point{op, ty, 2, 65_537}, point{op, ty, 1, 131_072}, point{op, ty, 1, 200_003})
		}
	}
	if !brief.On() {
		points = append(points, point{"sum", isa.I32, 1, 1_100_003}, point{"max", isa.I8, 2, 600_001}, point{"min", isa.F32, 1, 530_000})
	}
	r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	for _, p := range points {
		t.Run(fmt.Sprintf("%s/%v/%dx%d", p.op, p.ty, p.rows, p.cols), func(t *testing.T) { agrees(t, r, ops[p.op], p.ty, p.rows, p.cols, false) })
	}
}

// Sums of floats begin with elements where all lanes have one of each chunk, and else with 0: about where the last
// chunk has one for each.
func TestSumsOfLastChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for _, ty := range []isa.Type{isa.F32, isa.F64} {
		for _, chunks := range []int64{1, 2} {
			for _, more := range []int64{1, 255, 256, 257} {
				cols := chunks*kernels.ChunkElements + more
				t.Run(fmt.Sprintf("%v/%d", ty, cols), func(t *testing.T) { agrees(t, r, kernels.ReduceSum, ty, 3, cols, false) })
			}
		}
	}
}

// Rows that are worked on together go through more memory than nearer caches hold, where the largest
// element is looked for by all lanes of a block at once: with whole rounds, and with some left.
func TestFarSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for i, cols := range []int64{1000, 1024, 8192 + 300} {
		if brief.Skips(i, 3) {
			continue
		}
		agrees(t, r, kernels.Softmax, isa.F64, 400_000/cols, cols, true)
	}
	if !brief.On() {
		agrees(t, r, kernels.LogSoftmax, isa.F64, 390, 1030, false)
	}
}
