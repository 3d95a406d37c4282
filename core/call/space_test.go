package call

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// stepOf is a step of a program whose slots are bound to views.
func stepOf(t *testing.T, text string, info *backends.Info, views ...backends.View) *step {
	t.Helper()
	source, err := isa.Assemble("p", text)
	require.NoError(t, err)
	verified, err := isa.Verify(source)
	require.NoError(t, err)
	s := &step{what: "p", info: info, program: program.New(verified)}
	for i, v := range views {
		s.addSlot(v, source.Slots[i].Name, i, false)
	}
	return s
}

// TestBordersOfBlocksAndGrids goes to the last block, grid and index space that may
// be, and one beyond.
func TestBordersOfBlocksAndGrids(t *testing.T) {
	const most = 1<<32 - 1
	type triple = [3]uint32
	for _, c := range []struct {
		n           int64 // -1: not given
		grid, block triple
		limit       triple // of the device
		want        triple // the grid; none: refused
	}{
		{1, triple{}, triple{1024, 1, 1}, triple{}, triple{1, 1, 1}},
		{1, triple{}, triple{1025, 1, 1}, triple{}, triple{}},
		{1, triple{}, triple{1, 1, 1024}, triple{}, triple{1, 1, 1}},
		{1, triple{}, triple{16, 8, 8}, triple{}, triple{1, 1, 1}},
		{1, triple{}, triple{16, 8, 9}, triple{}, triple{}},
		{1, triple{}, triple{0, 1, 1}, triple{}, triple{}},
		{1, triple{}, triple{1, 0, 1}, triple{}, triple{}},
		{1, triple{}, triple{1, 1, 0}, triple{}, triple{}},
		{1, triple{}, triple{1 << 31, 1 << 31, 4}, triple{}, triple{}}, // 2^64 lanes

		{0, triple{}, triple{}, triple{}, triple{1, 1, 1}},
		{256, triple{}, triple{}, triple{}, triple{1, 1, 1}},
		{257, triple{}, triple{}, triple{}, triple{2, 1, 1}},
		{512, triple{}, triple{}, triple{}, triple{2, 1, 1}},
		{most, triple{}, triple{1, 1, 1}, triple{}, triple{most, 1, 1}},
		{most + 1, triple{}, triple{1, 1, 1}, triple{}, triple{}},
		{most * 1024, triple{}, triple{32, 4, 8}, triple{}, triple{most, 1, 1}},
		{most*1024 + 1, triple{}, triple{32, 4, 8}, triple{}, triple{}},

		{-1, triple{2, 3, 4}, triple{5, 1, 1}, triple{}, triple{2, 3, 4}},
		{120, triple{2, 3, 4}, triple{5, 1, 1}, triple{}, triple{2, 3, 4}},
		{121, triple{2, 3, 4}, triple{5, 1, 1}, triple{}, triple{}},
		{1, triple{0, 1, 1}, triple{}, triple{}, triple{}},
		{1, triple{1, 1, 0}, triple{}, triple{}, triple{}},
		{-1, triple{1 << 31, 1 << 30, 1}, triple{2, 1, 1}, triple{}, triple{1 << 31, 1 << 30, 1}},
		{-1, triple{1 << 31, 1 << 31, 1}, triple{2, 1, 1}, triple{}, triple{}},
		{1, triple{1 << 31, 1 << 31, 2}, triple{1, 1, 1}, triple{}, triple{}},
		{1, triple{1 << 31, 1 << 31, 4}, triple{1, 1, 1}, triple{}, triple{}}, // 2^64 lanes
		{1 << 62, triple{1 << 31, 1 << 31, 1}, triple{1, 1, 1}, triple{}, triple{1 << 31, 1 << 31, 1}},
		{1<<62 + 1, triple{1 << 31, 1 << 31, 1}, triple{1, 1, 1}, triple{}, triple{}},
		{-1, triple{}, triple{}, triple{}, triple{}},

		{-1, triple{5, 3, 900}, triple{}, triple{5, 3, 0}, triple{5, 3, 900}},
		{-1, triple{6, 3, 1}, triple{}, triple{5, 3, 0}, triple{}},
		{-1, triple{5, 4, 1}, triple{}, triple{5, 3, 0}, triple{}},
		{-1, triple{1, 1, 3}, triple{}, triple{0, 0, 2}, triple{}},
		{5 * 256, triple{}, triple{}, triple{5, 3, 0}, triple{5, 1, 1}},
		{5*256 + 1, triple{}, triple{}, triple{5, 3, 0}, triple{}},
	} {
		s := stepOf(t, "program p\nslot b u8\nldg.u8 x, b[0]\nstg.u8 x, b[0]\nexit", &backends.Info{MaxGrid: c.limit}, vector(64, isa.U8, 4).View)
		var shape []int64
		if c.n >= 0 {
			shape = []int64{c.n}
		}
		err := s.chooseBlock(c.block)
		if err == nil {
			err = s.chooseSpace(shape, c.grid)
		}
		if c.want == (triple{}) {
			require.Equal(t, status.Invalid, status.CodeOf(err), "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.want, s.l.Grid, "%+v", c)
		n := uint64(c.n)
		if c.n < 0 {
			n = uint64(c.grid[0]) * uint64(c.grid[1]) * uint64(c.grid[2]) * uint64(s.l.Block[0])
		}
		require.Equal(t, n, s.l.N, "%+v", c)
	}
}

// smallView is a view of few elements, packed or strided, some of one element or none.
func smallView(r *rand.Rand, addr uintptr) backends.View {
	v := backends.View{Addr: addr, Type: isa.F32, Rank: r.IntN(4)}
	for i := range v.Rank {
		v.Shape[i] = []int64{0, 1, 1, 2, 2, 2, 3, 3, 3, 3}[r.IntN(10)]
	}
	Pack(&v)
	for i := range v.Rank {
		switch {
		case v.Shape[i] == 1:
			v.Stride[i] = int64(r.IntN(9) - 4) // by which nobody steps
		case r.IntN(8) == 0:
			v.Stride[i] = int64(r.IntN(9) - 4)
		}
	}
	if !Contiguous(&v) {
		v.Bytes = 0
	}
	return v
}

// broadcastPlaces is where the elements of a view are that is broadcast to a shape,
// and whether it can be; repeats says that some are several times.
func broadcastPlaces(v *backends.View, shape []int64) (at []int64, repeats, ok bool) {
	if v.Rank > len(shape) {
		return nil, false, false
	}
	var stride [isa.MaxRank]int64
	for i := range v.Rank {
		to := len(shape) - v.Rank + i
		if v.Shape[i] != shape[to] && v.Shape[i] != 1 {
			return nil, false, false
		}
		if v.Shape[i] == shape[to] {
			stride[to] = v.Stride[i]
		}
	}
	at = []int64{int64(v.Addr)}
	for i, d := range shape {
		var next []int64
		for _, p := range at {
			for k := range d {
				next = append(next, p+k*stride[i]*int64(v.Type.Size()))
			}
		}
		repeats = repeats || d > 1 && stride[i] == 0
		at = next
	}
	return at, repeats, true
}

// merged is the shape to which two broadcast.
func merged(a, b []int64) ([]int64, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i := range b {
		at := len(a) - len(b) + i
		if out[at] == 1 {
			out[at] = b[i]
		} else if b[i] != 1 && b[i] != out[at] {
			return nil, false
		}
	}
	return out, true
}

// TestIndexSpacesOfRandomViews has slots of random shapes and strides, an index space
// that is given or found, and launches of programs and of operations. What the lanes
// then see is counted out: a shape is broadcast to, a number counts elements.
func TestIndexSpacesOfRandomViews(t *testing.T) {
	const text = "program p\nslot x f32\nslot y f32\nslot z f32\nslot raw u8\nldg.f32 v, x[index]\nldg.f32 w, y[index]\nadd.f32 v, v, w\nstg.f32 v, z[index]\n" +
		"ldg.u8 u, raw[0]\nstg.u8 u, raw[1]\nexit"
	r := rand.New(rand.NewPCG(7, 8))
	template := stepOf(t, text, &backends.Info{})
	taken, refused := 0, 0
	for range 30000 {
		views := []backends.View{smallView(r, 1000), smallView(r, 2000), smallView(r, 3000)}
		switch r.IntN(4) { // some that fit
		case 0:
			views[1] = views[0]
			views[1].Addr = 2000
		case 1:
			views[2] = views[0]
			views[2].Addr = 3000
		}
		s := &step{what: "p", info: template.info, program: template.program, broadcasts: r.IntN(2) == 0}
		for i, v := range append(slices.Clone(views), vector(4000, isa.U8, 7).View) {
			s.addSlot(v, template.program.Source().Slots[i].Name, i, false)
		}
		var given []int64
		switch r.IntN(3) {
		case 0:
			given = []int64{int64(r.IntN(8))}
			if r.IntN(2) == 0 {
				given[0] = Numel(&views[r.IntN(3)])
			}
		case 1:
			for range r.IntN(4) {
				given = append(given, int64(r.IntN(4)))
			}
		case 2:
			given = slices.Clone(views[2].Shape[:views[2].Rank])
		}
		counts := len(given) == 1 && !s.broadcasts

		space, ok := given, true
		switch {
		case given == nil:
			space = []int64{}
			for i := range views {
				if ok {
					space, ok = merged(space, views[i].Shape[:views[i].Rank])
				}
			}
		case counts:
			for i := range views {
				if v := &views[i]; v.Rank > 1 && !Contiguous(v) && Numel(v) == given[0] {
					space = v.Shape[:v.Rank]
					break
				}
			}
		}
		n, _ := Elements(space, 1<<40)
		want := make([][]int64, len(views))
		for i := 0; ok && i < len(views); i++ {
			v := &views[i]
			all, numbered, repeats := places(v), false, false
			if counts && len(space) == 1 && int64(len(all)) >= n && (v.Rank == 1 || v.Rank > 1 && Contiguous(v)) {
				want[i], numbered = all[:n], true
				repeats = n > 1 && want[i][0] == want[i][1]
			}
			if !numbered {
				var fits bool
				want[i], repeats, fits = broadcastPlaces(v, space)
				if !fits && !s.broadcasts && v.Rank == 1 && Contiguous(v) && int64(len(all)) == n {
					want[i], fits = all, true
				}
				ok = ok && fits
			}
			ok = ok && !(i == 2 && repeats && n > 0)
		}

		err := s.chooseBlock([3]uint32{2, 1, 1})
		require.NoError(t, err)
		err = s.chooseSpace(given, [3]uint32{})
		if !ok {
			refused++
			require.Equal(t, status.Invalid, status.CodeOf(err), "%v over %+v", given, views)
			continue
		}
		taken++
		require.NoError(t, err, "%v over %+v", given, views)
		require.EqualValues(t, n, s.l.N)
		require.EqualValues(t, max(1, (n+1)/2), s.l.Grid[0])
		if len(given) == 1 {
			require.Equal(t, given, s.l.Sizes)
		} else {
			require.Equal(t, append([]int64{}, space...), append([]int64{}, s.l.Sizes...))
		}
		for i := range views {
			v := &s.l.Slots[i]
			require.Equal(t, append([]int64{}, want[i]...), append([]int64{}, places(v)...), "slot %d, %v over %+v", i, given, views)
			require.Equal(t, s.l.Rank, v.Rank)
			require.Equal(t, s.l.Shape, v.Shape)
			bytes := int64(0)
			if packed := len(want[i]) > 0; packed {
				for k, at := range want[i] {
					packed = packed && at == want[i][0]+int64(4*k)
				}
				if packed {
					bytes = 4 * n
				}
			}
			require.Equal(t, bytes, v.Bytes, "slot %d, %v over %+v", i, given, views)
		}
		require.EqualValues(t, 7, s.l.Slots[3].Bytes)
		if s.l.Rank > 1 && n > 0 {
			require.NotContains(t, s.l.Shape[:s.l.Rank], int64(1))
		}
	}
	require.Greater(t, taken, 5000)
	require.Greater(t, refused, 5000)
}
