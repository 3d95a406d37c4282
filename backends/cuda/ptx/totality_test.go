package ptx

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
)

// tree builds an ir.Func by hand.
type tree struct{ f *ir.Func }

func (t *tree) node(n *ir.Node, results ...isa.Type) *ir.Value {
	for i, rt := range results {
		n.Results = append(n.Results, &ir.Value{ID: t.f.NumValues, Type: rt, Node: n, Index: uint16(i)})
		t.f.NumValues++
	}
	n.Site = -1
	if n.Op.IsInst() {
		n.Site = len(t.f.Sites)
		t.f.Sites = append(t.f.Sites, n)
	}
	t.f.Body.Nodes = append(t.f.Body.Nodes, n)
	return n.Result()
}

// operand is a value of a type: a constant, or one that only the launch knows.
func (t *tree) operand(ty isa.Type, constant bool) *ir.Value {
	if constant {
		cell := uint64(3)
		if ty == isa.Pred {
			cell = 1
		}
		return t.node(&ir.Node{Op: ir.Const, Form: isa.Form{Type: ty}, Imm: cell}, ty)
	}
	if ty == isa.Pred {
		a, b := t.operand(isa.U8, false), t.operand(isa.U8, true)
		return t.node(&ir.Node{Op: ir.Op(isa.SET), Form: isa.Form{Type: isa.U8, Cond: isa.LT}, Args: []*ir.Value{a, b}}, isa.Pred)
	}
	t.f.ParamTypes = append(t.f.ParamTypes, ty)
	return t.node(&ir.Node{Op: ir.Op(isa.LDP), Form: isa.Form{Type: ty}, Imm: uint64(len(t.f.ParamTypes) - 1)}, ty)
}

// keep stores a value, so that ptxas doesn't drop what made it.
func (t *tree) keep(v *ir.Value) {
	if v.Type == isa.Pred {
		one, none := t.operand(isa.U8, true), t.operand(isa.U8, false)
		v = t.node(&ir.Node{Op: ir.Op(isa.SEL), Form: isa.Form{Type: isa.U8}, Args: []*ir.Value{v, one, none}}, isa.U8)
	}
	t.node(&ir.Node{Op: ir.Op(isa.STG), Form: isa.Form{Type: v.Type}, Mem: ir.Mem{Mode: isa.AddrByte, Slot: 1, Offset: 24}, Args: []*ir.Value{v}})
}

// modes are the ways an instruction may address memory.
func modes(row *isa.Row) []isa.AddrMode {
	for _, o := range row.Operands {
		switch o.Kind {
		case isa.Mem:
			return []isa.AddrMode{isa.AddrIndex, isa.AddrByte, isa.AddrIndirect}
		case isa.SharedMem:
			return []isa.AddrMode{isa.AddrShared}
		case isa.AnyMem:
			return []isa.AddrMode{isa.AddrByte, isa.AddrIndex, isa.AddrShared, isa.AddrIndirect}
		}
	}
	return []isa.AddrMode{0}
}

// single is a function of one instruction alone.
func single(op isa.Op, row *isa.Row, form isa.Form, mode isa.AddrMode, index isa.Type, constant bool) *ir.Func {
	slot := form.Type
	if !slot.Numeric() {
		slot = isa.U8
	}
	t := &tree{&ir.Func{
		Slots:     []isa.SlotUse{{Reads: true, Writes: true, Indexed: true, Bytes: true}, {Writes: true, Bytes: true}},
		SlotTypes: []isa.Type{slot, isa.U8}, Shared: 64, Body: &ir.Region{},
		Data: []isa.Data{{Type: slot, Values: []uint64{1, 2}}},
	}}
	n := &ir.Node{Op: ir.Op(op), Form: form}
	var results []isa.Type
	if op == isa.POOL_LOAD || op == isa.POOL_STORE || op == isa.POOL_FREE {
		t.keep(t.node(&ir.Node{Op: ir.Op(isa.POOL_ALLOC), Imm: 16}, isa.U64))
	}
	for _, o := range row.Operands {
		ty := o.Type
		switch ty {
		case isa.TypeT:
			ty = form.Type
		case isa.TypeFrom:
			ty = form.From
		case isa.TypeAnyInt:
			ty = index
		case isa.TypeNamedT:
			ty = isa.U32
		}
		switch o.Kind {
		case isa.Dst, isa.PredDst:
			results = append(results, ty)
		case isa.Mem, isa.SharedMem, isa.AnyMem:
			n.Mem = ir.Mem{Mode: mode, HasOff: mode != isa.AddrIndex, Offset: 3}
			if mode == isa.AddrIndirect {
				n.Args = append(n.Args, t.operand(isa.I64, constant))
			}
			if n.Mem.HasOff {
				n.Args = append(n.Args, t.operand(isa.I64, constant))
			}
		}
	}
	for _, o := range row.Operands {
		ty := o.Type
		switch {
		case ty == isa.TypeT:
			ty = form.Type
		case ty == isa.TypeFrom:
			ty = form.From
		case ty == isa.TypeAnyInt:
			ty = index
		}
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc:
			n.Args = append(n.Args, t.operand(ty, constant))
		}
	}
	if op == isa.POOL_ALLOC {
		n.Imm = 8
	}
	v := t.node(n, results...)
	if v != nil {
		t.keep(v)
	}
	return t.f
}

