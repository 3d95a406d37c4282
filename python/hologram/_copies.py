"""Copies between buffers and the host, and memory of the host's that does not move, of which they are made in place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from hologram import stream as streams
from hologram._arguments import integer, integers
from hologram._dtypes import code_of, dtype_of, refuse_mask, scalar_bits
from hologram._ffi import PLACE_LOCKED, Place, described, native
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hologram._ffi import Owner
    from hologram.buffer import Buffer
    from hologram.executor import Executor

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Lease", "pinned_empty"]

_SMALL = 4 << 20
"""Bytes that are copied to the host by way of memory of the library's, while the caller does something else."""


class Lease:
    """Keeps memory alive for an array that sees it; numpy holds this object as the array's base."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: Owner, interface: dict[str, Any]) -> None:
        self._owner = owner
        self.__array_interface__ = interface


def pinned_empty(
    shape: Union[int, Sequence[int]], dtype: Any = np.float32, executor: Optional[Executor] = None
) -> Array:
    """Return an array, of whatever values, in memory of the host's that does not move (page-locked, "pinned").

    A GPU copies to and from such memory by itself: fast, and while the caller does something else, if he asks for a
    future. There is less of it than of other memory, and to get it takes longer: make such arrays once. It goes back to
    the device's pool with the array.

    Args:
        shape: The number of elements, or a shape.
        dtype: A numpy dtype, or a name such as "f32" or "bf16".
        executor: Whose device is to copy. Without one that is the first GPU of NVIDIA's, if there is one; where there
            is none, and on a device that sees all of the host's memory, the array is an ordinary one.

    Raises:
        ValueError: The shape or dtype is none.
        MemoryError: The host has no more memory that does not move.
    """
    if executor is None:
        from hologram.backend import is_cuda_available

        if is_cuda_available():
            from hologram._results import default_executor

            executor = default_executor(2)
    else:
        from hologram.executor import check_executor

        check_executor("pinned_empty", executor)
    sizes = integers("pinned_empty: shape", shape) if isinstance(shape, (tuple, list, np.ndarray)) else None
    sizes = (integer("pinned_empty: shape", shape),) if sizes is None else sizes
    if any(n < 0 for n in sizes):
        raise InvalidArgumentError(f"pinned_empty: shape is {sizes}; expected no negative number")
    found = dtype_of(dtype)
    count = math.prod(sizes)
    if executor is None or executor.host_visible or not count:
        return np.empty(sizes, found)
    owner = native.host_allocate(executor, count * found.itemsize)
    address = int(native.lease_address(owner))
    interface = {"version": 3, "data": (address, False), "shape": (count * found.itemsize,), "typestr": "|u1"}
    return np.asarray(Lease(owner, interface)).view(found).reshape(sizes)


def is_pinned(executor: Executor, array: Array) -> bool:
    """Whether an executor's device copies to and from an array in place."""
    place = described(Place, native.executor_locate, executor, array.ctypes.data)
    return bool(place.kind == PLACE_LOCKED and place.bytes >= array.nbytes)


