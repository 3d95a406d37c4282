"""The operators of values: arithmetic as numpy does it."""

from __future__ import annotations

from typing import Any, Callable, cast

from hologram import _isa
from hologram._kernel.comparisons import comparison
from hologram._kernel.lines import fail, traced_line
from hologram._kernel.making import Function, apply, choose, compare, function_of, number, same, to, together
from hologram._kernel.promotion import PRED, kind_of
from hologram._kernel.values import Trace, Value, common
from hologram.errors import DTypeError, InvalidArgumentError

__all__ = ["OPERATORS", "mul", "power"]


def _add(trace: Trace, a: Value, b: Value) -> Value:
    """A + b; of bools, whether one is true."""
    return apply(trace, "or" if a.type == b.type == PRED else "add", a, b)


def _sub(trace: Trace, a: Value, b: Value) -> Value:
    """A - b."""
    if a.type == b.type == PRED:
        fail(DTypeError, "a difference of bools is not there, as in numpy; use ^")
    return apply(trace, "sub", a, b)


def mul(trace: Trace, a: Value, b: Value) -> Value:
    """A * b; of bools, whether both are true."""
    return apply(trace, "and" if a.type == b.type == PRED else "mul", a, b)


def _truediv(trace: Trace, a: Value, b: Value) -> Value:
    """A / b, of integers in f64."""
    type, weak = common(a, b)
    if kind_of(type) < 2:
        a, b = to(trace, a, "f64", weak), to(trace, b, "f64", weak)
    return apply(trace, "div", a, b)


def _floordiv(trace: Trace, a: Value, b: Value) -> Value:
    """A // b: the quotient rounded down."""
    return _divmod(trace, a, b)[0]


def _mod(trace: Trace, a: Value, b: Value) -> Value:
    """A % b: what a // b leaves, with the sign of b."""
    return _divmod(trace, a, b)[1]


def _divmod(trace: Trace, a: Value, b: Value) -> tuple[Value, Value]:
    """Return a // b and a % b as numpy does."""
    positive = type(b.constant) is int and b.constant > 0
    a, b = together(trace, a, b)
    if kind_of(a.type) == 1 and positive and not a.type.startswith("u"):
        # Of x < 0 the quotient is ~(~x / b), with ones for x's sign that of neither below 0.
        ones = apply(trace, "shr", a, number(trace, int(a.type[1:]) - 1, a))
        quotient = apply(trace, "xor", apply(trace, "div", apply(trace, "xor", a, ones), b), ones)
        return quotient, apply(trace, "sub", a, apply(trace, "mul", quotient, b))
    if kind_of(a.type) == 1:
        quotient, rest = apply(trace, "div", a, b), apply(trace, "rem", a, b)
        if a.type.startswith("u"):
            return quotient, rest
        # Truncated quotients of opposite signs are one too large where something is left.
        signs = compare(trace, "lt", apply(trace, "xor", rest, b), number(trace, 0, a))
        apart = apply(trace, "and", compare(trace, "ne", rest, number(trace, 0, a)), signs)
        lower = apply(trace, "sub", quotient, number(trace, 1, a))
        return choose(trace, apart, lower, quotient), choose(trace, apart, apply(trace, "add", rest, b), rest)
    if a.type in ("f16", "bf16"):  # as numpy does, in f32
        results = _divmod(trace, to(trace, a, "f32", False), to(trace, b, "f32", False))
        return cast(tuple[Value, Value], tuple(to(trace, result, a.type, a.weak) for result in results))
    # The steps of numpy's npy_divmod, so that the bits are numpy's.
    zero, one = number(trace, 0, a), number(trace, 1, a)
    rest = apply(trace, "rem", a, b)
    quotient = apply(trace, "div", apply(trace, "sub", a, rest), b)
    signs = apply(trace, "xor", compare(trace, "lt", b, zero), compare(trace, "lt", rest, zero))
    left = compare(trace, "ne", rest, zero)
    apart = apply(trace, "and", left, signs)
    moved = choose(trace, apart, apply(trace, "add", rest, b), rest)
    quotient = choose(trace, apart, apply(trace, "sub", quotient, one), quotient)
    floor = apply(trace, "floor", quotient)
    up = compare(trace, "gt", apply(trace, "sub", quotient, floor), number(trace, 0.5, a))
    floor = choose(trace, up, apply(trace, "add", floor, one), floor)
    simple = apply(trace, "div", a, b)
    # Zeros have the signs of the exact quotient and of b.
    below = apply(
        trace, "or", compare(trace, "lt", simple, zero), compare(trace, "lt", apply(trace, "div", one, simple), zero)
    )
    small = choose(trace, below, number(trace, -0.0, a), zero)
    floor = choose(trace, compare(trace, "ne", quotient, zero), floor, small)
    by_zero = compare(trace, "eq", b, zero)
    floor = choose(trace, by_zero, simple, floor)
    # A rest of zero with the sign of b is made of the rest, not of constants, so that its derivatives are the rest's.
    negative = compare(trace, "lt", b, zero)
    nothing = apply(trace, "add", choose(trace, negative, apply(trace, "neg", rest), rest), zero)  # +0
    nothing = choose(trace, negative, apply(trace, "neg", nothing), nothing)
    return floor, choose(trace, left, moved, choose(trace, by_zero, rest, nothing))


