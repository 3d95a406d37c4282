package interp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

func TestElementwise(t *testing.T) {
	r := setup(t, `
program mul_add_relu
slot a f32
slot b f32
slot c f32
  ldg.f32 x, a[index]
  ldg.f32 y, b[index]
  mul.f32 t, x, y
  add.f32 t, t, x
  max.f32 t, t, 0x0p+0
  stg.f32 t, c[index]
  exit`, 5, 2)
	r.setF32(0, 1, -2, 3, 0.5, 7)
	r.setF32(1, 1, 2, 3, 4, -5)
	r.ok()
	check(t, "c", r.f32(2), 2, 0, 12, 2.5, 0)
}

func TestViews(t *testing.T) {
	r := setup(t, `
slot a u32
slot b u32
slot c u32
  ldg.u32 x, a[index]
  ldg.u32 y, b[index]
  add.u32 t, x, y
  stg.u32 t, c[index]
  exit`, 6, 4)
	r.setU32(0, 1, 2, 3, 4, 5, 6)
	r.setU32(1, 10, 20, 30)
	r.l.Rank, r.l.Shape = 2, [isa.MaxRank]int64{2, 3}
	a, b, c := &r.l.Slots[0], &r.l.Slots[1], &r.l.Slots[2]
	for _, v := range []*backends.View{a, b, c} {
		v.Rank, v.Shape = 2, r.l.Shape
	}
	a.Stride, a.Bytes = [isa.MaxRank]int64{1, 2}, 0 // transposed
	b.Stride, b.Bytes = [isa.MaxRank]int64{0, 1}, 0 // one row for all
	c.Stride, c.Bytes = [isa.MaxRank]int64{-3, -1}, 0
	c.Addr += 5 * 4 // backwards
	r.ok()
	check(t, "c", r.u32(2), 36, 24, 12, 35, 23, 11)
}

func TestScalarSpace(t *testing.T) {
	r := setup(t, "slot a u32\n stg.u32 7, a[index]\n exit", 1, 32)
	r.l.Rank, r.l.Slots[0].Rank = 0, 0
	check(t, "a", r.ok().u32(0), 7)
}

// TestSpecials has each lane write what it knows of itself.
func TestSpecials(t *testing.T) {
	names := []string{"lane.x", "lane.y", "lane.z", "block.x", "block.y", "block.z", "block_dim.x", "block_dim.y",
		"block_dim.z", "grid_dim.x", "grid_dim.y", "grid_dim.z"}
	text := "slot out u64\n mul.u64 at, r255, 128\n"
	for i, n := range names {
		text += fmt.Sprintf(" sreg s, %s\n cvt.u64.u32 v, s\n stg.u64 v, out[at + %d]\n", n, 8*i)
	}
	text += " sreg v, global_lane\n stg.u64 v, out[at + 96]\n sreg v, n\n stg.u64 v, out[at + 104]\n"
	text += " add.u32 s, r252, r253\n add.u32 s, s, r254\n cvt.u64.u32 v, s\n stg.u64 v, out[at + 112]\n exit"
	const bx, by, bz, gx, gy, gz = 3, 2, 2, 2, 3, 2
	const n = bx*by*bz*gx*gy*gz - 5
	r := setup(t, text, n, 1, 16*n)
	r.l.Block, r.l.Grid = [3]uint32{bx, by, bz}, [3]uint32{gx, gy, gz}
	r.ok()
	for g := range n {
		lane, block := g%12, g/12
		want := []uint64{uint64(lane % 3), uint64(lane / 3 % 2), uint64(lane / 6), uint64(block % 2), uint64(block / 2 % 3), uint64(block / 6),
			bx, by, bz, gx, gy, gz, uint64(g), n, uint64(lane%3 + block%2 + bx)}
		var got []uint64
		for i := range want {
			got = append(got, binary.LittleEndian.Uint64(r.bytes(0)[128*g+8*i:]))
		}
		check(t, fmt.Sprintf("lane %d", g), got, want...)
	}
}

