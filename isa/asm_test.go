package isa_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// preamble declares what the statements of the tests below refer to.
const preamble = "slot a f32\nslot raw u8\nparam alpha f32\nparam k i64\ndata tab f32 { 1, 2 }\nshared 64\nl:\n"

func TestAssembleOperands(t *testing.T) {
	reg := func(n uint8) isa.Arg { return isa.Arg{Kind: isa.ArgReg, Reg: n} }
	pred := func(n uint8, not bool) isa.Arg { return isa.Arg{Kind: isa.ArgPred, Reg: n, Not: not} }
	imm := func(v uint64) isa.Arg { return isa.Arg{Kind: isa.ArgImm, Bits: v} }
	ref := func(k isa.ArgKind, n uint64) isa.Arg { return isa.Arg{Kind: k, Bits: n} }
	type address struct {
		Mode        isa.AddrMode
		HasReg      bool
		Reg, Handle uint8
		Slot        uint16
		Offset      int64
	}
	addr := func(a address) isa.Arg {
		return isa.Arg{Kind: isa.ArgAddr, Mode: a.Mode, HasReg: a.HasReg, Reg: a.Reg, Handle: a.Handle, Slot: a.Slot, Bits: uint64(a.Offset)}
	}
	form := func(t, from isa.Type, c isa.Cond) isa.Form { return isa.Form{Type: t, From: from, Cond: c} }
	f32 := form(isa.F32, isa.NoType, isa.NoCond)
	none := isa.Form{}
	for _, c := range []struct {
		text string
		op   isa.Op
		form isa.Form
		args []isa.Arg
	}{
		{"add.f32 r1, r2, r3", isa.ADD, f32, []isa.Arg{reg(1), reg(2), reg(3)}},
		{"add.f32 x, y, x", isa.ADD, f32, []isa.Arg{reg(0), reg(1), reg(0)}},
		{"add.f32 x, r0, y", isa.ADD, f32, []isa.Arg{reg(1), reg(0), reg(2)}},
		{"add.f32 x, r1, r255", isa.ADD, f32, []isa.Arg{reg(0), reg(1), reg(255)}},
		{"  add.i8\tr1,r2 ,-1;comment", isa.ADD, form(isa.I8, 0, 0), []isa.Arg{reg(1), reg(2), imm(0xff)}},
		{"add.f32 r1, 0x1.8p+1, -inf", isa.ADD, f32, []isa.Arg{reg(1), imm(0x40400000), imm(0xff800000)}},
		{"add.f32 r1, r2, nan(0x7fc00001)", isa.ADD, f32, []isa.Arg{reg(1), reg(2), imm(0x7fc00001)}},
		{"cvt.f32.i16 r1, -2", isa.CVT, form(isa.F32, isa.I16, 0), []isa.Arg{reg(1), imm(0xfffe)}},
		{"bitcast.u32.f32 r1, 1.0", isa.BITCAST, form(isa.U32, isa.F32, 0), []isa.Arg{reg(1), imm(0x3f800000)}},
		{"set.ltu.u64 p3, r1, 7", isa.SET, form(isa.U64, 0, isa.LTU), []isa.Arg{pred(3, false), reg(1), imm(7)}},
		{"sel.f32 r1, !p2, r2, r3", isa.SEL, f32, []isa.Arg{reg(1), pred(2, true), reg(2), reg(3)}},
		{"and.pred p1, q, !p0", isa.AND, form(isa.Pred, 0, 0), []isa.Arg{pred(1, false), pred(2, false), pred(0, true)}},
		{"mov.pred p1, true", isa.MOV, form(isa.Pred, 0, 0), []isa.Arg{pred(1, false), imm(1)}},
		{"mov_imm.f32 r1, 0x3f800000", isa.MOV_IMM, f32, []isa.Arg{reg(1), imm(0x3f800000)}},
		{"ldp.f32 r1, alpha", isa.LDP, f32, []isa.Arg{reg(1), ref(isa.ArgParam, 0)}},
		{"ldp.i64 r1, k", isa.LDP, form(isa.I64, 0, 0), []isa.Arg{reg(1), ref(isa.ArgParam, 1)}},
		{"ldc.f32 r1, tab[r2]", isa.LDC, f32, []isa.Arg{reg(1), ref(isa.ArgData, 0), reg(2)}},
		{"ldc.f32 r1, tab[-1]", isa.LDC, f32, []isa.Arg{reg(1), ref(isa.ArgData, 0), imm(1<<64 - 1)}},
		{"sreg r1, lane.x", isa.SREG, none, []isa.Arg{reg(1), ref(isa.ArgName, 0)}},
		{"sreg r1, row", isa.SREG, none, []isa.Arg{reg(1), ref(isa.ArgName, 14)}},
		{"sreg r1, size.7", isa.SREG, none, []isa.Arg{reg(1), ref(isa.ArgName, 33)}},
		{"sreg n, n", isa.SREG, none, []isa.Arg{reg(0), ref(isa.ArgName, 13)}},
		{"mem_fence system", isa.MEM_FENCE, none, []isa.Arg{ref(isa.ArgName, 3)}},
		{"bra l", isa.BRA, none, []isa.Arg{ref(isa.ArgLabel, 0)}},
		{"bra m, !p4\nm:", isa.BRA, none, []isa.Arg{ref(isa.ArgLabel, 1), pred(4, true)}},
		{"loop 10, l", isa.LOOP, none, []isa.Arg{imm(10), ref(isa.ArgLabel, 0)}},
		{"reduce_add.f32 r1, r4, 8", isa.REDUCE_ADD, f32, []isa.Arg{reg(1), reg(4), imm(8)}},
		{"unity_test p0, 0.5", isa.UNITY_TEST, none, []isa.Arg{pred(0, false), imm(0x3fe0000000000000)}},
		{"ldg.f32 r1, a[index]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrIndex})}},
		{"ldg.u8 r1, raw[16]", isa.LDG, form(isa.U8, 0, 0), []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, Slot: 1, Offset: 16})}},
		{"ldg.u8 r1, raw[r2]", isa.LDG, form(isa.U8, 0, 0), []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, Slot: 1, HasReg: true, Reg: 2})}},
		{"ldg.u8 r1, raw[x - 0x10]", isa.LDG, form(isa.U8, 0, 0), []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, Slot: 1, HasReg: true, Offset: -16})}},
		{"ldg.f32 r1, a[flat r2]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrFlat, HasReg: true, Reg: 2})}},
		{"ldg.f32 r1, a[flat 7]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrFlat, Offset: 7})}},
		{"stg.f32 1, a[flat i + 2]", isa.STG, f32, []isa.Arg{imm(0x3f800000), addr(address{Mode: isa.AddrFlat, HasReg: true, Offset: 2})}},
		{"stg.f32 1, a[ flat r9-2 ]", isa.STG, f32, []isa.Arg{imm(0x3f800000), addr(address{Mode: isa.AddrFlat, HasReg: true, Reg: 9, Offset: -2})}},
		{"ldg.f32 r1, a[flat flat]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrFlat, HasReg: true})}},
		{"ldg.f32 r1, a[flat flat - 3]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrFlat, HasReg: true, Offset: -3})}},
		// a register of that name counts bytes, as it always did
		{"ldg.f32 r1, a[flat]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, HasReg: true})}},
		{"ldg.f32 r1, a[flat + 4]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, HasReg: true, Offset: 4})}},
		{"ldg.f32 r1, a[flat - 4]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrByte, HasReg: true, Offset: -4})}},
		{"ldg.f32 r1, @h[flat]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrIndirect, HasReg: true, Reg: 2})}},
		{"ldg.f32 r1, @h[r9+4]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrIndirect, HasReg: true, Reg: 9, Offset: 4})}},
		{"ldg.f32 r1, @r7[-4]", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrIndirect, Handle: 7, Offset: -4})}},
		{"ldg.f32 r1, phi(5, 3, 16)", isa.LDG, f32, []isa.Arg{reg(1), addr(address{Mode: isa.AddrPhi, Slot: 2, Offset: 5*12288 + 3*256 + 16})}},
		{"sts.f32 1, shared[r1 + 4]", isa.STS, f32, []isa.Arg{imm(0x3f800000), addr(address{Mode: isa.AddrShared, HasReg: true, Reg: 1, Offset: 4})}},
		{"atom_cas.u32 r1, shared[0], r2, 3", isa.ATOM_CAS, form(isa.U32, 0, 0), []isa.Arg{reg(1), addr(address{Mode: isa.AddrShared}), reg(2), imm(3)}},
		{"pool_store.f32 r1, r2, 8", isa.POOL_STORE, f32, []isa.Arg{reg(1), reg(2), imm(8)}},
		{"stg.f32 1, a[r1 - 9223372036854775808]", isa.STG, f32, []isa.Arg{imm(0x3f800000), addr(address{Mode: isa.AddrByte, HasReg: true, Reg: 1, Offset: -1 << 63})}},
		{"exit", isa.EXIT, none, nil},
	} {
		p, err := isa.Assemble("f", preamble+c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		want := isa.Inst{Op: c.op, Form: c.form}
		copy(want.Args[:], c.args)
		if p.Insts[0] != want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.text, p.Insts[0], want)
		}
	}
}

func TestAssembleDeclarations(t *testing.T) {
	p, err := isa.Assemble("f.atlas", `; a comment
program everything.1
slot  in f16
slot boundary u8
param p1 u64  ; a parameter may be called like a predicate
data t i8 { 1,
  -1, ; in a table too

  0x80, }
data none f64 { }
shared 0x100
block 8 4
reg acc r7
pred done p1

a: b:
  sreg x, n
c:
`)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(p.Name, p.Slots, p.Params, p.Data, p.Shared, p.Block, p.Labels, p.Debug.Regs[7], p.Debug.Regs[0], p.Debug.Preds[1])
	want := "everything.1 [{in f16} {boundary u8}] [{p1 u64}] [{t i8 [1 255 128]} {none f64 []}] 256 [8 4 1] [{a 0} {b 0} {c 1}] acc x done\n"
	if got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
	line, ok := p.Debug.Line(17)
	if p.Debug.File != "f.atlas" || len(p.Debug.Lines) != 1 || p.Debug.Lines[0] != 17 || p.Debug.Cols[0] != 3 || !ok || line != "  sreg x, n" {
		t.Errorf("debug: %q line %v col %v", p.Debug.File, p.Debug.Lines, p.Debug.Cols)
	}
}

func TestEmptyTexts(t *testing.T) {
	for _, text := range []string{"", "\n", "; nothing", "\r\n\r\n", "program x", "l:", "  exit", "\ufeffprogram x\r\n\texit\r\n"} {
		p, err := isa.Assemble("f", text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if err := roundTrip(p); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAssembleErrors(t *testing.T) {
	const line = 8 // of the first statement after the preamble
	for _, c := range []struct {
		text      string
		col       int
		msg, hint string
	}{
		// mnemonics
		{"  ad.f32 x, y, z", 3, "no instruction is called ad", "did you mean add?"},
		{"FMA.F32 x, y, z, w", 1, "no instruction is called FMA", "did you mean fma?"},
		{"slto a f32", 1, "no instruction is called slto", "did you mean slot?"},
		{"qwertyuiop x", 1, "no instruction is called qwertyuiop", ""},
		{"add x, y, z", 1, "add lacks its type", "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64"},
		{"add.f33 x, y, z", 5, `"f33" is not a type`, "f16 bf16 f32 f64"},
		{"add. x, y, z", 5, `"" is not a type`, "types of add.T dst, a, b"},
		{"sqrt.i32 x, y", 6, "sqrt has no form for type i32", "types of sqrt.T dst, src: f16 bf16 f32 f64"},
		{"add.pred x, y, z", 5, "add has no form for type pred", "f32"},
		{"cvt.f32 x, y", 1, "cvt.f32 lacks its source type: cvt.T.FROM dst, src", "types of"},
		{"cvt.f32.pred x, y", 9, "cvt has no form for type pred", "types of"},
		{"set.f32 p, x, y", 5, `"f32" is not a condition`, "eq ne lt le gt ge ltu leu gtu geu"},
		{"set p, x, y", 1, "set lacks its condition", "eq ne"},
		{"set.ltu.f32 p, x, y", 5, "ltu does not go with f32", "u8 u16 u32 u64; write lt"},
		{"add.f32.f32 x, y, z", 9, "a suffix too many: f32", "add.T dst, a, b"},
		{"exit.f32", 6, "a suffix too many: f32", "it is written exit"},
		// operands
		{"add.f32 x, y", 13, "add.f32 lacks its operand b", "add.T dst, a, b"},
		{"add.f32 x, y, z, w", 16, "add.f32 takes 3 operands", "add.T dst, a, b"},
		{"add.f32 x y, z", 11, "expected a comma, found y", "add.T dst, a, b"},
		{"add.f32 x, y, z w", 17, "unexpected w after the statement", "line of its own"},
		{"exit x", 6, "unexpected x after the statement", ""},
		{"add.f32 1, y, z", 9, "operand dst of add.f32 is a register, found 1", "add.T dst, a, b"},
		{"add.f32 x, @, z", 12, "operand a of add.f32 is a register or an immediate, found @", ""},
		{"add.f32 x, r256, z", 12, "no register is called r256", "registers go from r0 to r255"},
		{"add.f32 x, r18446744073709551617, z", 12, "no register is called r18446744073709551617", "r0 to r255"},
		{"add.f32 x, r9223372036854775808, z", 12, "no register is called r9223372036854775808", "r0 to r255"},
		{"sel.f32 x, p18446744073709551617, y, z", 12, "no predicate is called p18446744073709551617", "p0 to p15"},
		{"add.f32 x, r01, z", 12, "no register is called r01", "r0 to r255"},
		{"add.f32 x, p1, z", 12, "p1 is not a register", "r0 … r255 and names"},
		{"add.f32 x, index, z", 12, "index cannot name a register", "slot[index]"},
		{"sel.f32 x, r1, y, z", 12, "r1 is not a predicate", "p0 … p15 and names"},
		{"sel.f32 x, 1, y, z", 12, "operand pred of sel is a predicate, found 1", "sel.T dst, pred, a, b"},
		{"sel.f32 x, p16, y, z", 12, "no predicate is called p16", "p0 to p15"},
		{"set.lt.f32 !p, x, y", 12, "operand pdst is a predicate that is written, it cannot be negated", ""},
		{"mov_imm.f32 x, y", 16, "operand bits of mov_imm.f32 is an immediate u64, found y", "mov_imm.T dst, bits"},
		{"bar_sync 256", 10, "256 is out of range for u8", "u8 goes from 0 to 255"},
		{"add.i8 x, y, 128", 14, "128 is out of range for i8", "-128 to 127, or 0x0 to 0xff"},
		{"add.u8 x, y, -1", 14, "-1 is out of range for u8", "0 to 255"},
		{"add.i32 x, y, 1.5", 15, "1.5 is not an integer", "i32 goes from"},
		{"add.f32 x, y, 0x10", 15, "a hex float has an exponent", "0x10p+0"},
		{"add.f16 x, y, 1e9", 15, "1e9 is out of range for f16", "largest f16 is 0x1.ffcp+15"},
		{"add.f32 x, y, 1.2.3", 15, "1.2.3 is not a number", "a float is written"},
		{"add.f32 x, y, 12ab", 15, "12ab is not a number", ""},
		{"add.f32 x, y, nan(1)", 15, "not a NaN of f32", "nan(0x7fc00000)"},
		{"add.f32 x, y, - ", 17, "expected an immediate f32, found the end of the file", ""},
		// references
		{"ldg.f32 x, b[index]", 12, "no slot is called b", "the slots are a raw"},
		{"ldg.f32 x, something_else[index]", 12, "no slot is called something_else", "the slots are a raw"},
		{"ldg.f32 x, tab[index]", 12, "tab is a table, and a slot is expected", "ldc reads it"},
		{"ldp.f32 x, alhpa", 12, "no parameter is called alhpa", "did you mean alpha?"},
		{"ldp.f32 x, a", 12, "a is a slot, and a parameter is expected", "ldg and stg"},
		{"ldc.f32 x, tbl[0]", 12, "no table is called tbl", "the tables are tab"},
		{"ldc.f32 x, tab", 15, "ldc.f32 lacks its operand index", "ldc.T dst, table[index]"},
		{"ldc.f32 x, tab, 3", 15, "expected [, found ,", "table[index]"},
		{"bra looop\nloop:", 5, "no label is called looop", "did you mean loop?"},
		{"bra nowhere", 5, "no label is called nowhere", "the labels are l"},
		{"bra 5", 5, "expected a label, found 5", "a label is a name"},
		{"l:", 1, "label l is defined twice", ""},
		{"sreg x, lane.w", 9, "no special is called lane.w", "did you mean lane.x?"},
		{"mem_fence world", 11, "no scope is called world", "thread block device system"},
		// addresses
		{"ldg.f32 x, 16", 12, "operand addr of ldg is an address, found 16", "slot[index], slot[reg + 16]"},
		{"ldg.f32 x, a", 13, "expected [, found the end of the file", "slot[index]"},
		{"ldg.f32 x, a[index\nexit", 19, "expected ], found the end of the line", ""},
		{"ldg.f32 x, a[]", 14, "expected an offset in bytes, found ]", "reg + 16"},
		{"ldg.f32 x, a[r1 * 4]", 17, "expected ], + or -, found \"*\"", ""},
		{"ldg.f32 x, a[r1 r2]", 17, "expected ], + or -, found r2", ""},
		{"ldg.f32 x, shared[0]", 12, "ldg cannot access shared", "slot[index]"},
		{"lds.f32 x, a[0]", 12, "lds cannot access a", "shared[reg + 16]"},
		{"ldg.f32 x, a[flat r1 * 4]", 22, "expected ], + or -, found \"*\"", "slot[flat reg + 1]"},
		{"ldg.f32 x, a[flat i + j]", 23, "expected a number of elements, found j", ""},
		{"ldg.f32 x, a[i, j]", 15, "expected ], + or -, found ,", "slot[flat reg + 1]"},
		{"lds.f32 x, shared[flat i]", 19, "counts the elements of a slot that is named", "write bytes"},
		{"ldg.f32 x, @h[flat 2]", 15, "counts the elements of a slot that is named", "write bytes"},
		{"ldg.f32 x, @3[0]", 13, "expected the register that holds the slot's number, found 3", "@handle[offset]"},
		{"ldg.f32 x, phi(96, 0, 0)", 16, "class 96 is out of range", "0 to 95"},
		{"ldg.f32 x, phi(0, 48, 0)", 19, "page 48 is out of range", "0 to 47"},
		{"ldg.f32 x, phi(0, 0, 256)", 22, "byte 256 is out of range", "0 to 255"},
		{"ldg.f32 x, phi(c, 0, 0)", 16, "expected the class as a number, found c", "bound_map"},
		{"ldg.f32 x, a[99999999999999999999]", 14, "out of range for i64", ""},
		// statements
		{"slot z f32", 1, "slot after the first instruction or label, which stands in line 7", "move it up"},
		{"5", 1, "expected an instruction, a label or a directive, found 5", ""},
		{"add.f32 x, y, ß", 15, "found \"ß\"", ""},
		{"\tadd.f32 ü, y, z", 10, "found \"ü\"", ""},
		{"exit \"", 6, `unexpected "\"" after`, ""},
		{"exit \x00", 6, `unexpected "\x00" after`, ""},
		{"exit \xff", 6, `unexpected "\xff" after`, ""},
	} {
		_, err := isa.Assemble("f.atlas", preamble+c.text)
		var e *isa.SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%q: error %v", c.text, err)
			continue
		}
		text, _, _ := strings.Cut(c.text, "\n")
		if e.Line != line || e.Col != c.col || e.LineText != text || e.File != "f.atlas" {
			t.Errorf("%q: error at %s (%q), want line %d column %d", c.text, e.Position(), e.LineText, line, c.col)
		}
		if !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) || c.hint == "" && strings.Contains(e.Hint, "did you mean") {
			t.Errorf("%q: %s\nwant the message %q and the hint %q", c.text, e, c.msg, c.hint)
		}
	}
}

func TestDirectiveErrors(t *testing.T) {
	long := strings.Repeat("n", 256)
	for _, c := range []struct{ text, msg, hint string }{
		{"ldp.f32 x, alpha", "no parameter is called alpha", "param NAME TYPE"},
		{"slot a f32\nprogram late", "program is the first statement", ""},
		{"program", "expected the program's name, found the end of the file", "program NAME"},
		{"program 5", "found 5", ""},
		{"program " + long, "name of 256 characters", ""},
		{"slot a", "expected a type", "slot NAME TYPE; types: i8"},
		{"slot a float32", "float32 is not a type that a slot can have", "f32"},
		{"slot a pred", "pred is not a type that a slot can have", ""},
		{"slot a f32\nslot a i8", "a is already a slot, see line 1", "different names"},
		{"slot a f32\nparam a f32", "a is already a slot", ""},
		{"slot index f32", "index cannot name a slot", "slot[index]"},
		{"slot " + long + " f32", "name of 256 characters", ""},
		{strings.Repeat("slot a%d f32\n", 65), "more than 64 slots", ""},
		{strings.Repeat("param a%d f32\n", 65), "more than 64 parameters", ""},
		{"param x f32 5", "unexpected 5 after the statement", ""},
		{"data t f32 1, 2", "expected {, found 1", "{ value, value"},
		{"data t f32 { 1 2 }", "expected a comma or }, found 2", ""},
		{"data t f32 { 1, x }", "expected a value or }, found x", ""},
		{"data t i8 { 1, 500 }", "500 is out of range for i8", ""},
		{"data t f32 { 1,", "found the end of the file", ""},
		{"data t f64 { " + strings.Repeat("0,", 1<<17) + " 0 }", "more than 1048576 bytes", ""},
		{"shared 49153", "49153; it goes from 0 to 49152", ""},
		{"shared 1\nshared 2", "already declared in line 1", ""},
		{"block 0", "0; it goes from 1 to 1024", ""},
		{"block 32 32 2", "a block of 2048 lanes", ""},
		{"block 1\nblock 1", "already declared in line 1", ""},
		{"block", "expected the block's size in x", ""},
		{"reg x", "expected r0 … r255", ""},
		{"reg x y", "y is not the number of a register", "r0 to r255"},
		{"reg r1 r2", "r1 is a number, and a name is expected", ""},
		{"reg x r1\nreg x r2", "register x is named twice", ""},
		{"reg x r1\nreg y r1", "r1 has a name already", ""},
		{"reg nan r1", "nan cannot name a register", ""},
		{"pred x p16", "no predicate is called p16", "p0 to p15"},
		{"pred x r1", "r1 is not a predicate", ""},
		{"slot boundary f32\n ldg.f32 x, phi(0, 0, 0)", "phi refers to the slot boundary", "u8"},
		{strings.Repeat("slot a%d u8\n", 64) + "ldg.f32 x, phi(0, 0, 0)", "more than 64 slots", ""},
		{strings.Repeat("mov.i8 a%d, 1\n", 253), "no register is left for a252", "252 registers"},
		{strings.Repeat("mov.pred a%d, true\n", 17), "no predicate is left for a16", "16 predicates"},
		{strings.Repeat("exit\n", 1<<16+1), "more than 65536 instructions", ""},
		{long + ":", "name of 256 characters", ""},
	} {
		if n := strings.Count(c.text, "%d"); n > 0 {
			numbers := make([]any, n)
			for i := range numbers {
				numbers[i] = i
			}
			c.text = fmt.Sprintf(c.text, numbers...)
		}
		_, err := isa.Assemble("f", c.text)
		var e *isa.SyntaxError
		if !errors.As(err, &e) || !strings.Contains(e.Msg, c.msg) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%.80q: %.300v\nwant the message %q and the hint %q", c.text, err, c.msg, c.hint)
		}
	}
}

// What a person sees, whole.
func TestErrorText(t *testing.T) {
	_, err := isa.Assemble("softmax.atlas", "slot x f32\nslot y f32\n\tldg.f32  v, x[index]\n\tepx.f32  v, v   ; e^x\n  stg.f32  v, z[index]\n")
	want, e := os.ReadFile("testdata/asm/errors.txt")
	if e != nil {
		t.Fatal(e)
	}
	if err == nil || err.Error()+"\n" != string(want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestErrorsAreCollected(t *testing.T) {
	_, err := isa.Assemble("f", strings.Repeat("frob x\n", 30))
	var list isa.ErrorList
	if !errors.As(err, &list) || len(list) != isa.MaxErrors || !strings.Contains(err.Error(), "stopped after 10 errors") {
		t.Errorf("%d errors: %v", len(list), err)
	}
	// One undefined name is one error, however often it is used; errors come
	// in order of place although labels are looked up last.
	_, err = isa.Assemble("f", "bra nowhere\nbra nowhere\nldg.f32 x, zz[0]\nldg.f32 x, zz[4]\nadd.f32 x")
	if !errors.As(err, &list) || len(list) != 3 || list[0].Line != 1 || list[1].Line != 3 || list[2].Line != 5 {
		t.Errorf("%d errors: %v", len(list), err)
	}
}

func TestExcerptIsSafeToShow(t *testing.T) {
	_, err := isa.Assemble("f", strings.Repeat(" ", 500)+"\x1b[31mx"+strings.Repeat("y", 500))
	var e *isa.SyntaxError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	line, caret := e.Excerpt()
	if strings.ContainsRune(line, '\x1b') || len([]rune(line)) > 160 || len(caret) > 161 || []rune(line)[len(caret)-1] != '\ufffd' {
		t.Errorf("%q\n%q", line, caret)
	}
}

// An error that another part of the system made may point anywhere.
func TestExcerptOfImpossiblePlaces(t *testing.T) {
	for _, col := range []int{-1 << 40, 0, 1, 5, 6, 1 << 40} {
		for _, width := range []int{-1 << 40, 0, 1, 1 << 40} {
			e := isa.SyntaxError{Col: col, Width: width, LineText: "exit "}
			if line, caret := e.Excerpt(); line != "exit" || len(caret) > 5 || !strings.Contains(caret, "^") {
				t.Errorf("column %d, width %d: %q, %q", col, width, line, caret)
			}
		}
	}
}

// Who takes a slot, a parameter or a table for a register is told how it is read.
func TestMemoryTakenForRegisters(t *testing.T) {
	const head = "program p\nslot a f32\nslot c f32\nparam k f32\ndata t u8 { 1, 2 }\nshared 64\n"
	for _, c := range []struct{ text, msg, hint string }{
		{"add.f32 x, a[index], 0x1p+0", "7:12: operand a of add.f32 is a register or an immediate, found the address a[…]", "ldg.f32 loads it into a register first: ldg.f32 x, a[…]"},
		{"mov.f32 c[index], 0x1p+0", "7:9: operand dst of mov.f32 is a register, found the address c[…]", "stg.f32 stores a register there: stg.f32 x, c[…]"},
		{"cvt.u32.u8 x, t[0]", "found the address t[…]", "ldc.u8 loads it into a register first: ldc.u8 x, t[…]"},
		{"mov.u32 x, shared[0]", "found the address shared[…]", "lds.u32 loads it into a register first: lds.u32 x, shared[…]"},
		{"mov.f32 x, k\nexit", "7:1: mov.f32 x, k: register k is read before anything is written to it [init]", "k is a parameter: ldp.f32 k, k reads it into a register of that name"},
		{"add.f32 x, a, 0x1p+0\nexit", "register a is read before anything is written to it [init]", "a is a slot: ldg.f32 a, a[index] loads an element of it into a register of that name"},
		{"add.f32 x, y, 1\nset.lt.f32 y, 1, 2\nexit", "register y is read before", "y is also a predicate, which has its own names: sel.u32 x, y, 1, 0"},
		{"ldg.f32 x, a[i]\nexit", "register i is read before", "[index] is the lane's element, [flat i] element i; an offset in a register counts bytes"},
		{"ldg.f32 x, a[global_lane]\nexit", "register global_lane is read before", "sreg global_lane, global_lane reads that value into a register of that name"},
		{"exit # done", "unexpected \"#\" after the statement", "a comment begins with ;"},
		{"// done\nexit", "found \"/\"", "a comment begins with ;"},
		{"mov.u8 x, t\nexit", "register t is read before", "t is a table: ldc.u8 t, t[i] loads an element of it into a register of that name"},
	} {
		p, err := isa.Assemble("f.atlas", head+c.text)
		if err == nil {
			_, err = isa.Verify(p)
		}
		require.ErrorContains(t, err, c.msg)
		line, _, _ := strings.Cut(c.text, "\n")
		require.ErrorContains(t, err, "\n  "+line+"\n  ", "the line is shown")
		require.ErrorContains(t, err, "^", "and the place")
		require.ErrorContains(t, err, "\n  hint: "+c.hint)
	}
}

// A text that came from no file is spoken of without one.
func TestErrorsWithoutFile(t *testing.T) {
	_, err := isa.Assemble("", "program p\n  foo x\n")
	require.ErrorContains(t, err, "line 2, column 3: no instruction is called foo\n  ")
	p, err := isa.Assemble("", "program p\n  mov.u32 x, y\n  exit\n")
	require.NoError(t, err)
	_, err = isa.Verify(p)
	require.ErrorContains(t, err, "line 2, column 3: mov.u32 x, y: register y is read before anything is written to it [init]\n    mov.u32 x, y\n    ^~~~~~~~~~~~")
}
