package cuda_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// run is one launch: the memory of each slot before it, and how it is seen.
type run struct {
	text        string
	grid, block [3]uint32
	shape       []int64
	n           uint64 // 0: the shape's
	fuel        uint64
	params      []uint64
	slots       []slotData
}

// slotData is a slot's memory. Without strides the view is flat.
type slotData struct {
	bytes   []byte
	at      int // where element 0 lies
	strides []int64
}

// result is what a launch leaves.
type result struct {
	slots   [][]byte
	residue [isa.NumClasses]uint64
	phase   uint16
	err     error
}

func verified(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return v
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// settle waits for the outcome of queued work.
func settle(e backends.Event, err error) error {
	for e != nil {
		if err = e.Wait(time.Second); !errors.Is(err, backends.ErrPending) {
			break
		}
	}
	return err
}

// on runs r on a backend.
func (r *run) on(t testing.TB, b backends.Backend) *result {
	t.Helper()
	v := verified(t, r.text)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	d, err := b.Open(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()})
	require.NoError(t, err)
	defer k.Release()
	res := &result{phase: 700}
	l := &backends.Launch{Grid: r.grid, Block: r.block, Rank: len(r.shape), N: 1, Fuel: r.fuel, Params: r.params,
		Residue: &res.residue, Phase: &res.phase}
	for i, n := range r.shape {
		l.Shape[i] = n
		l.N *= uint64(n)
	}
	if r.n > 0 {
		l.N = r.n
	}
	var memory []backends.Memory
	for i, slot := range r.slots {
		m, err := d.Alloc(int64(len(slot.bytes)))
		require.NoError(t, err)
		memory = append(memory, m)
		require.NoError(t, settle(s.Copy(m.Addr, address(slot.bytes), m.Bytes, false, true)))
		typ := v.Program.Slots[i].Type
		view := backends.View{Addr: m.Addr + uintptr(slot.at), Bytes: m.Bytes - int64(slot.at), Type: typ, Rank: len(r.shape)}
		copy(view.Shape[:], r.shape)
		stride := int64(1)
		for k := len(r.shape) - 1; k >= 0; k-- {
			view.Stride[k] = stride
			stride *= r.shape[k]
		}
		if slot.strides != nil {
			copy(view.Stride[:], slot.strides)
			view.Bytes = 0
		}
		l.Slots = append(l.Slots, view)
	}
	res.err = settle(s.Launch(k, l))
	for i, slot := range r.slots {
		out := make([]byte, len(slot.bytes))
		require.NoError(t, settle(s.Copy(address(out), memory[i].Addr, memory[i].Bytes, true, false)))
		res.slots = append(res.slots, out)
		require.NoError(t, d.Free(memory[i]))
	}
	return res
}

// compare runs r on the GPU and on the interpreter, which must agree to the bit.
func (r *run) compare(t testing.TB) *result {
	t.Helper()
	want, got := r.on(t, interp.New()), r.on(t, cuda.New())
	var f, g *backends.ProgramFault
	require.Equal(t, errors.As(want.err, &f), errors.As(got.err, &g), "interp: %v, cuda: %v", want.err, got.err)
	if f == nil {
		require.NoError(t, want.err)
		require.NoError(t, got.err)
	}
	for i := range want.slots {
		if !bytes.Equal(want.slots[i], got.slots[i]) {
			at := 0
			for want.slots[i][at] == got.slots[i][at] {
				at++
			}
			t.Fatalf("slot %d differs from byte %d on: % x, interp has % x", i, at,
				got.slots[i][at:min(at+16, len(got.slots[i]))], want.slots[i][at:min(at+16, len(want.slots[i]))])
		}
	}
	require.Equal(t, want.phase, got.phase)
	require.Equal(t, want.residue, got.residue)
	return got
}

// numbers is n values of 4 bytes, floats of moderate size if float.
func numbers(n int, float bool) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var b []byte
	for range n {
		v := r.Uint32()
		if float {
			v = v&0x83ffffff | 0x3c000000
		}
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}
