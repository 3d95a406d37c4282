package isa_test

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest"
	"pgregory.net/rapid"
)

func TestParseImmediate(t *testing.T) {
	for _, c := range []struct {
		t    isa.Type
		text string
		want uint64
	}{
		{isa.I8, "-128", 0x80}, {isa.I8, "127", 0x7f}, {isa.I8, "0xff", 0xff}, {isa.I8, "-0x80", 0x80}, {isa.I8, "-0", 0},
		{isa.U8, "255", 0xff}, {isa.U8, "007", 7}, {isa.U8, "0X1f", 0x1f},
		{isa.I16, "-1", 0xffff}, {isa.U16, "65535", 0xffff}, {isa.I32, "-2147483648", 0x80000000}, {isa.U32, "4294967295", 0xffffffff},
		{isa.I64, "-9223372036854775808", 1 << 63}, {isa.I64, "0xffffffffffffffff", math.MaxUint64}, {isa.U64, "18446744073709551615", math.MaxUint64},
		{isa.Pred, "true", 1}, {isa.Pred, "false", 0},
		{isa.F32, "1", 0x3f800000}, {isa.F32, "-0", 0x80000000}, {isa.F32, "0x1.8p+1", 0x40400000}, {isa.F32, ".5", 0x3f000000}, {isa.F32, "5.", 0x40a00000},
		{isa.F32, "1e-46", 0}, {isa.F32, "1e-45", 1}, {isa.F32, "3.4028235e38", 0x7f7fffff}, {isa.F32, "3.4028235677973365e38", 0x7f7fffff},
		{isa.F32, "inf", 0x7f800000}, {isa.F32, "-inf", 0xff800000}, {isa.F32, "nan", 0x7fc00000}, {isa.F32, "-nan", 0xffc00000}, {isa.F32, "nan(0xff800001)", 0xff800001},
		{isa.F64, "0.1", 0x3fb999999999999a}, {isa.F64, "5e-324", 1}, {isa.F64, "nan(0x7ff0000000000001)", 0x7ff0000000000001},
		{isa.F16, "1", 0x3c00}, {isa.F16, "65504", 0x7bff}, {isa.F16, "65519.999", 0x7bff}, {isa.F16, "0x1p-24", 1}, {isa.F16, "0x1p-25", 0}, {isa.F16, "0x1.0000000000001p-25", 1},
		{isa.BF16, "1", 0x3f80}, {isa.BF16, "3.38953139e38", 0x7f7f}, {isa.BF16, "-0x1p-133", 0x8001}, {isa.BF16, "nan", 0x7fc0},
		{isa.F64, "1e-99999999999999999999", 0}, {isa.F64, "0e99999999999999999999", 0}, {isa.F64, "0x0p99999999999999999999", 0}, {isa.F64, "0x1p-99999999999999999999", 0},
		{isa.F64, "0x" + strings.Repeat("0", 2000) + "." + strings.Repeat("0", 2000) + "1p+8004", 1023 << 52}, {isa.F64, "1" + strings.Repeat("0", 4000) + "e-4000", 0x3ff0000000000000},
		{isa.F64, "0x1.00000000000008p0", 0x3ff0000000000000}, {isa.F64, "0X1.00000000000008000000000000000000000001P+0", 0x3ff0000000000001},
		{isa.F64, "0x.8p1", 0x3ff0000000000000}, {isa.F64, "0xA.p0", 0x4024000000000000}, {isa.F64, "2.2250738585072011e-308", 0xfffffffffffff}, {isa.F64, "2.4703282292062328e-324", 1}, {isa.F64, "2.4703282292062327e-324", 0},
		// Halfway between two f16, then so little more or less that f64 does not see it.
		{isa.F16, "1.00048828125", 0x3c00}, {isa.F16, "1.00146484375", 0x3c02},
		{isa.F16, "1.00048828125000000000000000000000000001", 0x3c01}, {isa.F16, "1.00146484374999999999999999999999999999", 0x3c01},
		{isa.BF16, "1.00390625", 0x3f80}, {isa.BF16, "1.00390625000000000000000000000000000001", 0x3f81},
		{isa.BF16, "0x1.0100000000000000000000000000001p+0", 0x3f81},
	} {
		got, err := isa.ParseImmediate(c.t, c.text)
		if err != nil || got != c.want {
			t.Errorf("%v %s: %#x, %v; want %#x", c.t, c.text, got, err, c.want)
		}
	}
}

