"""The functions of values, of which the operators are some: what the ISA's table has, and numpy's names for them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from hologram import _isa
from hologram._kernel.comparisons import maximum, minimum
from hologram._kernel.lines import fail
from hologram._kernel.making import (
    PUBLIC,
    alone,
    apply,
    choose,
    compare,
    eager,
    function_of,
    number,
    public,
    to,
    together,
)
from hologram._kernel.operators import OPERATORS, mul, power
from hologram._kernel.promotion import PRED, kind_of
from hologram._kernel.values import Trace, Value, common, trace_of, type_of, value_of
from hologram.errors import DTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FUNCTIONS", "PUBLIC", "UFUNCS"]

# numpy computes functions of integers in the float type that holds them, and of 64-bit ones in f64.
_OF_INTEGERS = {PRED: "f16", "i8": "f16", "u8": "f16", "i16": "f32", "u16": "f32"}


def _float_type(value: Value) -> Value:
    """Return a value as the float type in which numpy computes functions of it."""
    if kind_of(value.type) == 2:
        return value
    type = "f64" if value.weak else _OF_INTEGERS.get(value.type, "f64")
    return to(value.trace, value, type, value.weak)


def _of_floats(mnemonic: str) -> Callable[..., Any]:
    def implementation(trace: Trace, x: Value) -> Value:
        return apply(trace, mnemonic, _float_type(x))

    implementation.__name__ = mnemonic
    implementation.__doc__ = _isa.ROWS[mnemonic].doc
    return public(implementation)


exp, exp2, expm1 = _of_floats("exp"), _of_floats("exp2"), _of_floats("expm1")
log, log2, log10, log1p = _of_floats("log"), _of_floats("log2"), _of_floats("log10"), _of_floats("log1p")
sqrt, rsqrt = _of_floats("sqrt"), _of_floats("rsqrt")
sin, cos, tan = _of_floats("sin"), _of_floats("cos"), _of_floats("tan")
tanh, sigmoid, erf = _of_floats("tanh"), _of_floats("sigmoid"), _of_floats("erf")


def _integral(mnemonic: str) -> Callable[..., Any]:
    def implementation(trace: Trace, x: Value) -> Value:
        return apply(trace, mnemonic, x) if kind_of(x.type) == 2 else x

    implementation.__name__ = mnemonic
    implementation.__doc__ = f"{_isa.ROWS[mnemonic].doc} Integers stay as they are."
    return public(implementation)


floor, ceil, round, trunc = _integral("floor"), _integral("ceil"), _integral("round"), _integral("trunc")


@public
def abs(trace: Trace, x: Value) -> Value:
    """The absolute value; wraps for the smallest integer."""
    return x if x.type == PRED or x.type.startswith("u") else apply(trace, "abs", x)


@public
def relu(trace: Trace, x: Value) -> Value:
    """The larger of x and 0; NaN if x is NaN."""
    return apply(trace, "max", x, number(trace, 0, x))


@public
def clip(trace: Trace, x: Value, low: Value, high: Value) -> Value:
    """The nearest to x from low to high: minimum(maximum(x, low), high)."""
    result: Value = minimum(maximum(x, low), high)
    return result


@public
def pow(trace: Trace, a: Value, b: Value) -> Value:
    """A to the power of b, with C's special values; a ** 2 is a * a instead."""
    if kind_of(common(a, b)[0]) < 2:
        return power(trace, a, b)
    return apply(trace, "pow", a, b)


@public
def rem(trace: Trace, a: Value, b: Value) -> Value:
    """The remainder of truncating division, with the sign of a, as C's fmod; a % b has the sign of b."""
    return apply(trace, "rem", *together(trace, a, b))


@public
def fma(trace: Trace, a: Value, b: Value, c: Value) -> Value:
    """a·b + c with one rounding, which a*b + c never has. In f16 and bf16: the f32 FMA, rounded once more."""
    return apply(trace, "fma", a, b, c)


@public
def where(trace: Trace, condition: Value, a: Value, b: Value) -> Value:
    """A where the condition holds, else b; both are computed."""
    return choose(trace, condition, a, b)


@public
def isnan(trace: Trace, x: Value) -> Value:
    """Whether x is NaN."""
    return compare(trace, "ne", x, x)


@public
def isfinite(trace: Trace, x: Value) -> Value:
    """Whether x is neither infinite nor NaN."""
    if kind_of(x.type) < 2:
        return Value(trace, PRED, x.weak, constant=True)
    return compare(trace, "lt", apply(trace, "abs", x), number(trace, float("inf"), x))


def _plain(mnemonic: str, operands: int) -> Callable[..., Any]:
    def one(trace: Trace, x: Value) -> Value:
        return apply(trace, mnemonic, x)

    def two(trace: Trace, a: Value, b: Value) -> Value:
        return apply(trace, mnemonic, a, b)

    implementation: Callable[..., Any] = one if operands == 1 else two
    implementation.__name__ = mnemonic
    implementation.__doc__ = _isa.ROWS[mnemonic].doc
    return public(implementation)


