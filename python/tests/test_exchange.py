"""Operands in C: arrays by the buffer protocol, tensors by DLPack's C exchange API, and what goes the careful way."""

from __future__ import annotations

import array
import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from exchange import Exchange
from test_process import passes
from test_safety import SLOW

import hologram as hg
from hologram import ops
from hologram._ffi import native

F32 = np.float32


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """Whatever a test does, no handle stays."""
    gc.collect()
    before = native.object_count()
    yield
    gc.collect()
    assert native.kept() == 0
    assert native.object_count() <= before


@pytest.fixture
def host() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


# ---- the buffer protocol


@pytest.mark.parametrize(
    "made",
    [
        lambda: np.zeros(6, F32),
        lambda: memoryview(np.zeros(6, F32)),
        lambda: array.array("f", [0] * 6),
        lambda: memoryview(bytearray(24)).cast("f"),
    ],
)
def test_exporters(host: hg.Executor, made: Any) -> None:
    out = made()
    ops.vector_add(host, np.arange(6, dtype=F32), np.ones(6, F32), out)
    assert np.asarray(out).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_bytearray_is_bytes(host: hg.Executor) -> None:
    x = bytearray(b"abc")
    ops.vector_add(host, x, b"\1\1\1", x)
    assert x == b"bcd"
    x.extend(b"more")  # nothing holds it any more


@pytest.mark.parametrize("code", "bBhHiIlLqQefd")
def test_formats(host: hg.Executor, code: str) -> None:
    x = np.arange(5).astype(code)
    out = np.zeros_like(x)
    ops.vector_add(host, x, x, out)
    assert np.array_equal(out, x + x)
    with pytest.raises(TypeError, match="vector_add: b has dtype"):
        ops.vector_add(host, x, np.zeros(5, "i1" if code != "b" else "u1"), out)


def test_strides_of_arrays(host: hg.Executor) -> None:
    x = np.arange(60, dtype=F32).reshape(3, 4, 5)
    out = np.zeros((5, 4, 3), F32)
    ops.vector_neg(host, x.transpose(), out)
    assert np.array_equal(out, -x.transpose())
    ops.vector_neg(host, x[::-1, ::2, 1:3], out[:3, :2, :2])
    assert np.array_equal(out[:3, :2, :2], -x[::-1, ::2, 1:3])
    ops.vector_neg(host, np.zeros((0, 4), F32), np.zeros((0, 4), F32))
    point = np.zeros((), F32)
    ops.vector_neg(host, np.array(3, F32), point)
    assert point == -3


RECORD = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4")], align=False))["b"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: np.zeros(4, ">f4"), "dtype >f4|dtype float32|not supported"),
        (lambda: np.zeros(4, "c8"), "complex64"),
        (lambda: np.zeros(4, "M8[s]"), "datetime64"),
        (lambda: np.zeros(4, object), "object"),
        (lambda: RECORD, "strides|align"),
        (lambda: np.frombuffer(bytearray(17), F32, 4, 1), "align"),
        (lambda: np.ndarray(4, F32, bytearray(32), strides=(6,)), r"strides \(6,\)"),
        (lambda: np.ma.masked_array(np.zeros(4, F32), [1, 0, 0, 0]), "mask"),
        (lambda: np.zeros((1,) * 9, F32), "dimensions"),
        (lambda: memoryview(b"abcd").cast("c"), "dtype"),
        (lambda: [1.0, 2.0], "expected a Buffer"),
        (lambda: None, "expected a Buffer"),
    ],
)
def test_what_is_not_taken_is_named(host: hg.Executor, wrong: Any, text: str) -> None:
    x = np.zeros(4, F32)
    with pytest.raises((TypeError, ValueError), match=rf"vector_add: b: .*({text})"):
        ops.vector_add(host, x, wrong(), x)
    with pytest.raises((TypeError, ValueError), match=rf"slot c: .*({text})|slot c .*is not bound"):
        host.launch(hg.Program("program p\nslot c f32\nstg.f32 1.0, c[index]\nexit"), c=wrong())


