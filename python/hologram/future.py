"""Futures of what a device does meanwhile, as concurrent.futures has them, which asyncio awaits too."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import types
from typing import TYPE_CHECKING, Any, Callable, Optional

import numpy as np

from hologram import _copies
from hologram._ffi import native
from hologram._operands import Unread
from hologram.buffer import Buffer
from hologram.errors import HologramError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Generator

    from hologram._ffi import Owner
    from hologram.executor import Executor

__all__ = ["Future"]

_SLICE_MS = 50  # after which signal handlers run


class Future(concurrent.futures.Future):  # type: ignore[type-arg]
    """What ``executor.submit`` returns: a result that is there when the device has done its work.

    It is a future of ``concurrent.futures``, so ``wait`` and ``as_completed`` of that module take it, and it can be
    awaited. Functions that ``add_done_callback`` is given are called by the thread that finds that it is done: one that
    waits for it, or one of Python's that watches, never one of the driver's. What is queued on a device is not
    cancelled by ``cancel``, which says so: ``executor.cancel()`` asks that of all work.
    """

    def __init__(self, event: Optional[Owner], value: Callable[[], Any]) -> None:
        """Make the future of an event, or of what is done; its result is what value returns then."""
        super().__init__()
        self.set_running_or_notify_cancel()
        self._event = event
        self._value = value
        self._outcome: Optional[tuple[Any, Optional[BaseException]]] = None  # result and error, once known
        self._settling = threading.Lock()
        if event is None:
            self._settle(None)

    def _look(self, milliseconds: int) -> bool:
        """Wait up to a time; whether it is done."""
        event = self._event  # before the look: it goes once there is a result
        if super().done():
            return True
        try:
            if not native.event_wait(event, milliseconds):
                return False
        except HologramError as error:
            self._settle(error)
        else:
            self._settle(None)
        return True

    def _settle(self, error: Optional[BaseException]) -> None:
        with self._settling:
            if super().done():
                return
            if self._outcome is None:
                result = None
                if error is None:
                    try:
                        result = self._value()
                    except Exception as wrong:
                        error = wrong
                self._outcome = result, error
            result, error = self._outcome
        # Without the lock, since callbacks are called here, which may wait for a thread that waits for this future.
        # Last, so that one whom a signal handler's exception interrupts before it is not done, and settled again.
        try:
            if error is None:
                self.set_result(result)
            else:
                self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            pass  # another thread was faster
        self._event, self._value = None, _nothing  # which holds nothing

    def _wait(self, timeout: Optional[float]) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not super().done():
            left = _SLICE_MS if end is None else min(_SLICE_MS, max(0, int(1000 * (end - time.monotonic()))))
            if not self._look(left) and end is not None and time.monotonic() >= end:
                raise concurrent.futures.TimeoutError(f"the device was not done after {timeout} s")

    def done(self) -> bool:
        """Whether the result, or what went wrong, is there."""
        return self._look(0)

    def running(self) -> bool:
        """Whether the device is still at work."""
        return not self.done()

    def result(self, timeout: Optional[float] = None) -> Any:
        """Return the result, for which the caller waits up to some seconds, or without timeout as long as it takes.

        Raises:
            TimeoutError: It is not there by then.
            HologramError: What went wrong, in this work or in other whose outcome nobody had seen.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Return what went wrong, or None; the caller waits as for ``result``."""
        self._wait(timeout)
        return super().exception(0)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the result in a coroutine, while others run."""
        import asyncio

        return asyncio.wrap_future(self).__await__()


def _nothing() -> None:
    return None


# ---- who watches


_watched: list[Future] = []
# Taken by its own name, since Condition.__enter__ is Python's: what a signal handler raises in there, once the lock is
# taken, would leave it so.
_lock = threading.RLock()
_changed = threading.Condition(_lock)
_watcher: Optional[threading.Thread] = None

_IDLE_S = 10.0


