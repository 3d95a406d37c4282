"""Where the elements of arrays are in memory, and arrays that only DLPack shows."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

Array = np.ndarray[Any, Any]


class Foreign:
    """An array that only DLPack shows."""

    def __init__(self, array: Array, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.array, self.meanwhile = array, meanwhile

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        self.meanwhile()
        return self.array.__dlpack__()


def elements(data: Array, model: Array) -> list[int]:
    """Where in the memory the elements are."""
    at = [(model.__array_interface__["data"][0] - data.__array_interface__["data"][0]) // data.itemsize]
    for n, s in zip(model.shape, model.strides):
        at = [a + i * s // data.itemsize for a in at for i in range(n)]
    return at


def overlaps(model: Array) -> bool:
    """Whether two elements are one."""
    at = elements(model, model)
    return len(set(at)) < len(at)


def same_place(a: Array, b: Array) -> bool:
    return a.__array_interface__["data"][0] == b.__array_interface__["data"][0] and a.strides == b.strides
