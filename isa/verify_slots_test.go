package isa

import (
	"fmt"
	"strings"
	"testing"
)

// describe writes the use of each slot: r and w for reads and writes, i and b
// for indexed and by bytes, f for flat, then the slots stored to before a load.
func describe(v *Verified) string {
	var l []string
	for s, u := range v.Slots {
		d := v.Program.Slots[s].Name + ":"
		for _, f := range []struct {
			on bool
			c  string
		}{{u.Reads, "r"}, {u.Writes, "w"}, {u.Indexed, "i"}, {u.Bytes, "b"}, {u.Flat, "f"}} {
			if f.on {
				d += f.c
			}
		}
		for _, o := range u.LoadsAfterStoreTo {
			d += "<" + v.Program.Slots[o].Name
		}
		l = append(l, d)
	}
	return strings.Join(l, " ")
}

func TestSlotUse(t *testing.T) {
	const abc = "slot a f32\nslot b f32\nslot c f32\n"
	for _, c := range []struct{ name, text, want string }{
		{"unused", "exit", "a: b: c:"},
		{"in, out", "ldg.f32 x, a[index]\nstg.f32 x, b[index]\nexit", "a:ri b:wi c:"},
		{"load after store", "ldg.f32 x, a[index]\nstg.f32 x, b[index]\nldg.f32 x, c[0]\nexit", "a:ri b:wi c:rb<b"},
		{"itself", "stg.f32 0, a[index]\nldg.f32 x, a[index]\nexit", "a:rwi b: c:"},
		{"both modes", "ldg.f32 x, a[index]\nldg.f32 x, a[0]\nexit", "a:rib b: c:"},
		{"flat", "ldg.f32 x, a[flat 0]\nstg.f32 x, b[flat r255]\nldg.f32 x, b[index]\nldg.f32 x, a[flat 1]\nexit", "a:rf<b b:rwif c:"},
		{"other branch", "mov.pred p, true\nbra e, p\nstg.f32 0, b[index]\nexit\ne: ldg.f32 x, a[index]\nexit", "a:ri b:wi c:"},
		{"after join", "mov.pred p, true\nbra e, p\nstg.f32 0, b[index]\ne: ldg.f32 x, a[index]\nexit", "a:ri<b b:wi c:"},
		{"next round", "loop 2, e\nldg.f32 x, a[index]\nstg.f32 x, b[index]\ne: exit", "a:ri<b b:wi c:"},
		{"atomic", "slot d u32\natom_add.u32 x, d[0], 1\natom_add.u32 x, d[0], 1\nldg.f32 x, a[0]\nexit", "a:rb<d b: c: d:rwb"},
		{"two", "stg.f32 0, c[index]\nstg.f32 0, b[index]\nldg.f32 x, a[index]\nexit", "a:ri<b<c b:wi c:wi"},
		{"indirect load", "stg.f32 0, c[index]\nldg.f32 x, @r255[0]\nexit", "a:rb<c b:rb<c c:rwib"},
		{"indirect store", "stg.f32 0, @r255[0]\nldg.f32 x, b[index]\nexit", "a:wb b:rwib<a<c c:wb"},
		{"phi", "ldg.f32 x, phi(1, 2, 3)\nexit", "a: b: c: boundary:rb"},
		{"dead", "exit\nldg.f32 x, a[index]", "a: b: c:"},
		{"shared", "shared 4\nlds.f32 x, shared[0]\natom_exch.u32 y, shared[0], 1\nexit", "a: b: c:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Verify(mustAssemble(t, abc+c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(v); got != c.want {
				t.Errorf("slots %s, want %s", got, c.want)
			}
		})
	}
}

// TestSlotUseOfMany uses the last of as many slots as there may be.
func TestSlotUseOfMany(t *testing.T) {
	p := mustAssemble(t, named(MaxSlots, "slot s%d f32")+fmt.Sprintf("stg.f32 0, s%d[index]\nldg.f32 x, s0[index]\nstg.f32 0, s0[index]\nldg.f32 x, s%d[index]\nexit", MaxSlots-1, MaxSlots-1))
	v, err := Verify(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(v.Slots[0].LoadsAfterStoreTo, v.Slots[MaxSlots-1].LoadsAfterStoreTo); got != fmt.Sprintf("[%d] [0]", MaxSlots-1) {
		t.Errorf("loads after stores %s", got)
	}
}

func TestVerifiedFacts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		pool       int
		barrier    bool
	}{
		{"nothing", "exit", 0, false},
		{"pools", "call f\ncall f\npool_alloc h, 3\nexit\nf: pool_alloc h, 16\nret\npool_alloc h, 100", 19, false},
		{"barrier", "bar_sync 1\nexit", 0, true},
		{"collective", "block_scan_min.f32 x, 0\nexit", 0, true},
		{"dead barrier", "mem_fence block\nexit\nbar_sync 0", 0, false},
	} {
		v, err := Verify(mustAssemble(t, c.text))
		if err != nil {
			t.Fatal(err)
		}
		if v.PoolBytes != c.pool || v.HasBarrier != c.barrier {
			t.Errorf("%s: %d bytes of scratch, barrier %v", c.name, v.PoolBytes, v.HasBarrier)
		}
	}
}

func TestVerifyErrorText(t *testing.T) {
	const text = "program demo\n" +
		"  mov.pred p, true ; always\n" +
		"  bra skip, p\n" +
		"  mov.f32 y, 0x1p+0\n" +
		"skip:\n" +
		"\tadd.f32 x, y, 0x1p+0  ; reads y\n" +
		"  exit\n"
	for _, c := range []struct {
		name string
		edit func(p *Program)
		want string
	}{
		{"assembled", func(*Program) {}, `test.atlas:6:2: add.f32 x, y, 0x1p+0: register y is not initialised on every path [init]
   add.f32 x, y, 0x1p+0  ; reads y
   ^~~~~~~~~~~~~~~~~~~~
  hint: written at line 4`},
		{"without lines", func(p *Program) { p.Debug.Lines = nil }, `program demo: instruction 3, add.f32: register y is not initialised on every path [init]
  hint: written at instruction 2`},
		{"without names", func(p *Program) { p.Debug, p.Name = Debug{}, "" }, `program: instruction 3, add.f32: register r0 is not initialised on every path [init]
  hint: written at instruction 2`},
		{"line past the text", func(p *Program) { p.Debug.Lines[3] = 99 }, `test.atlas:99:2: add.f32: register y is not initialised on every path [init]
  hint: written at line 4`},
		{"column past the line", func(p *Program) { p.Debug.Cols = []int32{1, 1, 1, 1 << 30} }, `test.atlas:6:1073741824: add.f32: register y is not initialised on every path [init]
  hint: written at line 4`},
		{"a declaration", func(p *Program) { p.Shared = 1 << 20 }, `program demo: 1048576 bytes of shared memory, at most 49152 are allowed [limit]`},
		{"wild", func(p *Program) {
			lines := strings.Split(p.Debug.Text, "\n")
			lines[5] = "\tx\x00\v" + strings.Repeat("y", 500)
			p.Insts[3].Op, p.Debug.Text = 9999, strings.Join(lines, "\n")
		}, "test.atlas:6:2: x\uFFFD\uFFFD" + strings.Repeat("y", 58) + "...: there is no operation 9999 [op]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustAssemble(t, text)
			c.edit(p)
			_, err := Verify(p)
			if err == nil {
				t.Fatal("verified")
			}
			got := err.Error()
			if c.name == "wild" { // its excerpt is tested with that of the assembler
				got = err.(*VerifyError).Summary()
			}
			if got != c.want {
				t.Errorf("error is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
