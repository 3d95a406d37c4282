//go:build asynctest

package core

import (
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
)

// The test-only backend, for running the Python suite on a device that is
// asynchronous and has memory of its own, DLPack's "ext device", 12, on which
// others have two streams, 0xf001 and 0xf002; one of Metal's shape, which is
// asynchronous and works in the host's; and such two of CUDA's, with a default stream,
// number 1, on which C queues calls on tensors by itself. The last is lost after some
// works.
func init() {
	options := asynctest.Options{Delay: 50 * time.Microsecond, Memory: 1 << 30, Plans: true, Workspace: 256, Specialize: true, LoadStalls: true,
		Variants: backends.Variant{Packed: true, Proved: true, NoFuel: true}, DLPackType: 12}
	visible := options
	visible.HostVisible, visible.DLPackType = true, 8
	enters := func(o asynctest.Options) asynctest.Options {
		o.Workspace, o.Unified, o.Enters = 0, true, true
		return o
	}
	lost := options
	lost.Lose = 60
	for name, o := range map[string]asynctest.Options{"asynctest": options, "asynctest-lost": lost, "asynctest-visible": visible,
		"asynctest-enters": enters(options), "asynctest-enters-visible": enters(visible)} {
		sources = append(sources, source{name: name, make: func() backends.Backend {
			b := asynctest.New(o)
			b.NewForeign(0)
			b.NewForeign(0)
			if o.Enters {
				b.NewDefault(0)
			}
			return b
		}})
	}
}
