package cuda_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/hologram-project/hologram/kernels"
)

// elements is a size with whole blocks and a tail, whatever a block has.
const elements = 3*4096 + 517

// anyBits is memory of random bits, with special values among them.
func anyBits(r *rand.Rand, t isa.Type, n int) []byte {
	b := make([]byte, n*t.Size())
	for i := range n {
		cell := r.Uint64()
		switch r.IntN(4) {
		case 0:
			cell &= 0xff
		case 1: // floats of moderate size, in any type
			cell = cell&^0x7800780078007800 | 0x3800380038003800
		case 2:
			cell = []uint64{0, 1 << 63, 0x7f80_0000_7f80_0000, ^uint64(0), 0x7fc0_7fc0_7fc0_7fc0, 0x8000_8000_8000_8000, 1, 0x7ff0_0000_0000_0000}[r.IntN(8)]
		}
		var c [8]byte
		binary.LittleEndian.PutUint64(c[:], cell)
		copy(b[i*t.Size():], c[:t.Size()])
	}
	return b
}

// mapped is a run of a program over elements, or nothing if it is none whose
// lanes may do several. Some slots stand for a single element, if there may be.
func mapped(t testing.TB, v *isa.Verified, seed uint64, single bool) *run {
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	p, err := ptx.Compile(f)
	require.NoError(t, err)
	if p.Vector == 0 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 7))
	r := &run{program: v, eager: true, shape: []int64{elements}, block: flat(256), grid: flat((elements + 255) / 256)}
	for range v.Program.Params {
		r.params = append(r.params, random.Uint64N(6))
	}
	for i, s := range v.Slots {
		one := slotData{bytes: anyBits(random, v.Program.Slots[i].Type, elements)}
		if s.Indexed && !s.Writes && !s.Bytes && single && random.IntN(2) == 0 {
			one.strides = []int64{0}
		}
		r.slots = append(r.slots, one)
	}
	return r
}

// inRows deals the elements of a run out to rows, not always of as many as a lane does
// at once, from which some slots stand for one element of each, and others for a row.
func (r *run) inRows(v *isa.Verified, seed uint64) *run {
	random := rand.New(rand.NewPCG(seed, 8))
	r.shape = [][]int64{{7, 1816}, {3, 8, 520}, {24, 522}, {2, 1021, 6}, {5, 2503}}[random.IntN(5)]
	n, last := int64(1), len(r.shape)-1
	for _, d := range r.shape {
		n *= d
	}
	r.grid = flat(int(n+255) / 256)
	for i, s := range v.Slots {
		strides, step := make([]int64, len(r.shape)), int64(1)
		for k := last; k >= 0; k-- {
			strides[k] = step
			step *= r.shape[k]
		}
		if r.slots[i].strides = strides; !s.Indexed || s.Writes || s.Bytes {
			continue
		}
		switch random.IntN(4) {
		case 0:
			if strides[last] = 0; random.IntN(2) == 0 {
				strides[0] = 1
			}
		case 1:
			clear(strides[:last])
		case 2:
			strides[0] = 0
		}
	}
	return r
}

// Each element-wise operation of the library has the interpreter's bits.
func TestVectorsOfTheLibrary(t *testing.T) {
	device(t)
	runs := 0
	for _, op := range kernels.All {
		if !op.Elementwise {
			continue
		}
		for _, typ := range op.Types.List() {
			v, err := op.Program(typ)
			require.NoError(t, err)
			t.Run(op.Name+"."+typ.String(), func(t *testing.T) {
				for i := range 2 {
					if r := mapped(t, v, uint64(i), i > 0); r != nil {
						runs++
						r.compare(t)
						mapped(t, v, uint64(i), false).inRows(v, uint64(runs)).compare(t)
					}
				}
			})
		}
	}
	require.Greater(t, runs, 300)
}

// So have random programs, with loops, branches, gathers and faults.
func TestVectorsOfRandomPrograms(t *testing.T) {
	device(t)
	runs := 0
	for seed := range uint64(2000) {
		s := isatest.FromSeed(seed)
		c := progen.New(s, progen.Config{Size: 2 + s.Intn(12), Faults: s.Intn(2) == 0})
		v, err := isa.Verify(c.Program)
		require.NoError(t, err)
		r := mapped(t, v, seed, seed%2 == 0)
		if r == nil {
			continue
		}
		runs++
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r.compare(t)
			mapped(t, v, seed, false).inRows(v, seed).compare(t)
		})
	}
	t.Logf("%d programs", runs)
	require.Greater(t, runs, 20)
}

