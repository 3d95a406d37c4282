"""Arithmetic, activations, reductions and tables; see functional."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Union

import numpy as np
import torch
from torch import Tensor

from hologram import Executor
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch import _reductions, _rows
from hologram_torch._calls import (
    Number,
    binary_form,
    called,
    caller_level,
    check_written,
    dtype_beside,
    executor_form,
    here,
    in_place,
    number,
    quick,
    real,
    tensors,
    unary_form,
    unexpected,
    within,
)
from hologram_torch._executors import using
from hologram_torch._fused import Fused
from hologram_torch._operands import broadcast
from hologram_torch._operation import is_dynamo_compiling, is_grad_enabled, widened
from hologram_torch._reductions import dimension, dimensions, index
from hologram_torch._table import CLOSED, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_Function = Callable[..., Any]
_Dim = Union[int, "Sequence[int]", None]

# ---- arithmetic


def _arithmetic(name: str) -> _Function:
    def full(
        input: Union[Tensor, Number], other: Union[Tensor, Number], *, alpha: Number = 1, out: Optional[Tensor] = None
    ) -> Tensor:
        alpha = number(f"{name}: alpha", alpha)
        if alpha != 1 or isinstance(alpha, float):
            x, y = tensors(name, input, other)
            dtype = OPERATIONS[name].function.results([x, y])[1][0]
            if dtype.is_floating_point:
                if x.shape != y.shape:
                    broadcast(name, (x, y))  # or be refused by that name
                return called("add_scaled", (x, y), (real(-alpha if name == "sub" else alpha),), out)
            if isinstance(alpha, float):
                raise RuntimeError(f"{name}: alpha is {alpha}; beside integers it must not be a floating-point number")
            if dtype == torch.bool:
                alpha = bool(alpha)  # as torch has numbers beside bools
            else:
                most = torch.iinfo(dtype).max
                least = torch.iinfo(dtype).min or -most  # torch takes these of unsigned integers, and has them wrap
                if name == "sub":  # whose alpha torch gives to add, negative
                    least, most = -most, -least
                if not least <= alpha <= most:
                    raise RuntimeError(f"{name}: alpha is {alpha}; beside {dtype} expected {least} to {most}")
            # The product is of the result's dtype: bools times a number are int64.
            return called(name, (x, mul(y.to(dtype), alpha)), out=out)
        return called(name, (input, other), out=out)

    sign = {"add": "+", "sub": "−"}[name]
    full.__name__ = full.__qualname__ = name
    full.__doc__ = f"""Return input {sign} alpha · other, broadcast and promoted.

    ``{name}(executor, input1, input2, out=None)`` runs on an executor.

    Raises:
        RuntimeError: alpha is a float, and the result has integers or bools, or it is larger than these are.
        TypeError: A number is numpy's, and int64 has it not{"" if name == "add" else ", or a tensor has bools"}.
    """
    return quick(name, executor_form(binary_form(name))(full))


add = _arithmetic("add")
sub = _arithmetic("sub")


@partial(quick, "mul")
@executor_form(binary_form("mul"))
def mul(input: Union[Tensor, Number], other: Union[Tensor, Number], *, out: Optional[Tensor] = None) -> Tensor:
    """Return input · other, broadcast and promoted.

    ``mul(executor, input1, input2, out=None)`` runs on an executor.
    """
    return called("mul", (input, other), out=out)


def div(
    input: Union[Tensor, Number],
    other: Union[Tensor, Number],
    *,
    rounding_mode: Optional[str] = None,
    out: Optional[Tensor] = None,
) -> Tensor:
    """Return input / other, broadcast; of integers in torch's default dtype. No other rounding mode is there."""
    if rounding_mode is not None:
        raise NotImplementedError(f"div: rounding_mode is {rounding_mode!r}; only None is there")
    # Beside integers a number is not one of them: their quotients are floats.
    given = [number(f"div: {name}", value) for name, value in (("input", input), ("other", other))]
    return called("div", [real(value) if isinstance(value, (int, torch.SymInt)) else value for value in given], out=out)


