package interp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

func TestFaults(t *testing.T) {
	const head = "slot a u32\nslot out u32\nshared 16\ndata d u32 { 5, 6, 7 }\n mov.u32 x, 9\n"
	asks := map[string]int64{"load after the end": 13, "load before the start": -1, "store after the end": 16, "negative offset": -4,
		"shared": 13, "shared store": 13, "atomic": 13, "table": 3, "table below": -1, "flat place": 41 * 4}
	for _, c := range []struct {
		name, body string
		kind       isa.FaultKind
		site       int
		x          uint32
	}{
		{"load after the end", " ldg.u32 x, a[13]", isa.FaultAccess, 1, 0},
		{"load before the start", " ldg.u32 x, a[-1]", isa.FaultAccess, 1, 0},
		{"store after the end", " stg.u32 x, a[16]", isa.FaultAccess, 1, 9},
		{"offset wraps", " mov.i64 o, 0x7fffffffffffffff\n ldg.u32 x, a[o + 9]", isa.FaultAccess, 2, 0},
		{"offset wraps below", " mov.i64 o, -9223372036854775808\n ldg.u32 x, a[o - 9223372036854775808]", isa.FaultAccess, 2, 0},
		{"huge unsigned offset", " mov.u64 o, 0xfffffffffffffffc\n ldg.u32 x, a[o + 4]", isa.FaultAccess, 2, 0},
		{"flat place wraps", " mov.i64 o, 0x7fffffffffffffff\n ldg.u32 x, a[flat o + 1]", isa.FaultAccess, 2, 0},
		{"flat place", " mov.i64 o, 40\n ldg.u32 x, a[flat o + 1]", isa.FaultAccess, 2, 0},
		{"negative offset", " mov.i32 o, -4\n ldg.u32 x, a[o]", isa.FaultAccess, 2, 0},
		{"shared", " mov.u32 o, 13\n lds.u32 x, shared[o]", isa.FaultAccess, 2, 0},
		{"shared store", " mov.u32 o, 13\n sts.u32 x, shared[o]", isa.FaultAccess, 2, 9},
		{"atomic", " mov.u32 o, 13\n atom_add.u32 x, shared[o], 1", isa.FaultAccess, 2, 0},
		{"table", " ldc.u32 x, d[3]", isa.FaultAccess, 1, 0},
		{"table below", " mov.i32 i, -1\n ldc.u32 x, d[i]", isa.FaultAccess, 2, 0},
		{"division", " div.u32 x, x, 0", isa.FaultDivide, 1, 0},
		{"remainder", " mov.u32 z, 0\n rem.u32 x, x, z", isa.FaultDivide, 2, 0},
		{"slot number", " mov.u32 h, 2\n ldg.u32 x, @h[0]", isa.FaultHandle, 2, 0},
		{"negative slot number", " mov.i64 h, -1\n stg.u32 x, @h[0]", isa.FaultHandle, 2, 9},
		{"no handle", " mov.u64 h, 0\n pool_load.u32 x, h, 0", isa.FaultHandle, 2, 0},
		{"freed handle", " pool_alloc h, 8\n pool_free h\n pool_store.u32 x, h, 0", isa.FaultHandle, 3, 9},
		{"freed twice", " pool_alloc h, 8\n pool_free h\n pool_free h", isa.FaultHandle, 3, 9},
		{"pool offset", " pool_alloc h, 8\n pool_load.u32 x, h, 5", isa.FaultAccess, 2, 0},
		{"huge pool offset", " pool_alloc h, 8\n pool_load.u32 x, h, 0xffffffffffffffff", isa.FaultAccess, 2, 0},
		{"class", " mov.u8 c, 96\n mirror c, c\n cvt.u32.u8 x, c", isa.FaultClass, 2, 0},
		{"page", " bound_map o, 1, 48, 0\n cvt.u32.u64 x, o", isa.FaultClass, 1, 0},
		{"first of two", " div.u32 x, x, 0\n ldg.u32 x, a[-9]", isa.FaultDivide, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := setup(t, head+c.body+"\n stg.u32 x, out[index]\n exit", 4, 3)
			r.setU32(0, 1, 2, 3, 4)
			asked := backends.Asked{} // nothing, or no place that memory has
			if at, ok := asks[c.name]; ok {
				asked = backends.Asked{Known: 1, At: at}
			}
			require.Equal(t, asked, r.fails(c.kind, c.site, 0).Asked)
			check(t, "a", r.u32(0), 1, 2, 3, 4)
			check(t, "out", r.u32(1), c.x, c.x, c.x, c.x)
		})
	}
	r := setup(t, "slot a u32\nslot out u32\n mul.u64 o, r255, 4\n ldg.u32 x, a[o]\n stg.u32 x, out[index]\n exit", 4, 4, 2)
	r.setU32(0, 11, 22)
	require.Equal(t, backends.Asked{Known: 1, At: 8}, r.fails(isa.FaultAccess, 1, 2).Asked)
	check(t, "out", r.u32(1), 11, 22, 0, 0)

	// The slot is that whose number the register has.
	r = setup(t, "slot a u32\nslot b u32\n mov.u32 h, 1\n ldg.u32 x, @h[40]\n ldg.u32 y, b[41]\n stg.u32 x, a[index]\n exit", 4, 4)
	require.Equal(t, backends.Asked{Known: 1, Slot: 1, At: 40}, r.fails(isa.FaultAccess, 1, 0).Asked)
}

