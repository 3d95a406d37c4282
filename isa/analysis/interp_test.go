package analysis_test

import (
	"errors"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/stretchr/testify/require"
)

// judged runs a launch on the interpreter, following one lane, and demands
// that no instruction of which the site is proved strays, nor that the launch
// reports one.
func judged(t *testing.T, v *isa.Verified, l *analysis.Launch, lane uint64, fill func(slot, i int) byte) (proved int) {
	f, srcs, err := ir.Canonical(v)
	require.NoError(t, err)
	a := analysis.New(f)
	var p analysis.Proof
	a.Prove(l, &p)
	// An instruction may have several nodes, of which each must be proved.
	state := map[int]bool{}
	for site, inst := range srcs {
		if !f.Sites[site].CanFault() {
			continue
		}
		was, seen := state[inst]
		state[inst] = p.Site(site) && (was || !seen)
	}
	var record backends.Record
	var phase uint32
	run := &backends.Launch{Params: l.Params, Grid: l.Grid, Block: l.Block, Rank: 1, N: l.N, Fuel: 300, Record: &record, Phase: &phase}
	run.Shape[0] = int64(l.N)
	for i, bytes := range l.SlotBytes {
		addr, err := hostmem.Alloc(bytes)
		require.NoError(t, err)
		defer func() { require.NoError(t, hostmem.Free(addr, bytes)) }()
		for k, mem := 0, hostmem.Bytes(addr, bytes); k < len(mem); k++ {
			mem[k] = fill(i, k)
		}
		typ := v.Program.Slots[i].Type
		view := backends.View{Addr: addr, Bytes: bytes, Type: typ, Rank: 1}
		view.Shape[0], view.Stride[0] = int64(l.N), 1
		if int64(l.N)*int64(typ.Size()) > bytes { // only reached by bytes
			view.Stride[0] = 0
		}
		run.Slots = append(run.Slots, view)
	}
	err = interp.Trace(&backends.Unit{Source: v, IR: f}, run, lane, func(s interp.Step) {
		in := &v.Program.Insts[s.Inst]
		if !state[s.Inst] {
			return
		}
		proved++
		row, _ := isa.Lookup(in.Op)
		for _, x := range s.Values {
			addr := &in.Args[x.Operand]
			if k := row.Operands[x.Operand].Kind; k != isa.Mem && k != isa.SharedMem && k != isa.AnyMem {
				continue
			}
			reach := int64(v.Program.Shared)
			if addr.Mode == isa.AddrByte {
				reach = l.SlotBytes[addr.Slot]
			}
			if addr.Mode != isa.AddrByte && addr.Mode != isa.AddrShared {
				continue
			}
			if off := int64(x.Bits); off < 0 || off+int64(in.Type.Size()) > reach {
				t.Fatalf("instruction %d, %v, is proved and strays to byte %d of %d\nlaunch %+v\n%s", s.Inst, in.Op, off, reach, *l, isa.Disassemble(v.Program))
			}
		}
	})
	var fault *backends.ProgramFault
	switch {
	case errors.As(err, &fault):
		if fault.Kind != isa.FaultFuel && state[fault.Site] {
			t.Fatalf("instruction %d is proved and faults: %v\nlaunch %+v\n%s", fault.Site, fault, *l, isa.Disassemble(v.Program))
		}
	default:
		require.NoError(t, err)
	}
	return proved
}

// TestInterpreterAgrees holds proofs against the judge of all backends.
func TestInterpreterAgrees(t *testing.T) {
	brief.Alone(t)
	n := uint64(600)
	if brief.On() {
		n = 200
	}
	proved := 0
	for seed := range n {
		s := isatest.FromSeed(seed)
		p, err := isa.Assemble("addresses", analysis.NewAddresses(s, 3+s.Intn(30)))
		require.NoError(t, err)
		v, err := isa.Verify(p)
		require.NoError(t, err)
		l := analysis.RandomLaunch(s)
		proved += judged(t, v, l, uint64(s.Intn(int(l.N))), func(slot, i int) byte { return byte(s.Intn(256) >> s.Intn(8)) })
	}
	for seed := range n / 4 {
		s := isatest.FromSeed(seed)
		c := progen.New(s, progen.Config{Size: 5 + s.Intn(40), Lanes: s.Intn(3) > 0, Atlas: s.Intn(2) == 0, Faults: s.Intn(3) == 0})
		v, err := isa.Verify(c.Program)
		require.NoError(t, err)
		l := &analysis.Launch{N: c.N, Params: c.Params, Grid: c.Grid, Block: c.Block}
		for i := range c.Slots {
			l.SlotBytes = append(l.SlotBytes, int64(len(c.Slots[i].Data)))
		}
		proved += judged(t, v, l, uint64(s.Intn(int(l.N))), func(slot, i int) byte { return c.Slots[slot].Data[i] })
	}
	t.Logf("%d instructions run that are proved", proved)
	require.Greater(t, proved, int(n))
}
