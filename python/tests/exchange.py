"""A stand-in for tensors with DLPack's C exchange API, made with ctypes: no library that has one is needed."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    Structure,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any

import numpy as np

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class Managed(Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    )


class API(Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("own", c_void_p),
        ("object_of", c_void_p),
        ("borrow", c_void_p),
        ("stream", c_void_p),
    )


class Standin:
    """An array that only its type's exchange API shows."""

    def __init__(self, array: np.ndarray[Any, Any], **changes: Any) -> None:
        self.array = array
        self.changes = changes
        self.made: list[Any] = []

    def fill(self, tensor: Tensor) -> None:
        array = self.array
        tensor.data, tensor.byte_offset = array.ctypes.data, 0
        tensor.device_type, tensor.device_id, tensor.ndim = 1, 0, array.ndim
        tensor.code, tensor.bits, tensor.lanes = CODES[array.dtype.kind], 8 * array.itemsize, 1
        shape = (c_int64 * max(1, array.ndim))(*array.shape)
        strides = (c_int64 * max(1, array.ndim))(*(s // array.itemsize for s in array.strides))
        tensor.shape, tensor.strides = shape, strides
        self.made.append((shape, strides))
        for name, value in self.changes.items():
            if name in ("data", "byte_offset", "device_type", "ndim", "code", "bits", "lanes", "strides"):
                setattr(tensor, name, value)


class Exchange:
    """A type of stand-ins, and what was asked of it."""

    def __init__(
        self, major: int = 1, borrow: bool = True, previous: Exchange | None = None, stream: int | None = None
    ) -> None:
        self.stream = stream
        self.borrowed = self.owned = self.deleted = 0
        self.alive: dict[int, Managed] = {}
        self._callbacks = (
            ctypes.PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))(self._own),
            ctypes.PYFUNCTYPE(c_int, py_object, POINTER(Tensor))(self._borrow),
            ctypes.PYFUNCTYPE(None, c_void_p)(self._delete),
            ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))(self._stream),
        )
        own, lend, self._deleter, streams = (ctypes.cast(c, c_void_p).value for c in self._callbacks)
        self.api = API(major=major, own=own, borrow=lend if borrow else None, stream=streams)
        if previous is not None:
            self.api.previous = ctypes.addressof(previous.api)
        self._kept = previous
        new = ctypes.PYFUNCTYPE(py_object, c_void_p, ctypes.c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
        capsule = new(ctypes.addressof(self.api), b"dlpack_exchange_api", None)
        self.type: Any = type("Exchanged", (Standin,), {"__dlpack_c_exchange_api__": capsule, "exchange": self})

    def _borrow(self, o: Standin, out: Any) -> int:
        if "refuse" in o.changes:
            return -1
        self.borrowed += 1
        o.fill(out.contents)
        return 0

    def _stream(self, kind: int, number: int, out: Any) -> int:
        """Say which stream of a device the owner works on now; None of the legacy default one."""
        out[0] = self.stream
        return 0

    def _own(self, o: Standin, out: Any) -> int:
        if "refuse" in o.changes:
            return -1
        self.owned += 1
        managed = Managed(major=1, deleter=self._deleter, flags=o.changes.get("flags", 0))
        o.fill(managed.tensor)
        self.alive[ctypes.addressof(managed)] = managed
        out[0] = ctypes.addressof(managed)
        return 0

    def _delete(self, address: int) -> None:
        self.deleted += 1
        del self.alive[address]
