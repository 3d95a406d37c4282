"""Calls on tensors and buffers that C queues by itself, without a GPU: test_asynctest.py has a device for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from exchange import Exchange
from test_calls_by_c import direct

import hologram as hg
from hologram import ops
from hologram._ffi import native

TIMES = 5  # the first is prepared, after which there is a gate; the third is published
N = 64


class Tensors:
    """Tensors on memory of buffers, which their owner uses on the default stream."""

    def __init__(self, ex: hg.Executor, borrow: bool) -> None:
        self.ex = ex
        self.exchange = Exchange(borrow=borrow)
        self.buffers: list[hg.Buffer] = []

    def __call__(self, values: Any, start: int = 0, n: int = N) -> Any:
        """One of n elements from the one of number start on, of as many more."""
        b = self.ex.from_numpy(np.resize(np.asarray(values, np.float32), 2 * N))
        self.ex.synchronize()  # nothing orders the owner's stream behind this
        self.buffers.append(b)
        return self.part(b, start, n)

    def part(self, b: hg.Buffer, start: int, n: int) -> Any:
        data = b._describe().data + 4 * start
        made = self.exchange.type(np.empty(n, np.float32), device_type=self.ex._device_type, data=data)
        made.buffer, made.start = b, start
        return made

    def values(self, x: Any) -> list[float]:
        self.ex.synchronize()
        return [float(v) for v in x.buffer.to_numpy()[x.start :][: x.array.size]]


@pytest.fixture(params=[True, False], ids=["borrowed", "owned"])
def tensors(request: pytest.FixtureRequest, ex: hg.Executor) -> Iterator[Tensors]:
    made = Tensors(ex, request.param)
    yield made
    ex.synchronize()


def test_calls_in_the_stream_s_order(ex: hg.Executor, tensors: Tensors) -> None:
    a, b, c = tensors(1), tensors(2), tensors(0)
    for _ in range(TIMES):
        ops.vector_add(ex, a, b, c)
    before = direct(ex)
    assert before > 0
    for _ in range(20):
        ops.vector_add(ex, a, b, a)  # its own layout's code, whatever lies where
        ops.vector_add(ex, a, c, c)
    assert direct(ex) == before + 40
    assert tensors.values(a) == [41.0] * N
    assert tensors.values(c) == [3.0 + sum(range(3, 42, 2))] * N


def test_numbers_as_operands(ex: hg.Executor, tensors: Tensors) -> None:
    """Each value has code of its own, which C enters when it comes again; ever new ones are Go's."""
    x, out = tensors(np.arange(N)), tensors(0)
    for value in [1.0, 2.5, -0.0, 7, 3.0]:
        before = direct(ex)
        for _ in range(2 * TIMES):
            ops.vector_mul(ex, x, value, out)
        assert tensors.values(out) == [i * value for i in range(N)]
        assert direct(ex) > before
    done = direct(ex)
    for _ in range(TIMES):
        for value in [7.0, 2.5, 3.0]:  # by turns
            ops.vector_sub(ex, value, x, out)
            ops.vector_mul(ex, x, value, out)
            assert tensors.values(out) == [i * value for i in range(N)]
    assert direct(ex) >= done + 3 * TIMES
    done = direct(ex)
    for value in range(100, 120):
        ops.vector_mul(ex, x, value, out)
        assert tensors.values(out) == [i * value for i in range(N)]
    assert direct(ex) == done


def test_numbers_of_streams(ex: hg.Executor, tensors: Tensors) -> None:
    """What lies on one stream's behalf is found by its calls alone, and stays while they may come."""
    x, outs = tensors(np.arange(N)), [tensors(0) for _ in range(40)]
    for i, out in enumerate(outs):
        for _ in range(TIMES):
            ops.vector_add(ex, x, float(i % 7), out)
            ops.vector_add(ex, out, 1000.0, out)
    for i, out in enumerate(outs):
        assert tensors.values(out) == [k + i % 7 + 1000.0 for k in range(N)]