// What a user may write: constructs, the lane's number, parameters, gathers,
// narrow types side by side, and stores that later loads see.
func TestVectorsOfUsersPrograms(t *testing.T) {
	device(t)
	for name, text := range map[string]string{
		"branches and loops": `
slot a f32
slot k u8
slot c f32
param n u32
  ldp.u32 n, n
  ldg.f32 x, a[index]
  ldg.u8 k, k[index]
  cvt.u32.u8 k, k
  and.u32 k, k, 7
  mov.f32 y, 0x0p+0
  loop k, done
  fma.f32 y, y, x, x
  set.gt.f32 p, y, 1.0
  bra done, p
  add.f32 y, y, 0x1p-2
done:
  set.lt.u32 q, k, n
  bra over, q
  neg.f32 y, y
over:
  stg.f32 y, c[index]
  exit`,
		// What ptxas got wrong of narrow values that are carried on.
		"signs": `
slot a i8
slot b f32
slot c bf16
slot d f16
slot e i16
slot f f64
  ldg.i16 v, e[index]
  cvt.i32.i16 v, v
  cvt.u32.i32 v, v
  cvt.f64.u32 v, v
  stg.f64 v, f[index]
  ldg.i8 x, a[index]
  cvt.u32.i8 x, x
  cvt.f32.u32 y, x
  stg.f32 y, b[index]
  cvt.bf16.f32 z, y
  neg.bf16 z, z
  abs.bf16 z, z
  stg.bf16 z, c[index]
  cvt.f16.u32 w, x
  neg.f16 w, w
  abs.f16 w, w
  stg.f16 w, d[index]
  exit`,
		// And of NaN's absolute value, which is in no order with any number.
		"absolutes": `
slot a f32
slot b f64
slot c u8
  ldg.f32 x, a[index]
  abs.f32 x, x
  set.ge.f32 p, x, 0.0
  set.lt.f32 q, -6.0, x
  and.pred p, p, q
  ldg.f64 y, b[index]
  abs.f64 y, y
  set.gt.f64 q, y, -2.0
  sel.u8 z, p, 1, 0
  sel.u8 w, q, 2, 0
  or.u8 z, z, w
  stg.u8 z, c[index]
  exit`,
		"places": `
slot out u64
slot b u16
  sreg g, global_lane
  sreg n, n
  sub.u64 d, n, g
  mul.u64 d, d, g
  stg.u64 d, out[index]
  cvt.u16.u64 s, g
  stg.u16 s, b[index]
  exit`,
		"bytes": `
slot a i8
slot b u8
slot c i8
  ldg.i8 x, a[index]
  ldg.u8 y, b[index]
  cvt.i8.u8 z, y
  mul.i8 x, x, z
  stg.i8 x, c[index]
  ldg.i8 w, c[index]
  add.i8 w, w, 1
  stg.i8 w, c[index]
  exit`,
		"halves": `
slot a bf16
slot b f16
slot c u8
  ldg.bf16 x, a[index]
  ldg.f16 y, b[index]
  cvt.bf16.f16 y, y
  mul.bf16 x, x, y
  stg.bf16 x, a[index]
  set.gt.bf16 p, x, 0x0p+0
  sel.u8 k, p, 1, 0
  stg.u8 k, c[index]
  exit`,
		"gather with faults": `
slot i u32
slot from u32
slot c u32
  ldg.u32 k, i[index]
  rem.u32 k, k, 70000
  cvt.i64.u32 k, k
  ldg.u32 x, from[k]
  stg.u32 x, c[index]
  exit`,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				r := mapped(t, verified(t, text), seed, seed%2 == 1)
				require.NotNil(t, r)
				r.compare(t)
			}
		})
	}
}

