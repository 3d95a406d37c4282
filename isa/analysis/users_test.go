package analysis_test

import (
	"testing"

	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/stretchr/testify/require"
)

// TestProgramsAsUsersWriteThem demands that all is proved of programs in the
// styles that people know, with the least memory that they need.
func TestProgramsAsUsersWriteThem(t *testing.T) {
	const place = "sreg b, block.x\nsreg d, block_dim.x\nsreg t, lane.x\nmad.u32 i, b, d, t\n" // CUDA's
	for _, c := range []struct {
		name, text string
		l          analysis.Launch
	}{
		{"guarded by n", "slot a f32\nslot c f32\nparam n u32\n" + place + "ldp.u32 n, n\nset.ge.u32 p, i, n\nbra end, p\n" +
			"mul.u32 o, i, 4\nldg.f32 x, a[o]\nstg.f32 x, c[o]\nend:\nexit",
			analysis.Launch{N: 1024, Params: []uint64{1000}, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{4000, 4000}}},
		{"by the index space", "slot a f32\nslot c f32\n" + place + "mul.u32 o, i, 4\nldg.f32 x, a[o]\nstg.f32 x, c[o]\nexit",
			analysis.Launch{N: 1000, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{4000, 4000}}},
		{"by the global lane", "slot a f64\nsreg g, global_lane\nmul.u64 o, g, 8\nldg.f64 x, a[o]\nstg.f64 x, a[o]\nexit",
			analysis.Launch{N: 1000, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{8000}}},
		{"with an offset", "slot a f32\nsreg g, global_lane\nmul.u64 o, g, 4\nldg.f32 x, a[o+16]\nstg.f32 x, a[o]\nexit",
			analysis.Launch{N: 1000, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{4016}}},
		{"a stencil", "slot a f32\nslot c f32\nparam n u32\n" + place + "ldp.u32 n, n\nset.lt.u32 p, i, 1\nbra end, p\nsub.u32 m, n, 1\nset.ge.u32 p, i, m\nbra end, p\n" +
			"sub.u32 h, i, 1\nmul.u32 h, h, 4\nldg.f32 x, a[h]\nadd.u32 h, i, 1\nmul.u32 h, h, 4\nldg.f32 y, a[h]\nadd.f32 x, x, y\nmul.u32 h, i, 4\nldg.f32 y, a[h]\n" +
			"add.f32 x, x, y\nstg.f32 x, c[h]\nend:\nexit",
			analysis.Launch{N: 1024, Params: []uint64{1000}, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{4000, 3996}}},
		{"a transpose by tiles", "slot a f32\nslot c f32\nparam w u32\nparam h u32\nsreg bx, block.x\nsreg by, block.y\nsreg x, lane.x\nsreg y, lane.y\nldp.u32 w, w\nldp.u32 h, h\n" +
			"mad.u32 i, bx, 16, x\nmad.u32 j, by, 16, y\nset.ge.u32 p, i, w\nset.ge.u32 q, j, h\nor.pred p, p, q\nbra end, p\n" +
			"mad.u32 o, j, w, i\nmul.u32 o, o, 4\nldg.f32 v, a[o]\nmad.u32 o, i, h, j\nmul.u32 o, o, 4\nstg.f32 v, c[o]\nend:\nexit",
			analysis.Launch{N: 7 * 4 * 256, Params: []uint64{100, 60}, Grid: [3]uint32{7, 4, 1}, Block: [3]uint32{16, 16, 1}, SlotBytes: []int64{24000, 24000}}},
		{"rows and columns of an index", "slot a f32\nslot v f32\nparam cols u64\nsreg g, global_lane\nldp.u64 n, cols\ndiv.u64 r, g, n\nrem.u64 c, g, n\n" +
			"mul.u64 o, c, 4\nldg.f32 x, v[o]\nmul.u64 o, r, n\nadd.u64 o, o, c\nmul.u64 o, o, 4\nldg.f32 y, a[o]\nadd.f32 x, x, y\nstg.f32 x, a[o]\nexit",
			analysis.Launch{N: 700, Params: []uint64{70}, Grid: [3]uint32{3, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{2800, 280}}},
		{"rows by a while loop", "slot a f32\nslot c f32\nparam n u32\nsreg g, global_lane\nldp.u32 n, n\ncvt.u64.u32 w, n\nmul.u64 row, g, w\nmov.u32 j, 0\nmov.f32 s, 0\n" +
			"again:\nset.ge.u32 p, j, n\nbra out, p\ncvt.u64.u32 jj, j\nadd.u64 o, row, jj\nmul.u64 o, o, 4\nldg.f32 x, a[o]\nadd.f32 s, s, x\nadd.u32 j, j, 1\nbra again\n" +
			"out:\nmul.u64 o, g, 4\nstg.f32 s, c[o]\nexit",
			analysis.Launch{N: 50, Params: []uint64{30}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}, SlotBytes: []int64{6000, 200}}},
		{"a grid stride loop", "slot a f32\nparam n u32\n" + place + "sreg g, grid_dim.x\nmul.u32 step, g, d\nldp.u32 n, n\n" +
			"again:\nset.ge.u32 p, i, n\nbra out, p\nmul.u32 o, i, 4\nldg.f32 x, a[o]\nstg.f32 x, a[o]\nadd.u32 i, i, step\nbra again\nout:\nexit",
			analysis.Launch{N: 512, Params: []uint64{3000}, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{12000}}},
		{"a block turned round", "slot a f32\nshared 256\nblock 64\nsreg x, lane.x\nldg.f32 v, a[index]\nmul.u32 o, x, 4\nsts.f32 v, shared[o]\nbar_sync 0\n" +
			"sub.u32 o, 63, x\nmul.u32 o, o, 4\nlds.f32 v, shared[o]\nstg.f32 v, a[index]\nexit",
			analysis.Launch{N: 640, Grid: [3]uint32{10, 1, 1}, Block: [3]uint32{64, 1, 1}, SlotBytes: []int64{2560}}},
		{"a histogram", "slot a u32\nslot h u32\nldg.u32 x, a[index]\nand.u32 x, x, 63\nshl.u32 x, x, 2\natom_add.u32 r, h[x], 1\nexit",
			analysis.Launch{N: 640, Grid: [3]uint32{10, 1, 1}, Block: [3]uint32{64, 1, 1}, SlotBytes: []int64{2560, 256}}},
		{"a tree in shared memory", "slot a f32\nslot c f32\nshared 1024\nblock 256\nsreg x, lane.x\nldg.f32 v, a[index]\nmul.u32 o, x, 4\nsts.f32 v, shared[o]\nmov.u32 w, 128\n" +
			"again:\nbar_sync 0\nset.ge.u32 p, x, w\nbra skip, p\nadd.u32 q, x, w\nmul.u32 q, q, 4\nlds.f32 y, shared[q]\nlds.f32 z, shared[o]\nadd.f32 z, z, y\nsts.f32 z, shared[o]\n" +
			"skip:\nshr.u32 w, w, 1\nset.gt.u32 p, w, 0\nbra again, p\nlds.f32 v, shared[0]\nstg.f32 v, c[index]\nexit",
			analysis.Launch{N: 2560, Grid: [3]uint32{10, 1, 1}, Block: [3]uint32{256, 1, 1}, SlotBytes: []int64{10240, 10240}}},
		{"a checked index", "slot a f32\nslot i u32\nslot c f32\nparam n u32\nldg.u32 x, i[index]\nldp.u32 n, n\nset.ge.u32 p, x, n\nbra end, p\nmul.u32 x, x, 4\nldg.f32 y, a[x]\nstg.f32 y, c[index]\nend:\nexit",
			analysis.Launch{N: 100, Params: []uint64{77}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{128, 1, 1}, SlotBytes: []int64{308, 400, 400}}},
		{"a clamped index", "slot a f32\nslot i i32\nslot c f32\nparam n i32\nldg.i32 x, i[index]\nldp.i32 n, n\nsub.i32 n, n, 1\nmax.i32 x, x, 0\nmin.i32 x, x, n\nmul.i32 x, x, 4\nldg.f32 y, a[x]\nstg.f32 y, c[index]\nexit",
			analysis.Launch{N: 100, Params: []uint64{77}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{128, 1, 1}, SlotBytes: []int64{308, 400, 400}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := analyseText(t, "program p\n"+c.text)
			var p analysis.Proof
			a.Prove(&c.l, &p)
			require.True(t, p.All(), "%v\n%v", a, a.Func)
			for slot := range c.l.SlotBytes {
				if a.Class.Reads>>slot&1 == 1 && a.Class.Gathers>>slot&1 == 0 || a.Class.Writes>>slot&1 == 1 {
					continue
				}
				short := c.l
				short.SlotBytes = append([]int64{}, c.l.SlotBytes...)
				short.SlotBytes[slot]--
				a.Prove(&short, &p)
				require.False(t, p.All(), "slot %d", slot) // so the sizes above are the least
			}
		})
	}
}
