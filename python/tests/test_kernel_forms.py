"""Calls of kernels that C makes because there was one such as them: which, and that they do as Python's.

A form is what C knows of a call: its operands' kinds, dtypes and keywords. What C does not know Python does, and
tells C.
"""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import pickle
import pydoc
import sys
from typing import Any

import numpy as np
import pytest

import hologram
from hologram._ffi import native


def _given(f: Any, *arguments: Any, **keywords: Any) -> str:
    """Return where a call of a kernel, or of a function that hologram offers, ended: in C, or in Python."""
    went: list[str] = []
    call_any, own = f._call_any, vars(f).get("_call_any")

    def noting(*given: Any, **named: Any) -> Any:
        went.append("Python")
        return call_any(*given, **named)

    f._call_any = noting
    try:
        f(*arguments, **keywords)
    finally:
        del f._call_any
        if own is not None:
            f._call_any = own
    return went[0] if went else "C"


SCALE = 2.0


def test_calls_such_as_one_before_are_made_in_c() -> None:
    f = hologram.kernel(lambda x, y: x + y)
    x, out = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    assert _given(f, x, x) == "Python"
    assert _given(f, x, x) == _given(f, x[1:], x[:-1]) == _given(f, out, out) == "C"
    assert _given(f, x, x, out=out) == "Python"
    assert _given(f, x, x, out=out) == "C"
    assert out.tolist() == (x + x).tolist()
    f._call_any = None  # type: ignore[method-assign, assignment]  # executor=None is none
    assert f(x, x, executor=None).tolist() == f(x, x, out=None).tolist() == out.tolist()
    del f._call_any
    for other in ((x, x.astype(float)), (x, 1.0), (x.astype(float), x), (x > 2, x)):
        assert _given(f, *other) == "Python"
        assert _given(f, *other) == _given(f, x, x) == "C"
        np.testing.assert_array_equal(f(*other), other[0] + other[1])
    for other in ((x[:0], x[:0]), (x, memoryview(x))):
        assert _given(f, *other) == _given(f, *other) == "Python"
    with hologram.Executor("cpu") as ex:
        assert _given(f, x, x, executor=ex) == _given(f, x, x, out=out, executor=ex) == "Python"
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises((ValueError, TypeError), match=r"read-only|writable|writeable"):
            f(x, x, out=out)
    bools = x > 2
    either = hologram.kernel(lambda x, y: x | y)
    for _ in range(3):  # bools and bytes are slots of one type
        assert either(bools, bools).dtype == bool
        assert either(bools.view(np.uint8), bools.view(np.uint8)).dtype == np.uint8


def test_arrays_of_other_shapes_are_broadcast_in_c_too() -> None:
    """Results lie as those that Python makes, whose order is that in which all of a result's shape lie."""
    f, wide = hologram.kernel(lambda x, y: x + y), np.arange(24, dtype=np.float32).reshape(4, 6)
    f(wide, wide)
    f(wide, wide, out=wide.copy())
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    of_wide = wide[0], wide[:, :1], wide[1:2, 2:3], wide[0, 0:1], wide[::-1], np.array(2, np.float32)
    for x, y in (
        *((wide, other) for other in of_wide),
        *((wide[:, :1], wide[0]), (wide.T, wide.T), (wide.T, wide[:, 0]), (wide.T[::2], wide.T[::2])),
        *((cube, cube), (cube, cube[0]), (cube, cube.copy()), (cube[:, :1], cube)),
    ):
        expected = hologram.kernel(lambda x, y: x + y)(x, y)
        np.testing.assert_array_equal(expected, x + y)
        assert _given(f, x, y) == "C"
        found = f(x, y)
        assert found.strides == expected.strides, (x.strides, y.strides)
        np.testing.assert_array_equal(found, expected)
        for shape in (expected.shape, (2, *expected.shape)):
            out = np.zeros(shape, np.float32)
            assert _given(f, x, y, out=out) == "C"
            np.testing.assert_array_equal(out, np.broadcast_to(expected, shape))
    for x, y in ((wide, wide[0, :5]), (wide, wide[:3]), (wide, wide[:0])):
        with pytest.raises(ValueError, match=r"don't broadcast together: x .* y "):
            f(x, y)
        with pytest.raises(ValueError, match="don't broadcast to out's"):
            f(x, y, out=np.zeros((4, 6), np.float32))
    with pytest.raises(ValueError, match=r"out has shape \(6,\); the arguments broadcast to \(4, 6\)"):
        f(wide, wide, out=np.zeros(6, np.float32))