def pow(input: Union[Tensor, Number], exponent: Union[Tensor, Number], *, out: Optional[Tensor] = None) -> Tensor:
    """Return input to the power of exponent, broadcast and promoted.

    Powers of integers wrap. A tensor's negative exponents give 1 over the power, cut to an integer: 0 but of 1 and −1.

    Raises:
        TypeError: Both are bools, and exponent is a tensor.
        RuntimeError: input has integers, and exponent is a negative number, or one that they have not.
    """
    exponent = number("pow: exponent", exponent)
    if isinstance(exponent, int) and isinstance(input, Tensor) and not input.dtype.is_floating_point:
        (input,) = tensors("pow", input)
        dtype = dtype_beside(exponent, input.dtype)
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if dtype == torch.bool:
            return called("maximum", (input, not exponent), out=out)
        if exponent > torch.iinfo(dtype).max:
            raise RuntimeError(f"pow: exponent is {exponent}; {dtype} has at most {torch.iinfo(dtype).max}")
        if exponent == 2:
            return called("square", (input,), out=out)
    elif isinstance(exponent, (int, float)) and isinstance(input, Tensor) and input.dtype.is_floating_point:
        input = widened(input)  # which autocast does not for all of these
        known = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
        if known is not None:
            return called(known, (input,), out=out)
        if exponent == 3:
            return mul(mul(input, input), input, out=out)
    return called("pow", (input, exponent), out=out)


def where(condition: Tensor, input: Union[Tensor, Number], other: Union[Tensor, Number]) -> Tensor:
    """Return input where the condition holds, else other, broadcast and promoted.

    Raises:
        TypeError: The condition is no tensor of bools.
    """
    if not isinstance(condition, Tensor) or condition.dtype != torch.bool:
        raise DTypeError(
            f"where: condition is {getattr(condition, 'dtype', type(condition))}; expected a tensor of bools"
        )
    if isinstance(input, Tensor) and isinstance(other, Tensor):
        x, y = input, other
    elif isinstance(input, Tensor) or isinstance(other, Tensor):
        x, y = tensors("where", input, other, before=1)
    else:
        dtype = torch.bool
        values = [number(f"where: {name}", value) for name, value in (("input", input), ("other", other))]
        for value in values:
            dtype = dtype_beside(value, dtype)
        x, y = (torch.full((), value, dtype=dtype, device=condition.device) for value in values)
    return called("where", (condition, x, y))


def clamp(
    input: Tensor,
    min: Union[Tensor, Number, None] = None,
    max: Union[Tensor, Number, None] = None,
    *,
    out: Optional[Tensor] = None,
    **others: NoReturn,
) -> Tensor:
    """Return the nearest to input from min to max, broadcast; NaN stays.

    Where input is at a bound its gradient follows the torch that is installed: in 2.11 it is the result's, in 2.15
    0, or a share of it if the bound is a tensor.

    Raises:
        ValueError: Neither is given, or input's dtype has nothing from min or to max.
    """
    if others:
        unexpected("clamp", others, "min", "max", "out")
    if min is None and max is None:
        raise InvalidArgumentError("clamp: At least one of 'min' or 'max' must not be None")
    min, max = within(input, "min", min), within(input, "max", max)
    tensor = isinstance(min, Tensor) or isinstance(max, Tensor)
    if not tensor and not isinstance(input, Tensor):
        tensors("clamp", input)
    if max is None:
        return called("maximum" if tensor and not CLOSED else "clamp_min", (input, min), out=out)
    if min is None:
        return called("minimum" if tensor and not CLOSED else "clamp_max", (input, max), out=out)
    return called("clamp" if tensor else "clamp_numbers", (input, min, max), out=out)