def check_source(buffer: Buffer, array: Any, what: str = "from_numpy") -> Array:
    """Return an array that is to be copied into a buffer, contiguous.

    Raises:
        TypeError: It is not an array, or has another dtype.
        ValueError: It has another size.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{what}: expected a numpy array, got {type(array).__name__}")
    buffer._check()
    refuse_mask(what, array)
    if array.dtype != buffer.dtype and code_of(array.dtype) != code_of(buffer.dtype):
        raise DTypeError(f"{what}: the array's dtype {array.dtype} is not the buffer's dtype {buffer.dtype}")
    if array.size != buffer.size:
        raise InvalidArgumentError(
            f"{what}: the array's size {array.size} doesn't match the buffer's size {buffer.size}"
        )
    return np.ascontiguousarray(array)


def write(buffer: Buffer, packed: Array, stream: Any = None, later: bool = False) -> Optional[Owner]:
    """Copy a contiguous array's bytes, as many as the buffer has, into a buffer; with later return the copy's event."""
    number = streams.number_of(stream, buffer.executor, "from_numpy: ")
    if not buffer.contiguous:
        with buffer.executor.allocate(buffer.size, buffer.dtype, zero=False) as whole:
            going = write(whole, packed, stream, later)
            copy(buffer, whole, stream)
        return going
    event: Optional[Owner] = native.transfer(buffer, 0, packed.nbytes, packed.ctypes.data, False, number, packed, later)
    buffer._wrote()
    return event


def target(buffer: Buffer, out: Any) -> Array:
    """Return the array that a buffer is copied to.

    Raises:
        TypeError: It is no array, or of another dtype.
        ValueError: It has another shape, or may not be written.
    """
    buffer._check()
    if out is None:
        return np.empty(buffer.shape, buffer.dtype)
    if not isinstance(out, np.ndarray):
        raise DTypeError(f"to_numpy: out is a {type(out).__name__}; expected a numpy array")
    refuse_mask("to_numpy", out)
    if out.dtype != buffer.dtype:
        raise DTypeError(f"to_numpy: out has dtype {out.dtype}; the buffer has {buffer.dtype}")
    if out.shape != buffer.shape:
        raise InvalidArgumentError(f"to_numpy: out has shape {out.shape}; the buffer has {buffer.shape}")
    if not out.flags.writeable:
        raise InvalidArgumentError("to_numpy: out is read-only; expected an array that may be written")
    return out


def read(buffer: Buffer, out: Array, stream: Any = None, later: bool = False) -> Optional[Owner]:
    """Copy a buffer to an array of its shape; with later return the copy's event, None if it is done."""
    executor = buffer.executor
    if not buffer.contiguous:
        with executor.allocate(buffer.size, buffer.dtype, zero=False) as whole, whole.view(buffer.shape) as view:
            copy(view, buffer, stream)
            return read(view, out, stream, later)
    if not out.flags.c_contiguous:
        packed = np.empty(out.shape, out.dtype)
        read(buffer, packed, stream)
        out[...] = packed
        return None
    number = streams.number_of(stream, executor, "to_numpy: ")
    later = later and (out.nbytes <= _SMALL or is_pinned(executor, out))
    arguments = (buffer, 0, out.nbytes, out.ctypes.data, True, number, out, later)
    if later:
        event: Optional[Owner] = native.transfer(*arguments)
        return event
    executor._await(native.transfer, *arguments)
    return None


def copy(to: Buffer, source: Buffer, stream: Any = None) -> None:
    """Copy the elements of a buffer to another, on a stream if one is given."""
    number = streams.number_of(stream, to.executor, "copy_from: ")
    if not number:
        native.buffer_copy(to, source)
    elif source.executor.backend != to.executor.backend:
        raise InvalidArgumentError(
            f"copy_from: stream is given, and the buffers are on {source.executor.backend} and {to.executor.backend}: "
            "what is copied by way of the host goes by their executors' streams"
        )
    else:
        if source.dtype != to.dtype:
            raise DTypeError(f"copy_from: the other's dtype {source.dtype} is not the buffer's dtype {to.dtype}")
        if source.size != to.size:
            raise InvalidArgumentError(f"copy_from: the other has {source.size} elements, the buffer {to.size}")
        _call("copy", to.executor, (source, to), (), None if source.shape == to.shape else (to.size,), number)
    to._wrote()


def fill(buffer: Buffer, value: Any, stream: Any = None) -> None:
    """Set every element of a buffer."""
    number = streams.number_of(stream, buffer.executor, "fill: ")
    cell = scalar_bits(value, "fill: value", code_of(buffer.dtype))
    if not number:
        native.buffer_fill(buffer, cell)
    else:
        _call("fill", buffer.executor, (buffer,), (cell,), None, number)
    buffer._wrote()


def _call(
    name: str, executor: Executor, buffers: tuple[Buffer, ...], scalars: tuple[Any, ...], dims: Any, stream: int
) -> None:
    from hologram import ops

    number = vars(ops)["_by_name"][name].number
    native.call(executor, number, None, buffers, scalars, dims, None, None, 0, None, None, stream, None)