def test_an_array_that_is_not_read_has_a_shape_as_others() -> None:
    first, none, x = hologram.kernel(lambda x, y: x * 2), hologram.kernel(lambda x: 1.5), np.ones(3, np.float32)
    for _ in range(3):
        assert first(x, x).shape == (3,) and none(x).tolist() == [1.5] * 3
        assert first(x, np.ones((2, 3), np.float32)).shape == none(np.ones((2, 3), np.float32)).shape == (2, 3)
        with pytest.raises(ValueError, match="don't broadcast together"):
            first(x, x[:2])


def test_several_results_are_made_in_c_too() -> None:
    f, one = hologram.kernel(lambda x, y: (x + y, x < y, x * 2)), hologram.kernel(lambda x: (x + 1,))
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([1, 5, 2])
    outs = np.zeros((2, 3), np.float32), np.zeros((2, 3), bool), np.zeros((2, 3), np.float64)
    f(x, y)
    f(x, y, out=outs)
    one(x)
    assert _given(f, x, y) == _given(f, x, y, out=outs) == _given(one, x) == "C"
    assert _given(f, x, y, out=list(outs)) == "Python"
    assert f(x, y, out=outs) is outs
    found = f(x, y)
    assert type(found) is type(one(x)) is tuple and one(x)[0].tolist() == (x + 1).tolist()
    for each, out, expected in zip(found, outs, (x + y, x < y, x * 2)):
        assert each.dtype == expected.dtype and each.tolist() == out.tolist() == expected.tolist()
    for wrong in (outs[:2], (*outs, outs[0]), (outs[0],) * 3, (outs[0],) * 10_000, (x[0], *outs[1:]), ()):
        with pytest.raises((ValueError, TypeError)):
            f(x, y, out=wrong)


def test_calls_of_buffers_are_made_in_c_too() -> None:
    """On the executor of the first one."""
    f, x = hologram.kernel(lambda x, y: x + y), np.arange(6, dtype=np.float32).reshape(2, 3)
    with hologram.Executor("cpu") as one, hologram.Executor("cpu") as other:
        for ex in (one, other):
            a, b, out = ex.from_numpy(x), ex.from_numpy(x[1]), ex.from_numpy(x)
            f(x, x[1])  # of the same dtypes
            f(a, b)
            f(a, b, out=out)
            assert _given(f, a, b) == _given(f, b, a) == _given(f, a, a) == _given(f, a, b, out=out) == "C"
            made = f(a, b)
            assert made.executor is ex and made.shape == (2, 3) and made.dtype == np.float32
            assert (
                made.to_numpy().tolist()
                == f(b, a).to_numpy().tolist()
                == out.to_numpy().tolist()
                == (x + x[1]).tolist()
            )
            f(x, b, out=out), f(a, x[1], out=x.copy())
            assert _given(f, x, a, out=out) == _given(f, a, x, out=x.copy()) == "C"
            assert out.to_numpy().tolist() == (x + x).tolist()
        for first, second in ((a, one.from_numpy(x)), (one.from_numpy(x), a)):
            assert f(first, second).executor is first.executor
        a.free()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="freed"):
                f(a, b)


def test_a_buffer_that_was_never_made_is_refused() -> None:
    """It has no executor, as little as a call has that is to choose one."""
    f, host = hologram.kernel(lambda x, y: x + y), hologram.Executor("cpu")
    made, none = host.allocate(3), hologram.Buffer.__new__(hologram.Buffer)
    for out in (None, made):
        f(made, host.allocate(3), out=out)
        for x, y in ((none, made), (made, none), (none, none)):
            with pytest.raises((AttributeError, TypeError, hologram.errors.HologramError)):
                f(x, y, out=out)


def test_forms_are_kept_for_as_many_calls_as_there_are() -> None:
    """Of all dtypes and numbers, one kernel has more than a few."""
    f, types = hologram.kernel(lambda x, y: x + y), ["f4", "f8", "f2", "i4", "i8", "u1"]
    for a, b in itertools.product(types, types):
        x, y = np.ones(5, a), np.ones(5, b)
        f(x, y)
        assert _given(f, x, y) == "C"
    for a, b in itertools.product(types, types):
        x, y = np.ones(5, a), np.ones(5, b)
        assert _given(f, x, y) == "C" and f(x, y).dtype == (x + y).dtype and f(x, y).tolist() == [2] * 5
    with hologram.Executor("cpu") as ex:  # buffers' forms are others, for which there is no room beside all of those
        for a, b in itertools.product(types, types):
            x, y = np.ones(5, a), np.ones(5, b)
            made = f(ex.from_numpy(x), ex.from_numpy(y))
            assert _given(f, ex.from_numpy(x), ex.from_numpy(y)) == "C"
            assert made.dtype == f(x, y).dtype and made.to_numpy().tolist() == f(x, y).tolist() == [2] * 5
    where = [_given(f, np.ones(5, a), np.ones(5, b)) for a, b in itertools.product(types, types)]
    assert where == sorted(where, reverse=True) and where[0] == "Python" and where[-1] == "C", "the oldest go"


