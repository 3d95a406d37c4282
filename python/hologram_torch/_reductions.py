"""Sums, means and extrema over dimensions.

The library reduces rows of a matrix; dimensions that are reduced become its columns, by a copy where they don't lie so.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from hologram import ops
from hologram_torch._elementwise import Scalar
from hologram_torch._executors import executor_for
from hologram_torch._operands import opmath
from hologram_torch._operation import Operation, is_dynamo_compiling, is_grad_enabled, unusual
from hologram_torch._table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AMAX",
    "AMIN",
    "CUMSUM",
    "MEAN",
    "PROD",
    "SUM",
    "contiguous",
    "converted",
    "dimensions",
    "quotient",
    "reduced_shape",
    "sum_over",
    "to",
]


class _Converted(Scalar):
    """A function of numbers whose result has a given dtype, or the one that it is computed in."""

    def __init__(self, name: str, function: Any, inputs: int, dtype: Optional[torch.dtype]) -> None:
        super().__init__(name, function, ["number"] * inputs)
        self._dtype = dtype

    def results(self, inputs: Sequence[Tensor]) -> tuple[torch.dtype, tuple[torch.dtype, ...]]:
        compute, _ = super().results(inputs)
        if self._dtype is None:
            return compute, (compute,)
        return (opmath(self._dtype) if not compute.is_floating_point else compute), (self._dtype,)


_CONVERSIONS: dict[torch.dtype, _Converted] = {}
_QUOTIENTS: dict[torch.dtype, _Converted] = {}
_SHARES: dict[torch.dtype, _Converted] = {}


def to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor's elements in another dtype; unrecorded."""
    if x.dtype == dtype:
        return x
    found = _CONVERSIONS.get(dtype)
    if found is None:
        found = _CONVERSIONS[dtype] = _Converted(f"to_{dtype}", lambda x: x + 0 if dtype == torch.bool else x, 1, dtype)
    return found.run([x])[0]


