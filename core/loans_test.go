package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
)

// borrower is an executor on whose own stream calls on lent buffers are entered.
type borrower struct {
	*enterer
	add   *Direct
	loans map[*Buffer]*testLoan
}

// lentTo reports whether calls of the borrower may be entered on buffers.
func (x *borrower) lentTo(buffers ...*Buffer) bool {
	for _, b := range buffers {
		if l := x.loans[b]; l != nil && !l.ended.Load() {
			continue
		}
		loan, _ := x.ex.Lend(0, b, func() Loan { return new(testLoan) })
		l, ok := loan.(*testLoan)
		if !ok {
			return false
		}
		x.loans[b] = l
	}
	for _, b := range buffers {
		if x.loans[b].ended.Load() {
			return false
		}
	}
	return true
}

// loansWorld is a model of what is in buffers that borrowers, executors and graphs use by turns.
type loansWorld struct {
	t         *testing.T
	r         *rand.Rand
	borrowers []*borrower
	buffers   []*Buffer
	values    map[*Buffer]float32
	graph     *Graph
	of        *Executor
	recorded  [3]*Buffer
	entered   int
}

// three are different buffers.
func (w *loansWorld) three() (a, b, c *Buffer) {
	at := w.r.Perm(len(w.buffers))
	return w.buffers[at[0]], w.buffers[at[1]], w.buffers[at[2]]
}

// added notes that c is a and b.
func (w *loansWorld) added(a, b, c *Buffer) {
	w.values[c] = w.values[a] + w.values[b]
	if w.values[c] > 1e6 {
		w.values[c] = 1
		require.NoError(w.t, wait(c.Fill(Float(1))))
	}
}

// step does something of chance.
func (w *loansWorld) step() {
	x := w.borrowers[w.r.IntN(len(w.borrowers))]
	a, b, c := w.three()
	switch n := w.r.IntN(100); {
	case n < 45:
		for range 1 + w.r.IntN(4) {
			at := func(b *Buffer) Operand { return Operand{View: backends.View{Addr: b.addr}} }
			if !x.lentTo(a, b, c) || !x.enter(x.add, []Operand{at(a), at(b), at(c)}) {
				ev, err := x.ex.Call(&Call{Op: opNamed(w.t, "vector_add"), Operands: []Operand{{Buffer: a}, {Buffer: b}, {Buffer: c}}})
				require.NoError(w.t, wait(ev, err))
			} else {
				w.entered++
			}
			w.added(a, b, c)
		}
	case n < 60:
		require.NoError(w.t, wait(x.ex.Op("vector_add", []*Buffer{a, b, c}, nil, nil)))
		w.added(a, b, c)
	case n < 68:
		got := values(w.t, a)
		require.Equal(w.t, []float32{w.values[a], w.values[a]}, got)
	case n < 75:
		at := w.r.IntN(len(w.buffers))
		delete(w.values, w.buffers[at])
		w.buffers[at].Free()
		w.buffers[at] = floats(w.t, x.ex, 1, 1)
		w.values[w.buffers[at]] = 1
	case n < 80:
		lease, err := a.Lease()
		require.NoError(w.t, err)
		require.NoError(w.t, wait(a.Ready(x.theirs.Native())))
		require.NoError(w.t, wait(a.Ready(0)))
		lease.Release()
	case n < 85:
		v, err := a.View(0, []int64{2}, nil)
		require.NoError(w.t, err)
		require.NoError(w.t, wait(x.ex.Op("copy", []*Buffer{b, v}, nil, nil)))
		w.values[a] = w.values[b]
		v.Free()
	case n < 89 && w.graph == nil:
		w.record(x.ex, a, b, c)
	case n < 95 && w.graph != nil:
		w.replay()
	case n < 97:
		require.NoError(w.t, wait(x.ex.Synchronize()))
	default:
		x.d.pool.Trim()
	}
}

// record captures a call.
func (w *loansWorld) record(ex *Executor, a, b, c *Buffer) {
	if w.r.IntN(2) == 0 {
		require.NoError(w.t, wait(ex.Synchronize()))
	}
	if err := ex.BeginCapture(); err != nil {
		require.ErrorContains(w.t, err, "at work")
		return
	}
	require.NoError(w.t, wait(ex.Op("vector_add", []*Buffer{a, b, c}, nil, nil)))
	g, err := ex.EndCapture()
	require.NoError(w.t, err)
	w.graph, w.of, w.recorded = g, ex, [3]*Buffer{a, b, c}
}

// replay replays the graph, or ends it.
func (w *loansWorld) replay() {
	alive := true
	for _, b := range w.recorded {
		alive = alive && !b.Freed()
	}
	ev, err := w.of.Replay(w.graph)
	require.NoError(w.t, err)
	if alive {
		w.values[w.recorded[2]] = w.values[w.recorded[0]] + w.values[w.recorded[1]]
	} else if !w.recorded[2].Freed() { // of what is no more, but for the graph
		require.NoError(w.t, wait(w.recorded[2].Fill(Float(1))))
		w.values[w.recorded[2]] = 1
	}
	require.NoError(w.t, wait(ev, nil))
	if w.r.IntN(2) == 0 {
		w.graph.Release()
		w.graph = nil
	}
}

// TestRandomUseOfLentBuffers has calls entered on two executors' own streams while others
// free, view, export, capture and use the same buffers: these hold what they would if
// everything came by Go. The simulated device reports works that nothing orders.
func TestRandomUseOfLentBuffers(t *testing.T) {
	entered := 0
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			first := newEnterer(t, asynctest.Options{Delay: 50 * time.Microsecond, HostVisible: seed%2 == 1})
			second := &enterer{t: t, b: first.b, d: first.d, ex: executorOn(t, first.d), theirs: first.theirs, at: first.at, word: GateShut}
			w := &loansWorld{t: t, r: rand.New(rand.NewPCG(seed, 7)), values: map[*Buffer]float32{}}
			for _, x := range []*enterer{first, second} {
				w.borrowers = append(w.borrowers, &borrower{enterer: x, loans: map[*Buffer]*testLoan{}})
				for range 3 {
					b := floats(t, x.ex, 1, 1)
					w.buffers, w.values[b] = append(w.buffers, b), 1
				}
			}
			for _, x := range w.borrowers {
				o := []Operand{{Buffer: w.buffers[0]}, {Buffer: w.buffers[1]}, {Buffer: w.buffers[2]}}
				x.add = x.publish(&Call{Op: opNamed(t, "vector_add"), Operands: o})
				w.added(w.buffers[0], w.buffers[1], w.buffers[2])
			}
			for range 300 {
				w.step()
			}
			for b, v := range w.values {
				require.Equal(t, []float32{v, v}, values(t, b))
			}
			if w.graph != nil {
				w.graph.Release()
			}
			entered += w.entered
		})
	}
	require.NotZero(t, entered)
}