// Every row of the table that can stand in the canonical form has a rule, for
// each type, address mode and kind of operand; and ptxas takes what it writes.
func TestTotality(t *testing.T) {
	var all []program
	for op := isa.Op(1); op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if row.Effect&(isa.Structural|isa.Control) != 0 {
			continue
		}
		forms := isatest.Forms(row)
		require.NotEmpty(t, forms)
		for _, form := range forms {
			form.Cond = form.Cond.Signed()
			if op == isa.BITCAST && form.Type.Size() != form.From.Size() {
				continue // the verifier refuses it
			}
			for _, mode := range modes(row) {
				indices := []isa.Type{isa.I64}
				if op == isa.LDC {
					indices = []isa.Type{isa.I32, isa.I64, isa.U32, isa.U64}
				}
				for _, index := range indices {
					for _, constant := range []bool{false, true} {
						p, err := Compile(single(op, row, form, mode, index, constant))
						require.NoError(t, err, "%v %v", op, form)
						if !row.Expand.Has(form.Type) { // the corpus assembles these
							all = append(all, program{name: fmt.Sprint(op, form, mode, constant), p: p})
						}
					}
				}
			}
		}
	}
	require.Greater(t, len(all), 1000)
	t.Logf("%d programs of one instruction", len(all))
	texts, _ := modules(t, all, func(*Program) []Options { return []Options{{}} })
	each(t, texts, *everywhere, nil)
}

// Every special value of the IR has a rule.
func TestSpecials(t *testing.T) {
	for s := range isa.N + 1 {
		f := &tree{&ir.Func{Slots: []isa.SlotUse{{}, {Writes: true, Bytes: true}}, SlotTypes: []isa.Type{isa.U8, isa.U8}, Body: &ir.Region{}}}
		f.keep(f.node(&ir.Node{Op: ir.Op(isa.SREG), Imm: uint64(s)}, s.Type()))
		_, err := Compile(f.f)
		require.NoError(t, err, "%v", s)
	}
}

// What has no rule is refused by name.
func TestUnsupported(t *testing.T) {
	row, _ := isa.Lookup(isa.MULHI)
	_, err := Compile(single(isa.MULHI, row, isa.Form{Type: isa.F32}, 0, isa.I64, false))
	var u *backends.Unsupported
	require.ErrorAs(t, err, &u)
	require.Equal(t, "MULHI f32", u.What)
	require.Equal(t, "cuda", u.Backend)
}

// Known multiples come through loops and conversions, and not through loads.
func TestAlignments(t *testing.T) {
	v := compiled(t, "aligned", assembled(t, `
slot a u32
slot b u32
param n u32
  ldp.u32 n, n
  sreg i, lane.x
  shl.u32 i, i, 3
  cvt.u64.u32 off, i
  loop n, done
  ldg.u32 x, a[off + 4]
  stg.u32 x, b[off + 2]
  cvt.u64.u32 x, x
  ldg.u32 x, a[x]
  stg.u32 x, b[off]
  add.u64 off, off, 64
done:
  exit`)).p
	var found []int
	var walk func(r *ir.Region)
	walk = func(r *ir.Region) {
		for _, n := range r.Nodes {
			if n.Op.IsInst() && n.Mem.HasOff {
				found = append(found, v.multiple(whole(n.Args[0], n.Mem.Offset)))
			}
			for _, s := range n.Regions {
				walk(s)
			}
		}
	}
	walk(v.fn.Body)
	slices.Sort(found)
	require.Equal(t, []int{1, 8, 8, 8}, found)
}

// A shift's amount counts modulo the width, however large it is.
func TestAlignmentOfLargeShift(t *testing.T) {
	v := assembled(t, "slot a u32\n sreg i, global_lane\n shl.u64 i, i, 0xfffffffffffffffe\n ldg.u32 x, a[i]\n stg.u32 x, a[0]\n exit")
	p := compiled(t, "shift", v, ir.Without("fold", "simplify")).p
	for v, z := range p.aligned {
		require.GreaterOrEqual(t, z, 0, "value %d", v.ID)
	}
}

func assembled(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return v
}
