package main

// #include "support.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// Codes of DLPack's device and element types.
const (
	dlCPU      = 1
	dlInt      = 0
	dlUint     = 1
	dlFloat    = 2
	dlBfloat   = 4
	dlComplex  = 5
	dlBool     = 6
	dlMaxShape = core.MaxRank
)

// dlTypes gives the code and the bits of each dtype, by its own code.
var dlTypes = [...][2]C.int32_t{
	C.HOLOGRAM_I8: {dlInt, 8}, C.HOLOGRAM_I16: {dlInt, 16}, C.HOLOGRAM_I32: {dlInt, 32}, C.HOLOGRAM_I64: {dlInt, 64},
	C.HOLOGRAM_U8: {dlUint, 8}, C.HOLOGRAM_U16: {dlUint, 16}, C.HOLOGRAM_U32: {dlUint, 32}, C.HOLOGRAM_U64: {dlUint, 64},
	C.HOLOGRAM_F16: {dlFloat, 16}, C.HOLOGRAM_BF16: {dlBfloat, 16}, C.HOLOGRAM_F32: {dlFloat, 32}, C.HOLOGRAM_F64: {dlFloat, 64},
}

// go_buffer_to_dlpack gives a DLManagedTensor, or if versioned is not 0 a
// DLManagedTensorVersioned, of a buffer's memory, which it keeps alive until
// its deleter is called. On an asynchronous device, go_buffer_synchronize before.
//
//export go_buffer_to_dlpack
func go_buffer_to_dlpack(buffer C.hologram_buffer, versioned C.int32_t, managed_out *unsafe.Pointer) (status C.int32_t) {
	defer guard(&status)
	return lend("buffer_to_dlpack", buffer, versioned, 0, managed_out)
}

// go_buffer_lend is hologram_buffer_to_dlpack for who uses the memory in the order of a
// stream, which has to be ready for it (hologram_buffer_ready). Once the deleter is
// called the memory stays until what was queued on the stream by then is done.
//
//export go_buffer_lend
func go_buffer_lend(buffer C.hologram_buffer, versioned C.int32_t, stream C.uint64_t, managed_out *unsafe.Pointer) (status C.int32_t) {
	defer guard(&status)
	return lend("buffer_lend", buffer, versioned, uintptr(stream), managed_out)
}

func lend(what string, buffer C.hologram_buffer, versioned C.int32_t, stream uintptr, managed_out *unsafe.Pointer) C.int32_t {
	if managed_out == nil {
		return null(what, "managed_out")
	}
	b, err := lookup(handle(buffer), kindBuffer, what)
	if err != nil {
		return fail(err)
	}
	info := &b.Executor().Device().Info
	device, id := C.int32_t(dlCPU), C.int32_t(0)
	switch {
	case info.HostVisible:
	case info.DLPackType != 0:
		device, id = C.int32_t(info.DLPackType), C.int32_t(info.DLPackID)
	default:
		return fail(core.Errorf(core.Unavailable, "%s: memory of %s is not shared by DLPack; copy the buffer instead", what, b.Executor().Device().Name))
	}
	v := b.Layout()
	t := C.hologram_tensor{
		data: *(*unsafe.Pointer)(unsafe.Pointer(&v.Addr)), device_type: device, device_id: id, rank: C.int32_t(v.Rank), read_only: flag(b.ReadOnly()),
		type_code: dlTypes[v.Type][0], type_bits: dlTypes[v.Type][1],
	}
	l, err := b.LeaseOn(stream)
	if err != nil {
		return fail(err)
	}
	h, err := register(kindTensor, l)
	if err != nil {
		l.Release()
		return fail(err)
	}
	managed := export(&t, &v.Shape, &v.Stride, h, versioned)
	if managed == nil {
		unregister(h, kindTensor, what)
		l.Release()
		return fail(core.Errorf(core.OutOfMemory, "%s: no memory", what))
	}
	*managed_out = managed
	return C.HOLOGRAM_OK
}

