package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// atomicCase is a program of one atomic operation.
type atomicCase struct {
	op     string
	t      isa.Type
	shared bool // on a block's shared memory
	own    bool // each lane on a place of its own, where it asks what was there before
	branch bool // only some lanes
	odd    int  // bytes from a multiple of the size
	far    bool // some lanes stray
}

func (c atomicCase) String() string {
	return fmt.Sprintf("%s.%v shared=%v own=%v branch=%v odd=%d far=%v", c.op, c.t, c.shared, c.own, c.branch, c.odd, c.far)
}

func (c atomicCase) text() string {
	var w strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&w, "  "+format+"\n", a...) }
	fmt.Fprintf(&w, "program p\nslot x u32\nslot v %[1]v\nslot w %[1]v\nslot g %[1]v\nslot old %[1]v\nslot old2 %[1]v\nshared %d\n", c.t, 300*c.t.Size())
	line("ldg.u32 x, x[index]\n  ldg.%[1]v v, v[index]\n  ldg.%[1]v w, w[index]", c.t)
	if c.t.Float() { // whole numbers, whose sums are the same in any order
		line("shr.u32 y, x, 20\n  cvt.%[1]v.u32 v, y\n  shr.u32 y, x, 25\n  cvt.%[1]v.u32 w, y", c.t)
	}
	switch {
	case c.own && c.shared:
		line("sreg o, lane.x")
	case c.own:
		line("sreg o, global_lane\n  cvt.u32.u64 o, o")
	case c.far:
		line("and.u32 o, x, 0xfff")
	default:
		line("and.u32 o, x, 15")
	}
	line("mul.u32 o, o, %d\n  cvt.i64.u32 o, o", c.t.Size())
	if c.branch {
		line("and.u32 y, x, 64\n  set.eq.u32 p, y, 0\n  bra over, p")
	}
	memory, values := "g", "v"
	if c.shared {
		memory = "shared"
	}
	if c.op == "cas" {
		values = "v, w"
	}
	line("atom_%s.%v r, %s[o + %d], %s", c.op, c.t, memory, c.odd, values)
	if c.own {
		line("stg.%v r, old[index]", c.t)
		if c.op == "cas" {
			line("atom_cas.%v r, %s[o + %d], r, v", c.t, memory, c.odd)
		} else {
			line("atom_%s.%v r, %s[o + %d], w", c.op, c.t, memory, c.odd)
		}
		line("stg.%v r, old2[index]", c.t)
	}
	w.WriteString("over:\n")
	if c.shared {
		line("bar_sync 0\n  sreg l, lane.x\n  mul.u32 l, l, %d\n  cvt.i64.u32 l, l\n  lds.%v r, shared[l]\n  stg.%[2]v r, g[index]", c.t.Size(), c.t)
	}
	line("exit")
	return w.String()
}

