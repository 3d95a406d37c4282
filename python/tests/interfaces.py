"""CuPy's arrays as operands of C, by a stand-in for CuPy. For test_asynctest.py, whose device has streams of others."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import _results, ops
from hologram._ffi import hooks, native
from hologram.errors import DTypeError, InvalidArgumentError

F32 = np.dtype("f4")
FIRST, SECOND = 0xF001, 0xF002  # the device's streams that others have


class Array:
    """An array as cupy.ndarray shows it: an interface, and which device it is on."""

    def __init__(self, b: hg.Buffer, **changes: Any) -> None:
        self.b, self.changes = b, changes
        self.data = types.SimpleNamespace(device_id=changes.pop("device", 0))
        self.dtype, self.shape = b.dtype, b.shape

    @property
    def device(self) -> Any:
        return cupy.Device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.b._describe().data, False),
            "strides": None if self.b.contiguous else self.b.strides,
            "stream": cupy.stream,
            **self.changes,
        }


class Made:
    """What stands for the module: what it was asked to make, and on which device and stream it works."""

    ndarray = Array

    def __init__(self, ex: hg.Executor) -> None:
        self.ex, self.stream, self.made = ex, FIRST, []  # type: ignore[var-annotated]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        b = _results.allocate(self.ex.allocate(1), shape, np.dtype(dtype), self.ex)
        self.ex.synchronize()  # as CuPy's memory has no work of ours on it
        self.made.append((shape, np.dtype(dtype)))
        return Array(b)

    class Device:
        def __init__(self, array: Array) -> None:
            assert array.data.device_id == 0

        def __enter__(self) -> None:
            pass

        def __exit__(self, *exc: object) -> None:
            pass


cupy: Any = None


@pytest.fixture(autouse=True)
def module(ex: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """CuPy, and that no handle stays of what is done with it."""
    global cupy
    cupy = Made(ex)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    before = native.object_count()
    yield cupy
    cupy = None
    ex.synchronize()
    assert native.object_count() <= before + 8


@pytest.fixture
def in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to Python."""

    def left(*args: object) -> None:
        raise AssertionError(f"left to Python: {args}")

    monkeypatch.setitem(hooks, "operation", left)
    monkeypatch.setitem(hooks, "launch", left)


def array(ex: hg.Executor, values: Any, dtype: Any = F32, **changes: Any) -> Array:
    b = ex.from_numpy(np.asarray(values, dtype))
    ex.synchronize()  # nothing orders CuPy's stream behind it
    return Array(b, **changes)


def values(ex: hg.Executor, x: Any) -> Any:
    ex.synchronize()
    return x.b.to_numpy().tolist()


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_every_dtype(ex: hg.Executor, in_c: None, dtype: str) -> None:
    x, y, out = (array(ex, v, dtype) for v in ([1, 2, 3], [4, 5, 6], [0, 0, 0]))
    ops.vector_add(ex, x, y, out)
    assert values(ex, out) == [5, 7, 9]


def test_bools(ex: hg.Executor, in_c: None) -> None:
    x, y = array(ex, [True, False], bool), array(ex, [True, True], bool)
    made = ops.vector_equal(ex, x, y)
    assert made.dtype == bool and values(ex, made) == [True, False]


def test_views(ex: hg.Executor, in_c: None) -> None:
    whole = array(ex, np.arange(12).reshape(3, 4))
    turned, out = Array(whole.b.view((4, 3), strides=(1, 4))), array(ex, np.zeros((4, 3)))
    ops.vector_neg(ex, turned, out)
    assert values(ex, out) == (-np.arange(12.0).reshape(3, 4).T).tolist()
    point = array(ex, 3.0)
    ops.vector_add(ex, point, out, out)
    assert values(ex, out)[0] == [3, -1, -5]


def test_results_are_of_their_kind(ex: hg.Executor, in_c: None) -> None:
    x, y = array(ex, [[1, 2], [3, 4]]), array(ex, [1, 2])
    made = ops.vector_add(ex, x, y)
    assert type(made) is Array and values(ex, made) == [[2, 4], [4, 6]]
    less = ops.vector_less(ex, x, y)
    assert less.dtype == bool and values(ex, less) == [[False, False], [False, False]]
    assert values(ex, ops.reduce_sum(ex, x, axis=1)) == [3, 7]
    assert ops.reduce_sum(ex, x) == 10
    assert cupy.made == [((2, 2), F32), ((2, 2), np.dtype(bool)), ((2,), F32)]
    assert ops.vector_add(ex, x, ex.from_numpy(np.ones((2, 2), np.float32))).dtype == F32


def test_calls_go_to_cupy_s_stream(ex: hg.Executor, in_c: None) -> None:
    """The device tells of work that nothing orders: one stream's calls are in order, and Buffers wait for others."""
    x, y = array(ex, [1, 2]), array(ex, [0, 0])
    p = hg.Program("program p\nslot a f32\nldg.f32 x, a[index]\nadd.f32 x, x, x\nstg.f32 x, a[index]\nexit")
    for cupy.stream in (FIRST, SECOND):
        ops.vector_add(ex, x, x, y)
        ops.vector_add(ex, y, x, y)
        ex.launch(p, a=y)
        ex.synchronize()
        assert values(ex, y) == [6, 12]
    b = ex.from_numpy(np.ones(2, np.float32))
    ops.vector_add(ex, b, x, b)
    ops.vector_add(ex, b, b, b)
    assert b.to_numpy().tolist() == [4, 6]


