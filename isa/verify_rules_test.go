package isa

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
)

// source is a program as text, and what is then done to it that text cannot say.
type source struct {
	text string
	edit func(p *Program)
}

func (s source) program(t testing.TB) *Program {
	t.Helper()
	p := mustAssemble(t, s.text)
	if s.edit != nil {
		s.edit(p)
	}
	return p
}

func text(s string) source                        { return source{text: s} }
func edited(s string, edit func(*Program)) source { return source{s, edit} }
func declared(s string) source                    { return text(s + "\nexit") }
func repeated(n int, s string) string             { return strings.Repeat(s+"\n", n) }
func made(edit func(*Program)) source             { return edited("exit", edit) }
func numbered(n int, f func(i int) string) string { return numberedFrom(0, n, f) }
func named(n int, format string) string {
	return numbered(n, func(i int) string { return fmt.Sprintf(format, i) })
}
func firstArgs(f func(a *[MaxOperands]Arg)) func(*Program) {
	return func(p *Program) { f(&p.Insts[0].Args) }
}

func numberedFrom(from, n int, f func(i int) string) string {
	var b strings.Builder
	for i := from; i < n; i++ {
		b.WriteString(f(i) + "\n")
	}
	return b.String()
}

// chain is a program of n routines, each but the last of which calls the next.
func chain(n int) string {
	return "call f0\nexit\n" + numbered(n, func(i int) string {
		if i == n-1 {
			return fmt.Sprintf("f%d: ret", i)
		}
		return fmt.Sprintf("f%d: call f%d\nret", i, i+1)
	})
}

// doubling is a program of n routines that calls the last 2^(n-1) times; that
// has the given length, RET included.
func doubling(n, length int) string {
	return "call f0\nexit\n" + numbered(n-1, func(i int) string {
		return fmt.Sprintf("f%d: call f%d\ncall f%d\nret", i, i+1, i+1)
	}) + fmt.Sprintf("f%d:\n", n-1) + repeated(length-1, "mem_fence block") + "ret"
}

