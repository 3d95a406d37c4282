package isa_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// verify checks what holds for any program: Verify does not panic, its error
// is a *VerifyError whose texts can be made, and a graph keeps its promises.
func verify(t *testing.T, p *isa.Program) (verified bool) {
	t.Helper()
	v, err := isa.Verify(p)
	if err == nil {
		if err := isa.CheckVerified(v); err != nil {
			t.Fatalf("%v\n%s", err, isa.Disassemble(p))
		}
		return true
	}
	var e *isa.VerifyError
	if !errors.As(err, &e) || e.Rule == "" || e.Msg == "" {
		t.Fatalf("error %#v", err)
	}
	if len(e.Error()) > 4000 {
		t.Fatalf("error of %d bytes: %v", len(e.Error()), e)
	}
	return false
}

// wild returns a number that is small, extreme or anything.
func wild(s isatest.Source) uint64 {
	switch s.Intn(4) {
	case 0:
		return uint64(s.Intn(4))
	case 1:
		return []uint64{255, 256, math.MaxInt32, math.MaxInt64, 1 << 63, math.MaxUint64}[s.Intn(6)]
	case 2:
		return uint64(s.Intn(300))
	}
	return s.Uint64()
}

// mutateWildly changes one thing in p, to any value that its Go type can hold.
func mutateWildly(s isatest.Source, p *isa.Program) {
	w := wild(s)
	if len(p.Insts) == 0 || s.Intn(6) == 0 {
		switch s.Intn(9) {
		case 0:
			p.Slots = append(p.Slots, isa.Slot{Name: string(rune(w)), Type: isa.Type(wild(s))})
		case 1:
			p.Params = append(p.Params, isa.Param{Name: "a", Type: isa.Type(w)})
		case 2:
			p.Data = append(p.Data, isa.Data{Name: "b", Type: isa.Type(w), Values: []uint64{wild(s)}})
		case 3:
			p.Shared = uint32(w)
		case 4:
			p.Block[s.Intn(3)] = uint32(w)
		case 5:
			p.Labels = append(p.Labels, isa.Label{Name: "c", At: int(w)})
		case 6:
			p.Slots, p.Labels = nil, nil
		case 7:
			if n := len(p.Insts); n > 0 {
				p.Insts = slices.Delete(p.Insts, s.Intn(n), n)
			}
		case 8:
			p.Debug.Lines, p.Debug.Cols, p.Debug.Text = []int32{int32(w)}, []int32{int32(wild(s))}, "\xff\t"+string(rune(w))+"\n"
		}
		return
	}
	in := &p.Insts[s.Intn(len(p.Insts))]
	a := &in.Args[s.Intn(isa.MaxOperands)]
	switch s.Intn(16) {
	case 0:
		in.Op = isa.Op(s.Intn(int(isa.NumOps) + 1))
	case 1:
		in.Type = isa.Type(s.Intn(16))
	case 2:
		in.From = isa.Type(w)
	case 3:
		in.Cond = isa.Cond(w)
	case 4:
		a.Kind = isa.ArgKind(s.Intn(10))
	case 5:
		a.Not = !a.Not
	case 6:
		a.Reg = uint8(w)
	case 7, 8, 9:
		a.Bits = w
	case 10:
		a.Mode = isa.AddrMode(s.Intn(7))
	case 11:
		a.HasReg = !a.HasReg
	case 12:
		a.Slot, a.Handle, a.Reg = uint16(w), uint8(wild(s)), uint8(wild(s))
	case 13:
		a.Bits = w
	case 14:
		p.Insts = slices.Insert(p.Insts, s.Intn(len(p.Insts)), p.Insts[s.Intn(len(p.Insts))])
	case 15:
		if len(p.Labels) > 0 {
			p.Labels[s.Intn(len(p.Labels))].At = s.Intn(len(p.Insts) + 2)
		}
	}
}

func clone(p *isa.Program) *isa.Program {
	c := *p
	c.Slots, c.Params, c.Data, c.Labels, c.Insts = slices.Clone(p.Slots), slices.Clone(p.Params), slices.Clone(p.Data), slices.Clone(p.Labels), slices.Clone(p.Insts)
	return &c
}

// TestVerifyMutated verifies programs changed at random, so that most rules
// are met with values that neither assembler nor decoder would let through.
func TestVerifyMutated(t *testing.T) {
	brief.Alone(t)
	t.Parallel()
	n := hostile()
	seeds := isa.RuleTestPrograms(t)
	verified := 0
	for i := range n {
		s := isatest.FromSeed(uint64(i))
		p := clone(seeds[s.Intn(len(seeds))])
		for range 1 + s.Intn(3) {
			mutateWildly(s, p)
		}
		if verify(t, p) {
			verified++
		}
	}
	t.Logf("%d of %d programs verified", verified, n)
	if verified < n/100 || verified > n*3/4 {
		t.Errorf("%d of %d programs verified: too few or too many to tell much", verified, n)
	}
}

// TestVerifyRandom verifies random programs of all instructions.
func TestVerifyRandom(t *testing.T) {
	t.Parallel()
	n := hostile() / 50
	for i := range n {
		verify(t, isatest.Program(isatest.FromSeed(uint64(i)), 1+i%40))
	}
}

// byteSource makes choices of bytes, and zeros when they are used up.
type byteSource struct{ data []byte }

func (s *byteSource) Uint64() uint64 {
	var b [8]byte
	s.data = s.data[copy(b[:], s.data):]
	return binary.LittleEndian.Uint64(b[:])
}

func (s *byteSource) Intn(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	if n <= 256 {
		return int(b) % n
	}
	return int((uint64(b) | s.Uint64()<<8) % uint64(n))
}

func FuzzVerify(f *testing.F) {
	seeds := isa.RuleTestPrograms(f)
	f.Add([]byte{0, 1, 2, 3})
	f.Add([]byte{17, 2, 1, 7, 200, 3, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &byteSource{data}
		p := clone(seeds[s.Intn(len(seeds))])
		for range 50 {
			if len(s.data) == 0 {
				break
			}
			mutateWildly(s, p)
		}
		verify(t, p)
	})
}
