"""Integer arguments: none wraps, none is truncated, and errors name the argument."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from support import DEVICE

import hologram as hg

STORE = "program t\nslot c f32\nstg.f32 1.0, c[index]\nexit"

# What takes an integer, and the name that errors give it.
PLACES: dict[str, Callable[[hg.Executor, hg.Buffer, Any], object]] = {
    "allocate: size": lambda ex, b, n: ex.allocate(n),
    "allocate_boundary: class_index": lambda ex, b, n: ex.allocate_boundary(n, 1, 1),
    "allocate_boundary: width": lambda ex, b, n: ex.allocate_boundary(0, n, 1),
    "allocate_boundary: height": lambda ex, b, n: ex.allocate_boundary(0, 1, n),
    "Executor: memory_limit": lambda ex, b, n: hg.Executor(DEVICE, memory_limit=n),
    "set_memory_limit: limit": lambda ex, b, n: ex.set_memory_limit(n),
    "view: shape": lambda ex, b, n: b.view((n,)),
    "view: offset": lambda ex, b, n: b.view((1,), offset=n),
    "view: strides": lambda ex, b, n: b.view((1,), strides=(n,)),
    "set_num_threads: threads": lambda ex, b, n: hg.set_num_threads(n),
    "vector_add: a size": lambda ex, b, n: hg.ops.vector_add(ex, b, b, b, n=n),
    "softmax: a size": lambda ex, b, n: hg.ops.softmax_rows(ex, b, b, n, 1),
    'launch "t": n': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, n=n),
    'launch "t": shape': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, shape=(n,)),
    'launch "t": fuel': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, fuel=n),
    'launch "t": grid': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, grid=n),
    'launch "t": block': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, block=n),
}


@pytest.mark.parametrize("value", [2**64 + 1, 2**63, -(2**63) - 1, -(2**64) + 1, 10**30])
@pytest.mark.parametrize("place", PLACES)
def test_integers_do_not_wrap(ex: hg.Executor, place: str, value: int) -> None:
    threads = hg.num_threads()
    with pytest.raises(hg.errors.InvalidArgumentError) as caught:
        PLACES[place](ex, ex.allocate(8), value)
    assert str(caught.value).startswith(place)
    assert str(value) in str(caught.value)
    assert hg.num_threads() == threads


@pytest.mark.parametrize("value", [2.0, 2.5, "2", np.float64(2), 1j, object()])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_integer_is_refused(ex: hg.Executor, place: str, value: Any) -> None:
    with pytest.raises(hg.errors.DTypeError) as caught:
        PLACES[place](ex, ex.allocate(8), value)
    assert str(caught.value).startswith(place)
    assert "integer" in str(caught.value)


def test_threads_are_32_bits() -> None:
    threads = hg.num_threads()
    with pytest.raises(ValueError, match="set_num_threads: threads is 4294967297"):
        hg.set_num_threads(2**32 + 1)
    assert hg.num_threads() == threads


@pytest.mark.parametrize("shape", ["abc", 3, b"ab", None])
def test_a_shape_is_a_sequence(ex: hg.Executor, shape: Any) -> None:
    with pytest.raises(TypeError, match="view: shape"):
        ex.allocate(8).view(shape)


def test_numpy_integers_are_integers(ex: hg.Executor) -> None:
    b = ex.allocate(np.int8(8))
    assert b.view((np.uint16(2), np.int64(2)), offset=np.int32(4)).shape == (2, 2)
