"""Arrays of other libraries as buffers, in place: on the host, and on a device in the order of their owner's stream."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _foreign, stream
from hologram._arguments import shown
from hologram._dtypes import code_of, dtype_of_code, refuse_mask
from hologram._ffi import PLACE_DEVICE, READ_ONLY, BufferInfo, Place, described, native
from hologram.buffer import Buffer
from hologram.errors import BackendError, DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hologram.executor import Executor

__all__ = ["device_of_interface", "on_device", "wrap", "wrap_on_stream"]


def wrap(executor: Executor, array: Any) -> Buffer:
    """Return a buffer of an array's memory, for the executor's own stream; see Executor.wrap."""
    if not isinstance(array, np.ndarray):
        if isinstance(array, Buffer) and array.executor.backend == executor.backend:
            return array.view(array.shape, strides=tuple(s // array.itemsize for s in array.strides))
        if on_device(executor, array):
            buffer, theirs = wrap_on_stream(executor, array)
            if theirs:
                executor.wait(executor.record(theirs))
            return buffer
        if hasattr(array, "__dlpack__") and not isinstance(array, type):
            source = _foreign.plain_tensor(array)
            device = _foreign.device_of(source)
            if not executor.host_visible or device[0] != 1:
                what = f"{type(source).__name__} on DLPack device {device}"
                raise _not_here(executor, what) if device[0] == 1 else elsewhere(executor, "wrap", what)
            return _by_dlpack(executor, source, array, {})
        if not isinstance(array, type) and hasattr(array, "__cuda_array_interface__"):
            raise elsewhere(executor, "wrap", f"{type(array).__name__} in a GPU's memory")
        try:
            array = np.asarray(memoryview(array))
        except TypeError:
            hint = "; np.array makes one of it" if isinstance(array, (list, tuple)) else ""
            raise TypeError(
                f"expected a Buffer, a numpy array or an object with DLPack, got {type(array).__name__}{hint}"
            ) from None
    owner = array
    if type(array) is not np.ndarray:
        refuse_mask("wrap", array)
        array = np.ndarray.view(array, np.ndarray)  # a class may say otherwise of its memory than numpy knows
    if not executor.host_visible:
        raise _not_here(executor, "a numpy array")
    code = code_of(array.dtype)
    strides = None if array.flags.c_contiguous else _steps(array.strides, array.itemsize)
    flags = 0 if array.flags.writeable else READ_ONLY
    address = array.__array_interface__["data"][0]
    made = native.buffer_wrap(executor, address, code, array.ndim, array.shape, strides, flags, owner)
    return executor._buffer(made, array.dtype, array.shape)


def _steps(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if any(s % itemsize for s in strides):
        raise InvalidArgumentError(
            f"wrap: strides {strides} are not multiples of the item size {itemsize}; make a copy"
        )
    return tuple(s // itemsize for s in strides)


def elsewhere(executor: Executor, call: str, what: str) -> BackendError:
    """Say that an array of a device's is not on the executor's."""
    return BackendError(
        f"{call}: {what} is not in memory that {executor.backend} works on, and nothing is copied silently: use an "
        "executor on its device, or copy it to the host first (tensor.cpu(), cupy.asnumpy(array), buffer.to_numpy())"
    )


def _not_here(executor: Executor, what: str) -> BackendError:
    return BackendError(
        f"{what} is not in memory that {executor.backend} works on, and nothing is copied silently: "
        "make a buffer of it with executor.from_numpy(array)"
    )


# ---- on a device


def on_device(executor: Executor, array: Any) -> bool:
    """Whether an array is in memory of devices like the executor's, which has memory of its own."""
    if executor.host_visible or isinstance(array, (np.ndarray, np.generic, type)):
        return False
    if hasattr(array, "__dlpack_device__"):
        return _foreign.device_of(array)[0] == executor._device_type
    return hasattr(array, "__cuda_array_interface__")


def in_device_memory(array: Any) -> bool:
    """Whether an array says that its memory is a device's, not the host's."""
    if isinstance(array, (np.ndarray, np.generic, type)):
        return False
    if hasattr(array, "__dlpack_device__"):
        return _foreign.device_of(array)[0] != 1
    return hasattr(array, "__cuda_array_interface__")


