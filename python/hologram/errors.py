"""The exceptions of Hologram. All derive from HologramError and from the built-in kind that fits."""

from __future__ import annotations

from typing import Optional

__all__ = [
    "BackendError",
    "BufferFreedError",
    "DTypeError",
    "DeviceLostError",
    "ExecutorFreedError",
    "ForkError",
    "FreedError",
    "HologramError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidBackendError",
    "LaunchCancelledError",
    "OutOfMemoryError",
    "ProgramFault",
    "ProgramFreedError",
    "ProgramSyntaxError",
    "ProgramVerifyError",
]


class HologramError(Exception):
    """The base of all exceptions of Hologram."""


class InvalidArgumentError(HologramError, ValueError):
    """An argument has a value that cannot be."""


class DTypeError(HologramError, TypeError, ValueError):
    """An argument has the wrong dtype or kind."""


class FreedError(HologramError, RuntimeError):
    """Something was used after it was freed; the message says what."""


class BufferFreedError(FreedError):
    """A buffer was used after it was freed."""


class ExecutorFreedError(FreedError):
    """An executor was used after it was freed."""


class ProgramFreedError(FreedError):
    """A program was used after it was freed."""


class OutOfMemoryError(HologramError, MemoryError):
    """The device's memory, its limit or the executor's quota is used up.

    The memory that the device keeps for reuse was given back before, where that would have helped.

    Attributes:
        asked: The bytes that were asked for; 0 where it is not known.
        free: The bytes that were left to be taken from the device within its limit, or the executor's; 0 also where
            that is not known, as on the CPU without a limit.
        cached: The bytes that the device kept for reuse nevertheless, as in pieces that are too small.
    """

    def __init__(self, message: str = "", asked: int = 0, free: int = 0, cached: int = 0) -> None:
        super().__init__(message)
        self.asked = asked
        self.free = free
        self.cached = cached

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with all attributes."""
        return type(self), (str(self), self.asked, self.free, self.cached)


class ProgramSyntaxError(HologramError, ValueError):
    """The text or bytes of a program are wrong."""


class ProgramVerifyError(HologramError, ValueError):
    """A program breaks a rule of the verifier."""


class ProgramFault(HologramError, RuntimeError):
    """A launch ran to its end, and some lane did what it must not; outputs keep what was written.

    Attributes:
        kind: "access", "divide", "fuel", "class" or "handle".
        instruction: Index of the instruction in the program as written.
        line: Its 1-based line in the program's text, or None if there is no text.
        lane: The lowest of the lanes that did it, by its global number; one of them on a GPU.
    """

    def __init__(self, message: str, kind: str, instruction: int, line: Optional[int], lane: int) -> None:
        super().__init__(message)
        self.kind = kind
        self.instruction = instruction
        self.line = line
        self.lane = lane

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with all attributes."""
        return type(self), (str(self), self.kind, self.instruction, self.line, self.lane)


class LaunchCancelledError(HologramError, RuntimeError):
    """A launch was cancelled before its end."""


class BackendError(HologramError, RuntimeError):
    """A backend is not there, or cannot do what was asked."""


class InvalidBackendError(HologramError, ValueError, RuntimeError):
    """No backend has the name that was given."""


class DeviceLostError(HologramError, RuntimeError):
    """The device is of no more use to this process, as after an access to memory that is not there.

    Whoever did it, hologram, PyTorch or CuPy: they share the device's context, which nobody resets. All executors on
    the device raise this from then on; the message names what failed first. Recovery is a new process.
    """


class ForkError(HologramError, RuntimeError):
    """This process is a fork's child; Hologram works in processes started with exec."""


class InternalError(HologramError, RuntimeError):
    """A defect of Hologram."""


_FAULTS = {1: "access", 2: "divide", 3: "fuel", 4: "class", 5: "handle"}

_KINDS: dict[int, type[HologramError]] = {
    2: InvalidArgumentError,
    3: DTypeError,
    4: FreedError,
    5: OutOfMemoryError,
    6: ProgramSyntaxError,
    7: ProgramVerifyError,
    9: LaunchCancelledError,
    10: BackendError,
    11: ForkError,
    12: InternalError,
    14: DeviceLostError,
}
"""The exception of each status of the C ABI; 8, a fault, has attributes, and so has 5."""


def of_status(
    status: int, message: str, kind: int, instruction: int, line: int, lane: int, asked: int, free: int, cached: int
) -> HologramError:
    """Return the exception of a status of the C ABI; four are of the fault, the last three of memory that is short."""
    if status == 8:
        return ProgramFault(message, _FAULTS.get(kind, "unknown"), instruction, line or None, lane)
    if status == 5:
        return OutOfMemoryError(message, asked, free, cached)
    return _KINDS.get(status, InternalError)(message)
