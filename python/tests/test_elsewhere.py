"""What is in a device's memory is not copied silently."""

from __future__ import annotations

import pytest

import hologram as hg
from hologram.errors import BackendError


class OnGpu:
    """An array in a GPU's memory, which says so as torch's tensors do that require grad."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        raise RuntimeError("it requires grad")


class ByInterface:
    """One that has no DLPack."""

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {"shape": (3,), "typestr": "<f4", "data": (1 << 20, False), "version": 3}


@pytest.mark.parametrize("array", [OnGpu(), ByInterface()], ids=["dlpack", "interface"])
def test_from_numpy_refuses_device_memory(array: object) -> None:
    """The refusal says what to do instead."""
    with pytest.raises(BackendError, match=r"from_numpy: .* in a GPU's memory .* copy it to the host"):
        hg.Executor("cpu").from_numpy(array)
