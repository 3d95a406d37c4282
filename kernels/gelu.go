package kernels

import (
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
)

// Gelu is output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³).
//
// It is the tanh form of Hendrycks and Gimpel (arXiv:1606.08415), with
// ½·(1 + tanh u) written as sigmoid(2u). f32 and f64 err by less than 3 ULP
// down to the last subnormal. f16 and bf16 are computed in f32 and rounded once,
// within 0.54 ULP and 0.51. Far below 0 the exact product underflows to −0,
// which −inf gives too.
var Gelu = gelu()

func gelu() *Op {
	const doc = "output = input · sigmoid(2u), u = √(2/π)·(input + 0.044715·input³); f32 and f64 within 3 ULP, f16 within 0.54, bf16 within 0.51."
	op := elementwise("gelu", isa.SetFloat, doc, geluShortText)
	half, brain := &source{text: "program gelu" + geluShortText}, &source{text: geluBrainText}
	single, double := geluWide(&geluSingle), geluWide(&geluDouble)
	op.program = func(t isa.Type) (*isa.Verified, error) {
		f := elements(t)
		switch t {
		case isa.BF16:
			return brain.instance(f)
		case isa.F32:
			return single.instance(f)
		case isa.F64:
			return double.instance(f)
		}
		text, result := math.Short(isa.SIGMOID, t)
		f.Map = fmt.Sprintf("%s  mov.%v s, %s", text, f.A, result)
		return half.instance(f)
	}
	return op
}

// geluShortText takes the sigmoid of f16's precision. Below −32 the results are −0.
const geluShortText = `
slot input {{.T}}
slot output {{.T}}
  {{load "g" "input[index]"}}
  max.{{.A}} g, g, -32
  mul.{{.A}} sq, g, g
  fma.{{.A}} w, sq, 0.07135481627260025, 1.5957691216057308      ; 2·√(2/π)·(0.044715·g² + 1)
  mul.{{.A}} x, g, w
  {{.Map}}
  mul.{{.A}} z, g, s
  {{store "z" "output[index]"}}
  exit
`

// geluBrainText is geluWide's way for the digits that bf16 has: 2^r as SIGMOID.bf16 takes it,
// and the reciprocal of d = unit·(1 + E) by a first guess v and a polynomial of y = d·v that
// has one addition and one square: v·((y − 3/2·λ)² + b). The guess v lies within α = 5.05% of
// λ/d, so with b = ¾·λ²·(1 − α²) y·((y − 3/2·λ)² + b) is λ³·(1 − ¾α²) and as much of the third
// Chebyshev polynomial as has y³ in it: 1 part in 31,000, the least that a cubic can be off by.
// That constant is the unit, so λ = 2^−7 makes it 2^−21, by which neither d nor v leaves f32's
// range before the result is 0. Below the low end the results are −0, above the high one they
// are g. At most 0.5088 ULP, on all arguments (TestGelu).
const geluBrainText = `program gelu
slot input {{.T}}
slot output {{.T}}
  {{load "g" "input[index]"}}
  max.{{.A}} h, g, -10.375
  min.{{.A}} b, h, 8
  mul.{{.A}} sq, b, b
  fma.{{.A}} w, sq, -0x1.a5a7dp-4, -0x1.26aec2p+1                ; −2·√(2/π)·log₂e·(0.044715·b² + 1)
  fma.{{.A}} t, b, w, 0x1.8000d4p+23
  sub.{{.A}} k, 0x1.8000d4p+23, t
  fma.{{.A}} r, b, w, k
  fma.{{.A}} p, 0x1.c18aep-5, r, 0x1.ef0494p-3                   ; 2^r, times unit·2^21
  fma.{{.A}} p, p, r, 0x1.623ea4p-1
  fma.{{.A}} p, p, r, 0x1.fef774p-1
  bitcast.u32.{{.A}} i, t
  shl.u32 i, i, 23
  bitcast.{{.A}}.u32 s, i
  fma.{{.A}} d, p, s, 0x1.fef774p-22
  bitcast.u32.{{.A}} i, d
  sub.u32 i, 0x7b731000, i
  bitcast.{{.A}}.u32 v, i
  fma.{{.A}} e, d, v, -0x1.7ffcc4p-7
  fma.{{.A}} e, e, e, 0x1.7f0118p-15
  mul.{{.A}} v, v, e
  mul.{{.A}} z, h, v
  {{store "z" "output[index]"}}
  exit
`

