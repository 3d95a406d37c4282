"""The devices of tests, tensors on another one, and whether results are the same there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import hologram as hg


def devices() -> list[str]:
    """The devices that tests run on: CUDA too where torch and Hologram both have it."""
    return ["cpu", *(["cuda"] if torch.cuda.is_available() and hg.is_cuda_available() else [])]


def moved(value: Any, device: str) -> Any:
    """A tensor on a device, with the strides and the offset that it has; on the one where it is it is itself."""
    if not isinstance(value, Tensor) or value.device.type == torch.device(device).type:
        return value
    there = torch.empty(0, dtype=value.dtype, device=device)
    there.set_(value.detach().untyped_storage().to(device=device), value.storage_offset(), value.shape, value.stride())
    return there.requires_grad_(value.requires_grad)


def products(name: str, dtype: torch.dtype) -> bool:
    """Whether a function or layer multiplies matrices of halves, whose bits a device's matrix units decide."""
    return name in ("addmm", "bmm", "linear", "Linear", "matmul", "mm") and dtype in (torch.float16, torch.bfloat16)


def same(a: list[Tensor], b: list[Tensor], nearly: bool = False) -> bool:
    """Whether the bits are the same; all NaNs are one. If nearly, within some units in the largest's last place."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b):
        y = y.cpu()
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if nearly:
            unit = torch.finfo(x.dtype).eps
            largest = float(x.double().abs().nan_to_num(0, 0).max()) if x.numel() else 0.0
            if not torch.allclose(x.double(), y.double(), rtol=4 * unit, atol=4 * unit * largest, equal_nan=True):
                return False
            continue
        if x.dtype.is_floating_point:
            nan = x.isnan()
            if not torch.equal(nan, y.isnan()) or not torch.equal(torch.signbit(x)[~nan], torch.signbit(y)[~nan]):
                return False
            x, y = x[~nan], y[~nan]
        if not torch.equal(x, y):
            return False
    return True
