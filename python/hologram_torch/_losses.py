"""Losses, made of other functions; see functional."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor

from hologram import Executor
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch import _reductions
from hologram_torch._calls import called, caller_level, executor_form, here
from hologram_torch._executors import using
from hologram_torch._functions import add, amax, amin, div, floating, mul, neg, sum, where, wide
from hologram_torch._fused import Fused
from hologram_torch._nll import CROSS_ENTROPY, NLL
from hologram_torch._operands import spreads
from hologram_torch._operation import PLAIN, Operation, is_dynamo_compiling, unusual
from hologram_torch._rows import LOG_SOFTMAX
from hologram_torch._table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence


def _loss_input(x: Tensor) -> Tensor:
    """Return x as losses take it: autocast computes them in f32."""
    return wide(x) if torch.is_autocast_enabled(x.device.type) else x


def _reduced(what: str, loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    over = list(range(loss.ndim))
    found: Tensor = (_reductions.MEAN if reduction == "mean" else _reductions.SUM)(loss, over, False)
    return found


def _check_reduction(what: str, reduction: str, *others: str) -> None:
    if reduction not in ("none", "mean", "sum", *others):
        raise InvalidArgumentError(f"{what}: {reduction} is not a valid value for reduction")


def _same_size(what: str, input: Tensor, target: Tensor) -> None:
    if input.shape != target.shape:
        raise InvalidArgumentError(
            f"{what}: target has the shape {tuple(target.shape)}, and input {tuple(input.shape)}; expected one shape"
        )


def _pointwise(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor],
    what: str,
    row: str,
    numbers: Sequence[float],
    reduction: str,
) -> Tensor:
    _check_reduction(what, reduction)
    loss = called(row, (input, target), numbers)
    if weight is not None:
        if weight.shape != input.shape:
            raise InvalidArgumentError(
                f"{what}: weight has the shape {tuple(weight.shape)}; expected the input's, {tuple(input.shape)}"
            )
        loss = mul(loss, weight)
        if reduction == "mean" and row != "huber":
            return div(sum(loss), sum(weight))
    return _reduced(what, loss, reduction)


_POINTWISE = Fused("loss", _pointwise, 3)


def _pointwise_loss(
    what: str, row: str, input: Tensor, target: Tensor, numbers: Sequence[float], reduction: str, weight: Any = None
) -> Tensor:
    try:
        differ = input.shape != target.shape
    except AttributeError:  # what is no tensor is refused below
        differ = False
    if differ and not is_dynamo_compiling() and isinstance(input, Tensor) and isinstance(target, Tensor):
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=caller_level(),
        )
    if differ and isinstance(input, Tensor) and isinstance(target, Tensor) and input.dtype != target.dtype:
        # torch broadcasts them first, so that a tensor without dimensions counts like the other in promotion.
        if not input.ndim:
            input = input.expand(target.shape)
        elif not target.ndim:
            target = target.expand(input.shape)
    return _POINTWISE((input, target, weight), (what, row, numbers, reduction))


def _mse_form(ex: Executor, input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    here("mse_loss", ex, input, target, names=("input", "target"))
    _same_size("mse_loss", input, target)
    with using(ex):
        return _pointwise_loss("mse_loss", "mse", input, target, (), reduction)


@executor_form(_mse_form)
def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    """Return (input − target)²: its mean, its sum, or with "none" each."""
    return _pointwise_loss("mse_loss", "mse", input, target, (), reduction, weight)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    """Return |input − target|: its mean, its sum, or with "none" each."""
    return _pointwise_loss("l1_loss", "l1", input, target, (), reduction, weight)


def huber_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", delta: float = 1.0, weight: Optional[Tensor] = None
) -> Tensor:
    """Return z²/2 where z = |input − target| ≤ delta, else delta (z − delta/2).

    Weighted, the mean is that of the products, as torch's; mse_loss and l1_loss divide by the sum of the weights.
    """
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    return _pointwise_loss("huber_loss", "huber", input, target, (float(delta),), reduction, weight)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return z²/(2 beta) where z = |input − target| < beta, else z − beta/2."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return _pointwise_loss("smooth_l1_loss", "smooth_l1", input, target, (float(beta),), reduction)


def _weighted(loss: Tensor, weight: Optional[Tensor], input: Tensor, target: Tensor) -> Tensor:
    return loss if weight is None else _narrowed(mul(loss, weight), input, target)


def _narrowed(loss: Tensor, input: Tensor, target: Tensor) -> Tensor:
    """Return a weighted loss in the dtype that it has without the weight."""
    dtype = torch.promote_types(input.dtype, target.dtype)
    if torch.is_autocast_enabled(loss.device.type):
        dtype = torch.promote_types(dtype, torch.float32)
    return loss if dtype == loss.dtype or not dtype.is_floating_point else loss.to(dtype)


def _check_weight(what: str, name: str, weight: Optional[Tensor], input: Tensor) -> None:
    """Refuse a weight that does not broadcast to the input, or makes it larger."""
    if weight is not None and not spreads(weight.shape, input.shape):
        raise RuntimeError(
            f"{what}: {name} has the shape {tuple(weight.shape)}; expected one that broadcasts to the input's, "
            f"{tuple(input.shape)}"
        )


def _bce(input: Tensor, target: Tensor, weight: Optional[Tensor], reduction: str) -> Tensor:
    _same_size("binary_cross_entropy", input, target)
    _check_weight("binary_cross_entropy", "weight", weight, input)
    _check_reduction("binary_cross_entropy", reduction)
    loss = called("bce", (_loss_input(input), target))
    loss = _weighted(loss, weight, input, target)
    return _reduced("binary_cross_entropy", loss, reduction)


_BCE = Fused("binary_cross_entropy", _bce, 3)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None, *, reduction: str = "mean"
) -> Tensor:
    """Return −(t log x + (1 − t) log(1 − x)), where logarithms are at least −100.

    Raises:
        ValueError: input and target have different shapes.
        RuntimeError: An input is not in 0 … 1 (looked at on the CPU alone).
    """
    loss = _BCE((input, target, weight), (reduction,))
    if is_dynamo_compiling() or type(input) not in PLAIN or not input.is_cpu or unusual() or not input.numel():
        return loss
    with torch.no_grad():
        # What is not in 0 … 1 has no logarithms: without NaN in the result there was none.
        number = loss.item() if not loss.ndim else math.nan
        if number != number and not (float(amin(input)) >= 0 and float(amax(input)) <= 1):
            raise RuntimeError("all elements of input should be between 0 and 1")
    return loss


def _bce_logits(
    input: Tensor, target: Tensor, weight: Optional[Tensor], pos_weight: Optional[Tensor], reduction: str
) -> Tensor:
    if input.shape != target.shape:
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    _check_weight("binary_cross_entropy_with_logits", "weight", weight, input)
    _check_weight("binary_cross_entropy_with_logits", "pos_weight", pos_weight, input)
    _check_reduction("binary_cross_entropy_with_logits", reduction)
    if pos_weight is None:
        loss = called("bce_logits_alone", (input, target))
    else:
        loss = _narrowed(called("bce_logits", (input, target, pos_weight)), input, target)
    loss = _weighted(loss, weight, input, target)
    return _reduced("binary_cross_entropy_with_logits", loss, reduction)


_BCE_LOGITS = Fused("binary_cross_entropy_with_logits", _bce_logits, 4)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    reduction: str = "mean",
    pos_weight: Optional[Tensor] = None,
) -> Tensor:
    """Return the binary cross entropy of sigmoid(input); pos_weight is that of positive targets."""
    return _BCE_LOGITS((input, target, weight, pos_weight), (reduction,))


def _kl_div(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    _check_reduction("kl_div", reduction, "batchmean")
    loss = called("kl_div_log" if log_target else "kl_div", (input, target))
    if reduction == "batchmean":
        total = _reduced("kl_div", loss, "sum")
        return OPERATIONS["quotient"](total, input.shape[0]) if input.ndim else total
    return _reduced("kl_div", loss, reduction)


_KL_DIV = Fused("kl_div", _kl_div, 2)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return t (log t − input), input in logarithms; with log_target t is one too. "batchmean" divides by the batch."""
    return _KL_DIV((input, target), (reduction, bool(log_target)))


