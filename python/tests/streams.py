"""Tensors on a device: on which stream of their owners the work goes. For test_asynctest.py, which has such a one."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from exchange import Exchange

import hologram as hg
from hologram import _results, ops
from hologram._ffi import native

EXTERNAL = 12  # DLPack's number of the device's kind
FIRST, SECOND = 0xF001, 0xF002  # its streams that others have


def tensor(kind: Any, b: hg.Buffer) -> Any:
    """A tensor of a type of stand-ins on a buffer's memory."""
    shape = np.empty(b.shape, b.dtype)
    return kind(shape, device_type=EXTERNAL, data=b._describe().data)


@pytest.fixture
def arrays(ex: hg.Executor) -> list[hg.Buffer]:
    made = [ex.from_numpy(np.arange(4, dtype=np.float32)) for _ in range(3)]
    ex.synchronize()  # nothing orders the owners' streams behind work on buffers that lend them memory
    return made


@pytest.mark.parametrize("borrow", [True, False])
def test_work_goes_to_the_stream_of_the_owner(ex: hg.Executor, arrays: list[hg.Buffer], borrow: bool) -> None:
    for stream in (FIRST, SECOND):
        kind = Exchange(borrow=borrow, stream=stream).type
        a, b, c = (tensor(kind, each) for each in arrays)
        for _ in range(2):  # an executor knows a stream from its first call
            ops.vector_add(ex, a, b, c)
            ops.vector_add(ex, c, b, c)
        ex.synchronize()
        assert arrays[2].to_numpy().tolist() == [0, 3, 6, 9]


def test_calls_without_an_executor_go_to_the_owner_s_stream(
    ex: hg.Executor, arrays: list[hg.Buffer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no result is made for them; elsewhere nothing would order the work behind what the owner queued."""
    monkeypatch.setitem(_results._executors, (EXTERNAL, 0), ex)
    kind = Exchange(stream=FIRST).type
    a, b, c = (tensor(kind, each) for each in arrays)
    ops.vector_add(ex, a, b, c)
    for _ in range(2):  # the first asks Python for the executor
        ops.vector_add(c, b, c)
    ops.vector_add(ex, c, b, c)
    ex.synchronize()
    assert arrays[2].to_numpy().tolist() == [0, 5, 10, 15]


@pytest.mark.parametrize(("stream", "number"), [(None, "0x1"), (0xBAD, "0xbad")])  # DLPack's 1 is the default stream
def test_streams_that_are_not_there(ex: hg.Executor, arrays: list[hg.Buffer], stream: Any, number: str) -> None:
    kind = Exchange(stream=stream).type
    a, b, c = (tensor(kind, each) for each in arrays)
    with pytest.raises(RuntimeError, match=f"has none numbered {number}$"):
        ops.vector_add(ex, a, b, c)


def test_owners_on_two_streams_are_refused(ex: hg.Executor, arrays: list[hg.Buffer]) -> None:
    first, second = Exchange(stream=FIRST).type, Exchange(stream=SECOND).type
    for kinds in ((first, second, second), (first, first, second), (second, first, first)):
        a, b, c = (tensor(kind, each) for kind, each in zip(kinds, arrays))
        with pytest.raises((TypeError, RuntimeError), match="Exchanged"):
            ops.vector_add(ex, a, b, c)
    also = Exchange(stream=FIRST).type
    ops.vector_add(ex, tensor(first, arrays[0]), tensor(also, arrays[1]), tensor(first, arrays[2]))
    ex.synchronize()
    assert arrays[2].to_numpy().tolist() == [0, 2, 4, 6]


def test_a_stream_that_is_dropped_has_ended(ex: hg.Executor) -> None:
    """Whose number is nobody's then; those of other executors, and others of the same, go on."""
    with hg.Executor(ex.backend) as other:
        for of in (ex, other):
            x, kept, stream = of.from_numpy(np.ones(4, np.float32)), hg.Stream(of), hg.Stream(of)
            number = stream.handle
            assert ops.vector_add(x, x, stream=number).to_numpy().tolist() == [2] * 4
            del stream
            with pytest.raises(RuntimeError, match=f"{number:#x}"):
                ops.vector_add(x, x, stream=number)
            assert ops.vector_add(x, x, stream=kept.handle).to_numpy().tolist() == [2] * 4
    del kept  # whose executor has ended, and with it the stream


def test_streams_and_events_that_go_beside_an_exception_leave_it(ex: hg.Executor) -> None:
    for make in (lambda: hg.Stream(ex), lambda: hg.Stream(ex).record(), lambda: hg.Executor(ex.backend)):
        for _ in range(10):
            with pytest.raises(ZeroDivisionError):
                _ = (make(), 1 // 0)  # what was made goes while the exception is on its way


def test_what_is_over_or_refused_leaves_no_owner(ex: hg.Executor) -> None:
    """Of events that need not be waited for, and of streams that are not made."""
    with hg.Executor(ex.backend) as gone:
        pass

    def call(times: int) -> None:
        for _ in range(times):
            ex.synchronize()
            assert ex.submit(int).result() == 0
            for executor in (gone, gone.handle):  # the latter as one that others free meanwhile
                with pytest.raises(RuntimeError, match="freed"):
                    native.stream_new(executor)
        gc.collect()

    call(200)
    before = sys.getallocatedblocks()
    call(1000)
    assert sys.getallocatedblocks() - before < 500
