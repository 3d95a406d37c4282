"""Copies between buffers and arrays: of all sizes, to arrays that are given, of memory that does not move."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import ops
from hologram._copies import is_pinned

MB = 1 << 20


@pytest.fixture(params=["plain", "pinned"])
def empty(request: pytest.FixtureRequest, ex: hg.Executor) -> Any:
    def made(n: Any, dtype: Any = np.uint8) -> Any:
        return np.empty(n, dtype) if request.param == "plain" else hg.pinned_empty(n, dtype, ex)

    return made


@pytest.mark.parametrize("n", [1, 4096, 300_001, 8 * MB, 8 * MB + 1, 33 * MB + 5, 70 * MB])
def test_there_and_back(ex: hg.Executor, empty: Any, n: int) -> None:
    source, out = empty(n), empty(n + 1)
    source[:] = np.resize(np.arange(251, dtype=np.uint8), n)
    out[n] = 77
    b = ex.allocate(n, np.uint8, zero=False)
    b.from_numpy(source)
    assert b.to_numpy(out[:n]) is not None
    assert np.array_equal(out[:n], source) and out[n] == 77
    out[:] = 78
    assert np.array_equal(ex.submit(b.to_numpy, out[:n]).result(), source) and out[n] == 78
    source[:] = 3
    ex.submit(b.from_numpy, source).result()
    assert ops.reduce_max(b) == 3 and ops.reduce_min(b) == 3


def test_the_order_of_copies(ex: hg.Executor, empty: Any) -> None:
    """What is copied later is what was there then."""
    n = 2 * MB
    b, outs, source = ex.allocate(n, np.uint8), [empty(n) for _ in range(4)], [empty(n) for _ in range(4)]
    futures = []
    for i in range(4):
        source[i][:] = i + 1
        futures.append(ex.submit(b.from_numpy, source[i]))
        futures.append(ex.submit(b.to_numpy, outs[i]))
    for future in futures:
        future.result()
    assert [(out.min(), out.max()) for out in outs] == [(i, i) for i in range(1, 5)]


def test_an_output(ex: hg.Executor) -> None:
    x = buffer(ex, np.arange(6)).view((2, 3))
    out = np.empty((2, 3), np.float32)
    assert x.to_numpy(out) is out
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]
    turned = np.empty((3, 2), np.float32).T
    assert x.to_numpy(out=turned) is turned
    assert turned.tolist() == out.tolist()
    with pytest.raises(ValueError, match=r"out has shape \(6,\); the buffer has \(2, 3\)"):
        x.to_numpy(np.empty(6, np.float32))
    with pytest.raises(TypeError, match="out has dtype float64; the buffer has float32"):
        x.to_numpy(np.empty((2, 3)))
    with pytest.raises(TypeError, match="out is a list; expected a numpy array"):
        x.to_numpy([1])  # type: ignore[arg-type]
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        x.to_numpy(out)
    x.free()
    with pytest.raises(RuntimeError, match="freed"):
        x.to_numpy(turned)


def test_pinned_arrays(ex: hg.Executor) -> None:
    x = hg.pinned_empty((3, 1000), "f64", ex)
    assert x.shape == (3, 1000) and x.dtype == np.float64 and x.flags.writeable and x.flags.c_contiguous
    x[:] = 5
    part = x[1:]
    assert ex.host_visible or (is_pinned(ex, x) and is_pinned(ex, part) and not is_pinned(ex, np.empty(9)))
    del x
    gc.collect()
    assert part.sum() == 2000 * 5
    assert hg.pinned_empty(0, "f32", ex).size == 0
    assert hg.pinned_empty(7).shape == (7,)
    assert hg.pinned_empty((), "bf16", ex).shape == ()
    with pytest.raises(ValueError, match=r"shape is \(2, -1\); expected no negative number"):
        hg.pinned_empty((2, -1), "f32", ex)
    with pytest.raises(TypeError, match="pinned_empty: executor: expected an Executor"):
        hg.pinned_empty(3, "f32", 5)  # type: ignore[arg-type]


def test_a_pinned_array_s_memory_lasts_as_long_as_its_copy(ex: hg.Executor) -> None:
    n = 16 * MB
    b = ex.allocate(n, np.uint8)
    for i in range(4):
        source = hg.pinned_empty(n, np.uint8, ex)
        source[:] = i
        future = ex.submit(b.from_numpy, source)
        del source
        gc.collect()
        other = hg.pinned_empty(n, np.uint8, ex)
        other[:] = 99  # in the same memory, if that were free
        del other
        assert future.result() is None
        assert ops.reduce_max(b) == i
    ex.submit(b.to_numpy, hg.pinned_empty(n, np.uint8, ex))
    gc.collect()
    ex.synchronize()


def test_memory_that_is_short(ex: hg.Executor) -> None:
    with hg.Executor(ex.backend, memory_limit=4 * MB) as small:
        x = small.allocate(3 * MB, np.uint8)
        with pytest.raises(hg.OutOfMemoryError, match="quota") as caught:
            small.allocate(2 * MB, np.uint8)
        assert (caught.value.asked, caught.value.free) == (2 * MB, MB)
        assert caught.value.cached >= 0
        with pytest.raises(MemoryError) as wanted:
            ops.vector_add(x, x)
        assert isinstance(wanted.value, hg.OutOfMemoryError) and wanted.value.asked == 3 * MB
    assert ex.empty_cache() >= 0