func TestParseImmediateErrors(t *testing.T) {
	for _, c := range []struct {
		t          isa.Type
		text, want string
	}{
		{isa.I8, "128", "i8 goes from -128 to 127"}, {isa.I8, "-129", "i8 goes from"}, {isa.I8, "0x100", "0x0 to 0xff"}, {isa.I8, "-0x81", "out of range"},
		{isa.U8, "-1", "u8 goes from 0 to 255"}, {isa.U64, "18446744073709551616", "out of range"}, {isa.I64, "9223372036854775808", "out of range"},
		{isa.I32, "1.5", "not an integer"}, {isa.I32, "", "not an integer"}, {isa.I32, "1_000", "not an integer"}, {isa.I32, "nan", "not an integer"}, {isa.I32, "--1", "not an integer"}, {isa.I32, "+1", "not an integer"},
		{isa.Pred, "1", "true and false"}, {isa.Pred, "-true", "true and false"}, {isa.Pred, " ", "true and false"},
		{isa.F32, "0x3f800000", "0x3f800000p+0"}, {isa.F32, "1e39", "largest f32 is 0x1.fffffep+127"}, {isa.F16, "65520", "largest f16 is 0x1.ffcp+15"},
		{isa.F16, "1e400", "out of range"}, {isa.BF16, "3.4e38", "out of range"}, {isa.F64, "1e309", "out of range"}, {isa.F64, "-1e309", "-1e309 is out of range"},
		{isa.F32, "nan(0x7f800000)", "not a NaN of f32"}, {isa.F32, "nan(0x17fc00000)", "not a NaN of f32"}, {isa.F32, "nan()", "not a NaN"}, {isa.F32, "nan(7)", "not a NaN"}, {isa.F32, "-nan(0x7fc00000)", "not a number"},
		{isa.F32, "infinity", "not a number"}, {isa.F32, "Inf", "not a number"}, {isa.F32, "NaN", "not a number"}, {isa.F32, "1_0", "not a number"}, {isa.F32, "0x_1p0", "not a number"},
		{isa.F16, "1/3", "not a number"}, {isa.F32, "0x1p", "not a number"}, {isa.F32, "0x.p1", "not a number"}, {isa.F32, ".", "not a number"}, {isa.F32, ".e1", "not a number"},
		{isa.F32, "1e+-1", "not a number"}, {isa.F32, "1.2.3", "not a number"}, {isa.F32, "1p3", "not a number"}, {isa.F32, "0x1.8e+1", "exponent"}, {isa.F32, "0xgp0", "not a number"}, {isa.F32, "1e1e1", "not a number"},
		{isa.F64, "1e99999999999999999999", "out of range"}, {isa.F64, "0x1p1024", "out of range"}, {isa.F64, "0x1p+99999999999999999999", "out of range"}, {isa.F32, "", "not a number"}, {isa.F32, "1e", "not a number"}, {isa.F32, "+1", "not a number"},
		{isa.F16, strings.Repeat("9", 5000), "at most 4096"}, {isa.NoType, "1", "no immediate"},
	} {
		got, err := isa.ParseImmediate(c.t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %.30q: %#x, %v; want an error with %q", c.t, c.text, got, err, c.want)
		}
	}
}

