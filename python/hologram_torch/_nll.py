"""The negative log likelihood of classes, and its gradient: a pass over the targets each, beside the sums of a mean.

With the softmax before it the gradient is one pass over the scores, and another over the targets.
"""

from __future__ import annotations

from typing import Any, Optional, Union

import torch
from torch import Tensor

from hologram import ops
from hologram.errors import ProgramFault
from hologram_torch._elementwise import opmath
from hologram_torch._executors import executor_for
from hologram_torch._gather import place
from hologram_torch._operation import Operation, pullback
from hologram_torch._reductions import quotient, to
from hologram_torch._rows import LOG_SOFTMAX

__all__ = ["CROSS_ENTROPY", "NLL"]


def _rows(x: Tensor) -> Tensor:
    """Return a view whose last dimension has the classes."""
    return x.movedim(1, -1) if x.ndim > 2 else x


def _classes(x: Tensor) -> int:
    """Return the dimension that has the classes."""
    return 1 if x.ndim > 1 else 0


def _weight(weight: Optional[Tensor]) -> Union[Tensor, float]:
    return 1.0 if weight is None else weight


def _refuse(target: Tensor, classes: int, ignored: int) -> None:
    at = place((target != ignored) & ((target < 0) | (target >= classes)))
    raise IndexError(
        f"Target {int(target[at])} is out of bounds: target{list(at) if at else ''}; expected 0 to {classes - 1}, or "
        f"{ignored}, which is ignored"
    ) from None


class _Nll(Operation):
    """−weight[t] · logs[…, t, …] of each target t that is not ignored, and what the result was divided by.

    Reduction is 0 for each, 1 for their mean, 2 for their sum. A mean is divided by the sum of the weights of the
    targets that are not ignored, which has no gradient.
    """

    def fake(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        logs, target, _, reduction, _ = arguments
        return logs.new_empty(() if reduction else target.shape), logs.new_empty((), dtype=opmath(logs.dtype))

    def forward(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        logs, target, weight, reduction, ignored = arguments
        dtype, device = logs.dtype, logs.device
        wide = opmath(dtype)
        executor = executor_for(device)
        # Weights and losses lie one behind the other: one launch adds both up.
        both = torch.empty((2, *target.shape), dtype=wide, device=device)
        rows = both[1] if reduction else torch.empty(target.shape, dtype=dtype, device=device)
        if target.numel():
            try:
                ops.nll(executor, _rows(logs), target, _weight(weight), both[0], rows, ignored)
            except ProgramFault:
                _refuse(target, logs.shape[_classes(logs)], ignored)
        if reduction == 1:
            sums = torch.empty(2, dtype=wide, device=device)
            ops.reduce_sum_rows(executor, both, sums, 2, target.numel())
            return quotient(sums[1], sums[0], dtype), sums[0]
        one = torch.ones((), dtype=wide, device=device)
        if reduction:
            total = torch.empty((), dtype=wide, device=device)
            ops.reduce_sum_rows(executor, rows, total, 1, target.numel())
            rows = to(total, dtype)
        return rows, one

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        logs, target, weight, reduction, ctx.ignored = arguments
        ctx.shape = list(logs.shape)
        ctx.reduction = reduction
        ctx.save_for_backward(target, weight, result[1] if reduction == 1 else None)
        ctx.mark_non_differentiable(result[1])
        ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        target, weight, total = ctx.saved_tensors
        g = gradients[0]
        found = None if g is None else GRADIENT(g, target, weight, total, ctx.ignored, ctx.shape)
        return found, None, None, None, None


class _NllGradient(Operation):
    """The gradient of nll by its logarithms, by a total if there is one."""

    def fake(self, *arguments: Any) -> Tensor:
        found: Tensor = arguments[0].new_empty(arguments[-1])
        return found

    def forward(self, *arguments: Any) -> Tensor:
        g, target, weight, total, ignored, shape = arguments
        made = torch.empty(shape, dtype=g.dtype, device=g.device)
        if made.numel():
            divisor = 1.0 if total is None else total
            ops.nll_gradient(executor_for(g.device), g, target, _weight(weight), divisor, _rows(made), ignored)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        g, target, weight, total, ctx.ignored, _ = arguments
        ctx.summed = not g.ndim and target.ndim
        ctx.save_for_backward(target, weight, total)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        target, weight, total = ctx.saved_tensors
        found = NLL(gradients[0], target, weight, 2 if ctx.summed else 0, ctx.ignored)[0]
        return found if total is None else found / total.to(found.dtype), None, None, None, None, None


class _CrossEntropy(Operation):
    """The nll of a softmax's logarithms, what it was divided by, and these logarithms."""

    def fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        x = arguments[0]
        return (*NLL.fake(*arguments), x.new_empty(x.shape))

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, *rest = arguments
        logs = LOG_SOFTMAX.forward(x, _classes(x))
        return (*NLL.forward(logs, *rest), logs)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        _, target, weight, reduction, ctx.ignored = arguments
        _, total, logs = result
        ctx.save_for_backward(target, weight, total if reduction == 1 else None, logs)
        ctx.mark_non_differentiable(total)
        ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        *of, logs = ctx.saved_tensors
        g, _, by_logs = gradients
        found = None if g is None else SLOPE(g, *of, logs, ctx.ignored)
        if by_logs is not None:  # asked for by the gradient of the gradient
            more = LOG_SOFTMAX.gradient(by_logs, logs, _classes(logs))
            found = more if found is None else found + more
        return found, None, None, None, None


class _CrossEntropyGradient(Operation):
    """The gradient of cross_entropy by its scores, of which logs are the logarithms of softmax."""

    def fake(self, *arguments: Any) -> Tensor:
        logs = arguments[-2]
        return logs.new_empty(logs.shape)

    def forward(self, *arguments: Any) -> Tensor:
        g, target, weight, total, logs, ignored = arguments
        made = torch.empty(logs.shape, dtype=logs.dtype, device=logs.device)
        if made.numel():
            divisor, executor = 1.0 if total is None else total, executor_for(logs.device)
            ops.cross_entropy_gradient(executor, g, target, _weight(weight), divisor, _rows(logs), _rows(made), ignored)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        g, target, weight, total, logs, ctx.ignored = arguments
        ctx.save_for_backward(g, target, weight, total, logs)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        g, target, weight, total, logs = ctx.saved_tensors

        def composed(g: Tensor, logs: Tensor) -> list[Tensor]:
            dense = GRADIENT(g, target, weight, total, ctx.ignored, list(logs.shape))
            return [LOG_SOFTMAX.gradient(dense, logs, _classes(logs))]

        by_g, by_logs = pullback(composed, (g, logs), gradients)
        return by_g, None, None, None, by_logs, None


NLL = _Nll("nll", "(Tensor logs, Tensor target, Tensor? weight, int reduction, int ignored) -> (Tensor, Tensor)")
GRADIENT = _NllGradient(
    "nll_gradient",
    "(Tensor gradient, Tensor target, Tensor? weight, Tensor? total, int ignored, int[] shape) -> Tensor",
)
CROSS_ENTROPY = _CrossEntropy(
    "cross_entropy",
    "(Tensor input, Tensor target, Tensor? weight, int reduction, int ignored) -> (Tensor, Tensor, Tensor)",
)
SLOPE = _CrossEntropyGradient(
    "cross_entropy_gradient",
    "(Tensor gradient, Tensor target, Tensor? weight, Tensor? total, Tensor logs, int ignored) -> Tensor",
)