def test_read_only_arrays_are_not_written(host: hg.Executor) -> None:
    x = np.zeros(4, F32)
    x.flags.writeable = False
    for out in (x, memoryview(bytes(16)).cast("f"), np.broadcast_to(F32(1), (4,))):
        with pytest.raises(ValueError, match=r"c is written, and (the array bound to it is read-only|elements)"):
            ops.vector_neg(host, np.ones(4, F32), out)
    assert not x.any()


def test_subclasses_of_arrays_go_the_careful_way(host: hg.Executor) -> None:
    class Mine(np.ndarray):  # type: ignore[type-arg]
        pass

    x = np.arange(4, dtype=F32).view(Mine)
    out = np.zeros(4, F32).view(Mine)
    ops.vector_add(host, x, x, out)
    assert out.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("shape", (1 << 20,)),
        ("dtype", np.dtype("f8")),
        ("ndim", 7),
        ("__array_interface__", {"shape": (1 << 20,), "typestr": "<f4", "data": (4096, False), "version": 3}),
    ],
)
def test_a_subclass_is_taken_at_numpy_s_word(host: hg.Executor, name: str, says: Any) -> None:
    """A class may give its attributes a meaning of its own: what memory there is numpy's fields tell."""
    kind: Any = type("Mine", (np.ndarray,), {name: property(lambda _: says)})
    x = np.arange(4, dtype=F32).view(kind)
    program = hg.Program("program p\nslot a f32\nldg.f32 x, a[index]\nadd.f32 x, x, x\nstg.f32 x, a[index]\nexit")
    host.launch(program, a=x)
    ops.vector_add(host, x, x, out := np.zeros(4, F32))
    assert out.tolist() == [0, 4, 8, 12]


def test_an_array_is_held_while_work_goes_on(host: hg.Executor) -> None:
    """A bytearray that a launch works on can't be resized meanwhile; other threads run."""
    data, out = bytearray(b"\0\0\x80\x3f" * (1 << 14)), np.zeros(1 << 14, F32)
    program, refused, ticks = hg.Program(SLOW), [], 0

    def resize(over: threading.Event) -> None:
        nonlocal ticks
        while not native.waiting():
            if over.wait(0.0001):  # too short a launch to be met at work
                return
        try:
            data.extend(b"more")
        except BufferError as error:
            refused.append(error)
        else:  # it has just ended
            del data[-4:]
        while native.waiting():
            time.sleep(0.001)
            ticks += 1

    k = 20_000
    while not (refused and ticks) and k < 1 << 24:  # the sums stay exact
        over = threading.Event()
        thread = threading.Thread(target=resize, args=(over,))
        thread.start()
        host.launch(program, a=memoryview(data).cast("f"), b=out, k=k)
        over.set()
        thread.join()
        assert (out == k).all()
        k *= 4
    assert refused
    assert ticks
    data.extend(b"more")


def test_more_operands_than_c_takes(host: hg.Executor) -> None:
    n = 20
    slots = "".join(f"slot s{i} f32\n" for i in range(n))
    adds = "".join(f"ldg.f32 y, s{i}[index]\nadd.f32 x, x, y\n" for i in range(n - 1))
    p = hg.Program(f"program many\n{slots}mov.f32 x, 0\n{adds}stg.f32 x, s{n - 1}[index]\nexit")
    arrays: dict[str, Any] = {f"s{i}": np.full(5, i, F32) for i in range(n)}
    host.launch(p, arrays)
    assert arrays[f"s{n - 1}"].tolist() == [sum(range(n - 1))] * 5


def test_a_slot_is_given_once(host: hg.Executor) -> None:
    p = hg.Program("program p\nslot c f32\nstg.f32 1.0, c[index]\nexit")
    one, other = np.zeros(4, F32), np.zeros(4, F32)
    with pytest.raises(ValueError, match='launch "p": c is given twice'):
        host.launch(p, {"c": one}, c=other)
    with pytest.raises(ValueError, match='launch "p": c is given twice'):
        host.trace(p, {"c": one}, c=other)
    assert not one.any() and not other.any()


