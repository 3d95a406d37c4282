"""The functions of values: arithmetic as numpy does it, and what the ISA's table has besides."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, cast

import numpy as np

from hologram import _isa
from hologram._kernel.integers import bound, exact
from hologram._kernel.values import (
    PRED,
    Trace,
    Uniform,
    Value,
    common,
    fail,
    kind_of,
    limits,
    trace_of,
    traced_line,
    type_of,
    value_of,
)
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FUNCTIONS", "PUBLIC", "UFUNCS"]

_Function = Callable[..., Any]

PUBLIC: dict[str, Callable[..., Any]] = {}
"""The functions that hologram offers, by their names there."""

# numpy computes functions of integers in the float type that holds them, and of 64-bit ones in f64.
_OF_INTEGERS = {PRED: "f16", "i8": "f16", "u8": "f16", "i16": "f32", "u16": "f32"}


def _function(implementation: _Function, name: str = "") -> _Function:
    """Make a function of values, numbers and arrays out of one of a trace and its values.

    Without a value it is a kernel of one function, and so works on arrays and numbers, also while a kernel is traced:
    who calls may be a signal's handler. Python's numbers give Python's, which take the type of what they meet.
    """
    parameters = list(inspect.signature(implementation).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    name = name or implementation.__name__.rstrip("_")
    labels = [f"{name}: {parameter}" for parameter in names]

    @functools.wraps(implementation)
    def function(*arguments: Any) -> Any:
        trace = trace_of(*arguments)
        if trace is None:
            result = _eager(function)(*arguments)
            return _weak(result) if all(type(value) in _PYTHON for value in arguments) else result
        if len(arguments) != len(names):
            fail(DTypeError, f"{name} takes {len(names)} arguments ({', '.join(names)}), got {len(arguments)}")
        values = [value_of(trace, thing, label) for thing, label in zip(arguments, labels)]
        result = exact(trace, name, values)
        if result is None:
            result = implementation(trace, *values)
            bound(name, values, result)
        return result

    function.__name__ = function.__qualname__ = name
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__module__ = "hologram"
    return function


_PYTHON = (bool, int, float)


def _weak(result: Any) -> Any:
    return tuple(map(_weak, result)) if isinstance(result, tuple) else result.item()


@functools.cache
def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    from hologram._kernel.call import Kernel

    return Kernel(function)


def _public(implementation: _Function) -> _Function:
    function = _function(implementation)
    PUBLIC[function.__name__] = function
    return function


def _apply(trace: Trace, mnemonic: str, *values: Value, type: str = "") -> Value:
    """Return an instruction's result on values in their common type, or a given one."""
    found, weak = common(*values)
    type = type or found
    if type not in _isa.ROWS[mnemonic].types:
        name = "bool" if type == PRED else type
        fail(DTypeError, f"{mnemonic} of {name} is not there; expected one of {', '.join(_isa.ROWS[mnemonic].types)}")
    register = trace.emit(f"{mnemonic}.{type}", type, *(value.source(type) for value in values))
    return Value(trace, type, weak, register)


def _same(trace: Trace, value: Value, register: int) -> Value:
    return Value(trace, value.type, value.weak, register)


def _number(trace: Trace, number: float, like: Value) -> Value:
    """Return a number of the type of a value."""
    kind = float if kind_of(like.type) == 2 else int
    return Value(trace, like.type, like.weak, constant=kind(number))


def _to(trace: Trace, value: Value, type: str, weak: bool) -> Value:
    if value.type == type and value.weak == weak and value.constant is None:
        return value
    return Value(trace, type, weak, value.held(type))


def _together(trace: Trace, *values: Value, bools: str = "i8") -> tuple[Value, ...]:
    """Return values converted to their common type, bools to integers."""
    type, weak = common(*values)
    if type == PRED:
        type = bools
    return tuple(_to(trace, value, type, weak) for value in values)


# ---- operators


def _add(trace: Trace, a: Value, b: Value) -> Value:
    """A + b; of bools, whether one is true."""
    return _apply(trace, "or" if common(a, b)[0] == PRED else "add", a, b)


