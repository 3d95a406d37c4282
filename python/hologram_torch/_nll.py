"""The negative log likelihood of classes, and its gradient: a pass over the targets each, beside the sums of a mean.

With the softmax before it two numbers of each row are found in one pass over the scores, of which the gradient is
another: logarithms are written nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

import torch
from torch import Tensor

from hologram import ops
from hologram.errors import ProgramFault
from hologram_torch._executors import executor_for
from hologram_torch._gather import place
from hologram_torch._operands import opmath
from hologram_torch._operation import Operation, pullback
from hologram_torch._reductions import quotient, to
from hologram_torch._rows import LOG_SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def _losses(
    op: Any,
    x: Tensor,
    numbers: Sequence[Tensor],
    target: Tensor,
    weight: Optional[Tensor],
    reduction: int,
    ignored: int,
) -> tuple[Tensor, Tensor]:
    """Return the losses of targets that one of the library's operations makes of what has classes, and the divisor."""
    dtype, device = x.dtype, x.device
    wide = opmath(dtype)
    executor = executor_for(device)
    # Weights and losses lie one behind the other: one launch adds both up.
    both = torch.empty((2, *target.shape), dtype=wide, device=device)
    rows = both[1] if reduction else torch.empty(target.shape, dtype=dtype, device=device)
    if target.numel():
        try:
            op(executor, _rows(x), target, _weight(weight), *numbers, both[0], rows, ignored)
        except ProgramFault:
            _refuse(target, x.shape[_classes(x)], ignored)
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


class _Nll(Operation):
    """−weight[t] · logs[…, t, …] of each target t that is not ignored, and what the result was divided by.

    Reduction is 0 for each, 1 for their mean, 2 for their sum. A mean is divided by the sum of the weights of the
    targets that are not ignored, which has no gradient.
    """

    def fake(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        logs, target, _, reduction, _ = arguments
        return logs.new_empty(() if reduction else target.shape), logs.new_empty((), dtype=opmath(logs.dtype))

    def forward(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        return _losses(ops.nll, arguments[0], (), *arguments[1:])

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
    """The nll of a softmax's logarithms, what it was divided by, and the two numbers of each row that make these."""

    def fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, target = arguments[:2]
        numbers = (x.new_empty(target.shape, dtype=opmath(x.dtype)) for _ in range(2))
        return (*NLL.fake(*arguments), *numbers)

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, target, *rest = arguments
        numbers = [torch.empty(target.shape, dtype=opmath(x.dtype), device=x.device) for _ in range(2)]
        if target.numel():
            ops.log_sum_exp(executor_for(x.device), x, *numbers, axis=_classes(x))
        return (*_losses(ops.cross_entropy, x, numbers, target, *rest), *numbers)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        x, target, weight, reduction, ctx.ignored = arguments
        _, total, *numbers = result
        ctx.save_for_backward(target, weight, total if reduction == 1 else None, x, *numbers)
        ctx.mark_non_differentiable(total, *numbers)
        ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        g = gradients[0]
        found = None if g is None else SLOPE(g, *ctx.saved_tensors, ctx.ignored)
        return found, None, None, None, None


class _CrossEntropyGradient(Operation):
    """The gradient of cross_entropy by its scores, of whose rows it is given the numbers; its own knows of these."""

    def fake(self, *arguments: Any) -> Tensor:
        scores = arguments[4]
        return scores.new_empty(scores.shape)

    def forward(self, *arguments: Any) -> Tensor:
        g, target, weight, total, scores, most, log, ignored = arguments
        made = torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
        if made.numel():
            divisor, executor = 1.0 if total is None else total, executor_for(scores.device)
            of = (g, target, _weight(weight), divisor, _rows(scores), most, log)
            ops.cross_entropy_gradient(executor, *of, _rows(made), ignored)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        g, target, weight, total, scores, _, _, ctx.ignored = arguments
        ctx.save_for_backward(g, target, weight, total, scores)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        g, target, weight, total, scores = ctx.saved_tensors

        def composed(g: Tensor, scores: Tensor) -> list[Tensor]:
            dense = GRADIENT(g, target, weight, total, ctx.ignored, list(scores.shape))
            at = _classes(scores)
            return [LOG_SOFTMAX.gradient(dense, LOG_SOFTMAX(scores, at), at)]

        by_g, by_scores = pullback(composed, (g, scores), gradients)
        return by_g, None, None, None, by_scores, None, None, None


NLL = _Nll("nll", "(Tensor logs, Tensor target, Tensor? weight, int reduction, int ignored) -> (Tensor, Tensor)")
GRADIENT = _NllGradient(
    "nll_gradient",
    "(Tensor gradient, Tensor target, Tensor? weight, Tensor? total, int ignored, SymInt[] shape) -> Tensor",
)
CROSS_ENTROPY = _CrossEntropy(
    "cross_entropy",
    "(Tensor input, Tensor target, Tensor? weight, int reduction, int ignored) -> (Tensor, Tensor, Tensor, Tensor)",
)
SLOPE = _CrossEntropyGradient(
    "cross_entropy_gradient",
    "(Tensor gradient, Tensor target, Tensor? weight, Tensor? total, Tensor scores, Tensor most, Tensor log, "
    "int ignored) -> Tensor",
)
