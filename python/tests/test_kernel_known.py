"""Ints that are known at a call, or counted in known bounds, in every operation that kernels have of such."""

from __future__ import annotations

import itertools
import linecache
import operator
import random
from types import SimpleNamespace
from typing import Any, Callable, Union

import numpy as np
import pytest
from kernels import written

import hologram
from hologram._kernel import integers


def shifted(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Python has no shift by a negative count: kernels go by its low bits, as those of an i64."""
    return lambda a, count: shift(a, count if count >= 0 else count & 63)


def rest(a: int, b: int) -> int:
    return a % abs(b) if a >= 0 else -(-a % abs(b))


OPERATIONS: dict[str, tuple[str, str, Callable[..., Any]]] = {
    # Kinds of operands, how it is written, what Python makes of it. Kinds are i: an int, k: a constant but 0,
    # e: an exponent, s: how far to shift, m: an int or a truth.
    "add": ("ii", "({} + {})", operator.add),
    "sub": ("ii", "({} - {})", operator.sub),
    "mul": ("ii", "({} * {})", operator.mul),
    "floordiv": ("ik", "({} // {})", operator.floordiv),
    "mod": ("ik", "({} % {})", operator.mod),
    "rem": ("ik", "hologram.rem({}, {})", rest),
    "pow": ("ie", "({} ** {})", operator.pow),
    "and": ("mm", "({} & {})", operator.and_),
    "or": ("mm", "({} | {})", operator.or_),
    "xor": ("mm", "({} ^ {})", operator.xor),
    "lshift": ("is", "hologram.left({}, {})", shifted(operator.lshift)),
    "rshift": ("is", "hologram.right({}, {})", shifted(operator.rshift)),
    "neg": ("i", "(-{})", operator.neg),
    "invert": ("i", "(~{})", operator.invert),
    "abs": ("i", "abs({})", abs),
    "relu": ("i", "hologram.relu({})", lambda a: max(a, 0)),
    "square": ("i", "np.square({})", lambda a: a * a),
    "minimum": ("ii", "hologram.minimum({}, {})", min),
    "maximum": ("ii", "hologram.maximum({}, {})", max),
    "where": ("mmm", "hologram.where({}, {}, {})", lambda condition, a, b: a if condition else b),
    **{name: ("mm", f"({{}} {text} {{}})", getattr(operator, name)) for name, text in (
        ("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="),
    )},
}  # fmt: skip
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge")
PYTHON = {
    "np": SimpleNamespace(square=OPERATIONS["square"][2]),
    "hologram": SimpleNamespace(
        left=OPERATIONS["lshift"][2],
        right=OPERATIONS["rshift"][2],
        **{name: OPERATIONS[name][2] for name in ("rem", "relu", "minimum", "maximum", "where")},
    ),
}
"""What the functions are in Python; shifts are operators in kernels."""

NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    -7,
    8,
    63,
    -64,
    100,
    -1001,
    2**31,
    -(2**40) - 3,
    2**63 - 1,
    -(2**63),
    2**64,
    3**50,
    -(10**30),
]
CONSTANTS = ["1", "-1", "7", "-7", "8", "1000", "(-(2**70))"]


def test_every_operation_on_ints_that_are_known_is_here() -> None:
    """Those that kernels compute in Python: one that comes to them has to come here too."""
    assert OPERATIONS.keys() == integers._EXACT.keys()


def expression(r: random.Random, name: str, depth: int) -> str:
    """An operation on operands of its kinds, made of n, m and constants; the first is no constant."""

    def truth() -> str:
        return expression(r, r.choice(TRUTHS), depth - 1) if depth else r.choice(["(n < m)", "(m == 7)"])

    def integer(place: int) -> str:
        if not depth or r.random() < 0.3:
            return r.choice(["n", "m", "n", "m", r.choice(CONSTANTS) if place else "m"])
        return expression(r, r.choice([each for each in OPERATIONS if each not in TRUTHS]), depth - 1)

    def operand(place: int, kind: str) -> str:
        if kind == "k":
            return r.choice(CONSTANTS)
        if kind == "e":
            return str(r.randint(0, 5))
        if kind == "s":
            return r.choice([str(r.randint(0, 63)), f"({r.choice('nm')} % {r.randint(1, 300)} - {r.randint(0, 70)})"])
        return truth() if kind == "m" and r.random() < 0.4 else integer(place)

    kinds, text, _ = OPERATIONS[name]
    return text.format(*itertools.starmap(operand, enumerate(kinds)))


def shifts(source: str) -> str:
    """The source as kernels have it, where shifts are operators."""
    for name, function in (("left", "lshift"), ("right", "rshift")):
        source = source.replace(f"hologram.{name}(", f"operator.{function}(")
    return source


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_comes_of_ints_that_are_known_is_pythons(name: str) -> None:
    """Of every operation, and whatever its operands come of, also where 64 bits hold neither them nor the result."""
    r = random.Random(name)
    told = 0
    for seed in range(12):
        source = expression(r, name, seed % 3)
        # The truth of it, its low digits, how large it is, and what a float makes of it.
        source = (
            f"{source} != 0, ({source} + 0) % 1000000007, "
            f"hologram.maximum(hologram.minimum({source}, 2**62), -5), {source} + 0.5"
        )
        f = written(f"def f(n, m):\n    return {shifts(source)}\n", f"<known {name} {seed}>")
        f.__globals__.update(operator=operator, np=np)
        kernel = hologram.kernel(f)
        for n, m in itertools.chain(zip(NUMBERS, NUMBERS[::-1]), zip(NUMBERS, NUMBERS[1:]), zip(NUMBERS, NUMBERS)):
            try:
                expected = eval(source, {**PYTHON, "n": n, "m": m})
            except OverflowError:  # a float does not hold it
                with pytest.raises(ValueError):
                    kernel(n, m)
                continue
            try:
                found = kernel(n, m)
            except ValueError as error:
                assert "more than 65536 bits" in str(error) or "is an int of" in str(error), (source, n, m)
                continue
            told += 1
            assert [value.item() for value in found] == list(expected), (source, n, m)
    linecache.clearcache()
    assert told > 300


# ---- counters


RANGES = ["-3, 4, 3", "0, 3", "2, 5", "7, 8", "-5, -4", "0, 1", "3, -4, -3", "-9, -6"]
COUNTED = [
    "({} + {})", "({} - {})", "({} * {})", "hologram.minimum({}, {})", "hologram.maximum({}, {})", "({} % {})",
    "({} // {})", "hologram.where(i > j, {}, {})", "hologram.where(y > 0, {}, {})", "(-{})", "(+{})", "abs({})",
]  # fmt: skip
LEAVES = ["i", "j", "i", "j", "3", "-3", "11", "1", "-1", "(-(2**20))", "(2**20)", "0"]


def counted(r: random.Random, depth: int) -> str:
    if not depth:
        return r.choice(LEAVES)
    text = r.choice(COUNTED)
    first = counted(r, depth - 1)
    while first in LEAVES[4:]:
        first = counted(r, depth - 1)
    return text.format(first, counted(r, r.randrange(depth)))


def values_of(source: str, outer: str, inner: str, y: int) -> Union[list[int], None]:
    """All that an expression of counters is, or None where something is divided by 0."""
    counters = itertools.product(eval(f"range({outer})"), eval(f"range({inner})"))
    try:
        return [eval(source, {**PYTHON, "i": i, "j": j, "y": y}) for i, j in counters]
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("depth", [1, 2])
def test_what_comes_of_counters_is_refused_just_where_it_leaves_a_type(depth: int) -> None:
    """Moved so that its largest or smallest value is the last that an i8 holds, or one more than that."""
    r = random.Random(depth)
    whole = refused = 0
    pairs = [(text.format("i", "j"), inner, end) for text in COUNTED for inner in RANGES for end in (1, 2) * 2]
    for seed in range(len(pairs)):
        source, inner, end = pairs[seed]
        outer = r.choice(RANGES)
        if depth > 1:
            source, end = counted(r, depth), r.randrange(3)
        both = [values_of(source, outer, inner, y) for y in (0, 1)]
        known = [value for values in both for value in values or []]
        move = (0, 127 + r.randrange(2) - max(known), -128 - r.randrange(2) - min(known))[end] if known else 0
        source = f"({source} + {move})"
        f = written(
            "def f(x, y):\n"
            "    z = x\n"
            f"    for i in hologram.range({outer}):\n"
            f"        for j in hologram.range({inner}):\n"
            f"            z = hologram.maximum(z, (x & 0) + {source})\n"
            "    return z\n",
            f"<counted {depth} {seed}>",
        )
        kernel = hologram.kernel(f)
        for y in (0, 1):
            values, x = values_of(source, outer, inner, y), np.array([-128], np.int8)
            what = f"{source}, i of {outer}, j of {inner}, y = {y}"
            if values and -128 <= min(values) and max(values) <= 127:
                whole += 1
                assert kernel(x, np.array([y])).tolist() == [max(values)], what
            else:
                refused += 1
                with pytest.raises((hologram.ProgramFault, ValueError)):
                    pytest.fail(f"{what}: {kernel(x, np.array([y]))}, Python: {values}")
    linecache.clearcache()
    assert whole > 50
    assert refused > 50


@pytest.mark.parametrize("end", [127, -128])
@pytest.mark.parametrize("counters", ["-4, 5", "0, 7", "-9, -6", "5, -6, -5"])
@pytest.mark.parametrize(
    "source",
    [
        *("i", "-i", "+i", "i + 3", "3 - i", "i * 5", "i * -5", "i % 7", "i % 1", "i // 3", "(i - 20) // 7"),
        *("hologram.minimum(i, 2)", "hologram.maximum(i, -2)", "hologram.where(i > 0, i, 1)", "i % 3 - i // 2 * 2"),
    ],
)
def test_the_last_value_of_a_counter_that_a_type_holds_is_held(source: str, counters: str, end: int) -> None:
    """And the one behind it is refused, whichever operation it comes of."""
    values = [eval(source, {**PYTHON, "i": i}) for i in eval(f"range({counters})")]
    last = max(values) if end > 0 else min(values)
    for beyond in (0, 1 if end > 0 else -1):
        body = f"    for i in hologram.range({counters}):\n        s = (x & 0) + ({source} + {end + beyond - last})\n"
        body += f"        found = hologram.{'maximum' if end > 0 else 'minimum'}(found, s)\n    return found\n"
        f = written(f"def f(x):\n    found = x\n{body}", f"<last {beyond} {source}>")
        x = np.array([~end], np.int8)
        if beyond:
            with pytest.raises(hologram.ProgramFault, match="an int of Python's leaves the type"):
                pytest.fail(f"{hologram.kernel(f)(x)}")
        else:
            assert hologram.kernel(f)(x).tolist() == [end]
    linecache.clearcache()


def test_negative_powers_of_ints_are_refused_as_of_arrays() -> None:
    for kernel in (
        hologram.kernel(lambda n: n**-1),
        hologram.kernel(lambda n: n**-2),  # on a line of its own: before Python 3.11 two are one
    ):
        for n in (1, 3, np.array([3])):
            with pytest.raises(ValueError, match="integers to the negative power"):
                kernel(n)
