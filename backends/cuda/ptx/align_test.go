package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// An access by bytes that may lie between two elements is done byte by byte.
func TestAlignment(t *testing.T) {
	for offset, aligned := range map[string]bool{
		"and.u64 o, g, m":                  false,
		"and.u64 o, g, 6":                  true,
		"and.u64 o, g, 7":                  false,
		"or.u64 o, g, 6":                   false,
		"add.u64 g, g, g\nadd.u64 o, g, 1": false,
		"mul.u64 o, g, 2":                  true,
		"mul.u64 o, g, 3":                  false,
		"shl.u64 o, g, 1":                  true,
		"shl.u64 o, g, 64":                 false,
		"mul.u64 g, g, 4\nshr.u64 o, g, 2": false,
		"mul.u64 g, g, 4\nset.lt.u64 p, g, 100\nsel.u64 o, p, g, 2": true,
		"mul.u64 g, g, 4\nset.lt.u64 p, g, 100\nsel.u64 o, p, g, m": false,
		"mov.u64 o, 0\nloop 3, e\nadd.u64 o, o, 2\ne:":              true,
		"mov.u64 o, 0\nloop 3, e\nadd.u64 o, o, g\ne:":              false,
	} {
		p, err := isa.Assemble("align.atlas", "program align\nslot x u16\nslot y u16\nsreg g, global_lane\nsreg m, n\n"+offset+
			"\nldg.u16 v, x[o]\nstg.u16 v, y[index]\nexit\n")
		require.NoError(t, err, offset)
		v, err := isa.Verify(p)
		require.NoError(t, err, offset)
		text, err := compiled(t, "align", v).p.Text(Options{Lanes: 256})
		require.NoError(t, err, offset)
		require.Equal(t, aligned, !strings.Contains(text, "aligned_"), offset)
	}
}