popc, clz, ctz, mulhi = (_plain(m, n) for m, n in (("popc", 1), ("clz", 1), ("ctz", 1), ("mulhi", 2)))


def cast_(x: Any, dtype: Any, *, out: Any = None, executor: Any = None) -> Any:
    """X converted to a dtype, as numpy converts arrays; floats to integers truncate and saturate, NaN gives 0."""
    return _converted(x, dtype, "cast", out, executor)


def bitcast(x: Any, dtype: Any, *, out: Any = None, executor: Any = None) -> Any:
    """The bits of x read as a dtype of the same size."""
    return _converted(x, dtype, "bitcast", out, executor)


def _converted(x: Any, dtype: Any, name: str, out: Any = None, executor: Any = None) -> Any:
    trace = trace_of(x)
    if trace is None:
        x = np.float64(x) if isinstance(x, float) else x  # rounded: it need not be in the range of the dtype
        return eager(_conversion(name, str(type_of(dtype))))(x, out=out, executor=executor)
    alone(name, out, executor)
    value = value_of(trace, x, f"{name}: x")
    if name == "cast":
        return value.astype(dtype)
    type = type_of(dtype)
    if PRED in (value.type, type) or _isa.TYPE_SIZES[value.type] != _isa.TYPE_SIZES[type]:
        fail(DTypeError, f"bitcast: x is {value!r}; {type} has another size")
    return Value(trace, type, False, trace.emit(f"bitcast.{type}.{value.type}", type, value.held(value.type)))


@functools.cache
def _conversion(name: str, type: str) -> Callable[[Any], Any]:
    dtype: Any = bool if type == PRED else type

    def conversion(x: Any) -> Any:
        return _converted(x, dtype, name)

    conversion.__name__ = conversion.__qualname__ = name  # by which errors know it
    return conversion


cast_.__name__ = cast_.__qualname__ = "cast"
setattr(cast_, "of_values", lambda x, dtype: _converted(x, dtype, "cast"))  # noqa: B010  # see function_of
setattr(bitcast, "of_values", lambda x, dtype: _converted(x, dtype, "bitcast"))  # noqa: B010
PUBLIC["cast"], PUBLIC["bitcast"] = cast_, bitcast


# ---- numpy's names for them

UFUNCS: dict[str, Callable[..., Any]] = {
    "add": OPERATORS["add"],
    "subtract": OPERATORS["sub"],
    "multiply": OPERATORS["mul"],
    "divide": OPERATORS["truediv"],
    "true_divide": OPERATORS["truediv"],
    "floor_divide": OPERATORS["floordiv"],
    "remainder": OPERATORS["mod"],
    "divmod": OPERATORS["divmod"],
    "power": OPERATORS["pow"],
    "negative": OPERATORS["neg"],
    "positive": OPERATORS["pos"],
    "equal": OPERATORS["eq"],
    "not_equal": OPERATORS["ne"],
    "less": OPERATORS["lt"],
    "less_equal": OPERATORS["le"],
    "greater": OPERATORS["gt"],
    "greater_equal": OPERATORS["ge"],
    "bitwise_and": OPERATORS["and"],
    "bitwise_or": OPERATORS["or"],
    "bitwise_xor": OPERATORS["xor"],
    "invert": OPERATORS["invert"],
    "left_shift": OPERATORS["lshift"],
    "right_shift": OPERATORS["rshift"],
    "absolute": abs,
    "rint": function_of(lambda trace, x: apply(trace, "round", _float_type(x)), "rint"),
    "fmod": rem,
    "square": function_of(lambda trace, x: mul(trace, *together(trace, x) * 2), "square"),
    **{name: PUBLIC[name] for name in ("floor", "ceil", "trunc", "minimum", "maximum", "isnan", "isfinite")},
    **{name: PUBLIC[name] for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt")},
    **{name: PUBLIC[name] for name in ("sin", "cos", "tan", "tanh")},
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"where": where, "clip": clip, "round": round, "abs": abs}
setattr(Value, "__abs__", abs)  # noqa: B010


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "neg": "-", "equal": "==", "not_equal": "!=", "less": "<"}
_SIGNS.update(less_equal="<=", greater=">", greater_equal=">=", mad="* and +")


def refuse_operation(name: str, values: Iterable[object]) -> None:
    """Refuse a call of hologram.ops inside of a kernel, and say what there is instead.

    Raises:
        DTypeError: One of the call's values is a kernel's.
    """
    if not any(isinstance(value, Value) for value in values):
        return
    base = name.partition("_")[2] if name.startswith(("vector_", "scalar_")) else name
    base = {"min": "minimum", "max": "maximum"}.get(base, base)
    if base in _SIGNS:
        hint = f"of the values of a kernel it is {_SIGNS[base]}"
    elif base in PUBLIC:
        hint = f"of the values of a kernel it is hologram.{base}"
    else:
        hint = "a kernel sees one element at a time; call it outside of the kernel"
    fail(DTypeError, f"hologram.ops.{name} works on arrays; {hint}")
