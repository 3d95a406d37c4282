"""Streams and events: what runs where, what waits for what, and how long it took."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import ops
from hologram.errors import BackendError, DTypeError, InvalidArgumentError
from hologram.stream import number_of

N = 4096


def test_an_event_is_behind_what_was_queued(ex: hg.Executor) -> None:
    x = buffer(ex, np.ones(N))
    begin = ex.record()
    for _ in range(20):
        ops.vector_add(x, x, out=x)
    end = ex.record()
    end.synchronize()
    assert begin.query() and end.query()
    assert 0 <= begin.elapsed(end) < 60_000
    assert begin.elapsed(end) == -end.elapsed(begin)
    assert begin.elapsed(begin) == 0
    assert "passed" in repr(end)
    assert x.to_numpy()[0] == 2**20


def test_an_event_is_recorded_again(ex: hg.Executor) -> None:
    event, last = hg.Event(), hg.Event()
    assert event.query()
    event.synchronize()
    ex.wait(event)  # there is nothing to wait for
    assert repr(event) == "<Event, not recorded>"
    with pytest.raises(ValueError, match="elapsed: end is not recorded"):
        ex.record().elapsed(event)
    with pytest.raises(ValueError, match="elapsed: this event is not recorded"):
        event.elapsed(last)
    with pytest.raises(TypeError, match="elapsed: end: expected an Event, got int"):
        ex.record().elapsed(3)  # type: ignore[arg-type]
    for _ in range(3):
        assert event.record(ex) is event
    last.record(ex).synchronize()
    assert event.elapsed(last) >= 0


def test_an_event_outlives_what_made_it(ex: hg.Executor) -> None:
    with hg.Executor(ex.backend) as other:
        x = buffer(other, np.ones(N))
        ops.vector_add(x, x, out=x)
        event = other.record()
        ex.wait(event)
    event.synchronize()
    assert event.query()
    ex.wait(event)
    with pytest.raises(RuntimeError, match="freed"):
        other.record()
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(event)
    with pytest.raises(TypeError, match="copy"):
        copy.copy(event)


def test_work_on_streams_of_the_executor(ex: hg.Executor) -> None:
    """Buffers that several streams use are in order without a word of the caller's."""
    streams = [hg.Stream(ex) for _ in range(3)]
    x, y = buffer(ex, np.arange(N)), ex.allocate(N)
    for i in range(30):
        ops.vector_add(x, x, y, stream=streams[i % 3])
        ops.scalar_mul(y, x, scalar=0.5, stream=streams[(i + 1) % 3])
        ops.scalar_add(x, x, scalar=1.0)
    assert np.array_equal(x.to_numpy(stream=streams[0]), np.arange(N) + 30)
    assert ops.reduce_max(x, stream=streams[1]) == N + 29
    total = ops.reduce_sum(x, axis=0, stream=streams[2])
    assert total.item() == ops.reduce_sum(x)
    for s in streams:
        s.synchronize()
    ex.synchronize()


