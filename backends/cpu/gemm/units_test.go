package gemm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// TestUnitsCodeIsForUnits: code for units is made, on any machine, of what machines with these units have, and not without.
func TestUnitsCodeIsForUnits(t *testing.T) {
	const all = x86.VNNI | x86.BF16 | x86.AMX
	for u, want := range [multipliers]x86.Features{tilesBF16: all, tilesI8: all, tilesU8: all,
		dotsBF16: x86.VNNI | x86.BF16, dotsI16: x86.VNNI, dotsI8: x86.VNNI, dotsU8: x86.VNNI} {
		u := multiplier(u)
		require.Equal(t, want, u.features())
		if u == noMultiplier {
			continue
		}
		makes := []func(tile) ([]byte, error){dotter, turnedDotter}
		switch {
		case u.tiles():
			makes = []func(tile) ([]byte, error){tiler}
		case !u.float():
			makes = append(makes, lineDotter)
		}
		makes = append(makes, interleaver, tilesOfColumns, tilesOfRows)
		outs := []uint8{4}
		if u.float() {
			outs = []uint8{2, 4}
		}
		for _, out := range outs {
			for cols := 1; cols <= 2; cols++ {
				for i, made := range makes {
					_, err := made(tile{rows: 2, cols: cols, unit: u, out: out})
					require.NoError(t, err, "%d, kind %d of its, %d columns", u, i, cols)
				}
			}
		}
		g := newMaker(machine{true, 64}, tile{unit: noMultiplier})
		g.Emit(u.dot(), x86.Inst{VL: 64, D: 1, A: 2, B: 3})
		require.ErrorContains(t, g.Finish(), "is for machines with")
	}
}
