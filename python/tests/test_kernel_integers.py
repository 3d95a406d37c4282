"""Ints of Python's in kernels: they are Python's own until they meet an array's type, and are never cut to it."""

from __future__ import annotations

import linecache
import math
import random
import warnings
from typing import Any, Callable, Union

import numpy as np
import pytest
from kernels import assert_same, numpy_2, written

import hologram
import hologram as hg
from hologram._dtypes import dtype_of

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
Refused = (ValueError, hologram.ProgramFault)


def brighter(p: Any, level: Any, margin: Any) -> Any:
    return p > level + margin


def larger_than_the_square(x: Any, n: Any) -> Any:
    return x > n * n


def add_hundreds(x: Any, n: Any) -> Any:
    return x + n * 100


def under(x: Any, n: Any) -> Any:
    return x > n - 10


def cubed(x: Any, n: Any) -> Any:
    return x * n**3


def to_a_large_power(x: Any, n: Any) -> Any:
    return x + n**100_001


def within(x: Any, n: Any) -> Any:
    return hologram.clip(x, n - 300, n + 300)


def below_what_is_counted(x: Any) -> Any:
    c = 0
    for _ in hologram.range(10):
        c += 100
    return x < c


def plus_what_is_counted(x: Any, n: Any) -> Any:
    c = 0
    for _ in hologram.range(n):
        c += 100
    return x + c


def rounds(n: Any, m: Any) -> Any:
    s = 0
    for _ in hologram.range(n, m * 100):
        s += 1
    return s


def sum_of_the_range(n: Any) -> Any:
    s = 0
    for i in hologram.range(n):
        s += i
    return s


def array(dtype: str, *values: int) -> Any:
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (brighter, (array("u1", 0, 100, 255), 250, 10), [False] * 3),
        (brighter, (array("u1", 0, 100, 255), 250, -251), [True] * 3),
        (larger_than_the_square, (array("i4", 2_000_000_000), 100_000), [False]),
        (larger_than_the_square, (array("i8", 2**63 - 1, 0), 10**40), [False, False]),
        (larger_than_the_square, (array("u8", 2**64 - 1, 2**64 - 2), 2**32), [False, False]),
        (under, (array("u8", 5, 2**64 - 1), 3), [True, True]),
        (under, (array("i1", 5, -128), 1000), [False, False]),
        (add_hundreds, (array("i1", 27, -128), 1), [127, -28]),
        (cubed, (array("f8", 1), 10**7), [1e21]),
        (cubed, (array("f4", 1), -(10**7)), [np.float32(-1e21)]),
        *((to_a_large_power, (array("i1", 0, 100), n), [n, 100 + n]) for n in (-1, 0, 1)),
        (within, (array("i1", 50, 100), 0), [50, 100]),
        (within, (array("u1", 50, 100), 0), [50, 100]),
        (within, (array("i1", -128, 100), 290), [-10, 100]),
        (below_what_is_counted, (array("i1", -5, 5),), [True, True]),
        (below_what_is_counted, (array("u8", 999, 1000, 2**64 - 1),), [True, False, False]),
        (plus_what_is_counted, (array("i1", -5, 5), 1), [95, 105]),
        (plus_what_is_counted, (array("u8", 2**64 - 1), 3), [299]),
        (rounds, (array("i1", 100, 0), 3), [200, 300]),
        (rounds, (array("u1", 100, 0), -1), [0, 0]),
        (sum_of_the_range, (array("u1", 100, 200, 255),), [sum(range(n)) for n in (100, 200, 255)]),
    ],
)
def test_an_int_has_the_value_that_python_gives_it(
    function: Callable[..., Any], arguments: tuple[Any, ...], expected: Any
) -> None:
    assert hologram.kernel(function)(*arguments).tolist() == expected


