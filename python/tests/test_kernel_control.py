"""Control flow of kernels: branches, loops, and random functions beside Python's own answers."""

from __future__ import annotations

import itertools
import linecache
import operator
import random
import types
from typing import Any, Callable

import numpy as np
import pytest
from kernels import assert_same, numbers, written

import hologram
import hologram as hg


def test_mandelbrot() -> None:
    def escape(cr: Any, ci: Any, limit: int) -> Any:
        zr = zi = 0.0
        n = 0
        for _ in hologram.range(limit):
            if zr * zr + zi * zi > 4:
                break
            zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
            n += 1
        return n

    cr, ci = np.linspace(-2, 1, 23)[:, None], np.linspace(-1.5, 1.5, 17)
    got = hologram.kernel(escape)(cr, ci, 60)
    assert got.dtype == np.int64
    assert got.tolist() == [[escape(float(a), float(b), 60) for b in ci] for a in cr[:, 0]]


@pytest.mark.parametrize(
    "assignment",
    [
        "a, b = x, y",
        "a, b = b, a = y, x",
        "[a, b], *_ = (x, y), 1, 2",
        "a, *rest = x, y, 3; b = rest[0] + rest[1] + len(rest)",
        "*rest, a = x, y, 3; b = rest[0] - rest[1]",
        "a, *rest, b = x, y, 3, y; b += len(rest)",
        "a, *rest = (x,); b = y + len(rest)",
        "a, *rest, b = x, y; b += len(rest)",
        "(a, *rest), b = (x,), y; b -= len(rest)",
    ],
)
@pytest.mark.parametrize("branch", [False, True])
def test_values_go_to_names_as_pythons_do(assignment: str, branch: bool) -> None:
    lines = [part.strip() for part in assignment.split(";")]
    indent = "    " + "    " * branch
    source = "\n".join(
        [
            "def f(x, y):",
            "    a = b = 0.5",
            *["    if x > y:"] * branch,
            *[indent + line for line in lines],
            "    return a, b",
        ]
    )
    f = written(source + "\n", f"<{assignment}{branch}>")
    x, y = np.array([1.0, 5.0, -2.0]), np.array([3.0, 2.0, -7.0])
    a, b = hologram.kernel(f)(x, y)
    assert list(zip(a.tolist(), b.tolist())) == [f(*values) for values in zip(x.tolist(), y.tolist())]


def test_what_the_only_branch_left_computed_is_known_behind_it() -> None:
    @hologram.kernel
    def f(x: Any) -> Any:
        if x < 0:
            return 0.0
        else:
            pair = (x, x * 2)
            y = x + 1
        if y > 3:
            y = y * 10
        else:
            return pair[1]
        return pair[0] + pair[1] + y

    assert f(np.array([-1.0, 1, 3])).tolist() == [0, 2, 49]


def rounds(start: Any, stop: Any, step: Any) -> Any:
    n = last = 0
    for i in hologram.range(start, stop, step):
        if n == 5:
            break
        n += 1
        last = i
    return n, last


STEPS = (1, 2, 7, 200, 2**31, 2**62, 2**63, 2**64 + 1)


@pytest.mark.parametrize("type", ["i1", "u1", "i2", "u4", "i4", "i8", "u8"])
@pytest.mark.parametrize("engine", ["cpu", "interp"])
def test_a_range_of_values_has_as_many_rounds_as_pythons(type: str, engine: str) -> None:
    """Whatever the bounds: spans that are no i64, and more rounds than a LOOP has."""
    kernel = hologram.kernel(rounds, static="step")
    info = np.iinfo(type)
    few = sorted({int(v) for v in (info.min, info.min + 1, -1, 0, 1, 3, 100, 2**32 + 3, info.max - 1, info.max)})
    few = [v for v in few if info.min <= v <= info.max]
    starts, stops = (a.ravel() for a in np.meshgrid(np.array(few, type), np.array(few, type)))
    with hologram.Executor(engine) as executor:
        for size in STEPS:
            for step in (size, -size):
                n, last = kernel(starts, stops, step, executor=executor)
                expected = [list(range(int(a), int(b), step)[:5]) for a, b in zip(starts, stops)]
                assert n.tolist() == [len(r) for r in expected], step
                assert last.tolist() == [r[-1] if r else 0 for r in expected], step


