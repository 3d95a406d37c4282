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
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// run is one launch: the memory of each slot before it, and how it is seen.
type run struct {
	text        string
	program     *isa.Verified // instead of text
	eager       bool          // several elements a lane where it may be
	proved      bool          // no access by bytes is stray
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
	phase   uint32
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

// settle waits for queued work.
func settle(t testing.TB, s backends.Stream) func(ticket backends.Ticket, err error) error {
	return func(ticket backends.Ticket, err error) error {
		t.Helper()
		if ticket == 0 {
			return err
		}
		require.NoError(t, err)
		for {
			if err = s.Wait(ticket, time.Second); !errors.Is(err, backends.ErrPending) {
				return err
			}
		}
	}
}

// host allocates host memory that the device reaches, for the time of the test.
func host(t testing.TB, d backends.Device, bytes int) []byte {
	t.Helper()
	m, err := d.AllocHost(int64(bytes))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.FreeHost(m)) })
	return hostmem.Bytes(m.Addr, m.Bytes)
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// on runs r on a backend.
func (r *run) on(t testing.TB, b backends.Backend) *result {
	t.Helper()
	return together(t, b, r)[0]
}

// placed is a run whose slots lie in a device's memory.
type placed struct {
	run    *run
	launch *backends.Launch
	memory []backends.Memory
	record *backends.Record
	phase  *uint32
}

// together runs one program's runs on a backend: several, which are proved, as a batch.
func together(t testing.TB, b backends.Backend, runs ...*run) []*result {
	t.Helper()
	first := runs[0]
	if first.program == nil {
		first.program = verified(t, first.text)
	}
	v := first.program
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	d, err := b.Open(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	k, err := d.Compile(&backends.Unit{Source: v, IR: f, Hash: f.Hash()}, backends.Variant{Proved: first.proved})
	require.NoError(t, err)
	defer k.Release()
	done := settle(t, s)
	var all []*placed
	var launches []*backends.Launch
	for _, r := range runs {
		all = append(all, r.place(t, d, v, func(to, from uintptr, bytes int64) { require.NoError(t, done(s.Copy(to, from, bytes))) }))
		launches = append(launches, all[len(all)-1].launch)
	}
	batcher, ok := s.(backends.Batcher)
	if ok && len(runs) > 1 {
		for _, l := range launches {
			l.Record, l.Batch = nil, len(runs)
		}
		require.NoError(t, done(batcher.LaunchBatch(k, len(launches), func(i int) *backends.Launch { return launches[i] })))
	}
	var results []*result
	for _, x := range all {
		var err error
		if !ok || len(runs) == 1 {
			ticket, launched := s.Launch(k, x.launch)
			if err = launched; ticket > 0 {
				require.NoError(t, done(ticket, err))
				err = x.record.Outcome()
			}
		}
		res := &result{err: err, residue: x.record.Residue, phase: *x.phase}
		for i, slot := range x.run.slots {
			out := host(t, d, len(slot.bytes))
			require.NoError(t, done(s.Copy(address(out), x.memory[i].Addr, x.memory[i].Bytes)))
			res.slots = append(res.slots, bytes.Clone(out))
			require.NoError(t, d.Free(x.memory[i]))
		}
		results = append(results, res)
	}
	return results
}

// place lets r's slots lie in a device's memory, to which move copies.
func (r *run) place(t testing.TB, d backends.Device, v *isa.Verified, move func(to, from uintptr, bytes int64)) *placed {
	t.Helper()
	notes := unsafe.Pointer(unsafe.SliceData(host(t, d, int(unsafe.Sizeof(backends.Record{}))+8)))
	x := &placed{run: r, record: (*backends.Record)(notes), phase: (*uint32)(unsafe.Add(notes, unsafe.Sizeof(backends.Record{})))}
	*x.phase = 700
	l := &backends.Launch{Grid: r.grid, Block: r.block, Rank: len(r.shape), N: 1, Fuel: r.fuel, Params: r.params,
		Record: x.record, Phase: x.phase}
	for i, n := range r.shape {
		l.Shape[i] = n
		l.N *= uint64(n)
	}
	if r.n > 0 {
		l.N = r.n
	}
	for i, slot := range r.slots {
		m, err := d.Alloc(int64(len(slot.bytes)))
		require.NoError(t, err)
		x.memory = append(x.memory, m)
		staging := host(t, d, len(slot.bytes))
		copy(staging, slot.bytes)
		move(m.Addr, address(staging), m.Bytes)
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
	x.launch = l
	return x
}

// compare runs r on the GPU and on the interpreter, which must agree to the bit.
func (r *run) compare(t testing.TB) *result {
	t.Helper()
	return compareAll(t, r)[0]
}

// compareAll compares runs of one program, on the GPU as a batch.
func compareAll(t testing.TB, runs ...*run) []*result {
	t.Helper()
	gpu := cuda.New()
	if runs[0].eager {
		gpu = cuda.NewEager()
	}
	want, got := together(t, interp.New(), runs...), together(t, gpu, runs...)
	for i := range want {
		want[i].equal(t, runs[0].program, got[i])
	}
	return got
}

// equal demands that the GPU left what the interpreter did.
func (want *result) equal(t testing.TB, p *isa.Verified, got *result) {
	t.Helper()
	var f, g *backends.ProgramFault
	require.Equal(t, errors.As(want.err, &f), errors.As(got.err, &g), "interp: %v, cuda: %v", want.err, got.err)
	if f == nil {
		require.NoError(t, want.err)
		require.NoError(t, got.err)
	}
	for i := range want.slots {
		oneNaN(p.Program.Slots[i].Type, got.slots[i], want.slots[i])
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
}

// oneNaN gives got the NaNs of want where both have one: their bits are no part
// of the contract.
func oneNaN(t isa.Type, got, want []byte) {
	if !t.Float() {
		return
	}
	size := t.Size()
	nan := func(b []byte) bool {
		var cell [8]byte
		copy(cell[:], b)
		infinite := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
		return binary.LittleEndian.Uint64(cell[:])&^(1<<(t.Bits()-1)) > infinite
	}
	for at := 0; at < len(got); at += size {
		if g, w := got[at:at+size], want[at:at+size]; nan(g) && nan(w) {
			copy(g, w)
		}
	}
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