def _nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor], ignored: int, reduction: str) -> Tensor:
    return _classified("nll_loss", _loss_input(input), target, weight, ignored, reduction)


_NLL_LOSS = Fused("nll_loss", _nll_loss, 3)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Return −input[target] for classes in dimension 1 (0 of one without a batch), weighted.

    "mean" divides by the sum of the weights; targets that are ignore_index count for nothing.

    Raises:
        IndexError: A target is no class (looked at on the CPU alone; elsewhere it counts for nothing).
    """
    return _NLL_LOSS((input, target, weight), (ignore_index, reduction))


class _Smoothed(Operation):
    """(1 − smoothing) x + smoothing · the mean of x along a dimension; its gradient is the same of the gradient."""

    def fake(self, *arguments: Any) -> Tensor:
        return torch.empty_like(arguments[0])

    def forward(self, *arguments: Any) -> Tensor:
        x, dim, smoothing = arguments
        total = _reductions.SUM(x, [dim], True)
        found: Tensor = OPERATIONS["moved"](x, total, smoothing, 1 / max(x.shape[dim], 1))
        return found

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        _, ctx.dim, ctx.smoothing = arguments

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        return self(gradients[0], ctx.dim, ctx.smoothing), None, None


_SMOOTHED = _Smoothed("smoothed", "(Tensor input, int dim, float smoothing) -> Tensor")


def _cross_entropy(
    input: Tensor, target: Tensor, weight: Optional[Tensor], ignored: int, reduction: str, smoothing: float
) -> Tensor:
    if not 0 <= smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")
    _check_reduction("cross_entropy", reduction)
    x = floating("cross_entropy", _loss_input(input))
    at, classes = _classes("cross_entropy", input, weight)
    if target.shape == input.shape and target.dtype.is_floating_point:
        if ignored >= 0:  # as torch, which can't tell its default from none
            raise RuntimeError(
                f"cross_entropy: ignore_index is {ignored}, and the target has probabilities; it is of classes"
            )
        logs = LOG_SOFTMAX(x, at)
        if smoothing:
            target = add(OPERATIONS["scaled"](target, 1 - smoothing), smoothing / max(classes, 1))
        if weight is not None:
            logs = mul(logs, _channels(weight, logs, at))
        loss = neg(sum(mul(logs, target), at))
        if reduction != "mean":
            return _reduced("cross_entropy", loss, reduction)
        return OPERATIONS["quotient"](sum(loss), input.numel() // classes if classes else 0)
    return _classified("cross_entropy", x, target, weight, ignored, reduction, smoothing)


_CROSS_ENTROPY = Fused("cross_entropy", _cross_entropy, 3)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy of softmax(input), classes in dimension 1; targets are classes or probabilities.

    With classes the gradient is made of input, which must not be changed in place before, rather than of a softmax
    that is kept: that takes half the memory, and less time.
    """
    return _CROSS_ENTROPY((input, target, weight), (ignore_index, reduction, label_smoothing))


