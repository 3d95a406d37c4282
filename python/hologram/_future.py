"""Futures of what an executor has queued: results that come without anybody waiting for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from hologram.executor import Executor

__all__ = ["Future"]

T = TypeVar("T")


class Future(concurrent.futures.Future[T]):
    """A result that is there once an executor's work is done; ``Executor.future`` makes it.

    It is a ``concurrent.futures.Future``, so ``result``, ``exception``, ``done``, ``add_done_callback`` and
    ``concurrent.futures.wait`` are the standard library's, and it may be awaited. Callbacks run on a thread of
    Python's that waits for the work, which ``cancel`` does not end: ``Executor.cancel`` does.
    """

    def __await__(self) -> Generator[Any, None, T]:
        """Wait in an event loop, which goes on meanwhile."""
        return asyncio.wrap_future(self).__await__()


def begin(executor: Executor, then: Callable[[], T]) -> Future[T]:
    """Return the future of what a function returns once all that was queued so far is done."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def wait() -> None:
        try:
            executor.synchronize()
            result = then()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    # One that does not hold up the interpreter's end: work without end is cancelled then.
    threading.Thread(target=wait, name="hologram: a future", daemon=True).start()
    return future
