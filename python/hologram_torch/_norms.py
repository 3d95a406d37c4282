"""Norms; see functional."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional, Union

import torch
from torch import Tensor

from hologram_torch._calls import called, tensors
from hologram_torch._functions import floating, wide
from hologram_torch._fused import Fused
from hologram_torch._operands import ATLAS, opmath
from hologram_torch._operation import PLAIN, is_dynamo_compiling, widened
from hologram_torch._rows import LAYER_NORM, RMS_NORM
from hologram_torch._table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["batch_norm", "layer_norm", "rms_norm"]


_C: Any = torch._C  # whose stubs have not all
_of_one_storage = _C._is_alias_of

_FLOATS = [dtype for dtype in ATLAS if dtype.is_floating_point]


_WIDE = {
    name
    for name in ("layer_norm", "rms_norm", "batch_norm")
    if _C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA")
}
"""The norms whose results autocast leaves in f32 on GPUs, which not all torchs do with the same ones."""


def _norm_input(what: str, x: Tensor, *parameters: Optional[Tensor]) -> tuple[Tensor, torch.dtype]:
    """Return x in the dtype to compute in, and the dtype of the result.

    Raises:
        TypeError: x has no floating-point dtype.
    """
    x = floating(what, x)
    if what in _WIDE:
        x = widened(x)
    return (x if all(t is None or t.dtype == x.dtype for t in parameters) else wide(x)), x.dtype


def _formatted(x: Tensor) -> Tensor:
    """Return a tensor in order, or in that of channels last: norms' results are so."""
    for n, order in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if x.ndim == n and x.is_contiguous(memory_format=order):
            return x
    return x.contiguous()


def _like(x: Tensor, parameter: Optional[Tensor], shape: Optional[Sequence[int]] = None) -> Optional[Tensor]:
    """Return a parameter in the dtype of x, and of a shape that broadcasts to its."""
    if parameter is None:
        return None
    parameter = parameter if parameter.dtype == x.dtype else parameter.to(x.dtype)
    return parameter if shape is None else parameter.reshape(shape)


def _given(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)


def _layer_norm(
    input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], shape: Sequence[int], eps: float
) -> Tensor:
    over = _last("layer_norm", input, shape, weight, bias)
    x, dtype = _norm_input("layer_norm", input.contiguous(), weight, bias)
    return _given(LAYER_NORM(x, _like(x, weight), _like(x, bias), over, eps)[0], dtype)


_LAYER_NORM = Fused("layer_norm", _layer_norm, 3)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return (x − mean) / √(var + eps) · weight + bias over the last dimensions; the variance in two passes."""
    return _LAYER_NORM((input, weight, bias), (_sizes(normalized_shape), float(eps)))


def _rms_norm(input: Tensor, weight: Optional[Tensor], shape: Sequence[int], eps: Optional[float]) -> Tensor:
    over = _last("rms_norm", input, shape, weight)
    x, dtype = _norm_input("rms_norm", _formatted(input), weight)
    if eps is None:
        eps = torch.finfo(opmath(x.dtype)).eps
    return _given(RMS_NORM(x, _like(x, weight), over, float(eps))[0], dtype)


_RMS_NORM = Fused("rms_norm", _rms_norm, 2)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Optional[Tensor] = None, eps: Optional[float] = None
) -> Tensor:
    """Return x / √(mean(x²) + eps) · weight over the last dimensions; eps is the dtype's own without it."""
    return _RMS_NORM((input, weight), (_sizes(normalized_shape), eps))


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _last(what: str, x: Tensor, shape: Sequence[int], *parameters: Optional[Tensor]) -> list[int]:
    given = list(shape)
    if not given or list(x.shape[x.ndim - len(given) :]) != given or len(given) > x.ndim:
        raise RuntimeError(f"{what}: normalized_shape is {given}; the input's shape {tuple(x.shape)} doesn't end so")
    for name, parameter in zip(("weight", "bias"), parameters):
        if parameter is not None and list(parameter.shape) != given:
            raise RuntimeError(f"{what}: {name} has the shape {tuple(parameter.shape)}; expected {tuple(given)}")
    return list(range(x.ndim - len(given), x.ndim))