// TestRefusals: what is no launch of the kernel is refused, and nothing is written.
func TestRefusals(t *testing.T) {
	r := setup(t, "slot a u32\nslot b u32\nparam k u32\nparam l u32\n ldp.u32 x, k\n stg.u32 x, a[index]\n exit", 2, 2)
	d, err := New().Open(0)
	require.NoError(t, err)
	other, err := New().Open(0)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: r.v}, backends.Variant{})
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	slots := r.l.Slots
	for _, c := range []struct {
		slots, params int
		want          string
	}{
		{1, 2, "1 slots and 2 parameters given, it has 2 and 2"}, {3, 2, "3 slots and 2 parameters given, it has 2 and 2"},
		{2, 1, "2 slots and 1 parameters given, it has 2 and 2"}, {2, 2, ""}, {2, 3, ""}, // more parameters are what the canonical form is given
	} {
		l := r.l
		l.Slots, l.Params = append(slots[:2:2], slots[0])[:c.slots], []uint64{7, 8, 9}[:c.params]
		r.setU32(0, 1, 1)
		_, err := s.Launch(k, &l)
		if c.want == "" {
			require.NoError(t, err)
			check(t, "a", r.u32(0), 7, 7)
			continue
		}
		require.ErrorContains(t, err, c.want)
		check(t, "a", r.u32(0), 1, 1)
	}
	s, err = other.NewStream()
	require.NoError(t, err)
	_, err = s.Launch(k, &r.l)
	require.ErrorContains(t, err, "another device")
	_, err = New().Open(1)
	require.ErrorContains(t, err, "open device 1")
}

// TestCost: what a launch takes is known where the canonical form is, and the rounds
// of its loops are bounded.
func TestCost(t *testing.T) {
	d, err := New().Open(0)
	require.NoError(t, err)
	cost := func(text string, canonical bool, n uint64, params ...uint64) float64 {
		v := verified(t, text)
		u := &backends.Unit{Source: v}
		if canonical {
			u.IR, _, err = ir.Canonical(v)
			require.NoError(t, err)
		}
		k, err := d.Compile(u, backends.Variant{})
		require.NoError(t, err)
		return k.Cost(&backends.Launch{N: n, Params: params})
	}
	const rounds = "slot a u32\nparam k u32\n ldp.u32 n, k\n mov.u32 x, 0\n loop n, e\n add.u32 x, x, n\ne:\n stg.u32 x, a[index]\n exit"
	few, more := cost(rounds, true, 10, 100), cost(rounds, true, 10, 1000)
	least := float64(10 * 100 * stepNanoseconds) // lanes, rounds
	require.True(t, least < few && few < 6*least, "%v", few)
	require.True(t, 8*few < more && more < 11*few, "%v, %v", few, more)
	require.InDelta(t, 10*few, cost(rounds, true, 100, 100), 1)
	require.Equal(t, math.Inf(1), cost(rounds, false, 10, 100))
	require.Equal(t, math.Inf(1), cost("slot a u32\n"+" mov.u32 x, 0\ntop:\n ldg.u32 y, a[index]\n add.u32 x, x, y\n set.lt.u32 p, x, 9\n bra top, p\n stg.u32 x, a[index]\n exit", true, 10))
}