def _plain(name: str, doc: str, inputs: int = 1) -> _Function:
    """Make a function that is an operation of the table and no more."""
    if inputs == 2:

        def binary(input: Tensor, other: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
            return called(name, (input, other), out=out)

        function: _Function = binary
    else:

        def unary(input: Tensor, *, out: Optional[Tensor] = None) -> Tensor:
            return called(name, (input,), out=out)

        function = unary
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return quick(name, function)


maximum = _plain("maximum", "Return the larger of input and other, NaN if either is; broadcast and promoted.", 2)
minimum = _plain("minimum", "Return the smaller of input and other, NaN if either is; broadcast and promoted.", 2)
neg = _plain("neg", "Return −input.")
abs = _plain("abs", "Return |input|.")
exp = _plain("exp", "Return e to the power of input.")
exp2 = _plain("exp2", "Return 2 to the power of input.")
expm1 = _plain("expm1", "Return e to the power of input, less 1.")
log = _plain("log", "Return the natural logarithm.")
log2 = _plain("log2", "Return the logarithm to base 2.")
log10 = _plain("log10", "Return the logarithm to base 10.")
log1p = _plain("log1p", "Return the natural logarithm of 1 + input.")
sqrt = _plain("sqrt", "Return the square root.")
rsqrt = _plain("rsqrt", "Return 1 / √input.")
sin = _plain("sin", "Return the sine.")
cos = _plain("cos", "Return the cosine.")
tan = _plain("tan", "Return the tangent.")
erf = _plain("erf", "Return the error function.")
reciprocal = _plain("reciprocal", "Return 1 / input.")
square = _plain("square", "Return input².")

# ---- activations

sigmoid = quick("sigmoid", executor_form(unary_form("sigmoid"))(_plain("sigmoid", "Return 1 / (1 + e^−input).")))
tanh = quick("tanh", executor_form(unary_form("tanh"))(_plain("tanh", "Return the hyperbolic tangent.")))


def _activated(name: str, input: Tensor, inplace: bool, numbers: Sequence[float] = ()) -> Tensor:
    if not isinstance(input, Tensor):
        tensors(name, input)
    if inplace:
        return in_place(name, input, [real(n) for n in numbers])
    return called(name, (input,), [real(n) for n in numbers])


def _relu_form(ex: Executor, input: Tensor, inplace: bool = False) -> Tensor:
    here("relu", ex, input)
    with using(ex):
        return _activated("relu", input, inplace)


@partial(quick, "relu")
@executor_form(_relu_form)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(input, 0), in input itself if inplace."""
    return _activated("relu", input, inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return input where it is positive, else negative_slope · input."""
    return _activated("leaky_relu", input, inplace, (negative_slope,))


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return input where it is positive, else alpha · (e^input − 1)."""
    return _activated("elu", input, inplace, (alpha,))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return scale · elu(input, alpha), with the constants of Klambauer et al., Self-Normalizing Neural Networks."""
    return _activated("selu", input, inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return input · sigmoid(input)."""
    return _activated("silu", input, inplace)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + e^(beta·input)) / beta; input itself where beta·input > threshold."""
    return called("softplus", (input,), (real(beta), real(threshold)))


def logsigmoid(input: Tensor) -> Tensor:
    """Return log(sigmoid(input))."""
    return called("logsigmoid", (input,))


@executor_form(unary_form("gelu", "gelu_tanh"))
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return input · Φ(input), Φ the normal distribution: by erf, or with approximate="tanh" by tanh.

    With an executor it is the latter.
    """
    if not isinstance(input, Tensor):
        tensors("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
    return called("gelu" if approximate == "none" else "gelu_tanh", (input,))


ACTIVATIONS: dict[str, _Function] = {
    "relu": relu,
    "gelu": gelu,
    "silu": silu,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "leaky_relu": leaky_relu,
}


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return input / (1 − p) with probability 1 − p and 0 otherwise, each element by itself; input if not training.

    torch's generator of the tensor's device gives a seed, and seed and an element's place decide: the same seed drops
    the same on every backend.

    Raises:
        ValueError: p is not in 0 … 1.
    """
    if not isinstance(input, Tensor):
        tensors("dropout", input)
    if not 0 <= p <= 1:
        raise InvalidArgumentError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if inplace:
        check_written("dropout", input)
    seed = torch.randint(-(1 << 63), (1 << 63) - 1, (), dtype=torch.int64, device=input.device)
    source = input.clone() if inplace and torch.is_grad_enabled() and input.requires_grad else input
    found: Tensor = OPERATIONS["dropout"](source, seed, float(p), 1 / (1 - p) if p < 1 else 0.0)
    return input.copy_(found) if inplace else found


# ---- reductions


def _converted(x: Tensor, dtype: Optional[torch.dtype]) -> Tensor:
    return x if dtype is None or x.dtype == dtype else x.to(dtype)


class _Reduced:
    """A function of a tensor, dim, keepdim and dtype, of which calls that autograd does not record are repeated in C.

    The gradient of most is a view of that by the result, which is no work to be repeated.
    """

    def __init__(self, function: Callable[[Tensor, _Dim, bool, Optional[torch.dtype]], Tensor]) -> None:
        self.function = function
        self.fused = Fused(function.__name__.strip("_"), function, 1)

    def __call__(self, input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype] = None) -> Tensor:
        if is_dynamo_compiling() or (is_grad_enabled() and getattr(input, "requires_grad", False)):
            return self.function(input, dim, keepdim, dtype)
        if not isinstance(keepdim, bool):  # what equals True would find its form
            return self.function(input, dim, keepdim, dtype)
        over: _Dim = dim  # for which the same form is found as for what equals it, so True has to be refused
        if dim is not None:
            name = self.fused.name
            over = index(name, dim) if isinstance(dim, (int, np.generic)) else tuple([index(name, d) for d in dim])
        return self.fused((input,), (over, keepdim, dtype))


@_Reduced
def _sum(input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype]) -> Tensor:
    (input,) = tensors("sum", input)
    if dtype is None and not input.dtype.is_floating_point:
        dtype = torch.int64
    found: Tensor = _reductions.SUM(_converted(input, dtype), dimensions("sum", input, dim), keepdim)
    return _converted(found, dtype)  # which autocast leaves to who names it


