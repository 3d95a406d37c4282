package conformance

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// runEdges runs cases at the edges of what the ISA defines, of which the
// expected results follow from the definition: ties and what lies next to them,
// the identity of what exited lanes count as, addresses at the ends of the
// integers.
func runEdges(t *testing.T, b backends.Backend) {
	r := newRig(t, b)
	defer r.close()
	for _, c := range append(narrowingCases(t), extremumCases(t)...) {
		require.NoError(t, r.elementwise(c, []int64{int64(c.elements())}, 0, 256), c.Name)
	}
	for _, c := range slices.Concat(exitedCases(t), addressCases(t), strayCases(t), steppingCases(t)) {
		require.NoError(t, r.explicit(c), c.Name)
	}
}

// halfValue is what the 16-bit cell c of type t, finite and not negative, stands
// for; infinity's is what would come next if the exponents went on.
func halfValue(t isa.Type, c uint64) float64 {
	m := t.MantissaBits()
	exponent, fraction := int(c>>m), float64(c&(1<<m-1))
	bias := 1<<(t.ExponentBits()-1) - 1
	if exponent == 0 {
		return math.Ldexp(fraction, 1-bias-m)
	}
	return math.Ldexp(fraction+math.Ldexp(1, m), exponent-bias-m)
}

// narrowingCases convert to 16-bit floats: each of their values, the points
// halfway between two, and what lies closest to those.
func narrowingCases(t *testing.T) []*Case {
	var cases []*Case
	for _, to := range []isa.Type{isa.F16, isa.BF16} {
		infinity := (uint64(1)<<to.ExponentBits() - 1) << to.MantissaBits()
		in, out := map[isa.Type][]uint64{}, map[isa.Type][]uint64{}
		add := func(from isa.Type, cell, want uint64) {
			in[from], out[from] = append(in[from], cell), append(out[from], want)
		}
		floats := func(v float64, want uint64) {
			for sign, bit := range []uint64{0, 0x8000} {
				x := v * float64(1-2*sign)
				if sign == 1 && v == 0 {
					x = math.Copysign(0, -1)
				}
				add(isa.F64, math.Float64bits(x), want|bit)
				if f := float32(x); float64(f) == x {
					add(isa.F32, uint64(math.Float32bits(f)), want|bit)
				}
			}
		}
		integers := func(v *big.Int, want uint64) {
			if v.BitLen() <= 32 {
				add(isa.U32, v.Uint64(), want)
			}
			if v.BitLen() < 32 {
				add(isa.I32, v.Uint64(), want)
				if v.Sign() > 0 {
					add(isa.I32, -v.Uint64()&isa.I32.Mask(), want|0x8000)
				}
			}
			if v.IsUint64() {
				add(isa.U64, v.Uint64(), want)
			}
			if v.IsInt64() {
				add(isa.I64, uint64(v.Int64()), want)
				if v.Sign() > 0 {
					add(isa.I64, uint64(-v.Int64()), want|0x8000)
				}
			}
		}
		for c := range infinity {
			low, high := halfValue(to, c), halfValue(to, c+1)
			tie := low + (high-low)/2 // exact
			floats(low, c)
			floats(tie, c+c&1)
			floats(math.Nextafter(tie, 0), c)
			floats(math.Nextafter(tie, math.Inf(1)), c+1)
			floats(float64(math.Nextafter32(float32(tie), 0)), c)
			floats(float64(math.Nextafter32(float32(tie), float32(math.Inf(1)))), c+1)
			if tie == math.Trunc(tie) && tie < 1<<64 {
				n, _ := new(big.Float).SetFloat64(tie).Int(nil)
				integers(n, c+c&1)
				integers(new(big.Int).Sub(n, big.NewInt(1)), c)
				integers(new(big.Int).Add(n, big.NewInt(1)), c+1)
			}
		}
		for from := range in {
			cases = append(cases, &Case{
				Name: fmt.Sprintf("narrowing %v from %v", to, from),
				Program: assemble(t, fmt.Sprintf("program narrowing\nslot x %[2]v\nslot y %[1]v\n  ldg.%[2]v x, x[index]\n  cvt.%[1]v.%[2]v y, x\n  stg.%[1]v y, y[index]\n  exit\n",
					to, from)),
				In: map[string][]uint64{"x": in[from]}, Out: map[string][]uint64{"y": out[from]},
			})
		}
	}
	return cases
}