// geluConstants are what gelu in f32 and in f64 differ by.
//
// The argument of e^−2u reaches 107 in f32 before the result is 0, so an error
// of half an ULP in it would be one of 107 half ULPs in the result. So
// −2u·log₂e = g·(c0 + c1·g²) is k + r, k an integer and r what is left of the
// product, whose second factor is taken in two parts: w, rounded, and e, what
// was lost in g² and in w. c0 has so few digits that c0 − w is exact; c0Low and
// c1Low are what the constants lack. The rest needs no care: E = 2^k·2^r, and
// the quotient g/(1 + E) by a reciprocal of integers and steps of order three.
// Numerator and denominator are multiplied by unit, since E may be beyond the
// type's range where the quotient is not yet 0.
type geluConstants struct {
	low, high     string // below low the result is −0, above high it is g
	c0, c0Low     string // −2·√(2/π)·log₂e
	c1, c1Low     string // c0·0.044715
	round         string // 1.5·2^(digits − 1) + the exponent's bias + log₂ unit
	digits        int    // of the significand, its first one left out
	unit          string
	power         []string // 2^r on [−½, ½], the highest power first: as exp2's
	seed          string   // seed − bits(d) are the bits of 1/d within 5.06%
	refineAgain   bool     // one more step, of order two
	minusC1, bits string
}

var geluSingle = geluConstants{
	low: "-0x1.59999ap+3", high: "0x1.5p+2",
	c0: "-0x1.26aecp+1", c0Low: "-0x1.0de73ap-22",
	c1: "-0x1.a5a7dp-4", minusC1: "0x1.a5a7dp-4", c1Low: "0x1.151aaep-29",
	round: "0x1.8000bep+23", digits: 23, unit: "0x1p-32", bits: "u32",
	power: []string{"0x1.3f9a62p-13", "0x1.5f0baep-10", "0x1.3b30a8p-7", "0x1.c6af76p-5", "0x1.ebfbd8p-3", "0x1.62e43p-1", "0x1p+0"},
	seed:  "0x7ef31000",
}

var geluDouble = geluConstants{
	low: "-0x1.599999999999ap+4", high: "0x1.dp+2",
	c0: "-0x1.26aec21bce76p+1", c0Low: "0x1.ad12d7a64bcebp-49",
	c1: "-0x1.a5a7cf7572a98p-4", minusC1: "0x1.a5a7cf7572a98p-4", c1Low: "0x1.b91c940e4cfcfp-58",
	round: "0x1.800000000039fp+52", digits: 52, unit: "0x1p-96", bits: "u64",
	power: []string{"0x1.e94671c1412bcp-32", "0x1.e61c7fa184988p-28", "0x1.b525405b9c695p-24", "0x1.62bfc6e84f2d5p-20",
		"0x1.ffcbfc58a49edp-17", "0x1.4309130f243f6p-13", "0x1.5d87fe78a141fp-10", "0x1.3b2ab6fb9ff81p-7",
		"0x1.c6b08d704a121p-5", "0x1.ebfbdff82c5a5p-3", "0x1.62e42fefa39efp-1", "0x1p+0"},
	seed: "0x7fde620000000000", refineAgain: true,
}

// geluWide is the program for f32 or f64.
func geluWide(c *geluConstants) *source {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, "  "+format+"\n", a...) }
	line(`{{load "g" "input[index]"}}`)
	line("max.{{.T}} h, g, %s", c.low)
	line("mul.{{.T}} sq, h, h")
	line("fma.{{.T}} w, sq, %s, %s", c.c1, c.c0)
	line("fma.{{.T}} t, h, w, %s", c.round)
	line("sub.{{.T}} k, %s, t", c.round) // −k
	line("fma.{{.T}} r, h, w, k")
	line("neg.{{.T}} m, h")
	line("fma.{{.T}} lost, m, h, sq") // g² = sq − lost
	line("sub.{{.T}} e, %s, w", c.c0)
	line("fma.{{.T}} e, sq, %s, e", c.c1)
	line("fma.{{.T}} e, lost, %s, e", c.minusC1)
	line("fma.{{.T}} e, sq, %s, e", c.c1Low)
	line("add.{{.T}} e, e, %s", c.c0Low)
	line("fma.{{.T}} r, h, e, r")
	line("mov.{{.T}} p, %s", c.power[0])
	for _, a := range c.power[1:] {
		line("fma.{{.T}} p, p, r, %s", a)
	}
	line("bitcast.%s.{{.T}} i, t", c.bits)
	line("shl.%s i, i, %d", c.bits, c.digits)
	line("bitcast.{{.T}}.%s s, i", c.bits)
	line("fma.{{.T}} d, p, s, %s", c.unit)
	line("bitcast.%s.{{.T}} i, d", c.bits)
	line("sub.%s i, %s, i", c.bits, c.seed)
	line("bitcast.{{.T}}.%s v, i", c.bits)
	line("neg.{{.T}} m, d")
	for range 2 {
		line("fma.{{.T}} e, m, v, 0x1p+0")
		line("fma.{{.T}} e, e, e, e")
		line("fma.{{.T}} v, v, e, v")
	}
	if c.refineAgain {
		line("fma.{{.T}} e, m, v, 0x1p+0")
		line("fma.{{.T}} v, v, e, v")
	}
	line("mul.{{.T}} z, h, v")
	line("mul.{{.T}} z, z, %s", c.unit)
	line("set.gt.{{.T}} large, g, %s", c.high)
	line("sel.{{.T}} z, large, g, z")
	line(`{{store "z" "output[index]"}}`)
	line("exit")
	return &source{text: "program gelu\nslot input {{.T}}\nslot output {{.T}}\n" + b.String()}
}