def _sub(trace: Trace, a: Value, b: Value) -> Value:
    """A - b."""
    if common(a, b)[0] == PRED:
        fail(DTypeError, "a difference of bools is not there, as in numpy; use ^")
    return _apply(trace, "sub", a, b)


def _mul(trace: Trace, a: Value, b: Value) -> Value:
    """A * b; of bools, whether both are true."""
    return _apply(trace, "and" if common(a, b)[0] == PRED else "mul", a, b)


def _truediv(trace: Trace, a: Value, b: Value) -> Value:
    """A / b, of integers in f64."""
    type, weak = common(a, b)
    if kind_of(type) < 2:
        a, b = _to(trace, a, "f64", weak), _to(trace, b, "f64", weak)
    return _apply(trace, "div", a, b)


def _floordiv(trace: Trace, a: Value, b: Value) -> Value:
    """A // b: the quotient rounded down."""
    return _divmod(trace, a, b)[0]


def _mod(trace: Trace, a: Value, b: Value) -> Value:
    """A % b: what a // b leaves, with the sign of b."""
    return _divmod(trace, a, b)[1]


def _divmod(trace: Trace, a: Value, b: Value) -> tuple[Value, Value]:
    """Return a // b and a % b as numpy does."""
    positive = type(b.constant) is int and b.constant > 0
    a, b = _together(trace, a, b)
    if kind_of(a.type) == 1 and positive and not a.type.startswith("u"):
        # Of x < 0 the quotient is ~(~x / b), with ones for x's sign that of neither below 0.
        ones = _apply(trace, "shr", a, _number(trace, int(a.type[1:]) - 1, a))
        quotient = _apply(trace, "xor", _apply(trace, "div", _apply(trace, "xor", a, ones), b), ones)
        return quotient, _apply(trace, "sub", a, _apply(trace, "mul", quotient, b))
    if kind_of(a.type) == 1:
        quotient, rest = _apply(trace, "div", a, b), _apply(trace, "rem", a, b)
        if a.type.startswith("u"):
            return quotient, rest
        # Truncated quotients of opposite signs are one too large where something is left.
        signs = _compare(trace, "lt", _apply(trace, "xor", rest, b), _number(trace, 0, a))
        apart = _apply(trace, "and", _compare(trace, "ne", rest, _number(trace, 0, a)), signs)
        lower = _apply(trace, "sub", quotient, _number(trace, 1, a))
        return _where(trace, apart, lower, quotient), _where(trace, apart, _apply(trace, "add", rest, b), rest)
    if a.type in ("f16", "bf16"):  # as numpy does, in f32
        results = _divmod(trace, _to(trace, a, "f32", False), _to(trace, b, "f32", False))
        return cast(tuple[Value, Value], tuple(_to(trace, result, a.type, a.weak) for result in results))
    # The steps of numpy's npy_divmod, so that the bits are numpy's.
    zero, one = _number(trace, 0, a), _number(trace, 1, a)
    rest = _apply(trace, "rem", a, b)
    quotient = _apply(trace, "div", _apply(trace, "sub", a, rest), b)
    signs = _apply(trace, "xor", _compare(trace, "lt", b, zero), _compare(trace, "lt", rest, zero))
    left = _compare(trace, "ne", rest, zero)
    apart = _apply(trace, "and", left, signs)
    moved = _where(trace, apart, _apply(trace, "add", rest, b), rest)
    quotient = _where(trace, apart, _apply(trace, "sub", quotient, one), quotient)
    floor = _apply(trace, "floor", quotient)
    up = _compare(trace, "gt", _apply(trace, "sub", quotient, floor), _number(trace, 0.5, a))
    floor = _where(trace, up, _apply(trace, "add", floor, one), floor)
    simple = _apply(trace, "div", a, b)
    # Zeros have the signs of the exact quotient and of b.
    below = _apply(
        trace, "or", _compare(trace, "lt", simple, zero), _compare(trace, "lt", _apply(trace, "div", one, simple), zero)
    )
    small = _where(trace, below, _number(trace, -0.0, a), zero)
    floor = _where(trace, _compare(trace, "ne", quotient, zero), floor, small)
    by_zero = _compare(trace, "eq", b, zero)
    floor = _where(trace, by_zero, simple, floor)
    nothing = _where(trace, _compare(trace, "lt", b, zero), _number(trace, -0.0, a), zero)
    return floor, _where(trace, left, moved, _where(trace, by_zero, rest, nothing))