// An exponent is as large as its digits say, also where as an integer of 64 bits it
// would be a small one, or one of the other sign.
func TestExponentsDoNotWrap(t *testing.T) {
	for _, exponent := range []string{
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "18446744073709551617",
		"36893488147419103232", "92233720368547758080", "340282366920938463463374607431768211457",
	} {
		for _, typ := range isa.SetFloat.List() {
			for _, number := range []string{"1e%s", "1e+%s", ".001e%s", "0x1p%s", "0X.1P%s"} {
				text := fmt.Sprintf(number, exponent)
				if got, err := isa.ParseImmediate(typ, text); err == nil || !strings.Contains(err.Error(), "out of range") {
					t.Errorf("%v %s: %#x, %v; want an error", typ, text, got, err)
				}
			}
			for _, number := range []string{"1e-%s", "12345.6e-%s", "0x1p-%s", "0e%s", "0x0p%s"} {
				text := fmt.Sprintf(number, exponent)
				if got, err := isa.ParseImmediate(typ, text); err != nil || got != 0 {
					t.Errorf("%v %s: %#x, %v; want 0", typ, text, got, err)
				}
			}
		}
	}
}

func TestFormatImmediate(t *testing.T) {
	for _, c := range []struct {
		t    isa.Type
		bits uint64
		want string
	}{
		{isa.I8, 0x80, "-128"}, {isa.U8, 0x80, "128"}, {isa.U32, 100000, "100000"}, {isa.U64, 65535, "65535"}, {isa.U64, 0x3f800000, "0x3f800000"},
		{isa.F32, 0x40400000, "0x1.8p+1"}, {isa.F32, 0x80000000, "-0x0p+0"}, {isa.F32, 1, "0x1p-149"}, {isa.F16, 0x7bff, "0x1.ffcp+15"}, {isa.F64, 1, "0x1p-1074"},
		{isa.BF16, 0x7f80, "inf"}, {isa.BF16, 0xff80, "-inf"}, {isa.F64, 0x7ff8000000000000, "nan"}, {isa.F16, 0x7c01, "nan(0x7c01)"}, {isa.Pred, 1, "true"},
	} {
		if got := isa.FormatImmediate(c.t, c.bits); got != c.want {
			t.Errorf("%v %#x: %s, want %s", c.t, c.bits, got, c.want)
		}
	}
}

// All cells of the types of 8 and 16 bits, and edges and random ones of the others.
func TestImmediatesRoundTrip(t *testing.T) {
	check := func(t *testing.T, typ isa.Type, cell uint64) {
		text := isa.FormatImmediate(typ, cell)
		if got, err := isa.ParseImmediate(typ, text); err != nil || got != cell {
			t.Fatalf("%v %#x is written %s and read as %#x, %v", typ, cell, text, got, err)
		}
	}
	for _, typ := range isa.NumericTypes {
		t.Run(typ.String(), func(t *testing.T) {
			if typ.Bits() <= 16 {
				for cell := uint64(0); cell <= typ.Mask(); cell++ {
					check(t, typ, cell)
				}
				return
			}
			s := isatest.FromSeed(uint64(typ))
			for range 20000 {
				check(t, typ, isatest.Cell(s, typ))
			}
		})
	}
}

