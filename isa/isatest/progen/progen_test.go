package progen

import (
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

var all = Config{Size: 40, Lanes: true, Math: true, Atlas: true, Faults: true}

// Every case must verify, and its launch must fit it.
func TestCasesAreWellFormed(t *testing.T) {
	brief.Alone(t)
	ops := map[isa.Op]int{}
	for seed := range uint64(1500) {
		cfg := all
		cfg.Lanes = seed%3 != 0
		cfg.Faults = seed%2 != 0
		cfg.Narrow = seed%5 == 0
		cfg.Affine = seed%7 == 0
		cfg.Size = int(seed % 80)
		c := New(isatest.FromSeed(seed), cfg)
		v, err := isa.Verify(c.Program)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, isa.Disassemble(c.Program))
		}
		for _, in := range c.Program.Insts {
			ops[in.Op]++
		}
		lanes := uint64(c.Lanes()) * uint64(c.Grid[0]*c.Grid[1]*c.Grid[2])
		if c.N == 0 || c.N > lanes {
			t.Fatalf("seed %d: %d elements for %d lanes", seed, c.N, lanes)
		}
		if len(c.Slots) != len(c.Program.Slots) || len(c.Params) != len(c.Program.Params) {
			t.Fatalf("seed %d: %d slots, %d parameters for %d, %d", seed, len(c.Slots), len(c.Params), len(c.Program.Slots), len(c.Program.Params))
		}
		for i, s := range c.Slots {
			u := v.Slots[i]
			if u.Writes && !s.Writes || u.Bytes && s.Indexed || len(s.Data) != s.Elements*s.Type.Size() {
				t.Fatalf("seed %d: slot %s is used as %+v, described as %+v", seed, s.Name, u, s)
			}
			if u.Indexed && s.Elements < int(c.N) {
				t.Fatalf("seed %d: slot %s has %d elements for %d", seed, s.Name, s.Elements, c.N)
			}
		}
	}
	// Over the seeds, all instructions that an ordered program can use appear.
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		if ops[op] == 0 {
			t.Errorf("no program has %v", op)
		}
	}
}
