"""What operations and launches do with arrays that C leaves to Python: they become buffers for the time of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _foreign, _results
from hologram._arguments import integer, naming, shown
from hologram._dtypes import NAMES, code_of, scalar_bits
from hologram._ffi import native
from hologram.buffer import Buffer
from hologram.errors import (
    BufferFreedError,
    DTypeError,
    InvalidArgumentError,
    LaunchCancelledError,
    OutOfMemoryError,
    ProgramFault,
)

if TYPE_CHECKING:
    from hologram.executor import Executor


_BOOL = np.dtype(bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python's; numpy's have a dtype of their own, and are arrays of one element."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


class Operands:
    """The arrays of one call as buffers; those made for the call are freed after it."""

    __slots__ = ("_executor", "_given", "_made", "_numbers", "_what", "_written", "buffers")

    def __init__(self, executor: Executor, what: str) -> None:
        """Begin a call; errors start with what."""
        self._executor = executor
        self._what = what
        self._made: list[Buffer] = []
        self._written: list[Any] = []
        self._given: list[tuple[str, Any, Buffer]] = []
        self._numbers: list[tuple[int, str, Any]] = []
        self.buffers: list[Buffer] = []

    def add(self, name: str, value: Any, written: bool = False) -> Buffer:
        """Return the buffer of an argument.

        Raises:
            TypeError: It is no array.
            ValueError: It is an array that can't be used in place.
            RuntimeError: It was freed, or the device can't see it.
        """
        if isinstance(value, Buffer):
            if value._freed:
                raise BufferFreedError(f"{self._what}: {name}: {value!r} was freed")
            buffer = value
            if written and value._tensor is not None:
                self._written.append(value._tensor)
        else:
            with naming(f"{self._what}: {name}"):
                buffer = self._executor.wrap(value)
            self._made.append(buffer)
            if written:
                self._written.append(value)
        self.buffers.append(buffer)
        self._given.append((name, value, buffer))
        return buffer

    def replace(self, i: int, view: Buffer) -> None:
        """Let a view stand for operand i in the call."""
        self._made.append(view)
        self.buffers[i] = view

    def add_number(self, name: str, value: Any) -> None:
        """Take a number as an array of no dimensions, which ``complete`` makes: its dtype is that of the others."""
        self._numbers.append((len(self.buffers) + len(self._numbers), name, value))

    def add_result(self, n: Any, bools: bool) -> Any:
        """Return a new array for the result, of the kind of the first array; it is the next operand.

        Args:
            n: The number of elements, None for what the operands so far broadcast to.
            bools: Whether the result of bools is bools.

        Raises:
            ValueError: The operands don't broadcast, or have fewer elements.
            TypeError: There is no array, or the result would be bools.
            MemoryError: There is no room.
        """
        if not self._given:
            name, value = self._numbers[0][1:]
            raise DTypeError(
                f"{self._what}: {name} is {shown(value)}, a number; expected an array, which says what the result is: "
                "a Buffer, a numpy array or an object with DLPack"
            )
        first, like, _ = self._given[0]
        dtypes = [buffer.dtype for _, _, buffer in self._given if bools or buffer.dtype != _BOOL]
        if not dtypes:
            raise DTypeError(
                f"{self._what}: {first} has dtype bool, and the result may be none; give array.view(numpy.uint8)"
            )
        shape = self._shape() if n is None else (self._count(n),)
        try:
            made = _results.allocate(like, shape, dtypes[0], self._executor)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"{self._what}: no room for a result of shape {shape}, {dtypes[0]}: {error}"
            ) from None
        except ValueError as error:
            raise InvalidArgumentError(f"{self._what}: a result of shape {shape}: {error}") from None
        self.add("the result", made)
        return made

    def _shape(self) -> tuple[int, ...]:
        shapes = [buffer.shape for _, _, buffer in self._given]
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            texts = ", ".join(f"{name} {shape}" for (name, *_), shape in zip(self._given, shapes))
            raise InvalidArgumentError(
                f"{self._what}: the shapes do not broadcast together: {texts}; n takes the first elements of each"
            ) from None
        return tuple(int(d) for d in shape)

    def _count(self, n: Any) -> int:
        count = integer(f"{self._what}: n", n)
        if count < 0:
            raise InvalidArgumentError(f"{self._what}: n = {count} is negative")
        for name, _, buffer in self._given:
            if count > buffer.size:
                raise InvalidArgumentError(f"{self._what}: n = {count} exceeds the {buffer.size} elements of {name}")
        return count

    def complete(self, n: Any) -> None:
        """Put the numbers where they belong, n times where that is given.

        Raises:
            TypeError: One is a fraction, and the arrays are of integers.
            ValueError: One is out of the dtype's range.
        """
        if not self._numbers:
            return
        from hologram._built import number

        name, _, array = self._given[0]
        code = code_of(array.dtype)
        for place, called, value in self._numbers:
            what = f"{self._what}: {called}"
            try:
                number(what, value, NAMES[code - 1])
            except DTypeError:
                raise DTypeError(
                    f"{what} is {shown(value)}, and {name} has dtype {array.dtype}; expected an integer, or arrays of "
                    "floats"
                ) from None
            cell = self._executor.allocate(1, array.dtype, zero=False)
            self._made.append(cell)
            native.buffer_fill(cell, scalar_bits(value, what, code))
            count = None if n is None else integer(f"{self._what}: n", n, 0)
            view = cell.view(()) if count is None else cell.view((count,), strides=(0,))
            self._made.append(view)
            self.buffers.insert(place, view)

    def __enter__(self) -> Operands:
        """Return the operands."""
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *exc: object) -> None:
        """Free the buffers that were made for the call; raise the versions of tensors that it wrote."""
        for buffer in self._made:
            buffer.free()
        refused = kind is not None and issubclass(kind, Exception)
        if kind is None or not refused or issubclass(kind, (ProgramFault, LaunchCancelledError)):
            _foreign.written(self._written)
