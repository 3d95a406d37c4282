"""Clipping of gradients by their norm: a recorded call for each large gradient and one for all small ones."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Callable, Optional, Union

import torch
from torch import Tensor

from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch import functional as F
from hologram_torch._fused import Fused
from hologram_torch._operands import opmath
from hologram_torch._operation import is_dynamo_compiling, unusual
from hologram_torch._reductions import AMAX, AMIN, SUM, to
from hologram_torch._table import OPERATIONS
from hologram_torch._update import Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SMALL", "clip_grad_norm_"]

SMALL = 1 << 16
"""Neighbours among the gradients of a dtype and device are one, up to so many elements together: what each adds to the
norm takes longer to begin than to compute, and a copy of them stays in a processor's cache."""


@torch.no_grad()
def clip_grad_norm_(
    parameters: Union[Tensor, Iterable[Tensor]],
    max_norm: float,
    norm_type: Union[float, str] = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Optional[bool] = None,
) -> Tensor:
    """Scale the gradients in place so that their norm, all of them taken as one vector, is at most max_norm.

    Args:
        parameters: The parameters whose gradients are meant; those without are left out.
        max_norm: The largest norm.
        norm_type: 2 for the Euclidean norm, inf for the largest absolute value, -inf for the smallest, p for
            (Σ|g|^p)^(1/p), and 0 for the number of gradients that are not 0 everywhere; "inf" is taken too.
        error_if_nonfinite: Whether a norm that is infinite or NaN is refused.
        foreach: Taken and ignored, since torch's has it: gradients are always taken together.

    Returns:
        The norm before, as torch.nn.utils.clip_grad_norm_ does.

    Raises:
        RuntimeError: The norm is not finite, and error_if_nonfinite is given.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    dtypes, device = {g.dtype for g in grads}, grads[0].device
    dtype, alone = functools.reduce(torch.promote_types, dtypes), _on_one(grads)
    norm_type = float(norm_type)  # torch takes "inf"
    like = alone and len(dtypes) == 1
    parts = _PART.each(grads if norm_type == 0 else _together(grads, like), (norm_type,))
    if len(dtypes) > 1 or not alone:
        parts = [part.to(device, opmath(dtype)) for part in parts]
    together = torch.stack(parts)
    if math.isinf(norm_type):
        norm = (F.amax if norm_type > 0 else F.amin)(together)
    elif norm_type == 0:
        norm = torch.count_nonzero(together).to(dtype)
    elif norm_type == 2:
        norm = F.sqrt(F.sum(together))
    else:
        norm = F.pow(F.sum(together), 1.0 / norm_type)
    norm = norm.to(dtype)
    if error_if_nonfinite and not bool(torch.isfinite(norm)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    factor = F.clamp(F.div(float(max_norm), F.add(norm, 1e-6)), max=1.0)
    if not like or not _scale(list(itertools.chain.from_iterable(zip(grads, itertools.repeat(factor), grads)))):
        _scale_each(grads, [factor] * len(grads) if alone else [factor.to(g.device) for g in grads])
    return norm


def _on_one(grads: list[Tensor]) -> bool:
    """Whether gradients are on one device."""
    if len({g.get_device() for g in grads}) > 1:
        return False
    return grads[0].is_cuda or all([g.device == grads[0].device for g in grads])  # others have no numbers


def _together(grads: list[Tensor], like: bool) -> list[Tensor]:
    """Return gradients with those that are small one behind the other, as far as SMALL goes.

    Args:
        grads: The gradients.
        like: Whether they are of one dtype and device.
    """
    groups: list[list[Tensor]] = []
    kind, room = None, 0
    for g, n in zip(grads, [g.numel() for g in grads]):
        own = None if like else (g.dtype, g.device)
        dense = g.layout is torch.strided
        if not groups or n > room or kind != own or not dense:
            groups.append([])
            kind, room = own, SMALL if dense else -1  # which nothing joins
        groups[-1].append(g)
        room -= n
    return [group[0] if len(group) == 1 else _flattened(group) for group in groups]


def _part_of_norm(g: Tensor, norm_type: float) -> Tensor:
    """Return what a gradient adds to the norm of all, before its root, in the dtype that it is computed in."""
    if norm_type == 0:
        return torch.count_nonzero(g).to(opmath(g.dtype))
    g, dims = to(g, opmath(g.dtype)), list(range(g.ndim))
    if norm_type == 2:
        return SUM(OPERATIONS["square"](g), dims, False)
    g = OPERATIONS["abs"](g)
    if math.isinf(norm_type):
        return (AMAX if norm_type > 0 else AMIN)(g, dims, False)
    return SUM(F.pow(g, norm_type), dims, False)


_flattened: Callable[[list[Tensor]], Tensor] = torch._C._nn.flatten_dense_tensors
_PART = Fused("clip_grad_norm_", _part_of_norm, 1)
_SCALED = Update("clip_grad_norm_", lambda g, factor: g * factor, 2, alone=(1,))


def _scale(arrays: Sequence[Tensor]) -> bool:
    """Multiply gradients in place by a number each, as one piece of work: of each it, the number and again it.

    Returns:
        False, with nothing changed, of some that are not written element by element in their own memory, and where
        torch redirects functions.
    """
    if is_dynamo_compiling() or unusual():
        return False
    try:
        ready = _SCALED.ready(tuple(arrays), 3, 0)
    except (DTypeError, InvalidArgumentError):
        return False
    _SCALED(ready, [])
    return True


def _scale_each(grads: list[Tensor], factors: list[Tensor]) -> None:
    """Multiply gradients in place by a number each, as mul does."""
    pairs = list(zip(grads, factors))
    # What has no dimensions is multiplied in the wider of the two's dtypes.
    if _scale([t for g, by in pairs if g.ndim or g.dtype == by.dtype for t in (g, by, g)]):
        pairs = [(g, by) for g, by in pairs if not g.ndim and g.dtype != by.dtype]
    for g, by in pairs:
        F.mul(g, by, out=g)