// extremumCases take MIN and MAX of numbers and a constant, of which engines make
// less than of two numbers: NaN comes through, and −0 is below +0.
func extremumCases(t *testing.T) []*Case {
	values := []float64{0, math.Copysign(0, -1), 1.5, -1.5, math.Inf(1), math.Inf(-1), math.NaN()}
	names := []string{"0.0", "-0.0", "1.5", "-1.5", "inf", "-inf", "nan"}
	var cases []*Case
	for _, typ := range isa.SetFloat.List() {
		cell := func(v float64) uint64 { return isa.Convert(typ, isa.F64, math.Float64bits(v)) }
		for k, constant := range values {
			var in, least, most []uint64
			for _, v := range values {
				in, least, most = append(in, cell(v)), append(least, cell(min(v, constant))), append(most, cell(max(v, constant)))
			}
			cases = append(cases, &Case{
				Name: fmt.Sprintf("extrema of %v and %s", typ, names[k]),
				Program: assemble(t, fmt.Sprintf(`program extrema
slot x %[1]v
slot a %[1]v
slot b %[1]v
slot c %[1]v
slot d %[1]v
  ldg.%[1]v x, x[index]
  min.%[1]v y, x, %[2]s
  stg.%[1]v y, a[index]
  min.%[1]v y, %[2]s, x
  stg.%[1]v y, b[index]
  max.%[1]v y, x, %[2]s
  stg.%[1]v y, c[index]
  max.%[1]v y, %[2]s, x
  stg.%[1]v y, d[index]
  exit
`, typ, names[k])),
				In: map[string][]uint64{"x": in}, Out: map[string][]uint64{"a": least, "b": least, "c": most, "d": most},
			})
		}
	}
	return cases
}

// exitedCases combine the value that a wrong identity would change over blocks
// in which lanes have exited, or never ran.
func exitedCases(t *testing.T) []*Case {
	const block, stay = 8, 5
	var cases []*Case
	for _, typ := range isa.SetNumeric.List() {
		low, high := uint64(0), typ.Mask()
		one := uint64(1)
		zero := uint64(0)
		switch {
		case typ.Float():
			sign := uint64(1) << (typ.Bits() - 1)
			high = (uint64(1)<<typ.ExponentBits() - 1) << typ.MantissaBits()
			low, zero = high|sign, sign
			one = (uint64(1)<<(typ.ExponentBits()-1) - 1) << typ.MantissaBits()
		case typ.Signed():
			low, high = typ.Mask()>>1+1, typ.Mask()>>1
		}
		guards := uint64(guard) * 0x0101010101010101 & typ.Mask()
		for op, values := range map[string][2]uint64{"add": {zero, one}, "mul": {one, zero}, "min": {high, low}, "max": {low, high}} {
			v, exited := values[0], values[1]
			text := fmt.Sprintf(`program exited
slot x %[1]v
slot y %[1]v
slot z %[1]v
  sreg q, lane.x
  ldg.%[1]v v, x[index]
  set.ge.u32 p, q, %[3]d
  bra out, p
  block_reduce_%[2]s.%[1]v r, v
  block_scan_%[2]s.%[1]v s, v
  stg.%[1]v r, y[index]
  stg.%[1]v s, z[index]
out:
  exit
`, typ, op, stay)
			program := assemble(t, text)
			for _, lanes := range []int{block, stay, 1} { // the rest is surplus
				in, out := make([]uint64, lanes), make([]uint64, lanes)
				for i := range in {
					if in[i], out[i] = v, v; i >= stay {
						in[i], out[i] = exited, guards
					}
				}
				cases = append(cases, &Case{
					Name: fmt.Sprintf("block_%s.%v of %d lanes", op, typ, lanes), Program: program, Grid: 1, Block: block, Shape: []int64{int64(lanes)},
					In: map[string][]uint64{"x": in}, Out: map[string][]uint64{"y": out, "z": out},
				})
			}
		}
	}
	return cases
}

