package ptx

import (
	"fmt"
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

// Of an access at a sum of a register and a number both decide.
func TestAlignmentOfSums(t *testing.T) {
	for _, c := range []struct {
		typ, address string
		aligned      bool
	}{
		{"u16", "even", true}, {"u16", "even + 2", true}, {"u16", "even + 1", false}, {"u16", "even - 1", false},
		{"u16", "2", true}, {"u16", "3", false}, {"u32", "four + 2", false}, {"u32", "four - 4", true}, {"u32", "even + 4", false},
		{"u64", "four + 4", false}, {"u64", "16", true}, {"u64", "20", false}, {"u8", "odd + 1", true},
	} {
		for access, text := range map[string]string{
			"load":  "ldg.%[1]s v, x[%[2]s]\nstg.%[1]s v, y[index]",
			"store": "ldg.%[1]s v, y[index]\nstg.%[1]s v, x[%[2]s]",
		} {
			text := fmt.Sprintf("program align\nslot x %[1]s\nslot y %[1]s\nsreg g, global_lane\nmul.u64 even, g, 2\nmul.u64 four, g, 4\nadd.u64 odd, even, 1\n"+text+"\nexit\n", c.typ, c.address)
			p, err := isa.Assemble("align.atlas", text)
			require.NoError(t, err, text)
			v, err := isa.Verify(p)
			require.NoError(t, err, text)
			code, err := compiled(t, "align", v).p.Text(Options{Lanes: 256})
			require.NoError(t, err, text)
			require.Equal(t, c.aligned, !strings.Contains(code, "aligned_"), "%s of %+v", access, c)
		}
	}
}
