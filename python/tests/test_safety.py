"""Memory that Python owns outlives whatever uses it, and work ends before the call that began it leaves."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import time
import weakref
from typing import Any, Callable

import numpy as np
import pytest
from support import from_dlpack
from test_process import passes, posix

import hologram as hg
from hologram._ffi import native

# Adds a to b again and again; k rounds take as long as one likes.
SLOW = (
    "program slow\nslot a f32\nslot b f32\nparam k u32\nldp.u32 k, k\nmov.f32 s, 0\nloop k, done\n"
    "ldg.f32 x, a[index]\nadd.f32 s, s, x\nstg.f32 s, b[index]\ndone:\nexit"
)


class Owner(np.ndarray[Any, Any]):
    """An array that weak references see die."""


def owned(n: int) -> tuple[Owner, weakref.ref[Owner]]:
    array = np.ones(n, np.float32).view(Owner)
    return array, weakref.ref(array)


def gone(ref: weakref.ref[Any]) -> bool:
    """Whether an object dies soon; another thread may hold it for a moment more."""
    for _ in range(500):
        gc.collect()
        if ref() is None:
            return True
        time.sleep(0.01)
    return False


# ---- arrays that are wrapped


@pytest.mark.parametrize("end", ["free", "cleanup"])
def test_a_wrapped_array_outlives_the_work_on_it(end: str) -> None:
    ex = hg.Executor("cpu")
    program = hg.Program(SLOW)
    (src, src_ref), (dst, dst_ref) = owned(1 << 14), owned(1 << 14)
    a, b = ex.wrap(src), ex.wrap(dst)
    del src, dst
    outcome: list[object] = []

    def run() -> None:
        try:
            ex.launch(program, a=a, b=b, k=1 << 31)
        except hg.HologramError as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 30
    while not native.waiting() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert native.waiting(), "the launch never went on"
    if end == "free":
        a.free()
        b.free()
        gc.collect()
        assert src_ref() is not None
        assert dst_ref() is not None
    ex.cleanup()
    thread.join(60)
    assert isinstance(outcome[0], hg.errors.LaunchCancelledError)
    assert gone(src_ref)
    assert gone(dst_ref)


@pytest.mark.parametrize("use", ["view", "array", "dlpack"])
def test_a_wrapped_array_lives_as_long_as_what_sees_it(host: hg.Executor, use: str) -> None:
    array, ref = owned(16)
    buffer = host.wrap(array)
    del array
    kept: Any = {
        "view": lambda: buffer.view((4,)),
        "array": lambda: np.asarray(buffer),
        "dlpack": lambda: from_dlpack(buffer),
    }[use]()
    buffer.free()
    gc.collect()
    assert ref() is not None
    del kept
    assert gone(ref)


def test_what_was_not_wrapped_is_not_kept(host: hg.Executor) -> None:
    before = native.kept()
    with pytest.raises(ValueError, match="dimensions"):
        host.wrap(np.zeros((1,) * 9, np.float32))
    assert native.kept() == before


@posix
def test_an_interpreter_ends_while_a_daemon_thread_works_on_arrays() -> None:
    passes(
        f"""
ex = hg.Executor("cpu")
program = hg.Program({SLOW!r})
def run():
    ex.launch(program, a=ex.wrap(np.ones(1 << 14, np.float32)), b=ex.wrap(np.ones(1 << 14, np.float32)), k=2**31)
threading.Thread(target=run, daemon=True).start()
from hologram._ffi import native
while not native.waiting():
    time.sleep(0.01)
""",
        timeout=120,
    )


# ---- exceptions of signal handlers


@posix
@pytest.mark.parametrize("kind", ["Stop", "SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("work", ["launch", "op"])
def test_whatever_a_signal_handler_raises_ends_the_work_before_the_call_leaves(kind: str, work: str) -> None:
    """Signals come at all moments of a call, and twice; no work goes on afterwards."""
    passes(
        f"""
import random
class Stop(Exception): pass
left = 0
def handler(*_):
    global left
    left -= 1
    if left >= 0:
        raise {kind}
