"""What operations and launches do with arrays that C leaves to Python: they become buffers for the time of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from hologram import _foreign
from hologram.buffer import Buffer
from hologram.errors import BufferFreedError, HologramError, LaunchCancelledError, ProgramFault

if TYPE_CHECKING:
    from hologram.executor import Executor


class Operands:
    """The arrays of one call as buffers; those made for the call are freed after it."""

    __slots__ = ("_executor", "_made", "_what", "_written", "buffers")

    def __init__(self, executor: Executor, what: str) -> None:
        """Begin a call; errors start with what."""
        self._executor = executor
        self._what = what
        self._made: list[Buffer] = []
        self._written: list[Any] = []
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
            try:
                buffer = self._executor.wrap(value)
            except HologramError as error:
                raise type(error)(f"{self._what}: {name}: {error}") from None
            except TypeError as error:
                raise TypeError(f"{self._what}: {name}: {error}") from None
            self._made.append(buffer)
            if written:
                self._written.append(value)
        self.buffers.append(buffer)
        return buffer

    def replace(self, i: int, view: Buffer) -> None:
        """Let a view stand for operand i in the call."""
        self._made.append(view)
        self.buffers[i] = view

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
