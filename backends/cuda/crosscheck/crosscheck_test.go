//go:build gorgonia

// Package crosscheck holds the driver's entry points, as package driver types
// and opens them at run time, against another's: gorgonia.org/cu, whose are
// compiled from NVIDIA's header and linked. On each question both have to agree,
// and each has to see what the other did. It needs a GPU; "./build.sh test-gpu
// pack" builds it.
package crosscheck

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gorgonia.org/cu"

	"github.com/hologram-project/hologram/backends/cuda/driver"
)

// both opens our driver, and makes the device's primary context, of which there
// is one for all in a process, this thread's for both.
func both(t *testing.T) (*driver.API, cu.Device) {
	t.Helper()
	a, err := driver.Load()
	require.NoError(t, err)
	runtime.LockOSThread()
	var d driver.Device
	require.NoError(t, a.Check("cuDeviceGet", a.DeviceGet(&d, 0)))
	var c, popped driver.Context
	require.NoError(t, a.Check("cuDevicePrimaryCtxRetain", a.PrimaryRetain(&c, d)))
	require.NoError(t, a.Check("cuCtxPushCurrent", a.CtxPush(c)))
	t.Cleanup(func() {
		require.NoError(t, a.Check("cuCtxPopCurrent", a.CtxPop(&popped)))
		require.Equal(t, c, popped)
		require.NoError(t, a.Check("cuDevicePrimaryCtxRelease", a.PrimaryRelease(d)))
		runtime.UnlockOSThread()
	})
	theirs, err := cu.CurrentContext()
	require.NoError(t, err)
	require.Equal(t, c, as[driver.Context](theirs))
	return a, cu.Device(d)
}

// as takes a handle for what the other side calls it: both hold the driver's pointer.
func as[To, From any](h From) To {
	var to To
	if unsafe.Sizeof(to) != unsafe.Sizeof(h) {
		panic("handles of different sizes")
	}
	return *(*To)(unsafe.Pointer(&h))
}

func TestDevices(t *testing.T) {
	a, their := both(t)
	require.Equal(t, cu.Version(), a.Version)
	var n int32
	require.Zero(t, a.DeviceGetCount(&n))
	count, err := cu.NumDevices()
	require.NoError(t, err)
	require.EqualValues(t, count, n)

	name := make([]byte, 256)
	require.Zero(t, a.DeviceGetName(&name[0], int32(len(name)), driver.Device(their)))
	want, err := their.Name()
	require.NoError(t, err)
	require.Equal(t, strings.TrimRight(want, "\x00"), string(name[:bytes.IndexByte(name, 0)]))

	var total uint64
	require.Zero(t, a.DeviceTotalMem(&total, driver.Device(their)))
	bytes, err := their.TotalMem()
	require.NoError(t, err)
	require.EqualValues(t, bytes, total)

	for ours, theirs := range map[driver.Attribute]cu.DeviceAttribute{
		driver.Multiprocessors: cu.MultiprocessorCount,
		driver.ComputeMajor:    cu.ComputeCapabilityMajor,
		driver.ComputeMinor:    cu.ComputeCapabilityMinor,
	} {
		require.EqualValues(t, theirs, ours)
		var value int32
		require.Zero(t, a.DeviceAttribute(&value, ours, driver.Device(their)))
		want, err := their.Attribute(theirs)
		require.NoError(t, err)
		require.EqualValues(t, want, value)
	}
}

func TestConstants(t *testing.T) {
	for theirs, ours := range map[error]driver.Result{
		cu.Success: driver.Success, cu.OutOfMemory: driver.OutOfMemory, cu.NoDevice: driver.NoDevice, cu.NotReady: driver.NotReady,
		cu.StreamCaptureUnsupported: driver.CaptureUnsupported, cu.StreamCaptureImplicit: driver.CaptureImplicit,
	} {
		require.EqualValues(t, theirs, ours, "%v", theirs)
	}
	require.EqualValues(t, cu.NonBlocking, driver.StreamNonBlocking)
	require.EqualValues(t, cu.NumRegs, driver.FuncRegisters)
	sticky := map[error]bool{
		cu.EccUncorrectable: true, cu.NvlinkUncorrectable: true, cu.IllegalAddress: true, cu.LaunchTimeout: true, cu.ContextIsDestroyed: true,
		cu.Assert: true, cu.HardwareStackError: true, cu.IllegalInstruction: true, cu.MisalignedAddress: true, cu.InvalidAddressSpace: true,
		cu.InvalidPc: true, cu.LaunchFailed: true, cu.OutOfMemory: false, cu.LaunchOutOfResources: false, cu.NotReady: false,
	}
	for theirs, want := range sticky {
		code := driver.Result(reflect.ValueOf(theirs).Int())
		require.Equal(t, want, code.Sticky(), "%v", theirs)
	}
}