def _classes(what: str, input: Tensor, weight: Optional[Tensor]) -> tuple[int, int]:
    """Return the dimension of classes and their number, and refuse a weight that has not one for each."""
    if not input.ndim:
        raise ValueError(f"{what}: input has no dimensions; expected at least 1")
    at = 1 if input.ndim > 1 else 0
    classes = input.shape[at]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(f"{what}: weight has the shape {tuple(weight.shape)}; expected ({classes},), one a class")
    return at, classes


def _channels(weight: Tensor, like: Tensor, at: int) -> Tensor:
    return weight.reshape([-1 if i == at else 1 for i in range(like.ndim)])


def _classified(
    what: str,
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor],
    ignored: int,
    reduction: str,
    smoothing: Optional[float] = None,
) -> Tensor:
    """Return the loss of classes; input has their logarithms, or scores if there is a smoothing."""
    _check_reduction(what, reduction)
    floating(what, input)
    at, classes = _classes(what, input, weight)
    wanted = [n for i, n in enumerate(input.shape) if i != at]
    if input.ndim == 1 and tuple(target.shape) == (1,):
        target = target.reshape(())
    shares = "" if smoothing is None else f", or probabilities of the input's shape, {tuple(input.shape)}"
    if list(target.shape) != wanted:
        raise InvalidArgumentError(
            f"{what}: target has the shape {tuple(target.shape)}; expected {tuple(wanted)}, of classes{shares}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise DTypeError(f"{what}: target has dtype {target.dtype}; expected torch.int64 or torch.uint8{shares}")
    target = target.to(torch.int64)
    if weight is not None and weight.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(f"{what}: weight requires grad, and there is no gradient by it; give weight.detach()")
    weight = None if weight is None else weight.to(input.dtype)
    form = ("none", "mean", "sum").index(reduction)
    if smoothing == 0:
        return CROSS_ENTROPY(input, target, weight, form, ignored)[0]
    logs = input if smoothing is None else LOG_SOFTMAX(input, at)
    if smoothing and weight is None and classes:
        # Of each class its own logarithm and the mean of all, of which a pass picks one.
        logs = _SMOOTHED(logs, at, smoothing)
        smoothing = 0.0
    loss, divisor = NLL(logs, target, weight, form, ignored)
    if not smoothing:
        return loss
    # The mean over all classes, as if each were the target.
    scaled = logs if weight is None else mul(logs, _channels(weight, logs, at))
    spread = where(target != ignored, neg(sum(scaled, at)), 0.0)  # also where scores are not finite
    if reduction != "none":
        spread = _reduced(what, spread, "sum")
        if reduction == "mean":
            spread = div(spread, divisor).to(logs.dtype)
    share = smoothing / classes if classes else math.inf  # torch's 0 · ∞
    return add(OPERATIONS["scaled"](loss, 1 - smoothing), OPERATIONS["scaled"](spread, share))
