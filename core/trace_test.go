package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/kernels"
)

// TestTheHostSeesWhatOthersWrite traces, on a device that works by itself, a launch
// on memory that another executor, and a stream of others, are writing to; and
// looks at the memory itself.
func TestTheHostSeesWhatOthersWrite(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: 20 * time.Millisecond, HostVisible: true, DLPackType: 8})
	d := openAsync(t, b, 0)
	theirs := b.NewForeign(0)
	t.Cleanup(theirs.Close)
	ex, other := executorOn(t, d), executorOn(t, d)
	x := floats(t, ex, 1)
	require.NoError(t, wait(ex.Synchronize()))
	load := assemble(t, "program load\nslot c f32\nldg.f32 v, c[index]\nstg.f32 v, c[index]\nexit")
	for value, c := range map[float64]func(fill *Call) (*Event, error){
		2: other.Call,
		3: func(fill *Call) (*Event, error) {
			fill.Stream = theirs.Native()
			return ex.Call(fill)
		},
	} {
		fill := func(value float64) {
			require.NoError(t, wait(c(&Call{Op: kernels.Fill, Operands: []Operand{{Buffer: x}}, Scalars: []Scalar{Float(value)}})))
		}
		fill(-value)
		require.NoError(t, wait(x.Synchronize()))
		require.Equal(t, float32(-value), *(*float32)(hostmem.Pointer(x.Layout().Addr)))
		fill(value)
		var lines []string
		require.NoError(t, wait(ex.Trace((&LaunchArgs{Slots: []*Buffer{x}}).call(load), 0, func(s string) { lines = append(lines, s) })))
		require.Contains(t, lines[0], fmt.Sprintf("dst=%v ", value))
	}
}
