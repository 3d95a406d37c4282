"""How far results and gradients are from those in float64, beside torch's.

An operation's largest error over its samples, in units in the last place of the result's dtype, may be twice torch's
own plus one. For operations that sum it is the last place of the largest number of a call's results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

import torch
from moving import moved
from torch import Tensor
from torch.utils._pytree import tree_map

from hologram_torch._table import OPERATIONS

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def widened(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype.is_floating_point:
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def computed(function: Callable[..., Any], arguments: Any, keywords: Any, seed: int) -> list[Tensor]:
    """Return a result and the gradients by all arguments that need one."""
    leaves: list[Tensor] = []

    def fresh(value: Any) -> Any:
        if isinstance(value, Tensor):
            value = value.detach().clone(memory_format=torch.preserve_format).requires_grad_(value.requires_grad)
            if value.requires_grad:
                leaves.append(value)
        return value

    arguments, keywords = tree_map(fresh, (arguments, keywords))
    result = function(*arguments, **keywords)
    if not result.requires_grad:
        return [result]
    weights = torch.rand(result.shape, generator=torch.Generator().manual_seed(seed)) + 0.5
    weights = weights.to(torch.bfloat16).to(device=result.device, dtype=result.dtype)
    found = torch.autograd.grad(result, leaves, weights, allow_unused=True)
    return [result.detach(), *(torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves))]


def largest(exact: list[Tensor]) -> float:
    """Return the largest finite number of a call's result and gradients."""
    found = [t.double()[t.isfinite()].abs().max() for t in exact if t.isfinite().any()]
    return float(torch.stack(found).max()) if found else 0.0


def errors(found: Tensor, exact: Tensor, size: Optional[float]) -> float:
    """Return the largest error in units in the last place: of a number of a given size, or of each element."""
    assert found.shape == exact.shape
    if not found.numel():
        return 0.0
    if not found.dtype.is_floating_point:
        assert torch.equal(found, exact.to(found.dtype))
        return 0.0
    info = torch.finfo(found.dtype)
    exact = exact.double()
    sizes = exact.abs() if size is None else torch.full_like(exact, size)
    unit = torch.exp2(torch.floor(torch.log2(torch.clamp(sizes, min=info.tiny)))) * info.eps
    rounded = exact.to(found.dtype).double()
    found = found.double()
    same = (found == rounded) | (found.isnan() & rounded.isnan())
    error = torch.where(same, 0.0, (found - exact).abs() / unit)
    return float(torch.where(error.isnan(), math.inf, error).max())


class Case(NamedTuple):
    """A call, and torch's of the same arguments."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def compared(name: str, cases: Iterable[Case], least: float, device: str) -> tuple[float, float, Any, int]:
    """Return the largest errors on a device, ours and torch's, where ours was, and how many cases there were."""
    ours, theirs, worst, count = 0.0, 0.0, None, 0
    for case in cases:
        given = tree_map(partial(moved, device=device), (case.arguments, case.keywords))
        exact = computed(case.theirs, *tree_map(widened, given), count)
        torchs = computed(case.theirs, *given, count)
        found = computed(case.ours, *given, count)
        # What is summed cancels, and what is left of that has no digits that two orders of summing agree on.
        size = None if name in OPERATIONS else max(largest(exact), least)
        assert [f.dtype for f in found] == [t.dtype for t in torchs]
        for at, (f, t, e) in enumerate(zip(found, torchs, exact)):
            error = errors(f, e, size)
            if error > ours:
                ours, worst = error, (count, at, given, f, e)
            theirs = max(theirs, errors(t, e, size))
        count += 1
    return ours, theirs, worst, count


def check(name: str, cases: Iterable[Case], device: str, least: float = 0.0) -> int:
    """Hold the errors of an operation's cases against torch's on a device, and return how many there were.

    Where all that comes of numbers cancels, least says how large these are.
    """
    ours, theirs, worst, count = compared(name, cases, least, device)
    assert count
    assert ours <= 2 * theirs + 1, worst
    return count