def _pow(trace: Trace, a: Value, b: Value) -> Value:
    """A ** b; the exponents -1, 0, 0.5, 1 and 2 as numpy computes them, without POW."""
    type, _ = common(a, b)
    exponent = b.constant if b.weak or kind_of(b.type) < 2 else None
    if kind_of(type) == 2:
        base = _to(trace, a, *common(a, b))
        if exponent == 2:
            return _apply(trace, "mul", base, base)
        if exponent == 1:
            return base
        if exponent == 0:
            return _to(trace, _number(trace, 1, base), base.type, base.weak)
        if exponent == 0.5:
            return _apply(trace, "sqrt", base)
        if exponent == -1:
            return _apply(trace, "div", _number(trace, 1, base), base)
        return _apply(trace, "pow", a, b)
    if exponent is None:
        if traced_line() is None:  # hologram.pow of arrays, in no kernel
            fail(
                DTypeError,
                "a power of arrays of integers takes an exponent of floats: a float, such as 2.0, or an array of "
                "floats; hologram.kernel(lambda x: x ** 2) has powers in integers",
            )
        fail(
            DTypeError,
            "a power of integers takes an exponent that is known while the program is made: a number written in the "
            "kernel, or an argument named in static=; convert one of the two to a float type for others",
        )
    if exponent < 0:
        fail(InvalidArgumentError, f"integers to the negative power {exponent} are not there; convert to a float type")
    if exponent == 2 and b.weak and not a.weak:
        return _mul(trace, *_together(trace, a) * 2)  # as numpy squares bools: in i8
    base, _ = _together(trace, a, b)
    result = _number(trace, 1, base)
    left = int(exponent)
    while left:
        if left & 1:
            result = base if result.constant is not None else _apply(trace, "mul", result, base)
        left >>= 1
        if left:
            base = _apply(trace, "mul", base, base)
    return _to(trace, result, base.type, base.weak)


def _neg(trace: Trace, a: Value) -> Value:
    """-a; of unsigned integers, wrapped."""
    if a.type == PRED:
        fail(DTypeError, "the negative of a bool is not there, as in numpy; use ~")
    if a.type.startswith("u"):
        return _apply(trace, "sub", _number(trace, 0, a), a)
    return _apply(trace, "neg", a)


def _pos(trace: Trace, a: Value) -> Value:
    """+a."""
    return a


def _bits(mnemonic: str) -> Callable[..., Value]:
    def bits(trace: Trace, a: Value, b: Value) -> Value:
        return _apply(trace, mnemonic, a, b)

    bits.__doc__ = f"a {mnemonic} b, bit by bit."
    return bits


def _shift(mnemonic: str) -> Callable[..., Value]:
    def shift(trace: Trace, a: Value, b: Value) -> Value:
        type, weak = common(a, b)
        type = "i8" if type == PRED else type
        if b.constant is not None and kind_of(type) < 2:  # stays a number in the instruction
            width = 8 * _isa.TYPE_SIZES[type]
            if not 0 <= b.constant < width:
                fail(InvalidArgumentError, f"a shift of {type} by {b.constant}; expected 0 … {width - 1}")
            a, b = _to(trace, a, type, weak), Value(trace, type, weak, constant=int(b.constant))
        else:
            a, b = _together(trace, a, b)
        return _same(trace, a, _apply(trace, mnemonic, a, b, type=a.type).register)

    shift.__doc__ = "Shift by the low bits of b, as the ISA does."
    return shift


def _invert(trace: Trace, a: Value) -> Value:
    """~a: every bit, or the bool, the other way round."""
    return _apply(trace, "not", a)


def _compare(trace: Trace, condition: str, a: Value, b: Value) -> Value:
    type, weak = common(a, b)
    if type == PRED:
        type = "u8"
    register = trace.emit(f"set.{condition}.{type}", PRED, a.source(type), b.source(type))
    return Value(trace, PRED, weak, register)


