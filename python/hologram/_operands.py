"""What operations and launches do with arrays that C leaves to Python: they become buffers for the time of a call."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np

from hologram import _foreign, _results, _wrapped
from hologram._arguments import integer, naming, shown
from hologram._dtypes import NAMES, code_of, dtype_of_code, scalar_bits
from hologram._ffi import hooks, native
from hologram.buffer import Buffer
from hologram.errors import (
    BufferFreedError,
    DTypeError,
    HologramError,
    InvalidArgumentError,
    LaunchCancelledError,
    OutOfMemoryError,
    ProgramFault,
)
from hologram.stream import number_of

if TYPE_CHECKING:
    from hologram._signatures import Function
    from hologram.executor import Executor


_BOOL = np.dtype(bool)


class Result(NamedTuple):
    """What an operation makes: its shape and its dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python's; numpy's have a dtype of their own, and are arrays of one element."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


_ORDERS = {
    "vector_equal": operator.eq,
    "vector_greater": operator.gt,
    "vector_greater_equal": operator.ge,
    "vector_less": operator.lt,
    "vector_less_equal": operator.le,
    "vector_not_equal": operator.ne,
}


def _compared(operation: str, value: Any, code: int, right: bool) -> tuple[Any, str]:
    """Return the number and the comparison that answer one with a number which its type may not hold, as numpy does.

    An int beyond all integers of the type has one answer, which the type's last one beside it gives by another
    comparison. What is beyond all floats of the type is rounded to infinity.

    Args:
        operation: The comparison.
        value: The number.
        code: The type's code.
        right: Whether the number stands on the right.
    """
    from hologram._built import beyond

    dtype = dtype_of_code(code)
    if dtype.kind not in "iu":
        rounds = beyond(value, NAMES[code - 1])
        return (math.copysign(math.inf, value) if rounds else value), operation
    if not isinstance(value, int):
        return value, operation
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if least <= value <= most:
        return value, operation
    sides = (least, value) if right else (value, least)
    above = value > most
    if _ORDERS[operation](*sides):
        return (most if above else least), ("vector_less_equal" if above == right else "vector_greater_equal")
    return (most if above else least), ("vector_greater" if above == right else "vector_less")


class Unread(NamedTuple):
    """A number that a call has made, in a buffer's element 0, of which it is still to be read."""

    buffer: Buffer


