"""What makes an element of each of a row's by numbers of the row: softmax and norms, one launch each way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import torch
from torch import Tensor

from hologram import ops
from hologram_torch._executors import executor_for
from hologram_torch._operands import opmath, sum_to
from hologram_torch._operation import Operation, pullback
from hologram_torch._reductions import MEAN, contiguous, converted, reduced_shape, sum_over
from hologram_torch._table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LAYER_NORM", "LOG_SOFTMAX", "RMS_NORM", "SOFTMAX"]


def _lined(x: Tensor) -> Tensor:
    """Return a tensor as one with a dimension."""
    return x if x.ndim else x.reshape(1)


class _Softmax(Operation):
    """A softmax along one dimension, counted from 0."""

    def __init__(self, name: str, gradient: Operation) -> None:
        super().__init__(name, "(Tensor input, int dim) -> Tensor", "wide")
        self.gradient = gradient

    def fake(self, x: Tensor, dim: int) -> Tensor:
        return x.new_empty(x.shape)

    def forward(self, x: Tensor, dim: int) -> Tensor:
        made = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if x.numel():
            getattr(ops, self.name)(executor_for(x.device), _lined(x), _lined(made), axis=dim)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        ctx.dim = arguments[1]
        ctx.save_for_backward(result)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        return self.gradient(gradients[0], ctx.saved_tensors[0], ctx.dim), None


class _SoftmaxGradient(Operation):
    """The gradient by a softmax's input, of that by its result y."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "(Tensor gradient, Tensor result, int dim) -> Tensor")

    def fake(self, g: Tensor, y: Tensor, dim: int) -> Tensor:
        return y.new_empty(y.shape)

    def forward(self, g: Tensor, y: Tensor, dim: int) -> Tensor:
        made = torch.empty(y.shape, dtype=y.dtype, device=y.device)
        if y.numel():
            executor = executor_for(y.device)
            getattr(ops, self.name)(executor, _lined(contiguous(g)), _lined(y), _lined(made), axis=dim)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        g, y, ctx.dim = arguments
        ctx.save_for_backward(g, y)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        g, y = ctx.saved_tensors
        over, dtype, mul = [ctx.dim] if y.ndim else [], y.dtype, OPERATIONS["mul"]
        h, g, y = (converted(t, opmath(dtype)) for t in (gradients[0], g, y))
        if self.name == "softmax_gradient":  # (g − Σ g y) y
            inner = OPERATIONS["sub"](g, sum_over(mul(g, y), over, True))
            by_g = SOFTMAX.gradient(h, y, ctx.dim)
            by_y = OPERATIONS["sub"](mul(h, inner), mul(g, sum_over(mul(h, y), over, True)))
        else:  # g − e^y Σ g
            power = OPERATIONS["exp"](y)
            weighted = mul(h, power)
            by_g = OPERATIONS["sub"](h, sum_over(weighted, over, True))
            by_y = OPERATIONS["neg"](mul(weighted, sum_over(g, over, True)))
        return converted(by_g, dtype), converted(by_y, dtype), None


def _ranked(parameter: Optional[Tensor], like: Tensor, otherwise: float) -> Union[Tensor, float]:
    """Return what broadcasts to a tensor with all its dimensions, of which the library has a row's last."""
    if parameter is None:
        return otherwise
    missing = like.ndim - parameter.ndim
    return parameter.view((1,) * missing + parameter.shape) if missing else parameter