func atomicCases() (all []atomicCase) {
	for _, op := range []string{"add", "min", "max", "and", "or", "xor", "exch", "cas"} {
		for _, t := range []isa.Type{isa.U32, isa.I32, isa.U64, isa.I64, isa.F32, isa.F64} {
			if t.Float() && op != "add" {
				continue
			}
			for i := range 16 {
				c := atomicCase{op: op, t: t, shared: i&1 > 0, own: i&2 > 0, branch: i&4 > 0, odd: i >> 3 * 3}
				if !c.own && (op == "exch" || op == "cas") {
					continue // whose order would tell
				}
				all = append(all, c)
				if !c.own && i>>3 == 0 {
					c.far = true
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// Atomic operations are machine code, on memory of the launch and of the block, and have the oracle's bits and faults
// where their order is open; so has what was there before, where only one lane comes.
func TestAtomics(t *testing.T) {
	for i, c := range atomicCases() {
		v := verify(t, c.text())
		f, _, err := ir.Canonical(v)
		require.NoError(t, err)
		contents := randomContents(rand.New(rand.NewPCG(uint64(i), 51)), v, 700)
		if c.t.Float() {
			clear(contents[3])
		}
		contents[3] = append(contents[3], make([]byte, 2*c.t.Size())...) // what the last lane's odd place reaches into
		sh := linear(700, 256)
		want := run(t, interp.New(), v, sh, contents, nil, nil)
		require.Equal(t, c.far, want.err != nil, "%v: %v", c, want.err)
		for _, l := range levels {
			b := on(t, l, 1)
			d, err := b.Open(0)
			require.NoError(t, err)
			k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
			require.NoError(t, err)
			if l != jit.None {
				require.Contains(t, cpu.EngineOf(k), "jit", c)
			}
			k.Release()
			if err := same(v, run(t, b, v, sh, contents, nil, nil), want); err != nil {
				t.Errorf("%v, %v: %v\n%s", l, c, err, c.text())
			}
		}
	}
}

// A place that is a constant, where nothing has made it part of the address, is no reason for groups of fewer lanes.
func TestAtomicsAtConstants(t *testing.T) {
	v := verify(t, "program p\nslot x f32\nslot b u32\nslot c u32\nslot out f32\n  ldg.f32 x, x[index]\n  and.u32 r, 0xffffffff, 7\n  shl.u32 r, r, 2\n  atom_max.u32 old, c[r], 0xffffffff\n"+
		"  ldg.u32 y, b[r + 4]\n  cvt.f32.u32 z, y\n  add.f32 x, x, z\n  stg.f32 x, out[index]\n  exit")
	contents := randomContents(rand.New(rand.NewPCG(1, 52)), v, 97)
	want := run(t, interp.New(), v, linear(97, 33), contents, nil, nil)
	for _, l := range levels {
		m := newReady(t, on(t, l, 1), v, ir.Without("simplify", "params", "commute"))
		err := same(v, m.run(t, new(host).block, linear(97, 33), contents, nil, nil), want)
		m.k.Release()
		require.NoError(t, err, "%v\n%v", l, m.f)
	}
}

// No operation is lost where threads come to one place at a time, be it a multiple of its size or not, while the collector runs.
func TestAtomicsByThreads(t *testing.T) {
	const n, bins = 200_000, 7
	sodds, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-sodds:
				return
			default:
				runtime.GC()
			}
		}
	}()
	defer func() { close(sodds); <-done }()
	for _, l := range levels {
		for _, ty := range []isa.Type{isa.U32, isa.I64} {
			for _, odd := range []int{0, 1} {
				for _, old := range []string{"", "  add.%[1]v r, r, q\n  stg.%[1]v r, old[index]\n"} {
					text := fmt.Sprintf("program p\nslot x %[1]v\nslot g %[1]v\nslot old %[1]v\n  ldg.%[1]v x, x[index]\n  rem.%[1]v o, x, %[2]d\n  cvt.i64.%[1]v o, o\n  mul.i64 o, o, %[3]d\n"+
						"  atom_add.%[1]v r, g[o + %[4]d], x\n  atom_xor.%[1]v q, g[o + %[5]d], x\n"+old+"  exit", ty, bins, ty.Size(), odd, odd+bins*ty.Size())
					v := verify(t, text)
					size := ty.Size()
					x, want := make([]byte, n*size), make([]byte, (2*bins+1)*size)
					for i := range n {
						put := func(b []byte, c uint64) { copy(b, binary.LittleEndian.AppendUint64(nil, c)[:size]) }
						sum, odds := want[odd+i%bins*size:], want[odd+(bins+i%bins)*size:]
						put(x[i*size:], uint64(i))
						put(sum, cellAt(ty, sum)+uint64(i))
						put(odds, cellAt(ty, odds)^uint64(i))
					}
					got := run(t, on(t, l, 4), v, linear(n, 256), [][]byte{x, make([]byte, len(want)), make([]byte, len(x))}, nil, nil)
					require.NoError(t, got.err)
					require.Equal(t, want, got.slots[1], "%v, %v, %d bytes from a multiple\n%s", l, ty, odd, text)
				}
			}
		}
	}
}

// BenchmarkHistogram counts 2^20 bytes, in counters of the launch and in a block's own that are then added to these, by
// machine code and by strips: go test ./backends/cpu -run none -bench Histogram
func BenchmarkHistogram(b *testing.B) {
	const n, rounds = 1 << 20, 16
	for name, c := range map[string]struct {
		text  string
		lanes int64
	}{
		"launch": {"program p\nslot x u8\nslot c u32\n  ldg.u8 v, x[index]\n  cvt.i64.u8 o, v\n  mul.i64 o, o, 4\n  atom_add.u32 old, c[o], 1\n  exit", n},
		"block": {fmt.Sprintf("program p\nslot x u8\nslot c u32\nshared 1024\nblock 256\n  sreg g, block.x\n  cvt.i64.u32 g, g\n  mul.i64 g, g, %d\n  sreg l, lane.x\n  cvt.i64.u32 l, l\n"+
			"  add.i64 g, g, l\n  loop %d, end\n  ldg.u8 v, x[g]\n  cvt.i64.u8 o, v\n  mul.i64 o, o, 4\n  atom_add.u32 old, shared[o], 1\n  add.i64 g, g, 256\nend:\n"+
			"  bar_sync 0\n  mul.i64 l, l, 4\n  lds.u32 s, shared[l]\n  atom_add.u32 old, c[l], s\n  exit", 256*rounds, rounds), n / rounds},
	} {
		for _, l := range []jit.Level{jit.Detect(), jit.None} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/threads=%d/%v", name, threads, l), func(b *testing.B) {
					v := verify(b, c.text)
					x := make([]byte, n)
					r := rand.New(rand.NewPCG(1, 2))
					for i := range x {
						x[i] = byte(r.Uint32())
					}
					m := newReady(b, on(b, l, threads), v)
					defer m.k.Release()
					var h host
					contents := [][]byte{x, make([]byte, 1024)}
					b.SetBytes(n)
					for b.Loop() {
						m.run(b, h.block, linear(c.lanes, 256), contents, nil, nil)
					}
				})
			}
		}
	}
}