// addressCases access memory at sums that reach, or go past, what the types of
// their parts can hold: the address is the mathematical sum.
func addressCases(t *testing.T) []*Case {
	ends := []int64{math.MinInt64, math.MinInt64 + 4, math.MinInt64 + 60, -1 << 62, -64, -60, -4, 0, 4, 56, 60, 64, 1 << 31, 1<<32 - 4, 1 << 62, math.MaxInt64 - 60, math.MaxInt64 - 3, math.MaxInt64}
	memory := make([]uint64, 16)
	for i := range memory {
		memory[i] = uint64(i) + 100
	}
	var cases []*Case
	for _, typ := range []isa.Type{isa.I32, isa.U32, isa.I64, isa.U64} {
		for _, offset := range ends {
			sign, size := "+", new(big.Int).Abs(big.NewInt(offset))
			if offset < 0 {
				sign = "-"
			}
			c := &Case{
				Name: fmt.Sprintf("address %v %s %v", typ, sign, size),
				Program: assemble(t, fmt.Sprintf("program address\nslot a u32\nslot b %[1]v\nslot c u32\n  ldg.%[1]v o, b[index]\n  ldg.u32 x, a[o %[2]s %[3]v]\n  stg.u32 x, c[index]\n  exit\n",
					typ, sign, size)),
				Grid: 1, Block: 32, In: map[string][]uint64{"a": memory}, Out: map[string][]uint64{"a": memory},
			}
			for _, base := range ends {
				cell := uint64(base) & typ.Mask()
				at := new(big.Int).SetUint64(cell)
				if typ.Signed() {
					shift := 64 - typ.Bits()
					at.SetInt64(int64(cell<<shift) >> shift)
				}
				at.Add(at, big.NewInt(offset))
				want := uint64(0)
				switch {
				case at.Sign() >= 0 && at.Cmp(big.NewInt(60)) <= 0 && at.Int64()%4 == 0:
					want = memory[at.Int64()/4]
				case at.Sign() >= 0 && at.Cmp(big.NewInt(60)) < 0:
					continue // between two elements: nothing to say here
				default:
					c.Fault = isa.FaultAccess
				}
				c.In["b"], c.Out["c"] = append(c.In["b"], cell), append(c.Out["c"], want)
			}
			c.Shape = []int64{int64(len(c.In["b"]))}
			cases = append(cases, c)
		}
	}
	return cases
}

// strayCases ask a table for elements that it has not, by numbers of each type: the
// fault tells which.
func strayCases(t *testing.T) []*Case {
	var cases []*Case
	for _, typ := range []isa.Type{isa.I32, isa.U32, isa.I64, isa.U64} {
		program := assemble(t, fmt.Sprintf("program stray\nslot b %[1]v\nslot c u32\ndata table u32 { 7, 8, 9 }\n  ldg.%[1]v o, b[index]\n  ldc.u32 x, table[o]\n  stg.u32 x, c[index]\n  exit\n", typ))
		for _, at := range []int64{math.MinInt64, -1 << 32, -1 << 31, -3, -1, 3, 200, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, math.MaxInt64} {
			cell := uint64(at) & typ.Mask()
			if shift := 64 - typ.Bits(); typ.Signed() && int64(cell<<shift)>>shift != at || typ.Unsigned() && (at < 0 || int64(cell) != at) {
				continue // the type has no such number
			}
			const lanes, stray = 20, 13
			in, out := make([]uint64, lanes), slices.Repeat([]uint64{7}, lanes)
			in[stray], out[stray] = cell, 0
			cases = append(cases, &Case{Name: fmt.Sprintf("element %d by %v", at, typ), Program: program, Fault: isa.FaultAccess, Asked: &at,
				Grid: 1, Block: 32, Shape: []int64{lanes}, In: map[string][]uint64{"b": in}, Out: map[string][]uint64{"c": out}})
		}
	}
	return cases
}

// stepping is what steps evenly along the lanes: numbers of a type from a start on,
// which on the way may go past the ends of memory, of 0 or of what the type can hold,
// where they wrap. Memory is large enough for a vector's lanes to lie inside of it.
type stepping struct {
	typ  isa.Type // of the numbers
	step int64
}

