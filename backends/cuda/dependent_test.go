package cuda_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Dependent launches read what was written just before them, by whatever did: a launch of their
// own kind or not, a fill, a copy, a graph; and what others waited for.
func TestDependentLaunches(t *testing.T) {
	device(t)
	const n = 1 << 22
	const text = "slot x u32\nslot y u32\n ldg.u32 v, x[index]\n add.u32 v, v, 1\n stg.u32 v, y[index]\n exit"
	b := cuda.NewEager()
	d, err := b.Open(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, err := d.NewStream()
	require.NoError(t, err)
	other, err := d.NewStream()
	require.NoError(t, err)
	p, err := isa.Assemble("test", "program next\n"+text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{Packed: true, NoFuel: true})
	require.NoError(t, err)
	var m [2]backends.Memory
	for i := range m {
		m[i], err = d.Alloc(4 * n)
		require.NoError(t, err)
	}
	launch := func(s backends.Stream, from, to int) backends.Ticket {
		l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{n}, N: n, Grid: flat(n / 256), Block: flat(256)}
		for _, at := range []int{from, to} {
			l.Slots = append(l.Slots, backends.View{Addr: m[at].Addr, Bytes: 4 * n, Type: isa.U32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
		}
		ticket, err := s.Launch(k, l)
		require.NoError(t, err)
		return ticket
	}
	launch(s, 0, 1) // what is captured must have been compiled
	require.NoError(t, s.(backends.Capturer).BeginCapture())
	launch(s, 0, 1)
	g, err := s.(backends.Capturer).EndCapture()
	require.NoError(t, err)
	got := host(t, d, 4*n)
	for round := range uint32(20) {
		_, err = s.Fill(m[0].Addr, uint64(round), 4, n)
		require.NoError(t, err)
		launch(s, 0, 1) // + 1, by what was filled
		launch(s, 1, 0) // + 2, by a launch
		_, err = s.Copy(m[1].Addr, m[0].Addr, 4*n)
		require.NoError(t, err)
		launch(s, 1, 0) // + 3, by what was copied
		_, err = g.Replay(s)
		require.NoError(t, err)
		last := launch(s, 1, 0) // + 5, behind a graph that made 4
		require.NoError(t, other.Await(s, last))
		last = launch(other, 0, 1) // + 6, of another stream
		require.NoError(t, s.Await(other, last))
		launch(s, 1, 0) // + 7
		require.NoError(t, settle(t, s)(s.Copy(address(got), m[0].Addr, 4*n)))
		for i := 0; i < len(got); i += 4 {
			if x := binary.LittleEndian.Uint32(got[i:]); x != round+7 {
				t.Fatalf("round %d: element %d is %d", round, i/4, x)
			}
		}
	}
	g.Release()
	k.Release()
	for i := range m {
		require.NoError(t, d.Free(m[i]))
	}
	require.NoError(t, other.Close())
	require.NoError(t, s.Close())
}