class Operands:
    """The arrays of one call as buffers; those made for the call are freed after it."""

    __slots__ = (
        *("_changed", "_ended", "_executor", "_given", "_made", "_numbers", "_streams", "_what", "_written", "buffers"),
        "stream",
    )

    def __init__(self, executor: Executor, what: str, stream: Any = None) -> None:
        """Begin a call, on a stream if one is given; errors start with what."""
        self._executor = executor
        self.stream = None if stream is None else number_of(stream, executor, f"{what}: ")
        self._streams: list[int] = []  # of the owners of arrays on the device
        self._what = what
        self._changed = False  # whether the call may have written
        self._ended = False  # whether who receives a trace's lines ended it
        self._made: list[Buffer] = []
        self._written: list[Any] = []
        self._given: list[tuple[str, Any, Buffer]] = []
        self._numbers: list[tuple[int, str, Any, bool]] = []
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
            if isinstance(value, np.generic):  # those of dtypes that numpy doesn't know have no buffer protocol
                value = np.asarray(value)
            with naming(f"{self._what}: {name}"):
                if _wrapped.on_device(self._executor, value):
                    buffer, theirs = _wrapped.wrap_on_stream(self._executor, value)
                    if theirs not in self._streams:
                        self._streams.append(theirs)
                else:
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

    def add_number(self, name: str, value: Any, mask: bool = False) -> None:
        """Take a number as an array of no dimensions, which ``complete`` makes: its dtype is that of the others.

        A mask is made of bools, whatever the others are.
        """
        self._numbers.append((len(self.buffers) + len(self._numbers), name, value, mask))

    def need_array(self, f: Function) -> None:
        """Refuse numbers alone, of which no result can be like.

        Raises:
            TypeError: There is no array but masks.
        """
        if all(name in f.masks for name, *_ in self._given):
            name, value = next((name, value) for _, name, value, mask in self._numbers if not mask)
            raise DTypeError(
                f"{self._what}: {name} is {shown(value)}, a number; expected an array, which says what the result is: "
                "a Buffer, a numpy array or an object with DLPack"
            )

    def result_of(self, f: Function, dims: Optional[tuple[int, ...]]) -> Result:
        """Return what an operation makes of the operands so far.

        Args:
            f: The function that is called.
            dims: The sizes of the call.

        Raises:
            ValueError: They make none: their shapes contradict, or they have fewer elements.
            TypeError: The result would be bools.
        """
        arrays: list[Optional[Buffer]] = [*self.buffers]
        for place, *_ in self._numbers:
            arrays.insert(place, None)
        try:
            code, boolean, shape = native.result(f.number, tuple(arrays), dims)
        except HologramError as error:
            hooks["renamed"](self._what, error, self.bools(), {name: value for name, value, _ in self._given})
            raise
        return Result(shape, _BOOL if boolean else dtype_of_code(code))

    def bools(self) -> list[str]:
        """Return the names of the arrays of bools, which are bytes to the library."""
        return [name for name, _, buffer in self._given if buffer.dtype == _BOOL]

    def add_result(self, result: Result, number: bool) -> Any:
        """Return a new array for the result, of the kind of the first array; it is the next operand.

        Args:
            result: Its shape and dtype.
            number: Whether it is a number that is read after the call: then it is a buffer for that alone.

        Raises:
            MemoryError: There is no room.
        """
        like = self._given[0][1]
        shape, dtype = result
        try:
            if number:
                made = self._executor.allocate(1, dtype, zero=False)
                self._made.append(made)
            else:
                made = _results.allocate(like, shape, dtype, self._executor)
        except MemoryError as error:
            short = (getattr(error, name, 0) for name in ("asked", "free", "cached"))
            text = f"{self._what}: no room for a result of shape {shape}, {dtype}: {error}"
            raise OutOfMemoryError(text, *short) from None
        except ValueError as error:
            raise InvalidArgumentError(f"{self._what}: a result of shape {shape}: {error}") from None
        self.add("the result", made)
        return made

    def complete(self, n: Any, f: Function) -> str:
        """Put the numbers where they belong, n times where that is given. Masks and indices have a dtype of their own.

        Bools that are made of others are made of such, but for comparisons.

        Returns:
            The operation to call: of a comparison with an int that the arrays' type has not another comparison.

        Raises:
            TypeError: One is a fraction, and the arrays are of integers.
            ValueError: One is out of the dtype's range, or none of a bool's two.
        """
        if not self._numbers:
            return f.operation
        from hologram._built import number

        apart, called = f.masks | f.indices, f.operation
        compares = f.operation in _ORDERS
        closed = self.buffers[-1].dtype == _BOOL and not compares
        name, _, array = next((given for given in self._given if given[0] not in apart), self._given[0])
        for place, argument, given, mask in self._numbers:
            value, dtype = (bool(given), _BOOL) if mask else (given, array.dtype)
            code = code_of(dtype)
            what = f"{self._what}: {argument}"
            if closed and value not in (0, 1):
                raise InvalidArgumentError(
                    f"{what} is {shown(value)}, and {name} has dtype bool, as the result has; expected True or False; "
                    f"{name}.view(numpy.uint8) has numbers"
                )
            if compares:
                value, called = _compared(f.operation, value, code, place == 1)
            try:
                number(what, value, NAMES[code - 1])
            except DTypeError:
                raise DTypeError(
                    f"{what} is {shown(value)}, and {name} has dtype {array.dtype}; expected an integer, or arrays of "
                    "floats"
                ) from None
            cell = self._executor.allocate(1, dtype, zero=False)
            self._made.append(cell)
            native.buffer_fill(cell, scalar_bits(value, what, code))
            count = None if n is None else integer(f"{self._what}: n", n, 0)
            view = cell.view(()) if count is None else cell.view((count,), strides=(0,))
            self._made.append(view)
            self.buffers.insert(place, view)
        return called

    def call(self, *arguments: Any, receive: Optional[Callable[[str], object]] = None) -> None:
        """Make the call, native.call's with these arguments.

        It goes to the stream that was given, whose order with the streams of the arrays' owners is the caller's
        business; else to that of the first owner, behind the work on those of the others, who wait for it in turn.

        Unless the library refuses it, it may have written: whatever else is raised, by a signal's handler or by who
        receives a trace's lines, ended it on its way.
        """

        def told(line: str) -> None:
            try:
                receive(line)  # type: ignore[misc]
            except BaseException:
                self._ended = True
                raise

        self._changed = True
        stream = self.stream
        if stream is None:
            stream = next((s for s in self._streams if s), 0)
        others = [s for s in self._streams if s != stream] if self.stream is None else []
        for other in others:
            self._behind(stream, other)
        try:
            native.call(self._executor, *arguments, stream, None if receive is None else told)
            for other in others:
                self._behind(other, stream)
        except HologramError as error:
            self._changed = self._ended or isinstance(error, (ProgramFault, LaunchCancelledError))
            raise

    def _behind(self, stream: int, other: int) -> None:
        """Have a stream wait for what was queued on another so far."""
        native.mark_await(self._executor, native.mark_record(self._executor, other), stream)

    def __enter__(self) -> Operands:
        """Return the operands."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Free the buffers that were made for the call; raise the versions of tensors that it wrote."""
        for buffer in self._made:
            buffer.free()
        if self._changed:
            _foreign.written(self._written)
