package asynctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// node is a queued work as the test sees it: what it touches, and all that is
// ordered before it, worked out edge by edge.
type node struct {
	stream int
	ticket backends.Ticket
	uses   []use
	before map[*node]bool
}

// after orders what comes before m, and m, before k.
func (k *node) after(m *node) {
	if m == nil || m == k {
		return
	}
	k.before[m] = true
	for x := range m.before {
		k.before[x] = true
	}
}

func (k *node) conflicts(m *node) bool {
	for _, a := range k.uses {
		for _, b := range m.uses {
			if a.block == b.block && a.lo < b.hi && b.lo < a.hi && (a.write || b.write) {
				return true
			}
		}
	}
	return false
}

// TestRandomOrders queues random work on three streams, with random Awaits and
// questions of the host between. The detector must tell of each work whether
// some earlier one that conflicts with it is not ordered before it. In half of
// the runs what is missing is awaited; then there is no race, and the memory
// ends as if all had been done in turn.
func TestRandomOrders(t *testing.T) {
	races := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		repair := seed%2 == 0
		r := newRig(t, Options{Delay: time.Duration(random.IntN(2)) * 20 * time.Microsecond}, double)
		streams := []*stream{r.s, r.second(), r.second()}
		blocks := [2]*block{r.s.device.blocks.find(r.m[0].Addr, 1), r.s.device.blocks.find(r.m[1].Addr, 1)}
		var model [2][4 * n]byte
		var all []*node
		var pending [3][]*node // Awaits since the stream's last work
		var last [3]*node
		var known []*node // what the host was told of
		reported := 0
		for step := range 40 {
			i := random.IntN(3)
			s := streams[i]
			k := &node{stream: i, before: map[*node]bool{}}
			k.after(last[i])
			for _, m := range pending[i] {
				k.after(m)
			}
			for _, m := range known {
				k.after(m)
			}
			switch kind := random.IntN(8); {
			case kind == 0 && len(all) > 0: // an Await of any work
				m := all[random.IntN(len(all))]
				require.NoError(t, s.Await(streams[m.stream], m.ticket))
				pending[i] = append(pending[i], m)
				continue
			case kind == 1 && last[i] != nil && random.IntN(3) == 0:
				require.Eventually(t, func() bool { return s.Passed() == last[i].ticket }, 5*time.Second, 50*time.Microsecond)
				known = append(known, last[i])
				continue
			case kind < 5:
				to, lo := random.IntN(2), random.Int64N(3*n)
				size := 1 + random.Int64N(n)
				k.uses = []use{{blocks[to], lo, lo + size, true}}
				awaitMissing(t, repair, k, all, streams)
				k.ticket = r.must(s.Fill(r.m[to].Addr+uintptr(lo), uint64(step), 1, size))
				for x := lo; x < lo+size; x++ {
					model[to][x] = byte(step)
				}
			default:
				from, lo, at := random.IntN(2), random.Int64N(3*n), random.Int64N(3*n)
				size := 1 + random.Int64N(n)
				k.uses = []use{{blocks[1-from], at, at + size, true}, {blocks[from], lo, lo + size, false}}
				awaitMissing(t, repair, k, all, streams)
				k.ticket = r.must(s.Copy(r.m[1-from].Addr+uintptr(at), r.m[from].Addr+uintptr(lo), size))
				copy(model[1-from][at:at+size], model[from][lo:])
			}
			race := ""
			for _, m := range all {
				if !k.before[m] && k.conflicts(m) {
					race = fmt.Sprintf("work %d of stream %d", m.ticket, m.stream)
				}
			}
			r.reports.mu.Lock()
			told := r.reports.all[reported:]
			reported = len(r.reports.all)
			r.reports.seen = reported
			r.reports.mu.Unlock()
			require.Equal(t, race != "", len(told) > 0, "seed %d, step %d: a race with %q; reported: %q", seed, step, race, told)
			if race != "" {
				races++
			}
			all, last[i], pending[i] = append(all, k), k, nil
		}
		for i, k := range last {
			if k != nil {
				require.NoError(t, r.finish(streams[i], k.ticket))
			}
		}
		if repair {
			require.Zero(t, reported)
			for i, want := range model {
				r.read(r.m[i])
				require.Equal(t, want[:], hostmem.Bytes(r.host.Addr+4*n, 4*n), seed)
			}
		}
	}
	require.Greater(t, races, 500)
}

// awaitMissing awaits all that k conflicts with and that is not ordered yet.
func awaitMissing(t *testing.T, repair bool, k *node, all []*node, streams []*stream) {
	for _, m := range all {
		if repair && !k.before[m] && k.conflicts(m) {
			require.NoError(t, streams[k.stream].Await(streams[m.stream], m.ticket))
			k.after(m)
		}
	}
}

// TestManyGoroutines has each use a stream of its own and await the others',
// allocate, free, capture nothing and wait, all at once.
func TestManyGoroutines(t *testing.T) {
	r := newRig(t, Options{Delay: 10 * time.Microsecond}, double)
	const goroutines, rounds = 8, 100
	var streams [goroutines]*stream
	for i := range streams {
		streams[i] = r.second()
	}
	var group sync.WaitGroup
	var errs [goroutines]error
	for i := range goroutines {
		group.Go(func() {
			s, other := streams[i], streams[(i+1)%goroutines]
			for round := range rounds {
				m, err := r.d.Alloc(256)
				if err != nil {
					errs[i] = err
					return
				}
				t1, err1 := s.Fill(m.Addr, uint64(round), 4, 64)
				err2 := s.Await(other, other.Passed())
				t2, err3 := s.Copy(m.Addr, m.Addr+128, 128)
				errs[i] = errors.Join(errs[i], err1, err2, err3, s.Wait(t2, 10*time.Second), s.Wait(t1, 0), r.d.Free(m))
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	require.Equal(t, 2, r.b.Counts().Blocks)
}
