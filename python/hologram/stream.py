"""Streams, on which a device does one thing after the other, and events, which are places in their order."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from hologram._arguments import shown
from hologram._ffi import hooks, native
from hologram.errors import BackendError, DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hologram._ffi import Owner
    from hologram.executor import Executor

__all__ = ["Event", "Stream"]

LEGACY = 1
"""The default stream that waits for all others, by DLPack's number."""

_PER_THREAD = 2

_SLICE_MS = 50  # after which signal handlers run


class Stream:
    """A stream of an executor, beside its own: work on it runs beside that on other streams.

    ``stream=`` of operations, launches and copies takes it. What uses one buffer on several streams is put in order:
    hologram sees to that, and has a stream wait for another on the device. With arrays of others, or where others work
    on the stream too, events do it: ``stream.wait(event)``.

    On a device that works while it is called, as the CPU, it stands for the executor's one order of work.

    Attributes:
        executor: The executor.
        handle: The number by which others use the stream too: on CUDA the address of a CUstream, for
            ``torch.cuda.ExternalStream(handle)`` or ``cupy.cuda.ExternalStream(handle)``. 0 where there is none.
    """

    __slots__ = ("__weakref__", "_owner", "executor", "handle")

    executor: Executor
    handle: int

    def __init__(self, executor: Executor) -> None:
        """Make another stream; ``executor.stream`` is the one that it has."""
        from hologram.executor import check_executor

        check_executor("Stream", executor)
        self.executor = executor
        self._owner: Optional[Owner] = native.stream_new(executor) if executor.asynchronous else None
        self.handle = self._owner.handle if self._owner is not None else 0

    def record(self) -> Event:
        """Return an event behind what was queued on the stream so far."""
        return Event().record(self.executor, self)

    def wait(self, event: Event) -> None:
        """Have what is queued on the stream from now on wait for an event; the caller doesn't."""
        self.executor.wait(event, stream=self)

    def synchronize(self) -> None:
        """Wait for the work on the stream. What went wrong in it is raised by ``executor.synchronize``."""
        self.record().synchronize()

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol, by which others take streams, and the CUstream's address."""
        if self.executor._device_type != 2:
            raise BackendError(f"{self!r}: it is no stream of CUDA's")
        return 0, self.handle

    def __repr__(self) -> str:
        """Describe the stream in one line."""
        return f"<Stream 0x{self.handle:x} of {self.executor!r}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two objects would own one stream."""
        raise TypeError("cannot copy or pickle a hologram.Stream; make another one")


def own_stream(executor: Executor) -> Stream:
    """Return the stream that an executor has."""
    stream = Stream.__new__(Stream)
    stream._owner = None
    stream.executor = executor
    stream.handle = int(native.executor_stream(executor))
    return stream


class Event:
    """A place in the order of a stream: ``executor.record()`` makes one behind what was queued so far.

    Others ask whether the device has come to it, wait for it, and how long it took from one event to another. On a
    device that works while it is called, as the CPU, it has come to an event that is recorded.
    """

    __slots__ = ("__weakref__", "_executor", "_mark")

    def __init__(self) -> None:
        """Make an event that is not recorded yet; ``record`` does."""
        self._mark: Optional[Owner] = None
        self._executor: Optional[Executor] = None

    def record(self, executor: Executor, stream: Any = None) -> Event:
        """Put the event behind what was queued so far, on the executor's stream or another; return the event.

        Raises:
            TypeError: There is no such stream.
        """
        from hologram.executor import check_executor

        check_executor("record", executor)
        self._mark = native.mark_record(executor, number_of(stream, executor, "record: "))
        self._executor = executor
        return self

    def query(self) -> bool:
        """Whether the device has come to the event; it has to one that is not recorded."""
        return not self._mark or bool(native.mark_wait(self._mark, 0))

    def synchronize(self) -> None:
        """Wait until the device has come to the event. What went wrong before it is ``executor.synchronize``'s."""
        while self._mark and not native.mark_wait(self._mark, _SLICE_MS):
            pass

    def elapsed(self, end: Event) -> float:
        """Return how many milliseconds the device took from this event to another, as it counts them itself.

        Raises:
            ValueError: One is not recorded, the device has not come to one, or they are on different devices.
            RuntimeError: The device does not tell times.
        """
        for name, event in (("this event", self), ("end", end)):
            if not isinstance(event, Event):
                raise DTypeError(f"elapsed: {name}: expected an Event, got {type(event).__name__}")
            if not event._mark:
                raise InvalidArgumentError(f"elapsed: {name} is not recorded")
        return float(native.mark_elapsed(end._mark, self._mark)) / 1e6

    def __repr__(self) -> str:
        """Describe the event in one line."""
        if not self._mark:
            return "<Event, not recorded>"
        return f"<Event on {self._executor!r}, {'passed' if self.query() else 'to come'}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two objects would own one handle."""
        raise TypeError("cannot copy or pickle a hologram.Event; record another one")


def number_of(stream: Any, executor: Executor, what: str = "") -> int:
    """Return the number of a stream that a caller names, 0 for the executor's own.

    Args:
        stream: None for the executor's own; a Stream, torch's or CuPy's, another's with __cuda_stream__, or a number as
            CUDA has it: 0 and 1 are the default stream, others are addresses.
        executor: Whose work is to go there.
        what: What errors begin with.

    Raises:
        DTypeError: It is no stream.
        InvalidArgumentError: It is a stream of another device, or one that is not for others.
        BackendError: The executor's device has no streams of others.
    """
    if stream is None:
        return 0
    if isinstance(stream, Stream):
        if stream.executor._freed or executor.backend != stream.executor.backend:
            raise InvalidArgumentError(f"{what}stream is {stream!r}; expected one on {executor.backend}")
        return stream.handle
    number, device = _theirs(stream, what)
    if not executor.asynchronous:
        raise BackendError(
            f"{what}stream is {shown(stream)}; the executor is on {executor.backend}, which works while it is called "
            "and takes a hologram.Stream or none"
        )
    if device is not None and device >= 0 and device != executor._device_id:
        raise InvalidArgumentError(
            f"{what}stream is {shown(stream)}, on device {device}; the executor is on {executor.backend}"
        )
    if number == _PER_THREAD:
        raise InvalidArgumentError(
            f"{what}stream is the default stream of each thread (2), which no other thread can wait for; make one"
        )
    if not 0 <= number < 1 << 63:
        raise InvalidArgumentError(f"{what}stream is {number}; expected a stream's address, or 0 for the default one")
    return number or LEGACY


def _theirs(stream: Any, what: str) -> tuple[int, Optional[int]]:
    """Return a stream of others as a number, and the number of its device if it tells that."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream, None
    if not isinstance(stream, type):
        address = getattr(stream, "cuda_stream", None)  # torch's
        if isinstance(address, int):
            return address, getattr(getattr(stream, "device", None), "index", None)
        address = getattr(stream, "ptr", None)  # CuPy's
        if isinstance(address, int):
            return address, getattr(stream, "device_id", None)
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is not None:
            pair = protocol() if callable(protocol) else protocol
            return int(pair[1]), None
    raise DTypeError(
        f"{what}stream is {shown(stream)}; expected a hologram.Stream, one of torch.cuda or cupy.cuda, or an address"
    )


def of_torch(device: Any) -> int:
    """Return the number of the stream on which torch works now on a device of CUDA's."""
    return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream) or LEGACY


hooks["stream"] = number_of