// export makes the tensor; shape and strides are copied into it.
func export(t *C.hologram_tensor, shape, strides *[dlMaxShape]int64, lease handle, versioned C.int32_t) unsafe.Pointer {
	// C may not be given a Go pointer to memory that holds Go pointers, so the two lie in C's.
	room := (*[2][dlMaxShape]int64)(C.calloc(2*dlMaxShape, 8))
	defer C.free(unsafe.Pointer(room))
	room[0], room[1] = *shape, *strides
	t.shape, t.strides = (*C.int64_t)(unsafe.Pointer(&room[0])), (*C.int64_t)(unsafe.Pointer(&room[1]))
	return C.hologram_support_export(t, C.uint64_t(lease), C.int(versioned))
}

// go_buffer_from_dlpack makes a buffer of the memory that a DLManagedTensor, or
// if versioned is not 0 a DLManagedTensorVersioned, leads to, in place. It
// takes the tensor over, and calls its deleter when nobody uses the memory any
// more, from any thread; if the call fails the tensor stays the caller's.
//
//export go_buffer_from_dlpack
func go_buffer_from_dlpack(executor C.hologram_executor, managed unsafe.Pointer, versioned C.int32_t, buffer_out *C.hologram_buffer) (status C.int32_t) {
	defer guard(&status)
	const what = "buffer_from_dlpack"
	if managed == nil {
		return null(what, "managed")
	}
	if buffer_out == nil {
		return null(what, "buffer_out")
	}
	ex, err := executorOf(executor, what)
	if err != nil {
		return fail(err)
	}
	var t C.hologram_tensor
	if C.hologram_support_import(managed, C.int(versioned), &t) == 0 {
		return fail(core.Errorf(core.Invalid, "%s: the tensor has a version of DLPack other than 1", what))
	}
	d := ex.Device()
	own := t.device_type != 0 && int32(t.device_type) == d.Info.DLPackType && int32(t.device_id) == d.Info.DLPackID
	if !own && !(t.device_type == dlCPU && d.Info.HostVisible) {
		return fail(core.Errorf(core.Invalid, "%s: the tensor is on DLPack device (%d, %d), and %s takes %s", what, t.device_type, t.device_id, d.Name, accepts(d)))
	}
	dtype, err := fromDLPack(what, &t)
	if err != nil {
		return fail(err)
	}
	dims, steps, err := layout(what, t.rank, t.shape, t.strides)
	if err != nil {
		return fail(err)
	}
	b, err := ex.Wrap(uintptr(t.data), dtype, dims, steps, t.read_only != 0, func() {
		C.hologram_support_discard(managed, C.int(versioned))
	})
	if err != nil {
		return fail(err)
	}
	return adopt(kindBuffer, b, nil, buffer_out, (*core.Buffer).Abandon)
}

func accepts(d *core.Device) string {
	if d.Info.HostVisible {
		return "those of the CPU (1)"
	}
	if d.Info.DLPackType != 0 {
		return fmt.Sprintf("those of its own, (%d, %d)", d.Info.DLPackType, d.Info.DLPackID)
	}
	return "none in place: allocate a buffer and copy"
}

func fromDLPack(what string, t *C.hologram_tensor) (core.Type, error) {
	code := t.type_code
	if code == dlBool && t.type_bits == 8 {
		code = dlUint // a bool is a u8
	}
	for dtype, d := range dlTypes {
		if dtype > 0 && d[0] == code && d[1] == t.type_bits && t.type_lanes == 1 {
			return core.Type(dtype), nil
		}
	}
	if t.type_code == dlComplex {
		return 0, core.Errorf(core.BadType, "%s: complex%d, a dtype of complex numbers, is not supported", what, t.type_bits)
	}
	return 0, core.Errorf(core.BadType, "%s: DLPack dtype code %d with %d bits and %d lanes is not supported", what, t.type_code, t.type_bits, t.type_lanes)
}

// go_dlpack_free calls the deleter of a DLManagedTensor, or if versioned is not
// 0 of a DLManagedTensorVersioned, which go_buffer_to_dlpack made and nobody took.
//
//export go_dlpack_free
func go_dlpack_free(managed unsafe.Pointer, versioned C.int32_t) (status C.int32_t) {
	defer guard(&status)
	if managed == nil {
		return null("dlpack_free", "managed")
	}
	C.hologram_support_discard(managed, C.int(versioned))
	return C.HOLOGRAM_OK
}