def power(trace: Trace, a: Value, b: Value) -> Value:
    """A ** b; the exponents -1, 0, 0.5, 1 and 2 as numpy computes them, without POW."""
    type, _ = common(a, b)
    exponent = b.constant if b.weak or kind_of(b.type) < 2 else None
    if kind_of(type) == 2:
        base = to(trace, a, *common(a, b))
        if exponent == 2:
            return apply(trace, "mul", base, base)
        if exponent == 1:
            return base
        if exponent == 0:
            return to(trace, number(trace, 1, base), base.type, base.weak)
        if exponent == 0.5:
            return apply(trace, "sqrt", base)
        if exponent == -1:
            return apply(trace, "div", number(trace, 1, base), base)
        return apply(trace, "pow", a, b)
    if exponent is None:
        if traced_line() is None:  # hologram.pow of arrays, in no kernel
            fail(
                DTypeError,
                "outside of kernels a power of integers takes an exponent of floats: a float, such as 2.0, or an array "
                "of floats; hologram.kernel(lambda x: x ** 2) has powers in integers",
            )
        fail(
            DTypeError,
            "a power of integers takes an exponent that is known while the program is made: a number written in the "
            "kernel, or an argument named in static=; convert one of the two to a float type for others",
        )
    if exponent < 0:
        fail(InvalidArgumentError, f"integers to the negative power {exponent} are not there; convert to a float type")
    if exponent == 2 and b.weak and not a.weak:
        return mul(trace, *together(trace, a) * 2)  # as numpy squares bools: in i8
    base, _ = together(trace, a, b)
    result = number(trace, 1, base)
    left = int(exponent)
    while left:
        if left & 1:
            result = base if result.constant is not None else apply(trace, "mul", result, base)
        left >>= 1
        if left:
            base = apply(trace, "mul", base, base)
    return to(trace, result, base.type, base.weak)


def _neg(trace: Trace, a: Value) -> Value:
    """-a; of unsigned integers, wrapped."""
    if a.type == PRED:
        fail(DTypeError, "the negative of a bool is not there, as in numpy; use ~")
    if a.type.startswith("u"):
        return apply(trace, "sub", number(trace, 0, a), a)
    return apply(trace, "neg", a)


def _pos(trace: Trace, a: Value) -> Value:
    """+a."""
    return a


def _bits(mnemonic: str) -> Callable[..., Value]:
    def bits(trace: Trace, a: Value, b: Value) -> Value:
        return apply(trace, mnemonic, a, b)

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
            a, b = to(trace, a, type, weak), Value(trace, type, weak, constant=int(b.constant))
        else:
            a, b = together(trace, a, b)
        return same(trace, a, apply(trace, mnemonic, a, b, type=a.type).register)

    shift.__doc__ = "Shift by the low bits of b, as the ISA does."
    return shift


def _invert(trace: Trace, a: Value) -> Value:
    """~a: every bit, or the bool, the other way round."""
    return apply(trace, "not", a)


_BINARY: dict[str, Function] = {
    "add": _add,
    "sub": _sub,
    "mul": mul,
    "truediv": _truediv,
    "floordiv": _floordiv,
    "mod": _mod,
    "pow": power,
    "and": _bits("and"),
    "or": _bits("or"),
    "xor": _bits("xor"),
    "lshift": _shift("shl"),
    "rshift": _shift("shr"),
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY: dict[str, Function] = {"neg": _neg, "pos": _pos, "invert": _invert}

OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: function_of(f, name) for name, f in (*_BINARY.items(), *_UNARY.items())},
    "divmod": function_of(_divmod, "divmod"),
    **{name: function_of(comparison(name), name) for name in _COMPARISONS},
}


for _name, _operator in OPERATORS.items():
    setattr(Value, f"__{_name}__", _operator)
for _name, _implementation in (*_BINARY.items(), ("divmod", _divmod)):
    setattr(Value, f"__r{_name}__", function_of(_implementation, _name, reflected=True))