def _watch() -> None:
    global _watcher
    while True:
        with _lock:
            if not _watched and not _changed.wait(_IDLE_S) and not _watched:
                _watcher = None
                return
            futures = list(_watched)
        # They mostly end in their order; who waits for one by himself is not kept by this.
        for i, future in enumerate(futures):
            future._look(2 if i == 0 else 0)
        del future
        with _lock:
            _watched[:] = [each for each in _watched if not concurrent.futures.Future.done(each)]
        futures.clear()


def _started(event: Optional[Owner], value: Callable[[], Any]) -> Future:
    """Return the future of an event, which is watched until it is done."""
    global _watcher
    future = Future(event, value)
    if event is not None:
        with _lock:
            _watched.append(future)
            if _watcher is None or not _watcher.is_alive():
                _watcher = threading.Thread(target=_watch, name="hologram: futures", daemon=True)
                _watcher.start()
            _changed.notify()
    return future


# ---- what is submitted


def submit(executor: Executor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
    """Return a future of a call; see Executor.submit."""
    executor._check()
    if not callable(function):
        raise TypeError(f"submit: expected a function, got {type(function).__name__}")
    try:
        event, value = _begin(executor, function, args, kwargs)
    except Exception as error:
        failed = error

        def fail() -> None:
            raise failed

        return Future(None, fail)
    return _started(event, value)


def _begin(
    executor: Executor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Optional[Owner], Callable[[], Any]]:
    """Call a function; return the event of what it has begun, and what gives its result then."""
    signature = getattr(function, "__self__", None)
    if type(signature).__name__ == "Signature" and isinstance(function, types.BuiltinFunctionType):
        from hologram.executor import Executor

        given = args[0] if args and isinstance(args[0], Executor) else kwargs.get("ex")
        if given is None:
            args, kwargs = (executor, *args), {k: v for k, v in kwargs.items() if k != "ex"}
        elif given is not executor:
            raise InvalidArgumentError(f"submit: ex is {given!r}, and the call is submitted to {executor!r}")
        if not executor.asynchronous:
            return None, _constant(function(*args, **kwargs))
        result, number = native.later(signature, args, tuple(kwargs), tuple(kwargs.values()))
        if isinstance(result, Unread):
            return _number(result.buffer)
        return _number(result) if number else (native.outcome(executor), _constant(result))
    owner = signature if isinstance(signature, Buffer) and signature.executor.asynchronous else None
    kind = getattr(function, "__func__", None)
    if owner is not None and kind is Buffer.to_numpy:
        return _read(owner, *args, **kwargs)
    if owner is not None and kind is Buffer.item:
        owner._check_one("a number", *args, **kwargs)
        return _number(owner)
    if owner is not None and kind is Buffer.from_numpy:
        return _written(owner, *args, **kwargs)
    result = function(*args, **kwargs)
    return (native.outcome(executor) if executor.asynchronous else None), _constant(result)


def _constant(result: Any) -> Callable[[], Any]:
    return lambda: result


def _read(buffer: Buffer, out: Any = None, *, stream: Any = None) -> tuple[Optional[Owner], Callable[[], Any]]:
    found = _copies.target(buffer, out)
    return _copies.read(buffer, found, stream, True), _constant(found)


def _written(buffer: Buffer, array: Any, *, stream: Any = None) -> tuple[Optional[Owner], Callable[[], Any]]:
    packed = _copies.check_source(buffer, array)
    later = packed is array and _copies.is_pinned(buffer.executor, packed)
    return _copies.write(buffer, packed, stream, later), _constant(None)


def _number(buffer: Buffer) -> tuple[Optional[Owner], Callable[[], Any]]:
    """Return the event of reading a buffer's element 0, and what gives it as a number then."""
    with buffer.view((1,)) as first:
        cell = np.empty(1, buffer.dtype)
        return _copies.read(first, cell, None, True), lambda: cell[0].item()
