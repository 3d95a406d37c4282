"""Buffers: device memory with a dtype, which numpy and others see in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

import numpy as np

from hologram import _copies, _export
from hologram._arguments import integer, integers
from hologram._copies import Lease
from hologram._dtypes import NAMES, code_of
from hologram._ffi import BufferBase, BufferInfo, described, hooks, in_c, native
from hologram._foreign import written
from hologram._unlike import UnlikeArrays
from hologram.errors import BackendError, BufferFreedError, DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hologram.executor import Executor

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["Buffer"]

_View = memoryview  # the class below has a method of that name


class Buffer(BufferBase, UnlikeArrays):
    """Memory of an executor's device, seen as an array of one dtype.

    Executors make buffers: ``allocate``, ``allocate_boundary`` and ``wrap``. ``numpy.asarray(buffer)`` shares the
    memory, and keeps it alive even after ``free()``; so do ``memoryview(buffer)`` and DLPack consumers such as
    ``torch.from_dlpack(buffer)``. They need memory that the host sees, which ``host_visible`` tells.

    A buffer of one element converts to a number, once the work that was queued before is done: by ``float``, ``int``,
    ``bool`` and ``item``, and with integers and no dimensions by ``operator.index``. ``len`` is the number of elements
    whatever the shape. Buffers can be keys, each of itself. They have no items and no operators of their own, ``==``
    included: those are numpy's, of ``numpy.asarray(buffer)``, or in ``hologram.ops``; ``is`` tells whether two are one.

    Attributes:
        size: The number of elements.
        dtype: The numpy dtype.
        shape: The shape; ``(size,)`` unless the buffer wraps an array of another.
    """

    __slots__ = ("__weakref__",)

    # ---- what it is

    @property
    def _freed(self) -> bool:
        return bool(native.gone(self))

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def executor(self) -> Executor:
        """The executor that the buffer belongs to."""
        return self._executor

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from an element to the next, for each dimension."""
        info = self._describe()
        return tuple(info.strides[i] * info.element_size for i in range(info.rank))

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie one after the other, row-major."""
        return bool(self._describe().contiguous)

    @property
    def read_only(self) -> bool:
        """Whether the buffer is refused as an output."""
        return bool(self._describe().read_only)

    @property
    def host_visible(self) -> bool:
        """Whether the host may look at the memory in place."""
        return self._executor.host_visible

    @property
    def pool(self) -> str:
        """Where the memory is from: "linear" or "boundary"."""
        return "linear" if self._describe().class_index < 0 else "boundary"

    @property
    def class_index(self) -> Optional[int]:
        """The class of a boundary buffer, 0 … 95; None for others."""
        index = int(self._describe().class_index)
        return None if index < 0 else index

    def __len__(self) -> int:
        """Return the number of elements."""
        return self.size

    # ---- a number

    def item(self) -> Any:
        """Return the one element as a number of Python's, after the work that was queued before.

        Raises:
            TypeError: There are none or several elements.
            RuntimeError: The buffer was freed.
        """
        return self._number("a number").item()

    def __float__(self) -> float:
        """Return the one element."""
        return float(self._number("a float"))

    def __int__(self) -> int:
        """Return the one element, without its fraction."""
        return int(self._number("an int"))

    def __index__(self) -> int:
        """Return the element of an integer buffer of no dimensions; numpy takes one with more for several indices."""
        if self.dtype.kind not in "iu" or self.ndim:
            raise TypeError(f"{self!r}: only an integer buffer of no dimensions converts to an index; int() takes one")
        return int(self._number("an index"))

    def __bool__(self) -> bool:
        """Tell whether the one element is not zero.

        Raises:
            ValueError: There are none or several elements.
        """
        if self.size != 1:
            self._check()
            raise InvalidArgumentError(
                f"the truth of {self!r} is ambiguous; use numpy.any or numpy.all of {self._readable}, or len() for the "
                "number of elements"
            )
        return bool(self._number("a bool"))

    def __bytes__(self) -> bytes:
        """Return the elements' bytes, where Python would take what has an index for a number of zeros."""
        return self.to_bytes()

    @property
    def _readable(self) -> str:
        return "numpy.asarray(buffer)" if self.host_visible else "buffer.to_numpy()"

    def _number(self, what: str) -> Array:
        """Return the one element as a copy of no dimensions."""
        self._check_one(what)
        return self.to_numpy().reshape(())

    def _check_one(self, what: str) -> None:
        self._check()
        if self.size != 1:
            raise DTypeError(f"{self!r}: only a buffer of one element converts to {what}; use {self._readable}")

    def __repr__(self) -> str:
        """Describe the buffer in one line, without its elements, which would have to be waited for."""
        name = "bool" if self.dtype == np.bool_ else NAMES[code_of(self.dtype) - 1]
        state = f"{self.size} × {name}"
        if self.shape != (self.size,):
            state = f"shape {self.shape}, {self.dtype}"
        if self._freed:
            return f"<Buffer {state}, freed>"
        return f"<Buffer {state} on {self._executor.backend}>"

    def _describe(self) -> BufferInfo:
        self._check()
        return described(BufferInfo, native.buffer_describe, self)

    def _check(self) -> None:
        if self._freed:
            raise BufferFreedError(f"{self!r} was freed")

    def _wrote(self) -> None:
        """Tell torch that the memory of one of its tensors was written."""
        if self._tensor is not None:
            written([self._tensor])

    # ---- copies

    def from_numpy(self, array: Array, *, stream: Any = None) -> None:
        """Copy an array of the same dtype and size into the buffer.

        The array may be changed when this returns. ``executor.submit(buffer.from_numpy, array)`` does not wait for a
        copy of a pinned array, which then stays as it is until the future is done.

        Args:
            array: The array.
            stream: The stream on which it is copied; the executor's own without it.

        Raises:
            TypeError: It is not an array.
            ValueError: Its dtype or size doesn't match.
        """
        _copies.write(self, _copies.check_source(self, array), stream)

    def _write(self, packed: Array) -> None:
        """Copy a contiguous array's bytes, as many as the buffer has, into the buffer."""
        _copies.write(self, packed)

    def to_numpy(self, out: Optional[Array] = None, *, stream: Any = None) -> Array:
        """Return a copy as an array of the buffer's shape, after the work that was queued before.

        Into a pinned array, such as ``pinned_empty`` makes, a GPU copies by itself, and ``executor.submit(
        buffer.to_numpy, out)`` does not wait for that.

        Args:
            out: The array to copy to, which is returned; a new one without it.
            stream: The stream on which it is copied; the executor's own without it.

        Raises:
            TypeError: out is no array, or of another dtype.
            ValueError: out has another shape, or may not be written.
            ProgramFault: An earlier launch on an asynchronous device failed.
        """
        found = _copies.target(self, out)
        _copies.read(self, found, stream)
        return found

    def from_bytes(self, data: Union[bytes, bytearray, _View]) -> None:
        """Copy bytes, as many as the buffer has, into the buffer.

        Raises:
            ValueError: The number of bytes doesn't match.
        """
        self._check()
        flat = np.frombuffer(data, np.uint8)
        if flat.size != self.nbytes:
            raise InvalidArgumentError(f"from_bytes: {flat.size} bytes: doesn't match the buffer's {self.nbytes} bytes")
        self._write(flat)

    def to_bytes(self) -> bytes:
        """Return the elements' bytes."""
        return self.to_numpy().tobytes()

    def fill(self, value: Any, *, stream: Any = None) -> None:
        """Set every element, on a stream if one is given.

        Raises:
            ValueError: The value is out of the dtype's range.
            TypeError: It is no number, or a fraction for an integer dtype.
        """
        self._check()
        if self.dtype == bool and isinstance(value, (int, float, np.generic)):
            value = bool(value)
        _copies.fill(self, value, stream)

    def copy_from(self, other: Buffer, *, stream: Any = None) -> None:
        """Copy another buffer's elements; it has the same dtype and as many.

        It may be on another device; then the bytes go by way of the host.

        Args:
            other: The buffer.
            stream: The stream on which they are copied, if both are on one device.

        Raises:
            ValueError: Size or dtype doesn't match.
        """
        if not isinstance(other, Buffer):
            raise TypeError(f"copy_from: expected a Buffer, got {type(other).__name__}")
        self._check()
        other._check()
        _copies.copy(self, other, stream)

    # ---- views

    def view(
        self, shape: Union[int, Sequence[int]], *, offset: int = 0, strides: Optional[Sequence[int]] = None
    ) -> Buffer:
        """Return another buffer on the same memory.

        Args:
            shape: Its shape, or the number of elements.
            offset: The element of this buffer's memory that it starts at.
            strides: Elements, not bytes, from an element to the next in each dimension; row-major without it.

        Raises:
            ValueError: It would reach outside the memory.
        """
        self._check()
        shape = integers("view: shape", shape, alone=True)
        strides = None if strides is None else integers("view: strides", strides)
        if strides is not None and len(strides) != len(shape):
            raise InvalidArgumentError(f"view: {len(strides)} strides for {len(shape)} dimensions")
        owner = native.buffer_view(self, integer("view: offset", offset), len(shape), shape, strides)
        code = code_of(self.dtype)
        made: Buffer = native.buffer(
            self._executor, owner, self.dtype, shape, code, self.dtype.name == "bool", self._tensor
        )
        return made

    def _synchronize(self) -> None:
        """Wait, before the memory is seen in place, for all that uses it, on whichever executor."""
        if self._executor.asynchronous:
            self._executor._await(native.buffer_synchronize, self)

    def _memory(self) -> tuple[Array, int, tuple[int, ...]]:
        """Return the memory as bytes that stay alive with the array, where element 0 is in it, and the strides."""
        self._check()
        if not self._executor.host_visible:
            raise BackendError(
                f"{self!r}: its memory is not the host's, so it can't be seen in place; use to_numpy() for a copy"
            )
        info = self._describe()
        self._synchronize()
        lease = native.buffer_lease(self)
        strides = tuple(info.strides[i] * info.element_size for i in range(info.rank))
        steps = [(n - 1) * stride for n, stride in zip(self.shape, strides)]
        first = -sum(step for step in steps if step < 0) if self.size else 0
        length = first + sum(step for step in steps if step > 0) + info.element_size if self.size else 0
        interface = {
            "version": 3,
            "data": ((info.data or 0) - first, bool(info.read_only)),
            "shape": (length,),
            "typestr": "|u1",
        }
        return np.asarray(Lease(lease, interface)), first, strides

    def _array(self) -> Array:
        """Return an array on the memory, which it keeps alive."""
        if self.size == 0:
            self._check()
            return np.empty(self.shape, self.dtype)
        memory, first, strides = self._memory()
        return np.ndarray(self.shape, self.dtype, memory.data, first, strides)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What numpy needs to share the memory."""
        if self._freed or self.size == 0 or self.dtype.name == "bfloat16" or not self.host_visible:
            raise AttributeError("__array_interface__")  # numpy goes on to __array__, which says why
        memory, first, strides = self._memory()
        # As an object rather than an address, "data" is what numpy keeps alive.
        return {
            "version": 3,
            "data": memory,
            "offset": first,
            "shape": self.shape,
            "strides": strides,
            "typestr": self.dtype.str,
        }

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        """Return the memory as an array, in place unless dtype or copy ask for a copy."""
        array = self._array()
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise ValueError(f"{self!r} can't be seen as {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def memoryview(self) -> _View:
        """Return the memory in place; bf16 is seen as 16-bit unsigned integers."""
        array = self._array()
        return (array.view(np.uint16) if self.dtype.name == "bfloat16" else array).data

    def _export(self) -> _View:
        """Offer the memory in place to memoryview(buffer) and other users of the buffer protocol."""
        if self._freed or not self.host_visible:
            raise BufferError(f"{self!r}: its memory can't be seen in place")
        if self.dtype.name == "bfloat16":
            raise BufferError("the buffer protocol has no bfloat16; use buffer.memoryview() for its 16-bit patterns")
        return self.memoryview()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What CuPy, Numba and others need to share the memory on a GPU; see _export.py."""
        if self._executor._device_type != 2 or self._freed or self.dtype.name == "bfloat16":
            raise AttributeError("__cuda_array_interface__")
        return _export.interface(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's (device type, device number)."""
        return _export.device(self)

    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> object:
        """Return a DLPack capsule of the memory in place.

        Args:
            stream: The consumer's stream, which waits on the device for the work on the buffer that was queued before:
                None and 1 are CUDA's default stream, 2 is that of each thread, for which the caller waits, -1 asks for
                no order, others are addresses. CPU memory knows none.
            max_version: The newest version that the consumer reads. From 1.0 on read-only memory is marked so.
            dl_device: The device that the consumer wants: this buffer's, or the host, (1, 0), for a copy.
            copy: True for a copy, False to demand none, None for none where that goes.

        Raises:
            BufferError: The memory is read-only and the consumer can't be told so, or the device or stream is another.
        """
        return _export.capsule(self, stream, max_version, dl_device, copy)

    # ---- the end

    @in_c("($self)")
    def free(self) -> None:
        """Let go of the memory, which lives on while arrays made of it do. Freeing again does nothing."""
        raise AssertionError("C frees buffers")

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two objects would own one handle."""
        raise TypeError("cannot copy or pickle a hologram.Buffer; allocate another one and use its copy_from")

    def __enter__(self) -> Buffer:
        """Return the buffer."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Free the buffer."""
        self.free()


hooks["export"] = Buffer._export