_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _is_int(value: Value) -> bool:
    """Whether a value is an integer of an array's type."""
    return not value.weak and kind_of(value.type) == 1


def _beside_int(trace: Trace, condition: str, x: Value, n: Value) -> Value:
    """Compare an integer of an array's type with an int of Python's, which that type needn't hold."""
    least, most = limits(x.type)
    above, below = condition in ("lt", "le", "ne"), condition in ("gt", "ge", "ne")  # what holds of larger n, smaller n
    if n.fits(x.type):
        return _compare(trace, condition, x, n)
    if n.constant is not None:
        return Value(trace, PRED, False, constant=above if n.constant > most else below)
    if isinstance(n, Uniform):

        def is_so(test: str, a: Any, b: Any) -> Value:
            return cast(Value, _OPERATORS[test](a, b))

        nearest = minimum(maximum(n, least), most)
        result = _compare(trace, condition, x, nearest)
        # What the nearest number doesn't tell: x < n where n is beyond all, x <= n where it is below.
        if condition in ("eq", "ne"):
            return _apply(trace, "and" if condition == "eq" else "or", result, is_so(condition, nearest, n))
        if condition in ("lt", "gt"):
            return _apply(trace, "or", result, is_so("gt", n, most) if above else is_so("lt", n, least))
        return _apply(trace, "and", result, is_so("ge", n, least) if above else is_so("le", n, most))
    if x.type != "u64":
        wide = Value(trace, "i64", False, n.held("i64"))
        return _compare(trace, condition, _to(trace, x, "i64", False), wide)
    negative = _compare(trace, "lt", n, _number(trace, 0, n))
    result = _compare(trace, condition, x, Value(trace, "u64", False, trace.emit("cvt.u64.i64", "u64", n.held("i64"))))
    if below:
        return _apply(trace, "or", result, negative)
    return _apply(trace, "and", result, _apply(trace, "not", negative))


def _comparison(condition: str) -> Callable[..., Value]:
    def compare(trace: Trace, a: Value, b: Value) -> Value:
        if _is_int(a) and b.weak and b.type == "i64":
            return _beside_int(trace, condition, a, b)
        if _is_int(b) and a.weak and a.type == "i64":
            return _beside_int(trace, _FLIPPED[condition], b, a)
        return _compare(trace, condition, a, b)

    compare.__doc__ = f"Whether a is {condition} b."
    return compare


_BINARY: dict[str, _Function] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "truediv": _truediv,
    "floordiv": _floordiv,
    "mod": _mod,
    "pow": _pow,
    "and": _bits("and"),
    "or": _bits("or"),
    "xor": _bits("xor"),
    "lshift": _shift("shl"),
    "rshift": _shift("shr"),
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY: dict[str, _Function] = {"neg": _neg, "pos": _pos, "invert": _invert}

_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _function(f, name) for name, f in (*_BINARY.items(), *_UNARY.items())},
    "divmod": _function(_divmod, "divmod"),
    **{name: _function(_comparison(name), name) for name in _COMPARISONS},
}


def _method(name: str, reflected: bool) -> Callable[..., Any]:
    function = _OPERATORS[name]

    def method(self: Value, *other: object) -> Any:
        return function(*other, self) if reflected else function(self, *other)

    method.__name__ = f"__{'r' * reflected}{name}__"
    method.__doc__ = function.__doc__
    return method


for _name in _OPERATORS:
    setattr(Value, f"__{_name}__", _method(_name, False))
for _name in (*_BINARY, "divmod"):
    setattr(Value, f"__r{_name}__", _method(_name, True))


# ---- functions


def _float_type(value: Value) -> Value:
    """Return a value as the float type in which numpy computes functions of it."""
    if kind_of(value.type) == 2:
        return value
    type = "f64" if value.weak else _OF_INTEGERS.get(value.type, "f64")
    return _to(value.trace, value, type, value.weak)


