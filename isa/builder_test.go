package isa

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
)

func TestBuilderMakesTheProgramOfTheText(t *testing.T) {
	b := NewBuilder("all_kinds")
	x, bytes := b.Slot("x", F32), b.Slot("bytes", U8)
	alpha := b.Param("alpha", F16)
	table := b.Data("table", I8, []uint64{0x80, 0x7f})
	b.Shared(256)
	b.Block(32, 2, 1)
	v, w, n := b.Reg("v"), b.Reg(), b.Reg("n")
	p := b.Pred("p")
	b.Op(LDG, F32, v, x.Index())
	b.Op(LDG, F32, w, bytes.Byte(-4))
	b.Op(SREG, NoType, n, N)
	b.Op(LDG, U8, w, bytes.ByteReg(n, 16))
	b.Op(LDG, F32, w, x.Flat(3))
	b.Op(STG, F32, w, x.FlatReg(n, -1))
	b.Op(SREG, NoType, n, ColumnIndex)
	b.Op(LDG, F32, w, Indirect(n, 4))
	b.Op(LDG, F32, w, IndirectReg(n, n, -4))
	b.Op(LDG, F32, w, Phi(5, 3, 16))
	b.Op(LDS, F32, w, SharedReg(n, 8))
	b.Op(STS, I16, Int(-1), SharedByte(0))
	b.Op(LDP, F16, w, alpha)
	b.Op(LDC, I8, w, table, Int(1))
	b.Op(ADD, F32, v, v, Float(0.1))
	b.Op(ADD, BF16, v, v, Int(-3))
	b.Op(MOV_IMM, F32, w, Bits(0x3f800000))
	b.Cvt(F16, U64, w, n)
	b.Bitcast(U32, F32, w, v)
	b.Set(LTU, U32, p, b.Preset(LaneX), Int(7))
	b.Op(MOV, Pred, p, Bool(true))
	b.Op(SEL, F32, v, p.Not(), v, w)
	b.Op(MEM_FENCE, NoType, ScopeDevice)
	b.Loop(Int(3), func() {
		b.If(p, func() { b.Op(NEG, F32, v, v) }, func() { b.Op(ABS, F32, v, v) })
	})
	b.If(p, func() { b.Op(EXIT, NoType) }, nil)
	back := b.Label("back")
	b.Place(back)
	b.Op(BRA, NoType, back)
	got, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := programOf(t, `
program all_kinds
slot x f32
slot bytes u8
slot boundary u8
param alpha f16
shared 256
block 32 2
data table i8 { -128, 127 }
reg n r2
  ldg.f32 v, x[index]
  ldg.f32 r1, bytes[-4]
  sreg n, n
  ldg.u8 r1, bytes[n + 16]
  ldg.f32 r1, x[flat 3]
  stg.f32 r1, x[flat n - 1]
  sreg n, column
  ldg.f32 r1, @n[4]
  ldg.f32 r1, @n[n - 4]
  ldg.f32 r1, phi(5, 3, 16)
  lds.f32 r1, shared[n + 8]
  sts.i16 -1, shared[0]
  ldp.f16 r1, alpha
  ldc.i8 r1, table[1]
  add.f32 v, v, 0.1
  add.bf16 v, v, -3
  mov_imm.f32 r1, 0x3f800000
  cvt.f16.u64 r1, n
  bitcast.u32.f32 r1, v
  set.ltu.u32 p, r252, 7
  mov.pred p, true
  sel.f32 v, !p, v, r1
  mem_fence device
  loop 3, L.0
  bra L.2, !p
  neg.f32 v, v
  bra L.1
L.2:
  abs.f32 v, v
L.0:
L.1:
  bra L.3, !p
  exit
L.3:
back:
  bra back
`)
	if got, want := Disassemble(got), Disassemble(want); got != want {
		t.Errorf("built\n%s\nwant\n%s", got, want)
	}
}

