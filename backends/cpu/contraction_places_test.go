package cpu_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// byBatches is growing for a matrix of each z, and batchStored what stores it.
var byBatches = "sreg bz, block.z\nsreg dz, block_dim.z\nsreg z32, lane.z\nmad.u32 z32, bz, dz, z32\ncvt.u64.u32 bt, z32\n" +
	strings.Replace(growing, "mov.T acc, 0\n", "ldp.u64 h, m\nmul.u64 za, ar, h\nmul.u64 za, za, bt\nadd.u64 oa, oa, za\ncvt.u64.u32 k64, k\nmul.u64 zb, br, k64\nmul.u64 zb, zb, bt\nadd.u64 ob, ob, zb\nmov.T acc, 0\n", 1)

const batchStored = "mul.u64 o, bt, h\nadd.u64 o, o, i\nmul.u64 o, o, w\nadd.u64 o, o, j\nmul.u64 o, o, SIZE\nstg.T acc, c[o]\n"

// TestContractionsByRows: what is left of a program is launched row by row where nobody can tell, and where
// somebody could, as it was written; the outcome is the same.
func TestContractionsByRows(t *testing.T) {
	brief.Alone(t)
	const blocks = 5 * 9 * 64 // that cover 33 × 40
	type launch struct {
		sh       shape
		contents [][]byte
		params   []uint64
	}
	grid := func(l *launch) {
		l.sh = shape{grid: [3]uint32{5, 9, 1}, block: [3]uint32{16, 4, 1}, dims: []int64{blocks}}
	}
	random := func(n int64) []byte { return floats(rand.New(rand.NewPCG(13, 14)), isa.F32, n, false) }
	asks := func(special string) string {
		return "sreg y, " + special + "\ncvt.T.u32 z, y\nadd.T acc, acc, z\n"
	}
	for _, c := range []struct {
		name   string
		parts  []string
		m, n   int64
		change func(*launch)
		rows   bool
		faults bool
	}{
		{"bias and relu", []string{byDivision, growing, relu, indexed}, 33, 40, nil, true, false},
		{"by the index space", []string{byIndexSpace, growing, relu, indexed}, 33, 40, func(l *launch) { l.sh.dims = []int64{33, 40} }, true, false},
		{"by address", []string{byLanes, anew, scaled, stored}, 33, 40, nil, true, false},
		{"by flat places", []string{byDivision, flat, relu, stored}, 33, 40, nil, true, false},
		{"by blocks", []string{byBlocks, growing, relu, stored}, 33, 40, grid, true, false},
		{"batches by blocks", []string{byBlocks, byBatches, relu, batchStored}, 33, 40, func(l *launch) {
			grid(l)
			l.sh.grid[2], l.sh.dims = 3, []int64{3 * blocks}
			l.contents[0], l.contents[1], l.contents[2] = random(3*33*70), random(3*40*70), random(3*33*40)
		}, true, false},
		{"batches by blocks, and lanes", []string{byBlocks, "sreg y, lane.y\n", byBatches, "cvt.T.u32 z, y\nadd.T acc, acc, z\n", batchStored}, 33, 40, func(l *launch) {
			grid(l)
			l.sh.grid[2], l.sh.dims = 3, []int64{3 * blocks}
			l.contents[0], l.contents[1], l.contents[2] = random(3*33*70), random(3*40*70), random(3*33*40)
		}, false, false},
		{"batches by lanes", []string{byBlocks, byBatches, gelu, batchStored}, 33, 40, func(l *launch) {
			l.sh = shape{grid: [3]uint32{5, 9, 2}, block: [3]uint32{8, 4, 2}, dims: []int64{5 * 9 * 2 * 64}}
			l.contents[0], l.contents[1], l.contents[2] = random(4*33*70), random(4*40*70), random(4*33*40)
		}, true, false},
		{"batches of one b", []string{byBlocks, strings.Replace(byBatches, "add.u64 ob, ob, zb\n", "", 1), batchStored}, 33, 40, func(l *launch) {
			grid(l)
			l.sh.grid[2], l.sh.dims = 3, []int64{3 * blocks}
			l.contents[0], l.contents[2] = random(3*33*70), random(3*33*40)
		}, true, false},
		{"by blocks, the last lanes not there", []string{byBlocks, growing, relu, stored}, 33, 40, func(l *launch) {
			grid(l)
			l.sh.dims = []int64{blocks - 70}
		}, false, false},
		{"by blocks, and by index", []string{byBlocks, growing, stored, "stg.T acc, d[index]\n"}, 33, 40, func(l *launch) {
			grid(l)
			l.contents[3] = random(blocks)
		}, false, false},
		{"by blocks, which lane", []string{byBlocks, "sreg g, global_lane\n", growing, "cvt.T.u64 z, g\nadd.T acc, acc, z\n", stored}, 33, 40, grid, false, false},
		{"by blocks, with faults", []string{byBlocks, growing, relu, stored}, 33, 40, func(l *launch) {
			grid(l)
			l.contents[3] = l.contents[3][:4*30]
		}, false, true},
		{"with faults", []string{byDivision, growing, relu, indexed}, 33, 40, func(l *launch) { l.contents[3] = l.contents[3][:4*30] }, true, true},
		{"by address, with faults", []string{byDivision, growing, relu, stored}, 33, 40, func(l *launch) { l.contents[2] = l.contents[2][:4*1000+3] }, true, true},
		{"which lane", []string{byDivision, growing, "cvt.T.u64 z, g\nadd.T acc, acc, z\n", indexed}, 33, 40, nil, true, false},
		{"which lane of a block", []string{byDivision, growing, asks("lane.x"), indexed}, 33, 40, nil, false, false},
		{"which block", []string{byDivision, growing, asks("block.x"), indexed}, 33, 40, nil, false, false},
		{"which row of a block", []string{byDivision, growing, asks("lane.y"), indexed}, 33, 40, nil, false, false},
		{"how many blocks", []string{byDivision, growing, asks("grid_dim.x"), indexed}, 33, 40, nil, false, false},
		{"nearly a column", []string{byDivision, "add.u64 e, g, i\nadd.u64 x, w, 1\nmul.u64 x, i, x\nsub.u64 j, e, x\n", growing, "cvt.T.u64 z, e\nadd.T acc, acc, z\n", indexed}, 33, 40, nil, true, false},
		{"lanes meet", []string{byDivision, growing, "block_reduce_add.T acc, acc\n", indexed}, 33, 40, nil, false, false},
		{"blocks of a size", []string{byDivision, growing, relu, indexed, "BLOCK"}, 33, 40, nil, false, false},
		{"divided once more", []string{byDivision, growing, "rem.u64 q, g, 7\ncvt.T.u64 z, q\nadd.T acc, acc, z\n", indexed}, 33, 40, nil, true, false},
		{"divided by what may be 0", []string{byDivision, growing, "ldp.u64 q, a_col\nsub.u64 q, q, 4\ndiv.u64 q, g, q\ncvt.T.u64 z, q\nadd.T acc, acc, z\n", indexed}, 33, 40, nil, true, true},
		{"in the midst of a row", []string{byDivision, growing, twice, indexed}, 33, 40, func(l *launch) {
			l.sh = linear(32*40+7, 64)
			l.contents[2], l.contents[3] = random(32*40+7), random(32*40+7)
		}, true, false},
		{"rows of 16", []string{byDivision, growing, relu, indexed}, 70, 16, nil, true, false},
		{"rows of 15", []string{byDivision, growing, relu, indexed}, 70, 15, nil, false, false},
		{"rows of 1,024", []string{byDivision, growing, relu, stored}, 3, 1024, nil, true, false},
		{"rows in two pieces", []string{byDivision, growing, relu, stored}, 3, 1500, nil, true, false},
		{"rows in 7 pieces", []string{byDivision, growing, relu, indexed}, 3, 7 * 1021, nil, true, false},
		{"rows in no pieces", []string{byDivision, growing, relu, stored}, 3, 1031, nil, false, false},
		{"one row", []string{byDivision, growing, relu, stored}, 1, 1500, nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := contractionText(isa.F32, c.parts...)
			if strings.Contains(text, "BLOCK") {
				text = strings.Replace(strings.Replace(text, "BLOCK", "", 1), "program p\n", "program p\nblock 64\n", 1)
			}
			v := verify(t, text)
			var l launch
			l.sh, l.contents, l.params = matricesFor(rand.New(rand.NewPCG(11, 12)), isa.F32, c.m, c.n, 70)
			if c.change != nil {
				c.change(&l)
			}
			want := run(t, on(t, jit.None, 1), v, l.sh, l.contents, nil, l.params)
			require.Equal(t, c.faults, want.err != nil, "%v", want.err)
			for _, threads := range []int{1, 2} {
				x := newReady(t, machine(t, threads), v)
				for range 2 {
					require.NoError(t, same(v, x.run(t, new(host).block, l.sh, l.contents, nil, l.params), want))
				}
				require.EqualValues(t, 2, cpu.Contracted(x.k))
				require.Equal(t, c.rows, cpu.ContractedByRows(x.k) > 0)
				x.k.Release()
			}
		})
	}
}

