package ir

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// TestEveryPartIsInTheBytes changes one part of a Func after the other: each shows in
// the canonical bytes, by which caches find code.
func TestEveryPartIsInTheBytes(t *testing.T) {
	f := canonical(t, verified(t, `program parts
slot a i32
slot b i32
slot c i32
slot m u8
param k i32
param l u32
data t i32 { 4, 5, 6 }
shared 64
  ldg.i32 x, a[index]
  ldg.i32 y, b[index]
  ldp.i32 p, k
  ldp.u32 n, l
  and.i32 o, x, 3
  ldc.i32 z, t[o]
  lds.i32 w, shared[o + 4]
  ldg.i32 v, m[o + 8]
  cvt.i64.i32 h, y
  ldg.i32 u, @h[o]
  mov.i32 s, 0
  mov.i32 r, 1
  loop n, e
    add.i32 s, s, x
    mul.i32 r, r, s
    set.lt.i32 q, s, r
    bra e, q
    stg.i32 s, m[4]
  e:
  set.lt.i32 q, s, p
  bra over, q
  stg.i32 r, m[12]
  add.i32 s, s, 5
over:
  sub.i32 s, s, z
  sub.i32 s, s, w
  sub.i32 s, s, v
  sub.i32 s, s, u
  sub.i32 s, s, r
  stg.i32 s, c[index]
  exit
`))
	was := f.Bytes()
	tried := 0
	changed := func(what string, n *Node) {
		t.Helper()
		tried++
		require.False(t, bytes.Equal(was, f.Bytes()), "%s of %v does not show\n%v", what, n, f)
	}
	number := func(what string, n *Node, x *int64) {
		*x++
		changed(what, n)
		*x--
	}
	var region func(r *Region)
	values := func(what string, n *Node, list *[]*Value, other *Value) {
		all := *list
		for i, v := range all {
			if v.ID != other.ID {
				all[i] = other
				changed(what, n)
				all[i] = v
			}
		}
		if len(all) > 0 {
			*list = all[:len(all)-1]
			changed(what, n)
			*list = all
		}
	}
	types := func(what string, n *Node, list []*Value) {
		for _, v := range list {
			v.Type ^= 1
			changed(what, n)
			v.Type ^= 1
		}
	}
	other := f.Body.Nodes[0].Results[0]
	region = func(r *Region) {
		types("a parameter's type", nil, r.Params)
		values("what a region yields", nil, &r.Yield, other)
		for i, n := range r.Nodes {
			n.Op++
			changed("the operation", n)
			n.Op--
			n.Type ^= 1
			changed("the type", n)
			n.Type ^= 1
			n.From ^= 1
			changed("the type from", n)
			n.From ^= 1
			n.Cond ^= 1
			changed("the condition", n)
			n.Cond ^= 1
			for what, flag := range map[string]*bool{"whether it is counted": &n.Counted, "whether it is free": &n.Free, "the offset in a register": &n.Mem.HasOff} {
				*flag = !*flag
				changed(what, n)
				*flag = !*flag
			}
			n.Imm++
			changed("the static operand", n)
			n.Imm--
			if n.Mem.Mode != 0 {
				n.Mem.Mode ^= 1
				changed("the mode", n)
				n.Mem.Mode ^= 1
				n.Mem.Slot++
				changed("the slot", n)
				n.Mem.Slot--
				number("the offset", n, &n.Mem.Offset)
			}
			values("an operand", n, &n.Args, other)
			types("a result's type", n, n.Results)
			for _, s := range n.Regions {
				region(s)
			}
			if all := r.Nodes; i == len(all)-1 {
				r.Nodes = all[:i]
				changed("the last node", n)
				r.Nodes = all
			}
		}
	}
	region(f.Body)
	for what, list := range map[string][]isa.Type{"a slot": f.SlotTypes, "a parameter": f.ParamTypes} {
		for i := range list {
			list[i] ^= 1
			changed("the type of "+what, nil)
			list[i] ^= 1
		}
	}
	d := &f.Data[0]
	d.Type ^= 1
	changed("a table's type", nil)
	d.Type ^= 1
	for i := range d.Values {
		d.Values[i]++
		changed("a table's value", nil)
		d.Values[i]--
	}
	f.Shared++
	changed("shared memory", nil)
	f.Shared--
	for i := range f.Block {
		f.Block[i]++
		changed("the block", nil)
		f.Block[i]--
	}
	require.Equal(t, was, f.Bytes())
	require.Greater(t, tried, 300)
}
