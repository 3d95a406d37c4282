package cpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

func TestCompare(t *testing.T)      { compare(t, 2, programs) }
func TestCompareFlows(t *testing.T) { compare(t, 2, flows) }

// engines are the levels that this machine has.
func engines(t *testing.T, threads int) map[jit.Level]*cpu.Backend {
	has := map[jit.Level]*cpu.Backend{}
	for _, l := range levels {
		b, err := cpu.NewFor(threads, l)
		if err != nil {
			t.Logf("without %v: %v", l, err)
			continue
		}
		has[l] = b
	}
	return has
}

// compare runs programs on each level, and on the oracle once for all.
func compare(t *testing.T, threads int, programs map[string]string) {
	has := engines(t, threads)
	for name, text := range programs {
		v := verify(t, text)
		r := rand.New(rand.NewPCG(1, 2))
		oracle, tested := newReady(t, interp.New(), v), map[jit.Level]*ready{}
		for l, b := range has {
			tested[l] = newReady(t, b, v)
		}
		shapes := []shape{linear(1, 1), linear(33, 32), linear(1000, 256), linear(2000, 96), linear(700, 1024),
			{grid: [3]uint32{3, 2, 2}, block: [3]uint32{5, 4, 3}, dims: []int64{7, 50, 2}},
			{grid: [3]uint32{5, 1, 1}, block: [3]uint32{16, 16, 1}, dims: []int64{1, 1025}},
			{grid: [3]uint32{2, 3, 1}, block: [3]uint32{300, 2, 1}, dims: []int64{3333}},
			{grid: [3]uint32{1, 1, 1}, block: [3]uint32{32, 1, 1}, dims: []int64{0}},
		}
		for i, sh := range shapes {
			for k, fuel := range []uint64{0, 4, 100} {
				if brief.Skips(len(name)+2*i+k, 4) {
					continue
				}
				sh.fuel = fuel
				contents := randomContents(r, v, max(sh.n(), 16))
				for k, s := range v.Program.Slots {
					if s.Name == isa.BoundarySlot {
						contents[k] = make([]byte, isa.BoundaryBytes)
						contents[k][3*isa.ClassBytes+2*isa.PageBytes+2] = 77
					}
				}
				params := make([]uint64, len(v.Program.Params)) // without which a launch is refused by all
				for k := range params {
					params[k] = r.Uint64() & v.Program.Params[k].Type.Mask()
				}
				want := oracle.run(t, new(host).block, sh, contents, nil, params)
				for l, m := range tested {
					if err := same(v, m.run(t, new(host).block, sh, contents, nil, params), want); err != nil {
						t.Errorf("%s, %v, shape %d, fuel %d: %v", name, l, i, fuel, err)
						m.k.Release()
						delete(tested, l)
					}
				}
			}
		}
		oracle.k.Release()
		for _, m := range tested {
			m.k.Release()
		}
	}
}

// TestCompareViews runs an element-wise program over views with strides,
// broadcasts and reversals, some with rows long enough to cut strips at.
func TestCompareViews(t *testing.T) {
	brief.Alone(t)
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) { compareViews(t, on(t, l, 2)) })
	}
}

// storing are ways to the last store that not all lanes take: what the others leave alone stays,
// wherever it lies.
var storing = map[string]string{
	"a branch":             "  bra out, p\n  stg.i16 y, d[index]\nout:\n  exit",
	"a branch in a branch": "  bra out, p\n  set.lt.i16 q, y, 0\n  bra in, q\n  stg.i16 y, d[index]\nin:\n  add.i16 y, y, 1\nout:\n  exit",
	"a loop":               "  and.i32 n, x, 1\n  cvt.u32.i32 n, n\n  loop n, done\n  stg.i16 y, d[index]\ndone:\n  exit",
	"a loop's branch":      "  loop 2, done\n  bra over, p\n  stg.i16 y, d[index]\nover:\n  add.i16 y, y, 1\ndone:\n  exit",
	"behind a loop":        "  loop 2, done\n  add.i32 x, x, 7\n  set.lt.i32 p, x, 0\n  bra out, p\ndone:\n  stg.i16 y, d[index]\nout:\n  exit",
	"behind an exit":       "  bra on, p\n  set.lt.i16 q, y, 0\n  bra on, q\n  exit\non:\n  stg.i16 y, d[index]\n  exit",
}

func compareViews(t *testing.T, tested backends.Backend) {
	for name, text := range storing {
		compareViewsOf(t, tested, name, verify(t, `
program p
slot a i32
slot b i16
slot c i32
slot d i16
  ldg.i32 x, a[index]
  ldg.i16 y, b[index]
  cvt.i32.i16 z, y
  mul.i32 x, x, z
  stg.i32 x, c[index]
  set.lt.i32 p, x, 0
`+text))
	}
}