class _Norm(Operation):
    """A norm over dimensions, counted from 0 and sorted, and the numbers of rows that it leaves.

    Weight and bias have the input's dtype, and broadcast to it.
    """

    def __init__(self, name: str, numbers: int, affine: Sequence[str], composed: Callable[..., Tensor]) -> None:
        self.numbers = numbers
        tensors = ["Tensor input", *(f"Tensor? {what}" for what in affine)]
        results = ", ".join(["Tensor"] * (1 + numbers))
        super().__init__(name, f"({', '.join(tensors)}, int[] dim, float eps) -> ({results})")
        self.gradient = _NormGradient(f"{name}_gradient", numbers, composed)

    def fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, dim = arguments[0], arguments[-2]
        shape, dtype = reduced_shape(x, dim, True), opmath(x.dtype)
        return (torch.empty_like(x), *(x.new_empty(shape, dtype=dtype) for _ in range(self.numbers)))

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, weight, *bias, dim, eps = arguments
        made, *numbers = results = self.fake(*arguments)
        if x.numel() or any(number.numel() for number in numbers):
            given = [_ranked(weight, x, 1.0), *(_ranked(b, x, -0.0) for b in bias)]
            executor = executor_for(x.device)
            getattr(ops, self.name)(executor, x, *given, *numbers, made, eps, axis=tuple(dim))
        return results

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        x, weight, *bias, ctx.dim, ctx.eps = arguments
        ctx.bias = None if not bias or bias[0] is None else bias[0].shape
        ctx.save_for_backward(x, weight, *result[1:])
        ctx.mark_non_differentiable(*result[1:])
        ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (x, weight, *numbers), g = ctx.saved_tensors, gradients[0]
        by_x, by_weight, by_bias = None, None, []
        together = None
        if g is not None and all(ctx.needs_input_grad[:2]):
            together = GRADIENTS if _by_columns(x, weight, ctx) else BY_ROWS if _by_rows(x, weight, ctx) else None
        if together is not None:
            by_x, *both = together(g, x, weight, *numbers, ctx.dim, ctx.eps)
            asked = (True, ctx.bias is not None and ctx.needs_input_grad[2])
            return (by_x, *(converted(t, x.dtype) if a else None for t, a in zip(both, asked)), None, None)
        if g is not None and (ctx.needs_input_grad[0] or ctx.needs_input_grad[1]):
            by_x, product = self.gradient(g, x, weight, *numbers, ctx.dim, ctx.eps)
            if weight is not None and ctx.needs_input_grad[1]:
                by_weight = converted(sum_to(product, weight.shape), weight.dtype)
        if self.numbers == 2:
            needed = g is not None and ctx.bias is not None and ctx.needs_input_grad[2]
            by_bias = [sum_to(g, ctx.bias) if needed else None]
        return (by_x, by_weight, *by_bias, None, None)


def _by_columns(x: Tensor, weight: Optional[Tensor], ctx: Any) -> bool:
    """Whether the gradients by weight and bias are sums of columns that a device finds in one pass over both arrays."""
    if weight is None or ctx.bias not in (None, weight.shape) or len(ctx.needs_input_grad) != 5:
        return False
    rows = x.numel() // max(weight.numel(), 1)
    if not x.is_contiguous() or not weight.is_contiguous() or rows <= 32:
        return False
    if weight.numel() < 8 if x.is_cpu else rows > 1 << 16:
        return False
    lead = x.ndim - weight.ndim
    return list(ctx.dim) == list(range(lead, x.ndim)) and weight.shape == x.shape[lead:]


def _by_rows(x: Tensor, weight: Optional[Tensor], ctx: Any) -> bool:
    """Whether weight and bias have a number for each row, as in batch norms: the gradients by them are all it takes."""
    if weight is None or ctx.bias not in (None, weight.shape) or len(ctx.needs_input_grad) != 5 or not x.numel():
        return False
    return list(weight.shape) == [1 if i in ctx.dim else n for i, n in enumerate(x.shape)]


