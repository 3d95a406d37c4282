"""DLPack, both ways."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest
from exchange import Managed, Standin
from support import DTYPES, from_dlpack

import hologram as hg
from hologram._ffi import native

numpy_2_1 = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="numpy before 2.1 knows DLPack before version 1 alone"
)


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bf16"])
def test_numpy_reads_buffers(host: hg.Executor, name: str) -> None:
    b = host.allocate(6, name)
    x = from_dlpack(b)
    assert x.dtype == b.dtype
    b.fill(3)
    assert (x == 3).all()
    assert b.__dlpack_device__() == (1, 0)


def test_shape_and_strides(host: hg.Executor) -> None:
    b = host.from_numpy(np.arange(12, dtype=np.int64))
    x = from_dlpack(b.view((3, 2), offset=1, strides=[4, 2]))
    assert x.tolist() == [[1, 3], [5, 7], [9, 11]]


class Foreign:
    """An object with DLPack that is no numpy array, with or without version 1."""

    def __init__(self, array: Any, old: bool = False) -> None:
        self.array = array
        self.old = old

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("old", [False, True])
def test_wrap_dlpack(host: hg.Executor, old: bool) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = host.wrap(Foreign(x.T, old))
    assert b.shape == (3, 2)
    assert np.shares_memory(np.asarray(b), x)
    hg.ops.vector_neg(host, Foreign(x, old), Foreign(x, old))
    assert x.tolist() == [[0, -1, -2], [-3, -4, -5]]
    del x
    gc.collect()
    assert b.to_numpy().tolist() == [[0, -3], [-1, -4], [-2, -5]]


@numpy_2_1
def test_read_only_is_kept(host: hg.Executor) -> None:
    x = np.arange(3, dtype=np.float32)
    x.flags.writeable = False
    b = host.wrap(Foreign(x))
    assert b.read_only
    with pytest.raises(ValueError, match="read-only"):
        b.fill(0)
    with pytest.raises(BufferError, match="read-only"):
        b.__dlpack__()
    assert not from_dlpack(b).flags.writeable


def test_capsules_are_used_once(host: hg.Executor) -> None:
    capsule = np.arange(3, dtype=np.float32).__dlpack__()

    class Same:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            return capsule

    host.wrap(Same())
    with pytest.raises(BufferError, match="capsule"):
        host.wrap(Same())


@pytest.mark.parametrize("old", [pytest.param(False, marks=numpy_2_1), True])
def test_a_refused_capsule_stays_its_owners(host: hg.Executor, old: bool) -> None:
    x = np.arange(4).astype(np.complex64)
    before = sys.getrefcount(x)
    capsules = [x.__dlpack__() if old else x.__dlpack__(max_version=(1, 0))]

    class Once:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            return capsules[0]

    for _ in range(2):
        with pytest.raises(TypeError, match="dtype"):
            host.wrap(Once())
        assert native.kept() == 0
        assert sys.getrefcount(x) == before + 1
    y = from_dlpack(Once())
    assert np.array_equal(y, x)
    capsules.clear()
    del y
    assert sys.getrefcount(x) == before


def test_foreign_devices_are_refused(host: hg.Executor) -> None:
    class OnGPU:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not to be asked")

    with pytest.raises(RuntimeError, match=r"\(2, 0\)"):
        host.wrap(OnGPU())


def test_copy_and_device_arguments(host: hg.Executor) -> None:
    b = host.from_numpy(np.arange(4, dtype=np.float32))

    class Copied:
        def __dlpack_device__(self) -> tuple[int, int]:
            return b.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            options.pop("copy", None)
            return b.__dlpack__(copy=True, **options)

    x = from_dlpack(Copied())
    b.fill(9)
    assert x.tolist() == [0, 1, 2, 3]
    assert b.__dlpack__(copy=False) is not None
    assert b.__dlpack__(dl_device=(1, 0)) is not None
    with pytest.raises(BufferError, match="dl_device"):
        b.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream"):
        b.__dlpack__(stream=1)


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 7)])
def test_unused_capsules_leak_nothing(host: hg.Executor, version: Any) -> None:
    b = host.allocate(100_000)
    capsule = b.__dlpack__(max_version=version)
    b.free()
    assert host.memory_stats()["executor"] > 0
    del capsule
    gc.collect()
    assert host.memory_stats()["executor"] == 0


def test_bf16_capsule(host: hg.Executor) -> None:
    b = host.from_numpy(np.asarray([1, 2], np.float32).astype(hg._dtypes.bfloat16()))
    other = host.wrap(Foreign(b))
    assert other.dtype.name == "bfloat16"
    assert other.to_numpy().tolist() == [1, 2]
    assert np.shares_memory(np.asarray(other), np.asarray(b))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("made", ["allocated", "wrapped"])
def test_bool_stays_bool_both_ways(host: hg.Executor, made: str, old: bool) -> None:
    values = np.array([True, False, True])
    b = host.from_numpy(values) if made == "allocated" else host.wrap(values)
    back = host.wrap(Foreign(b, old))
    assert b.dtype == back.dtype == bool
    if np.lib.NumpyVersion(np.__version__) >= "1.25.0":  # the first that reads bools
        assert from_dlpack(b).dtype == bool
    assert np.asarray(back).tolist() == [True, False, True]
    assert host.wrap(Foreign(host.allocate(3, "u8"), old)).dtype == np.uint8


@pytest.mark.parametrize("versioned", [False, True])
def test_the_data_may_begin_behind_its_address(host: hg.Executor, versioned: bool) -> None:
    cells = np.arange(6, dtype=np.float32)
    managed = Managed(major=1)
    # Before version 1 the structure began with the tensor.
    tensor = managed.tensor if versioned else type(managed.tensor).from_buffer(bytearray(ctypes.sizeof(Managed)))
    Standin(cells[2:], data=cells.ctypes.data, byte_offset=8).fill(tensor)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name, address = (b"dltensor_versioned", managed) if versioned else (b"dltensor", tensor)
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(address), name, None)

    class Offset:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            return capsule

    with host.wrap(Offset()) as b:
        assert b.to_numpy().tolist() == [2, 3, 4, 5]
        b.fill(7)
    assert cells.tolist() == [0, 1, 7, 7, 7, 7]


TYPES = {
    **{(code, bits): f"{name}{bits}" for code, name in ((0, "int"), (1, "uint")) for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (6, 8): "bool",
}


@pytest.mark.parametrize("code", [0, 1, 2, 3, 5, 6, 7])
def test_types(host: hg.Executor, code: int) -> None:
    """Of each code, with so many bits and lanes: its dtype, or what it is that there is none for."""

    class Odd:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            return capsule

    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    for bits in (1, 8, 16, 32, 64, 128):
        for lanes in (1, 2):
            cells = np.zeros(16, np.uint64)
            managed = Managed(major=1)
            standin = Standin(cells[:2], code=code, bits=bits, lanes=lanes)
            standin.fill(managed.tensor)
            capsule = new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(managed), b"dltensor_versioned", None)
            if lanes == 1 and (code, bits) in TYPES:
                with host.wrap(Odd()) as b:
                    assert b.dtype == TYPES[code, bits]
                continue
            text = f"complex{bits}, " if code == 5 else f"dtype code {code} with {bits} bits and {lanes} lanes is not"
            with pytest.raises(TypeError, match=text):
                host.wrap(Odd())


@pytest.mark.parametrize("made", ["allocated", "wrapped"])
def test_bf16_is_exported(host: hg.Executor, made: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    b = host.from_numpy(values) if made == "allocated" else host.wrap(values)
    back = host.wrap(Foreign(b))
    assert back.dtype == ml_dtypes.bfloat16
    assert back.to_numpy().tolist() == [1.5, -2]


@pytest.mark.parametrize(("copy", "flags"), [(None, 0), (True, 2)])
def test_a_copy_says_that_it_is_one(host: hg.Executor, copy: Any, flags: int) -> None:
    b = host.from_numpy(np.arange(6.0))
    capsule = b.__dlpack__(max_version=(1, 0), copy=copy)
    assert native.capsule_flags(capsule) == flags


def test_nothing_leaks_if_bfloat16_has_no_dtype(host: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ml_dtypes")
    b = host.allocate(4, "bf16")

    def missing(code: int) -> Any:
        raise hg.errors.DTypeError("dtype bfloat16 needs the Python package ml_dtypes")

    monkeypatch.setattr("hologram._wrapped.dtype_of_code", missing)
    count = native.object_count()
    with pytest.raises(TypeError, match="ml_dtypes"):
        host.wrap(Foreign(b))
    gc.collect()
    assert native.object_count() == count