@pytest.mark.parametrize(("dtype", "digits"), [("f4", 24), ("bf16", 8), ("f8", 53)])
@pytest.mark.parametrize("bits", [60, 63, 64, 70, 100])
def test_an_int_that_meets_floats_is_rounded_once(dtype: str, digits: int, bits: int) -> None:
    """As an argument, computed of one, and in the kernel's text: of what lies beside the middle of two numbers."""
    one = np.ones(1, dtype_of(dtype))
    given, computed = hologram.kernel(lambda x, n: x * n), hologram.kernel(lambda x, n: x * (n + 1))
    step = 1 << (bits + 1 - digits)
    for middle in ((1 << bits) + step // 2, (1 << bits) + step + step // 2):
        for number in (middle - 1, middle, middle + 1):
            below = number // step * step
            upper = number - below > step // 2 or (number - below == step // 2 and below // step % 2)
            for sign in (1, -1):
                value, expected = sign * number, one * one.dtype.type(float(sign * (below + step * bool(upper))))
                assert_same(given(one, value), expected, value)
                assert_same(computed(one, value - 1), expected, value)
                assert_same(hologram.kernel(lambda x: x * value)(one), expected, value)  # noqa: B023


def test_a_number_of_the_call_that_a_type_does_not_hold_is_refused() -> None:
    kernel = hologram.kernel(add_hundreds)
    line = add_hundreds.__code__.co_firstlineno + 1
    with pytest.raises(
        ValueError,
        match=rf"add_hundreds: n \* 100 is 300, and meets i8 here, which goes from -128 to 127\n  at .*:{line}: ",
    ):
        kernel(np.zeros(1, np.int8), 3)
    with pytest.raises(ValueError, match=r"-n is an int of 201 bits, and meets u64 here"):
        hologram.kernel(lambda x, n: x + -n)(np.zeros(1, np.uint64), 2**200)
    with pytest.raises(ValueError, match="f64 here, which goes from -inf to inf"):
        hologram.kernel(cubed)(np.ones(1), 10**200)
    with pytest.raises(ValueError, match="more than 65536 bits"):
        hologram.kernel(lambda x, n: x < 1 << n)(np.zeros(1, np.int8), 10**9)
    with pytest.raises(ValueError, match=r"n \*\* 100001 has more than 65536 bits"):
        hologram.kernel(to_a_large_power)(np.zeros(1, np.int8), 2)
    with pytest.raises(ValueError, match=r"x \* 2 is -6, and meets u32 here"):
        hologram.kernel(lambda x: x * 2)(-3, out=np.zeros(2, np.uint32))


def test_an_int_of_a_lane_that_a_type_does_not_hold_is_a_fault() -> None:
    kernel = hologram.kernel(plus_what_is_counted)
    line = plus_what_is_counted.__code__.co_firstlineno + 4
    with pytest.raises(
        hologram.ProgramFault,
        match=rf"an int of Python's leaves the type that it meets here: i8 goes from -128 to 127 .*\n.*:{line}: ",
    ) as caught:
        kernel(np.zeros(3, np.int8), np.array([1, 2, 1]))
    assert caught.value.lane == 1

    @hologram.kernel
    def count(x: Any) -> Any:
        n = 0
        while n < x:
            n += 1
        return n

    out = np.zeros(2, np.uint8)
    count(np.array([3, 255]), out=out)
    assert out.tolist() == [3, 255]
    with pytest.raises(hologram.ProgramFault, match="u8 goes from 0 to 255"):
        count(np.array([3, 256]), out=out)
    cast = hologram.kernel(lambda x, n: x + hologram.cast(n * n, x.dtype))
    assert cast(np.zeros(1, np.uint8), np.array([20])).tolist() == [144]  # who says so has it cut


def test_ints_whose_ends_are_known_need_no_check() -> None:
    """Choices of constants, counters of constant ranges and what comes of them: programs stay straight."""

    def function(x: Any, y: Any) -> Any:
        sign = 1 if y > 0 else -1
        level = 100
        if y > 2:
            level = 27
        total = x * sign + level % 5 - level // 50
        for i in hologram.range(1, 6):
            total += i - 2 * (i % 3)
        return total, hologram.where(y > 0, 255, 0) + x.astype("i2")

    kernel = hologram.kernel(function)
    x, y = np.array([3, 4, 5], np.int8), np.array([-1.0, 1.0, 3.0])
    total, other = kernel(x, y)
    assert total.tolist() == [-3 - 2 + 3, 4 - 2 + 3, 5 + 2 + 3]
    assert total.dtype == np.int8
    assert other.tolist() == [3, 259, 260]
    assert other.dtype == np.int16
    assert "div.u32" not in kernel.atlas


@pytest.mark.parametrize(
    "expression",
    [
        "i",
        "-i",
        "i + 1",
        "1 - i",
        "i * -2",
        "i // 3",
        "i // -3",
        "i % 999",
        "i % -999",
        "larger(i, 5)",
        "smaller(-i, 5)",
    ],
)
def test_what_comes_of_a_counter_is_refused_where_it_leaves_a_type(expression: str) -> None:
    """However it is known how far the counter goes: i8 holds what comes of the first round, not of the last."""
    f = written(
        f"def f(x):\n    for i in hologram.range(1, 901, 899):\n        x += {expression}\n    return x\n", expression
    )
    f.__globals__.update(smaller=hologram.minimum, larger=hologram.maximum)
    with pytest.raises(Refused, match="an int of Python's leaves the type"):
        hologram.kernel(f)(np.zeros(2, np.int8))
    i = 900
    wide = eval(expression, {"i": i, "smaller": min, "larger": max}) + eval(
        expression, {"i": 1, "smaller": min, "larger": max}
    )
    assert hologram.kernel(f)(np.zeros(2, np.int16)).tolist() == [wide, wide]


def test_a_number_that_is_used_as_several_types_is_given_as_each() -> None:
    kernel = hologram.kernel(lambda x, y, n: (x * (n + 1), y * (n + 1), y > n + 1, n * n, n > 3))
    a, b, c, d, e = kernel(np.ones(2, np.float32), np.ones(2, np.int16), 1000)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([1001.0] * 2, [1001] * 2, [False] * 2)
    assert (d.tolist(), e.tolist()) == ([10**6] * 2, [True] * 2)
    assert (a.dtype, b.dtype, d.dtype) == (np.float32, np.int16, np.int64)
    assert kernel.atlas.count("; n + 1") == 2


def test_numbers_alone_are_computed_in_python() -> None:
    f = hologram.kernel(lambda a, b: (a * b - 1, a // 7, a % -7, a**3, ~a, a << 3, a >> 2, a & b, a ^ b, abs(a), a < b))
    rests = hologram.kernel(lambda a, b: (hologram.rem(a, 7), hologram.rem(b, -7), hologram.rem(a, b * 0 + 9)))
    for a, b in ((5, 9), (-5, 9), (1 << 20, -(1 << 15)), (-7, 7), (0, -1)):
        expected = a * b - 1, a // 7, a % -7, a**3, ~a, a << 3, a >> 2, a & b, a ^ b, abs(a), a < b
        assert tuple(value.item() for value in f(a, b)) == expected
        assert tuple(value.item() for value in rests(a, b)) == (math.fmod(a, 7), math.fmod(b, -7), math.fmod(a, 9))
    doubled = hologram.kernel(repeated)
    assert doubled(np.zeros(1), 1).tolist() == [float(2**60)]
    for _ in range(2):  # a program that is there already
        assert hologram.kernel(brighter)(np.array([7], np.uint8), 3, 3).tolist() == [True]
    # What lanes come to divide by may be 0: they tell it.
    with pytest.raises(hologram.ProgramFault, match="division by zero"):
        hologram.kernel(lambda x, n: x + 7 // n)(np.zeros(2, np.int64), 0)


def repeated(x: Any, n: Any) -> Any:
    for _ in range(60):
        n = n + n
    return x + n


# ---- random functions beside Python's own answers


def smaller(a: Any, b: Any) -> Any:
    """What hologram.minimum is to numpy's and Python's integers; so ``larger``."""
    typed = next((v for v in (a, b) if isinstance(v, np.integer)), None)
    found = min(int(a), int(b))
    return found if typed is None else typed.dtype.type(found)


def larger(a: Any, b: Any) -> Any:
    typed = next((v for v in (a, b) if isinstance(v, np.integer)), None)
    found = max(int(a), int(b))
    return found if typed is None else typed.dtype.type(found)


def function(seed: int, dtype: str) -> str:
    """A function of integers x of a dtype and Python's ints n, m, as source.

    Its expressions are of three kinds: of ints alone that are known at the call, of ints that lanes count, and of
    integers of the dtype; what is of the first two has values near the ends of types.
    """
    r = random.Random(f"{seed} {dtype}")
    ends = np.iinfo(dtype)

    def constant() -> str:
        return str(r.choice([r.randint(-9, 9), int(ends.min), int(ends.max), int(ends.max) // 2, 255, 2**63, -(2**65)]))

    def known(depth: int) -> str:
        if depth == 0:
            return r.choice(["n", "m", "n", constant()])
        a, b = known(depth - 1), known(depth - 1)
        choices = [f"({a} {r.choice('+-*&|^')} {b})"] * 3
        choices += [f"({a} {r.choice(['//', '%'])} {r.choice([3, -7, 100])})", f"(-{a})", f"(n ** {r.randint(0, 3)})"]
        choices += [f"({a} {r.choice(['<<', '>>'])} {r.randint(0, 9)})", f"smaller({a}, n)", f"larger(m, {b})"]
        choices += [f"({a} if n {r.choice(['<', '>=', '=='])} m else {b})"]
        return r.choice(choices)

    def counted(depth: int) -> str:
        if depth == 0:
            return r.choice(["c", "k", "i", str(r.randint(-300, 300))])
        a, b = counted(depth - 1), counted(depth - 1)
        choices = [f"({a} {r.choice('+-*')} {b})"] * 2 + [f"({a} % {r.choice([7, -5, 100])})", f"(-{a})"]
        choices += [f"({a} if {condition(True)} else {b})", f"smaller({a}, {b})", f"larger({a}, {b})", f"({a} // 3)"]
        return r.choice(choices)

    def condition(short: bool = False) -> str:
        compare = r.choice(["<", "<=", ">", ">=", "==", "!="])
        a, b = typed(0 if short else r.randrange(2)), r.choice([known, known, counted])(r.randrange(3))
        return f"({a} {compare} {b})" if r.random() < 0.7 else f"({b} {compare} {a})"

    def typed(depth: int) -> str:
        if depth == 0:
            return "x"
        a = typed(depth - 1)
        b = r.choice([typed, known, counted, counted])(r.randrange(3) if r.random() < 0.3 else 0)
        a, b = (a, b) if r.random() < 0.6 else (b, a)
        if "x" not in a + b:
            b = "x"
        return r.choice([f"({a} {r.choice('+-*&|^')} {b})"] * 3 + [f"smaller({a}, {b})", f"larger({a}, {b})"])

    bounds = r.choice(["3", "5, 0, -2", *(["x % 4", "-2, x % 3"] if dtype != "u8" else [])])  # u8's counts in u64
    lines = [
        "def f(x, n, m):",
        f"    c = k = i = {r.randint(-3, 3)}",
        f"    for i in hologram.range({bounds}):",
        f"        c += {r.choice(['1', '50', 'i', '100 * i', '-70'])}",
        f"    if {condition()}:",
        f"        k = {counted(1)}",
        f"    return {condition()}, {condition()}, {typed(2)}",
    ]
    return "\n".join(lines) + "\n"


def answer(f: Callable[..., Any], *arguments: Any) -> Union[tuple[Any, ...], None]:
    """Return Python's answer, or None where a number leaves a type."""
    try:
        with np.errstate(all="ignore"):
            found: tuple[Any, ...] = f(*arguments)
    except OverflowError:
        return None
    return found


@numpy_2
@pytest.mark.parametrize("dtype", INTEGERS)
def test_random_functions_of_ints_give_pythons_answer_or_an_error(dtype: str) -> None:
    """Or 64 bits are not enough for what a lane counts, or what is known at a call has to be a number of a lane."""
    ends = np.iinfo(dtype)
    x = np.array([0, 1, 5, 100, ends.max // 2, ends.max - 1, ends.max, ends.min, ends.min + 1], dtype)
    answers = errors = 0
    with warnings.catch_warnings(), hg.Executor("interp") as interp:
        warnings.simplefilter("ignore")
        for seed in range(60):
            source = function(seed, dtype)
            f = written(source, f"<ints {dtype} {seed}>")
            f.__globals__.update(smaller=hologram.minimum, larger=hologram.maximum)
            kernel = hologram.kernel(f)
            reference = written(source, f"<ints {dtype} {seed} again>")
            reference.__globals__.update(smaller=smaller, larger=larger)
            for n, m in ((3, -2), (int(ends.max), 1), (-129, 300), (2**40, -(2**62))):
                what = f"{source}\nn, m = {n, m}, {dtype}"
                each = [answer(reference, value, n, m) for value in x]
                if any(values is None for values in each):
                    errors += 1
                    with pytest.raises(Refused):
                        pytest.fail(f"{what}\n{kernel(x, n, m)}, Python: {each}")
                    continue
                try:
                    found = kernel(x, n, m, executor=interp if seed % 7 == 0 else None)
                except Refused as error:
                    raise AssertionError(what) from error
                answers += 1
                for got, wanted in zip(found, zip(*[values for values in each if values is not None])):
                    assert got.tolist() == [value.item() if hasattr(value, "item") else value for value in wanted], what
                assert found[2].dtype == x.dtype
                assert_same(found[2], np.array(list(zip(*each))[2], dtype), what)  # type: ignore[arg-type]
    linecache.clearcache()
    assert answers > 20
    assert errors > 10


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_quotient_by_zero_is_zero_beside_the_fault(dtype: str) -> None:
    """Whether the zero is in the text, a number of the call or an element."""
    x, out = np.array([5, 0, 100], dtype), np.ones(3, dtype)
    for f, more in ((lambda x: x // 0, ()), (lambda x, n: x // n, (0,)), (lambda x, n: x // n, (x * 0,))):
        for sign in (1, -1) if dtype[0] == "i" else (1,):
            out[:] = 7
            with pytest.raises(hologram.ProgramFault, match="division by zero"):
                hologram.kernel(f)(x * sign, *more, out=out)
            assert out.tolist() == [0, 0, 0]
