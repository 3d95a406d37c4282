"""What a call leaves to us: the executor that it runs on, and the array for its result."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _foreign, _wrapped
from hologram._dtypes import dtype_of
from hologram._ffi import hooks
from hologram.buffer import Buffer
from hologram.errors import BackendError
from hologram.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["allocate", "default_executor", "dtype_of_tensor", "executor_of"]

_TENSORS: dict[Any, Optional[np.dtype[Any]]] = {}

_executors: dict[tuple[int, int], Executor] = {}


def default_executor(device: int, number: int = 0) -> Executor:
    """Return the process's executor for the memory of a DLPack device, which is made at first use.

    A fork's child whose parent used it gets a ``ForkError``, as with any executor; no lock is held that a fork could
    leave locked.

    Raises:
        BackendError: No backend works on such memory, or it is not available.
    """
    key = (device, 0 if device == 1 else number)
    found = _executors.get(key)
    if found is None or found._freed:
        names = {1: "cpu", 2: f"cuda:{number}", 8: "metal"}
        if device not in names:
            raise BackendError(f"no backend works on memory of DLPack device ({device}, {number})")
        made = Executor(names[device])
        if found is not None:
            _executors.pop(key, None)
        found = _executors.setdefault(key, made)  # another thread may have been faster
    return found


def executor_of(arrays: Iterable[Any]) -> Executor:
    """Return the executor of the first Buffer, or the process's for the memory of the first array."""
    device: Optional[tuple[int, int]] = None
    for array in arrays:
        if isinstance(array, Buffer):
            executor: Executor = array._executor
            return executor
        if device is None and not isinstance(array, (np.generic, type)) and hasattr(array, "__dlpack_device__"):
            device = _foreign.device_of(array)
        elif device is None:
            device = _wrapped.device_of_interface(array)
    return default_executor(*(device or (1, 0)))


def dtype_of_tensor(value: Any) -> Optional[np.dtype[Any]]:
    """Return the dtype of a torch tensor, or None."""
    if not type(value).__module__.startswith("torch") or not hasattr(value, "__dlpack__"):
        return None
    found = _TENSORS.get(value.dtype)
    if found is None:
        found = _TENSORS[value.dtype] = dtype_of(str(value.dtype).rpartition(".")[2])
    return found


def allocate(
    like: Any, shape: tuple[int, ...], dtype: np.dtype[Any], executor: Executor, arrays: Sequence[Any] = ()
) -> Any:
    """Return a new array of the kind of one that there is: a Buffer, a tensor, an array of CuPy's or numpy's.

    Args:
        like: The one that there is.
        shape: Its shape.
        dtype: Its dtype.
        executor: Where a Buffer is made.
        arrays: What it is made of element by element: it is in the order of those of numpy's that have its shape, if
            that is one, without gaps. Others don't matter.
    """
    if type(like) is np.ndarray and executor.host_visible:
        flags = like.flags
        if like.size and not (like.shape == shape and (flags.c_contiguous or (len(shape) < 3 and not flags.forc))):
            whole = [array for array in arrays if type(array) is np.ndarray and array.shape == shape]
            steps = {tuple([stride / array.itemsize for stride in array.strides]) for array in whole}
            if len(steps) == 1 and np.empty_like(whole[0]).strides == whole[0].strides:
                return np.empty_like(whole[0], dtype)
        return np.empty(shape, dtype)
    if isinstance(like, Buffer):
        if 0 in shape:
            with executor.allocate(1, dtype, zero=False) as one:  # a device may not see numpy's memory
                return one.view(shape)
        return executor.allocate(shape, dtype, zero=False)
    if _foreign.is_tensor(like):
        torch: Any = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=like.device)
    if _foreign.is_cupy(like):
        return _foreign.empty_cupy(like, shape, dtype)
    if not executor.host_visible:
        return allocate(executor.allocate(1, dtype, zero=False), shape, dtype, executor)
    return np.empty(shape, dtype)


hooks["default_executor"] = default_executor