# ---- the exchange API


def test_tensors_are_borrowed(host: hg.Executor) -> None:
    kind = Exchange()
    x, out, three = np.arange(12, dtype=F32).reshape(3, 4), np.zeros((4, 3), F32), np.zeros(3, F32)
    p = hg.Program("program p\nslot c f32\nstg.f32 1.0, c[index]\nexit")
    # What is called for the first time is prepared first, without the lock.
    ops.vector_add(host, x.T, x.T, out)
    host.launch(p, c=out)
    ops.reduce_sum(host, out, three)
    out[:] = 0
    ops.vector_add(host, kind.type(x.T), kind.type(x.T), kind.type(out))
    assert np.array_equal(out, 2 * x.T)
    host.launch(p, c=kind.type(out))
    assert (out == 1).all()
    assert ops.reduce_sum(host, kind.type(out), kind.type(three)) == 12
    assert (kind.borrowed, kind.owned) == (6, 0)


def test_tensors_are_owned_before_the_lock_goes(host: hg.Executor) -> None:
    kind = Exchange()
    n = 1 << 21
    x, out = np.ones(n, F32), np.zeros(n, F32)
    ops.vector_add(host, kind.type(x), kind.type(x), kind.type(out))
    assert (out == 2).all()
    assert (kind.owned, kind.deleted) == (3, 3)
    y, z = np.ones(1 << 14, F32), np.zeros(1 << 14, F32)
    host.launch(hg.Program(SLOW), a=kind.type(y), b=kind.type(z), k=20_000)  # goes on for a while
    assert (z == 20_000).all()
    assert (kind.owned, kind.deleted) == (5, 5)
    ops.vector_neg(host, kind.type(y[:1013]), kind.type(z[:1013]))  # prepared first, by no other test
    assert (kind.owned, kind.deleted) == (7, 7)
    with pytest.raises(ValueError, match="overlaps"):
        ops.vector_add(host, kind.type(x[:-1]), kind.type(x[:-1]), kind.type(x[1:]))
    assert kind.owned == kind.deleted


def test_a_type_that_does_not_lend(host: hg.Executor) -> None:
    kind = Exchange(borrow=False)
    x, out = np.ones(4, F32), np.zeros(4, F32)
    ops.vector_add(host, kind.type(x), kind.type(x), kind.type(out))
    assert (out == 2).all()
    assert (kind.owned, kind.deleted) == (3, 3)
    with pytest.raises(ValueError, match="read-only"):
        ops.vector_neg(host, kind.type(x), kind.type(out, flags=1))
    assert (kind.owned, kind.deleted) == (5, 5)


def test_versions(host: hg.Executor) -> None:
    """Of a later version the API that it leads back to is used; without one the careful way."""
    x, out = np.ones(4, F32), np.zeros(4, F32)
    old = Exchange()
    ops.vector_add(host, x, x, Exchange(major=2, previous=old).type(out))
    assert (out == 2).all()
    assert old.borrowed == 1
    with pytest.raises(TypeError, match="vector_add: c: expected a Buffer"):
        ops.vector_add(host, x, x, Exchange(major=2).type(out))


@pytest.mark.parametrize("n", [np.int64, int])  # C leaves the one to Python
def test_a_long_launch_that_faults_leaves_nothing(host: hg.Executor, n: Any) -> None:
    p = hg.Program(SLOW.replace("exit", "stg.f32 s, b[1000]\nexit").replace("slow", "stray"))
    x, out = np.ones(2, F32), np.zeros(2, F32)
    before = native.object_count()
    with pytest.raises(hg.ProgramFault, match="stray access"):
        host.launch(p, a=x, b=out, k=3_000_000, n=n(2))
    assert out.tolist() == [3_000_000] * 2
    assert native.object_count() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"data": 0},
        {"device_type": 2},
        {"code": 5},
        {"code": 2, "bits": 8},
        {"code": 4, "bits": 32},
        {"bits": 4},
        {"lanes": 2},
        {"ndim": 9},
        {"ndim": -1},
        {"byte_offset": 1},
        {"refuse": True},
    ],
)
def test_tensors_that_c_leaves_to_python(host: hg.Executor, changes: dict[str, Any]) -> None:
    for kind in (Exchange(), Exchange(borrow=False)):
        x, out = np.ones(4, F32), np.zeros(4, F32)
        with pytest.raises(TypeError, match="vector_add: b: expected a Buffer"):
            ops.vector_add(host, x, kind.type(x, **changes), out)
        assert not out.any()
        assert kind.owned == kind.deleted