def test_addresses_and_numbers(ex: hg.Executor, tensors: Tensors) -> None:
    x, out = tensors(np.arange(N)), tensors(0)
    for value in [1.0, 2.5, -0.0, 7, 3.0]:
        for _ in range(TIMES):
            ops.scalar_mul(ex, x, out, scalar=value)
        assert tensors.values(out) == [i * value for i in range(N)]
    done = direct(ex)
    assert done > 2 * TIMES
    for start in (1, 16):  # what is not aligned as the others, and what is
        ops.scalar_mul(ex, x, tensors.part(out.buffer, start, N), scalar=2.0)
        assert tensors.values(tensors.part(out.buffer, start, N)) == [2.0 * i for i in range(N)]
    assert direct(ex) == done + 1
    with pytest.raises(ValueError, match="out of range of f32"):
        ops.scalar_mul(ex, x, out, scalar=1e39)
    with pytest.raises(ValueError, match="overlaps"):
        ops.scalar_mul(ex, x, tensors.part(x.buffer, 4, N), scalar=2.0)


def test_the_first_element_is_that_of_the_call(ex: hg.Executor, tensors: Tensors) -> None:
    x = tensors(1)
    out = tensors(0, n=3) if ex.host_visible else ex.allocate(3)
    for i in range(2 * TIMES):
        ops.fill(ex, x, float(i))
        assert ops.reduce_sum(ex, x, out) == i * N


def test_what_is_queued_outlives_its_executor_s_use(ex: hg.Executor, tensors: Tensors) -> None:
    x, out = tensors(1), tensors(0)
    for _ in range(2):
        with hg.Executor(ex.backend) as other:
            for _ in range(TIMES):
                ops.vector_add(other, x, x, out)
            before = direct(other)
            for _ in range(TIMES):
                ops.vector_add(other, x, out, out)
            assert direct(other) == before + TIMES
        assert tensors.values(out) == [2.0 + TIMES] * N
        with pytest.raises(RuntimeError, match="freed"):
            ops.vector_add(other, x, x, out)


def test_buffers(ex: hg.Executor) -> None:
    """On the executor's own stream, while their memory is lent; others have it back by coming to it."""
    a, b, out = ex.from_numpy(np.full(N, 1, np.float32)), ex.from_numpy(np.full(N, 2, np.float32)), ex.allocate(N)
    for _ in range(2 * TIMES):
        ops.vector_add(ex, a, b, out)
    before = direct(ex)
    assert before > 0
    for _ in range(20):
        ops.vector_add(ex, a, b, a)
        ops.vector_add(ex, a, out, out)
    assert direct(ex) > before + 30  # a layout of its own, with code of its own
    done = direct(ex)
    expected = 3.0 + sum(range(3, 42, 2))
    assert out.to_numpy().tolist() == [expected] * N  # on the same stream, which takes nothing back
    ops.vector_add(ex, a, b, a)
    assert direct(ex) == done + 1
    with hg.Executor(ex.backend) as other:
        assert ops.vector_add(other, a, out).to_numpy().tolist() == [43.0 + expected] * N
    done = direct(ex)
    for _ in range(2 * TIMES):  # taken back, and lent anew
        ops.vector_add(ex, a, b, a)
    assert done < direct(ex) < done + 2 * TIMES
    assert a.to_numpy().tolist() == [43.0 + 4 * TIMES] * N


def test_buffers_beside_tensors(ex: hg.Executor, tensors: Tensors) -> None:
    x, b = tensors(3), ex.from_numpy(np.full(N, 2, np.float32))
    ex.synchronize()
    for _ in range(2 * TIMES):
        ops.vector_add(ex, x, b, x)
    before = direct(ex)
    for _ in range(TIMES):
        ops.vector_add(ex, x, b, x)
    assert direct(ex) == before + TIMES
    assert tensors.values(x) == [3.0 + 6 * TIMES] * N
    for _ in range(2 * TIMES):  # by turns with the executor's own stream: each takes it from the other
        ops.vector_add(ex, b, b, b)
        ops.vector_add(ex, x, b, x)
    assert tensors.values(x) == [3.0 + 6 * TIMES + 2.0 * (2 ** (2 * TIMES + 1) - 2)] * N