def test_launches_and_copies_on_streams(ex: hg.Executor) -> None:
    s = hg.Stream(ex)
    p = hg.Program("program p\nslot a f32\nldg.f32 x, a[index]\nadd.f32 x, x, x\nstg.f32 x, a[index]\nexit")
    x = ex.from_numpy(np.full(N, 3, np.float32), stream=s)
    ex.launch(p, a=x, stream=s)
    ex.launch(p, {"a": x}, n=N // 2, stream=s)
    y = ex.allocate(N)
    y.copy_from(x, stream=s)
    z = y.view((2, N // 2))
    z.view((N // 2,)).fill(7, stream=s)
    assert y.to_numpy(stream=s).tolist() == [7.0] * (N // 2) + [6.0] * (N // 2)
    turned = y.view((N // 2, 2), strides=(1, N // 2))
    assert turned.to_numpy(stream=s).tolist() == [[7.0, 6.0]] * (N // 2)
    turned.from_numpy(np.ones((N // 2, 2), np.float32), stream=s)
    assert y.to_numpy().tolist() == [1.0] * N


def test_events_between_streams(ex: hg.Executor) -> None:
    one, two = hg.Stream(ex), hg.Stream(ex)
    x = buffer(ex, np.ones(N))
    ops.vector_add(x, x, out=x, stream=one)
    event = one.record()
    two.wait(event)
    ex.wait(event, stream=two)
    ops.vector_add(x, x, out=x, stream=two)
    last = ex.record(two)
    last.synchronize()
    assert event.elapsed(last) >= 0
    assert x.to_numpy()[0] == 4
    with hg.Executor("interp") as other, pytest.raises(ValueError, match="wait: the event is on interp"):
        ex.wait(other.record())
    with pytest.raises(TypeError, match="wait: event: expected an Event, got int"):
        ex.wait(3)  # type: ignore[arg-type]


def test_the_executor_s_own_stream(ex: hg.Executor) -> None:
    own = ex.stream
    assert own.handle == ex.stream.handle
    assert (own.handle > 0) is ex.asynchronous
    x = buffer(ex, np.ones(N))
    ops.vector_add(x, x, out=x, stream=own)
    if own.handle:
        ops.vector_add(x, x, out=x, stream=own.handle)
        assert x.to_numpy(stream=own.handle)[0] == 4
    assert str(ex.backend) in repr(own)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(own)


def test_streams_that_are_dropped_end(ex: hg.Executor) -> None:
    x = buffer(ex, np.ones(N))
    for _ in range(50):
        s = hg.Stream(ex)
        ops.scalar_add(x, x, scalar=1.0, stream=s)
        del s
    gc.collect()
    assert x.to_numpy()[0] == 51
    ex.synchronize()
    with pytest.raises(TypeError, match="Stream: executor: expected an Executor, got int"):
        hg.Stream(3)  # type: ignore[arg-type]


class OfTorch:
    """What stands for a torch.cuda.Stream."""

    class device:
        index = 0

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class OfCuPy:
    """What stands for a cupy.cuda.Stream."""

    def __init__(self, handle: int, device: int = -1) -> None:
        self.ptr, self.device_id = handle, device


class OfProtocol:
    """What stands for one of cuda.core."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def test_streams_of_others(ex: hg.Executor) -> None:
    if not ex.asynchronous:
        for stream in (3, OfTorch(3), OfCuPy(3)):
            with pytest.raises(BackendError, match="works while it is called and takes a hologram"):
                ops.relu(buffer(ex, [1.0]), stream=stream)
        return
    assert number_of(None, ex) == 0
    for given, number in ((0, 1), (1, 1), (77, 77), (OfTorch(0), 1), (OfCuPy(5), 5), (OfProtocol(6), 6)):
        assert number_of(given, ex) == number
    with pytest.raises(InvalidArgumentError, match="on device 5; the executor is on"):
        number_of(OfCuPy(7, 5), ex)
    with pytest.raises(InvalidArgumentError, match="default stream of each thread"):
        number_of(2, ex)
    with pytest.raises(InvalidArgumentError, match="relu: stream is -1; expected a stream's address"):
        ops.relu(buffer(ex, [1.0]), stream=-1)


@pytest.mark.parametrize("wrong", ["s", 1.5, True, OfTorch, object()])
def test_what_is_no_stream(ex: hg.Executor, wrong: Any) -> None:
    x = buffer(ex, [1.0, 2.0])
    p = hg.Program("program p\nslot a f32\nexit")
    match = "stream is .*; expected a hologram.Stream"
    with pytest.raises(DTypeError, match="^relu: " + match):
        ops.relu(x, stream=wrong)
    with pytest.raises(DTypeError, match='^launch "p": ' + match):
        ex.launch(p, a=x, stream=wrong)
    for call in (
        lambda: x.to_numpy(stream=wrong),
        lambda: x.from_numpy(np.zeros(2, np.float32), stream=wrong),
        lambda: x.fill(1, stream=wrong),
        lambda: x.copy_from(x.view((2,)), stream=wrong),
        lambda: ex.record(wrong),
        lambda: ex.wait(ex.record(), stream=wrong),
    ):
        with pytest.raises(DTypeError, match=match):
            call()
    with hg.Executor("interp") as other, pytest.raises(ValueError, match="expected one on " + ex.backend):
        ops.relu(x, stream=hg.Stream(other))


def test_a_slot_of_that_name_is_bound_by_the_dictionary(ex: hg.Executor) -> None:
    p = hg.Program("program p\nslot stream f32\nstg.f32 4.0, stream[index]\nexit")
    x = ex.allocate(3)
    ex.launch(p, {"stream": x})
    assert x.to_numpy().tolist() == [4.0] * 3
    with pytest.raises(ValueError, match="stream= is a keyword of launch itself"):
        ex.launch(p, stream=hg.Stream(ex))