class _NormGradient(Operation):
    """The gradient by a norm's input, and the products whose sums are that by its weight.

    The numbers of rows are taken to be those of the input, of which its gradient knows.
    """

    def __init__(self, name: str, numbers: int, composed: Callable[..., Tensor]) -> None:
        self.composed = composed
        of_rows = ", ".join(f"Tensor {what}" for what in (("mean", "variance") if numbers == 2 else ("squares",)))
        tensors = f"Tensor gradient, Tensor input, Tensor? weight, {of_rows}"
        super().__init__(name, f"({tensors}, int[] dim, float eps) -> (Tensor, Tensor)")

    def fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        x = arguments[1]
        return torch.empty_like(x), torch.empty_like(x, dtype=opmath(x.dtype))

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        g, x, weight, *numbers, dim, eps = arguments
        made, product = results = self.fake(*arguments)
        if x.numel():
            g = contiguous(g) if x.is_contiguous() else g
            given = _ranked(weight, x, 1.0)
            executor = executor_for(x.device)
            getattr(ops, self.name)(executor, g, x, given, *numbers, product, made, eps, axis=tuple(dim))
        return results

    def others(self, g: Tensor, product: Tensor, weight: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the results but the first, where gradients of them are asked for."""
        return (product,)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        g, x, weight, *_, ctx.dim, ctx.eps = arguments
        ctx.save_for_backward(g, x, weight)
        ctx.set_materialize_grads(False)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        numbers = len(ctx.needs_input_grad) - 5
        of = [t for t in ctx.saved_tensors if t is not None]
        dtype, wide = of[1].dtype, opmath(of[1].dtype)

        def composed(*taken: Tensor) -> list[Tensor]:
            g, x, *weight = (t.to(wide) for t in taken)

            def scaled(x: Tensor) -> list[Tensor]:
                unit = self.composed(x, ctx.dim, ctx.eps)
                return [OPERATIONS["mul"](unit, weight[0]) if weight else unit]

            (by_x,) = pullback(scaled, [x], [g])
            assert by_x is not None
            product = OPERATIONS["mul"](g, self.composed(x, ctx.dim, ctx.eps))
            return [by_x, *self.others(g, product, weight)]

        found = pullback(composed, of, [None if h is None else h.to(wide) for h in gradients])
        by_weight = found[2] if len(of) == 3 else None
        return (*(None if t is None else t.to(dtype) for t in (*found[:2], by_weight)), *[None] * (numbers + 2))


class _LayerNormGradients(_NormGradient):
    """The gradients by a layer norm's input, weight and bias, over the last dimensions, which weight and bias have.

    Those by weight and bias are left in the type that they are added up in.
    """

    def __init__(self, name: str) -> None:
        self.composed = _centred
        tensors = "Tensor gradient, Tensor input, Tensor weight, Tensor mean, Tensor variance"
        schema = f"({tensors}, int[] dim, float eps) -> (Tensor, Tensor, Tensor)"
        Operation.__init__(self, name, schema)

    def others(self, g: Tensor, product: Tensor, weight: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return sum_to(product, weight[0].shape), sum_to(g, weight[0].shape)

    def fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        x, weight = arguments[1:3]
        wide = opmath(x.dtype)
        return torch.empty_like(x), *(weight.new_empty(weight.shape, dtype=wide) for _ in range(2))

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        g, x, weight, mean, variance, dim, eps = arguments
        made, *both = results = self.fake(*arguments)
        g, executor, n = contiguous(g), executor_for(x.device), weight.numel()
        given = (g, x, _ranked(weight, x, 1.0), mean, variance)
        ops.layer_norm_input_gradient(executor, *given, made, eps, axis=tuple(dim))
        scale = OPERATIONS["inverse_deviation"](variance, eps)
        columns = (g.reshape(-1, n).t(), x.reshape(-1, n).t(), mean.reshape(-1), scale.reshape(-1))
        ops.layer_norm_parameter_gradients(executor, *columns, *(t.view(-1) for t in both), axis=1)
        return results


class _BatchNormGradients(_LayerNormGradients):
    """The same where weight and bias have a number for each row.

    The sums over a row that the gradient by the input takes are then those of weight and bias: with s = 1/√(var + eps),
    p = Σ g (x − mean) s and q = Σ g it is (g − q/n − (x − mean) s p/n) · weight · s.
    """

    def forward(self, *arguments: Any) -> tuple[Tensor, ...]:
        g, x, weight, mean, variance, dim, eps = arguments
        _, *both = self.fake(*arguments)
        if x.is_contiguous():
            g = contiguous(g)
        elif g.stride() != x.stride():  # the result is laid out as g is, and the gradient as x is
            g = torch.empty_like(x, dtype=g.dtype).copy_(g)
        scale = OPERATIONS["inverse_deviation"](variance, eps)
        rows = [n for i, n in enumerate(x.shape) if i not in dim]
        of_rows = [t.view(rows) for t in both]
        ops.layer_norm_parameter_gradients(executor_for(x.device), g, x, mean, scale, *of_rows, axis=tuple(dim))
        count = float(x.numel() // weight.numel())
        made = OPERATIONS["batch_norm_slope"](g, x, mean, scale, weight, *both, count)
        return converted(made, x.dtype), *both


def _centred(x: Tensor, dim: Sequence[int], eps: float) -> Tensor:
    middle = MEAN(x, dim, True)
    spread = MEAN(OPERATIONS["mse"](x, middle), dim, True)
    found: Tensor = OPERATIONS["normalized"](x, middle, spread, eps)
    return found


def _scaled(x: Tensor, dim: Sequence[int], eps: float) -> Tensor:
    found: Tensor = OPERATIONS["rms_normalized"](x, MEAN(OPERATIONS["square"](x), dim, True), eps)
    return found


SOFTMAX = _Softmax("softmax", _SoftmaxGradient("softmax_gradient"))
LOG_SOFTMAX = _Softmax("log_softmax", _SoftmaxGradient("log_softmax_gradient"))
GRADIENTS = _LayerNormGradients("layer_norm_gradients")
BY_ROWS = _BatchNormGradients("batch_norm_gradients")
LAYER_NORM = _Norm("layer_norm", 2, ("weight", "bias"), _centred)
RMS_NORM = _Norm("rms_norm", 1, ("weight",), _scaled)
