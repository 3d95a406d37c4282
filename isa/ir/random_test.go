package ir

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"pgregory.net/rapid"
)

var everything = progen.Config{Size: 30, Lanes: true, Math: true, Atlas: true, Faults: true}

// bind returns a case's memory, one piece a slot.
func bind(c *progen.Case) [][]byte {
	var slots [][]byte
	for i := range c.Slots {
		slots = append(slots, c.Slots[i].Data)
	}
	return slots
}

func verify(t testing.TB, p *isa.Program) *isa.Verified {
	t.Helper()
	v, err := isa.Verify(p)
	require.NoError(t, err, isa.Disassemble(p))
	return v
}

// sameAnswer checks v's tree as built, in canonical form, and with a set of
// passes switched off.
func sameAnswer(t testing.TB, s isatest.Source, c *progen.Case) {
	v := verify(t, c.Program)
	slots := bind(c)
	f, err := Build(v)
	require.NoError(t, err)
	if err := Check(f); err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	agreeOn(t, v, f, slots, c.Params, int(c.N))
	agreeOn(t, v, canonical(t, v), slots, c.Params, int(c.N))
	var off []string
	for _, p := range Passes {
		if s.Intn(3) == 0 {
			off = append(off, p.Name)
		}
	}
	some := canonical(t, v, Without(off...))
	agreeOn(t, v, some, slots, c.Params, int(c.N))
	expanded, err := Expand(some)
	require.NoError(t, err)
	agreeOn(t, v, expanded, slots, c.Params, int(c.N))
}

func TestPassesKeepTheAnswer(t *testing.T) {
	brief.Alone(t)
	n := 150
	if brief.On() {
		n = 40
	}
	for seed := range n {
		s := isatest.FromSeed(uint64(seed))
		cfg := everything
		cfg.Size = 1 + seed%70
		cfg.Faults = seed%2 == 0
		cfg.Crowded = seed%3 == 0
		cfg.Math = false // the machine makes up transcendentals, Expand knows better
		sameAnswer(t, s, progen.New(s, cfg))
	}
}

func TestPassesKeepTheAnswerRapid(t *testing.T) {
	brief.Alone(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := isatest.FromRapid(rt)
		cfg := everything
		cfg.Size = 1 + s.Intn(25)
		cfg.Crowded = s.Intn(3) == 0
		cfg.Math = false
		sameAnswer(tb{t, rt}, s, progen.New(s, cfg))
	})
}

// tb lets helpers that take a testing.TB fail a rapid check, so that it shrinks.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (b tb) Helper()                      { b.rt.Helper() }
func (b tb) Fatal(args ...any)            { b.rt.Fatal(args...) }
func (b tb) FailNow()                     { b.rt.FailNow() }
func (b tb) Errorf(s string, args ...any) { b.rt.Errorf(s, args...) }
func (b tb) Fatalf(s string, args ...any) { b.rt.Fatalf(s, args...) }