// TestContractionsOfAllSizes: one kernel takes what is by rows and what is not as it comes.
func TestContractionsOfAllSizes(t *testing.T) {
	brief.Alone(t)
	for _, parts := range [][]string{{byDivision, growing, relu, indexed}, {byLanes, anew, relu, stored}, {byBlocks, flat, relu, stored}} {
		v := verify(t, contractionText(isa.F32, parts...))
		x := newReady(t, machine(t, 2), v)
		for range 2 {
			for _, s := range [][3]int64{{33, 40, 70}, {33, 8, 300}, {1, 40, 900}, {40, 1, 900}, {2, 2048, 20}, {2, 1031, 20}, {3, 96, 200}, {64, 16, 64}} {
				m, n, k := s[0], s[1], s[2]
				sh, contents, params := matricesFor(rand.New(rand.NewPCG(uint64(m), uint64(n))), isa.F32, m, n, k)
				if parts[0] == byBlocks {
					sh = shape{grid: [3]uint32{uint32(n+7) / 8, uint32(m+1) / 2, 1}, block: [3]uint32{8, 2, 1}}
					sh.dims = []int64{int64(sh.grid[0]) * int64(sh.grid[1]) * 16}
				}
				contents[3] = floats(rand.New(rand.NewPCG(15, 16)), isa.F32, n, false)
				want := run(t, on(t, jit.None, 1), v, sh, contents, nil, params)
				require.NoError(t, same(v, x.run(t, new(host).block, sh, contents, nil, params), want), "%v", s)
			}
		}
		require.EqualValues(t, 16, cpu.Contracted(x.k))
		require.Positive(t, cpu.ContractedByRows(x.k))
		require.Less(t, cpu.ContractedByRows(x.k), uint64(16))
		x.k.Release()
	}
}

