package program

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/kernels"
)

// TestLines are the instructions as they are written, without comments and what is between them;
// of a program that has no text those of its disassembly.
func TestLines(t *testing.T) {
	p, err := Assemble("test", "; first\nprogram p\nslot c f32 ; one\n\n  ldg.f32 x, c[index]  ; loads\n; between\nagain:\n\tadd.f32 x, x, 1.0;adds\n  stg.f32 x, c[index]\nexit", nil)
	require.NoError(t, err)
	want := []string{"ldg.f32 x, c[index]", "add.f32 x, x, 1.0", "stg.f32 x, c[index]", "exit"}
	require.Equal(t, want, p.Lines())
	again, err := Decode(p.Encode(), nil)
	require.NoError(t, err)
	require.Len(t, again.Lines(), len(want))
	for i, line := range again.Lines() {
		require.Contains(t, line, want[i][:4])
	}
}

// TestWhatLaunchesAreAskedFor: each special value beyond those that engines know, and flat
// addresses, and nothing else.
func TestWhatLaunchesAreAskedFor(t *testing.T) {
	for s := range isa.Special(isa.NumSpecials) {
		p, err := Assemble("test", fmt.Sprintf("program p\nslot c u64\nsreg v, %v\nexit", s), nil)
		require.NoError(t, err, s)
		require.Equal(t, s > isa.N, p.asks, s)
	}
	p, err := Assemble("test", "program p\nslot c u64\nmov.u64 i, 0\nldg.u64 v, c[flat i]\nstg.u64 v, c[flat i]\nexit", nil)
	require.NoError(t, err)
	require.True(t, p.asks)
}

// TestHowBlocksOfAStepMeet: what a backend compiles says it, in both forms of the program, and
// another step's kernel of the same program is another.
func TestHowBlocksOfAStepMeet(t *testing.T) {
	p, err := Assemble("test", "program p\nslot c u64\nmov.u64 i, 0\nldg.u64 v, c[flat i]\nstg.u64 v, c[flat i]\nexit", nil)
	require.NoError(t, err)
	keys := map[backends.Key]bool{}
	for _, m := range []kernels.Meeting{{}, {Blocks: 8, Told: 2}, {Blocks: 4, Told: 2}} {
		p := OfStep(&kernels.Step{Program: p.Verified, Meeting: m})
		v := backends.View{Bytes: 8, Type: isa.U64, Rank: 1, Shape: [isa.MaxRank]int64{1}, Stride: [isa.MaxRank]int64{1}}
		at, ok := backends.FlatOf(&v)
		require.True(t, ok)
		l := backends.Launch{Slots: []backends.View{v}, Flats: []backends.Flat{at}, Rank: 1, Shape: v.Shape, N: 1}
		require.NoError(t, p.Give(&l, &backends.Info{}, nil))
		packed, err := p.Packed(&analysis.Launch{N: 1, Params: l.Params, SlotBytes: []int64{8}, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}, nil)
		require.NoError(t, err)
		require.NotSame(t, p, packed)
		for _, p := range []*Program{p, packed} {
			u, err := p.unit(nil)
			require.NoError(t, err)
			require.Equal(t, m, u.Meeting)
			keys[backends.KeyOf(&u.Unit, backends.Variant{}, &backends.Info{})] = true
		}
	}
	require.Len(t, keys, 6)
}