def _of_floats(mnemonic: str) -> Callable[..., Any]:
    def implementation(trace: Trace, x: Value) -> Value:
        return _apply(trace, mnemonic, _float_type(x))

    implementation.__name__ = mnemonic
    implementation.__doc__ = _isa.ROWS[mnemonic].doc
    return _public(implementation)


exp, exp2, expm1 = _of_floats("exp"), _of_floats("exp2"), _of_floats("expm1")
log, log2, log10, log1p = _of_floats("log"), _of_floats("log2"), _of_floats("log10"), _of_floats("log1p")
sqrt, rsqrt = _of_floats("sqrt"), _of_floats("rsqrt")
sin, cos, tan = _of_floats("sin"), _of_floats("cos"), _of_floats("tan")
tanh, sigmoid, erf = _of_floats("tanh"), _of_floats("sigmoid"), _of_floats("erf")


def _integral(mnemonic: str) -> Callable[..., Any]:
    def implementation(trace: Trace, x: Value) -> Value:
        return _apply(trace, mnemonic, x) if kind_of(x.type) == 2 else x

    implementation.__name__ = mnemonic
    implementation.__doc__ = f"{_isa.ROWS[mnemonic].doc} Integers stay as they are."
    return _public(implementation)


floor, ceil, round, trunc = _integral("floor"), _integral("ceil"), _integral("round"), _integral("trunc")


@_public
def abs(trace: Trace, x: Value) -> Value:
    """The absolute value; wraps for the smallest integer."""
    return x if x.type == PRED or x.type.startswith("u") else _apply(trace, "abs", x)


@_public
def relu(trace: Trace, x: Value) -> Value:
    """The larger of x and 0; NaN if x is NaN."""
    return _apply(trace, "max", x, _number(trace, 0, x))


def _nearest(trace: Trace, n: Value, x: Value, end: int) -> Value:
    """Return what an int of Python's is to the smaller (end 1) or larger (end 0) of itself and an array's integer.

    It may lie beyond all of x's type at this end: it is not chosen then.
    """
    if not (_is_int(x) and n.weak and n.type == "i64") or n.fits(x.type):
        return n
    last = limits(x.type)[end]
    if n.constant is not None:
        return Value(trace, "i64", True, constant=min(int(n.constant), last) if end else max(int(n.constant), last))
    if end and last > limits("i64")[1] and not isinstance(n, Uniform):
        return n
    found: Value = minimum(n, last) if end else maximum(n, last)
    return found


@_public
def minimum(trace: Trace, a: Value, b: Value) -> Value:
    """The smaller; NaN if either is NaN; −0 < +0."""
    a, b = _nearest(trace, a, b, 1), _nearest(trace, b, a, 1)
    return _apply(trace, "and" if common(a, b)[0] == PRED else "min", a, b)


@_public
def maximum(trace: Trace, a: Value, b: Value) -> Value:
    """The larger; NaN if either is NaN; −0 < +0."""
    a, b = _nearest(trace, a, b, 0), _nearest(trace, b, a, 0)
    return _apply(trace, "or" if common(a, b)[0] == PRED else "max", a, b)


@_public
def clip(trace: Trace, x: Value, low: Value, high: Value) -> Value:
    """The nearest to x from low to high: minimum(maximum(x, low), high)."""
    result: Value = minimum(maximum(x, low), high)
    return result


@_public
def pow(trace: Trace, a: Value, b: Value) -> Value:
    """A to the power of b, with C's special values; a ** 2 is a * a instead."""
    if kind_of(common(a, b)[0]) < 2:
        return _pow(trace, a, b)
    return _apply(trace, "pow", a, b)


@_public
def rem(trace: Trace, a: Value, b: Value) -> Value:
    """The remainder of truncating division, with the sign of a, as C's fmod; a % b has the sign of b."""
    return _apply(trace, "rem", *_together(trace, a, b))


@_public
def fma(trace: Trace, a: Value, b: Value, c: Value) -> Value:
    """a·b + c with one rounding, which a*b + c never has. In f16 and bf16: the f32 FMA, rounded once more."""
    return _apply(trace, "fma", a, b, c)


@_public
def where(trace: Trace, condition: Value, a: Value, b: Value) -> Value:
    """A where the condition holds, else b; both are computed."""
    return _where(trace, condition, a, b)


