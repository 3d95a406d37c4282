package ptx

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The text of a few programs, as files to read and to compare with. The first
// line of a program may name options in a comment: strided, fuel,
// vector, batch, whole (and modern), packed (see ir.Packed).
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.atlas")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		p, err := isa.Assemble(filepath.Base(file), string(source))
		require.NoError(t, err)
		v, err := isa.Verify(p)
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(source), "\n")
		o := Options{Fuel: strings.Contains(first, "fuel"), Lanes: 256}
		if strings.Contains(first, "strided") {
			o.Rank = 3
		}
		var opts []ir.Option
		if strings.Contains(first, "packed") {
			opts = append(opts, ir.Packed())
		}
		x := compiled(t, file, v, opts...).p
		if strings.Contains(first, "vector") {
			o.Lanes, o.Vector, o.Groups, o.Single = VectorLanes, x.Vector, 1, 1<<1
			require.Equal(t, 4, x.Vector)
		}
		if strings.Contains(first, "batch") {
			o.Batch = NarrowBatch
		}
		if strings.Contains(first, "whole") {
			o.Lanes, o.Block, o.Modern = 0, 256, true
		}
		got, err := x.Text(o)
		require.NoError(t, err)
		golden := strings.TrimSuffix(file, ".atlas") + ".ptx"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "%s differs; go test -update writes it anew, for you to read", golden)
	}
}
