package core

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// numberOf is an operand of one number: cell's low bytes, for all of a shape.
func numberOf(cell []byte, t isa.Type, shape ...int64) Operand {
	v := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(cell))), Type: t, Rank: len(shape)}
	copy(v.Shape[:], shape)
	return Operand{View: v, Number: true}
}

// TestNumbers calls with numbers as operands, which are the caller's again once a
// call has returned, whatever the device still does.
func TestNumbers(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		for _, c := range []struct {
			t     isa.Type
			shape []int64
			x     uint64
			want  []byte // 3 + x
		}{
			{isa.U8, nil, 250, []byte{253}},
			{isa.I16, []int64{2}, 0xFFFF, []byte{2, 0}},
			{isa.F32, []int64{1}, 0x3FC00000, []byte{0, 0, 0x90, 0x40}},
			{isa.F64, []int64{1}, 0x3FF8000000000001, []byte{0, 0, 0, 0, 0, 0, 0x12, 0x40}},
			{isa.U64, []int64{2}, 0x0102030405060708, []byte{11, 7, 6, 5, 4, 3, 2, 1}},
		} {
			a, err := ex.Allocate(2, c.t, true)
			require.NoError(t, err)
			out, err := ex.Allocate(2, c.t, true)
			require.NoError(t, err)
			require.NoError(t, wait(a.Fill(Float(3))))
			cell := binary.LittleEndian.AppendUint64(hostBytes(8)[:0], c.x)
			call := &Call{Op: kernels.VectorAdd, Operands: []Operand{{Buffer: a}, numberOf(cell, c.t, c.shape...), {Buffer: out}}}
			ev, err := ex.Call(call)
			clear(cell)
			require.NoError(t, wait(ev, err))
			room := hostBytes(int64(2 * c.t.Size()))
			require.NoError(t, wait(out.Read(addressOf(room), 0, int64(len(room)))))
			require.Equal(t, append(c.want, c.want...), room, c.t)
		}
	})
}

// TestNumbersInFlight has many calls under way that differ by their number alone.
func TestNumbersInFlight(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		other := executorOn(t, ex.device)
		x := floats(t, ex, 1, 2)
		var outs []*Buffer
		cell := hostBytes(8)
		for i := range 100 {
			out := floats(t, ex, 0, 0)
			outs = append(outs, out)
			binary.LittleEndian.PutUint32(cell, math.Float32bits(float32(i)))
			on := ex
			if i%3 == 0 {
				on = other
			}
			_, err := on.Call(&Call{Op: kernels.VectorMul, Operands: []Operand{{Buffer: x}, numberOf(cell, isa.F32), {Buffer: out}}})
			require.NoError(t, err)
		}
		for i, out := range outs {
			require.Equal(t, []float32{float32(i), 2 * float32(i)}, values(t, out))
		}
	})
}

// TestNumbersCaptured replays a call with a number.
func TestNumbersCaptured(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x := floats(t, ex, 1, 2)
		require.NoError(t, wait(ex.Synchronize()))
		cell := binary.LittleEndian.AppendUint32(hostBytes(8)[:0], math.Float32bits(3))
		require.NoError(t, ex.BeginCapture())
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.VectorMul, Operands: []Operand{{Buffer: x}, numberOf(cell, isa.F32), {Buffer: x}}})))
		clear(cell)
		g, err := ex.EndCapture()
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, wait(ex.Replay(g)))
		}
		require.Equal(t, []float32{9, 18}, values(t, x))
		g.Release()
	})
}

// TestANumberOfTheOutput is an element of the array that is written: it is read before.
func TestANumberOfTheOutput(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	b := hostBytes(8)
	put := func(x, y float32) {
		binary.LittleEndian.PutUint32(b, math.Float32bits(x))
		binary.LittleEndian.PutUint32(b[4:], math.Float32bits(y))
	}
	put(3, 5)
	v := backends.View{Addr: addressOf(b), Type: isa.F32, Rank: 1}
	v.Shape[0], v.Stride[0] = 2, 1
	array := Operand{View: v, DeviceType: dlpackCPU}
	require.NoError(t, wait(ex.Call(&Call{Op: kernels.VectorMul, Operands: []Operand{array, numberOf(b[4:], isa.F32), array}})))
	require.Equal(t, math.Float32bits(15), binary.LittleEndian.Uint32(b))
	require.Equal(t, math.Float32bits(25), binary.LittleEndian.Uint32(b[4:]))
}

