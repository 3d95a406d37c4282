package ptx

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// indexed is a layout of slots that are all accessed by index.
func indexed(slots int) Layout {
	f := &ir.Func{}
	for range slots {
		f.SlotTypes = append(f.SlotTypes, isa.F32)
		f.Slots = append(f.Slots, isa.SlotUse{Reads: true, Indexed: true})
	}
	return layoutOf(f)
}

// The fused index space leads each lane to the same bytes as the launch's own.
func TestFuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		l := &backends.Launch{Rank: rapid.IntRange(0, isa.MaxRank).Draw(t, "rank"), N: 1}
		for d := range l.Rank {
			l.Shape[d] = rapid.Int64Range(1, 3).Draw(t, "size")
			l.N *= uint64(l.Shape[d])
		}
		for range slots {
			v := backends.View{Type: isa.F32, Rank: l.Rank, Shape: l.Shape}
			stride := int64(1)
			for d := l.Rank - 1; d >= 0; d-- {
				v.Stride[d] = stride
				if stride *= l.Shape[d]; rapid.IntRange(0, 3).Draw(t, "break") == 0 {
					v.Stride[d] = rapid.Int64Range(-2, 9).Draw(t, "stride")
				}
			}
			l.Slots = append(l.Slots, v)
		}
		layout := indexed(slots)
		var s Space
		layout.Fuse(l, &s)
		require.LessOrEqual(t, s.Rank, l.Rank)
		for g := range int64(l.N) {
			for i := range slots {
				want, rest := int64(0), g
				for d := l.Rank - 1; d >= 0; d-- {
					want += rest % l.Shape[d] * l.Slots[i].Stride[d] * 4
					rest /= l.Shape[d]
				}
				got, left := int64(0), g
				for k := range s.Rank {
					at := left
					if k < s.Rank-1 {
						at, left = left%s.shape[k], left/s.shape[k]
					}
					got += at * s.strides[i][k]
				}
				require.Equal(t, want, got, "lane %d, slot %d", g, i)
			}
		}
	})
}

func TestContiguousViewsFuseToOneDimension(t *testing.T) {
	layout := indexed(2)
	l := &backends.Launch{Rank: 3, Shape: [isa.MaxRank]int64{4, 1, 5}, N: 20}
	v := backends.View{Type: isa.F32, Rank: 3, Shape: l.Shape, Stride: [isa.MaxRank]int64{5, 5, 1}}
	l.Slots = []backends.View{v, v}
	var s Space
	layout.Fuse(l, &s)
	require.Equal(t, 1, s.Rank)
	require.Equal(t, int64(4), s.strides[0][0])
	l.Slots[1].Stride = [isa.MaxRank]int64{} // one element for all
	layout.Fuse(l, &s)
	require.Equal(t, 1, s.Rank)
	l.Slots[1].Stride = [isa.MaxRank]int64{0, 0, 1} // a row for all
	layout.Fuse(l, &s)
	require.Equal(t, 2, s.Rank)
}

// What Pack writes stands where the comment of layout.go says.
func TestPack(t *testing.T) {
	f := &ir.Func{SlotTypes: []isa.Type{isa.F32, isa.U8}, Slots: []isa.SlotUse{{Bytes: true}, {Indexed: true}}, ParamTypes: []isa.Type{isa.U32, isa.I64}}
	layout := layoutOf(f)
	require.Equal(t, 160+2*8+2*16+64, layout.Bytes)
	require.False(t, layout.Wide())
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{70}, N: 70, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{32, 1, 1}, Fuel: 9, Params: []uint64{11, 12}}
	l.Slots = []backends.View{{Addr: 0x1000, Bytes: 99, Type: isa.F32}, {Addr: 0x2000, Type: isa.U8, Stride: [isa.MaxRank]int64{-3}}}
	var space Space
	layout.Fuse(l, &space)
	b := make([]byte, layout.Bytes)
	layout.Pack(b, l, &space, &Environment{1, 2, 3, 4, 5, 17})
	SetOrigin(b, [3]uint32{6, 7, 8})
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	for i := range 5 {
		require.Equal(t, uint64(i+1), u64(8*i))
	}
	require.Equal(t, uint64(70), u64(40), "n")
	require.Equal(t, uint64(64), u64(48), "lanes that run")
	require.Equal(t, uint64(9), u64(56), "fuel")
	require.Equal(t, []uint32{2, 32, 6, 8, 17}, []uint32{u32(64), u32(76), u32(88), u32(96), u32(100)})
	require.Equal(t, []uint64{11, 12, 0x1000, 0x2000, 99, 0}, []uint64{u64(160), u64(168), u64(176), u64(184), u64(192), u64(200)})
	stride := int64(u64(208))
	require.Equal(t, int64(-3), stride)
	wide := indexed(64)
	require.True(t, wide.Wide())
}