def _where(trace: Trace, condition: Value, a: Value, b: Value) -> Value:
    type, weak = common(a, b)
    chosen = condition.held(PRED)
    if type == PRED:
        # There is no SEL of predicates.
        first = trace.emit("and.pred", PRED, chosen, a.source(PRED))
        other = trace.emit("and.pred", PRED, trace.emit("not.pred", PRED, chosen), b.source(PRED))
        return Value(trace, PRED, weak, trace.emit("or.pred", PRED, first, other))
    return Value(trace, type, weak, trace.emit(f"sel.{type}", type, chosen, a.source(type), b.source(type)))


@_public
def isnan(trace: Trace, x: Value) -> Value:
    """Whether x is NaN."""
    return _compare(trace, "ne", x, x)


@_public
def isfinite(trace: Trace, x: Value) -> Value:
    """Whether x is neither infinite nor NaN."""
    if kind_of(x.type) < 2:
        return Value(trace, PRED, x.weak, constant=True)
    return _compare(trace, "lt", _apply(trace, "abs", x), _number(trace, float("inf"), x))


def _plain(mnemonic: str, operands: int) -> Callable[..., Any]:
    def one(trace: Trace, x: Value) -> Value:
        return _apply(trace, mnemonic, x)

    def two(trace: Trace, a: Value, b: Value) -> Value:
        return _apply(trace, mnemonic, a, b)

    implementation: Callable[..., Any] = one if operands == 1 else two
    implementation.__name__ = mnemonic
    implementation.__doc__ = _isa.ROWS[mnemonic].doc
    return _public(implementation)


popc, clz, ctz, mulhi = (_plain(m, n) for m, n in (("popc", 1), ("clz", 1), ("ctz", 1), ("mulhi", 2)))


def cast_(x: Any, dtype: Any) -> Any:
    """X converted to a dtype, as numpy converts arrays; floats to integers truncate and saturate, NaN gives 0."""
    return _converted(x, dtype, "cast")


def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x read as a dtype of the same size."""
    return _converted(x, dtype, "bitcast")


def _converted(x: Any, dtype: Any, name: str) -> Any:
    trace = trace_of(x)
    if trace is None:
        x = np.float64(x) if isinstance(x, float) else x  # rounded: it need not be in the range of the dtype
        return _eager(_conversion(name, str(type_of(dtype))))(x)
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
    return lambda x: _converted(x, dtype, name)


cast_.__name__ = cast_.__qualname__ = "cast"
PUBLIC["cast"], PUBLIC["bitcast"] = cast_, bitcast


# ---- numpy's names for them

UFUNCS: dict[str, Callable[..., Any]] = {
    "add": _OPERATORS["add"],
    "subtract": _OPERATORS["sub"],
    "multiply": _OPERATORS["mul"],
    "divide": _OPERATORS["truediv"],
    "true_divide": _OPERATORS["truediv"],
    "floor_divide": _OPERATORS["floordiv"],
    "remainder": _OPERATORS["mod"],
    "divmod": _OPERATORS["divmod"],
    "power": _OPERATORS["pow"],
    "negative": _OPERATORS["neg"],
    "positive": _OPERATORS["pos"],
    "equal": _OPERATORS["eq"],
    "not_equal": _OPERATORS["ne"],
    "less": _OPERATORS["lt"],
    "less_equal": _OPERATORS["le"],
    "greater": _OPERATORS["gt"],
    "greater_equal": _OPERATORS["ge"],
    "bitwise_and": _OPERATORS["and"],
    "bitwise_or": _OPERATORS["or"],
    "bitwise_xor": _OPERATORS["xor"],
    "invert": _OPERATORS["invert"],
    "left_shift": _OPERATORS["lshift"],
    "right_shift": _OPERATORS["rshift"],
    "absolute": abs,
    "rint": _function(lambda trace, x: _apply(trace, "round", _float_type(x)), "rint"),
    "fmod": rem,
    "square": _function(lambda trace, x: _mul(trace, *_together(trace, x) * 2), "square"),
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