// ruleTests holds for each rule programs that break it alone, and programs
// just inside it.
var ruleTests = []struct {
	rule      string
	bad, good map[string]source
}{
	{"limit",
		map[string]source{
			"instructions": made(func(p *Program) { p.Insts = append(make([]Inst, 0), repeatInst(p.Insts[0], MaxInsts+1)...) }),
			"labels":       made(func(p *Program) { p.Labels = manyLabels(MaxInsts + 1) }),
			"slots":        made(func(p *Program) { p.Slots = manySlots(MaxSlots + 1) }),
			"parameters":   made(func(p *Program) { p.Params = manyParams(MaxParams + 1) }),
			"tables":       made(func(p *Program) { p.Data = manyTables(MaxTables+1, 0) }),
			"one table":    made(func(p *Program) { p.Data = manyTables(1, MaxDataBytes+1) }),
			"table bytes":  made(func(p *Program) { p.Data = manyTables(2, MaxDataBytes/2+1) }),
			"wide table": made(func(p *Program) {
				p.Data = []Data{{"t", F64, make([]uint64, MaxDataBytes/8+1)}}
			}),
			"shared": made(func(p *Program) { p.Shared = MaxSharedBytes + 1 }),
		},
		map[string]source{
			"instructions": made(func(p *Program) { p.Insts = repeatInst(p.Insts[0], MaxInsts) }),
			"labels":       made(func(p *Program) { p.Labels = manyLabels(MaxInsts) }),
			"slots":        made(func(p *Program) { p.Slots = manySlots(MaxSlots) }),
			"parameters":   made(func(p *Program) { p.Params = manyParams(MaxParams) }),
			"tables":       made(func(p *Program) { p.Data = manyTables(MaxTables, MaxDataBytes/MaxTables) }),
			"wide table":   made(func(p *Program) { p.Data = []Data{{"t", F64, make([]uint64, MaxDataBytes/8)}} }),
			"shared":       made(func(p *Program) { p.Shared = MaxSharedBytes }),
		}},
	{"name",
		map[string]source{
			"empty":                  made(func(p *Program) { p.Slots = []Slot{{"", F32}} }),
			"digit first":            made(func(p *Program) { p.Params = []Param{{"1x", F32}} }),
			"space":                  made(func(p *Program) { p.Data = []Data{{"a b", F32, nil}} }),
			"not ASCII":              made(func(p *Program) { p.Labels = []Label{{"ä", 0}} }),
			"program":                made(func(p *Program) { p.Name = "a\nb" }),
			"too long":               made(func(p *Program) { p.Labels = []Label{{strings.Repeat("x", MaxNameLen+1), 0}} }),
			"two slots":              made(func(p *Program) { p.Slots = []Slot{{"a", F32}, {"a", F32}} }),
			"slot and parameter":     made(func(p *Program) { p.Slots, p.Params = []Slot{{"a", F32}}, []Param{{"a", F32}} }),
			"two labels":             made(func(p *Program) { p.Labels = []Label{{"a", 0}, {"a", 1}} }),
			"reserved":               made(func(p *Program) { p.Slots = []Slot{{"shared", F32}} }),
			"register like a number": made(func(p *Program) { p.Debug.Regs[3] = "r4" }),
			"two registers":          made(func(p *Program) { p.Debug.Regs[3], p.Debug.Regs[4] = "x", "x" }),
			"predicate":              made(func(p *Program) { p.Debug.Preds[3] = "a-b" }),
		},
		map[string]source{
			"all letters": made(func(p *Program) {
				p.Name, p.Slots, p.Params = "_a", []Slot{{"Z.$9", F32}, {"a", F32}, {"A", F32}}, []Param{{"b", F32}}
			}),
			"longest":         made(func(p *Program) { p.Labels = []Label{{strings.Repeat("x", MaxNameLen), 0}} }),
			"label and slot":  made(func(p *Program) { p.Slots, p.Labels = []Slot{{"a", F32}}, []Label{{"a", 0}} }),
			"register, slot":  made(func(p *Program) { p.Debug.Regs[3], p.Debug.Preds[3], p.Slots = "a", "a", []Slot{{"a", F32}} }),
			"register xr4":    made(func(p *Program) { p.Debug.Regs[3] = "xr4" }),
			"label like an r": made(func(p *Program) { p.Labels = []Label{{"r4", 0}, {"shared", 0}} }),
		}},
	{"label",
		map[string]source{
			"negative":     made(func(p *Program) { p.Labels = []Label{{"a", -1}} }),
			"past the end": made(func(p *Program) { p.Labels = []Label{{"a", 2}} }),
			"far":          made(func(p *Program) { p.Labels = []Label{{"a", math.MaxInt}} }),
		},
		map[string]source{
			"start": made(func(p *Program) { p.Labels = []Label{{"a", 0}} }),
			"end":   made(func(p *Program) { p.Labels = []Label{{"a", 1}} }),
		}},
	{"decl",
		map[string]source{
			"slot pred":  made(func(p *Program) { p.Slots = []Slot{{"a", Pred}} }),
			"slot none":  made(func(p *Program) { p.Slots = []Slot{{"a", NoType}} }),
			"param wild": made(func(p *Program) { p.Params = []Param{{"a", 200}} }),
			"table T":    made(func(p *Program) { p.Data = []Data{{"a", TypeT, []uint64{1}}} }),
			"value":      made(func(p *Program) { p.Data = []Data{{"a", I8, []uint64{0x100}}} }),
			"boundary":   made(func(p *Program) { p.Slots = []Slot{{BoundarySlot, U16}} }),
		},
		map[string]source{
			"types":    made(func(p *Program) { p.Slots, p.Params = []Slot{{"a", I8}}, []Param{{"b", F64}} }),
			"value":    made(func(p *Program) { p.Data = []Data{{"a", I8, []uint64{0xff}}, {"b", U64, []uint64{math.MaxUint64}}} }),
			"boundary": made(func(p *Program) { p.Slots = []Slot{{BoundarySlot, U8}} }),
		}},
	{"block",
		map[string]source{
			"too many": made(func(p *Program) { p.Block = [3]uint32{32, 33, 1} }),
			"a zero":   made(func(p *Program) { p.Block = [3]uint32{32, 0, 0} }),
			"wraps":    made(func(p *Program) { p.Block = [3]uint32{1 << 31, 1 << 31, 4} }),
		},
		map[string]source{
			"1024": made(func(p *Program) { p.Block = [3]uint32{32, 16, 2} }),
			"any":  declared(""),
		}},
	{"op",
		map[string]source{
			"none": made(func(p *Program) { p.Insts[0] = Inst{} }),
			"past": made(func(p *Program) { p.Insts[0] = Inst{Op: NumOps} }),
			"wild": made(func(p *Program) { p.Insts = append(p.Insts, Inst{Op: math.MaxUint16}) }),
		},
		map[string]source{"last": text("mov.u64 h, 0\nmov.u64 o, 0\npool_alloc h, 8\npool_store.f32 0, h, o\nexit")}},
	{"form",
		map[string]source{
			"no type":       edited("mov.f32 x, 0\nexit", func(p *Program) { p.Insts[0].Type = NoType }),
			"wild type":     edited("mov.f32 x, 0\nexit", func(p *Program) { p.Insts[0].Type = 99 }),
			"not in row":    edited("popc.u32 x, 1\nexit", func(p *Program) { p.Insts[0].Type = F32 }),
			"type on exit":  made(func(p *Program) { p.Insts[0].Type = F32 }),
			"from on mov":   edited("mov.f32 x, 0\nexit", func(p *Program) { p.Insts[0].From = F32 }),
			"no from":       edited("cvt.f32.u8 x, 0\nexit", func(p *Program) { p.Insts[0].From = NoType }),
			"no cond":       edited("set.eq.f32 p, 0, 0\nexit", func(p *Program) { p.Insts[0].Cond = NoCond }),
			"wild cond":     edited("set.eq.f32 p, 0, 0\nexit", func(p *Program) { p.Insts[0].Cond = GEU + 1 }),
			"cond on add":   edited("add.f32 x, 0, 0\nexit", func(p *Program) { p.Insts[0].Cond = EQ }),
			"ltu signed":    edited("set.lt.i32 p, 0, 0\nexit", func(p *Program) { p.Insts[0].Cond = LTU }),
			"geu float":     edited("set.lt.f32 p, 0, 0\nexit", func(p *Program) { p.Insts[0].Cond = GEU }),
			"bitcast width": edited("bitcast.u32.f32 x, 0\nexit", func(p *Program) { p.Insts[0].From = F64 }),
		},
		map[string]source{
			"mov pred": text("mov.pred p, true\nexit"),
			"cvt":      text("cvt.f32.u8 x, 0\nexit"),
			"ltu":      text("set.ltu.u32 p, 0, 0\nset.geu.u8 p, 0, 0\nset.lt.i8 p, 0, 0\nexit"),
			"bitcast":  text("bitcast.bf16.i16 x, 0\nexit"),
		}},
	{"operand",
		map[string]source{
			"left out":       edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1] = Arg{} })),
			"too many":       edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[4] = Arg{Kind: ArgImm} })),
			"wild kind":      edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1] = Arg{Kind: 200} })),
			"predicate dst":  edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Kind = ArgPred })),
			"register dst":   edited("mov.pred p, true\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Kind = ArgReg })),
			"immediate dst":  edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Kind = ArgImm })),
			"negated dst":    edited("mov.pred p, true\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Not = true })),
			"negated reg":    edited("mov.f32 r0, r252\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Not = true })),
			"register imm":   edited("bar_sync 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0] = Arg{Kind: ArgReg, Reg: 252} })),
			"register label": edited("bra a\na: exit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Kind = ArgReg })),
			"slot as shared": edited("slot a f32\nlds.f32 x, shared[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Mode = AddrByte })),
			"shared as slot": edited("slot a f32\nldg.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Mode = AddrShared })),
			"no mode":        edited("slot a f32\nldg.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Mode = 0 })),
			"flat shared":    edited("slot a f32\nshared 4\nlds.f32 x, shared[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Mode = AddrFlat })),
			"wild mode":      edited("slot a f32\nldg.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Mode = 9 })),
			"index + 4":      edited("slot a f32\nldg.f32 x, a[index]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 4 })),
			"index + r":      edited("slot a f32\nldg.f32 x, a[index]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].HasReg = true })),
			"parameter name": edited("param a f32\nldp.f32 x, a\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Kind = ArgData })),
			"table name":     edited("data a f32 { 1 }\nldc.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Kind = ArgParam })),
			"special":        edited("sreg x, n\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Kind = ArgImm })),
			"scope":          edited("mem_fence block\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Kind = ArgImm })),
		},
		map[string]source{
			"optional": text("mov.pred p, true\nbra a, !p\nbra a\na: exit"),
			"either":   text("slot a u32\nshared 4\natom_add.u32 x, a[0], 1\natom_add.u32 x, shared[0], x\nexit"),
			"negated":  text("mov.pred p, true\nand.pred p, !p, true\nsel.f32 x, !p, 0, 1\nexit"),
		}},
	{"imm",
		map[string]source{
			"u8":        edited("mov.u8 x, 255\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 256 })),
			"i8":        edited("mov.i8 x, -1\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.MaxUint64 })),
			"f32":       edited("mov.f32 x, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 1 << 32 })),
			"pred":      edited("mov.pred x, true\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 2 })),
			"loop":      edited("loop 1, end\nend: exit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Bits = 1 << 32 })),
			"barrier":   edited("bar_sync 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Bits = 256 })),
			"flat":      text("slot a f32\nldg.f32 x, a[flat r255 + 281474976710656]\nexit"),
			"flat, low": text("slot a f32\nldg.f32 x, a[flat r255 - 281474976710656]\nexit"),
			"flat -1":   edited("slot a f32\nldg.f32 x, a[flat 1]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = ^uint64(0) })),
			"neighbour": edited("nbr_get x, 1, 1\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[2].Bits = 256 })),
		},
		map[string]source{
			"all bits": text("mov.i8 x, -1\nmov.u64 x, 0xffffffffffffffff\nmov.pred p, true\nbar_sync 255\nexit"),
			"mov_imm":  text("mov_imm.u8 x, 0xffffffffffffffff\nexit"),
			"flat":     text("slot a f32\nldg.f32 x, a[flat r255 + 281474976710655]\nldg.f32 x, a[flat r255 - 281474976710655]\nldg.f32 x, a[flat 0]\nexit"),
			"index":    text("data t u8 { 1 }\nldc.u8 x, t[-1]\nexit"),
			"loop":     edited("loop 1, end\nend: exit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Bits = 1<<32 - 1 })),
		}},
	{"ref",
		map[string]source{
			"slot":         edited("slot a f32\nldg.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Slot = 1 })),
			"no slot":      edited("slot a f32\nldg.f32 x, @r255[0]\nexit", func(p *Program) { p.Slots = nil }),
			"parameter":    edited("param a f32\nldp.f32 x, a\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 1 })),
			"table":        edited("data a f32 { 1 }\nldc.f32 x, a[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.MaxUint64 })),
			"label":        edited("bra a\na: exit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Bits = 1 })),
			"predicate":    edited("mov.pred p, true\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Reg = 16 })),
			"special":      edited("sreg x, n\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = uint64(NumSpecials) })),
			"special wrap": edited("sreg x, n\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 256 })),
			"scope":        edited("mem_fence block\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[0].Bits = 4 })),
		},
		map[string]source{
			"last":     text("mov.pred p15, true\nsreg x, n\nmem_fence system\nmov.f32 r255, 0\nexit"),
			"indirect": text("slot a f32\nldg.f32 x, @r255[0]\nexit"),
		}},
	{"access",
		map[string]source{
			"parameter":     edited("param a f32\nldp.f32 x, a\nexit", func(p *Program) { p.Params[0].Type = I32 }),
			"table":         edited("data a f32 { 1 }\nldc.f32 x, a[0]\nexit", func(p *Program) { p.Data[0].Type = U32 }),
			"load":          text("slot a f32\nldg.i32 x, a[0]\nexit"),
			"store":         text("slot a f32\nstg.f64 0, a[index]\nexit"),
			"atomic":        text("slot a f32\natom_add.u32 x, a[0], 1\nexit"),
			"u8 by number":  text("slot a u8\nldg.f32 x, a[flat 0]\nexit"),
			"u8 by index":   text("slot a u8\nldg.f32 x, a[index]\nexit"),
			"bounds, index": text("slot boundary u8\nldg.f32 x, boundary[index]\nexit"),
		},
		map[string]source{
			"same":     text("slot a f32\nparam b f16\ndata c i8 { 1 }\nldg.f32 x, a[index]\nldp.f16 x, b\nldc.i8 x, c[0]\nexit"),
			"u8 bytes": text("slot a u8\nldg.f32 x, a[0]\nldg.f64 x, a[r255 + 1]\nldg.u8 x, a[index]\nexit"),
			"handle":   text("slot a u8\nldg.f32 x, @r255[0]\nexit"),
		}},
	{"shared",
		map[string]source{
			"none":       text("lds.u8 x, shared[0]\nexit"),
			"too small":  text("shared 3\nlds.f32 x, shared[r255]\nexit"),
			"past":       text("shared 16\nsts.f32 0, shared[13]\nexit"),
			"before":     text("shared 16\nlds.f32 x, shared[-1]\nexit"),
			"atomic":     text("shared 16\natom_add.u64 x, shared[9], 1\nexit"),
			"far":        edited("shared 16\nlds.f32 x, shared[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.MaxInt64 })),
			"far before": edited("shared 16\nlds.f32 x, shared[0]\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = 1 << 63 })),
		},
		map[string]source{
			"last":     text("shared 16\nsts.f32 0, shared[12]\nlds.u8 x, shared[15]\nexit"),
			"register": text("shared 16\nlds.f32 x, shared[r255 + 1000]\nexit"),
		}},
	{"phi",
		map[string]source{
			"class": edited("ldg.u8 x, phi(95, 47, 255)\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits++ })),
			"below": edited("ldg.u8 x, phi(0, 0, 0)\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits-- })),
			"end":   text("ldg.f32 x, phi(95, 47, 253)\nexit"),
			"slot":  edited("slot a u8\nldg.u8 x, phi(0, 0, 0)\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Slot = 0 })),
		},
		map[string]source{
			"last": text("ldg.u8 x, phi(95, 47, 255)\nldg.f32 x, phi(95, 47, 252)\nexit"),
			"slot": text("slot boundary u8\nslot a u8\nldg.u8 x, phi(0, 0, 0)\nexit"),
		}},
	{"reduce",
		map[string]source{
			"none": edited("reduce_add.u32 x, r252, 1\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[2].Bits = 0 })),
			"past": edited("reduce_add.u32 x, r252, 1\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[2].Bits = 5 })),
			"far":  edited("reduce_add.u32 x, r252, 1\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[2].Bits = 1<<32 - 1 })),
		},
		map[string]source{
			"all": text(named(252, "mov.u32 r%d, 1") + "mov.u32 r255, 1\nreduce_max.u32 r9, r0, 256\nexit"),
			"one": text("reduce_min.u64 x, r255, 1\nexit"),
		}},
	{"epsilon",
		map[string]source{
			"negative": edited("unity_test p, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.Float64bits(-1) })),
			"infinite": edited("unity_test p, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.Float64bits(math.Inf(1)) })),
			"nan":      edited("unity_test p, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.Float64bits(math.NaN()) })),
		},
		map[string]source{
			"zero": text("unity_test p, 0\nexit"),
			"huge": edited("unity_test p, 0\nexit", firstArgs(func(a *[MaxOperands]Arg) { a[1].Bits = math.Float64bits(math.MaxFloat64) })),
		}},
	{"loop",
		map[string]source{
			"backward": text("end: mem_fence block\nloop 1, end\nexit"),
			"itself":   text("end: loop 1, end\nexit"),
			"crossing": text("loop 1, a\nloop 1, b\na: mem_fence block\nb: exit"),
			"dead":     text("exit\nend: loop 1, end"),
		},
		map[string]source{
			"empty":    text("loop 1, end\nend: exit"),
			"same end": text("loop 1, a\nloop 1, a\nmem_fence block\na: exit"),
			"in turn":  text("loop 1, a\nmem_fence block\na: loop 1, b\nmem_fence block\nb: exit"),
		}},
	{"nest",
		map[string]source{
			"counted": text(repeated(MaxLoopDepth+1, "loop 1, end") + "mem_fence block\nend: exit"),
			"called":  text(repeated(MaxLoopDepth, "loop 1, end") + "call f\nend: exit\nf: loop 1, g\nmem_fence block\ng: ret"),
			"branches": text("mov.pred p, true\n" + named(MaxLoopDepth+1, "a%d: mem_fence block") +
				numbered(MaxLoopDepth+1, func(i int) string { return fmt.Sprintf("bra a%d, p", MaxLoopDepth-i) }) + "exit"),
		},
		map[string]source{
			"counted": text(repeated(MaxLoopDepth, "loop 1, end") + "mem_fence block\nend: exit"),
			"called":  text(repeated(MaxLoopDepth-1, "loop 1, end") + "call f\nend: exit\nf: loop 1, g\nmem_fence block\ng: ret"),
			"branches": text("mov.pred p, true\n" + named(MaxLoopDepth, "a%d: mem_fence block") +
				numbered(MaxLoopDepth, func(i int) string { return fmt.Sprintf("bra a%d, p", MaxLoopDepth-1-i) }) + "exit"),
			"in turn": text(numbered(3*MaxLoopDepth, func(i int) string { return fmt.Sprintf("loop 1, e%d\nmem_fence block\ne%d:", i, i) }) + "exit"),
		}},
	{"enter",
		map[string]source{
			"branch":       text("bra a\nloop 1, end\na: mem_fence block\nend: exit"),
			"from behind":  text("loop 1, end\na: mem_fence block\nend: bra a"),
			"inner":        text("loop 1, end\nbra a\nloop 1, end\na: mem_fence block\nend: exit"),
			"call":         text("call a\nexit\nloop 1, end\na: mem_fence block\nend: exit"),
			"call in body": text("loop 1, end\ncall a\nbra end\na: ret\nend: exit"),
			"next":         text("bra b\nloop 1, end\na: mem_fence block\nend: exit\nb: bra a"),
		},
		map[string]source{
			"at LOOP":  text("bra a\na: loop 1, end\nmem_fence block\nend: exit"),
			"at end":   text("bra end\nloop 1, end\nmem_fence block\nend: exit"),
			"inside":   text("loop 1, end\nbra a\nmem_fence block\na: mem_fence block\nend: exit"),
			"out of":   text("loop 1, end\nloop 1, end\nbra out\nend: exit\nout: exit"),
			"call out": text("loop 1, end\ncall f\nend: exit\nf: ret"),
			"dead":     text("exit\nbra a\nloop 1, end\na: mem_fence block\nend: exit"),
		}},
	{"end",
		map[string]source{
			"empty":     edited("exit", func(p *Program) { p.Insts = nil }),
			"plain":     text("mem_fence block"),
			"branch":    text("bra a\na:"),
			"not taken": text("mov.pred p, true\na: bra a, p"),
			"loop":      text("loop 1, end\nmem_fence block\nend:"),
			"call":      text("bra a\nf: ret\na: call f"),
			"called":    text("call f\nexit\nf: mem_fence block"),
			"call end":  text("call f\nexit\nf:"),
		},
		map[string]source{
			"exit":     text("mem_fence block\nexit"),
			"back":     text("a: bra a"),
			"dead":     text("exit\nmem_fence block"),
			"call":     text("bra a\nf: exit\na: call f"),
			"loop":     text("a: loop 1, end\nexit\nend: bra a"),
			"and ret":  text("call f\nexit\nf: ret"),
			"no round": text("bra a\nb: exit\na: loop 1, end\nexit\nend: bra b"),
		}},
	{"ret",
		map[string]source{
			"first":     text("ret"),
			"fall into": text("call f\nf: ret"),
		},
		map[string]source{
			"called": text("call f\nexit\nf: ret"),
			"dead":   text("exit\nret"),
		}},
	{"recursion",
		map[string]source{
			"itself": text("call f\nexit\nf: call f\nret"),
			"mutual": text("call f\nexit\nf: call g\nret\ng: call f\nret"),
			"start":  text("a: call a\nexit"),
		},
		map[string]source{
			"in turn": text("call f\ncall g\ncall f\nexit\nf: call g\nret\ng: ret"),
			"dead":    text("exit\nf: call f"),
		}},
	{"depth",
		map[string]source{
			"chain":          text(chain(MaxCallDepth + 1)),
			"known before":   text("call f1\n" + chain(MaxCallDepth+1)),
			"longer way in":  text("call f1\ncall g\nexit\ng: call f0\nret\n" + chain(MaxCallDepth)[len("call f0\nexit\n"):]),
			"long recursion": text(strings.Replace(chain(MaxCallDepth+9), fmt.Sprintf("f%d: ret", MaxCallDepth+8), fmt.Sprintf("f%d: call f0\nret", MaxCallDepth+8), 1)),
		},
		map[string]source{
			"chain": text(chain(MaxCallDepth)),
			"twice": text("call f1\n" + chain(MaxCallDepth)),
		}},
	{"inline",
		map[string]source{
			"doubling": text(doubling(100, 1)),
			"long":     text("call f\n" + repeated(4, "call f") + "exit\nf:\n" + repeated(MaxInsts-7, "mem_fence block") + "ret"),
			"tails": text(numbered(1000, func(i int) string { return fmt.Sprintf("call f%d", i) }) + "exit\n" +
				numbered(1000, func(i int) string { return fmt.Sprintf("f%d: mem_fence block", i) }) + "ret"),
		},
		map[string]source{
			// 2^13 copies of 4 instructions, 3 for each call above, and two.
			"doubling": text(doubling(14, 4)),
			"long":     text(repeated(3, "call f") + "exit\nf:\n" + repeated(MaxInlined/3-5, "mem_fence block") + "ret"),
		}},
	{"reducible",
		map[string]source{
			"two entries": text("mov.pred p, true\nbra b, p\na: mem_fence block\nb: mem_fence block\nbra a, p\nexit"),
			"called":      text("mov.pred p, true\ncall f\nexit\nf: bra b, p\na: mem_fence block\nb: mem_fence block\nbra a, p\nret"),
			"by RET":      text("mov.pred p, true\nbra b, p\na: call f\nb: mem_fence block\nbra a, p\nexit\nf: ret"),
			// Entered at c in the program, and also at b in what it calls.
			"shared": text("mov.pred p, true\nbra c, p\ncall f\nf: bra c, p\nb: mem_fence block\nc: bra d, p\nbra b\nd: exit"),
		},
		map[string]source{
			"one entry":  text("mov.pred p, true\nbra a\na: mem_fence block\nb: mem_fence block\nbra a, p\nexit"),
			"rotated":    text("mov.pred p, true\nbra b\na: mem_fence block\nb: mem_fence block\nbra a, p\nexit"),
			"two ends":   text("mov.pred p, true\na: mem_fence block\nbra a, p\nbra a, !p\nexit"),
			"into LOOP":  text("mov.pred p, true\na: loop 3, end\nbra a, p\nend: bra a, p\nexit"),
			"dead entry": text("mov.pred p, true\nbra b\nbra a\na: mem_fence block\nb: mem_fence block\nbra a, p\nexit"),
			"by RET":     text("mov.pred p, true\nbra b\na: call f\nb: mem_fence block\nbra a, p\nexit\nf: ret"),
			"two calls":  text("mov.pred p, true\nbra b\na: call f\ncall f\nb: mem_fence block\nbra a, p\nexit\nf: ret"),
			// Entered at c in the program, at b in what it calls.
			"shared apart": text("mov.pred p, true\nbra c, p\ncall b\nb: mem_fence block\nc: loop 0, d\nbra b, p\nd: exit"),
		}},
	{"init",
		map[string]source{
			"never":       text("add.f32 x, y, 1\nexit"),
			"itself":      text("add.f32 x, x, 1\nexit"),
			"one path":    text("mov.pred p, true\nbra a, p\nmov.f32 x, 1\na: add.f32 y, x, 1\nexit"),
			"no round":    text("loop 1, end\nmov.f32 x, 1\nend: add.f32 y, x, 1\nexit"),
			"next round":  text("loop 2, end\nadd.f32 y, x, 1\nmov.f32 x, 1\nend: exit"),
			"predicate":   text("bra a, p\na: mem_fence block\nbra b, q\nb: exit"),
			"one way":     text("mov.pred p, true\nbra a, p\nmov.pred q, true\na: bra b, q\nb: exit"),
			"sel":         text("sel.f32 x, p, 0, 1\nexit"),
			"count":       text("loop n, end\nend: mem_fence block\nexit"),
			"address":     text("slot a f32\nldg.f32 x, a[r]\nexit"),
			"element":     text("slot a f32\nldg.f32 x, a[flat r]\nexit"),
			"to element":  text("slot a f32\nstg.f32 1, a[flat r + 1]\nexit"),
			"indirect":    text("slot a f32\nmov.u32 h, 0\nldg.f32 x, @h[r]\nexit"),
			"shared":      text("shared 4\nlds.f32 x, shared[r]\nexit"),
			"handle":      text("slot a f32\nldg.f32 x, @h[0]\nexit"),
			"store":       text("slot a f32\nstg.f32 x, a[0]\nexit"),
			"reduce":      text("mov.f32 r0, 1\nreduce_add.f32 x, r0, 2\nexit"),
			"one call":    text("call f\nmov.f32 x, 1\ncall f\nexit\nf: add.f32 y, x, 1\nret"),
			"below r252":  text("mov.u32 r0, r251\nexit"),
			"after alike": text("mov.pred p, true\nbra a, q\na: exit"),
		},
		map[string]source{
			"both paths":  text("mov.pred p, true\nbra a, p\nmov.f32 x, 1\nbra b\na: mov.f32 x, 2\nb: add.f32 y, x, 1\nexit"),
			"other path":  text("mov.pred p, true\nbra a, p\nmov.f32 x, 1\nadd.f32 y, x, 1\na: exit"),
			"every round": text("loop 1, end\nmov.f32 x, 1\nadd.f32 y, x, 1\nend: exit"),
			"preset":      text("add.u32 x, r252, r253\nadd.u32 x, x, r254\nmov.u64 x, r255\nexit"),
			"by a call":   text("call f\nadd.f32 y, x, 1\nexit\nf: mov.f32 x, 1\nret"),
			"dead":        text("exit\nadd.f32 y, x, 1"),
			"exit":        text("mov.pred p, true\nbra a, p\nmov.f32 x, 1\nbra b\na: exit\nb: add.f32 y, x, 1\nexit"),
		}},
	{"regtype",
		map[string]source{
			"plain":       text("mov.f32 x, 1\nadd.i32 y, x, 1\nexit"),
			"sign":        text("mov.u32 x, 1\nadd.i32 y, x, 1\nexit"),
			"by path":     text("mov.pred p, true\nmov.i32 x, 0\nbra a, p\nmov.f32 x, 1\na: add.f32 y, x, 1\nexit"),
			"by round":    text("mov.f32 x, 0\nloop 2, end\nadd.f32 x, x, 1\nmov.i32 x, 1\nend: exit"),
			"address":     text("slot a f32\nmov.i16 r, 0\nldg.f32 x, a[r]\nexit"),
			"element":     text("slot a f32\nmov.f32 r, 0\nldg.f32 x, a[flat r]\nexit"),
			"narrow":      text("slot a f32\nmov.u16 r, 0\natom_add.f32 x, a[flat r + 1], 1\nexit"),
			"indirect":    text("slot a f32\nmov.u32 h, 0\nmov.f64 r, 0\nldg.f32 x, @h[r]\nexit"),
			"float":       text("shared 4\nmov.f32 r, 0\nlds.f32 x, shared[r]\nexit"),
			"handle":      text("slot a f32\nmov.u8 h, 0\nldg.f32 x, @h[0]\nexit"),
			"index":       text("data t f32 { 1 }\nmov.u16 i, 0\nldc.f32 x, t[i]\nexit"),
			"count":       text("mov.i32 n, 1\nloop n, end\nend: exit"),
			"preset":      text("mov.i32 x, r252\nexit"),
			"overwritten": text("mov.f32 r252, 0\nmov.u32 x, r252\nexit"),
			"cvt":         text("mov.f32 x, 0\ncvt.f64.f16 y, x\nexit"),
			"reduce":      text("mov.f32 r0, 1\nmov.f64 r1, 1\nreduce_add.f32 x, r0, 2\nexit"),
			"one call":    text("mov.f32 x, 1\ncall f\nmov.f64 x, 1\ncall f\nexit\nf: add.f32 y, x, 1\nret"),
		},
		map[string]source{
			"retyped":     text("mov.i32 x, 0\nmov.f32 x, 1\nadd.f32 x, x, 1\nexit"),
			"unread":      text("mov.pred p, true\nmov.i32 x, 0\nbra a, p\nmov.f32 x, 1\na: exit"),
			"wide":        text("slot a f32\nmov.i32 r, 0\nldg.f32 x, a[r]\nmov.u64 r, 0\nldg.f32 x, a[r + 4]\nmov.i64 r, 0\nldg.f32 x, @r[r252]\nexit"),
			"elements":    text("slot a f32\nmov.i32 r, 0\nldg.f32 x, a[flat r]\nmov.u64 r, 0\nldg.f32 x, a[flat r + 4]\nmov.i64 r, 0\nstg.f32 x, a[flat r]\nldg.f32 x, a[flat r252]\nexit"),
			"count":       text("mov.u32 n, 1\nloop n, end\nend: exit"),
			"overwritten": text("mov.f32 r252, 0\nmov.f32 x, r252\nexit"),
			"two calls":   text("mov.f32 x, 1\ncall f\nadd.f32 y, x, y\nmov.f64 x, 1\ncall f\nexit\nf: mov.f32 y, 1\nret"),
		}},
	{"pool",
		map[string]source{
			"one":  text(fmt.Sprintf("pool_alloc h, %d\nexit", MaxPoolBytes+1)),
			"sum":  text(fmt.Sprintf("pool_alloc h, %d\npool_alloc h, 1\nexit", MaxPoolBytes)),
			"huge": text("pool_alloc h, 1\npool_alloc h, 0xffffffffffffffff\nexit"),
		},
		map[string]source{
			"all":   text(fmt.Sprintf("pool_alloc h, %d\npool_alloc h, 1\nexit", MaxPoolBytes-1)),
			"calls": text(fmt.Sprintf("call f\ncall f\nexit\nf: pool_alloc h, %d\nret", MaxPoolBytes)),
			"dead":  text(fmt.Sprintf("pool_alloc h, %d\nexit\npool_alloc h, 1", MaxPoolBytes)),
		}},
	{"uniform", badUniform, goodUniform},
}

func repeatInst(in Inst, n int) []Inst {
	l := make([]Inst, n)
	for i := range l {
		l[i] = in
	}
	return l
}

func manyLabels(n int) (l []Label) {
	for i := range n {
		l = append(l, Label{fmt.Sprintf("l%d", i), 0})
	}
	return l
}

func manySlots(n int) (l []Slot) {
	for i := range n {
		l = append(l, Slot{fmt.Sprintf("s%d", i), F32})
	}
	return l
}

func manyParams(n int) (l []Param) {
	for i := range n {
		l = append(l, Param{fmt.Sprintf("q%d", i), F32})
	}
	return l
}

func manyTables(n, bytes int) (l []Data) {
	for i := range n {
		l = append(l, Data{fmt.Sprintf("d%d", i), U8, make([]uint64, bytes)})
	}
	return l
}

func TestRules(t *testing.T) {
	for _, r := range ruleTests {
		t.Run(r.rule, func(t *testing.T) {
			if len(r.bad) == 0 || len(r.good) == 0 {
				t.Fatal("no programs")
			}
			for name, s := range r.bad {
				_, err := Verify(s.program(t))
				var e *VerifyError
				if !errors.As(err, &e) {
					t.Errorf("bad %q: error %v", name, err)
				} else if e.Rule != r.rule {
					t.Errorf("bad %q breaks rule %s: %v", name, e.Rule, err)
				}
			}
			for name, s := range r.good {
				v, err := Verify(s.program(t))
				if err != nil {
					t.Errorf("good %q: %v", name, err)
					continue
				}
				if err := checkVerified(v); err != nil {
					t.Errorf("good %q: %v", name, err)
				}
			}
		})
	}
}

// TestRulesListed compares the rules that the doc of Verify lists, those that
// the code names and those tested.
func TestRulesListed(t *testing.T) {
	count := map[string]int{}
	doc, err := os.ReadFile("verify.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^//   - (\w+):`).FindAllSubmatch(doc, -1) {
		count[string(m[1])] |= 1
	}
	for _, file := range []string{"verify.go", "verify_decl.go", "verify_inst.go", "verify_flow.go", "verify_slots.go", "cfg.go", "inline.go", "uniform.go"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`fail(?:f)?\("(\w+)"`).FindAllSubmatch(code, -1) {
			count[string(m[1])] |= 2
		}
	}
	for _, r := range ruleTests {
		count[r.rule] |= 4
	}
	for rule, c := range count {
		if c != 7 {
			t.Errorf("rule %s: documented %v, in the code %v, tested %v", rule, c&1 != 0, c&2 != 0, c&4 != 0)
		}
	}
}
