"""The table of element-wise operations.

A row is a scalar function, written once: its program computes the operation, and programs derived from it the
gradients. Registration, functions, documentation and tests go through the table. Rows with ``slopes`` have their
gradient written out, where the derived one would lose digits or differ from torch's at a corner.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

import hologram as h
from hologram_torch import _elementwise
from hologram_torch._elementwise import Scalar
from hologram_torch._executors import here
from hologram_torch._operation import Operation, is_dynamo_compiling, titled

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CLOSED", "ROWS", "Named", "Row"]

_SQRT1_2 = math.sqrt(0.5)
_GELU = math.sqrt(2 / math.pi)


class Row(NamedTuple):
    """An operation.

    Attributes:
        name: Its name, of the operator too.
        function: What it computes of one element of each input, and of its numbers.
        formula: The same for people.
        inputs: The names of its inputs, in torch's words.
        promotion: "same" for torch's promotion, "float" if integers give torch's default dtype, "floating" if they are
            refused, "counting" if bools give int64, "numeric" if these are refused, "difference" if they are beside
            numbers too.
        autocast: What autocast does, see Operation.
        kinds: What the inputs are, where not all are numbers, see Elementwise.
        slopes: The gradient, where the derived one won't do, see Scalar.
        title: What messages call it: the function that it is a part of, where that has another name.
    """

    name: str
    function: Callable[..., Any]
    formula: str
    inputs: tuple[str, ...] = ("input",)
    promotion: str = "same"
    autocast: Optional[str] = None
    kinds: tuple[str, ...] = ()
    slopes: Optional[Callable[..., Any]] = None
    title: str = ""


_TWO = ("input", "other")
_LOSS = ("input", "target")
_CHOOSING = ("maximum", "minimum", "clamp", "clamp_min", "clamp_max", "clamp_numbers")  # see Elementwise.chooses


def _softplus(x: Any) -> Any:
    """log(1 + e^x), without overflow."""
    return h.maximum(x, 0.0) + h.log1p(h.exp(-abs(x)))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + h.tanh(_GELU * (x + 0.044715 * (x * x * x))))


def _softplus_row(x: Any, beta: Any, threshold: Any) -> Any:
    z = x * beta
    large = z > threshold
    # The branch that isn't taken must not be infinite: its slope would be NaN.
    return h.where(large, x, h.log1p(h.exp(h.where(large, 0.0, z))) / beta)


def _root_slopes(g: Any, x: Any) -> Any:
    # Of a deviation, whose square's slope is 0 there, too: 0 · ∞ otherwise.
    zero = x == 0
    return h.where(zero, 0.0, 0.5 * g / h.sqrt(h.where(zero, 1.0, x)))


def _elu(x: Any, alpha: Any) -> Any:
    negative = x < 0  # not 0, whatever alpha is
    return h.where(negative, alpha * h.expm1(h.where(negative, x, 0.0)), x)


def _elu_slopes(g: Any, x: Any, alpha: Any) -> Any:
    return h.where(x <= 0, g * (alpha * h.exp(x)), g)  # of NaN g, as torch has it


_SELU, _SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _bce(x: Any, t: Any) -> Any:
    return (t - 1) * h.maximum(h.log1p(-x), -100.0) - t * h.maximum(h.log(x), -100.0)


def _bce_slopes(g: Any, x: Any, t: Any) -> Any:
    slope = g * (x - t) / h.maximum((1 - x) * x, 1e-12)
    return slope, g * (h.log1p(-x) - h.log(x))  # without bounds, as torch has it


def _bce_logits(x: Any, t: Any, w: Any) -> Any:
    return (1 - t) * x + (1 + (w - 1) * t) * _softplus(-x)


def _bce_logits_slopes(g: Any, x: Any, t: Any, w: Any) -> Any:
    plus = _softplus(-x)
    return g * ((1 - t) - (1 + (w - 1) * t) * h.sigmoid(-x)), g * ((w - 1) * plus - x), g * t * plus


def _kl_div(x: Any, t: Any) -> Any:
    some = t > 0
    # xlogy(t, t) - t·x; NaN where t is negative or NaN
    return h.where(some, t * h.log(h.where(some, t, 1.0)), h.where(t == 0, 0.0, math.nan)) - t * x


def _kl_div_slopes(g: Any, x: Any, t: Any) -> Any:
    return -(g * t), h.where(t > 0, (g * h.log(h.where(t > 0, t, 1.0)) - g * x) + g * t / t, math.nan)


@h.kernel
def _whole_power(x: Any, y: Any) -> Any:
    """Return integers multiplied by themselves, which wrap; to a negative power 1 over that, cut to an integer."""
    found, base, left = h.cast(1, x.dtype), x, y
    while left > 0:  # of a negative one there is no round
        found = h.where(left & 1 != 0, found * base, found)
        base, left = base * base, left >> 1
    # 1 over 1 and −1 are integers; over 0, torch has 0. Of unsigned integers no power is negative.
    inverse = h.where(x == 1, found, h.where(x == -1, h.where(y & 1 != 0, x, found), found - found))
    return h.where(y < 0, inverse, found)


def _power(x: Any, y: Any) -> Any:
    return h.pow(x, y) if np.issubdtype(x.dtype, np.floating) else _whole_power(x, y)


def _dropout(x: Any, seed: Any, lane: Any, p: Any, scale: Any) -> Any:
    """Keep x with probability 1 − p, by 24 bits of SplitMix64 of seed and lane (Steele, Lea, Flood 2014)."""
    z = h.cast(seed, "u64") + (lane + 1) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    return x * h.where(h.cast(z >> 40, "f32") >= h.cast(p, "f32") * 16777216.0, h.cast(scale, x.dtype), 0.0)


def _prod_slope(x: Any, product: Any, count: Any, zeros: Any) -> Any:
    """The product of a row's other elements, by that of those that are not 0, how many are, and the sum of these.

    The sum is 0; it is there for the gradient of this gradient, in which a single 0 among the others counts.
    """
    zero = x == 0
    one, two = h.where(zero, 1.0, zeros), h.where(zero, zeros - x, 0.0)
    others = h.where(count == 0, 1.0, h.where(count == 1, one, h.where(count == 2, two, 0.0)))
    return others * (product / h.where(zero, 1.0, x))


def _huber(x: Any, t: Any, delta: Any) -> Any:
    z = abs(x - t)
    return h.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))


def _smooth_l1(x: Any, t: Any, beta: Any) -> Any:
    z = abs(x - t)
    return h.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)


def _huber_slopes(g: Any, x: Any, t: Any, delta: Any) -> Any:
    slope = g * h.minimum(h.maximum(x - t, -delta), delta)
    return slope, -slope


def _smooth_l1_slopes(g: Any, x: Any, t: Any, beta: Any) -> Any:
    slope = g * h.minimum(h.maximum((x - t) / beta, -1.0), 1.0)
    return slope, -slope


def _closed() -> bool:
    """Whether the torch that is installed passes clamp's gradient on at its bounds: 2.11 does, 2.15 doesn't."""
    with torch.inference_mode(False), torch.enable_grad():
        clamped: Any = torch.clamp(torch.zeros((), device="cpu", requires_grad=True), min=0)
        return bool(clamped.grad_fn(torch.ones((), device="cpu")))  # autograd's engine would start its threads


CLOSED = _closed()


def _at_least(x: Any, low: Any) -> Any:
    return h.where(x < low, low, h.where(low != low, low, x))


def _at_most(x: Any, high: Any) -> Any:
    return h.where(x > high, high, h.where(high != high, high, x))


def _clamp(x: Any, low: Any, high: Any) -> Any:
    return _at_most(_at_least(x, low), high)


def _clamp_slopes(g: Any, x: Any, low: Any, high: Any) -> Any:
    """Whose bounds are tensors: where two of the three are equal they share the gradient, unless torch is older."""
    below, above = h.where(x < low, g, 0.0), h.where(x > high, g, 0.0)
    if CLOSED:
        by_x = h.where(x >= low, h.where(x <= high, g, 0.0), 0.0)
        return by_x, h.where(low < high, below, 0.0), h.where(high < low, g, above)
    by_x = h.where(x == low, 0.5 * g, h.where(x == high, 0.5 * g, g))
    by_x = h.where(x < low, 0.0, h.where(x > high, 0.0, h.where(low < high, by_x, g)))
    by_low = h.where(low < high, h.where(x == low, 0.5 * g, below), h.where(low == high, below, 0.0))
    by_high = h.where(low < high, h.where(x == high, 0.5 * g, above), h.where(low == high, above, 0.0))
    return by_x, by_low, h.where(low > high, g, by_high)


def _clamp_numbers_slopes(g: Any, x: Any, low: Any, high: Any) -> Any:
    by_x, by_low, by_high = _clamp_slopes(g, x, low, high)
    return by_x if CLOSED else h.where(x > low, h.where(x < high, g, 0.0), 0.0), by_low, by_high


def _of_floats(*names: str, autocast: Sequence[str] = ()) -> list[Row]:
    return [
        Row(name, getattr(h, name), f"{name}(x)", promotion="float", autocast="wide" if name in autocast else None)
        for name in names
    ]


_WIDE = ("exp", "expm1", "log", "log2", "log10", "log1p", "rsqrt", "tan")  # what torch's autocast computes in f32

ROWS: list[Row] = [
    Row("add", lambda x, y: x + y, "x + y", _TWO),
    Row("sub", lambda x, y: x - y, "x − y", _TWO, "difference"),
    Row("mul", lambda x, y: x * y, "x · y", _TWO),
    Row(
        "add_scaled", lambda x, y, alpha: h.fma(y, alpha, x), "x + alpha · y, rounded once", _TWO, "floating",
        title="add",
    ),
    Row("div", lambda x, y: x / y, "x / y", _TWO, "float"),
    Row("maximum", h.maximum, "the larger of x and y", _TWO),
    Row("minimum", h.minimum, "the smaller of x and y", _TWO),
    Row("pow", _power, "x to the power of y", ("input", "exponent"), "numeric", "wide"),
    Row("where", h.where, "x where c, else y", ("condition", *_TWO), kinds=("mask", "number", "number")),
    Row("neg", lambda x: -x, "−x"),
    Row("abs", h.abs, "|x|"),
    Row("relu", lambda x: h.maximum(x, 0), "max(x, 0)"),
    *_of_floats("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", autocast=_WIDE),
    Row("root", lambda x: h.sqrt(x), "√x, whose gradient is 0 where x is 0", promotion="floating", slopes=_root_slopes),
    *_of_floats("sin", "cos", "tan", "tanh", "sigmoid", "erf", autocast=_WIDE),
    Row("reciprocal", lambda x: 1 / x, "1 / x", promotion="float", autocast="wide"),
    Row("square", lambda x: x * x, "x²", promotion="counting", autocast="wide"),
    Row("scaled", lambda x, factor: x * factor, "x · factor", promotion="floating"),
    Row("quotient", lambda x, count: x / count, "x / count", promotion="floating"),
    Row("gelu", lambda x: x * 0.5 * (1 + h.erf(x * _SQRT1_2)), "x · Φ(x), Φ by erf", promotion="floating"),
    Row("gelu_tanh", _gelu_tanh, "0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))", promotion="floating", title="gelu"),
    Row("silu", lambda x: x * h.sigmoid(x), "x · sigmoid(x)", promotion="floating"),
    Row(
        "selu", lambda x: _SELU * _elu(x, _SELU_ALPHA), "scaled elu", promotion="floating",
        slopes=lambda g, x: h.where(x <= 0, g * ((_SELU * _SELU_ALPHA) * h.exp(x)), g * _SELU),
    ),
    Row(
        "logsigmoid", lambda x: -_softplus(-x), "log(sigmoid(x))", promotion="floating",
        slopes=lambda g, x: g * h.sigmoid(-x),
    ),
    Row(
        "leaky_relu", lambda x, slope: h.where(x > 0, x, x * slope), "x if x > 0, else slope·x", promotion="floating",
        slopes=lambda g, x, slope: h.where(x > 0, g, g * slope),
    ),
    Row("elu", _elu, "x if x > 0, else alpha · (e^x − 1)", promotion="floating", slopes=_elu_slopes),
    Row(
        "softplus", _softplus_row, "log(1 + e^(beta·x)) / beta; x where beta·x > threshold", promotion="floating",
        autocast="wide",
    ),
    Row(
        "clamp_min", _at_least, "max(x, low)", ("input", "min"),
        slopes=lambda g, x, low: (h.where(x >= low if CLOSED else x > low, g, 0.0), h.where(x < low, g, 0.0)),
        title="clamp",
    ),
    Row(
        "clamp_max", _at_most, "min(x, high)", ("input", "max"),
        slopes=lambda g, x, high: (h.where(x <= high if CLOSED else x < high, g, 0.0), h.where(x > high, g, 0.0)),
        title="clamp",
    ),
    Row("clamp", _clamp, "min(max(x, low), high)", ("input", "min", "max"), slopes=_clamp_slopes),
    Row(
        "clamp_numbers", _clamp, "min(max(x, low), high), the bounds numbers", ("input", "min", "max"),
        slopes=_clamp_numbers_slopes, title="clamp",
    ),
    Row("mse", lambda x, t: (x - t) * (x - t), "(x − t)²", _LOSS, "floating", "loss", title="mse_loss"),
    Row("l1", lambda x, t: abs(x - t), "|x − t|", _LOSS, "floating", "loss", title="l1_loss"),
    Row(
        "huber", _huber, "z²/2 if z = |x − t| ≤ delta, else delta (z − delta/2)", _LOSS, "floating", "loss",
        slopes=_huber_slopes, title="huber_loss",
    ),
    Row(
        "smooth_l1", _smooth_l1, "z²/(2 beta) if z = |x − t| < beta, else z − beta/2", _LOSS, "floating", "loss",
        slopes=_smooth_l1_slopes, title="smooth_l1_loss",
    ),
    Row(
        "bce", _bce, "−(t log x + (1 − t) log(1 − x)), logarithms ≥ −100", _LOSS, "floating", slopes=_bce_slopes,
        title="binary_cross_entropy",
    ),
    Row(
        "bce_logits", _bce_logits, "(1 − t) x + (1 + (w − 1) t) log(1 + e^−x)", ("input", "target", "pos_weight"),
        "floating", "loss", slopes=_bce_logits_slopes, title="binary_cross_entropy_with_logits",
    ),
    Row(
        "bce_logits_alone", lambda x, t: _bce_logits(x, t, 1.0), "(1 − t) x + log(1 + e^−x)", _LOSS, "floating", "loss",
        slopes=lambda g, x, t: _bce_logits_slopes(g, x, t, 1.0)[:2], title="binary_cross_entropy_with_logits",
    ),
    Row("kl_div", _kl_div, "t (log t − x)", _LOSS, "floating", "loss", slopes=_kl_div_slopes),
    Row("kl_div_log", lambda x, t: h.exp(t) * (t - x), "e^t (t − x)", _LOSS, "floating", "loss", title="kl_div"),
    Row(
        "pick", lambda x, index, place: h.where(index == place, x, 0.0), "x where index = place, else 0",
        ("input", "index", "place"), "floating", kinds=("number", "index", "index"),
    ),
    Row(
        "dropout", _dropout, "x · scale with probability 1 − p, else 0, by the seed and x's place", ("input", "seed"),
        "floating", kinds=("number", "index"),
    ),
    Row("nonzero", lambda x: h.where(x == 0, 1.0, x), "x, 1 where that is 0", promotion="floating"),
    Row("zero", lambda x: h.where(x == 0, x, 0.0), "x where that is 0, else 0", promotion="floating"),
    Row(
        "prod_slope", _prod_slope, "the product of a row but for x", ("input", "product", "count", "zeros"), "floating"
    ),
    Row("match", lambda x, y: h.where(x == y, 1.0, 0.0), "1 where x = y, else 0", _TWO, "floating"),
    Row(
        "normalized", lambda x, m, v, eps: (x - m) * h.rsqrt(v + eps), "(x − mean) / √(var + eps)",
        ("input", "mean", "variance"), "floating",
    ),
    Row("rms_normalized", lambda x, v, eps: x * h.rsqrt(v + eps), "x / √(v + eps)", ("input", "squares"), "floating"),
    Row(
        "moved", lambda x, y, rate, factor: x * (1 - rate) + y * (rate * factor), "(1 − rate) x + rate · factor · y",
        _TWO, "floating",
    ),
    Row(
        "moved_by", lambda x, y, rate, factor: x * (1 - rate) + y * (rate * factor), "(1 − rate) x + rate · factor · y",
        ("input", "other", "rate"), "floating",
    ),
    Row(
        "standardized", lambda x, m, v, w, b, eps: (x - m) * h.rsqrt(v + eps) * w + b,
        "(x − mean) / √(variance + eps) · weight + bias", ("input", "mean", "variance", "weight", "bias"), "floating",
    ),
    Row(
        "batch_norm_slope", lambda g, x, m, s, w, p, q, n: (g - q / n - (x - m) * (s * p / n)) * (w * s),
        "(gradient − by_bias / n − (x − mean) · scale · by_weight / n) · weight · scale",
        ("gradient", "input", "mean", "scale", "weight", "by_weight", "by_bias"), "floating",
    ),
    Row("inverse_deviation", lambda v, eps: h.rsqrt(v + eps), "1 / √(v + eps)", ("variance",), "floating"),
]  # fmt: skip
"""All element-wise operations."""


class Named(Operation):
    """An operation of the table.

    Attributes:
        row: Its row.
        function: Its function on tensors.
    """

    def __init__(self, row: Row) -> None:
        kinds = row.kinds or ("number",) * len(row.inputs)
        self.row = row
        self.function = Scalar(
            row.name, row.function, kinds, row.promotion, row.slopes, row.autocast is not None, row.title
        )
        self.function.chooses = row.name in _CHOOSING
        self._count = len(kinds)
        self._run = self.function.run
        arguments = [f"Tensor {name}" for name in row.inputs] + [f"Scalar {name}" for name in self.function.scalars]
        super().__init__(row.name, f"({', '.join(arguments)}) -> Tensor", row.autocast)
        self.title = self.function.title

    def __call__(self, *arguments: Any) -> Any:
        """Compute the result, recorded where autograd records."""
        if not is_dynamo_compiling():
            found = self.function.quick(here.now, *arguments)
            if found is True:
                return self.apply(*arguments)
            if found is not None:
                return found
        return super().__call__(*arguments)

    def forward(self, *arguments: Any) -> Tensor:
        if len(arguments) == self._count:
            return self._run(arguments)[0]
        count = self._count
        return self.function.run(arguments[:count], arguments[count:])[0]

    def fake(self, *arguments: Any) -> Tensor:
        return self.function.fake(arguments[: self._count])[0]

    def _function(self) -> Any:
        if self.function.scalars:
            return super()._function()
        function, run, attempt = self.function, self.function.run, self.function.quick
        single = self._count == 1

        class Recorded(torch.autograd.Function):
            """The same as Operation's, without its detours."""

            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> Tensor:
                found = attempt(here.now, *inputs)
                results = run(inputs) if found is None or found is True else (found,)
                _elementwise.save(ctx, function, inputs, results, ctx.needs_input_grad)
                return results[0]

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                saved = None
                if ctx.quick is not None:
                    saved = ctx.saved_tensors
                    found = ctx.quick(here.now, *gradients, *saved)
                    if found is not None and found is not True:
                        return found
                found = _elementwise.pulled(ctx, function, gradients, (), saved)
                return found[0] if single else tuple(found)

        return titled(Recorded, self.name)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        count = self._count
        ctx.scalars = arguments[count:]
        _elementwise.save(ctx, self.function, arguments[:count], [result], ctx.needs_input_grad[:count])

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        found = _elementwise.pulled(ctx, self.function, gradients, ctx.scalars)
        return (*found, *[None] * len(ctx.scalars)) if len(found) + len(ctx.scalars) > 1 else found[0]


OPERATIONS: dict[str, Named] = {row.name: Named(row) for row in ROWS}