// A decimal is rounded to the nearest value of the type, to the even one of
// two: checked by exact distances to the result's neighbours.
func TestDecimalsAreRoundedOnce(t *testing.T) {
	exactly := func(typ isa.Type, cell uint64) *big.Rat {
		// One past the largest finite value stands where it would without infinity.
		mb, eb := typ.MantissaBits(), typ.ExponentBits()
		e := int(cell >> mb)
		m := cell & (1<<mb - 1)
		if e == 0 {
			e = 1
		} else {
			m |= 1 << mb
		}
		r := new(big.Rat).SetInt(new(big.Int).SetUint64(m))
		shift := e - (1<<(eb-1) - 1) - mb
		scale := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(max(shift, -shift))))
		if shift < 0 {
			scale.Inv(scale)
		}
		return r.Mul(r, scale)
	}
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(isa.SetFloat.List()).Draw(t, "type")
		inf := uint64(1<<typ.ExponentBits()-1) << typ.MantissaBits()
		// Near a value or the middle between two, so that it matters.
		cell := rapid.Uint64Range(0, inf-1).Draw(t, "cell")
		x := exactly(typ, cell)
		if rapid.Bool().Draw(t, "between") {
			x.Add(x, exactly(typ, cell+1)).Quo(x, big.NewRat(2, 1))
		}
		text := x.FloatString(rapid.IntRange(0, 1200).Draw(t, "digits"))
		if tail := rapid.StringMatching(`[0-9]{0,30}`).Draw(t, "tail"); strings.Contains(text, ".") {
			text += tail
		}
		x.SetString(text)
		got, err := isa.ParseImmediate(typ, text)
		if err != nil {
			got = inf
			if !strings.Contains(err.Error(), "out of range") {
				t.Fatal(err)
			}
		}
		distance := func(cell uint64) *big.Rat {
			d := new(big.Rat).Sub(exactly(typ, cell), x)
			return d.Abs(d)
		}
		d := distance(got)
		for _, other := range []uint64{got - 1, got + 1} {
			if got == 0 && other > got+1 || other > inf {
				continue
			}
			if c := distance(other).Cmp(d); c < 0 || c == 0 && got&1 == 1 {
				t.Fatalf("%v %s was read as %#x, %#x is nearer or even", typ, text, got, other)
			}
		}
	})
}

// The thread's floating-point state has no say in what a number means, nor in
// how it is written.
func TestImmediatesUnderCallersState(t *testing.T) {
	type number struct {
		t    isa.Type
		text string
	}
	var numbers []number
	for _, typ := range isa.SetFloat.List() {
		s := isatest.FromSeed(uint64(typ))
		for range 500 {
			cell := isatest.Cell(s, typ)
			numbers = append(numbers, number{typ, isa.FormatImmediate(typ, cell)})
		}
		for i := range 500 {
			numbers = append(numbers, number{typ, fmt.Sprintf("-%d.%de%d", i, s.Uint64(), s.Intn(40)-36)})
		}
		numbers = append(numbers, number{typ, "0.1"}, number{typ, "0.044715"}, number{typ, "1e-40"}, number{typ, "3e-310"})
	}
	all := func() []string {
		var out []string
		for _, n := range numbers {
			cell, err := isa.ParseImmediate(n.t, n.text)
			out = append(out, fmt.Sprintf("%v %s: %#x %v %v", n.t, n.text, cell, isa.FormatImmediate(n.t, cell), err))
		}
		return out
	}
	want := all()
	for _, c := range fpenv.Callers() {
		var got []string
		if !c.Run(func() { got = all() }) {
			t.Errorf("%s: the state was changed", c.Name)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: %s\nwant %s", c.Name, got[i], want[i])
			}
		}
	}
}

// On numbers of f32 and f64, strconv is a second opinion.
func TestParseImmediateAgreesWithStrconv(t *testing.T) {
	s := isatest.FromSeed(3)
	for range 20000 {
		text := fmt.Sprintf("%d.%de%d", s.Uint64()>>s.Intn(64), s.Uint64(), s.Intn(700)-360)
		if s.Intn(2) == 0 {
			text = fmt.Sprintf("0x%x.%xp%d", s.Uint64()>>s.Intn(64), s.Uint64(), s.Intn(2300)-1200)
		}
		for _, typ := range []isa.Type{isa.F32, isa.F64} {
			f, overflow := strconv.ParseFloat(text, typ.Bits())
			want := math.Float64bits(f)
			if typ == isa.F32 {
				want = uint64(math.Float32bits(float32(f)))
			}
			got, err := isa.ParseImmediate(typ, text)
			if (err != nil) != (overflow != nil) || err == nil && got != want {
				t.Fatalf("%v %s: %#x, %v; strconv says %#x, %v", typ, text, got, err, want, overflow)
			}
		}
	}
}