def test_bounds_that_are_numbers_count_likewise() -> None:
    kernel = hologram.kernel(rounds, static="step")
    x = np.zeros(1, np.int64)
    for start, stop, step in ((-1, 2**63 - 1, 1), (0, 2**63 - 1, 2**62), (0, 2**40, 1), (2**40, -(2**40), -3)):
        assert kernel(start, stop + x, step)[0] == len(range(start, stop, step)[:5])
    assert kernel(0, np.full(1, 2**63, np.uint64), 1)[0] == 5

    @hologram.kernel
    def constant(x: Any) -> Any:
        n = 0
        for _ in hologram.range(2**40):
            if n == x:
                break
            n += 1
        for _ in hologram.range(-(2**63), 2**63 - 1):
            if n == 2 * x:
                break
            n += 1
        return n

    assert constant(np.array([3, 7])).tolist() == [6, 14]

    @hologram.kernel(static=("start", "stop", "step"))
    def known(x: Any, start: int, stop: int, step: int) -> Any:
        last = x
        for i in hologram.range(start, stop, step):
            last = 10 * last + i
        return last

    for start, stop, step in itertools.product((-2, 0, 3), (-2, -1, 0, 3, 4), (1, 2, 7, -1, -3)):
        expected = 0
        for i in range(start, stop, step):
            expected = 10 * expected + i
        assert known(x, start, stop, step)[0] == expected, (start, stop, step)


def test_a_kernel_is_no_method_and_says_so() -> None:
    class Model:
        @hologram.kernel
        def wrong(self, x: Any) -> Any:
            return x * 2

        @staticmethod
        @hologram.kernel
        def right(x: Any) -> Any:
            return x * 2

    with pytest.raises(TypeError, match=r"missing a required argument: 'x'; .* make it a staticmethod, without self"):
        Model().wrong(np.ones(2))
    assert Model().right(np.ones(2)).tolist() == [2, 2]


def test_what_a_function_on_arrays_refuses_shows_the_users_line() -> None:
    with pytest.raises(TypeError, match=r"i8 has another size\n  at .*test_kernel_control.py:\d+: hologram.bitcast"):
        hologram.bitcast(np.ones(2, np.float32), "i8")


def test_bounds_without_a_common_integer_are_refused() -> None:
    kernel = hologram.kernel(rounds, static="step")
    with pytest.raises(TypeError, match=r"hologram\.range: i64 and u64 have no common integer type; .*astype"):
        kernel(np.zeros(1, np.int64), np.ones(1, np.uint64), 1)
    with pytest.raises(ValueError, match="the number is -1; u64 goes from 0 to 18446744073709551615"):
        hologram.kernel(rounds, static=("stop", "step"))(np.zeros(1, np.uint64), -1, 1)


@pytest.mark.parametrize("constant", [False, True])
def test_more_rounds_than_a_loop_has_are_a_fault(monkeypatch: pytest.MonkeyPatch, constant: bool) -> None:
    """None of them is lost in silence; who leaves such a loop before has what Python has."""
    monkeypatch.setattr("hologram._kernel.loops.MOST", 7)

    @hologram.kernel(static="fixed")
    def f(n: Any, until: Any, fixed: Any = None) -> Any:
        c = 0
        for _ in hologram.range(n if fixed is None else fixed):
            if c == until:
                break
            c += 1
        return c

    fixed = {"fixed": 8} if constant else {}
    n = np.array([7, 8, 2**63 - 1, -(2**63)]) if not constant else np.full(4, 8)
    assert f(n, 6, **fixed).tolist() == ([6, 6, 6, 0] if not constant else [6] * 4)
    assert f(n[:1], 8, **{"fixed": 7} if constant else {}).tolist() == [7]
    with pytest.raises(
        hologram.ProgramFault,
        match=r"a loop has more than 7 rounds, .* at element \[[0-3]\] of the shape \(4,\)\n(?s:.)*for _ in",
    ) as e:
        f(n, 8, **fixed)
    assert e.value.lane == (0 if constant else 1)