func TestControl(t *testing.T) {
	for _, c := range []struct{ name, body string }{ // each leaves in x what the lane's number n leads to, as want says
		{"count", " mov.u32 x, 0\n loop n, e\n add.u32 x, x, 2\ne:"},
		{"branch to the end goes on", " mov.u32 x, 0\n loop n, e\n add.u32 x, x, 2\n bra e\n mov.u32 x, 99\ne:"},
		{"branch out leaves", " mov.u32 x, 0\n loop 1000, e\n set.ge.u32 p, x, m\n bra out, p\n add.u32 x, x, 1\ne:\nout:"},
		{"branch out far", " mov.u32 x, 0\n loop 7, a\n loop 1000, b\n set.ge.u32 p, x, m\n bra out, p\n add.u32 x, x, 1\nb:\na:\n mov.u32 x, 99\nout:"},
		{"nested, one end", " mov.u32 x, 0\n loop 2, e\n loop n, e\n add.u32 x, x, 1\ne:"},
		{"branch around", " mov.u32 x, 0\ntop:\n set.ge.u32 p, x, m\n bra out, p\n add.u32 x, x, 1\n bra top\nout:"},
		{"back to LOOP", " mov.u32 x, 0\n mov.u32 y, 0\nl:\n loop n, e\n add.u32 x, x, 1\ne:\n add.u32 y, y, 1\n set.lt.u32 p, y, 2\n bra l, p"},
		{"start again", " mov.u32 x, 0\nl:\n loop n, e\n add.u32 x, x, 1\n set.eq.u32 p, x, 1\n bra l, p\ne:\n set.eq.u32 p, n, 0\n bra out, p\n add.u32 x, x, n\n sub.u32 x, x, 1\nout:"},
		{"call", " mov.u32 x, 0\n call f\n call f\n bra out\nf:\n loop n, e\n add.u32 x, x, 1\ne:\n ret\nout:"},
		{"ret out of a loop", " mov.u32 x, 0\n loop m, l\n call f\nl:\n bra out\nf:\n loop 1000, e\n add.u32 x, x, 1\n ret\ne:\n ret\nout:"},
		{"call inside, code after", " mov.u32 x, 0\n loop 2, l\n call f\nl:\n bra out\nf:\n add.u32 x, x, n\n ret\nout:"},
		{"count is read once", " mov.u32 x, n\n loop x, e\n add.u32 x, x, 1\ne:"},
		{"empty body of a round", " mov.u32 x, m\n loop 5, e\n bra e\ne:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "slot out u32\n cvt.u32.u64 n, r255\n mul.u32 m, n, 2\n" + c.body + "\n stg.u32 x, out[index]\n exit"
			r := setup(t, text, 5, 8).ok()
			check(t, "x", r.u32(0), 0, 2, 4, 6, 8)
		})
	}
}