// TestNumbersRefused gives numbers that are none.
func TestNumbersRefused(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		x := floats(t, ex, 1, 2)
		cell := binary.LittleEndian.AppendUint32(hostBytes(8)[:0], math.Float32bits(3))
		strided := numberOf(cell, isa.F32, 2)
		strided.View.Stride[0] = 1
		for _, c := range []struct {
			operands []Operand
			want     string
		}{
			{[]Operand{{Buffer: x}, strided, {Buffer: x}}, "vector_add: b is a number, and its stride in dimension 0 is 1; expected 0"},
			{[]Operand{{Buffer: x}, numberOf(nil, isa.F32), {Buffer: x}}, "vector_add: b: the address is null"},
			{[]Operand{{Buffer: x}, {Buffer: x}, numberOf(cell, isa.F32, 2)}, "vector_add: c is written, and the array bound to it is read-only"},
			{[]Operand{{Buffer: x}, numberOf(cell, isa.F32, 3), {Buffer: x}}, "vector_add:"},
		} {
			_, err := ex.Call(&Call{Op: kernels.VectorAdd, Operands: c.operands})
			wants(t, err, Invalid, c.want)
		}
		require.Equal(t, []float32{1, 2}, values(t, x))
	})
}

// TestANumberThatDoesNotArrive has its way to the device fail: the call is told of it,
// and no other.
func TestANumberThatDoesNotArrive(t *testing.T) {
	ex := executorOn(t, asyncDevice(t, asynctest.Options{FailFill: 1}))
	x := floats(t, ex, 1, 2)
	cell := binary.LittleEndian.AppendUint32(hostBytes(8)[:0], math.Float32bits(3))
	call := &Call{Op: kernels.VectorMul, Operands: []Operand{{Buffer: x}, numberOf(cell, isa.F32), {Buffer: x}}}
	require.NoError(t, wait(ex.Call(call)))
	require.ErrorContains(t, wait(ex.Synchronize()), "vector_mul")
	require.NoError(t, wait(ex.Call(call)))
	require.NoError(t, wait(ex.Synchronize()))
}

// TestNumbersOfNoElements fills nothing: there is no launch that would be behind it.
func TestNumbersOfNoElements(t *testing.T) {
	b := asynctest.New(asynctest.Options{Delay: time.Millisecond})
	ex := executorOn(t, openAsync(t, b, 0))
	x := floats(t, ex, 1, 2)
	none, err := x.View(0, []int64{0}, nil)
	require.NoError(t, err)
	fills := b.Counts().Fills
	cell := binary.LittleEndian.AppendUint32(hostBytes(8)[:0], math.Float32bits(3))
	call := &Call{Op: kernels.VectorMul, Operands: []Operand{{Buffer: none}, numberOf(cell, isa.F32), {Buffer: none}}}
	for range 3 {
		require.NoError(t, wait(ex.Call(call)))
	}
	require.NoError(t, wait(ex.Synchronize()))
	require.Equal(t, fills, b.Counts().Fills)
}

// TestCodeForNumbersIsThatOfTheWorkspace, which is where they are: an array that begins
// elsewhere asks for no more code than without them.
func TestCodeForNumbersIsThatOfTheWorkspace(t *testing.T) {
	b := asynctest.New(asynctest.Options{Specialize: true})
	ex := executorOn(t, openAsync(t, b, 0))
	x := floats(t, ex, make([]float32, 64)...)
	later, err := x.View(4, []int64{32}, nil) // by 16 bytes, which is as good as 64
	require.NoError(t, err)
	first, err := x.View(0, []int64{32}, nil)
	require.NoError(t, err)
	cells := hostBytes(16)
	made := 0
	for i, x := range []*Buffer{first, later} {
		require.NoError(t, wait(ex.Call(&Call{Op: kernels.VectorMad,
			Operands: []Operand{{Buffer: x}, numberOf(cells[:8], isa.F32), numberOf(cells[8:], isa.F32), {Buffer: x}}})))
		if i == 0 {
			made = b.Counts().Specials
		}
	}
	require.NoError(t, wait(ex.Synchronize()))
	require.NotZero(t, made)
	require.Equal(t, made, b.Counts().Specials)
}

// TestNumbersInTheGraphsOfOthers are those of the call that was captured, whatever
// comes later, and the executor's end.
func TestNumbersInTheGraphsOfOthers(t *testing.T) {
	g := newGuest(t, asynctest.Options{Delay: 50 * time.Microsecond, Report: func(s string) { t.Error(s) }})
	x := g.floats(2)
	cell := hostBytes(8)
	times := func(n float32) {
		binary.LittleEndian.PutUint32(cell, math.Float32bits(n))
		require.NoError(t, g.op(kernels.VectorMul, nil, x, numberOf(cell, isa.F32), x))
	}
	require.NoError(t, g.op(kernels.Fill, []Scalar{Float(1)}, x))
	times(1)
	graph := g.theirs.BeginCapture()
	times(3)
	g.theirs.EndCapture()
	times(5)
	<-graph.Replay(g.theirs)
	times(7)
	<-graph.Replay(g.theirs)
	g.theirs.Synchronize()
	require.Equal(t, []float32{5 * 3 * 7 * 3, 5 * 3 * 7 * 3}, g.values(x))
	require.NoError(t, g.ex.Close())
	<-graph.Replay(g.theirs)
	graph.Destroy()
}