def wrap_on_stream(executor: Executor, array: Any) -> tuple[Buffer, int]:
    """Return a buffer of an array's memory, and the number of the stream on which its owner works now.

    That is 0, the executor's own, where the owner does not tell: it has then been told to have that stream wait.

    Raises:
        TypeError: Its dtype is not supported, or what it says of itself is wrong.
        ValueError: Its strides are not multiples of its item size.
        RuntimeError: It is on another device.
    """
    source = _foreign.plain_tensor(array)
    if hasattr(source, "__dlpack_device__"):
        device = _foreign.device_of(source)
        if device[1] != executor._device_id:
            raise BackendError(
                f"{type(source).__name__} on DLPack device {device}; the executor is on {executor.backend}, "
                f"({executor._device_type}, {executor._device_id}): use an executor on the array's device"
            )
    if _foreign.is_tensor(source):
        # Without a word to torch, which would have its own stream wait for itself.
        return _by_dlpack(executor, source, array, {"stream": -1}), stream.of_torch(source.device)
    interface = getattr(source, "__cuda_array_interface__", None)
    if isinstance(interface, dict) and _dtype(interface) is not None:
        return _by_interface(executor, source, interface)
    if not hasattr(source, "__dlpack__"):
        raise DTypeError(
            f"{type(source).__name__}.__cuda_array_interface__ is {shown(interface)}; expected a dictionary with a "
            "typestr of a supported dtype"
        )
    return _by_dlpack(executor, source, array, {"stream": executor.stream.handle or stream.LEGACY}), 0


def _by_dlpack(executor: Executor, source: Any, given: Any, ask: dict[str, Any]) -> Buffer:
    try:
        capsule = source.__dlpack__(max_version=(1, 0), **ask)
    except TypeError:  # from before version 1
        capsule = source.__dlpack__(**ask)
    if type(capsule).__name__ != "PyCapsule":
        raise BufferError(f"{type(source).__name__}.__dlpack__() is {shown(capsule)}; expected a DLPack capsule")
    owner, boolean = native.from_capsule(executor, capsule)
    info = described(BufferInfo, native.buffer_describe, owner)
    dtype = np.dtype(bool) if boolean else dtype_of_code(info.dtype)
    tensor = given if _foreign.is_tensor(given) else None
    return executor._buffer(owner, dtype, tuple(info.shape[: info.rank]), tensor)


def _dtype(interface: dict[str, Any]) -> Optional[np.dtype[Any]]:
    """Return the dtype of an interface if it is supported."""
    try:
        dtype: np.dtype[Any] = np.dtype(interface["typestr"])
        code_of(dtype)
    except (KeyError, TypeError, ValueError):
        return None
    return dtype


def _by_interface(executor: Executor, array: Any, interface: dict[str, Any]) -> tuple[Buffer, int]:
    name = type(array).__name__
    what = f"{name}.__cuda_array_interface__"
    if interface.get("mask") is not None:
        raise DTypeError(f"{what} has a mask; give its data, and what to do with what is masked")
    dtype = _dtype(interface)
    assert dtype is not None
    try:
        shape = tuple(operator.index(n) for n in interface["shape"])
        address, read_only = interface["data"]
        address = operator.index(address)
        strides = interface.get("strides")
        strides = None if strides is None else tuple(operator.index(s) for s in strides)
        theirs = interface.get("stream")
        theirs = None if theirs is None else operator.index(theirs)
    except (KeyError, TypeError, ValueError) as error:
        raise DTypeError(f"{what} is {shown(interface)}: {error!r}") from None
    if strides is not None and len(strides) != len(shape):
        raise InvalidArgumentError(f"{what} has strides {strides} and shape {shape}; expected as many of each")
    if 0 in shape:
        with executor.allocate(1, dtype, zero=False) as one:
            return one.view(shape), 0
    if not 0 < address < 1 << 64:
        raise InvalidArgumentError(f"{what} has its data at {address}; expected the address of {shape} elements")
    place = described(Place, native.executor_locate, executor, address)
    if place.kind != PLACE_DEVICE or place.device_id != executor._device_id:
        where = f"on device {place.device_id}" if place.kind == PLACE_DEVICE else "no device's memory"
        raise BackendError(f"{name}: its memory, at 0x{address:x}, is {where}; the executor is on {executor.backend}")
    steps = None if strides is None else _steps(strides, dtype.itemsize)
    flags = READ_ONLY if read_only else 0
    owner = native.buffer_wrap(executor, address, code_of(dtype), len(shape), shape, steps, flags, array)
    buffer = executor._buffer(owner, dtype, shape)
    try:
        return buffer, 0 if theirs is None else stream.number_of(theirs, executor, f"{name}: ")
    except BaseException:
        buffer.free()
        raise


def device_of_interface(array: Any) -> Optional[tuple[int, int]]:
    """Return the DLPack device of an array that offers CUDA's interface alone; None of others."""
    if isinstance(array, type) or not hasattr(array, "__cuda_array_interface__"):
        return None
    number = getattr(getattr(array, "device", None), "id", 0)
    return 2, number if isinstance(number, int) else 0