def program(seed: int) -> str:
    """A function of integers x and y with loops, branches and early returns, whose values stay small."""
    r = random.Random(seed)
    names = ["x", "y", "a", "b", "c"]
    fresh = itertools.count()

    def number() -> str:
        return r.choice([*names, *names, str(r.randint(-9, 9))])

    def expression(depth: int = 2) -> str:
        if depth == 0 or r.random() < 0.3:
            return number()
        kind = r.randrange(8)
        if kind == 0:
            return f"({expression(depth - 1)} if {condition(depth - 1)} else {expression(depth - 1)})"
        if kind == 1:
            return f"({expression(depth - 1)} {r.choice(['%', '//'])} {r.choice([3, 7, -5])})"
        return f"({expression(depth - 1)} {r.choice('+-*')} {expression(depth - 1)})"

    def condition(depth: int = 2) -> str:
        kind = r.randrange(6) if depth else 5
        if kind == 0:
            return f"({condition(depth - 1)} and {condition(depth - 1)})"
        if kind == 1:
            return f"({condition(depth - 1)} or {condition(depth - 1)})"
        if kind == 2:
            return f"(not {condition(depth - 1)})"
        if kind == 3:
            return f"({number()} {r.choice(['<', '<=', '!='])} {number()} {r.choice(['<', '>', '=='])} {number()})"
        return f"({number()} {r.choice(['<', '<=', '>', '==', '!='])} {expression(1)})"

    def block(indent: int, depth: int, loop: bool) -> list[str]:
        lines = []
        pad = "    " * indent
        for _ in range(r.randint(1, 3)):
            kind = r.randrange(11)
            if kind < 4 or depth == 0:
                lines.append(f"{pad}{r.choice(names[2:])} = {expression()} % 1009")
            elif kind == 4:
                one, other = r.sample(names[2:], 2)
                lines.append(f"{pad}{one}, {other} = {other}, {expression()} % 101")
            elif kind == 5:
                lines.append(f"{pad}{r.choice(names[2:])} += {number()}")
            elif kind < 8:
                lines += [f"{pad}if {condition()}:", *block(indent + 1, depth - 1, loop)]
                if r.random() < 0.5:
                    lines += [f"{pad}elif {condition()}:", *block(indent + 1, depth - 1, loop)]
                if r.random() < 0.5:
                    lines += [f"{pad}else:", *block(indent + 1, depth - 1, loop)]
            elif kind == 8:
                i = r.choice([f"i{next(fresh)}", *names[2:]])
                bounds = r.choice([f"{expression(1)} % 5", f"-2, {number()} % 4", "7, 0, -3", f"{number()} % 3, 9, 2"])
                lines += [f"{pad}for {i} in hologram.range({bounds}):", *block(indent + 1, depth - 1, True)]
                lines.append(f"{pad}    {r.choice(names[2:])} = ({i} * 3 + {number()}) % 1009")
            elif kind == 9:
                n = f"n{next(fresh)}"
                lines += [f"{pad}{n} = {number()} % 6", f"{pad}while {n} < 9 and {condition(1)}:", f"{pad}    {n} += 2"]
                lines += block(indent + 1, depth - 1, True)
            else:
                lines.append(f"{pad}for {r.choice(names[2:])} in range({r.randint(0, 3)}):")
                lines += block(indent + 1, 0, False)
        last = r.random()
        if indent > 1 and last < 0.25:
            lines.append(
                f"{pad}return {expression()}, a"
                if last < 0.1 or not loop
                else f"{pad}{r.choice(['break', 'continue'])}"
            )
        return lines

    lines = ["def f(x, y):", "    a, b, c = 1, x, y % 7", *block(1, 3, False), "    return a + b * 3, c"]
    return "\n".join(lines) + "\n"


