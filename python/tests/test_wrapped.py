"""Every way in which an array's memory becomes a buffer's, in place: of all dtypes and layouts, whoever shows it."""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES
from test_device_arrays import ByDLPack, ByInterface

import hologram as hg
from hologram._dtypes import dtype_of

LAYOUTS: dict[str, Callable[[Any], Any]] = {  # of 4 x 6
    "whole": lambda x: x,
    "turned": lambda x: x.T,
    "steps": lambda x: x[::2, 1::3],
    "backwards": lambda x: x[::-1, 3:0:-2],
    "one row": lambda x: x[2],
    "one column": lambda x: x[:, 5],
    "an element": lambda x: x[3, 5:, ...].reshape(()),
    "ones": lambda x: x[1:2, None, :, None],
    "nothing": lambda x: x[:, 2:2],
    "repeated": lambda x: np.lib.stride_tricks.as_strided(x[1:], (3, 2), (0, x.strides[1])),
}


class Old:
    """What shows its memory by DLPack as it was before version 1, with or without a stream to name."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__(**({} if stream is None else {"stream": stream}))


class New(Old):
    def __dlpack__(self, **named: Any) -> Any:
        return self.array.__dlpack__(**named)


class Subclass(np.ndarray):  # type: ignore[type-arg]
    pass


HOST: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x,
    "a subclass": lambda x: x.view(Subclass),
    "memoryview": memoryview,
    "DLPack 0": Old,
    "DLPack 1": New,
}
DEVICE: dict[str, Callable[[hg.Buffer], Any]] = {
    "itself": lambda b: b,
    "DLPack 0": Old,
    "DLPack 1": ByDLPack,
    "the interface": lambda b: ByInterface(b, b.executor.stream.handle),
}


def same(b: hg.Buffer, x: Any, address: int, what: object) -> None:
    assert (b.shape, b.dtype) == (x.shape, x.dtype), what
    if x.size:
        assert b._describe().data == address, what
        assert all(s == t for s, t, n in zip(b.strides, x.strides, x.shape) if n > 1), what
    assert b.to_numpy().tobytes() == np.ascontiguousarray(x).tobytes(), what


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", HOST)
def test_memory_of_the_host(ex: hg.Executor, way: str, layout: str) -> None:
    """What is written to either is seen in the other; what must not be written is not."""
    if not ex.host_visible:
        pytest.skip(f"{ex.backend} has memory of its own")
    for dtype in [dtype_of(name) for name in DTYPES if name != "bf16"] + [np.dtype(bool)]:
        for read_only in (False, True):
            whole = (np.arange(24) % 3).astype(dtype).reshape(4, 6)
            x = LAYOUTS[layout](whole)
            if read_only:
                x.flags.writeable = False
            try:
                given = HOST[way](x)
                b = ex.wrap(given)
            except (BufferError, ValueError) as error:  # numpy's DLPack had no read-only arrays once
                assert read_only and "DLPack" in way, (dtype, error)
                continue
            same(b, x, x.__array_interface__["data"][0], (dtype, read_only))
            assert b.read_only is read_only
            if read_only:
                with pytest.raises(ValueError, match="read-only"):
                    b.fill(1)
            elif layout != "repeated":
                before = whole.copy()
                b.fill(1)
                ex.synchronize()
                LAYOUTS[layout](before)[...] = 1
                assert whole.tobytes() == before.tobytes(), dtype


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name not in ("backwards", "repeated")])
@pytest.mark.parametrize("way", DEVICE)
def test_memory_of_buffers(ex: hg.Executor, way: str, layout: str) -> None:
    """Shown by themselves, or by others."""
    if way == "the interface" and ex.host_visible:
        pytest.skip("that of memory of the host is numpy's own")
    for name in [*DTYPES, "bool"]:
        if name == "bf16" and way == "the interface":
            continue
        dtype = np.dtype(bool) if name == "bool" else dtype_of(name)
        whole = ex.from_numpy((np.arange(24) % 3).astype(dtype))
        item = whole.itemsize
        reference = (np.arange(24) % 3).astype(dtype).reshape(4, 6)
        part = LAYOUTS[layout](reference)
        offset = (part.__array_interface__["data"][0] - reference.__array_interface__["data"][0]) // item
        view = whole.view(part.shape, offset=offset if part.size else 0, strides=[s // item for s in part.strides])
        b = ex.wrap(DEVICE[way](view))
        same(b, part, whole._describe().data + offset * item, name)
        assert not b.read_only
        b.fill(1)
        part[...] = 1
        assert whole.to_numpy().tobytes() == reference.tobytes(), name


def test_buffers_of_other_devices(ex: hg.Executor) -> None:
    """Are taken where both work in the host's memory, and are refused elsewhere, as other arrays are."""
    with hg.Executor("interp" if ex.backend != "interp" else "cpu") as other:
        for a, b in ((ex, other), (other, ex)):
            x = b.from_numpy(np.arange(6, dtype=np.float32)).view((3, 2), strides=(1, 3))
            if ex.host_visible:
                y = a.wrap(x)
                assert y.executor is a
                assert y.to_numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
                y.fill(2)
                a.synchronize()
                assert x.to_numpy().tolist() == [[2, 2]] * 3
            else:
                with pytest.raises(RuntimeError, match="nothing is copied silently"):
                    a.wrap(x)


def test_exporters_of_the_buffer_protocol(ex: hg.Executor) -> None:
    if not ex.host_visible:
        pytest.skip(f"{ex.backend} has memory of its own")
    block = bytearray(b"\x01\x02\x03\x04")
    ex.wrap(block).fill(7)
    ex.synchronize()
    assert block == b"\x07" * 4
    assert ex.wrap(bytes(block)).read_only
    three = (ctypes.c_double * 3)(1, 2, 3)
    b = ex.wrap(three)
    assert (b.dtype, b.to_numpy().tolist()) == (np.float64, [1, 2, 3])
    for wrong in ("text", 3, None, object(), np.ndarray):
        with pytest.raises(TypeError, match="expected a Buffer, a numpy array or an object with DLPack"):
            ex.wrap(wrong)
    for wrong in ([1, 2], (3.0,)):
        with pytest.raises(TypeError, match=r"np\.array makes one of it"):
            ex.wrap(wrong)
    record = np.zeros(4, [("a", "u1"), ("b", "<f4")])
    with pytest.raises(ValueError, match="not multiples of the item size"):
        ex.wrap(record["b"])


def test_what_its_owner_has_queued_comes_first(ex: hg.Executor) -> None:
    if ex.host_visible:
        pytest.skip("that of memory of the host is numpy's own")
    theirs, n = hg.Stream(ex), 200_000
    for i in range(20):
        a = ex.from_numpy(np.full(n, i, np.float32))
        given = ByInterface(a, theirs.handle)
        for _ in range(4):
            hg.ops.vector_add(ex, a, a, a, stream=theirs)
        assert ex.wrap(given).to_numpy()[-1] == 16 * i


def test_what_is_no_capsule(ex: hg.Executor) -> None:
    kind = type("Wrong", (), {"__dlpack_device__": lambda _: (ex._device_type if not ex.host_visible else 1, 0)})
    for wrong in (None, 3, "dltensor"):
        kind.__dlpack__ = lambda _, wrong=wrong, **named: wrong  # type: ignore[attr-defined]
        with pytest.raises(BufferError, match=r"Wrong\.__dlpack__\(\) is .*; expected a DLPack capsule"):
            ex.wrap(kind())
