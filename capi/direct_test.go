package main

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core"
)

func made[T any](to **T) *T {
	*to = new(T)
	return *to
}

// TestALoanEnds once who has the turn of its gate, and may have seen it, has given that
// back; whoever has the turn later does not see it.
func TestALoanEnds(t *testing.T) {
	for _, taken := range []uint32{core.GateTaken, core.GateWanted} {
		g := &gate{}
		turn := (*uint32)(&made(&g.c).turn)
		l := newLoan(g)
		word := (*uint64)(l.word)
		require.EqualValues(t, l.id, atomic.LoadUint64(word))
		atomic.StoreUint32(turn, taken)
		var given atomic.Bool
		go func() {
			for atomic.LoadUint64(word) == uint64(l.id) {
				runtime.Gosched()
			}
			for range 1000 {
				runtime.Gosched()
			}
			given.Store(true)
			atomic.StoreUint32(turn, core.GateOpen)
		}()
		l.End()
		require.True(t, given.Load(), "somebody has the turn")
	}
}

// TestALoanIsNotTakenForAnother that has its word, as those who saw the one may ask
// for it long after its end.
func TestALoanIsNotTakenForAnother(t *testing.T) {
	g := &gate{}
	made(&g.c)
	type seen struct {
		word *uint64
		id   uint64
	}
	var ended []seen
	again := false
	for range 2000 { // more than are made at once
		l := newLoan(g)
		word := (*uint64)(l.word)
		for _, s := range ended {
			again = again || s.word == word
			require.NotEqual(t, s.id, atomic.LoadUint64(s.word))
		}
		if ended = append(ended, seen{word, uint64(l.id)}); len(ended) > 20 {
			ended = ended[1:]
		}
		l.End()
	}
	require.True(t, again, "words come again")
}
