"""Rows of a table by their numbers, and the sums of what came of each: an embedding and its gradient.

The gradient of a row is the sum over all places that asked for it, in their order, in one chain from −0.0: the same
bits however the work is cut, without atomics on floats. The 16-bit floats are added in f32 and rounded once.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from hologram import ops
from hologram.errors import DTypeError, InvalidArgumentError, ProgramFault
from hologram_torch._calls import tensors
from hologram_torch._executors import executor_for
from hologram_torch._operands import ATLAS
from hologram_torch._operation import Operation

__all__ = ["embedding"]


def place(wrong: Tensor) -> tuple[int, ...]:
    """Return where the first element is that is true; one is."""
    return tuple(int(i) for i in wrong.nonzero()[0])


def _check(index: Tensor, weight: Tensor) -> None:
    if index.dtype not in (torch.int32, torch.int64):
        raise DTypeError(f"embedding: input has dtype {index.dtype}; expected int32 or int64")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, but it has the shape {tuple(weight.shape)}")
    if not weight.dtype.is_floating_point or weight.dtype not in ATLAS:
        raise DTypeError(f"embedding: weight has dtype {weight.dtype}; expected f16, bf16, f32 or f64")
    if index.device != weight.device:
        raise RuntimeError(f"embedding: the tensors are on {index.device} and {weight.device}; expected one device")


def _grouped(index: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Return the places in the order of the rows that they name, and where each row's begin, without a look at them."""
    named, order = torch.sort(index.reshape(-1).to(torch.int64), stable=True)
    return order, torch.searchsorted(named, torch.arange(rows + 1, device=index.device))


class _Embedding(Operation):
    """The rows of weight that index names.

    Gradients are for all rows but number padding; if share they are divided by how often a row was named.
    """

    def fake(self, weight: Tensor, index: Tensor, padding: int, share: bool) -> Tensor:
        _check(index, weight)
        return weight.new_empty((*index.shape, weight.shape[1]))

    def forward(self, weight: Tensor, index: Tensor, padding: int, share: bool) -> Tensor:
        made = self.fake(weight, index, padding, share)
        if made.numel():
            try:
                ops.embedding(executor_for(weight.device), weight, index.to(torch.int64), made)
            except ProgramFault:
                at = place((index < 0) | (index >= len(weight)))
                rows = f"expected 0 to {len(weight) - 1}, the rows of weight" if len(weight) else "weight has no rows"
                raise IndexError(
                    f"embedding: index out of range in self: input{list(at) if at else ''} is {int(index[at])}; {rows}"
                ) from None
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        weight, index, ctx.padding, ctx.share = arguments
        ctx.rows = weight.shape[0]
        ctx.save_for_backward(index)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        return GRADIENT(gradients[0], index, ctx.rows, ctx.padding, ctx.share), None, None, None


class _EmbeddingGradient(Operation):
    """For each of a table's rows the sum of the gradients at the places of index that name it."""

    def fake(self, g: Tensor, index: Tensor, rows: int, padding: int, share: bool) -> Tensor:
        return g.new_empty((rows, g.shape[-1]))

    def forward(self, g: Tensor, index: Tensor, rows: int, padding: int, share: bool) -> Tensor:
        made = self.fake(g, index, rows, padding, share)
        if not made.numel():
            return made
        order, bounds = _grouped(index, rows)
        given = g.reshape(-1, g.shape[-1]).contiguous()
        executor = executor_for(g.device)
        ops.embedding_gradient(executor, given, order, bounds[:-1], bounds[1:], made, padding, int(share))
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        _, index, ctx.rows, ctx.padding, ctx.share = arguments
        ctx.save_for_backward(index)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        found = EMBEDDING(gradients[0], index, -1, False)
        if ctx.share:
            bounds = _grouped(index, ctx.rows)[1]
            counts = bounds[1:] - bounds[:-1]
            found = found / counts[index].to(found.dtype).unsqueeze(-1)
        if ctx.padding >= 0:
            found = found.masked_fill((index == ctx.padding).unsqueeze(-1), 0.0)
        return found, None, None, None, None


EMBEDDING = _Embedding("embedding", "(Tensor weight, Tensor index, int padding, bool share) -> Tensor")
GRADIENT = _EmbeddingGradient(
    "embedding_gradient", "(Tensor gradient, Tensor index, SymInt rows, int padding, bool share) -> Tensor"
)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Optional[int] = None,
    max_norm: Optional[float] = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of weight that input numbers; see torch.nn.functional.embedding.

    A row's gradient is the sum over the places that name it, in their order: the same bits on every run and device.

    Raises:
        IndexError: A number names no row, on the CPU; on a GPU it is the next synchronisation that says so.
        ValueError: sparse is given: gradients are dense.
    """
    for value in (input, weight):
        tensors("embedding", value)
    if sparse:
        raise InvalidArgumentError("embedding: sparse gradients are not there; leave sparse=False")
    padding = -1
    if padding_idx is not None:
        if isinstance(padding_idx, bool) or not isinstance(padding_idx, int):
            raise TypeError(f"embedding: padding_idx is {padding_idx!r}; expected an integer")
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise InvalidArgumentError(f"embedding: padding_idx is {padding_idx}; weight has {rows} rows")
        padding = padding_idx % rows
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    found: Tensor = EMBEDDING(weight, input, padding, scale_grad_by_freq)
    return found