def test_nothing_waits_for_the_device(ex: hg.Executor, in_c: None, tmp_path: Path) -> None:
    """Numbers, which are read at once, don't make a call wait as arrays of the host do; nor do results."""
    x, y = (array(ex, np.ones(100_000)) for _ in range(2))
    out = [array(ex, np.zeros(100_000)) for _ in range(3)]
    cupy.empty = lambda shape, dtype: out.pop()
    ex.synchronize()
    with hg.profile(tmp_path / "trace.json", table=False) as p:
        made = [ops.vector_add(ex, x, y), ops.vector_add(ex, x, 2.0), ops.vector_sub(ex, 2.0, x)]
        ops.vector_add(ex, x, 3.0, y)
    assert [e["name"] for e in p.events if e["cat"] == "wait"] == []
    assert [values(ex, each)[0] for each in (*made, y)] == [2, 3, 1, 4]


def test_calls_without_an_executor(ex: hg.Executor, in_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def default(device: int, number: int) -> hg.Executor:
        asked.append((device, number))
        raise RuntimeError("none for that")

    monkeypatch.setitem(hooks, "default_executor", default)
    monkeypatch.setitem(hooks, "operation", lambda *args: "left")
    x = array(ex, [1, 2])
    assert ops.vector_add(x, x, x) == "left"
    assert asked == [(2, 0)]  # CUDA's


def test_kernels(ex: hg.Executor, in_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    @hg.kernel
    def relu_of_both(x: Any, y: Any) -> Any:
        return hg.maximum(x * y + x, 0)

    def refuse(self: Array, **named: Any) -> object:
        raise AssertionError("made a Buffer")

    monkeypatch.setitem(_results._executors, (2, 0), ex)
    monkeypatch.setattr(Array, "__dlpack__", refuse, raising=False)
    x, y = array(ex, [[1, -2, 3]]), array(ex, [[1], [2]])
    for _ in range(2):  # the second is as one before
        made = relu_of_both(x, y)
        assert type(made) is Array and values(ex, made) == [[2, 0, 6], [3, 0, 9]]
        assert relu_of_both(x, 2.0, out=made) is made and values(ex, made) == [[3, 0, 9]] * 2
    with pytest.raises(DTypeError, match="complex64"):
        wrong = array(ex, [1])
        wrong.dtype = np.dtype("c8")
        relu_of_both(wrong, wrong)


def test_a_stream_of_the_caller_s(ex: hg.Executor) -> None:
    """Of another than CuPy's own CuPy knows nothing, so Python keeps the arrays until the work is done."""
    x = array(ex, [1, 2])
    ops.vector_add(ex, x, x, x, stream=FIRST)
    ops.vector_add(ex, x, x, x)
    assert values(ex, x) == [4, 8]
    own = hg.Stream(ex)
    ops.vector_add(ex, x, x, x, stream=own)
    assert values(ex, x) == [8, 16]


def test_what_is_left_to_python(ex: hg.Executor) -> None:
    """It says what is wrong, or finds another way: the same as of arrays of other kinds."""
    x, good = array(ex, [1, 2]), array(ex, [1, 2])
    for changes, error, match in (
        ({"typestr": "<c8"}, DTypeError, "typestr of a supported dtype"),
        ({"typestr": ">f4"}, DTypeError, "typestr of a supported dtype"),
        ({"typestr": "V"}, DTypeError, "typestr of a supported dtype"),
        ({"typestr": 4}, DTypeError, "typestr of a supported dtype"),
        ({"mask": x}, DTypeError, "has a mask"),
        ({"shape": None}, DTypeError, "__cuda_array_interface__ is"),
        ({"shape": (1,) * 9}, InvalidArgumentError, "rank|dimensions"),
        ({"strides": (3,)}, InvalidArgumentError, "not multiples of the item size"),
        ({"strides": (4, 4)}, InvalidArgumentError, r"has strides \(4, 4\) and shape \(2,\)"),
        ({"stream": 2}, InvalidArgumentError, "default stream of each thread"),
        ({"stream": "s"}, DTypeError, "__cuda_array_interface__ is"),
        ({"data": (x.b._describe().data + 1, False)}, InvalidArgumentError, "align"),
    ):
        with pytest.raises(error, match=match):
            ops.vector_add(ex, Array(x.b, **changes), good, good)
    with pytest.raises(ValueError, match="read-only"):
        ops.relu(ex, x, Array(x.b, data=(x.b._describe().data, True)))
    ops.vector_add(ex, Array(x.b, stream=None), good, good)  # who says nothing of a stream has no work on one
    empty = Array(x.b.view((0,)))
    ops.vector_add(ex, empty, empty, empty)
    assert ops.vector_add(ex, empty, empty).shape == (0,)
    with hg.Executor("cpu") as host, pytest.raises(hg.errors.BackendError, match="not in memory that cpu"):
        ops.vector_add(host, x, good, good)
    with pytest.raises(hg.errors.BackendError, match="nothing is copied silently"):
        ops.vector_add(ex, np.ones(2, np.float32), good, good)
    assert _results.executor_of([x.b]) is ex


def test_exceptions_of_theirs(ex: hg.Executor) -> None:
    x = array(ex, [1, 2])
    x.data = None
    ops.vector_add(ex, x, x, x)  # the device is not told: Python asks the driver
    assert values(ex, x) == [2, 4]
    with pytest.raises(KeyboardInterrupt):

        def interrupt(self: Any) -> Any:
            raise KeyboardInterrupt

        y = array(ex, [1])
        y.__class__ = type("Array", (Array,), {"__cuda_array_interface__": property(interrupt)})
        cupy.ndarray = type(y)
        ops.vector_add(ex, y, y, y)
