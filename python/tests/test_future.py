"""Futures of an executor's work: results, errors, callbacks, event loops."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import DEVICE

import hologram as hg
from hologram import ops

ENDLESS = "slot c u32\nagain:\n ldg.u32 x, c[index]\n add.u32 x, x, 1\n stg.u32 x, c[index]\n bra again\n exit"


def test_a_result(ex: hg.Executor) -> None:
    a = ex.from_numpy(np.arange(1000, dtype=np.float32))
    ops.vector_add(ex, a, a, a)
    f = ex.future(a.to_numpy)
    assert isinstance(f, hg.Future) and isinstance(f, concurrent.futures.Future)
    assert np.array_equal(f.result(60), 2 * np.arange(1000, dtype=np.float32))
    assert ex.future().result(60) is None


def test_callbacks_and_waiting_for_several(ex: hg.Executor) -> None:
    a = ex.from_numpy(np.ones(8, np.float32))
    called: list[tuple[str, object]] = []
    rung = threading.Event()

    def ring(f: hg.Future[object]) -> None:
        called.append((threading.current_thread().name, f.result()))
        rung.set()

    futures = [ex.future(lambda k=k: k) for k in range(5)]  # type: ignore[misc]
    ops.vector_mul(ex, a, a, a)
    done, late = concurrent.futures.wait(futures, 60)
    assert not late and sorted(f.result() for f in done) == [0, 1, 2, 3, 4]
    futures[0].add_done_callback(ring)
    assert rung.wait(60) and called[0][1] == 0


def test_an_event_loop_goes_on(ex: hg.Executor) -> None:
    a = ex.from_numpy(np.full(1 << 16, 3, np.float32))

    async def main() -> tuple[float, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        ops.vector_mul(ex, a, a, a)
        found = await ex.future(a.to_numpy)
        ticking.cancel()
        return float(found[-1]), ticks

    value, ticks = asyncio.run(main())
    assert value == 9 and ticks > 0


def test_what_went_wrong_is_the_future_s(ex: hg.Executor) -> None:
    def wrong() -> None:
        raise KeyError("then")

    with pytest.raises(KeyError, match="then"):
        ex.future(wrong).result(60)
    a = ex.from_numpy(np.zeros(4, np.int32))
    try:
        ops.vector_div(ex, a, a, a)
    except hg.ProgramFault:  # a device that works while it is called
        return
    with pytest.raises(hg.ProgramFault):
        ex.future().result(60)
    ex.synchronize()  # it was told


def test_cancelled_work(device: str) -> None:
    with hg.Executor(device) as ex:
        if not ex.asynchronous:
            pytest.skip("work is done when a call returns")
        ex.launch(hg.Program(ENDLESS), c=ex.allocate(4, "u32"))
        f = ex.future()
        with pytest.raises(concurrent.futures.TimeoutError):
            f.result(0.05)
        ex.cancel()
        assert isinstance(f.exception(60), (type(None), hg.errors.LaunchCancelledError))


def test_a_future_of_a_freed_executor(device: str) -> None:
    ex = hg.Executor(device)
    ex.cleanup()
    with pytest.raises(hg.errors.ExecutorFreedError):
        ex.future()


def test_the_interpreter_ends_while_a_future_is_to_come() -> None:
    code = f"""
import hologram as hg
ex = hg.Executor({DEVICE!r})
c = ex.allocate(4, "u32")
f = ex.future(__import__("threading").Event().wait)
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "end", "")