def sum(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Optional[torch.dtype] = None, **others: NoReturn
) -> Tensor:
    """Return the sum over some dimensions, or all; integers in int64. The order is that of docs/REDUCTIONS.md."""
    if others:
        unexpected("sum", others, "dim", "keepdim", "dtype")
    return _sum(input, dim, keepdim, dtype)


@_Reduced
def _mean(input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype]) -> Tensor:
    (input,) = tensors("mean", input)
    x = _converted(input, dtype)
    if not x.dtype.is_floating_point:
        raise DTypeError(f"mean(): input dtype must be a floating point dtype. Got: {x.dtype}")
    found: Tensor = _reductions.MEAN(x, dimensions("mean", x, dim), keepdim)
    return found


def mean(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Optional[torch.dtype] = None, **others: NoReturn
) -> Tensor:
    """Return the mean over some dimensions, or all.

    Raises:
        TypeError: input has integers, and no dtype says what to compute in.
    """
    if others:
        unexpected("mean", others, "dim", "keepdim", "dtype")
    return _mean(input, dim, keepdim, dtype)


@_Reduced
def _prod(input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype]) -> Tensor:
    (input,) = tensors("prod", input)
    if dtype is None and not input.dtype.is_floating_point:
        dtype = torch.int64
    if dtype == torch.bool:  # whether there is no 0
        return _prod.function(input.to(torch.bool), dim, keepdim, torch.int64).to(torch.bool)
    found: Tensor = _reductions.PROD(_converted(input, dtype), dimensions("prod", input, dim), keepdim)
    return _converted(found, dtype)


def prod(
    input: Tensor, dim: _Dim = None, keepdim: bool = False, *, dtype: Optional[torch.dtype] = None, **others: NoReturn
) -> Tensor:
    """Return the product over some dimensions, or all; integers in int64. The order is that of sums."""
    if others:
        unexpected("prod", others, "dim", "keepdim", "dtype")
    return _prod(input, dim, keepdim, dtype)


def cumsum(input: Tensor, dim: int, *, dtype: Optional[torch.dtype] = None, **others: NoReturn) -> Tensor:
    """Return the sums up to each element along a dimension; integers in int64. f32 is added in f64 and rounded once."""
    if others:
        unexpected("cumsum", others, "dim", "dtype")
    (input,) = tensors("cumsum", input)
    if dtype is None and not input.dtype.is_floating_point:
        dtype = torch.int64
    found: Tensor = _reductions.CUMSUM(_converted(input, dtype), dimension("cumsum", input, dim))
    return _converted(found, dtype)


@_Reduced
def _amax(input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype]) -> Tensor:
    (input,) = tensors("amax", input)
    found: Tensor = _reductions.AMAX(input, dimensions("amax", input, dim), keepdim)
    return found


def amax(input: Tensor, dim: _Dim = (), keepdim: bool = False, **others: NoReturn) -> Tensor:
    """Return the largest over some dimensions, or all; NaN if one is NaN. Ties share the gradient."""
    if others:
        unexpected("amax", others, "dim", "keepdim")
    return _amax(input, dim, keepdim)


@_Reduced
def _amin(input: Tensor, dim: _Dim, keepdim: bool, dtype: Optional[torch.dtype]) -> Tensor:
    (input,) = tensors("amin", input)
    found: Tensor = _reductions.AMIN(input, dimensions("amin", input, dim), keepdim)
    return found