// stream is one of ours, for both.
func stream(t *testing.T, a *driver.API) driver.Stream {
	t.Helper()
	var s driver.Stream
	require.NoError(t, a.Check("cuStreamCreate", a.StreamCreate(&s, driver.StreamNonBlocking)))
	t.Cleanup(func() { require.Zero(t, a.StreamDestroy(s)) })
	flags, err := as[cu.Stream](s).Flags()
	require.NoError(t, err)
	require.Equal(t, cu.NonBlocking, flags)
	return s
}

func TestMemory(t *testing.T) {
	a, _ := both(t)
	s := stream(t, a)
	const size = 1 << 20
	var ours driver.Pointer
	require.Zero(t, a.MemAlloc(&ours, size))
	length, base, err := cu.DevicePtr(ours).AddressRange()
	require.NoError(t, err)
	require.EqualValues(t, size, length)
	require.EqualValues(t, ours, base)
	theirs, err := cu.MemAlloc(size)
	require.NoError(t, err)

	// What one writes the other reads.
	sent, got := make([]byte, size), make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * i >> 3)
	}
	require.NoError(t, cu.MemcpyHtoD(cu.DevicePtr(ours), unsafe.Pointer(&sent[0]), size))
	require.Zero(t, a.Copy(driver.Pointer(theirs), ours, size, s))
	require.Zero(t, a.Set8(driver.Pointer(theirs), 0xa5, 3, s))
	require.Zero(t, a.Set16(driver.Pointer(theirs)+64, 0x1234, 5, s))
	require.Zero(t, a.Set32(driver.Pointer(theirs)+128, 0xdeadbeef, 7, s))
	require.Zero(t, a.Set32Rows(driver.Pointer(theirs)+1024, 256, 0x01020304, 2, 3, s))
	require.NoError(t, as[cu.Stream](s).Synchronize())
	require.Zero(t, a.StreamQuery(s))
	require.NoError(t, cu.MemcpyDtoH(unsafe.Pointer(&got[0]), theirs, size))
	copy(sent, []byte{0xa5, 0xa5, 0xa5})
	for i := range 5 {
		copy(sent[64+2*i:], []byte{0x34, 0x12})
	}
	for i := range 7 {
		copy(sent[128+4*i:], []byte{0xef, 0xbe, 0xad, 0xde})
	}
	for i := range 3 {
		copy(sent[1024+256*i:], []byte{4, 3, 2, 1, 4, 3, 2, 1})
	}
	require.True(t, bytes.Equal(sent, got))

	// Memory of the host that the device sees.
	var host unsafe.Pointer
	require.Zero(t, a.MemHostAlloc(&host, 4096, driver.HostPortable|driver.HostMapped))
	require.Zero(t, a.Copy(driver.Pointer(uintptr(host)), driver.Pointer(theirs), 4096, s))
	require.Zero(t, a.StreamSync(s))
	require.True(t, bytes.Equal(sent[:4096], unsafe.Slice((*byte)(host), 4096)))
	require.Zero(t, a.MemFreeHost(host))

	// Each frees the other's.
	require.NoError(t, cu.MemFree(cu.DevicePtr(ours)))
	require.Zero(t, a.MemFree(driver.Pointer(theirs)))
	_, _, err = cu.DevicePtr(ours).AddressRange()
	require.Error(t, err)
}

// y[i] = k·i for i below n.
const text = `.version 7.0
.target sm_70
.address_size 64
.visible .entry times(.param .u64 y, .param .u32 k, .param .u32 n)
{
	.reg .b32 %i, %b, %k;
	.reg .b64 %y, %at;
	.reg .pred %p;
	mov.u32 %i, %tid.x;
	mov.u32 %b, %ctaid.x;
	mov.u32 %k, %ntid.x;
	mad.lo.u32 %i, %b, %k, %i;
	ld.param.u32 %k, [n];
	setp.ge.u32 %p, %i, %k;
	@%p bra END;
	ld.param.u32 %k, [k];
	ld.param.u64 %y, [y];
	mul.wide.u32 %at, %i, 4;
	add.u64 %y, %y, %at;
	mul.lo.u32 %i, %i, %k;
	st.global.u32 [%y], %i;
END:
	ret;
}
`