def batch_norm(
    input: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    training: bool = False,
    momentum: Union[float, Tensor] = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return (x − mean) / √(var + eps) · weight + bias for each channel, dimension 1.

    In training mean and variance are the batch's, and the running ones move by momentum towards them, unless the batch
    has no elements; otherwise they are the running ones. What is another momentum at each step is better a tensor of no
    dimensions: calls are recorded for each number.

    Raises:
        RuntimeError: The running ones require gradients, which are recorded.
    """
    given = input, running_mean, running_var, weight, bias
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if isinstance(running, Tensor) and running.requires_grad and torch.is_grad_enabled():
            why = "it is changed in place" if training else "there is no gradient by it"
            raise RuntimeError(f"batch_norm: {name} requires grad, and {why}; give {name}.detach()")
    if training:
        if torch.is_grad_enabled() and not is_dynamo_compiling():
            given = _kept(*given)
        if isinstance(momentum, Tensor):
            return _BATCH_NORM((*given, momentum), (0.0, float(eps)))
        return _BATCH_NORM((*given, None), (float(momentum), float(eps)))
    if running_mean is None or running_var is None:
        raise ValueError("Expected running_mean and running_var to be defined when training=False")
    return _STANDARDIZED(given, (float(eps),))


def _kept(
    x: Tensor,
    mean: Optional[Tensor],
    variance: Optional[Tensor],
    weight: Optional[Tensor],
    bias: Optional[Tensor],
) -> tuple[Tensor, Optional[Tensor], Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    """Return arguments with copies of those that a gradient reads where they share memory with what moves."""
    for moving in (mean, variance):
        if type(moving) in PLAIN:
            if type(x) in PLAIN and _of_one_storage(moving, x):
                x = x.clone()
            if weight is not None and type(weight) in PLAIN and _of_one_storage(moving, weight):
                weight = weight.clone()
    return x, mean, variance, weight, bias


def _channels(x: Tensor) -> tuple[list[int], list[int]]:
    """Return the dimensions that a channel's elements lie along, and the shape of a number for each channel."""
    if not x.ndim:
        raise ValueError("batch_norm: input has no dimensions; expected at least 1")
    at = 1 if x.ndim > 1 else 0
    return [i for i in range(x.ndim) if i != at], [n if i == at else 1 for i, n in enumerate(x.shape)]


def _batch_norm(
    input: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    weight: Optional[Tensor],
    bias: Optional[Tensor],
    rate: Optional[Tensor],
    momentum: float,
    eps: float,
) -> Tensor:
    over, shape = _channels(input)
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_written(input, running_mean=running_mean, running_var=running_var)
    count = math.prod([input.shape[i] for i in over])
    if input.shape[0] * math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    x, dtype = _norm_input("batch_norm", _formatted(input), weight, bias)
    found, middle, spread = LAYER_NORM(x, _like(x, weight, shape), _like(x, bias, shape), over, eps)
    with torch.no_grad():
        for running, now, factor in ((running_mean, middle, 1.0), (running_var, spread, count / max(count - 1, 1))):
            if running is None or not count:
                continue
            now = now.reshape(running.shape)
            if rate is None:
                called("moved", (running, now), (momentum, factor), running)
            else:
                called("moved_by", (running, now, rate), (factor,), running)
    return _given(found, dtype)


_BATCH_NORM = Fused("batch_norm", _batch_norm, 6, written=(1, 2))


def _check_channels(x: Tensor, **parameters: Optional[Tensor]) -> None:
    """Refuse what has not a number for each channel, and an input of no type of Hologram's.

    Raises:
        TypeError: It is the input.
        RuntimeError: The message names the parameter.
    """
    (x,) = tensors("batch_norm", x)
    channels = x.shape[1 if x.ndim > 1 else 0]
    for name, parameter in parameters.items():
        if parameter is not None and parameter.numel() != channels:
            raise RuntimeError(
                f"batch_norm: {name} has the shape {tuple(parameter.shape)}; expected ({channels},), one a channel of "
                f"an input of shape {tuple(x.shape)}"
            )
        if parameter is not None and name.startswith("running") and parameter.dtype not in _FLOATS:
            raise RuntimeError(f"batch_norm: {name} has dtype {parameter.dtype}; expected a floating-point dtype")


def _check_written(x: Tensor, **statistics: Optional[Tensor]) -> None:
    """Refuse statistics that can't be written, before the first of them has moved.

    Raises:
        RuntimeError: One is not where the input is, a negated view, or elements share memory; the message names it.
    """
    for name, running in statistics.items():
        if running is not None and running.device != x.device:
            raise RuntimeError(f"batch_norm: {name} is on {running.device}, and the input on {x.device}")
        if running is not None and not is_dynamo_compiling() and running.is_neg():
            raise RuntimeError(f"batch_norm: {name} is a negated view, and it is changed in place; clone() it")
        if running is not None and any(n > 1 and step == 0 for n, step in zip(running.shape, running.stride())):
            raise RuntimeError(f"batch_norm: elements of {name} share memory, and it is changed in place; clone() it")


def _standardized(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], eps: float
) -> Tensor:
    _, shape = _channels(input)
    _check_channels(input, running_mean=mean, running_var=variance, weight=weight, bias=bias)
    x, dtype = _norm_input("batch_norm", _formatted(input), weight, bias)
    mean, variance = mean.reshape(shape), variance.reshape(shape)
    if weight is None and bias is None:
        return _given(OPERATIONS["normalized"](x, mean, variance, eps), dtype)
    weight, bias = _like(x, weight, shape), _like(x, bias, shape)
    weight = x.new_ones(()) if weight is None else weight
    bias = x.new_full((), -0.0) if bias is None else bias
    return _given(OPERATIONS["standardized"](x, mean, variance, weight, bias, eps), dtype)


_STANDARDIZED = Fused("batch_norm", _standardized, 5)