// program has the numbers in o, and what an access does with them.
func (s stepping) program(t *testing.T, declarations, access string) *isa.Verified {
	return assemble(t, fmt.Sprintf(`program stepping
%[4]s
param start %[1]v
  sreg q, lane.x
  cvt.%[1]v.u32 o, q
  mul.%[1]v o, o, 0x%[2]x
  ldp.%[1]v s, start
  add.%[1]v o, o, s
%[3]s
  exit
`, s.typ, uint64(s.step)&s.typ.Mask(), access, declarations))
}

// starts are at both ends of so many units, at 0 and at the ends of the type.
func (s stepping) starts(units, size int64) (starts []uint64) {
	for _, near := range []uint64{0, uint64(units * size), 1 << 31, 1 << 32, 1 << 62, 1 << 63} {
		for _, by := range []int64{-16, -9, -1, 0, 1, 5} {
			if start := (near + uint64(by*size)) & s.typ.Mask(); !slices.Contains(starts, start) {
				starts = append(starts, start)
			}
		}
	}
	return starts
}

// at is what lane i has, as a number of units; ok is false if that is outside of so many.
func (s stepping) at(start uint64, i int, units, size int64) (unit int64, ok bool) {
	cell := (start + uint64(int64(i)*s.step)) & s.typ.Mask()
	return int64(cell) / size, cell < uint64(units*size)
}

// steppingCases access memory and tables by numbers that step evenly along the
// lanes: each lane's is its own.
func steppingCases(t *testing.T) []*Case {
	const room = 200
	var cases []*Case
	number := func(of isa.Type, i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 & of.Mask() }
	list := func(of isa.Type, n int) []uint64 {
		l := make([]uint64, n)
		for i := range l {
			l[i] = number(of, i)
		}
		return l
	}
	add := func(what string, s stepping, of isa.Type, program *isa.Verified, size int64, units int, store bool) {
		for k, start := range s.starts(int64(units), size) {
			lanes := []int{64, 40}[k%2] // blocks of whole vectors, and others
			c := &Case{Name: fmt.Sprintf("%s of %v at %v from %#x on by %d", what, of, s.typ, start, s.step), Program: program,
				Grid: 1, Block: uint32(lanes), Shape: []int64{int64(lanes)}, In: map[string][]uint64{"start": {start}}}
			memory, out := list(of, units), make([]uint64, lanes)
			if store {
				memory, out = list(of, lanes), slices.Repeat([]uint64{guard * 0x0101010101010101 & of.Mask()}, units)
			}
			for i := range lanes {
				unit, ok := s.at(start, i, int64(units), size)
				switch {
				case !ok:
					c.Fault = isa.FaultAccess
				case store:
					out[unit] = memory[i]
				default:
					out[i] = memory[unit]
				}
			}
			if program.Program.Slots[0].Name == "a" {
				c.In["a"] = memory
			}
			c.Out = map[string][]uint64{"c": out}
			cases = append(cases, c)
		}
	}
	for _, typ := range []isa.Type{isa.I32, isa.U32, isa.I64, isa.U64} {
		for _, units := range []int64{1, -1, 2, 7} {
			for _, of := range []isa.Type{isa.U32, isa.U8, isa.U16, isa.U64} {
				if of != isa.U32 && typ != isa.I64 {
					continue
				}
				size := int64(of.Size())
				s, slots := stepping{typ, units * size}, fmt.Sprintf("slot a %[1]v\nslot c %[1]v", of)
				loads := s.program(t, slots, fmt.Sprintf("  ldg.%[1]v x, a[o]\n  stg.%[1]v x, c[index]", of))
				stores := s.program(t, slots, fmt.Sprintf("  ldg.%[1]v x, a[index]\n  stg.%[1]v x, c[o]", of))
				add("loads", s, of, loads, size, room, false)
				add("stores", s, of, stores, size, room, true)
			}
			var values []string
			for _, v := range list(isa.U32, room) {
				values = append(values, fmt.Sprint(v))
			}
			s := stepping{typ, units}
			looks := s.program(t, "slot c u32\ndata table u32 { "+strings.Join(values, ", ")+" }", "  ldc.u32 x, table[o]\n  stg.u32 x, c[index]")
			add("elements", s, isa.U32, looks, 1, room, false)
		}
	}
	return cases
}