signal.signal(signal.SIGALRM, handler)
ex = hg.Executor("cpu")
program = hg.Program({SLOW!r})
x, y = np.ones(1 << 14, np.float32), np.zeros(1 << 14, np.float32)
m = np.ones((700, 700), np.float32)
out = np.zeros((700, 700), np.float32)
from hologram._ffi import native
random.seed(1)
raised = 0
for i in range(25):
    left = random.choice([1, 2])
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.02), 0.0003)
        try:
            for _ in range(100):
                if {work!r} == "launch":
                    ex.launch(program, a=x, b=y, k=100_000)
                else:
                    hg.ops.gemm(ex, m, m, out, 700, 700, 700)
        finally:
            left = 0
            signal.setitimer(signal.ITIMER_REAL, 0)
    except {kind}:
        raised += 1
    left = 0
    signal.setitimer(signal.ITIMER_REAL, 0)  # the one above may have been interrupted
    assert not native.waiting()
    if i == 5:
        objects = native.object_count()
    assert i < 5 or native.object_count() == objects, "an event is left"
    now = y.copy(), out.copy()
    time.sleep(0.005)
    assert (now[0] == y).all() and (now[1] == out).all(), i
assert raised == 25, raised
""",
        timeout=240,
    )


# ---- what the receiver of a trace does

STORE = "program t\nslot b f32\nmov.f32 x, 1.5\nstg.f32 x, b[index]\nexit"
ENDLESS = "program t\nslot b u32\nmov.u32 x, 1\nagain:\nadd.u32 x, x, 1\nstg.u32 x, b[index]\nbra again"


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("text", [STORE, ENDLESS])
def test_what_a_trace_receiver_raises_ends_the_trace(host: hg.Executor, text: str, kind: type[BaseException]) -> None:
    program = hg.Program(text)
    buffer = host.allocate(4, program.slots[0].dtype)
    lines: list[str] = []

    def receive(line: str) -> None:
        lines.append(line)
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        host.trace(program, b=buffer, receive=receive)
    assert len(lines) == 1
    host.synchronize()
    hg.ops.vector_add(host, buffer, buffer, buffer)


def test_a_trace_receiver_may_use_the_executor(host: hg.Executor) -> None:
    buffer = host.allocate(4)
    program = hg.Program(STORE)
    seen: list[float] = []
    host.trace(program, b=buffer, receive=lambda line: seen.append(buffer.to_numpy()[0]))
    assert len(seen) == 3


@posix
def test_ctrl_c_ends_a_trace() -> None:
    passes(
        f"""
def handler(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
ex = hg.Executor("cpu")
signal.alarm(1)
try:
    ex.trace(hg.Program({ENDLESS!r}), b=ex.allocate(4, "u32"))
except KeyboardInterrupt:
    sys.exit(0)
sys.exit(1)
"""
    )


@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_owns_a_handle_is_not_copied(ex: hg.Executor, copies: Callable[[object], object]) -> None:
    buffer = ex.allocate(3)
    for thing in (buffer, ex):
        with pytest.raises(TypeError, match=f"hologram.{type(thing).__name__}"):
            copies(thing)
    gc.collect()
    buffer.fill(2)
    assert buffer.to_numpy().tolist() == [2, 2, 2]


def test_a_finalizer_that_allocates_while_another_allocation_makes_its_shape() -> None:
    """Up to Python 3.11 a tuple that is made may run it."""
    with hg.Executor("cpu") as ex:
        for after in range(4):
            first = ex.allocate(1000)
            count = sys.getrefcount(first.shape)

            class Cycle:
                def __init__(self) -> None:
                    self.me = self

                def __del__(self) -> None:
                    ex.allocate(3000)

            thresholds = gc.get_threshold()
            gc.collect()
            Cycle()
            # Else a tuple that is at hand is used again, such as a call's of one argument.
            kept = [(i,) for i in range(50)]
            gc.set_threshold(gc.get_count()[0] + after, 10)
            try:
                assert ex.allocate(2000).shape == (2000,)
            finally:
                gc.set_threshold(*thresholds)
            gc.collect()
            now = sys.getrefcount(first.shape)
            assert now == count - 1  # that of the last size asked for, once
            del kept