def converted(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor's elements in another dtype; recorded where autograd records."""
    return x.to(dtype) if is_grad_enabled() or is_dynamo_compiling() or unusual() else to(x, dtype)


def quotient(x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x / y, rounded once to a dtype; unrecorded."""
    found = _SHARES.get(dtype)
    if found is None:
        found = _SHARES[dtype] = _Converted(f"share_{dtype}", lambda x, y: x / y, 2, dtype)
    return found.run([x, y])[0]


def contiguous(x: Tensor) -> Tensor:
    """Return a tensor whose elements lie in order: this one, or a copy; unrecorded."""
    if x.is_contiguous():
        return x
    made = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        ops.copy(executor_for(x.device), x, made)
    return made


def index(what: str, dim: Any) -> int:
    """Return a dimension as Python's integer; what names the function in messages.

    Raises:
        TypeError: It is no integer, or a bool.
    """
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool):
        raise TypeError(f"{what}: dim is {dim!r}; expected an integer")
    return operator.index(dim)


def dimensions(what: str, x: Tensor, dim: Union[int, Sequence[int], None]) -> list[int]:
    """Return the dimensions of a function's input that dim names, counted from 0; all without it.

    Raises:
        TypeError: One is no integer.
        IndexError: There is no such dimension.
        RuntimeError: One is named twice.
    """
    alone = isinstance(dim, (int, np.generic))  # numpy's integers are taken as Python's
    if dim is None or (not alone and not len(dim)):  # type: ignore[arg-type]
        return list(range(x.ndim))
    found = []
    for d in [dim] if alone else dim:  # type: ignore[union-attr]
        most = max(x.ndim, 1)
        d = index(what, d)
        if not -most <= d < most:
            raise IndexError(
                f"{what}: dim is {d}, and input has the shape {tuple(x.shape)}; expected {-most} to {most - 1}"
            )
        d %= most
        if d in found:
            raise RuntimeError(f"{what}: dim {d} appears multiple times in the list of dims")
        found.append(d)
    return sorted(found) if x.ndim else []


def dimension(what: str, x: Tensor, dim: int) -> int:
    """Return the one dimension that dim names, as ``dimensions`` does; 0 of a tensor without any."""
    return (dimensions(what, x, [dim]) or [0])[0]


def _rows(x: Tensor, dim: Sequence[int]) -> tuple[Tensor, int, int]:
    """Return a tensor as a matrix whose columns are the elements along some dimensions, and its sizes."""
    kept = [i for i in range(x.ndim) if i not in dim]
    rows, cols = math.prod(x.shape[i] for i in kept), math.prod(x.shape[i] for i in dim)
    return contiguous(x.permute(*kept, *dim) if dim else x), rows, cols


def reduced_shape(x: Tensor, dim: Sequence[int], keepdim: bool) -> list[int]:
    """Return the shape that a reduction over dimensions leaves."""
    return [1 if i in dim else n for i, n in enumerate(x.shape) if keepdim or i not in dim]


def _spread(g: Tensor, shape: Sequence[int], dim: Sequence[int], keepdim: bool) -> Tensor:
    """Return the gradient by a reduction's result as one by each element, a view."""
    if not keepdim:
        for i in dim:
            g = g.unsqueeze(i)
    return g.expand(shape)


class _Reduction(Operation):
    """A reduction over dimensions, which are counted from 0 and sorted."""

    def __init__(self, name: str, autocast: Optional[str] = None) -> None:
        super().__init__(name, "(Tensor input, int[] dim, bool keepdim) -> Tensor", autocast)

    def fake(self, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        return x.new_empty(reduced_shape(x, dim, keepdim))

    def reduced(self, function: Any, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        made = torch.empty(reduced_shape(x, dim, keepdim), dtype=x.dtype, device=x.device)
        if made.numel():
            executor = executor_for(x.device)
            if dim:
                function(executor, x, made, axis=tuple(dim), keepdims=keepdim)
            else:
                matrix, rows, cols = _rows(x, dim)
                function(executor, matrix.view(rows, cols), made.view(rows), axis=1)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        x, ctx.dim, ctx.keepdim = arguments
        ctx.shape = x.shape


class _Sum(_Reduction):
    def forward(self, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        return self.reduced(ops.reduce_sum, x, dim, keepdim)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        return _spread(gradients[0], ctx.shape, ctx.dim, ctx.keepdim), None, None


class _Mean(_Reduction):
    def forward(self, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        # In f32 to the end: a sum of 16-bit numbers may overflow where their mean doesn't.
        total = self.reduced(ops.reduce_sum, to(x, opmath(x.dtype)), dim, keepdim)
        found = _QUOTIENTS.get(x.dtype)
        if found is None:
            found = _QUOTIENTS[x.dtype] = _Converted(f"quotient_{x.dtype}", lambda x, n: x / n, 1, x.dtype)
        return found.run([total], [float(math.prod(x.shape[i] for i in dim))])[0]

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        count = math.prod(ctx.shape[i] for i in ctx.dim)
        share = divided(gradients[0], count)
        return _spread(share, ctx.shape, ctx.dim, ctx.keepdim), None, None


class _Prod(_Reduction):
    def forward(self, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        return self.reduced(ops.reduce_prod, x, dim, keepdim)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        super().save(ctx, arguments, result)
        ctx.save_for_backward(arguments[0])

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        dtype, dim = x.dtype, ctx.dim
        x = x.to(opmath(dtype))
        zero = x.new_zeros(())
        product = PROD(OPERATIONS["nonzero"](x), dim, True)
        count = SUM(OPERATIONS["match"](x.detach(), zero), dim, True)
        slope = OPERATIONS["prod_slope"](x, product, count, SUM(OPERATIONS["zero"](x), dim, True))
        g = _spread(gradients[0].to(x.dtype), ctx.shape, dim, ctx.keepdim)
        return OPERATIONS["mul"](slope, g).to(dtype), None, None


class _Cumsum(Operation):
    """Sums up to each element along a dimension, counted from 0; of f32 in f64, as torch's are."""

    def fake(self, x: Tensor, dim: int) -> Tensor:
        return x.new_empty(x.shape)

    def forward(self, x: Tensor, dim: int) -> Tensor:
        wide = torch.float64 if x.dtype == torch.float32 else x.dtype
        sums = torch.empty(x.shape, dtype=wide, device=x.device)
        if x.numel():
            one = (1,) if not x.ndim else x.shape
            ops.cumsum(executor_for(x.device), x.reshape(one), sums.view(one), axis=dim)
        return to(sums, x.dtype)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        ctx.dim = arguments[1]

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (g,), over = gradients, [ctx.dim]
        return (g if not g.ndim else CUMSUM(g.flip(over), ctx.dim).flip(over)), None


class _Extremum(_Reduction):
    def forward(self, x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
        function = ops.reduce_max if self.name == "amax" else ops.reduce_min
        if x.numel() == 0 and 0 not in reduced_shape(x, dim, keepdim):
            empty = next(i for i in dim if not x.shape[i])
            raise IndexError(
                f"{self.name}(): no elements have no value, and dimension {empty} of {tuple(x.shape)} has none"
            )
        return self.reduced(function, x, dim, keepdim)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        super().save(ctx, arguments, result)
        ctx.save_for_backward(arguments[0], result)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        x, best = ctx.saved_tensors
        match = OPERATIONS["match"](x.detach(), _spread(best.detach(), ctx.shape, ctx.dim, ctx.keepdim))
        share = OPERATIONS["div"](match, SUM(match, ctx.dim, True))
        return OPERATIONS["mul"](_spread(gradients[0], ctx.shape, ctx.dim, ctx.keepdim), share), None, None


def divided(x: Tensor, count: float) -> Tensor:
    """Return a tensor divided by a number, recorded."""
    return OPERATIONS["quotient"](x, count)


def sum_over(x: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """Return the sum over dimensions counted from 0, recorded."""
    return SUM(x, list(dim), keepdim)


SUM = _Sum("sum", "wide")
MEAN = _Mean("mean")
PROD = _Prod("prod", "loss")
CUMSUM = _Cumsum("cumsum", "(Tensor input, int dim) -> Tensor", "wide")
AMAX = _Extremum("amax")
AMIN = _Extremum("amin")
