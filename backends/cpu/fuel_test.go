package cpu_test

import (
	"errors"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

// TestFuelOfCalls runs loops whose rounds start where a RET leads, or in code
// that routines share, with every fuel up to more than they cost. Each program
// counts the rounds, max(m, 1), and stores them in the end; cost is what that
// takes.
func TestFuelOfCalls(t *testing.T) {
	for _, c := range []struct {
		name, body string
		cost       func(m uint64) uint64
	}{
		{"a CALL ends the body", `
  bra t
b:
  call f
t:
  add.u32 x, x, 1
  set.lt.u32 p, x, m
  bra b, p
  bra out
f:
  mov.u32 y, x
  ret`, func(m uint64) uint64 { return max(m, 1) - 1 }},
		{"two CALLs end the body", `
  bra t
b:
  call f
  call f
t:
  add.u32 x, x, 1
  set.lt.u32 p, x, m
  bra b, p
  bra out
f:
  bra g, p
  ret
g:
  ret`, func(m uint64) uint64 { return max(m, 1) - 1 }},
		{"a CALL ends a round of a LOOP", `
  max.u32 m, m, 1
  loop m, end
  call f
end:
  bra out
f:
  add.u32 x, x, 1
  ret`, func(m uint64) uint64 { return max(m, 1) }},
		// The first call enters at t, and steps back to it; the second enters
		// at g, and branches back to it.
		{"a loop shared by two routines", `
  shr.u32 n, m, 1
  call f
  mov.u32 n, m
  call g
  bra out
f:
  bra t
g:
  add.u32 x, x, 1
t:
  set.lt.u32 p, x, n
  bra g, p
  ret`, func(m uint64) uint64 { return m/2 + max(m-m/2, 1) - 1 }},
		{"a CALL in a loop shared by two routines", `
  shr.u32 n, m, 1
  call f
  mov.u32 n, m
  call g
  bra out
f:
  bra t
g:
  call h
t:
  set.lt.u32 p, x, n
  bra g, p
  ret
h:
  add.u32 x, x, 1
  ret`, func(m uint64) uint64 { return m/2 + max(m-m/2, 1) - 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verify(t, `
program p
slot c u32
  cvt.u32.u64 m, r255
  and.u32 m, m, 7
  mov.u32 x, 0`+c.body+`
out:
  stg.u32 x, c[index]
  exit`)
			oracle, tested := interp.New(), cpu.New(1)
			for fuel := range uint64(11) {
				sh := linear(70, 32)
				sh.fuel = fuel
				contents := [][]byte{make([]byte, 4*70)}
				for i := range contents[0] {
					contents[0][i] = 0xee
				}
				want := run(t, oracle, v, sh, contents, nil, nil)
				got := run(t, tested, v, sh, contents, nil, nil)
				if err := same(v, got, want); err != nil {
					t.Errorf("fuel %d: %v", fuel, err)
				}
				short := false
				for lane := range uint64(70) {
					m := lane & 7
					rounds := max(m, 1)
					if fuel != 0 && fuel < c.cost(m) {
						short, rounds = true, 0xeeeeeeee // nothing stored
					}
					if x := cellAt(isa.U32, want.slots[0][4*lane:]); x != rounds {
						t.Fatalf("fuel %d, lane %d: stored %#x, want %#x", fuel, lane, x, rounds)
					}
				}
				var f *backends.ProgramFault
				if out := errors.As(want.err, &f) && f.Kind == isa.FaultFuel; out != short {
					t.Errorf("fuel %d: outcome %v", fuel, want.err)
				}
			}
		})
	}
}

// TestFuelThatIsJustEnough: a lane whose last round takes its last fuel goes on, beside
// lanes that have ended and under branches that leave no mark on those that run.
func TestFuelThatIsJustEnough(t *testing.T) {
	v := verify(t, `
program p
slot x u32
slot c u32
  cvt.u32.u64 lane, r255
  and.u32 m, lane, 7
  mov.u32 y, 2
  loop m, first
  ldg.u32 y, x[index]
first:
  loop m, second
second:
  loop 5, third
third:
  set.ne.u32 p, y, 3
  bra fourth, !p
  loop 1, fourth
fourth:
  set.ne.u32 p, y, 77
  bra last, p
  stg.u32 lane, x[index]
last:
  mov.u64 zero, 0
  atom_add.u32 old, c[zero], 1
  exit`)
	const lanes = 35
	for fuel := range uint64(24) {
		sh := linear(lanes, 32)
		sh.fuel = fuel
		contents := [][]byte{make([]byte, 4*lanes), make([]byte, 4*lanes)}
		want := run(t, interp.New(), v, sh, contents, nil, nil)
		if err := same(v, run(t, cpu.New(1), v, sh, contents, nil, nil), want); err != nil {
			t.Errorf("fuel %d: %v", fuel, err)
		}
		ended := uint64(0)
		for lane := range uint64(lanes) {
			if fuel == 0 || fuel >= 2*(lane&7)+6 {
				ended++
			}
		}
		if n := cellAt(isa.U32, want.slots[1]); n != ended {
			t.Fatalf("fuel %d: %d lanes came to the end, want %d", fuel, n, ended)
		}
	}
}
