package call

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/lock"
	"github.com/hologram-project/hologram/core/memory"
	"github.com/hologram-project/hologram/core/program"
	"github.com/hologram-project/hologram/core/queue"
)

// batcher is a stream that queues so many batches, then fails behind launches that have a ticket, or none.
type batcher struct {
	backends.Stream
	batches int
	behind  backends.Ticket
	given   [][]uint64 // of each batch, parameter 0 of its launches
}

func (s *batcher) LaunchBatch(_ backends.Kernel, n int, launch func(int) *backends.Launch) (backends.Ticket, error) {
	if s.batches--; s.batches < 0 {
		return s.behind, errors.New("lost")
	}
	var list []uint64
	for i := range n {
		list = append(list, launch(i).Params[0])
	}
	s.given = append(s.given, list)
	return 7, nil
}

// Launches go by their kernels, each once, and the caller is told whether any is queued.
func TestBatchesGoByKernels(t *testing.T) {
	for name, c := range map[string]struct {
		stream batcher
		given  [][]uint64
		queued bool
		last   backends.Ticket
	}{
		"all":                     {batcher{batches: 3}, [][]uint64{{0, 2, 5}, {4}, {1, 3}}, true, 7},
		"fails at the first":      {batcher{}, nil, false, 0},
		"fails within the first":  {batcher{behind: 5}, nil, true, 5},
		"fails at the second":     {batcher{batches: 1}, [][]uint64{{0, 2, 5}}, true, 7},
		"fails within the second": {batcher{batches: 1, behind: 9}, [][]uint64{{0, 2, 5}}, true, 9},
	} {
		t.Run(name, func(t *testing.T) {
			queued := false
			b := NewBatch(false, &queued)
			kernels := []*program.Kernel{new(program.Kernel), new(program.Kernel), new(program.Kernel)}
			for i, k := range []int{0, 1, 0, 1, 2, 0, 0} {
				n := uint64(1)
				if i == 6 {
					n = 0
				}
				b.members = append(b.members, member{p: &Prepared{steps: []step{{kernel: kernels[k], l: backends.Launch{N: n, Params: []uint64{uint64(i)}}}}}})
			}
			last, err := b.Run(&queue.Target{Order: new(lock.Mutex[lock.Order]), Line: &memory.Line{Stream: &c.stream}})
			require.Equal(t, len(c.given) < 3, err != nil)
			require.Equal(t, c.last, last)
			require.Equal(t, c.queued, queued)
			require.Equal(t, len(c.given), len(c.stream.given))
			for i := range c.given {
				require.ElementsMatch(t, c.given[i], c.stream.given[i])
			}
		})
	}
}