def test_buffers_that_are_not_lent(ex: hg.Executor) -> None:
    """Those of another executor, and those that are freed, by whoever has their handle."""
    a, out = ex.from_numpy(np.arange(N, dtype=np.float32)), ex.allocate(N)
    for _ in range(2 * TIMES):
        ops.vector_add(ex, a, a, out)
    done = direct(ex)
    assert done > 0
    with hg.Executor(ex.backend) as other:
        for _ in range(2 * TIMES):
            ops.vector_add(other, a, a, out)
        assert direct(other) == 0
    for _ in range(2 * TIMES):
        ops.vector_add(ex, a, a, out)
    native.buffer_free(a.handle)
    done = direct(ex)
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(ex, a, a, out)
    out.free()
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(ex, out, out, out)
    assert direct(ex) == done
    former, b = ex.allocate(1), ex.allocate(N)
    view = b.view(N)  # the memory stays, and lent
    native.buffer_free(former.handle)
    for _ in range(2 * TIMES):
        ops.vector_add(ex, b, b, b)
    done = direct(ex)
    native.buffer_free(b.handle)
    former.free()  # which frees nothing, and does not hide that something was freed
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(ex, b, b, b)
    assert direct(ex) == done
    assert view.to_numpy().tolist() == [0.0] * N


def test_buffers_that_were_taken_back(ex: hg.Executor) -> None:
    """Stay so, whatever else is lent meanwhile."""
    a, b, out = (ex.from_numpy(np.full(N, i, np.float32)) for i in range(3))
    for _ in range(2 * TIMES):
        ops.vector_add(ex, a, a, out)
    with hg.Executor(ex.backend) as other:
        ops.fill(other, a, 3.0)
        done = direct(ex)
        for _ in range(4 * TIMES):
            ops.vector_add(ex, b, b, out)
        assert direct(ex) > done  # they are lent
        done = direct(ex)
        ops.fill(other, a, 4.0)
        ops.vector_add(ex, a, a, out)
        assert direct(ex) == done
        assert out.to_numpy().tolist() == [8.0] * N


def test_a_freed_buffer_is_not_entered(ex: hg.Executor) -> None:
    """Though others keep its memory, which stays lent."""
    a, out = ex.from_numpy(np.full(N, 1, np.float32)), ex.allocate(N)
    kept = a.__dlpack__()
    for _ in range(2 * TIMES):
        ops.vector_add(ex, a, a, out)
    done = direct(ex)
    assert done > 0
    native.buffer_free(a.handle)
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(ex, a, a, out)
    assert direct(ex) == done
    del kept


def test_wrapped_memory_is_not_lent(ex: hg.Executor) -> None:
    """Its owner is told when the work on it is over."""
    owned = ex.from_numpy(np.full(N, 1, np.float32))

    class Others:
        def __dlpack__(self, **given: Any) -> Any:
            return owned.__dlpack__(**given)

        def __dlpack_device__(self) -> tuple[int, int]:
            return owned.__dlpack_device__()

    x, out = ex.wrap(Others()), ex.allocate(N)
    done = direct(ex)
    for _ in range(4 * TIMES):
        ops.vector_add(ex, x, x, out)
    assert direct(ex) == done
    assert out.to_numpy().tolist() == [2.0] * N
    y = ex.from_numpy(np.full(N, 5, np.float32))
    for _ in range(4 * TIMES):  # of the same layout
        ops.vector_add(ex, y, y, out)
    assert direct(ex) > done