// A module of either, launched by both on a stream, between events of ours that
// they read, and theirs that we read.
func TestLaunches(t *testing.T) {
	a, _ := both(t)
	s := stream(t, a)
	image := append([]byte(text), 0)
	var m driver.Module
	require.NoError(t, a.Check("cuModuleLoadDataEx", a.ModuleLoad(&m, &image[0], 0, nil, nil)))
	var f driver.Func
	entry := []byte("times\x00")
	require.Zero(t, a.ModuleFunction(&f, m, &entry[0]))
	theirs, err := cu.LoadData(text)
	require.NoError(t, err)
	g, err := theirs.Function("times")
	require.NoError(t, err)

	var registers int32
	require.Zero(t, a.FuncAttribute(&registers, driver.FuncRegisters, f))
	for _, fn := range []cu.Function{as[cu.Function](f), g} {
		want, err := fn.Attribute(cu.NumRegs)
		require.NoError(t, err)
		require.EqualValues(t, want, registers)
	}

	const n = 100_000
	var y driver.Pointer
	require.Zero(t, a.MemAlloc(&y, 4*n))
	got := make([]uint32, n)
	check := func(k uint32) {
		t.Helper()
		require.Zero(t, a.StreamSync(s))
		require.NoError(t, cu.MemcpyDtoH(unsafe.Pointer(&got[0]), cu.DevicePtr(y), 4*n))
		for i, v := range got {
			require.Equal(t, k*uint32(i), v, "%d", i)
		}
	}
	elapsed := func(began, ended driver.Event) {
		t.Helper()
		var ms float32
		require.Zero(t, a.EventElapsed(&ms, began, ended))
		want, err := as[cu.Event](began).Elapsed(as[cu.Event](ended))
		require.NoError(t, err)
		require.Positive(t, ms)
		require.EqualValues(t, want, ms)
	}

	// Ours, in one piece of memory as driver.API.Launch takes them.
	var begin, end driver.Event
	require.Zero(t, a.EventCreate(&begin, 0))
	require.Zero(t, a.EventCreate(&end, 0))
	args := &struct {
		y    driver.Pointer
		k, n uint32
	}{y, 3, n}
	params := &[3]unsafe.Pointer{unsafe.Pointer(&args.y), unsafe.Pointer(&args.k), unsafe.Pointer(&args.n)}
	var pin runtime.Pinner
	pin.Pin(args)
	pin.Pin(params)
	defer pin.Unpin()
	for k, fn := range map[uint32]driver.Func{3: f, 5: as[driver.Func](g)} {
		args.k = k
		require.Zero(t, a.EventRecord(begin, s))
		require.Zero(t, a.Launch(fn, n/250, 1, 1, 250, 1, 1, 0, s, &params[0], nil))
		require.Zero(t, a.EventRecord(end, s))
		check(k)
		elapsed(begin, end)
	}
	require.NoError(t, as[cu.Event](end).Query())

	// Theirs.
	b, err := cu.MakeEvent(0)
	require.NoError(t, err)
	e, err := cu.MakeEvent(0)
	require.NoError(t, err)
	at, count := uint64(y), uint64(n)
	for k, fn := range map[uint64]cu.Function{7: as[cu.Function](f), 9: g} {
		require.NoError(t, b.Record(as[cu.Stream](s)))
		require.NoError(t, fn.Launch(n/250, 1, 1, 250, 1, 1, 0, as[cu.Stream](s),
			[]unsafe.Pointer{unsafe.Pointer(&at), unsafe.Pointer(&k), unsafe.Pointer(&count)}))
		require.NoError(t, e.Record(as[cu.Stream](s)))
		check(uint32(k))
		elapsed(as[driver.Event](b), as[driver.Event](e))
	}

	theirEnd := as[cu.Event](end)
	require.NoError(t, cu.DestroyEvent(&theirEnd))
	require.Zero(t, a.EventDestroy(begin))
	require.Zero(t, a.EventDestroy(as[driver.Event](b)))
	require.Zero(t, a.EventDestroy(as[driver.Event](e)))
	require.NoError(t, as[cu.Module](m).Unload())
	require.Zero(t, a.ModuleUnload(as[driver.Module](theirs)))
	require.Zero(t, a.MemFree(y))
}