def test_random_programs_do_what_python_does() -> None:
    """The same source, run by Python lane by lane, and as a kernel on both engines."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(-20, 20, 40), rng.integers(-20, 20, 40)
    with hg.Executor("interp") as interp:
        for seed in range(150):
            source = program(seed)
            f = written(source, f"<random {seed}>")
            expected = [f(int(a), int(b)) for a, b in zip(x, y)]
            kernel = hologram.kernel(f)
            for executor in (None, interp):
                one, other = kernel(x, y, executor=executor)
                assert list(zip(one.tolist(), other.tolist())) == expected, source
    linecache.clearcache()


def test_random_expressions_have_the_bits_of_the_interpreter() -> None:
    """Trees of all functions, in all float types, on the engine and on the interpreter; and numpy's for exact ones."""
    exact = ["add", "sub", "mul", "truediv", "neg", "abs"]
    functions = "exp exp2 expm1 log log1p sin cos tanh sigmoid sqrt rsqrt erf relu floor round trunc".split()

    def tree(r: random.Random, depth: int, leaves: list[Any], everything: bool) -> Any:
        if depth == 0 or r.random() < 0.1:
            return r.choice([*leaves, r.choice([0.5, -2, 3, 0.1])])
        name = r.choice([*exact, *(["where", "minimum", "maximum", "fma", "clip", "mod", *functions] * everything)])
        a, b, c = (tree(r, depth - 1, leaves, everything) for _ in range(3))
        if name in ("add", "sub", "mul"):
            return getattr(operator, name)(a, b)
        if name == "truediv":
            return a / (abs(b) + 1)
        if name == "mod":
            return a % (abs(b) + 1)
        if name in ("neg", "abs"):
            return getattr(operator, name)(a)
        if name == "where":
            return hologram.where((a < b) & (c == c) | (b > 1), a, c)
        if name in ("minimum", "maximum"):
            return getattr(hologram, name)(a, b)
        if name in ("fma", "clip"):
            return getattr(hologram, name)(a, b, c * leaves[0])
        return getattr(hologram, name)(a)

    with hg.Executor("interp") as interp:
        for seed in range(120):
            dtype = ["f2", "f4", "f8"][seed % 3]
            x, y = numbers(dtype, seed, 64), numbers(dtype, seed + 1, 64)
            everything = seed % 4 != 0

            def f(x: Any, y: Any, seed: int = seed, everything: bool = everything) -> Any:
                return tree(random.Random(seed), 5, [x, y], everything) + x

            kernel = hologram.kernel(f, static=["seed", "everything"])
            got = kernel(x, y)
            assert_same(kernel(x, y, executor=interp), got, seed)
            if not everything:
                with np.errstate(all="ignore"):
                    assert_same(got, f(x, y), seed)


def test_registers_are_used_again() -> None:
    """More values than there are registers, and more conditions than predicates, one after the other."""

    @hologram.kernel
    def long(x: Any) -> Any:
        total = x * 0
        for i in range(1000):
            total = hologram.where(x > i, total + i, total - 1)
        return total

    x = np.array([-1.0, 3.5, 2000.0])
    assert long(x).tolist() == [-1000.0, 0 + 1 + 2 + 3 - 996, 499500.0]

    @hologram.kernel
    def wide(x: Any) -> Any:
        values = [x + i for i in range(300)]
        return sum(v * values[-1 - i] for i, v in enumerate(values))

    with pytest.raises(ValueError, match=r"wide: the kernel needs more than 252 registers at one place"):
        wide(x)
    with pytest.raises(ValueError, match=r"more than 65536 instructions; loops over hologram\.range"):
        hologram.kernel(lambda x: [x := x + 1 for _ in range(100000)])(x)


@pytest.mark.parametrize("n", [1, 5, 64, 1000])
def test_remainders_in_loops_that_lanes_leave_one_by_one(n: int) -> None:
    """The expansion of a remainder has a loop of its own, inside the one that some lanes have left."""

    @hg.kernel
    def reduce(x):
        while x > 1:
            x = x % 3 - 1
        return x

    x = np.arange(3, 3 + n, dtype=np.float32)
    expected = x.copy()
    while (expected > 1).any():
        expected = np.where(expected > 1, expected % 3 - 1, expected)
    assert np.array_equal(reduce(x), expected)


def counters_with_a_value_before(x: Any) -> Any:
    i = j = k = -1
    for i in hologram.range(x):  # noqa: B007 (its value is the loop's result)
        pass
    for j in hologram.range(3):
        for k in hologram.range(j, x):
            k = k * 10
            if k > 20:
                break
    last = None
    for last in hologram.range(2):
        j += last
    for j in hologram.range(x, 3, 2):
        x += j
    return x + 3 * i + 100 * j + 10000 * k


def test_a_counter_with_a_value_before_keeps_it_after_no_rounds() -> None:
    x = np.arange(-2, 6)
    f = counters_with_a_value_before
    assert hologram.kernel(f)(x).tolist() == [f(int(v)) for v in x]


def newton(a: Any) -> Any:
    x, k = a, 0
    while k < 20:
        better = 0.5 * (x + a / x)
        if abs(better - x) <= 1e-12 * x:
            break
        x = better
        k += 1
    return x, k


def skipping(x: Any, limit: Any) -> Any:
    k = total = 0
    while k < 5:
        k += 1
        if x > k:
            continue
        j = 0
        while j < 3:
            j += 1
            if x + j > limit:
                break
            total += k
    return total


