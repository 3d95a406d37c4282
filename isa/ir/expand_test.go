package ir

import (
	"fmt"
	gomath "math"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
)

// Every expansion, alone and twice in a program, must give what its own
// program gives.
func TestExpandMeansTheProgramInMath(t *testing.T) {
	count := 0
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for _, ty := range row.Expand.List() {
			count++
			t.Run(fmt.Sprintf("%v.%v", op, ty), func(t *testing.T) {
				ops := "x"
				if len(row.Operands) == 3 {
					ops = "x, y"
				}
				name := strings.ToLower(op.String())
				v := verified(t, fmt.Sprintf(`program p
slot x %[1]v
slot y %[1]v
slot out %[1]v
slot second %[1]v
data mine u8 { 1, 2 }
  ldg.%[1]v x, x[index]
  ldg.%[1]v y, y[index]
  %[2]s.%[1]v a, %[3]s
  %[2]s.%[1]v b, %[4]s
  stg.%[1]v a, out[index]
  stg.%[1]v b, second[index]
  exit
`, ty, name, ops, strings.NewReplacer("x", "a", "y", "x").Replace(ops)))
				f := canonical(t, v)
				before := string(f.Bytes())
				g, err := Expand(f)
				if err != nil {
					t.Fatal(err)
				}
				if err := Check(g); err != nil {
					t.Fatalf("%v\n%v", err, g)
				}
				if string(f.Bytes()) != before {
					t.Fatal("Expand changed its argument")
				}
				sameSites(t, f, g)
				def, _ := math.Expansion(op, ty)
				for at := range 64 {
					slots := samples(v.Program, ty)
					m := newMachine(v.Program, slots, nil, at)
					if !m.walkTree(g) {
						t.Fatal("no end")
					}
					want := apply(t, def, slots[0], slots[1], at)
					if got := get(m.slots[2][at*ty.Size():][:ty.Size()]); got != want {
						t.Fatalf("lane %d: %#x, by isa/math %#x", at, got, want)
					}
					// the second one takes the first one's result
					first := append([]byte(nil), slots[0]...)
					put(first[at*ty.Size():][:ty.Size()], want)
					want = apply(t, def, first, slots[0], at)
					if got := get(m.slots[3][at*ty.Size():][:ty.Size()]); got != want {
						t.Fatalf("lane %d, second: %#x, by isa/math %#x", at, got, want)
					}
				}
			})
		}
	}
	if count == 0 {
		t.Fatal("no row expands")
	}
}

// sameSites fails the test if g's sites are not f's, number by number.
func sameSites(t *testing.T, f, g *Func) {
	t.Helper()
	if len(g.Sites) != len(f.Sites) {
		t.Fatalf("%d sites became %d", len(f.Sites), len(g.Sites))
	}
	for i, n := range g.Sites {
		if was := f.Sites[i]; n.Op != was.Op || n.Src != was.Src || n.Site != i {
			t.Errorf("site %d was %v of instruction %d, is %v of %d and numbered %d", i, was.Op, was.Src, n.Op, n.Src, n.Site)
		}
	}
}

// Sites stay what they are where the expansion makes two of them equal, and where no
// pass made those one that were.
func TestExpandKeepsSites(t *testing.T) {
	v := verified(t, `program p
slot x f32
slot y u8
slot z u8
slot out u8
  ldg.f32 x, x[index]
  rsqrt.f32 short, x
  sqrt.f32 long, x
  div.f32 long, 0x1p+0, long
  cvt.u64.f32 at, short
  cvt.u64.f32 from, long
  ldg.u8 a, y[at]
  ldg.u8 b, y[from]
  ldg.u8 c, y[from]
  add.u8 a, a, b
  add.u8 a, a, c
  cvt.u64.u8 at, a
  ldg.u8 c, z[at]
  stg.u8 c, out[index]
  exit
`)
	for sites, off := range map[int][]string{3: nil, 4: {"number"}} {
		f := canonical(t, v, Without(off...))
		g, err := Expand(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Sites) != sites {
			t.Errorf("without %v: %d sites, expected %d\n%v", off, len(f.Sites), sites, f)
		}
		sameSites(t, f, g)
	}
}

func apply(t *testing.T, def *isa.Verified, x, y []byte, at int) uint64 {
	t.Helper()
	slots := [][]byte{x, y, make([]byte, len(x))}
	k := len(def.Program.Slots) - 1
	slots[k] = make([]byte, len(x))
	m := newMachine(def.Program, slots, nil, at)
	if !m.walkGraph(def) {
		t.Fatal("isa/math: no end")
	}
	n := def.Program.Slots[k].Type.Size()
	return get(m.slots[k][at*n:][:n])
}

// samples fills slots with special and ordinary floats.
func samples(p *isa.Program, ty isa.Type) [][]byte {
	cvt, _ := isa.Lookup(isa.CVT)
	values := []float64{0, -1, 1, 0.5, 2, -3.75, 1e-3, 100, 7.25, -0.0625, 1e4, 3, -20, 0.1, 88, -90}
	slots := make([][]byte, len(p.Slots))
	for i := range slots {
		slots[i] = make([]byte, 64*ty.Size())
		for j := range 64 {
			c := uint64(j) * 0x9e3779b97f4a7c15 >> (64 - ty.Bits())
			if j < 48 {
				c, _ = cvt.Eval(isa.Form{Type: ty, From: isa.F64}, floatBits(values[(j+5*i)%16]*(1+float64(j/16))), 0, 0)
			}
			put(slots[i][j*ty.Size():][:ty.Size()], c)
		}
	}
	return slots
}

func floatBits(x float64) uint64 { return gomath.Float64bits(x) }