// TestContractionsLaunchedAgain: what was found out for one launch is not taken for another's that differs in one number.
func TestContractionsLaunchedAgain(t *testing.T) {
	v := verify(t, contractionText(isa.F32, byBlocks, growing, relu, stored))
	x := newReady(t, machine(t, 1), v)
	defer x.k.Release()
	const m, n, k = 32, 32, 70
	for _, c := range []struct {
		name   string
		change func(sh *shape, contents [][]byte, params []uint64)
		taken  uint64
		faults bool
	}{
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"b lacks a byte", func(_ *shape, contents [][]byte, _ []uint64) { contents[1] = contents[1][:len(contents[1])-1] }, 0, true},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"c lacks an element", func(_ *shape, contents [][]byte, _ []uint64) { contents[2] = contents[2][:len(contents[2])-4] }, 1, true},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"another stride", func(_ *shape, _ [][]byte, params []uint64) { params[3] = 0 }, 1, false},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"other blocks", func(sh *shape, _ [][]byte, _ []uint64) {
			sh.grid = [3]uint32{4, 4, 1}
		}, 1, false},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"fewer lanes", func(sh *shape, _ [][]byte, _ []uint64) { sh.dims = []int64{m*n - 70} }, 1, false},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
		{"fuel", func(sh *shape, _ [][]byte, _ []uint64) { sh.fuel = 1000 }, 0, false},
		{"the first", func(*shape, [][]byte, []uint64) {}, 1, false},
	} {
		_, contents, params := matricesFor(rand.New(rand.NewPCG(17, 18)), isa.F32, m, n, k)
		sh := shape{grid: [3]uint32{2, 8, 1}, block: [3]uint32{16, 4, 1}, dims: []int64{m * n}}
		c.change(&sh, contents, params)
		want := run(t, on(t, jit.None, 1), v, sh, contents, nil, params)
		require.Equal(t, c.faults, want.err != nil, "%s: %v", c.name, want.err)
		before := cpu.Contracted(x.k)
		require.NoError(t, same(v, x.run(t, new(host).block, sh, contents, nil, params), want), c.name)
		require.Equal(t, c.taken, cpu.Contracted(x.k)-before, c.name)
	}
}