func TestFuel(t *testing.T) {
	for _, c := range []struct {
		name, body string
		cost       uint64 // of the program with 4 rounds
		site       int
	}{
		{"loop", " loop 4, e\n add.u32 x, x, 1\ne:", 4, 1},
		{"branch", "top:\n add.u32 x, x, 1\n set.lt.u32 p, x, 4\n bra top, p", 3, 3},
		{"nested", " loop 2, e\n loop 2, e\n add.u32 x, x, 1\ne:", 6, 0},
		{"loop again", "l:\n loop 2, e\n add.u32 x, x, 1\ne:\n set.lt.u32 p, x, 4\n bra l, p", 5, 0},
		{"into a loop", " bra t\nb:\n add.u32 x, x, 1\nt:\n set.lt.u32 p, x, 4\n bra b, p", 4, 2},
		{"ret", " bra t\nb:\n call f\nt:\n add.u32 x, x, 1\n set.lt.u32 p, x, 4\n bra b, p\n bra out\nf:\n ret\nout:", 3, 2},
		{"second ret", " bra t\nb:\n call f\n call f\nt:\n add.u32 x, x, 1\n set.lt.u32 p, x, 4\n bra b, p\n bra out\nf:\n ret\nout:", 3, 3},
		{"forward is free", " add.u32 x, x, 4\n bra a\na:\n bra b\nb:", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "slot out u32\n mov.u32 x, 0\n" + c.body + "\n stg.u32 x, out[index]\n exit"
			for fuel := uint64(1); fuel < c.cost; fuel++ {
				r := setup(t, text, 3, 2)
				r.setU32(0, 77, 77, 77)
				r.l.Fuel = fuel
				var f *backends.ProgramFault
				if err := r.run(); !errors.As(err, &f) || f.Kind != isa.FaultFuel || f.Lane != 0 {
					t.Fatalf("fuel %d: got %v, want out of fuel", fuel, err)
				} else if c.site > 0 && f.Site != c.site {
					t.Errorf("fuel %d: site %d, want %d", fuel, f.Site, c.site)
				}
				check(t, "out", r.u32(0), 77, 77, 77)
			}
			for _, fuel := range []uint64{c.cost, c.cost + 1, 0} {
				r := setup(t, text, 3, 2)
				r.l.Fuel = fuel
				check(t, "out", r.ok().u32(0), 4, 4, 4)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for name, body := range map[string]string{
		"branch": "top:\n bra top",
		"loop":   " loop 0xffffffff, e\n loop 0xffffffff, f\n bra f\nf:\ne:",
	} {
		r := setup(t, "slot out u32\n"+body+"\n stg.u32 1, out[index]\n exit", 3, 2)
		r.l.Record = new(backends.Record)
		time.AfterFunc(10*time.Millisecond, r.l.Record.Stop)
		if err := r.run(); !errors.Is(err, backends.ErrCancelled) {
			t.Errorf("%s: got %v, want cancelled", name, err)
		}
		check(t, name, r.u32(0), 0, 0, 0)
	}
}

// A launch that is asked to stop when its last lane has begun runs to its end,
// and is not told off as cancelled; one asked before is, with lanes left.
func TestCancelAfterTheEnd(t *testing.T) {
	row, _ := isa.Lookup(isa.NOT)
	right := row.Eval
	defer func() { row.Eval = right }()
	for last, want := range map[int]error{6: nil, 3: backends.ErrCancelled} {
		r := setup(t, "slot out u32\n not.u32 x, 0\n stg.u32 x, out[index]\n exit", 6, 2)
		r.l.Record = new(backends.Record)
		lanes := 0
		row.Eval = func(f isa.Form, a, b, c uint64) (uint64, isa.FaultKind) {
			if lanes++; lanes == last {
				r.l.Record.Stop()
			}
			return right(f, a, b, c)
		}
		require.ErrorIs(t, r.run(), want, "asked in lane %d", last)
		require.Equal(t, (last+1)/2*2, lanes, "lanes run")
	}
}

func TestAddresses(t *testing.T) {
	r := setup(t, `
slot a u8
slot out u32
shared 32
data d i16 { -5, 6 }
  mov.i32 o, -3
  ldg.u32 x, a[o + 4]           ; misaligned, any type in a u8 slot
  stg.u32 x, out[0]
  mov.u64 h, 0
  ldg.u16 y, @h[o + 5]
  cvt.u32.u16 x, y
  stg.u32 x, out[4]
  sts.f64 0x1.8p+1, shared[5]
  lds.u32 x, shared[9]
  stg.u32 x, out[8]
  ldc.i16 z, d[0]
  cvt.u32.i16 x, z
  stg.u32 x, out[12]
  bound_map b, 2, 3, 4
  cvt.u32.u64 x, b
  stg.u32 x, out[16]
  mov_imm.u32 x, 0x1ffffffff
  stg.u32 x, out[20]
  exit`, 1, 1, 8, 6)
	copy(r.bytes(0), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	check(t, "out", r.ok().u32(1), 0x05040302, 0x0403, 0x40080000, 0xfffffffb, 2*12288+3*256+4, 0xffffffff)
}

func TestPhi(t *testing.T) {
	r := setup(t, "slot out u32\n ldg.u32 x, phi(5, 3, 16)\n add.u32 x, x, 1\n stg.u32 x, phi(95, 47, 252)\n stg.u32 x, out[index]\n exit", 1, 1, 1, isa.BoundaryBytes)
	binary.LittleEndian.PutUint32(r.bytes(1)[5*12288+3*256+16:], 41)
	r.ok()
	check(t, "out", r.u32(0), 42)
	if got := binary.LittleEndian.Uint32(r.bytes(1)[isa.BoundaryBytes-4:]); got != 42 {
		t.Errorf("the boundary's last word is %d, want 42", got)
	}
}

// TestBarrier turns each block round through shared memory, in which a lane
// that has exited takes no part.
func TestBarrier(t *testing.T) {
	r := setup(t, `
slot a u32
slot out u32
shared 16
  ldg.u32 x, a[index]
  mul.u32 o, r252, 4
  sts.u32 x, shared[o]
  set.eq.u32 p, x, 1
  bra away, p
  bar_sync 0
  sub.u32 o, 12, o
  lds.u32 x, shared[o]
  stg.u32 x, out[index]
  exit
away:
  exit`, 10, 4)
	r.setU32(0, 10, 11, 12, 1, 20, 21, 22, 23, 30, 31)
	check(t, "out", r.ok().u32(1), 1, 12, 11, 0, 23, 22, 21, 20, 0, 0)
}

func TestBarrierInLoop(t *testing.T) {
	// Each lane takes its right neighbour's value, as often as the block has lanes.
	r := setup(t, `
slot a u32
shared 20
  ldg.u32 x, a[index]
  mul.u32 o, r252, 4
  add.u32 right, r252, 1
  rem.u32 right, right, r254
  mul.u32 q, right, 4
  loop 3, e
  sts.u32 x, shared[o]
  bar_sync 0
  lds.u32 x, shared[q]
  bar_sync 0
e:
  stg.u32 x, a[index]
  exit`, 5, 5)
	r.setU32(0, 1, 2, 3, 4, 5)
	check(t, "a", r.ok().u32(0), 4, 5, 1, 2, 3)
}

func TestAtomics(t *testing.T) {
	const n = 7
	cell := map[string]uint64{"add": 0 + 1 + 2 + 3 + 4 + 5 + 6 + 12, "min": 0, "max": 12, "and": 0, "or": 15, "xor": 12 ^ 7, "exch": 6}
	for op, want := range cell {
		r := setup(t, fmt.Sprintf("slot c i64\nslot old i64\n cvt.i64.u64 x, r255\n atom_%s.i64 y, c[0], x\n stg.i64 y, old[index]\n exit", op), n, 3, 1)
		r.bytes(0)[0] = 12
		r.ok()
		if got := binary.LittleEndian.Uint64(r.bytes(0)); got != want {
			t.Errorf("atom_%s leaves %d, want %d", op, got, want)
		}
		if got := r.bytes(1)[0]; got != 12 {
			t.Errorf("atom_%s: the first old value is %d, want 12", op, got)
		}
	}
	r := setup(t, "slot c u32\nslot old u32\n cvt.u32.u64 x, r255\n add.u32 y, x, 1\n atom_cas.u32 y, c[0], x, y\n stg.u32 y, old[index]\n exit", n, 3, 1)
	r.ok()
	check(t, "cas", r.u32(0), n)
	check(t, "old", r.u32(1), 0, 1, 2, 3, 4, 5, 6)
	r = setup(t, "slot c f32\n atom_add.f32 y, c[0], 0x1p-1\n exit", n, 3, 1)
	check(t, "float add", r.ok().f32(0), 3.5)
}

func TestAtlasState(t *testing.T) {
	r := setup(t, `
slot out u32
  cls_get c
  res_accum c, 0xfffffffffffffffe
  res_accum c, 3
  phase_adv 100
  phase_get h
  cvt.u32.u16 x, h
  unity_test p, 0x0p+0
  sel.u32 y, p, 1000, 0
  add.u32 x, x, y
  unity_test q, 0x1p+0
  sel.u32 y, q, 10000, 0
  add.u32 x, x, y
  set.eq.u32 z, r253, 0
  bra out, z
  phase_adv 1
out:
  stg.u32 x, out[index]
  exit`, 2*98, 2)
	phase := uint32(700)
	r.l.Record, r.l.Phase = new(backends.Record), &phase
	r.ok()
	if phase != 32 {
		t.Errorf("the stream's phase is %d, want lane 0's 32", phase)
	}
	for c, got := range r.l.Record.Residue {
		want := uint64(2)
		if c < 2 { // of blocks 0 and 96, 1 and 97
			want = 4
		}
		if got != want {
			t.Errorf("R[%d] = %d, want %d", c, got, want)
		}
	}
	for i, got := range r.u32(0) {
		want := uint32(32)
		switch i / 2 % 96 {
		case 1, 4:
			want += 11000
		case 0, 2, 3, 5:
			want += 10000
		}
		if got != want {
			t.Fatalf("lane %d: %d, want %d", i, got, want)
		}
	}
	delta := r.l.Record.Residue[5]
	r.ok()
	if got := r.l.Record.Residue[5]; got != 2*delta || phase != (32+100)%768 {
		t.Errorf("a second launch: R[5] = %d, phase %d", r.l.Record.Residue[5], phase)
	}
}

// TestPool runs an allocation twice: the same area, zeroed again.
func TestPool(t *testing.T) {
	r := setup(t, `
slot out u32
  pool_alloc g, 4
  pool_store.u32 5, g, 0
  mov.u32 s, 0
  loop 3, e
  pool_alloc h, 16
  pool_load.u32 x, h, 6
  add.u32 s, s, x
  pool_store.u32 0x01020304, h, 4
  pool_load.u32 x, h, 6
  add.u32 s, s, x
e:
  pool_load.u32 x, g, 0
  add.u32 s, s, x
  stg.u32 s, out[index]
  exit`, 2, 2)
	check(t, "out", r.ok().u32(0), 3*0x0102+5, 3*0x0102+5)
}

func TestParamsAndPredicates(t *testing.T) {
	r := setup(t, `
slot out f32
param alpha f32
param k i8
  ldp.f32 x, alpha
  ldp.i8 k, k
  set.lt.i8 p, k, 0
  set.gt.f32 q, x, 0x0p+0
  and.pred r, p, q
  not.pred s, r
  mov.pred u, !s
  sel.f32 x, !u, 0x0p+0, x
  bra keep, u
  mov.f32 x, nan
keep:
  stg.f32 x, out[index]
  exit`, 1, 1)
	r.l.Params = []uint64{uint64(math.Float32bits(2.5)), 0xff}
	check(t, "out", r.ok().f32(0), 2.5)
}

func TestRegisterReduce(t *testing.T) {
	r := setup(t, `
slot out f32
  mov.f32 r4, 0x1p+24
  mov.f32 r5, 0x1p+0
  mov.f32 r6, 0x1p+0
  mov.f32 r7, -0x1p+24
  reduce_add.f32 x, r4, 4
  stg.f32 x, out[0]
  reduce_min.f32 x, r4, 4
  stg.f32 x, out[4]
  reduce_max.f32 x, r4, 3
  stg.f32 x, out[8]
  reduce_mul.f32 x, r5, 1
  stg.f32 x, out[12]
  exit`, 1, 1, 4)
	check(t, "out", r.ok().f32(0), 0, -1<<24, 1<<24, 1) // 2^24 + 1 is 2^24 in f32
}

// TestCallersState runs under the states that a host may leave.
func TestCallersState(t *testing.T) {
	const text = `
slot out f32
  mov.f32 x, 0x1p-127
  mul.f32 x, x, 0x1p-1
  stg.f32 x, out[0]
  mov.f32 y, -0x1p+0
  div.f32 y, y, 0x1.8p+1
  stg.f32 y, out[4]
  exit`
	want := []uint32{1 << 21, 0xbeaaaaab}
	for _, c := range fpenv.Callers() {
		r := setup(t, text, 1, 1, 2)
		kept := c.Run(func() { r.ok() })
		check(t, c.Name, r.u32(0), want...)
		if !kept {
			t.Errorf("%s: the launch changed the caller's state", c.Name)
		}
	}
}

func TestTrace(t *testing.T) {
	r := setup(t, `
slot a u32
  ldg.u32 x, a[index]
  loop 2, e
  add.u32 x, x, 1
e:
  block_reduce_max.u32 y, x
  set.gt.u32 p, y, 5
  bra big, p
  mov.u32 y, 0
big:
  stg.u32 y, a[index]
  exit`, 4, 2)
	r.setU32(0, 1, 2, 3, 4)
	var lines []string
	err := Trace(&backends.Unit{Source: r.v}, &r.l, 2, func(s Step) {
		line := fmt.Sprintf("%d %v:", s.Inst, r.v.Program.Insts[s.Inst].Op)
		for _, v := range s.Values {
			line += fmt.Sprintf(" %d=%v %d", v.Operand, v.Type, v.Bits)
		}
		lines = append(lines, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `0 LDG: 0=u32 3 1=i64 8
1 LOOP: 0=u32 2
2 ADD: 0=u32 4 1=u32 3 2=u32 1
2 ADD: 0=u32 5 1=u32 4 2=u32 1
3 BLOCK_REDUCE_MAX: 0=u32 6 1=u32 5
4 SET: 0=pred 1 1=u32 6 2=u32 5
5 BRA: 1=pred 1
7 STG: 0=u32 6 1=i64 8
8 EXIT:`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := Trace(&backends.Unit{Source: r.v}, &r.l, 4, func(Step) {}); err == nil {
		t.Error("a lane that does not run was traced")
	}
}

func TestBackend(t *testing.T) {
	b := New()
	if l, err := b.Devices(); err != nil || len(l) != 1 || !l[0].HostVisible || !l[0].RunsSource {
		t.Errorf("Devices: %v, %v", l, err)
	}
	if _, err := b.Open(1); err == nil {
		t.Error("device 1 opened")
	}
	d, _ := b.Open(0)
	other, _ := b.Open(0)
	k, err := other.Compile(&backends.Unit{Source: verified(t, "exit")}, backends.Variant{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.NewStream()
	if _, err := s.Launch(k, &backends.Launch{}); err == nil {
		t.Error("a kernel of another device was launched")
	}
	if _, err := d.Alloc(1 << 55); !errors.Is(err, backends.ErrOutOfMemory) {
		t.Errorf("Alloc(2^55): %v, want out of memory", err)
	}
	m, err := d.Alloc(256)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(m)
	copy(hostmem.Bytes(m.Addr, 4), "atla")
	if _, err := s.Copy(m.Addr+128, m.Addr, 4); err != nil || string(hostmem.Bytes(m.Addr+128, 4)) != "atla" {
		t.Errorf("Copy: %v", err)
	}
	if _, err := s.Copy(m.Addr, m.Addr+128, -1); err == nil {
		t.Error("a negative number of bytes was copied")
	}
}
