"""The tensors and numbers that operations take: their dtypes, shapes and devices, and what these come to together."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Union

import torch
from torch import Tensor

from hologram.errors import InvalidArgumentError
from hologram_torch._operation import is_dynamo_compiling, unusual

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ATLAS", "broadcast", "doubles", "opmath", "placed", "promoted", "spreads", "sum_to"]

ATLAS: dict[torch.dtype, str] = {
    torch.bool: "u8",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    **{
        getattr(torch, f"uint{bits}"): f"u{bits}" for bits in (16, 32, 64) if hasattr(torch, f"uint{bits}")
    },
}  # fmt: skip
"""The types of the ISA, by torch's dtypes."""


def opmath(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype that values of a dtype are computed in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def promoted(tensors: Sequence[Tensor]) -> torch.dtype:
    """Return the dtype that torch promotes tensors to; those of no dimension only count by their category."""
    first = tensors[0].dtype
    if all(t.dtype is first for t in tensors):
        return first
    sized = [t.dtype for t in tensors if t.ndim]
    numbers = [t.dtype for t in tensors if not t.ndim]
    if not sized or not numbers:
        return functools.reduce(torch.promote_types, sized or numbers)
    high, low = functools.reduce(torch.promote_types, sized), functools.reduce(torch.promote_types, numbers)
    if not high.is_floating_point and (high == torch.bool or low.is_floating_point):
        return torch.promote_types(high, low)
    return high


def doubles(what: str, numbers: Sequence[float]) -> list[Union[float, torch.SymFloat]]:
    """Return numbers as operators take them.

    Raises:
        ValueError: A double does not hold one exactly.
    """
    for number in numbers:  # up to 2⁵³ nothing more is asked, which a symbol would have to answer
        if isinstance(number, int) and not -(2**53) <= number <= 2**53:
            odd = abs(number)  # a symbol's float is taken for equal to it, so integers say what is lost
            while 2**53 < odd < 2**64 and odd % 2 == 0:
                odd //= 2
            if odd > 2**53:
                raise InvalidArgumentError(
                    f"{what}: {number} is not a number that a double holds exactly; under torch.compile, modes and "
                    "transforms and with subclasses of tensors numbers are passed as doubles: give a tensor instead"
                )
    return [torch.sym_float(number) for number in numbers]  # a symbol stays one


def broadcast(what: str, tensors: Sequence[Tensor]) -> torch.Size:
    """Return the shape that tensors broadcast to."""
    if is_dynamo_compiling() or unusual():  # sizes may be symbols
        return torch.broadcast_shapes(*[t.shape for t in tensors])
    shape = list(max((t for t in tensors), key=lambda t: t.ndim).shape)
    for t in tensors:
        lead = len(shape) - t.ndim
        for i, n in enumerate(t.shape, lead):
            if n != 1 and shape[i] != n:
                if shape[i] != 1:
                    shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
                    raise RuntimeError(f"{what}: the shapes {shapes} don't broadcast together")
                shape[i] = n
    return torch.Size(shape)


def spreads(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another, without making it larger."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to)))


def placed(what: str, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return tensors on one device: numbers of no dimension on the CPU go where the others are.

    Raises:
        RuntimeError: They are on several.
    """
    if all(t.is_cpu for t in tensors):
        return tensors
    device = next((t.device for t in tensors if t.ndim or not t.is_cpu), tensors[0].device)
    found = [t.to(device) if t.is_cpu and not t.ndim else t for t in tensors]
    for t in found:
        if t.device != device:
            raise RuntimeError(f"{what}: the tensors are on {device} and {t.device}; expected one device")
    return found


def sum_to(value: Tensor, shape: torch.Size) -> Tensor:
    """Return a gradient summed over the dimensions along which its argument was broadcast."""
    if value.shape == shape:
        return value
    from hologram_torch._reductions import sum_over

    lead = value.ndim - len(shape)
    over = [i for i in range(value.ndim) if i < lead or (shape[i - lead] == 1 and value.shape[i] != 1)]
    summed = sum_over(value, over, True) if over else value
    return summed.reshape(shape)
