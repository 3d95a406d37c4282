package x86

import "strings"

// Features are sets of instructions that a machine may have beside AVX2.
type Features uint8

// The features.
const (
	AVX512 Features = 1 << iota // F, CD, BW, DQ, VL
	VNNI                        // AVX512-VNNI
	BF16                        // AVX512-BF16
	AMX                         // for bf16 and integers of 8 bits
	VBMI                        // AVX512-VBMI
)

// String returns the features' names.
func (f Features) String() string {
	var names []string
	for i, name := range []string{"AVX-512", "AVX512-VNNI", "AVX512-BF16", "AMX", "AVX512-VBMI"} {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Enc says which encodings a row has.
type Enc uint8

// The encodings.
const (
	VEX Enc = 1 << iota
	EVEX
	both = VEX | EVEX
)

// Layout says where operands stand; see Inst.
type Layout uint8

// The layouts.
const (
	RVM Layout = iota // D ← A, B
	RM                // D ← B
	MR                // B ← D
	MVR               // memory B ← D where A
	VMI               // D ← B, imm
	RMV               // D ← B, A: A in VEX.vvvv
)

// Opcode maps and mandatory prefixes.
const (
	M0F   = 1
	M0F38 = 2
	M0F3A = 3

	np  = 0
	p66 = 1
	pF3 = 2
	pF2 = 3
)

// Tuple is how much memory an operand covers.
type tuple uint8

const (
	full tuple = iota // as long as the vectors; one element if broadcast
	half
	quarter
	eighth
	one1
	one2
	one4
	one8
	x128
)

// Form is a row of the table.
type Form struct {
	Name   string
	Enc    Enc
	PP     byte
	Map    byte
	Op     byte
	Layout Layout
	// Ops has a letter for each operand, destination first: v a vector, h q o
	// one of half, a quarter, an eighth of its length, x 128 bits, k a mask, r R
	// a general register of 32 or 64 bits, m memory alone, t a tile.
	Ops    string
	EW, VW bool // W of EVEX, of VEX
	L0, L1 bool // VEX.L whatever the vectors' length
	Elem   uint8
	Tuple  tuple
	Imm    bool
	Is4    bool
	VSIB   bool
	Ext    byte
	Min    int      // least vector length, 0: any
	RegOK  bool     // B may be a register
	MemOK  bool     // B may be memory
	VMem   bool     // … with VEX too
	Needs  Features // of each encoding; EVEX needs AVX512 too
	Index  bool     // memory has an index register, which says how far apart rows lie
}

// Folds reports whether B may be memory in this machine's encoding.
func (f *Form) Folds(evex bool) bool { return f.MemOK && (evex || f.VMem) }

type option func(*Form)

func w1(f *Form)   { f.EW = true }
func vw1(f *Form)  { f.EW, f.VW = true, true }
func imm(f *Form)  { f.Imm = true }
func l0(f *Form)   { f.L0 = true }
func l1(f *Form)   { f.L1 = true }
func is4(f *Form)  { f.Is4 = true }
func vsib(f *Form) { f.VSIB = true; f.RegOK = false }
func noMem(f *Form) {
	f.MemOK, f.VMem = false, false
}
func evexMem(f *Form)        { f.VMem = false }
func b4(f *Form)             { f.Elem = 4 }
func b8(f *Form)             { f.Elem = 8 }
func size(t tuple) option    { return func(f *Form) { f.Tuple = t } }
func ext(n byte) option      { return func(f *Form) { f.Ext = n } }
func least(n int) option     { return func(f *Form) { f.Min = n } }
func memOnly(f *Form)        { f.RegOK = false }
func stepped(f *Form)        { f.RegOK, f.Index = false, true }
func with(n Features) option { return func(f *Form) { f.Needs |= n } }

// Forms is the table.
var Forms []*Form

func form(name string, enc Enc, pp, m, op byte, l Layout, ops string, opts ...option) *Form {
	f := &Form{Name: name, Enc: enc, PP: pp, Map: m, Op: op, Layout: l, Ops: ops, RegOK: true, MemOK: true, VMem: true}
	if strings.Contains(ops, "k") {
		f.Needs = AVX512
	}
	if strings.Contains(ops, "t") {
		f.Needs = AMX
	}
	for _, o := range opts {
		o(f)
	}
	Forms = append(Forms, f)
	return f
}

// Moves.
var (
	MovUPS     = form("vmovups", both, np, M0F, 0x10, RM, "vv")
	StoreUPS   = form("vmovups", both, np, M0F, 0x11, MR, "vv", memOnly)
	MovAPS     = form("vmovaps", both, np, M0F, 0x28, RM, "vv")
	MovAPD     = form("vmovapd", both, p66, M0F, 0x28, RM, "vv", w1)
	LoadUPD    = form("vmovupd", both, p66, M0F, 0x10, RM, "vv", w1)
	StoreUPD   = form("vmovupd", both, p66, M0F, 0x11, MR, "vv", w1, memOnly)
	StoreNTPS  = form("vmovntps", both, np, M0F, 0x2B, MR, "vv", memOnly)
	BcastSS    = form("vbroadcastss", both, p66, M0F38, 0x18, RM, "vx", size(one4))
	BcastD     = form("vpbroadcastd", both, p66, M0F38, 0x58, RM, "vx", size(one4))
	BcastQ     = form("vpbroadcastq", both, p66, M0F38, 0x59, RM, "vx", w1, size(one8))
	BcastB     = form("vpbroadcastb", both, p66, M0F38, 0x78, RM, "vx", size(one1))
	BcastW     = form("vpbroadcastw", both, p66, M0F38, 0x79, RM, "vx", size(one2))
	BcastDGPR  = form("vpbroadcastd", EVEX, p66, M0F38, 0x7C, RM, "vr", noMem)
	BcastQGPR  = form("vpbroadcastq", EVEX, p66, M0F38, 0x7C, RM, "vR", w1, noMem)
	MovDFrom   = form("vmovd", both, p66, M0F, 0x6E, RM, "xr", l0, size(one4))
	MovQFrom   = form("vmovq", both, p66, M0F, 0x6E, RM, "xR", vw1, l0, noMem)
	MovDTo     = form("vmovd", both, p66, M0F, 0x7E, MR, "xr", l0, size(one4))
	MovQTo     = form("vmovq", both, p66, M0F, 0x7E, MR, "xR", vw1, l0, noMem)
	StoreQ     = form("vmovq", VEX, p66, M0F, 0xD6, MR, "xx", l0, size(one8), memOnly)
	LoadQE     = form("vmovq", EVEX, p66, M0F, 0x6E, RM, "xx", w1, size(one8), memOnly)
	StoreQE    = form("vmovq", EVEX, p66, M0F, 0x7E, MR, "xx", w1, size(one8), memOnly)
	MovB       = form("vmovdqu8", EVEX, pF2, M0F, 0x6F, RM, "vv")
	MovW       = form("vmovdqu16", EVEX, pF2, M0F, 0x6F, RM, "vv", w1)
	StoreB     = form("vmovdqu8", EVEX, pF2, M0F, 0x7F, MR, "vv", memOnly)
	StoreW     = form("vmovdqu16", EVEX, pF2, M0F, 0x7F, MR, "vv", w1, memOnly)
	MaskLoadD  = form("vpmaskmovd", VEX, p66, M0F38, 0x8C, RVM, "vvv", memOnly)
	MaskLoadQ  = form("vpmaskmovq", VEX, p66, M0F38, 0x8C, RVM, "vvv", vw1, memOnly)
	MaskStoreD = form("vpmaskmovd", VEX, p66, M0F38, 0x8E, MVR, "vvv", memOnly)
	MaskStoreQ = form("vpmaskmovq", VEX, p66, M0F38, 0x8E, MVR, "vvv", vw1, memOnly)
)

// Arithmetic of floats.
var (
	AddPS   = form("vaddps", both, np, M0F, 0x58, RVM, "vvv", b4)
	AddPD   = form("vaddpd", both, p66, M0F, 0x58, RVM, "vvv", b8, w1)
	MulPS   = form("vmulps", both, np, M0F, 0x59, RVM, "vvv", b4)
	MulPD   = form("vmulpd", both, p66, M0F, 0x59, RVM, "vvv", b8, w1)
	SubPS   = form("vsubps", both, np, M0F, 0x5C, RVM, "vvv", b4)
	SubPD   = form("vsubpd", both, p66, M0F, 0x5C, RVM, "vvv", b8, w1)
	MinPS   = form("vminps", both, np, M0F, 0x5D, RVM, "vvv", b4)
	MinPD   = form("vminpd", both, p66, M0F, 0x5D, RVM, "vvv", b8, w1)
	DivPS   = form("vdivps", both, np, M0F, 0x5E, RVM, "vvv", b4)
	DivPD   = form("vdivpd", both, p66, M0F, 0x5E, RVM, "vvv", b8, w1)
	MaxPS   = form("vmaxps", both, np, M0F, 0x5F, RVM, "vvv", b4)
	MaxPD   = form("vmaxpd", both, p66, M0F, 0x5F, RVM, "vvv", b8, w1)
	SqrtPS  = form("vsqrtps", both, np, M0F, 0x51, RM, "vv", b4)
	SqrtPD  = form("vsqrtpd", both, p66, M0F, 0x51, RM, "vv", b8, w1)
	RSqrtPS = form("vrsqrt14ps", EVEX, p66, M0F38, 0x4E, RM, "vv", b4)

	FMA132PS  = form("vfmadd132ps", both, p66, M0F38, 0x98, RVM, "vvv", b4)
	FMA132PD  = form("vfmadd132pd", both, p66, M0F38, 0x98, RVM, "vvv", b8, vw1)
	FMA213PS  = form("vfmadd213ps", both, p66, M0F38, 0xA8, RVM, "vvv", b4)
	FMA213PD  = form("vfmadd213pd", both, p66, M0F38, 0xA8, RVM, "vvv", b8, vw1)
	FMA231PS  = form("vfmadd231ps", both, p66, M0F38, 0xB8, RVM, "vvv", b4)
	FMA231PD  = form("vfmadd231pd", both, p66, M0F38, 0xB8, RVM, "vvv", b8, vw1)
	FNMA132PS = form("vfnmadd132ps", both, p66, M0F38, 0x9C, RVM, "vvv", b4)
	FNMA132PD = form("vfnmadd132pd", both, p66, M0F38, 0x9C, RVM, "vvv", b8, vw1)
	FNMA213PS = form("vfnmadd213ps", both, p66, M0F38, 0xAC, RVM, "vvv", b4)
	FNMA213PD = form("vfnmadd213pd", both, p66, M0F38, 0xAC, RVM, "vvv", b8, vw1)
	FNMA231PS = form("vfnmadd231ps", both, p66, M0F38, 0xBC, RVM, "vvv", b4)
	FNMA231PD = form("vfnmadd231pd", both, p66, M0F38, 0xBC, RVM, "vvv", b8, vw1)
	DotB16    = form("vdpbf16ps", EVEX, pF3, M0F38, 0x52, RVM, "vvv", b4, with(BF16))
	DotI16    = form("vpdpwssd", EVEX, p66, M0F38, 0x52, RVM, "vvv", b4, with(VNNI))
	DotU8I8   = form("vpdpbusd", EVEX, p66, M0F38, 0x50, RVM, "vvv", b4, with(VNNI)) // A's bytes have no sign, B's have

	RoundPS    = form("vroundps", VEX, p66, M0F3A, 0x08, RM, "vv", imm)
	RoundPD    = form("vroundpd", VEX, p66, M0F3A, 0x09, RM, "vv", imm)
	FixUpPS    = form("vfixupimmps", EVEX, p66, M0F3A, 0x54, RVM, "vvv", imm, b4)
	FixUpPD    = form("vfixupimmpd", EVEX, p66, M0F3A, 0x54, RVM, "vvv", imm, b8, w1)
	RndScalePS = form("vrndscaleps", EVEX, p66, M0F3A, 0x08, RM, "vv", imm, b4)
	RndScalePD = form("vrndscalepd", EVEX, p66, M0F3A, 0x09, RM, "vv", imm, b8, w1)
	RangePS    = form("vrangeps", EVEX, p66, M0F3A, 0x50, RVM, "vvv", imm, b4)
	ClassPS    = form("vfpclassps", EVEX, p66, M0F3A, 0x66, RM, "kv", imm, b4)
	ClassPD    = form("vfpclasspd", EVEX, p66, M0F3A, 0x66, RM, "kv", imm, b8, w1)
	RangePD    = form("vrangepd", EVEX, p66, M0F3A, 0x50, RVM, "vvv", imm, b8, w1)
)

// Integers and bits.
var (
	AddB    = form("vpaddb", both, p66, M0F, 0xFC, RVM, "vvv")
	AddW    = form("vpaddw", both, p66, M0F, 0xFD, RVM, "vvv")
	SubB    = form("vpsubb", both, p66, M0F, 0xF8, RVM, "vvv")
	SubW    = form("vpsubw", both, p66, M0F, 0xF9, RVM, "vvv")
	MulLW   = form("vpmullw", both, p66, M0F, 0xD5, RVM, "vvv")
	MulHW   = form("vpmulhw", both, p66, M0F, 0xE5, RVM, "vvv")
	MulHUW  = form("vpmulhuw", both, p66, M0F, 0xE4, RVM, "vvv")
	MinSB   = form("vpminsb", both, p66, M0F38, 0x38, RVM, "vvv")
	MinUB   = form("vpminub", both, p66, M0F, 0xDA, RVM, "vvv")
	MaxSB   = form("vpmaxsb", both, p66, M0F38, 0x3C, RVM, "vvv")
	MaxUB   = form("vpmaxub", both, p66, M0F, 0xDE, RVM, "vvv")
	MinSW   = form("vpminsw", both, p66, M0F, 0xEA, RVM, "vvv")
	MinUW   = form("vpminuw", both, p66, M0F38, 0x3A, RVM, "vvv")
	MaxSW   = form("vpmaxsw", both, p66, M0F, 0xEE, RVM, "vvv")
	MaxUW   = form("vpmaxuw", both, p66, M0F38, 0x3E, RVM, "vvv")
	AbsB    = form("vpabsb", both, p66, M0F38, 0x1C, RM, "vv")
	AbsW    = form("vpabsw", both, p66, M0F38, 0x1D, RM, "vv")
	AddD    = form("vpaddd", both, p66, M0F, 0xFE, RVM, "vvv", b4)
	AddQ    = form("vpaddq", both, p66, M0F, 0xD4, RVM, "vvv", b8, w1)
	SubD    = form("vpsubd", both, p66, M0F, 0xFA, RVM, "vvv", b4)
	SubQ    = form("vpsubq", both, p66, M0F, 0xFB, RVM, "vvv", b8, w1)
	MulLD   = form("vpmulld", both, p66, M0F38, 0x40, RVM, "vvv", b4)
	MulLQ   = form("vpmullq", EVEX, p66, M0F38, 0x40, RVM, "vvv", b8, w1)
	MulUDQ  = form("vpmuludq", both, p66, M0F, 0xF4, RVM, "vvv", b8, w1)
	MulDQ   = form("vpmuldq", both, p66, M0F38, 0x28, RVM, "vvv", b8, w1)
	MinSD   = form("vpminsd", both, p66, M0F38, 0x39, RVM, "vvv", b4)
	MinUD   = form("vpminud", both, p66, M0F38, 0x3B, RVM, "vvv", b4)
	MaxSD   = form("vpmaxsd", both, p66, M0F38, 0x3D, RVM, "vvv", b4)
	MaxUD   = form("vpmaxud", both, p66, M0F38, 0x3F, RVM, "vvv", b4)
	MinSQ   = form("vpminsq", EVEX, p66, M0F38, 0x39, RVM, "vvv", b8, w1)
	MinUQ   = form("vpminuq", EVEX, p66, M0F38, 0x3B, RVM, "vvv", b8, w1)
	MaxSQ   = form("vpmaxsq", EVEX, p66, M0F38, 0x3D, RVM, "vvv", b8, w1)
	MaxUQ   = form("vpmaxuq", EVEX, p66, M0F38, 0x3F, RVM, "vvv", b8, w1)
	AbsD    = form("vpabsd", both, p66, M0F38, 0x1E, RM, "vv", b4)
	AbsQ    = form("vpabsq", EVEX, p66, M0F38, 0x1F, RM, "vv", b8, w1)
	TernD   = form("vpternlogd", EVEX, p66, M0F3A, 0x25, RVM, "vvv", imm, b4)
	TernQ   = form("vpternlogq", EVEX, p66, M0F3A, 0x25, RVM, "vvv", imm, b8, w1)
	AndD    = form("vpandd", EVEX, p66, M0F, 0xDB, RVM, "vvv", b4)
	OrD     = form("vpord", EVEX, p66, M0F, 0xEB, RVM, "vvv", b4)
	XorD    = form("vpxord", EVEX, p66, M0F, 0xEF, RVM, "vvv", b4)
	AndNotD = form("vpandnd", EVEX, p66, M0F, 0xDF, RVM, "vvv", b4)
	AndQ    = form("vpandq", EVEX, p66, M0F, 0xDB, RVM, "vvv", b8, w1)
	OrQ     = form("vporq", EVEX, p66, M0F, 0xEB, RVM, "vvv", b8, w1)
	XorQ    = form("vpxorq", EVEX, p66, M0F, 0xEF, RVM, "vvv", b8, w1)
	AndNotQ = form("vpandnq", EVEX, p66, M0F, 0xDF, RVM, "vvv", b8, w1)
	And     = form("vpand", VEX, p66, M0F, 0xDB, RVM, "vvv")
	Or      = form("vpor", VEX, p66, M0F, 0xEB, RVM, "vvv")
	Xor     = form("vpxor", VEX, p66, M0F, 0xEF, RVM, "vvv")
	AndNot  = form("vpandn", VEX, p66, M0F, 0xDF, RVM, "vvv")

	SllvD = form("vpsllvd", both, p66, M0F38, 0x47, RVM, "vvv", b4)
	SllvQ = form("vpsllvq", both, p66, M0F38, 0x47, RVM, "vvv", b8, vw1)
	SrlvD = form("vpsrlvd", both, p66, M0F38, 0x45, RVM, "vvv", b4)
	SrlvQ = form("vpsrlvq", both, p66, M0F38, 0x45, RVM, "vvv", b8, vw1)
	SravD = form("vpsravd", both, p66, M0F38, 0x46, RVM, "vvv", b4)
	SravQ = form("vpsravq", EVEX, p66, M0F38, 0x46, RVM, "vvv", b8, w1)
	SrlvW = form("vpsrlvw", EVEX, p66, M0F38, 0x10, RVM, "vvv", w1)
	SravW = form("vpsravw", EVEX, p66, M0F38, 0x11, RVM, "vvv", w1)
	SraW  = form("vpsraw", both, p66, M0F, 0x71, VMI, "vv", imm, ext(4), evexMem)
	SrlW  = form("vpsrlw", both, p66, M0F, 0x71, VMI, "vv", imm, ext(2), evexMem)
	// By one number for all elements, which is what AVX2 shifts words by.
	SraWBy = form("vpsraw", VEX, p66, M0F, 0xE1, RVM, "vvx", size(x128))
	SrlWBy = form("vpsrlw", VEX, p66, M0F, 0xD1, RVM, "vvx", size(x128))
	SraDBy = form("vpsrad", VEX, p66, M0F, 0xE2, RVM, "vvx", size(x128))
	SrlDBy = form("vpsrld", VEX, p66, M0F, 0xD2, RVM, "vvx", size(x128))

	SllW = form("vpsllw", both, p66, M0F, 0x71, VMI, "vv", imm, ext(6), evexMem)
	SllD = form("vpslld", both, p66, M0F, 0x72, VMI, "vv", imm, b4, ext(6), evexMem)
	SrlD = form("vpsrld", both, p66, M0F, 0x72, VMI, "vv", imm, b4, ext(2), evexMem)
	SraD = form("vpsrad", both, p66, M0F, 0x72, VMI, "vv", imm, b4, ext(4), evexMem)
	SllQ = form("vpsllq", both, p66, M0F, 0x73, VMI, "vv", imm, b8, w1, ext(6), evexMem)
	SrlQ = form("vpsrlq", both, p66, M0F, 0x73, VMI, "vv", imm, b8, w1, ext(2), evexMem)
	SraQ = form("vpsraq", EVEX, p66, M0F, 0x72, VMI, "vv", imm, b8, w1, ext(4))
)

// Conversions, extending and narrowing.
var (
	DQ2PS   = form("vcvtdq2ps", both, np, M0F, 0x5B, RM, "vv", b4)
	TPS2DQ  = form("vcvttps2dq", both, pF3, M0F, 0x5B, RM, "vv", b4)
	PS2PD   = form("vcvtps2pd", both, np, M0F, 0x5A, RM, "vh", b4, size(half))
	PD2PS   = form("vcvtpd2ps", both, p66, M0F, 0x5A, RM, "hv", b8, w1, noMem)
	DQ2PD   = form("vcvtdq2pd", both, pF3, M0F, 0xE6, RM, "vh", b4, size(half))
	TPD2DQ  = form("vcvttpd2dq", both, p66, M0F, 0xE6, RM, "hv", b8, w1, noMem)
	PH2PS   = form("vcvtph2ps", both, p66, M0F38, 0x13, RM, "vh", size(half))
	PS2PH   = form("vcvtps2ph", both, p66, M0F3A, 0x1D, MR, "vh", imm, size(half))
	UDQ2PS  = form("vcvtudq2ps", EVEX, pF2, M0F, 0x7A, RM, "vv", b4)
	TPS2UDQ = form("vcvttps2udq", EVEX, np, M0F, 0x78, RM, "vv", b4)
	QQ2PD   = form("vcvtqq2pd", EVEX, pF3, M0F, 0xE6, RM, "vv", b8, w1)
	UQQ2PD  = form("vcvtuqq2pd", EVEX, pF3, M0F, 0x7A, RM, "vv", b8, w1)
	TPD2QQ  = form("vcvttpd2qq", EVEX, p66, M0F, 0x7A, RM, "vv", b8, w1)
	TPD2UQQ = form("vcvttpd2uqq", EVEX, p66, M0F, 0x78, RM, "vv", b8, w1)
	QQ2PS   = form("vcvtqq2ps", EVEX, np, M0F, 0x5B, RM, "hv", b8, w1, noMem)
	UQQ2PS  = form("vcvtuqq2ps", EVEX, pF2, M0F, 0x7A, RM, "hv", b8, w1, noMem)
	TPS2QQ  = form("vcvttps2qq", EVEX, p66, M0F, 0x7A, RM, "vh", b4, size(half))
	TPS2UQQ = form("vcvttps2uqq", EVEX, p66, M0F, 0x78, RM, "vh", b4, size(half))
	UDQ2PD  = form("vcvtudq2pd", EVEX, pF3, M0F, 0x7A, RM, "vh", b4, size(half))
	TPD2UDQ = form("vcvttpd2udq", EVEX, np, M0F, 0x78, RM, "hv", b8, w1, noMem)

	PS2B16  = form("vcvtneps2bf16", EVEX, pF3, M0F38, 0x72, RM, "hv", b4, noMem, with(BF16))
	PSs2B16 = form("vcvtne2ps2bf16", EVEX, pF2, M0F38, 0x72, RVM, "vvv", b4, with(BF16))

	SxBW = form("vpmovsxbw", both, p66, M0F38, 0x20, RM, "vh", size(half))
	ZxBW = form("vpmovzxbw", both, p66, M0F38, 0x30, RM, "vh", size(half))
	SxBD = form("vpmovsxbd", both, p66, M0F38, 0x21, RM, "vq", size(quarter))
	ZxBD = form("vpmovzxbd", both, p66, M0F38, 0x31, RM, "vq", size(quarter))
	SxWD = form("vpmovsxwd", both, p66, M0F38, 0x23, RM, "vh", size(half))
	ZxWD = form("vpmovzxwd", both, p66, M0F38, 0x33, RM, "vh", size(half))
	SxDQ = form("vpmovsxdq", both, p66, M0F38, 0x25, RM, "vh", size(half))
	ZxDQ = form("vpmovzxdq", both, p66, M0F38, 0x35, RM, "vh", size(half))
	DB   = form("vpmovdb", EVEX, pF3, M0F38, 0x31, MR, "vq", size(quarter))
	DW   = form("vpmovdw", EVEX, pF3, M0F38, 0x33, MR, "vh", size(half))
	QD   = form("vpmovqd", EVEX, pF3, M0F38, 0x35, MR, "vh", size(half))
)

// Comparisons, masks, selection.
var (
	CmpPS  = form("vcmpps", EVEX, np, M0F, 0xC2, RVM, "kvv", imm, b4)
	CmpPD  = form("vcmppd", EVEX, p66, M0F, 0xC2, RVM, "kvv", imm, b8, w1)
	CmpB   = form("vpcmpb", EVEX, p66, M0F3A, 0x3F, RVM, "kvv", imm)
	CmpUB  = form("vpcmpub", EVEX, p66, M0F3A, 0x3E, RVM, "kvv", imm)
	CmpW   = form("vpcmpw", EVEX, p66, M0F3A, 0x3F, RVM, "kvv", imm, w1)
	CmpUW  = form("vpcmpuw", EVEX, p66, M0F3A, 0x3E, RVM, "kvv", imm, w1)
	CmpD   = form("vpcmpd", EVEX, p66, M0F3A, 0x1F, RVM, "kvv", imm, b4)
	CmpUD  = form("vpcmpud", EVEX, p66, M0F3A, 0x1E, RVM, "kvv", imm, b4)
	CmpQ   = form("vpcmpq", EVEX, p66, M0F3A, 0x1F, RVM, "kvv", imm, b8, w1)
	CmpUQ  = form("vpcmpuq", EVEX, p66, M0F3A, 0x1E, RVM, "kvv", imm, b8, w1)
	TestNB = form("vptestnmb", EVEX, pF3, M0F38, 0x26, RVM, "kvv")
	TestNW = form("vptestnmw", EVEX, pF3, M0F38, 0x26, RVM, "kvv", w1)
	TestND = form("vptestnmd", EVEX, pF3, M0F38, 0x27, RVM, "kvv", b4)
	TestNQ = form("vptestnmq", EVEX, pF3, M0F38, 0x27, RVM, "kvv", b8, w1)
	TestB  = form("vptestmb", EVEX, p66, M0F38, 0x26, RVM, "kvv")
	TestW  = form("vptestmw", EVEX, p66, M0F38, 0x26, RVM, "kvv", w1)
	TestD  = form("vptestmd", EVEX, p66, M0F38, 0x27, RVM, "kvv", b4)
	TestQ  = form("vptestmq", EVEX, p66, M0F38, 0x27, RVM, "kvv", b8, w1)
	VCmpPS = form("vcmpps", VEX, np, M0F, 0xC2, RVM, "vvv", imm)
	VCmpPD = form("vcmppd", VEX, p66, M0F, 0xC2, RVM, "vvv", imm)
	CmpEqB = form("vpcmpeqb", VEX, p66, M0F, 0x74, RVM, "vvv")
	CmpEqW = form("vpcmpeqw", VEX, p66, M0F, 0x75, RVM, "vvv")
	CmpGtB = form("vpcmpgtb", VEX, p66, M0F, 0x64, RVM, "vvv")
	CmpGtW = form("vpcmpgtw", VEX, p66, M0F, 0x65, RVM, "vvv")
	CmpEqD = form("vpcmpeqd", VEX, p66, M0F, 0x76, RVM, "vvv")
	CmpGtD = form("vpcmpgtd", VEX, p66, M0F, 0x66, RVM, "vvv")
	CmpEqQ = form("vpcmpeqq", VEX, p66, M0F38, 0x29, RVM, "vvv")
	CmpGtQ = form("vpcmpgtq", VEX, p66, M0F38, 0x37, RVM, "vvv")

	BlendVB = form("vpblendvb", VEX, p66, M0F3A, 0x4C, RVM, "vvvv", is4)
	BlendB  = form("vpblendmb", EVEX, p66, M0F38, 0x66, RVM, "vvv")
	BlendW  = form("vpblendmw", EVEX, p66, M0F38, 0x66, RVM, "vvv", w1)
	BlendPS = form("vblendmps", EVEX, p66, M0F38, 0x65, RVM, "vvv", b4)
	BlendPD = form("vblendmpd", EVEX, p66, M0F38, 0x65, RVM, "vvv", b8, w1)
	MaskToD = form("vpmovm2d", EVEX, pF3, M0F38, 0x38, RM, "vk", noMem)

	KMovW   = form("kmovw", VEX, np, M0F, 0x90, RM, "kk", l0, size(one2))
	KMovQ   = form("kmovq", VEX, np, M0F, 0x90, RM, "kk", vw1, l0, size(one8))
	KStoreQ = form("kmovq", VEX, np, M0F, 0x91, MR, "kk", vw1, l0, size(one8), memOnly)
	KFromQ  = form("kmovq", VEX, pF2, M0F, 0x92, RM, "kR", vw1, l0, noMem)
	KToQ    = form("kmovq", VEX, pF2, M0F, 0x93, RM, "Rk", vw1, l0, noMem)
	KAndQ   = form("kandq", VEX, np, M0F, 0x41, RVM, "kkk", vw1, l1, noMem)
	KAndNQ  = form("kandnq", VEX, np, M0F, 0x42, RVM, "kkk", vw1, l1, noMem)
	KOrQ    = form("korq", VEX, np, M0F, 0x45, RVM, "kkk", vw1, l1, noMem)
	KXorQ   = form("kxorq", VEX, np, M0F, 0x47, RVM, "kkk", vw1, l1, noMem)
	KOrTstQ = form("kortestq", VEX, np, M0F, 0x98, RM, "kk", vw1, l0, noMem)

	MovMskB  = form("vpmovmskb", VEX, p66, M0F, 0xD7, RM, "rv", noMem)
	MovMskPS = form("vmovmskps", VEX, np, M0F, 0x50, RM, "rv", noMem)
	MovMskPD = form("vmovmskpd", VEX, p66, M0F, 0x50, RM, "rv", noMem)
	PTest    = form("vptest", VEX, p66, M0F38, 0x17, RM, "vv")
)

// Gathers, and moves between lanes.
var (
	GatherDD  = form("vpgatherdd", EVEX, p66, M0F38, 0x90, RM, "vv", vsib, size(one4))
	GatherDQ  = form("vpgatherdq", EVEX, p66, M0F38, 0x90, RM, "vh", vsib, w1, size(one8))
	VGatherDD = form("vpgatherdd", VEX, p66, M0F38, 0x90, RMV, "vvv", vsib, size(one4))
	VGatherDQ = form("vpgatherdq", VEX, p66, M0F38, 0x90, RMV, "vhv", vsib, vw1, size(one8))

	AlignD = form("valignd", EVEX, p66, M0F3A, 0x03, RVM, "vvv", imm, b4)
	AlignQ = form("valignq", EVEX, p66, M0F3A, 0x03, RVM, "vvv", imm, b8, w1)

	AlignB    = form("vpalignr", VEX, p66, M0F3A, 0x0F, RVM, "vvv", imm)
	Perm2I128 = form("vperm2i128", VEX, p66, M0F3A, 0x46, RVM, "vvv", imm, least(32))

	Extract128 = form("vextracti128", VEX, p66, M0F3A, 0x39, MR, "vx", imm, size(x128), least(32))
	Insert128  = form("vinserti128", VEX, p66, M0F3A, 0x38, RVM, "vvx", imm, size(x128), least(32))
	PermQ      = form("vpermq", VEX, p66, M0F3A, 0x00, RM, "vv", imm, vw1, least(32))
	PermD      = form("vpermd", both, p66, M0F38, 0x36, RVM, "vvv", b4, least(32))
	PermB      = form("vpermb", EVEX, p66, M0F38, 0x8D, RVM, "vvv", with(VBMI))
	ShufB      = form("vpshufb", both, p66, M0F38, 0x00, RVM, "vvv")
	PermVarQ   = form("vpermq", EVEX, p66, M0F38, 0x36, RVM, "vvv", b8, w1, least(32))
	BlendD     = form("vpblendd", VEX, p66, M0F3A, 0x02, RVM, "vvv", imm)
	PackUSDW   = form("vpackusdw", VEX, p66, M0F38, 0x2B, RVM, "vvv")
	PackSSDW   = form("vpackssdw", VEX, p66, M0F, 0x6B, RVM, "vvv")
	PackSSWB   = form("vpacksswb", VEX, p66, M0F, 0x63, RVM, "vvv")
	PackUSWB   = form("vpackuswb", VEX, p66, M0F, 0x67, RVM, "vvv")
	PermW2     = form("vpermt2w", EVEX, p66, M0F38, 0x7D, RVM, "vvv", w1)
	PermD2     = form("vpermt2d", EVEX, p66, M0F38, 0x7E, RVM, "vvv", b4)
	PermQ2     = form("vpermt2q", EVEX, p66, M0F38, 0x7E, RVM, "vvv", b8, w1)
	Unpack32L  = form("vpunpckldq", EVEX, p66, M0F, 0x62, RVM, "vvv", b4)
	Unpack32H  = form("vpunpckhdq", EVEX, p66, M0F, 0x6A, RVM, "vvv", b4)
	Unpack64L  = form("vpunpcklqdq", EVEX, p66, M0F, 0x6C, RVM, "vvv", b8, w1)
	Unpack64H  = form("vpunpckhqdq", EVEX, p66, M0F, 0x6D, RVM, "vvv", b8, w1)
	Shuf128    = form("vshufi32x4", EVEX, p66, M0F3A, 0x43, RVM, "vvv", imm, b4, least(32))
	ShufPS     = form("vshufps", VEX, np, M0F, 0xC6, RVM, "vvv", imm)
	UnpackLPS  = form("vunpcklps", VEX, np, M0F, 0x14, RVM, "vvv")
	UnpackHPS  = form("vunpckhps", VEX, np, M0F, 0x15, RVM, "vvv")
	UnpackLPD  = form("vunpcklpd", VEX, p66, M0F, 0x14, RVM, "vvv")
	UnpackHPD  = form("vunpckhpd", VEX, p66, M0F, 0x15, RVM, "vvv")
)
