"""Comparisons, minima and maxima: also of an array's integer and an int of Python's, which its type needn't hold."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, cast

from hologram._built import beyond
from hologram._kernel.making import apply, compare, number, public, to
from hologram._kernel.promotion import PRED, kind_of, limits
from hologram._kernel.values import FLOATS, Trace, Uniform, Value, common

__all__ = ["comparison", "maximum", "minimum"]

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _is_int(value: Value) -> bool:
    """Whether a value is an integer of an array's type."""
    return not value.weak and kind_of(value.type) == 1


def _beside_int(trace: Trace, condition: str, x: Value, n: Value) -> Value:
    """Compare an integer of an array's type with an int of Python's, which that type needn't hold."""
    least, most = limits(x.type)
    above, below = condition in ("lt", "le", "ne"), condition in ("gt", "ge", "ne")  # what holds of larger n, smaller n
    if n.fits(x.type):
        return compare(trace, condition, x, n)
    if n.constant is not None:
        return Value(trace, PRED, False, constant=above if n.constant > most else below)
    if isinstance(n, Uniform):

        def is_so(test: str, a: Any, b: Any) -> Value:
            return cast(Value, getattr(operator, test)(a, b))

        nearest = minimum(maximum(n, least), most)
        result = compare(trace, condition, x, nearest)
        # What the nearest number doesn't tell: x < n where n is beyond all, x <= n where it is below.
        if condition in ("eq", "ne"):
            return apply(trace, "and" if condition == "eq" else "or", result, is_so(condition, nearest, n))
        if condition in ("lt", "gt"):
            return apply(trace, "or", result, is_so("gt", n, most) if above else is_so("lt", n, least))
        return apply(trace, "and", result, is_so("ge", n, least) if above else is_so("le", n, most))
    if x.type != "u64":
        wide = Value(trace, "i64", False, n.held("i64"))
        return compare(trace, condition, to(trace, x, "i64", False), wide)
    return _beside_signed(trace, condition, x, n)


def _beside_signed(trace: Trace, condition: str, x: Value, n: Value) -> Value:
    """Compare an integer of u64 with a signed one, as numpy does: exactly, where the type of both, f64, could not."""
    n = to(trace, n, "i64", False)
    negative = compare(trace, "lt", n, number(trace, 0, n))
    result = compare(trace, condition, x, Value(trace, "u64", False, trace.emit("cvt.u64.i64", "u64", n.held("i64"))))
    if condition in ("gt", "ge", "ne"):  # which hold of all smaller n
        return apply(trace, "or", result, negative)
    return apply(trace, "and", result, apply(trace, "not", negative))


def _rounded(n: Value, x: Value) -> Value:
    """Return n; of a number beyond all floats of an array's type the infinity that numpy rounds it to."""
    if not n.weak or x.weak or x.type not in FLOATS or n.constant is None or not beyond(n.constant, x.type):
        return n
    return Value(n.trace, "f64", True, constant=math.copysign(math.inf, n.constant))


def comparison(condition: str) -> Callable[..., Value]:
    """Return the implementation of a comparison."""

    def holds(trace: Trace, a: Value, b: Value) -> Value:
        if _is_int(a) and b.weak and b.type == "i64":
            return _beside_int(trace, condition, a, b)
        if _is_int(b) and a.weak and a.type == "i64":
            return _beside_int(trace, _FLIPPED[condition], b, a)
        if _is_int(a) and _is_int(b) and kind_of(common(a, b)[0]) == 2:
            if a.type == "u64":
                return _beside_signed(trace, condition, a, b)
            return _beside_signed(trace, _FLIPPED[condition], b, a)
        return compare(trace, condition, _rounded(a, b), _rounded(b, a))

    holds.__doc__ = f"Whether a is {condition} b."
    return holds


def _nearest(trace: Trace, n: Value, x: Value, end: int) -> Value:
    """Return n; of an int above the last of x's type (end 1), or below its least (end 0), that one.

    So the smaller (end 1) or larger of an array's integer x and any int has x's type, where it fits.
    """
    if not (n.weak and n.type == "i64" and _is_int(x)) or n.fits(x.type):
        return n
    last = limits(x.type)[end]
    if n.constant is not None:
        return Value(trace, "i64", True, constant=min(int(n.constant), last) if end else max(int(n.constant), last))
    if end and last > limits("i64")[1] and not isinstance(n, Uniform):
        return n
    found: Value = minimum(n, last) if end else maximum(n, last)
    return found


@public
def minimum(trace: Trace, a: Value, b: Value) -> Value:
    """The smaller; NaN if either is NaN; −0 < +0."""
    a, b = _nearest(trace, a, b, 1), _nearest(trace, b, a, 1)
    return apply(trace, "and" if a.type == b.type == PRED else "min", a, b)


@public
def maximum(trace: Trace, a: Value, b: Value) -> Value:
    """The larger; NaN if either is NaN; −0 < +0."""
    a, b = _nearest(trace, a, b, 0), _nearest(trace, b, a, 0)
    return apply(trace, "or" if a.type == b.type == PRED else "max", a, b)