def amin(input: Tensor, dim: _Dim = (), keepdim: bool = False, **others: NoReturn) -> Tensor:
    """Return the smallest over some dimensions, or all; NaN if one is NaN. Ties share the gradient."""
    if others:
        unexpected("amin", others, "dim", "keepdim")
    return _amin(input, dim, keepdim)


def _var(
    what: str, input: Tensor, dim: _Dim, unbiased: Optional[bool], keepdim: bool, correction: Optional[float]
) -> Tensor:
    """Return the variance in f64."""
    (input,) = tensors(what, input)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    over = dimensions(what, input, dim)
    x = floating(what, input).to(torch.float64)
    total = _reductions.SUM(OPERATIONS["mse"](x, _reductions.MEAN(x, over, True)), over, keepdim)
    count = math.prod([input.shape[i] for i in over]) - correction
    found: Tensor = OPERATIONS["quotient"](total, max(count, 0))
    return found


def var(
    input: Tensor,
    dim: _Dim = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[float] = None,
    **others: NoReturn,
) -> Tensor:
    """Return the variance over some dimensions, or all: Σ (x − mean)² / (n − correction), in two passes in f64."""
    if others:
        unexpected("var", others, "dim", "keepdim", "unbiased", "correction")
    return _var("var", input, dim, unbiased, keepdim, correction).to(input.dtype)


def std(
    input: Tensor,
    dim: _Dim = None,
    unbiased: Optional[bool] = None,
    keepdim: bool = False,
    *,
    correction: Optional[float] = None,
    **others: NoReturn,
) -> Tensor:
    """Return the standard deviation over some dimensions, or all: the root of ``var``."""
    if others:
        unexpected("std", others, "dim", "keepdim", "unbiased", "correction")
    found: Tensor = OPERATIONS["root"](_var("std", input, dim, unbiased, keepdim, correction))
    return found.to(input.dtype)


def wide(x: Tensor) -> Tensor:
    return x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _softmax_form(ex: Executor, input: Tensor, dim: Optional[int] = None) -> Tensor:
    here("softmax", ex, input, names=("input",))
    with using(ex):
        if dim is None:  # of all elements, as hologram.ops.softmax
            flat: Tensor = _rows.SOFTMAX(input.reshape(-1), 0)
            return flat.reshape(input.shape)
        found: Tensor = _rows.SOFTMAX(input, dimension("softmax", input, dim))
        return found


def _implicit(what: str, x: Tensor, dim: Optional[int]) -> int:
    if dim is None:  # what torch.nn.functional takes, with its warning
        level = 4 if is_dynamo_compiling() else caller_level() + 1
        dim = torch.nn.functional._get_softmax_dim(  # type: ignore[attr-defined]
            "softmax", x.ndim, level
        )
    return dimension(what, x, dim)


def _softmaxed(input: Tensor, dim: Optional[int], dtype: Optional[torch.dtype], name: str) -> Tensor:
    (input,) = tensors(name, input)
    operation = _rows.SOFTMAX if name == "softmax" else _rows.LOG_SOFTMAX
    found: Tensor = operation(floating(name, _converted(input, dtype)), _implicit(name, input, dim))
    return _converted(found, dtype)


_SOFTMAX = Fused("softmax", _softmaxed, 1)
_LOG_SOFTMAX = Fused("log_softmax", _softmaxed, 1)


@executor_form(_softmax_form)
def softmax(input: Tensor, dim: Optional[int] = None, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Return e^(x − max) / Σ e^(x − max) along a dimension.

    ``softmax(executor, input, dim=None)`` runs on an executor, and without dim over all elements.
    """
    return _SOFTMAX((input,), (dim if dim is None else index("softmax", dim), dtype, "softmax"))


def log_softmax(
    input: Tensor, dim: Optional[int] = None, *, dtype: Optional[torch.dtype] = None, **others: NoReturn
) -> Tensor:
    """Return x − max − log Σ e^(x − max) along a dimension."""
    if others:
        unexpected("log_softmax", others, "dim", "dtype")
    return _LOG_SOFTMAX((input,), (dim if dim is None else index("log_softmax", dim), dtype, "log_softmax"))


def floating(what: str, x: Tensor) -> Tensor:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{what}: input has dtype {x.dtype}; expected a floating-point dtype")
    return x
