package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
)

// What is known of a value that steps along the lanes holds in the largest blocks there
// are, by what the instruction table says its operands make.
func TestLinearValues(t *testing.T) {
	brief.Alone(t)
	stepping, bounded := 0, 0
	for seed := range uint64(brief.Or(3000, 300)) {
		s := isatest.FromSeed(seed)
		c := progen.New(s, progen.Config{Size: 2 + s.Intn(8), Lanes: true, Affine: true, Common: true})
		v, err := isa.Verify(c.Program)
		require.NoError(t, err)
		var off []string
		if seed%2 == 0 { // numbers as they were written
			for _, p := range ir.Passes {
				off = append(off, p.Name)
			}
		}
		f, _, err := ir.Canonical(v, ir.Without(off...))
		require.NoError(t, err)
		p, err := prepare(nil, f)
		if err != nil {
			continue // left to slower engines
		}
		lin := p.linears()
		first := cells(p.fn, c.Params, 0)
		for _, lane := range []uint64{1, 2, 1 + uint64(s.Intn(isa.MaxBlockLanes-1)), isa.MaxBlockLanes - 1} {
			for v, got := range cells(p.fn, c.Params, lane) {
				x, from, mask := lin[v.ID], first[v], v.Type.Mask()
				if !x.known {
					continue
				}
				if x.step != 0 {
					stepping++
				}
				reach := uint64(x.step) * lane
				if (from+reach)&mask != got {
					t.Fatalf("seed %d: lane %d of %v has %#x, lane 0 %#x, which is to step by %d\n%v", seed, lane, v.Node.Op, got, from, x.step, p.fn)
				}
				if x.max == mask {
					continue
				}
				bounded++
				if from > x.max || reach > x.max-from {
					t.Fatalf("seed %d: lane %d of %v has %#x, lane 0 %#x, of at most %#x\n%v", seed, lane, v.Node.Op, got, from, x.max, p.fn)
				}
			}
		}
	}
	require.Greater(t, stepping, brief.Or(3000, 300))
	require.Greater(t, bounded, brief.Or(3000, 300))
}

// cells are what a lane of the second block of the largest size has in integers, less
// what loads and loops make.
func cells(f *ir.Func, params []uint64, lane uint64) map[*ir.Value]uint64 {
	out := map[*ir.Value]uint64{}
	specials := map[isa.Special]uint64{isa.LaneX: lane, isa.LaneY: 0, isa.LaneZ: 0, isa.BlockX: 1, isa.BlockY: 0, isa.BlockZ: 0,
		isa.BlockDimX: isa.MaxBlockLanes, isa.BlockDimY: 1, isa.BlockDimZ: 1, isa.GlobalLane: isa.MaxBlockLanes + lane}
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
	nodes:
		for _, n := range r.Nodes {
			if n.Op == ir.If {
				walk(n.Regions[0])
				walk(n.Regions[1])
			}
			if !n.Op.IsInst() || len(n.Results) != 1 || !n.Result().Type.Integer() {
				continue
			}
			switch n.Op.Inst() {
			case isa.LDP:
				out[n.Result()] = params[n.Imm]
				continue
			case isa.SREG:
				if c, ok := specials[isa.Special(n.Imm)]; ok {
					out[n.Result()] = c
				}
				continue
			}
			var a [3]uint64
			for i, v := range n.Args {
				c, ok := v.Const()
				if !ok {
					if c, ok = out[v]; !ok {
						continue nodes
					}
				}
				a[i] = c & v.Type.Mask()
			}
			row, _ := isa.Lookup(n.Op.Inst())
			if row.Eval != nil && n.Mem.Mode == 0 {
				out[n.Result()], _ = row.Eval(isa.Form{Type: n.Type, From: n.From, Cond: n.Cond}, a[0], a[1], a[2])
			}
		}
	}
	walk(f.Body)
	return out
}
