package core

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/call"
	"github.com/hologram-project/hologram/isa"
)

// numbers stores each lane's number.
const number = "program number\nslot c u64\nsreg g, global_lane\nstg.u64 g, c[index]\nexit"

func TestIndexSpaces(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, number)
		c, err := ex.Allocate(24, isa.U64, true)
		require.NoError(t, err)
		grid := func(shape []int64, stride []int64) *Buffer {
			v, err := c.View(0, shape, stride)
			require.NoError(t, err)
			return v
		}
		for _, x := range []struct {
			bound       *Buffer
			shape       []int64
			grid, block [3]uint32
			text        string // of the error, or empty
		}{
			{c, nil, [3]uint32{}, [3]uint32{}, ""},
			{c, []int64{24}, [3]uint32{}, [3]uint32{}, ""},
			{c, []int64{0}, [3]uint32{}, [3]uint32{}, ""},
			{grid([]int64{3, 0}, []int64{1, 1}), nil, [3]uint32{}, [3]uint32{}, ""},
			{c, []int64{4, 6}, [3]uint32{}, [3]uint32{}, ""},
			{grid([]int64{4, 6}, nil), []int64{24}, [3]uint32{}, [3]uint32{}, ""},
			{grid([]int64{6, 4}, []int64{1, 6}), []int64{24}, [3]uint32{}, [3]uint32{}, ""},
			{grid([]int64{4, 3}, []int64{6, 2}), nil, [3]uint32{2, 3, 2}, [3]uint32{1, 1, 1}, ""},
			{c, nil, [3]uint32{1, 1, 1}, [3]uint32{4, 3, 2}, ""},
			{c, nil, [3]uint32{5, 1, 1}, [3]uint32{5, 1, 1}, ""},
			{c, []int64{25}, [3]uint32{}, [3]uint32{}, "slot c has 24 elements, fewer than n = 25"},
			{c, []int64{5, 5}, [3]uint32{}, [3]uint32{}, "slot c: shape (24,) does not fit the index space (5, 5)"},
			{c, []int64{2, 24}, [3]uint32{}, [3]uint32{}, "slot c is written, so it is not broadcast: it must have the index space's shape (2, 24)"},
			{grid([]int64{6, 4}, []int64{1, 6}), []int64{23}, [3]uint32{}, [3]uint32{}, "is strided: n takes the first elements of arrays that are contiguous"},
			{grid([]int64{1}, nil), []int64{3}, [3]uint32{}, [3]uint32{}, "slot c"},
			{c, []int64{-1}, [3]uint32{}, [3]uint32{}, "negative"},
			{c, make([]int64, 9), [3]uint32{}, [3]uint32{}, "more than 8 dimensions"},
			{c, []int64{1 << 40, 1 << 40}, [3]uint32{}, [3]uint32{}, "2^62"},
			{c, nil, [3]uint32{1, 1, 1}, [3]uint32{8, 1, 1}, "8 lanes, fewer than the 24 elements"},
			{c, nil, [3]uint32{1, 0, 1}, [3]uint32{}, "grid (1, 0, 1)"},
			{c, nil, [3]uint32{1 << 31, 1 << 31, 1 << 31}, [3]uint32{}, "2^62 lanes"},
			{c, nil, [3]uint32{}, [3]uint32{33, 32, 1}, "1 … 1024 lanes"},
			{c, nil, [3]uint32{}, [3]uint32{1, 0, 1}, "1 … 1024 lanes"},
		} {
			require.NoError(t, wait(c.Fill(Int(99))))
			err := wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x.bound}, Shape: x.shape, Grid: x.grid, Block: x.block}))
			if x.text != "" {
				wants(t, err, Invalid, x.text)
				continue
			}
			require.NoError(t, err)
			data := hostBytes(24 * 8)
			require.NoError(t, wait(c.Read(addressOf(data), 0, 24*8)))
			v := x.bound.Layout()
			want := int(x.bound.Len())
			if x.shape != nil {
				n, _ := call.Elements(x.shape, 1<<40)
				want = int(n)
			}
			v.Addr = 0
			for i, at := range placesOf(&v)[:want] {
				if data[at] != byte(i) {
					t.Errorf("shape %v grid %v: element %d holds %d", x.shape, x.grid, i, data[at])
				}
			}
		}
	})
}

// TestBlocksThatProgramsDemand launches a program that says what its blocks are with
// that shape, none and others.
func TestBlocksThatProgramsDemand(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program number\nslot c u32\nblock 4 2\nsreg g, block_dim.x\nstg.u32 g, c[index]\nexit")
		c, err := ex.Allocate(8, isa.U32, true)
		require.NoError(t, err)
		for _, block := range [][3]uint32{{}, {4, 2, 1}, {2, 4, 1}, {8, 1, 1}, {4, 2, 2}, {5, 2, 1}} {
			err := wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Block: block}))
			if block == ([3]uint32{}) || block == ([3]uint32{4, 2, 1}) {
				require.NoError(t, err)
				data := hostBytes(8 * 4)
				require.NoError(t, wait(c.Read(addressOf(data), 0, 8*4)))
				require.EqualValues(t, 4, data[0])
			} else {
				wants(t, err, Invalid, "the program demands (4, 2, 1)")
			}
		}
	})
}