// A fault is of a lane that has one, among neighbours and in the tail.
func TestVectorsTellTheLane(t *testing.T) {
	device(t)
	for _, bad := range []int{0, 5, 256, 1027, 4099, elements - 1} {
		r := &run{eager: true, shape: []int64{elements}, block: flat(256), grid: flat((elements + 255) / 256), text: `
slot a i32
slot c i32
  ldg.i32 x, a[index]
  div.i32 x, 1000, x
  stg.i32 x, c[index]
  exit`, slots: []slotData{{bytes: make([]byte, 4*elements)}, {bytes: make([]byte, 4*elements)}}}
		for i := range elements {
			r.slots[0].bytes[4*i] = 3
		}
		r.slots[0].bytes[4*bad] = 0
		var f *backends.ProgramFault
		require.ErrorAs(t, r.compare(t).err, &f)
		require.Equal(t, uint64(bad), f.Lane)
	}
}

// Views that do not start at a multiple of an access go element by element.
func TestVectorsMisaligned(t *testing.T) {
	device(t)
	text := "slot a f32\nslot c f32\n ldg.f32 x, a[index]\n add.f32 x, x, 1.0\n stg.f32 x, c[index]\n exit"
	for at := range 5 {
		r := &run{eager: true, shape: []int64{5000}, block: flat(256), grid: flat(20), text: text,
			slots: []slotData{{bytes: numbers(5010, true), at: 4 * at}, {bytes: numbers(5010, true), at: 4 * (at / 2)}}}
		r.compare(t)
	}
}

// Accesses that are proved are not checked, and go to the same places: by an
// offset, a constant, both, far ones, and ones that are no multiple of their size.
func TestProvedAccesses(t *testing.T) {
	device(t)
	r := &run{proved: true, shape: []int64{500}, block: flat(64), grid: flat(8), text: `
slot a u8
slot c u32
shared 512
  sreg g, global_lane
  sreg l, lane.x
  shl.u64 o, g, 2
  ldg.u32 x, a[o + 12]
  ldg.u16 y, a[g + 7]
  cvt.u32.u16 y, y
  add.u32 x, x, y
  ldg.u64 z, a[24]
  cvt.u32.u64 z, z
  add.u32 x, x, z
  shl.u32 s, l, 3
  sts.u32 x, shared[s]
  lds.u32 x, shared[s]
  cvt.i64.u64 w, o
  sub.i64 w, w, 0x100000000
  stg.u32 x, c[w + 0x100000000]
  exit`, slots: []slotData{{bytes: numbers(520, false)}, {bytes: numbers(500, false)}}}
	r.compare(t)
}

// Neighbours are accessed at once, or one by one where slots are not aligned.
func TestNeighbours(t *testing.T) {
	device(t)
	for _, typ := range []string{"i8", "u16", "i32", "u64", "f32", "f64", "f16", "bf16"} {
		size := map[string]int{"i8": 1, "u16": 2, "f16": 2, "bf16": 2, "u64": 8, "f64": 8}[typ]
		if size == 0 {
			size = 4
		}
		var text strings.Builder
		fmt.Fprintf(&text, "slot a %s\nslot c %[1]s\n  shl.u64 o, r255, 4\n", typ)
		for k := range 16 / size {
			fmt.Fprintf(&text, "  ldg.%s x%d, a[o + %d]\n", typ, k, k*size)
		}
		for k := range 16 / size { // the last first
			j := 16/size - 1 - k
			if size == 2 && typ != "u16" {
				fmt.Fprintf(&text, "  cvt.f32.%s y%d, x%[2]d\n  add.f32 y%[2]d, y%[2]d, y%[2]d\n  cvt.%[1]s.f32 x%[2]d, y%[2]d\n", typ, j)
			} else {
				fmt.Fprintf(&text, "  add.%s x%d, x%[2]d, x%[2]d\n", typ, j)
			}
			fmt.Fprintf(&text, "  stg.%s x%d, c[o + %d]\n", typ, j, j*size)
		}
		text.WriteString("  exit")
		for _, at := range []int{0, size} {
			r := &run{proved: true, shape: []int64{777}, block: flat(64), grid: flat(13), text: text.String()}
			for i := range 2 {
				bytes := numbers((777*16+at+3)/4, i == 0 && typ[0] != 'i' && typ[0] != 'u')
				for b := 1; size == 2 && b < len(bytes); b += 2 {
					bytes[b] &^= 4 // no NaN of 16 bits
				}
				r.slots = append(r.slots, slotData{bytes: bytes[:777*16+at], at: at})
			}
			t.Run(fmt.Sprint(typ, " at ", at), func(t *testing.T) { r.compare(t) })
		}
	}
}
