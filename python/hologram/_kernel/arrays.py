"""The arrays that kernels take and make: their dtypes, the executors that see their memory, and more of their kind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _results
from hologram._dtypes import dtype_of
from hologram._results import allocate
from hologram.buffer import Buffer
from hologram.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ARRAYS",
    "HOST",
    "allocate",
    "dtype_of_tensor",
    "executor_of",
    "executors",
    "is_array",
    "stand_in",
    "usable",
]

ARRAYS: set[type] = {np.ndarray, Buffer}
"""The types of arrays that have a dtype and a shape at once; torch's tensors join them when one is met."""

HOST: set[type] = {np.ndarray, bool, int, float, type(None)}
"""The types of arguments that say nothing of a device; those of numpy's numbers join them when one is met."""


def dtype_of_tensor(value: Any) -> Optional[np.dtype[Any]]:
    """Return the dtype of a torch tensor, or None."""
    found = _results.dtype_of_tensor(value)
    if found is not None:
        ARRAYS.add(type(value))
    return found


def is_array(value: Any) -> bool:
    """Whether a value is an array that says itself what it is."""
    return isinstance(value, (np.ndarray, Buffer)) or hasattr(value, "__dlpack__")


def usable(value: Any) -> Any:
    """Return an argument, or a Buffer of what only says through DLPack or the buffer protocol what it is."""
    if isinstance(value, (np.ndarray, Buffer, bool, int, float, np.generic)) or dtype_of_tensor(value) is not None:
        return value
    if hasattr(value, "__dlpack__"):
        return default_executor(int(value.__dlpack_device__()[0])).wrap(value)
    try:
        view = memoryview(value)
    except TypeError:
        return value
    return default_executor(1).wrap(np.asarray(view))


def stand_in(value: Any) -> Any:
    """Return an array of a dtype in the place of one, and other values as they are."""
    if isinstance(value, (str, np.dtype)) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.empty(0, dtype_of(value))
    return value


class _Executors(threading.local):
    """The executors that kernels run on in a thread, for lack of others."""

    def __init__(self) -> None:
        self.found: dict[str, Executor] = {}


executors = _Executors()


def default_executor(device: int) -> Executor:
    """Return this thread's executor for memory of a DLPack device."""
    backend = {1: "cpu", 2: "cuda", 8: "metal"}.get(device, "cpu")
    found = executors.found.get(backend)
    if found is None:
        found = executors.found[backend] = Executor(backend)
    return found


def executor_of(values: Sequence[Any], outs: tuple[Any, ...]) -> Executor:
    """Return the executor of the first Buffer, or this thread's for the kind of memory."""
    device = 1
    for value in (*values, *outs):
        if type(value) is Buffer:
            executor: Executor = value._executor
            return executor
        if type(value) not in HOST and hasattr(value, "__dlpack_device__"):
            device = int(value.__dlpack_device__()[0])
    return default_executor(device)