func TestBroadcastInputs(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, double)
		one, row, out := floats(t, ex, 5), floats(t, ex, 1, 2, 3), floats(t, ex, make([]float32, 6)...)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{one, out}})))
		if got := values(t, out); !slices.Equal(got, []float32{10, 10, 10, 10, 10, 10}) {
			t.Errorf("got %v", got)
		}
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{row, out}, Shape: []int64{2, 3}})))
		if got := values(t, out); !slices.Equal(got, []float32{2, 4, 6, 2, 4, 6}) {
			t.Errorf("got %v", got)
		}
		_, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{row, out}})
		name := p.Source().Slots[0].Name
		wants(t, err, Invalid, "slot c: shape (6,) does not broadcast with slot "+name+", whose shape is (3,); give n or shape")
	})
}

// A slot that contradicts a later one is the one that is named, however many agree before.
func TestSlotsThatDoNotBroadcast(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program three\nslot x f32\nslot y f32\nslot z f32\nldg.f32 a, x[index]\nldg.f32 b, y[index]\nadd.f32 a, a, b\nstg.f32 a, z[index]\nexit")
		for _, c := range []struct {
			shapes [3][]int64
			want   string
		}{
			{[3][]int64{{3}, {4}, {3}}, "slot y: shape (4,) does not broadcast with slot x, whose shape is (3,);"},
			{[3][]int64{{1}, {4}, {3}}, "slot z: shape (3,) does not broadcast with slot y, whose shape is (4,);"},
			{[3][]int64{{2, 1}, {4}, {2, 3}}, "slot z: shape (2, 3) does not broadcast with slot y, whose shape is (4,);"},
			{[3][]int64{{2, 1}, {4}, {3, 4}}, "slot z: shape (3, 4) does not broadcast with slot x, whose shape is (2, 1);"},
		} {
			var slots []*Buffer
			for _, shape := range c.shapes {
				b, err := floats(t, ex, make([]float32, 12)...).View(0, shape, nil)
				require.NoError(t, err)
				slots = append(slots, b)
			}
			_, err := ex.Launch(p, &LaunchArgs{Slots: slots})
			wants(t, err, Invalid, c.want)
		}
	})
}

func TestAtlasState(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program state\nslot c u8\nldg.u8 x, phi(2, 1, 3)\nadd.u8 x, x, 1\nstg.u8 x, phi(2, 1, 3)\nphase_adv 5\ncls_get k\nsreg g, global_lane\nres_accum k, g\nstg.u8 x, c[index]\nexit")
		c, err := ex.Allocate(1, isa.U8, true)
		require.NoError(t, err)
		for i := range 3 {
			var sums [isa.NumClasses]uint64
			// The boundary slot is left to the executor.
			require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c, nil}, Residue: &sums})))
			data := hostBytes(1)
			require.NoError(t, wait(c.Read(addressOf(data), 0, 1)))
			if int(data[0]) != i+1 || phase(t, ex) != int32(5*(i+1)) || sums[0] != 0 {
				t.Errorf("round %d: loaded %d, phase %d, sums %v", i, data[0], phase(t, ex), sums)
			}
		}
		_, err = ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c, c}})
		wants(t, err, Invalid, "slot boundary has 1 bytes; a boundary pool has 1179648")
		for n := int64(isa.BoundaryBytes - 1); n <= isa.BoundaryBytes+1; n++ {
			own, err := ex.Allocate(n, isa.U8, true)
			require.NoError(t, err)
			err = wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c, own}}))
			require.Equal(t, n == isa.BoundaryBytes, err == nil, n)
			own.Free()
		}
	})
}

func TestBytesAndParameters(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program bytes\nslot raw u8\nparam k f32\nsreg i, global_lane\nmul.u64 i, i, 4\nldp.f32 x, k\nstg.f32 x, raw[i]\nexit")
		b := floats(t, ex, 1, 2, 3)
		require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{b}, Params: []Scalar{Float(0.5)}, Shape: []int64{2}})))
		if got := values(t, b); !slices.Equal(got, []float32{0.5, 0.5, 3}) {
			t.Errorf("got %v", got)
		}
		strided, err := b.View(0, []int64{2}, []int64{2})
		require.NoError(t, err)
		one := []int64{1}
		for _, c := range []struct {
			a    LaunchArgs
			text string
		}{
			{LaunchArgs{Slots: []*Buffer{b}, Params: []Scalar{Int(1)}}, "give n, shape or grid"},
			{LaunchArgs{Slots: []*Buffer{b}, Shape: one}, "0 parameters given; the program has 1"},
			{LaunchArgs{Slots: []*Buffer{b}, Params: []Scalar{{}}, Shape: one}, "parameter k (f32) is not given"},
			{LaunchArgs{Slots: []*Buffer{b}, Params: []Scalar{Float(1e300)}, Shape: one}, "parameter k: 1e+300 is out of range of f32"},
			{LaunchArgs{Slots: []*Buffer{strided}, Params: []Scalar{Int(1)}, Shape: one}, "demands a contiguous array; it has shape (2,) and strides of (2,) elements"},
		} {
			_, err := ex.Launch(p, &c.a)
			wants(t, err, Invalid, c.text)
		}
	})
}

// placesOf lists the byte offsets of a view's elements, in row-major order.
func placesOf(v *backends.View) []int64 {
	list := []int64{int64(v.Addr)}
	for i, d := range v.Shape[:v.Rank] {
		var next []int64
		for _, p := range list {
			for k := range d {
				next = append(next, p+k*v.Stride[i]*int64(v.Type.Size()))
			}
		}
		list = next
	}
	return list
}