def test_the_oldest_of_many_forms_goes() -> None:
    """With all that it holds: with and without outs of all dtypes there are more than there is room for."""

    def fill() -> None:
        f, types = hologram.kernel(lambda x, y: x + y), ["f4", "f8", "f2", "i4", "i8", "u1"]
        pairs = [(np.ones(5, a), np.ones(5, b)) for a, b in itertools.product(types, types)]
        for x, y in pairs:
            f(x, y)
            f(x, y, out=np.zeros(5, (x + y).dtype))
        x, y = pairs[-1]
        assert _given(f, x, y) == _given(f, x, y, out=np.zeros(5, np.uint8)) == "C"
        for x, y in pairs:
            out = np.zeros(5, (x + y).dtype)
            assert f(x, y).tolist() == f(x, y, out=out).tolist() == out.tolist() == [2] * 5

    fill()
    gc.collect()
    held, objects = sys.getrefcount(np.ndarray), native.object_count()
    fill()
    gc.collect()
    assert (sys.getrefcount(np.ndarray), native.object_count()) == (held, objects)


def test_a_form_of_other_dtypes_takes_the_same() -> None:
    """What was called with an out, or numbers of a type, is not what was called without, or of another."""
    x = np.arange(1, 4, dtype=np.float32)
    f = hologram.kernel(lambda x, y: x + y)
    f(x, x, out=np.empty(3, np.float32))
    for dtype in (np.float64, np.int32):
        y, out = x.astype(dtype), np.zeros(3, dtype)
        f(y, y)
        assert f(y, y, out=out) is out and out.tolist() == [2, 4, 6]
    g, n = hologram.kernel(lambda x, y: x * y), x.astype(np.int32)
    g(x, 2), g(n, 2.5)
    assert g(n, 2).dtype == np.int32 and g(n, 2.5).tolist() == [2.5, 5, 7.5]


def test_calls_of_hologram_s_functions_are_made_in_c_too() -> None:
    """Those that are such as one before; they stay functions in all that can be asked of them."""
    x, out = np.linspace(0.1, 3, 7).astype(np.float32), np.empty(7, np.float32)
    expected = np.log2(x, dtype=np.float64)
    for arguments, keywords in (((x,), {}), ((x,), {"out": out})):
        hologram.log2(*arguments, **keywords)
        assert _given(hologram.log2, *arguments, **keywords) == "C"
        np.testing.assert_allclose(hologram.log2(*arguments, **keywords), expected, rtol=1e-6)
    hologram.pow(x, 2.5)
    assert _given(hologram.pow, x, 2.5) == "C" and _given(hologram.pow, a=x, b=2.5) == "Python"
    assert hologram.log2(8.0) == 3 and type(hologram.log2(8.0)) is float
    assert hologram.kernel(hologram.log2)(x).tobytes() == hologram.kernel(lambda x: hologram.log2(x))(x).tobytes()
    assert hologram.kernel(lambda x: abs(x) + x.__abs__())(x).tolist() == (x + x).tolist()
    for copied in (pickle.loads(pickle.dumps(hologram.log2)), copy.deepcopy(hologram.log2)):
        assert copied is hologram.log2
    assert inspect.isroutine(hologram.log2)
    assert str(inspect.signature(hologram.log2)) == "(x, *, out=None, executor=None)"
    shown = pydoc.plain(pydoc.render_doc(hologram.log2))
    assert "log2(x, *, out=None, executor=None)" in shown and hologram.log2.__doc__ in shown
    with pytest.raises(TypeError, match=r"^log2: too many .* it is called as log2\(x\)"):
        hologram.log2(x, x)


def test_what_may_be_otherwise_than_before_is_left_to_python() -> None:
    global SCALE
    x = np.arange(1, 7, dtype=np.int32)
    quotient, scaled = hologram.kernel(lambda x, y: x // y), hologram.kernel(lambda x: x * SCALE)
    try:
        for SCALE in (2, 3, 3, 2):
            assert scaled(x).tolist() == (x * SCALE).tolist()
    finally:
        SCALE = 2.0
    for _ in range(3):
        assert quotient(x, x).tolist() == [1] * 6
        with pytest.raises(hologram.ProgramFault, match=r"division by zero at element \[0\]"):
            quotient(x, x * 0)
    same = hologram.kernel(lambda x: x + 1)
    y = np.arange(9.0)
    for _ in range(3):
        same(y[:-1], out=y[:-1])
        with pytest.raises(ValueError, match="slot out overlaps x in memory"):
            same(y[:-1], out=y[1:])
    y.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match=r"read-only|not writable"):
            same(y, out=y)
