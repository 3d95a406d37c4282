"""Futures: what is submitted is waited for by whoever wants its result, when he wants it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
import types
from typing import Any

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import ops

N = 10_000


def test_numbers(ex: hg.Executor) -> None:
    x, y = buffer(ex, np.arange(N)), buffer(ex, np.ones(N))
    total = ops.reduce_sum(x)
    futures = [
        ex.submit(ops.reduce_sum, x),
        ex.submit(ops.reduce_sum, input=x, ex=ex),
        ex.submit(ops.reduce_sum, ex, x),
        ex.submit(ops.reduce_sum, x, ex.allocate(3)),
    ]
    assert [f.result() for f in futures] == [total] * 4
    assert all(type(f.result()) is float and f.done() and not f.running() for f in futures)
    assert ex.submit(ops.argmax, x).result() == N - 1
    assert ex.submit(ops.reduce_max, x, n=10).result() == 9
    assert ex.submit(ops.mse_loss, x, y).result() == ops.mse_loss(x, y)
    assert ex.submit(y.view((1,)).item).result() == 1.0
    truth = ex.submit(ops.reduce_max, buffer(ex, [False, True], bool)).result()
    assert truth is True


def test_arrays_and_nothing(ex: hg.Executor) -> None:
    x = buffer(ex, np.arange(N))
    made = ex.submit(ops.vector_add, x, x).result()
    assert isinstance(made, hg.Buffer)
    assert np.array_equal(ex.submit(made.to_numpy).result(), 2 * np.arange(N))
    out = np.empty(N, np.float32)
    assert ex.submit(made.to_numpy, out).result() is out
    assert out[7] == 14
    turned = made.view((2, N // 2)).view((N // 2, 2), strides=(1, N // 2))
    assert ex.submit(turned.to_numpy, stream=hg.Stream(ex)).result().shape == (N // 2, 2)
    p = hg.Program("program p\nslot a f32\nldg.f32 x, a[index]\nadd.f32 x, x, 1.0\nstg.f32 x, a[index]\nexit")
    assert ex.submit(ex.launch, p, a=x).result() is None
    assert ex.submit(x.from_numpy, np.full(N, 5, np.float32)).result() is None
    assert ops.reduce_max(x) == 5
    assert ex.submit(lambda: ops.relu(x) is not x and 3).result() == 3


def test_the_order_is_that_of_the_calls(ex: hg.Executor) -> None:
    """What is queued after a call of submit does not show in its result."""
    x = buffer(ex, np.zeros(N))
    futures = []
    for _ in range(20):
        futures.append(ex.submit(ops.reduce_max, x))
        futures.append(ex.submit(x.to_numpy))
        ops.scalar_add(x, x, scalar=1.0)
    assert [f.result() for f in futures[::2]] == list(range(20))
    assert [f.result().max() for f in futures[1::2]] == list(range(20))


def test_errors_are_the_future_s(ex: hg.Executor) -> None:
    x = buffer(ex, np.ones(4))
    assert isinstance(ex.submit(ops.reduce_sum, 3).exception(), TypeError)
    with pytest.raises(ValueError, match="shape"):
        ex.submit(x.to_numpy, np.empty(5, np.float32)).result()
    with pytest.raises(TypeError, match="submit: expected a function, got int"):
        ex.submit(3)  # type: ignore[arg-type]
    with hg.Executor(ex.backend) as other:
        with pytest.raises(ValueError, match=r"submit: ex is .*, and the call is submitted to"):
            other.submit(ops.reduce_sum, ex, x).result()
    with pytest.raises(RuntimeError, match="freed"):
        other.submit(ops.reduce_sum, x)
    p = hg.Program("program stray\nslot a f32\nstg.f32 1.0, a[64]\nexit")
    wild = ex.submit(ex.launch, p, a=x, n=4)
    with pytest.raises(hg.ProgramFault, match="stray"):
        wild.result()
    ex.synchronize()  # it was told


def test_callbacks_and_those_who_wait(ex: hg.Executor) -> None:
    x = buffer(ex, np.ones(N))
    told: list[Any] = []
    all_told = threading.Event()

    def tell(future: Any) -> None:
        told.append((future.result(), threading.current_thread().name))
        if len(told) == 10:
            all_told.set()

    futures = [ex.submit(ops.reduce_sum, x) for _ in range(10)]
    for future in futures:
        future.add_done_callback(tell)
    assert all_told.wait(30)
    assert [value for value, _ in told] == [float(N)] * 10
    known = {"MainThread", "hologram: futures"}
    assert {name for _, name in told} <= known
    done, left = concurrent.futures.wait([ex.submit(ops.reduce_sum, x) for _ in range(5)], timeout=30)
    assert len(done) == 5 and not left
    assert [f.result() for f in concurrent.futures.as_completed(futures)] == [float(N)] * 10
    assert not futures[0].cancel()


def test_coroutines(ex: hg.Executor) -> None:
    x = buffer(ex, np.arange(N))

    async def work() -> list[Any]:
        largest = await ex.submit(ops.reduce_max, x)
        both = await asyncio.gather(*(asyncio.wrap_future(ex.submit(ops.reduce_min, x)) for _ in range(3)))
        with pytest.raises(TypeError):
            await ex.submit(ops.reduce_sum, 3)
        return [largest, *both]

    assert asyncio.run(work()) == [N - 1, 0, 0, 0]


def test_a_callback_may_wait_for_a_thread_that_waits_for_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both find that the work is over; who comes second is let go before callbacks are called."""
    looks = threading.Semaphore(0)

    def event_wait(_event: object, _milliseconds: int) -> bool:
        looks.release()
        return True

    def value() -> int:
        looks.acquire()  # this thread's own
        other.start()
        looks.acquire()  # the other one is about to settle it too
        return 3

    monkeypatch.setattr("hologram.future.native", types.SimpleNamespace(event_wait=event_wait))
    future = hg.Future(object(), value)  # type: ignore[arg-type]
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(future.result()), daemon=True)
    ended: list[bool] = []

    def callback(_future: object) -> None:
        other.join(10)
        ended.append(not other.is_alive())

    future.add_done_callback(callback)
    assert future.result() == 3 and ended == [True] and found == [3]


def test_a_timeout(ex: hg.Executor) -> None:
    future = hg.Future(None, lambda: 3)
    assert future.result(timeout=0) == 3
    x = buffer(ex, np.ones(N))
    for timeout in (0.0, 30):
        try:
            assert ex.submit(ops.reduce_sum, x).result(timeout) == N
        except concurrent.futures.TimeoutError as error:
            assert timeout == 0 and "the device was not done after 0.0 s" in str(error)


def test_futures_that_nobody_waits_for(ex: hg.Executor) -> None:
    x = buffer(ex, np.ones(N))
    before = hg._ffi.native.object_count()
    for _ in range(200):
        ex.submit(ops.reduce_sum, x)
        ex.submit(x.to_numpy)
    ex.synchronize()
    until = time.monotonic() + 30
    while hg._ffi.native.object_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert hg._ffi.native.object_count() <= before
