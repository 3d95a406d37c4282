package cpu_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// elements writes random programs without branches on elements of some types: those whose
// integers are packed, that divide by what a launch shares, and whose vectors are short.
type elements struct {
	strings.Builder
	r     *rand.Rand
	types []isa.Type
	slots []elementSlot
	count map[isa.Type]int // registers that have been written
}

// elementSlot is how a slot is bound: one that stands for all lanes, or is stored to, or neither.
type elementSlot struct {
	t           isa.Type
	one, stored bool
}

// elementTypes are sets of types that programs have.
var elementTypes = [][]isa.Type{
	{isa.I8}, {isa.U8}, {isa.I16}, {isa.U16}, {isa.I32}, {isa.U32}, {isa.I64}, {isa.U64},
	{isa.I8, isa.U8}, {isa.U16, isa.I16}, {isa.I32, isa.U32}, {isa.U8, isa.U16}, {isa.I8, isa.I32}, {isa.I16, isa.U64}, {isa.U8, isa.F64},
	{isa.BF16}, {isa.F16}, {isa.F32}, {isa.F64}, {isa.BF16, isa.F32}, {isa.BF16, isa.I16}, {isa.F16, isa.U16}, {isa.F32, isa.I32},
	{isa.F32, isa.F64}, {isa.I32, isa.U64},
}

func (w *elements) line(format string, a ...any) { fmt.Fprintf(w, "  "+format+"\n", a...) }

// old is a register of a type, and made a new one.
func (w *elements) old(t isa.Type) string { return fmt.Sprintf("%v_%d", t, w.r.IntN(w.count[t])) }
func (w *elements) made(t isa.Type) string {
	w.count[t]++
	return fmt.Sprintf("%v_%d", t, w.count[t]-1)
}

func (w *elements) statement() {
	t := w.types[w.r.IntN(len(w.types))]
	a, b := w.old(t), w.old(t)
	pick := func(ops ...string) string { return ops[w.r.IntN(len(ops))] }
	switch n := w.r.IntN(10); {
	case n < 3 && t.Integer():
		by := b
		switch w.r.IntN(3) {
		case 0:
			by = fmt.Sprintf("shared_%v", t)
		case 1:
			by = fmt.Sprintf("one_%v", t)
		}
		w.line("%s.%v %s, %s, %s", pick("div", "rem"), t, w.made(t), a, by)
	case n == 3 && t.Integer():
		c := 1 + w.r.Uint64()&(t.Mask()>>1)>>w.r.IntN(t.Bits()-1)
		w.line("%s.%v %s, %s, %d", pick("div", "rem"), t, w.made(t), a, min(c, t.Mask()>>1))
	case n < 3:
		w.line("%s.%v %s, %s", pick("sqrt", "abs", "neg"), t, w.made(t), a)
	case n == 3:
		w.line("div.%v %s, %s, shared_%[1]v", t, w.made(t), a)
	case n < 7:
		op := pick("add", "sub", "mul", "min", "max")
		w.line("%s.%v %s, %s, %s", op, t, w.made(t), a, b)
	case n == 7 && len(w.types) > 1:
		u := w.types[w.r.IntN(len(w.types))]
		if u != t {
			w.line("cvt.%v.%v %s, %s", u, t, w.made(u), a)
		}
	default:
		w.line("set.%s.%v p, %s, %s", pick("lt", "le", "eq", "ne", "gt", "ge"), t, a, b)
		a, b = w.old(t), w.old(t)
		w.line("sel.%v %s, p, %s, %s", t, w.made(t), a, b)
	}
}

