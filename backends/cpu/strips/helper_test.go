package strips

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// tree builds an ir.Func by hand.
type tree struct {
	f     *ir.Func
	nodes *[]*ir.Node // of the region at hand
}

// newTree starts a function with slots of the given types, all used by index.
func newTree(slots ...isa.Type) *tree {
	t := &tree{f: &ir.Func{SlotTypes: slots, Body: &ir.Region{}}}
	for range slots {
		t.f.Slots = append(t.f.Slots, isa.SlotUse{Reads: true, Indexed: true})
	}
	t.nodes = &t.f.Body.Nodes
	return t
}

func (t *tree) node(n *ir.Node, results ...isa.Type) *ir.Value {
	for i, rt := range results {
		n.Results = append(n.Results, &ir.Value{ID: t.f.NumValues, Type: rt, Node: n, Index: uint16(i)})
		t.f.NumValues++
	}
	if !n.Op.IsInst() && n.Op != ir.Loop {
		n.Site = -1
	} else {
		n.Site = len(t.f.Sites)
		t.f.Sites = append(t.f.Sites, n)
	}
	*t.nodes = append(*t.nodes, n)
	return n.Result()
}

func (t *tree) constant(ty isa.Type, bits uint64) *ir.Value {
	return t.node(&ir.Node{Op: ir.Const, Form: isa.Form{Type: ty}, Imm: bits}, ty)
}

func (t *tree) op(op isa.Op, form isa.Form, result isa.Type, args ...*ir.Value) *ir.Value {
	return t.node(&ir.Node{Op: ir.Op(op), Form: form, Args: args}, result)
}

func (t *tree) bin(op isa.Op, a, b *ir.Value) *ir.Value {
	return t.op(op, isa.Form{Type: a.Type}, a.Type, a, b)
}

func (t *tree) set(c isa.Cond, a, b *ir.Value) *ir.Value {
	return t.op(isa.SET, isa.Form{Type: a.Type, Cond: c}, isa.Pred, a, b)
}

func (t *tree) load(slot int) *ir.Value {
	ty := t.f.SlotTypes[slot]
	return t.node(&ir.Node{Op: ir.Op(isa.LDG), Form: isa.Form{Type: ty}, Mem: ir.Mem{Mode: isa.AddrIndex, Slot: slot}}, ty)
}

func (t *tree) store(slot int, v *ir.Value) {
	t.f.Slots[slot].Writes = true
	t.node(&ir.Node{Op: ir.Op(isa.STG), Form: isa.Form{Type: v.Type}, Mem: ir.Mem{Mode: isa.AddrIndex, Slot: slot}, Args: []*ir.Value{v}})
}

// kept holds what views refer to, which the collector can't see. A test that
// makes many views empties it from time to time.
var kept []any

func view[T any](ty isa.Type, x []T) backends.View {
	kept = append(kept, x)
	v := backends.View{Type: ty, Rank: 1}
	if len(x) > 0 {
		v.Addr = uintptr(unsafe.Pointer(&x[0]))
	}
	v.Bytes = int64(len(x)) * int64(ty.Size())
	v.Shape[0], v.Stride[0] = int64(len(x)), 1
	return v
}

// flat is a launch over n elements in blocks of the given size.
func flat(n, block int, views ...backends.View) *backends.Launch {
	l := &backends.Launch{Slots: views, Rank: 1, N: uint64(n),
		Grid: [3]uint32{uint32((n + block - 1) / block), 1, 1}, Block: [3]uint32{uint32(block), 1, 1}}
	l.Shape[0] = int64(n)
	return l
}

// cells puts cells into memory of a type, and back.
func pack(t isa.Type, cells []uint64) []byte {
	b := make([]byte, len(cells)*t.Size()+1)[:len(cells)*t.Size()]
	for i, c := range cells {
		storeCell(t.Size(), unsafe.Pointer(&b[i*t.Size()]), c)
	}
	return b
}

func unpack(t isa.Type, b []byte) []uint64 {
	cells := make([]uint64, len(b)/t.Size())
	for i := range cells {
		cells[i] = loadCell(t.Size(), unsafe.Pointer(&b[i*t.Size()]))
	}
	return cells
}

func bytesView(ty isa.Type, b []byte) backends.View {
	v := view(isa.U8, b)
	v.Type, v.Shape[0] = ty, int64(len(b)/ty.Size())
	return v
}

func mustCompile(t testing.TB, f *ir.Func) *Kernel {
	t.Helper()
	k, err := Compile(f)
	require.NoError(t, err)
	return k
}

var alone = workers.New(1)

// isNaN reports whether a cell is a NaN of type t.
func isNaN(t isa.Type, cell uint64) bool {
	if !t.Float() {
		return false
	}
	m := uint64(1)<<t.MantissaBits() - 1
	e := uint64(1)<<t.ExponentBits() - 1
	return cell>>t.MantissaBits()&e == e && cell&m != 0
}

func sameCell(t isa.Type, a, b uint64) bool {
	return a == b || isNaN(t, a) && isNaN(t, b)
}