func TestBuilderErrors(t *testing.T) {
	other := NewBuilder("other")
	for name, c := range map[string]struct {
		build func(b *Builder)
		want  []string
	}{
		"no such op":         {func(b *Builder) { b.Op(NumOps, F32) }, []string{"there is no operation"}},
		"no form":            {func(b *Builder) { b.Op(SQRT, I32, b.Reg(), b.Reg()) }, []string{"sqrt has no form for type i32", "f16 bf16 f32 f64"}},
		"condition":          {func(b *Builder) { b.Set(LTU, I32, b.Pred(), b.Reg(), b.Reg()) }, []string{"ltu does not go with i32", "write lt"}},
		"too many":           {func(b *Builder) { b.Op(EXIT, NoType, b.Reg()) }, []string{"exit takes no operands, 1 are given"}},
		"too few":            {func(b *Builder) { b.Op(ADD, F32, b.Reg(), b.Reg()) }, []string{"add.f32 lacks its operand b: add.T dst, a, b"}},
		"nil":                {func(b *Builder) { b.Op(RET, NoType); b.Op(NEG, F32, b.Reg(), nil) }, []string{"operand src of neg.f32 is nil"}},
		"kind":               {func(b *Builder) { b.Op(NEG, F32, b.Pred(), b.Reg()) }, []string{"operand dst of neg.f32 is a predicate; expected a register"}},
		"immediate range":    {func(b *Builder) { b.Op(NEG, I8, b.Reg(), Int(128)) }, []string{"operand src of neg.i8 is 128; expected a register or an immediate (i8 goes from -128 to 127"}},
		"negative unsigned":  {func(b *Builder) { b.Op(NOT, U64, b.Reg(), Int(-1)) }, []string{"is -1; expected", "u64 goes from 0"}},
		"inexact":            {func(b *Builder) { b.Op(NEG, F16, b.Reg(), Int(2049)) }, []string{"2049, which is not a f16"}},
		"float overflow":     {func(b *Builder) { b.Op(NEG, F16, b.Reg(), Float(65520)) }, []string{"the number 65520"}},
		"float for integer":  {func(b *Builder) { b.Op(NEG, I32, b.Reg(), Float(1)) }, []string{"the number 1; expected"}},
		"bits":               {func(b *Builder) { b.Op(NEG, I8, b.Reg(), Bits(0x100)) }, []string{"the bits 0x100"}},
		"bool":               {func(b *Builder) { b.Op(NEG, I8, b.Reg(), Bool(true)) }, []string{"is true; expected"}},
		"foreign register":   {func(b *Builder) { b.Op(NEG, F32, other.Reg(), b.Reg()) }, []string{"a register of another builder"}},
		"zero register":      {func(b *Builder) { b.Op(NEG, F32, Register{}, b.Reg()) }, []string{"a register that no builder has made"}},
		"foreign slot":       {func(b *Builder) { b.Op(LDG, F32, b.Reg(), other.Slot("s", F32).Index()) }, []string{"an address of another builder"}},
		"foreign offset":     {func(b *Builder) { b.Op(LDG, F32, b.Reg(), b.Slot("s", F32).ByteReg(other.Reg(), 0)) }, []string{"a register of another builder"}},
		"negated result":     {func(b *Builder) { b.Op(NOT, Pred, b.Pred().Not(), Bool(false)) }, []string{"a negated predicate, which cannot be written"}},
		"other memory":       {func(b *Builder) { b.Op(LDG, F32, b.Reg(), SharedByte(0)) }, []string{"an address in other memory; expected an address: slot[index]"}},
		"phi range":          {func(b *Builder) { b.Op(LDG, F32, b.Reg(), Phi(96, 0, 0)) }, []string{"phi(96, 0, 0), where class < 96"}},
		"special":            {func(b *Builder) { b.Op(MEM_FENCE, NoType, LaneX) }, []string{"the special value lane.x"}},
		"label not placed":   {func(b *Builder) { b.Op(BRA, NoType, b.Label("on")) }, []string{"label on is not placed"}},
		"label placed twice": {func(b *Builder) { l := b.Label("on"); b.Place(l); b.Place(l) }, []string{"already placed"}},
		"no registers left":  {func(b *Builder) { b.Regs(FirstPreset); b.Reg() }, []string{"0 of 252 are left"}},
		"no predicates left": {func(b *Builder) {
			for range NumPredicates + 1 {
				b.Pred()
			}
		}, []string{"all 16 are taken"}},
		"free twice":    {func(b *Builder) { r := b.Reg(); b.Free(r); b.Free(r) }, []string{"free of a register"}},
		"preset":        {func(b *Builder) { b.Preset(LaneY) }, []string{"no register is set to lane.y"}},
		"register name": {func(b *Builder) { b.Op(NEG, F32, b.Reg("r300"), b.Reg("x")) }, []string{"r300"}},
		"slot name":     {func(b *Builder) { b.Slot("index", F32) }, []string{"index", "reserved"}},
		"two names":     {func(b *Builder) { b.Slot("x", F32); b.Param("x", F32) }, []string{"x is the name of a slot and of a parameter"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder("p")
			c.build(b)
			p, err := b.Build()
			if err == nil || p != nil {
				t.Fatalf("built without an error:\n%s", Disassemble(p))
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			var wrongCall *BuildError
			if errors.As(err, &wrongCall) && name != "label not placed" && !strings.HasSuffix(wrongCall.File, "builder_test.go") {
				t.Errorf("error is placed in %s", wrongCall.File)
			}
		})
	}
}

func TestBuilderReusesFreedRegisters(t *testing.T) {
	b := NewBuilder("reuse")
	for range 10 * NumRegisters {
		r := b.Reg()
		b.Op(MOV, I32, r, Int(1))
		b.Free(r)
	}
	if _, err := b.Build(); err != nil {
		t.Fatal(err)
	}
}

// An Int in the place of a number is that number, or refused: around each power of
// two, and at what each type can hold no more.
func TestBuilderTakesIntsThatAreExact(t *testing.T) {
	var values []int64
	for k := range 63 {
		for d := int64(-1); d <= 1; d++ {
			values = append(values, int64(1)<<k+d, -int64(3)<<min(k, 60)-d)
		}
	}
	values = append(values, 65503, 65504, 65505, -65504, -65505, math.MaxInt64, math.MaxInt64-1, math.MaxInt64-511, math.MaxInt64-1023, math.MinInt64, math.MinInt64+1, math.MinInt64+1024)
	for _, typ := range SetNumeric.List() {
		for _, v := range values {
			b := NewBuilder("exact")
			b.Op(MOV, typ, b.Reg(), Int(v))
			p, err := b.Build()
			n, fits := big.NewInt(v), false
			if typ.Float() {
				digits := n.BitLen() - int(n.TrailingZeroBits())
				fits = digits <= typ.MantissaBits()+1 && (typ != F16 || v >= -65504 && v <= 65504)
			} else {
				low, high := new(big.Int), new(big.Int).SetUint64(typ.Mask())
				if typ.Signed() {
					high.Rsh(high, 1)
					low.Not(high)
				}
				fits = n.Cmp(low) >= 0 && n.Cmp(high) <= 0
			}
			if (err == nil) != fits {
				t.Fatalf("Int(%d) as %v: error %v, to fit: %v", v, typ, err, fits)
			}
			if err != nil {
				continue
			}
			cell := p.Insts[0].Args[1].Bits
			if typ.Float() {
				if got := value(typ, cell); new(big.Float).SetFloat64(got).Cmp(new(big.Float).SetInt(n)) != 0 {
					t.Fatalf("Int(%d) as %v is %v", v, typ, got)
				}
			} else if cell != uint64(v)&typ.Mask() {
				t.Fatalf("Int(%d) as %v is %#x", v, typ, cell)
			}
		}
	}
}

func programOf(t *testing.T, text string) *Program {
	t.Helper()
	p, err := Assemble("test.atlas", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