// writeElements makes a program and says how its slots are bound.
func writeElements(r *rand.Rand, types []isa.Type) (text string, slots []elementSlot) {
	w := &elements{r: r, types: types, count: map[isa.Type]int{}}
	w.WriteString("program elements\n")
	for _, t := range types {
		fmt.Fprintf(w, "slot a_%v %[1]v\nslot b_%[1]v %[1]v\nslot one_%[1]v %[1]v\nslot c_%[1]v %[1]v\nslot d_%[1]v %[1]v\nparam shared_%[1]v %[1]v\n", t)
		w.slots = append(w.slots, elementSlot{t: t}, elementSlot{t: t}, elementSlot{t: t, one: true}, elementSlot{t: t, stored: true}, elementSlot{t: t, stored: true})
	}
	for _, t := range types {
		w.line("ldg.%v %s, a_%[1]v[index]\n  ldg.%[1]v %[3]s, b_%[1]v[index]\n  ldg.%[1]v one_%[1]v, one_%[1]v[index]\n  ldp.%[1]v shared_%[1]v, shared_%[1]v", t, w.made(t), w.made(t))
	}
	for range 1 + r.IntN(1+r.IntN(14)) {
		w.statement()
	}
	for _, t := range types {
		w.line("stg.%v %s, c_%[1]v[index]\n  stg.%[1]v %[3]s, d_%[1]v[index]", t, w.old(t), fmt.Sprintf("%v_%d", t, w.count[t]-1))
	}
	w.WriteString("  exit\n")
	return w.String(), w.slots
}

// anyCell is a number of a type that is often at the ends of it, or small.
func anyCell(r *rand.Rand, t isa.Type) uint64 {
	ends := []uint64{0, 1, t.Mask(), t.Mask() - 1, t.Mask() >> 1, t.Mask()>>1 + 1, 1 << r.IntN(t.Bits()), 1<<r.IntN(t.Bits()) - 1}
	switch {
	case r.IntN(3) == 0:
		return ends[r.IntN(len(ends))] & t.Mask()
	case t.Float() && r.IntN(2) == 0:
		return float(r, t, r.IntN(12)-6)
	case t.Float():
		return r.Uint64() & t.Mask()
	}
	return r.Uint64() >> r.IntN(64) & t.Mask()
}

// TestRandomElements compares such programs with the interpreter: launches of no lane, less than
// a group, groups and some more, and beyond the nearest cache, where views begin anywhere.
func TestRandomElements(t *testing.T) {
	brief.Alone(t)
	oracle := interp.New()
	count, first := conformance.Seeds(brief.Or(600, 100))
	for i := first; i < first+uint64(count); i++ {
		r := rand.New(rand.NewPCG(i, 91))
		text, slots := writeElements(r, elementTypes[i%uint64(len(elementTypes))])
		v := verify(t, text)
		tested := map[jit.Level]*ready{}
		for l, b := range engines(t, 1) {
			tested[l] = newReady(t, b, v)
		}
		judge := newReady(t, oracle, v)
		lengths := []int64{0, 1 + r.Int64N(15), []int64{63, 64, 65, 128}[r.IntN(4)], 200 + r.Int64N(600)}
		if i%5 == 0 {
			lengths = append(lengths, 5000+r.Int64N(8000))
		}
		for _, n := range lengths {
			var params []uint64
			var contents [][]byte
			strides := map[int][]int64{}
			for k, s := range slots {
				var b []byte
				count := n
				if s.one {
					count, strides[k] = 1, []int64{0}
					params = append(params, anyCell(r, s.t))
				}
				for range count {
					b = binary.LittleEndian.AppendUint64(b, anyCell(r, s.t))[:len(b)+s.t.Size()]
				}
				contents = append(contents, b)
			}
			shift := 8 * r.IntN(3)
			room := func(n int) []byte { return new(host).block(n + 64)[shift : shift+n] }
			if r.IntN(2) == 0 {
				shift++ // addresses that are a multiple of nothing
			}
			want := judge.run(t, new(host).block, linear(n, 64), contents, strides, params)
			for l, m := range tested {
				if err := same(v, m.run(t, room, linear(n, 64), contents, strides, params), want); err != nil {
					t.Errorf("program %d, %v, %d lanes, parameters %#x: %v\n%s", i, l, n, params, err, text)
					m.k.Release()
					delete(tested, l)
				}
			}
		}
		judge.k.Release()
		for _, m := range tested {
			m.k.Release()
		}
		if t.Failed() {
			return
		}
	}
}
