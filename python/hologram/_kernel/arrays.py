"""The arrays that kernels take: their dtypes, and what stands for them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from hologram import _results
from hologram._dtypes import dtype_of
from hologram._foreign import device_of, is_cupy
from hologram.buffer import Buffer

__all__ = ["ARRAYS", "HOST", "dtype_of_tensor", "is_array", "stand_in", "usable"]

ARRAYS: set[type] = {np.ndarray, Buffer}
"""The types of arrays that have a dtype and a shape at once; torch's and CuPy's join them when one is met."""

HOST: set[type] = {np.ndarray, bool, int, float, type(None)}
"""The types of arguments that say nothing of a device; those of numpy's numbers join them when one is met."""


def dtype_of_tensor(value: Any) -> Optional[np.dtype[Any]]:
    """Return the dtype of a torch tensor or an array of CuPy's, or None."""
    found: Optional[np.dtype[Any]] = value.dtype if is_cupy(value) else _results.dtype_of_tensor(value)
    if found is not None:
        ARRAYS.add(type(value))
    return found


_INTERFACES = ("__dlpack__", "__cuda_array_interface__")


def is_array(value: Any) -> bool:
    """Whether a value is an array that says itself what it is."""
    return isinstance(value, (np.ndarray, Buffer)) or any(hasattr(value, name) for name in _INTERFACES)


def usable(value: Any) -> Any:
    """Return an argument, or a Buffer of what only says through DLPack, CUDA's or the buffer protocol what it is."""
    if isinstance(value, (np.ndarray, Buffer, bool, int, float, np.generic)) or dtype_of_tensor(value) is not None:
        return value
    if hasattr(value, "__dlpack__"):
        return _results.default_executor(*device_of(value)).wrap(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _results.default_executor(2).wrap(value)
    try:
        view = memoryview(value)
    except TypeError:
        return value
    return _results.default_executor(1).wrap(np.asarray(view))


def stand_in(value: Any) -> Any:
    """Return an array of a dtype in the place of one, and other values as they are."""
    if isinstance(value, (str, np.dtype)) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.empty(0, dtype_of(value))
    return value
