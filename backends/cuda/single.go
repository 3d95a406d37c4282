package cuda

import (
	"errors"
	"slices"

	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// single is a graph of one kernel, by which a stream repeats a launch with other
// parameters: to change these and to launch the graph takes the driver half the host's
// time of a launch (1.6 µs, and 3.2, on an H200's host with driver 580). To change
// more takes it as long as a launch; and where it was a kernel whose blocks meet, it
// ran none of the others and told nobody. Work that has been queued is not affected.
type single struct {
	same  launched // what is repeated
	count int      // how often it was lately, up to often
	graph driver.Graph
	node  driver.Node // of graph, which is kept for it
	exec  driver.Exec // 0: not made yet
}

// launched is a launch but for its parameters.
type launched struct {
	fn          driver.Func
	grid, block [3]uint32
	shared      uint32
}

// A stream has so many places for graphs, each of which takes singleBytes of the device's
// memory and as long to make as some launches: it is made for what is repeated more
// often than singleAfter.
const (
	singles     = 64
	singleBytes = 100 << 10
	singleAfter = 8
	often       = 2 * singleAfter
)

// repeated is the graph for the launch at hand, made if it is time; 0: there is none.
// It must not be within a capture. Where the driver makes none it is not asked again.
func (s *stream) repeated() (driver.Exec, driver.Node) {
	k := &s.sub.KernelNode
	l := launched{k.Func, k.Grid, k.Block, k.Shared}
	g := &s.singles[l.hash()%singles]
	switch {
	case g.same == l:
		g.count = min(g.count+1, often)
	case g.count > 0:
		g.count--
		return 0, 0
	default:
		_ = g.free(s.device)
		g.same, g.count = l, 1
	}
	if g.exec == 0 && g.count > s.device.after && !s.refused {
		s.refused = g.make(s.device, k) != nil
	}
	return g.exec, g.node
}

func (l *launched) hash() uint64 {
	const mix = 0x9e3779b97f4a7c15
	h := uint64(l.fn)
	for _, n := range [...]uint32{l.grid[0], l.grid[1], l.grid[2], l.block[0], l.shared} {
		h = (h ^ uint64(n)) * mix
		h ^= h >> 29
	}
	return h
}

func (g *single) make(d *device, k *driver.KernelNode) error {
	err := d.do(
		call{"cuGraphCreate", func() driver.Result { return d.api.GraphCreate(&g.graph, 0) }},
		call{"cuGraphAddKernelNode", func() driver.Result { return d.api.GraphAddKernel(&g.node, g.graph, nil, 0, k) }},
		call{"cuGraphInstantiateWithFlags", func() driver.Result { return d.api.GraphInstantiate(&g.exec, g.graph, 0) }},
	)
	if err != nil {
		err = errors.Join(err, g.free(d))
	}
	return err
}

// bytes are what the graph takes of the device's memory.
func (g *single) bytes() int64 {
	if g.exec == 0 {
		return 0
	}
	return singleBytes
}

// free ends the graph. What is queued of it goes on.
func (g *single) free(d *device) error {
	var err error
	if g.exec != 0 {
		err = d.do(call{"cuGraphExecDestroy", func() driver.Result { return d.api.ExecDestroy(g.exec) }})
	}
	if g.graph != 0 {
		err = errors.Join(err, d.do(call{"cuGraphDestroy", func() driver.Result { return d.api.GraphDestroy(g.graph) }}))
	}
	*g = single{}
	return err
}

// forget ends the graphs of functions that are about to end: the driver may look at them.
func (s *stream) forget(ending []driver.Func) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeSingles(func(g *single) bool { return slices.Contains(ending, g.same.fn) })
}

func (s *stream) freeSingles(which func(g *single) bool) error {
	var errs []error
	for i := range s.singles {
		if g := &s.singles[i]; which(g) {
			errs = append(errs, g.free(s.device))
		}
	}
	return errors.Join(errs...)
}