def test_a_loop_whose_condition_is_known_may_be_left_by_lanes() -> None:
    """It stays a loop then: the trace that unrolled it begins anew."""
    x = np.array([2.0, 9.0, 1.0])
    roots, rounds = hologram.kernel(newton)(x)
    assert list(zip(roots.tolist(), rounds.tolist())) == [newton(float(v)) for v in x]
    assert (np.asarray(roots) - np.sqrt(x)).max() < 1e-12
    values = np.arange(-2, 8)
    assert hologram.kernel(skipping)(values, 4).tolist() == [skipping(int(v), 4) for v in values]

    @hologram.kernel
    def twice(x: Any) -> Any:  # and inside of another
        return newton_of(x)[0] + newton_of(x)[1]

    assert twice(x).tolist() == [sum(newton(float(v))) for v in x]
    with pytest.raises(ValueError, match=r"`break` in some lanes only: loop over hologram.range"):
        hologram.kernel(unrolled)(x)


newton_of = hologram.kernel(newton)


def unrolled(x: Any) -> Any:
    for _ in range(3):
        if x > 1:
            break
        x = x * 2
    return x


def loops_with_ends(x: Any) -> Any:
    n = 0
    seen: list[int] = []
    while n < 10:
        n += 1
        if n == 2:
            continue
        seen.append(n)
        if n == 5:
            break
    else:
        seen.append(100)
    while n < 7:
        n += 1
    else:
        seen.append(n)
    for item in seen:
        x = 3 * x + item
    return x


def loops_that_are_left(x: Any) -> Any:
    n = 0
    while True:
        n += 1
        while n % 7:
            n += 1
            if n == 5:
                break
        if n > 20:
            return x + n


def elements_and_attributes(x: Any) -> Any:
    things: list[Any] = [x, x, x, x]
    box = types.SimpleNamespace(a=x)
    table: dict[str, Any] = {}
    things[1] = x + 1
    things[2:4] = [x * 2, x * 3]
    box.a = things[1] * 5
    box.b, table["k"], (first, *rest) = box.a + 1, x - 7, things
    table["k"] += 3
    box.b -= table["k"]
    return box.a + box.b * things[0] - table["k"] * rest[1] + first


def names_of_other_things(x: Any) -> Any:
    y = x
    if x > 0:
        label = "plus"
        y = y * 2
    else:
        label = "minus"
        y = y - 1
    label = [y, x]
    for item in label:
        y = y + item
    return y


@pytest.mark.parametrize(
    "function", [loops_with_ends, loops_that_are_left, elements_and_attributes, names_of_other_things]
)
def test_what_runs_while_tracing_is_python(function: Callable[..., Any]) -> None:
    """What does not depend on lanes does as it would without a kernel."""
    x = np.array([-2.5, 0, 1, 3])
    assert hologram.kernel(function)(x).tolist() == [function(v) for v in x]


def test_a_loop_that_is_found_not_to_be_unrolled_begins_with_no_types() -> None:
    """What its variables were when it was unrolled is of others."""

    def f(x: Any) -> Any:
        k = 0
        while k < 3:
            y = 0.5
            if x > 1:
                y = x * 2
            if y > k:
                break
            k += 1
        return k

    x = np.array([-1, 0.5, 1, 1.5, 4], np.float32)
    found = hologram.kernel(f)(x)
    assert found.dtype == np.int64
    assert found.tolist() == [f(each) for each in x.tolist()]


@pytest.mark.parametrize(
    "expression",
    [
        *("-1 < x < 1", "not x > 1", "x > 1 and x < 3", "x < 0 or x > 1", "1 if x > 0 else 2", "x if x > y else y"),
        *("x > 0 != False", "3 in (1, 3)", "3 not in (1, 3)", "(x < 1) == (y < 1)", "[x, y][x.ndim]"),
    ],
)
def test_a_function_of_one_expression_decides_for_each_lane(expression: str) -> None:
    """Whether Python runs it or not: where it would decide it can't."""
    f = written(f"def f(x, y):\n    z = {expression}\n    return z\n", f"<{expression}>")
    x, y = np.array([-2.0, -1, 0, 0.5, 1, 2, 3]), np.array([1.0, -3, 2, 0.5, 0, 3, 1])
    expected = [f(*both) for both in zip(x, y)]
    assert np.asarray(hologram.kernel(f)(x, y)).tolist() == expected
