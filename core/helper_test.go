package core

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// testDevices are the devices that a test runs on: the host's, and one that is
// asynchronous and has memory of its own.
func testDevices(t *testing.T) map[string]*Device {
	t.Helper()
	host, err := DeviceFor("cpu")
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Device{"cpu": host, "async": asyncDevice(t, asynctest.Options{Delay: 20 * time.Microsecond}),
		// Metal's shape, with all that a device may choose.
		"visible": asyncDevice(t, asynctest.Options{Delay: 20 * time.Microsecond, HostVisible: true, Plans: true, Workspace: 500, Specialize: true,
			Variants: backends.Variant{Packed: true, Proved: true, NoFuel: true}})}
}

func asyncDevice(t *testing.T, o asynctest.Options) *Device {
	t.Helper()
	b := asynctest.New(o)
	dev, err := b.Open(0)
	require.NoError(t, err)
	d, err := newDevice("async", b, dev)
	require.NoError(t, err)
	return d
}

func executorOn(t *testing.T, d *Device) *Executor {
	t.Helper()
	ex, err := d.NewExecutor()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ex.Close() })
	return ex
}

// onEach runs a test on an executor of each device.
func onEach(t *testing.T, test func(t *testing.T, ex *Executor)) {
	t.Helper()
	for name, d := range testDevices(t) {
		t.Run(name, func(t *testing.T) { test(t, executorOn(t, d)) })
	}
}

// LaunchArgs is what a test launches a program with; see Call.
type LaunchArgs struct {
	Slots       []*Buffer // one for each slot; nil for the boundary slot means the executor's boundary pool
	Params      []Scalar
	Grid, Block [3]uint32
	Shape       []int64
	Fuel        uint64
	Residue     *[isa.NumClasses]uint64
	Stop        Stop
}

func (a *LaunchArgs) call(p *Program) *Call {
	c := &Call{Program: p, Scalars: a.Params, Dims: a.Shape, Grid: a.Grid, Block: a.Block, Fuel: a.Fuel, Residue: a.Residue, Stop: a.Stop}
	for _, b := range a.Slots {
		c.Operands = append(c.Operands, Operand{Buffer: b, Unbound: b == nil})
	}
	return c
}

// Launch is Call with a program and buffers.
func (ex *Executor) Launch(p *Program, a *LaunchArgs) (*Event, error) { return ex.Call(a.call(p)) }

// wait returns the outcome of work.
func wait(ev *Event, err error) error {
	if ev == nil {
		return err
	}
	for {
		if err := ev.Wait(time.Second); !errors.Is(err, backends.ErrPending) {
			return err
		}
	}
}

// hostBytes makes memory that stays where it is, unlike a goroutine's stack.
//
//go:noinline
func hostBytes(n int64) []byte { return make([]byte, n) }

// floats makes a buffer of f32 values.
func floats(t testing.TB, ex *Executor, values ...float32) *Buffer {
	t.Helper()
	b, err := ex.Allocate(int64(len(values)), isa.F32, true)
	require.NoError(t, err)
	data := hostBytes(4 * int64(len(values)))
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	require.NoError(t, wait(b.Write(addressOf(data), 0, int64(len(data)))))
	runtime.KeepAlive(data)
	return b
}

// values reads a buffer of f32.
func values(t testing.TB, b *Buffer) []float32 {
	t.Helper()
	data := hostBytes(4 * b.Len())
	require.NoError(t, wait(b.Read(addressOf(data), 0, int64(len(data)))))
	out := make([]float32, b.Len())
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// phase returns the phase of an executor's stream.
func phase(t *testing.T, ex *Executor) int32 {
	t.Helper()
	to := new(int32)
	require.NoError(t, wait(ex.Phase(to)))
	return *to
}

func assemble(t *testing.T, text string) *Program {
	t.Helper()
	p, err := Assemble("test", text, nil)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// wants fails unless err is of a kind and has a text.
func wants(t *testing.T, err error, code Code, text string) {
	t.Helper()
	if CodeOf(err) != code || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error is %v (kind %d); expected kind %d with %q", err, CodeOf(err), code, text)
	}
}

// addressOf returns the address of b's first byte; b must not be empty.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
