package accuracy

import (
	"math"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// references are values from mpmath at 1,600 bits: v·2^k, v in [1/2, 1).
var references = []struct {
	op   isa.Op
	x, y float64
	v    dd
	k    int
}{
	{isa.EXP, 0x1.0000000000000p+0, 0, dd{0x1.5bf0a8b145769p-1, 0x1.4d57ee2b1013ap-55}, 2},
	{isa.EXP, -0x1.748cccccccccdp+9, 0, dd{0x1.08a59c4f49e28p-1, -0x1.2e8a4d67ae1f6p-56}, -1074},
	{isa.EXP, 0x1.3333333333333p-2, 0, dd{0x1.599058c8c1a96p-1, -0x1.b3ae34963b3d0p-55}, 1},
	{isa.EXP, 0x1.62e3d70a3d70ap+9, 0, dd{0x1.fe9ce5c4c52b4p-1, 0x1.a8a120488d827p-55}, 1024},
	{isa.EXP, 0x1.56e1fc2f8f359p-997, 0, dd{0x1.0000000000000p-1, 0x1.56e1fc2f8f359p-998}, 1},
	{isa.EXP2, 0x1.3333333333333p-2, 0, dd{0x1.3b2c47bff8329p-1, -0x1.497d7d4b14dddp-56}, 1},
	{isa.EXP2, -0x1.0ca0000000000p+10, 0, dd{0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55}, -1074},
	{isa.EXP2, 0x1.ffd999999999ap+9, 0, dd{0x1.9fdf8bcce5424p-1, 0x1.bc85dd33e2133p-58}, 1024},
	{isa.EXP2, 0x1.79ca10c924223p-67, 0, dd{0x1.0000000000000p-1, 0x1.05dd14f56aa62p-68}, 1},
	{isa.EXPM1, 0x1.b7cdfd9d7bdbbp-34, 0, dd{0x1.b7cdfd9dda4e3p-1, 0x1.0c95a385d91c6p-55}, -33},
	{isa.EXPM1, 0x1.5c28f5c28f5c3p-2, 0, dd{0x1.9eaa94c8422f5p-1, 0x1.c3d5bec86aa25p-55}, -1},
	{isa.EXPM1, -0x1.70a3d70a3d70ap-2, 0, dd{-0x1.359456515371fp-1, -0x1.345be70681f29p-55}, -1},
	{isa.EXPM1, 0x1.5e00000000000p+9, 0, dd{0x1.d945df4f8ec8ep-1, 0x1.183392684a46ep-56}, 1010},
	{isa.EXPM1, -0x1.e800000000000p+4, 0, dd{-0x1.ffffffffffe01p-1, 0x1.c321195a03486p-56}, 0},
	{isa.EXPM1, 0x0.03739a252b281p-1022, 0, dd{0x1.b9cd129594080p-1, 0x0.017d3a17270e7p-1022}, -1028},
	{isa.LOG, 0x1.0000000000000p+1, 0, dd{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}, 0},
	{isa.LOG, 0x1.6666666666666p-1, 0, dd{-0x1.6d3c324e13f50p-1, 0x1.641052af5fd8dp-57}, -1},
	{isa.LOG, 0x1.0000000000001p+0, 0, dd{0x1.fffffffffffffp-1, 0x1.5555555555554p-106}, -52},
	{isa.LOG, 0x1.fff2e48e8a71ep-1, 0, dd{-0x1.a3738d2cf1cc2p-1, 0x1.3694792ff3a76p-55}, -13},
	{isa.LOG, 0x0.012688b70e62bp-1022, 0, dd{-0x1.64e69394d9508p-1, -0x1.35918fe61c196p-57}, 10},
	{isa.LOG, 0x1.e42d130773b76p+1023, 0, dd{0x1.62dd08fdc6f88p-1, 0x1.16a687db2877dp-55}, 10},
	{isa.LOG, 0x1.051eb851eb852p+0, 0, dd{0x1.44723d272a7f6p-1, 0x1.884f6afd37278p-56}, -5},
	{isa.LOG2, 0x1.8000000000000p+1, 0, dd{0x1.95c01a39fbd68p-1, 0x1.e7e802c48281ap-55}, 1},
	{isa.LOG2, 0x1.0000000000001p+0, 0, dd{0x1.71547652b82fdp-1, 0x1.7b365759f7d4fp-55}, -51},
	{isa.LOG2, 0x0.012688b70e62bp-1022, 0, dd{-0x1.01730dabca5f6p-1, 0x1.582b4fd59af43p-55}, 11},
	{isa.LOG2, 0x1.fae147ae147aep-1, 0, dd{-0x1.db1f34d2c386dp-1, -0x1.1a11c4f4a540ep-55}, -6},
	{isa.LOG10, 0x1.8000000000000p+1, 0, dd{0x1.e8927964fd5fdp-1, 0x1.1860687504345p-58}, -1},
	{isa.LOG10, 0x1.0000000000001p+0, 0, dd{0x1.bcb7b1526e50dp-1, 0x1.512b4b307b350p-55}, -53},
	{isa.LOG10, 0x0.012688b70e62bp-1022, 0, dd{-0x1.3600000000000p-1, -0x1.7e6c79a506cedp-59}, 9},
	{isa.LOG10, 0x1.fae147ae147aep-1, 0, dd{-0x1.1e0d4874f92f2p-1, -0x1.5e74871b18f79p-55}, -7},
	{isa.LOG1P, 0x1.70ef54646d497p-57, 0, dd{0x1.70ef54646d497p-1, -0x1.09d8792fb4c4ap-58}, -56},
	{isa.LOG1P, -0x1.ffffde7210be9p-1, 0, dd{-0x1.ba18a998fc064p-1, -0x1.112fd0bf36b22p-55}, 4},
	{isa.LOG1P, 0x1.999999999999ap-2, 0, dd{0x1.588c2d9133490p-1, -0x1.115a67a6d2606p-57}, -1},
	{isa.LOG1P, 0x1.7e43c8800759cp+996, 0, dd{0x1.5963447f87fb5p-1, 0x1.abccc0710fcd4p-56}, 10},
	{isa.LOG1P, -0x1.0624dd2f1a9fcp-10, 0, dd{-0x1.064670d979b6fp-1, -0x1.d404079c5a934p-57}, -9},
	{isa.LOG1P, 0x0.0000000000001p-1022, 0, dd{0x1.0000000000000p+0, -0x0.0p+0}, -1074},
	{isa.RSQRT, 0x1.0000000000000p+1, 0, dd{0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55}, 0},
	{isa.RSQRT, 0x0.00000000017b8p-1022, 0, dd{0x1.a48479970b39fp-1, -0x1.ea1799bc422afp-55}, 531},
	{isa.RSQRT, 0x1.7e43c8800759cp+996, 0, dd{0x1.a2fe76a3f9475p-1, -0x1.eb55f4c84220cp-56}, -498},
	{isa.SIN, 0x1.0000000000000p+0, 0, dd{0x1.aed548f090ceep-1, 0x1.06374f484e288p-59}, 0},
	{isa.SIN, 0x1.921fb54442d18p+1, 0, dd{0x1.1a62633145c07p-1, -0x1.f1976b7ed8fbdp-57}, -52},
	{isa.SIN, 0x1.6ac5b262ca1ffp+849, 0, dd{0x1.0000000000000p+0, -0x1.2b089ea1e692bp-123}, 0},
	{isa.SIN, 0x1.0f0cf064dd592p+73, 0, dd{-0x1.b453ab76bf397p-1, -0x1.f453790772648p-58}, 0},
	{isa.SIN, -0x1.9200000000000p+6, 0, dd{0x1.fb3f833470ff1p-1, -0x1.eb2e512c4d5b8p-56}, -5},
	{isa.SIN, 0x1.e42d130773b76p+1023, 0, dd{-0x1.30c567d277075p-1, 0x1.d02010ce3f790p-56}, 0},
	{isa.SIN, 0x0.012688b70e62bp-1022, 0, dd{0x1.2688b70e62b00p-1, 0x0.0p+0}, -1029},
	{isa.COS, 0x1.0000000000000p+0, 0, dd{0x1.14a280fb5068cp-1, -0x1.b71edcc9344bcp-55}, 0},
	{isa.COS, 0x1.921fb54442d18p+0, 0, dd{0x1.1a62633145c07p-1, -0x1.f1976b7ed8fbcp-57}, -53},
	{isa.COS, 0x1.6ac5b262ca1ffp+849, 0, dd{-0x1.14ae72e6ba22fp-1, 0x1.73eef1477d90ep-58}, -60},
	{isa.COS, 0x1.0f0cf064dd592p+73, 0, dd{0x1.0be2cef01c8f4p-1, -0x1.b2d1bc8018c4fp-55}, 0},
	{isa.COS, -0x1.9200000000000p+6, 0, dd{0x1.ffc12adaecec2p-1, -0x1.ce529b48fea33p-55}, 0},
	{isa.TAN, 0x1.0000000000000p+0, 0, dd{0x1.8eb245cbee3a6p-1, -0x1.1d4ce0afb373bp-55}, 1},
	{isa.TAN, 0x1.921fb54442d18p+0, 0, dd{0x1.d02967c31cdb5p-1, -0x1.f3c72fe49aa2ap-57}, 54},
	{isa.TAN, 0x1.6ac5b262ca1ffp+849, 0, dd{-0x1.d9ba9a7975636p-1, 0x1.714cf36c65449p-55}, 61},
	{isa.TAN, 0x1.0f0cf064dd592p+73, 0, dd{-0x1.a0f79c1b6b257p-1, -0x1.d27810f5737ddp-55}, 1},
	{isa.TAN, -0x1.9200000000000p+6, 0, dd{0x1.fb7dcab49130dp-1, -0x1.466f3fcbd3744p-55}, -5},
	{isa.TAN, 0x1.3333333333333p+1, 0, dd{-0x1.d4ffd331a1c6cp-1, 0x1.8deabd8eb312bp-56}, 0},
	{isa.TANH, 0x1.4f8b588e368f1p-17, 0, dd{0x1.4f8b588e06854p-1, -0x1.1498293480bd3p-55}, -16},
	{isa.TANH, 0x1.3333333333333p-2, 0, dd{0x1.2a4dda7d914fap-1, -0x1.dcaef7d34268ap-57}, -1},
	{isa.TANH, -0x1.a666666666666p+1, 0, dd{-0x1.fe9bdf44f7c03p-1, -0x1.3239219b1aaa0p-59}, 0},
	{isa.TANH, 0x1.3333333333333p+4, 0, dd{0x1.0000000000000p+0, -0x1.842926dbbacacp-55}, 0},
	{isa.SIGMOID, -0x1.7480000000000p+9, 0, dd{0x1.247ae63a725b9p-1, -0x1.2437acffaa17fp-56}, -1074},
	{isa.SIGMOID, -0x1.a666666666666p+1, 0, dd{0x1.236630d362b36p-1, -0x1.f7d2baf6e898cp-56}, -4},
	{isa.SIGMOID, 0x1.999999999999ap-4, 0, dd{0x1.0cca12729afb8p-1, -0x1.ceb94e42d87dcp-56}, 0},
	{isa.SIGMOID, 0x1.4000000000000p+5, 0, dd{0x1.0000000000000p+0, -0x1.39792499b1a24p-58}, 0},
	{isa.ERF, 0x1.4f8b588e368f1p-17, 0, dd{0x1.7a9f084b5e44cp-1, -0x1.45d7c9dfbf5efp-59}, -16},
	{isa.ERF, 0x1.3333333333333p-2, 0, dd{0x1.50838881dea0fp-1, 0x1.a6952c4883ab9p-55}, -1},
	{isa.ERF, -0x1.4000000000000p+1, 0, dd{-0x1.ffcaa8f4c9beap-1, -0x1.b0cee160116f9p-55}, 0},
	{isa.ERF, 0x1.799999999999ap+2, 0, dd{0x1.fffffffffffffp-1, 0x1.68cd3fcb97885p-55}, 0},
	{isa.ERF, 0x0.03739a252b281p-1022, 0, dd{0x1.f284e4e33a59dp-1, -0x1.5d823bb54b2d2p-55}, -1028},
	{isa.POW, 0x1.8000000000000p+0, 0x1.4000000000000p+1, dd{0x1.60b9fd68a4554p-1, 0x1.328e170dae177p-55}, 2},
	{isa.POW, 0x1.000001ad7f29bp+0, 0x1.dcd6500000000p+29, dd{0x1.349445c228792p-1, -0x1.24a322a01718bp-55}, 145},
	{isa.POW, 0x0.03739a252b281p-1022, 0x1.6666666666666p-1, dd{0x1.30aa16a8a8b1dp-1, 0x1.9ef287dae7535p-55}, -719},
	{isa.POW, 0x1.6666666666666p-1, 0x1.f410000000000p+10, dd{0x1.a7255359ab5dcp-1, 0x1.ac07a102f6f82p-55}, -1029},
	{isa.POW, -0x1.8000000000000p+1, -0x1.4000000000000p+2, dd{-0x1.0db20a88f4696p-1, 0x1.9cf8a021b6415p-55}, -7},
}

// TestReferenceDD checks the double-double references, the yardstick for f64.
func TestReferenceDD(t *testing.T) {
	for _, r := range references {
		got := referenceDD(r.op)(r.x, r.y)
		d := got.v.scale(got.k - r.k).sub(r.v)
		if got.special || math.Abs(d.hi) > 0x1p-85 {
			t.Errorf("%s(%x, %x) = %x + %x, 2^%d; want %x + %x, 2^%d: off by 2^%.0f",
				r.op, r.x, r.y, got.v.hi, got.v.lo, got.k, r.v.hi, r.v.lo, r.k, math.Log2(math.Abs(d.hi)))
		}
	}
}

// TestReference64 checks the float64 references against the double-double
// ones: they may differ by what is lost in a float32's error of 10^-6 units.
func TestReference64(t *testing.T) {
	for _, r := range references {
		if math.Abs(float64(r.k)) > 120 || math.Abs(r.x) > 0x1p127 || math.Abs(r.x) < 0x1p-149 { // no f32 has them
			continue
		}
		var got [1]float64
		reference64(r.op)(got[:], []float64{r.x}, []float64{r.y})
		if d := math.Ldexp(got[0], -r.k) - r.v.hi; math.Abs(d) > 0x1p-44 {
			t.Errorf("%s(%x, %x) = %x, want %x·2^%d", r.op, r.x, r.y, got[0], r.v.hi, r.k)
		}
	}
}