def test_packed_tensors_may_have_no_strides(host: hg.Executor) -> None:
    kind = Exchange()
    x, out = np.arange(6, dtype=F32).reshape(2, 3), np.zeros((2, 3), F32)
    ops.vector_add(host, kind.type(x, strides=None), x, out)
    assert np.array_equal(out, 2 * x)


def test_bools_of_tensors(host: hg.Executor) -> None:
    kind = Exchange()
    x, out = np.array([True, False]), np.zeros(2, np.uint8)
    ops.vector_add(host, kind.type(x), kind.type(x), out)
    assert out.tolist() == [2, 0]
    ops.copy(host, np.array([False, True]), kind.type(x))
    assert x.tolist() == [False, True]


def test_types_derived_from_one_go_the_careful_way(host: hg.Executor) -> None:
    kind = Exchange()

    class Derived(kind.type):  # type: ignore[misc,name-defined]
        pass

    x = np.ones(4, F32)
    with pytest.raises(TypeError, match="expected a Buffer, a numpy array or an object with DLPack, got Derived"):
        ops.vector_add(host, x, Derived(x), x)


def test_more_types_than_are_remembered(host: hg.Executor) -> None:
    x, out = np.ones(4, F32), np.zeros(4, F32)
    kinds = [Exchange() for _ in range(100)]
    for _ in range(2):
        for kind in kinds:
            out[:] = 0
            ops.vector_add(host, x, kind.type(x), out)
            assert (out == 2).all()


# ---- the process


def test_free_threaded_python_is_refused() -> None:
    """By the head of its objects, before anything else is read: a dict as such a build lays it out."""
    passes(
        """
import ctypes
from hologram import _ffi

class Head(ctypes.Structure):  # PyObject of a build with Py_GIL_DISABLED, 3.13
    _fields_ = [("thread", ctypes.c_size_t), ("flags", ctypes.c_uint16), ("mutex", ctypes.c_uint8),
                ("gc_bits", ctypes.c_uint8), ("local", ctypes.c_uint32), ("shared", ctypes.c_ssize_t),
                ("type", ctypes.c_void_p)]

head = Head(1, 0, 0, 1, 1, 0, id(dict))
python = ctypes.PyDLL(_ffi.path).hologram_python
python.restype, python.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p)
before = bytes(head)
try:
    python(ctypes.addressof(head), getattr(sys, "dllhandle", None))
except ImportError as error:
    assert "free-threaded" in str(error), error
else:
    raise SystemExit("taken")
assert bytes(head) == before, "it was written to"
hg.ops.fill(hg.Executor("cpu"), np.zeros(4, np.float32), 1)
"""
    )


def test_sub_interpreters_are_refused() -> None:
    passes(
        """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = (
    "import hologram\\ntry:\\n    hologram.Executor\\n"
    "except ImportError as e:\\n    assert 'sub-interpreter' in str(e), e\\n"
    "else:\\n    raise SystemExit('opened')\\n"
)
if hasattr(interpreters, "new_config"):
    one = interpreters.create("legacy")
elif sys.version_info >= (3, 12):
    one = interpreters.create(isolated=False)
else:
    one = interpreters.create()
failed = interpreters.run_string(one, f"import sys; sys.path[:] = {sys.path!r}\\n" + code)
assert not failed, failed
interpreters.destroy(one)
hg.ops.fill(hg.Executor("cpu"), np.zeros(4, np.float32), 1)
"""
    )