func compareViewsOf(t *testing.T, tested backends.Backend, name string, v *isa.Verified) {
	r := rand.New(rand.NewPCG(3, 4))
	oracle := interp.New()
	for i, dims := range [][]int64{{1}, {1000}, {40, 100}, {7, 5, 9}, {3, 2000}, {2, 3, 700}, {1, 1, 1}, {64, 64}, {600, 3}} {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		sh := shape{grid: [3]uint32{uint32(n+127) / 128, 1, 1}, block: [3]uint32{128, 1, 1}, dims: dims}
		transposed := make([]int64, len(dims))
		column, row, wide := make([]int64, len(dims)), make([]int64, len(dims)), make([]int64, len(dims))
		for k, s, q := 0, int64(1), len(dims)-1; k < len(dims); k, q = k+1, q-1 {
			transposed[k] = s
			s *= dims[k]
		}
		for q, s := len(dims)-1, int64(1); q >= 0; q-- {
			wide[q] = 3 * s
			s *= dims[q]
		}
		column[0], row[len(dims)-1] = 1, 1
		for j, st := range []map[int][]int64{
			{0: transposed, 1: transposed}, {0: column, 1: row}, {0: make([]int64, len(dims))},
			{2: transposed}, {0: wide, 2: wide}, {1: wide, 3: transposed}, {2: transposed, 3: wide, 0: row},
		} {
			contents := randomContents(r, v, 3*n)
			want := run(t, oracle, v, sh, contents, st, nil)
			got := run(t, tested, v, sh, contents, st, nil)
			if err := same(v, got, want); err != nil {
				t.Errorf("%s, dims %d, strides %d: %v", name, i, j, err)
			}
		}
	}
}

// What stands for all lanes is computed once, but not before what writes it, and nothing
// beside it is.
func TestOneElementForAll(t *testing.T) {
	v := verify(t, `
program p
slot a i32
slot c i32
slot d i32
  ldg.i32 y, d[index]
  mul.i32 y, y, 3
  stg.i32 y, a[0]
  ldg.i32 x, a[index]
  sreg g, global_lane
  cvt.i32.u64 z, g
  sub.i32 x, x, z
  add.i32 x, x, y
  stg.i32 x, c[index]
  exit`)
	few := verify(t, `
program p
slot a i32
slot c i32
  ldg.i32 x, a[index]
  sreg g, global_lane
  sreg q, lane.x
  cvt.i32.u64 z, g
  add.i32 x, x, z
  cvt.i32.u32 z, q
  mul.i32 x, x, z
  stg.i32 x, c[index]
  exit`)
	sh := linear(200, 64)
	blocks := sh
	blocks.block = [3]uint32{8, 8, 1}
	r := rand.New(rand.NewPCG(7, 8))
	for _, l := range levels {
		for i, v := range []*isa.Verified{v, few} {
			for _, sh := range []shape{sh, blocks} {
				contents := randomContents(r, v, sh.n())
				strides := map[int][]int64{0: {0}, 2: {0}}
				want := run(t, interp.New(), v, sh, contents, strides, nil)
				got := run(t, on(t, l, 1), v, sh, contents, strides, nil)
				if err := same(v, got, want); err != nil {
					t.Errorf("%v, program %d, blocks %v: %v", l, i, sh.block, err)
				}
			}
		}
	}
}

// Lanes that meet, in blocks that are rows of views and such that are not, whose elements
// lie side by side, apart or on each other.
func TestBlocksOfViews(t *testing.T) {
	v := verify(t, `
program p
slot a f32
slot c f32
  ldg.f32 x, a[index]
  block_reduce_max.f32 m, x
  sub.f32 x, x, m
  stg.f32 x, c[index]
  exit`)
	r := rand.New(rand.NewPCG(9, 10))
	oracle := interp.New()
	const rows, cols = 6, 100
	for i, st := range []map[int][]int64{
		{0: {107, 1}}, {0: {cols, 1}, 1: {130, 1}}, {0: {0, 1}}, {0: {220, 2}}, {0: {1, rows}, 1: {1, rows}}, {0: {1, 0}}, {0: {101, 1}, 1: {3 * cols, 3}},
	} {
		if brief.Skips(i, 3) {
			continue
		}
		for _, block := range []int64{20, 64, 100, 200} {
			sh := linear(rows*cols, block)
			sh.dims = []int64{rows, cols}
			contents := randomContents(r, v, 3*rows*cols)
			want := run(t, oracle, v, sh, contents, st, nil)
			for _, l := range levels {
				if err := same(v, run(t, on(t, l, 2), v, sh, contents, st, nil), want); err != nil {
					t.Errorf("%v, strides %d, blocks of %d: %v", l, i, block, err)
				}
			}
		}
	}
}

// What all lanes store to one element is some lane's, and nothing beside it is touched.
func TestOneElementOfAll(t *testing.T) {
	v := verify(t, "program p\nslot a u16\nslot c u16\n  ldg.u16 x, a[index]\n  add.u16 x, x, 3\n  stg.u16 x, c[index]\n  exit\n")
	const n = 200
	contents := [][]byte{make([]byte, 2*n), {0, 0}}
	for i := range contents[0] {
		contents[0][i] = byte(1 + i%2) // all lanes have the same
	}
	for _, l := range levels {
		var whole []byte
		room := func(n int) []byte {
			whole = new(host).block(n + 256)
			return whole[:n]
		}
		got := runIn(t, room, on(t, l, 1), v, linear(n, 64), contents, map[int][]int64{1: {0}}, nil)
		if got.err != nil || got.slots[1][0] != 4 || got.slots[1][1] != 2 {
			t.Errorf("%v: %v, %v", l, got.slots[1], got.err)
		}
		for i, b := range whole[2:] {
			if b != 0 {
				t.Fatalf("%v: byte %d behind the element is %d", l, i, b)
			}
		}
	}
}
