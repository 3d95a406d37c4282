"""What kernels refuse, and how they say so."""

from __future__ import annotations

import itertools
import operator
import re
from typing import Any, Callable

import numpy as np
import pytest
from kernels import assert_same, numbers, written

import hologram
import hologram as hg


def keep(things: list[Any], thing: Any) -> Any:
    things.append(thing)
    return thing


def with_if_in_helper(x: Any) -> Any:
    return 1 if x > 0 else 2


def mistakes() -> list[tuple[Any, str]]:
    import math

    h = hologram
    found: list[tuple[Any, str]] = []

    def case(text: str) -> Callable[[Any], Any]:
        return lambda function: found.append((function, text))

    case("a Python float can't be had of a value .* not math's")(lambda x: math.exp(x))
    case(r"an index can't be had of a value .* name the argument in static=")(lambda x: sum(range(x)))
    case("the truth can't be had of a value .* hologram.where")(lambda x: with_if_in_helper(x))
    case("the truth can't be had of a value .* hologram.minimum and maximum for Python's min and max")(
        lambda x: max(x, 1)
    )
    case("work in with_if_in_helper if it is decorated with @hologram.kernel")(lambda x: with_if_in_helper(x))
    case("iteration can't be had of a value")(lambda x: sum(x))
    case(r"iteration can't be had of a value .* hologram.minimum\(a, b\)")(lambda x: min(x))
    case("min expected at least 1 argument, got 0")(lambda x: min() + x)  # type: ignore[call-overload]
    case("abs.. takes exactly one argument")(lambda x: abs(x, 1))  # type: ignore[call-arg]
    case(r"range.. arg 3 must not be zero\n  at ")(lambda x: [x for _ in range(0, 3, 0)])
    case(r"`in` can't be had of a value .*; compare it with each, as by \(x == 1\) \| \(x == 2\), or with bounds")(
        lambda x: 1 if x in (1, 2) else 0
    )
    case("`in` can't be had of a value")(lambda x: x not in [1, 2])
    case("`in` can't be had of a value")(lambda x: 1 if x in {1, 2} else 0)
    case("`in` can't be had of a value")(lambda x: 0 if 1 in (x, 2) else 1)
    case("`in` can't be had of a value")(lambda x: 0 if 0 < x in (1, 2) else 1)
    case("an element can't be had of a value .* shifted views")(lambda x: x[1:])
    case("the length can't be had of a value")(lambda x: len(x))
    case("a numpy array can't be had of a value")(lambda x: np.float32(x))
    case("Python's round can't be had of a value .* hologram.round")(lambda x: round(x))
    case(r"Python's round can't be had of a value .*; to digits round hologram.round\(x \* 100\) / 100")(
        lambda x: round(x, 2)
    )
    case(r"round takes 1 argument \(x\), got 2; to digits round hologram.round\(x \* 100\) / 100")(
        lambda x: h.round(x, 2)
    )
    case(r"minimum takes 2 arguments .*, got 3; of more it is minimum\(minimum\(a, b\), c\)")(
        lambda x: h.minimum(x, 1, 2)
    )
    case("numpy.arctan is not there in kernels")(lambda x: np.arctan(x))
    case("numpy.add.reduce is not there")(lambda x: np.add.reduce(x))
    case("numpy.sum is not there")(lambda x: np.sum(x))
    case("add: b is a ndarray; expected a value or a number; an array goes into a kernel as an argument")(
        lambda x: x + np.arange(100)
    )
    case("add: b is 'a'; expected a value or a number")(lambda x: x + "a")
    case("expected a value or a number")(lambda x: x + 1j)
    case("where takes 3 arguments .condition, a, b., got 2")(lambda x: h.where(x, 1))
    case("dtype 'f33' is not one")(lambda x: x.astype("f33"))
    case("and of f32 is not there; expected one of i8")(lambda x: x & 1)
    case("the number is 300; i8 goes from -128 to 127")(lambda x: x.astype("i8") + 300)
    case("a shift of i32 by 32; expected 0 … 31")(lambda x: x.astype("i32") << 32)
    case("a power of integers takes an exponent that is known")(lambda x: x.astype("i32") ** x.astype("i32"))
    case("bitcast: x is .*f32>; i64 has another size")(lambda x: h.bitcast(x, "i64"))
    case("hologram.range: stop is .*f32>; expected an integer")(lambda x: [0 for _ in h.range(x)])
    case("step is 0; expected an int")(lambda x: h.range(0, 3, 0))
    case(r"hologram.ops.vector_exp works on arrays; .* it is hologram.exp\n  at .*_mistakes.py:\d+: .*vector_exp")(
        lambda x: h.ops.vector_exp(x)
    )
    case(r"hologram.ops.vector_add works on arrays; of the values of a kernel it is \+")(
        lambda x: h.ops.vector_add(x, 1)
    )
    case(r"hologram.ops.scalar_mul works on arrays; .* it is \*")(lambda x: h.ops.scalar_mul(x, scalar=2.0))
    case("hologram.ops.vector_max works on arrays; .* it is hologram.maximum")(lambda x: h.ops.vector_max(x, x))
    case("hologram.ops.where works on arrays; .* it is hologram.where")(lambda x: h.ops.where(x > 0, x, 0))
    case("hologram.ops.reduce_sum works on arrays; .* call it outside of the kernel")(lambda x: h.ops.reduce_sum(x))
    case("hologram.range belongs into a for statement")(lambda x: [x for _ in h.range(3)])
    case("returns nothing; expected a number")(lambda x: None)
    case("returns a str; expected")(lambda x: "x")
    case("returns a tuple; expected")(lambda x: (x, "x"))

    @case("y is set in some lanes only: give it a value before")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            y = 1
        return y

    @case("y is set in some lanes only: give it a value before")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            y = x
        if x > 1:
            y = x
            z = y
        else:
            z = y
        return z

    @case("y is set in the loop only")
    def _(x):  # type: ignore[no-untyped-def]
        for _i in h.range(3):
            y = x
        return y

    @case("i is set in the loop only")
    def _(x):  # type: ignore[no-untyped-def]
        for i in h.range(3):
            x = x + i
        return x + i

    @case("`break` in some lanes only: loop over hologram.range")
    def _(x):  # type: ignore[no-untyped-def]
        for _i in range(3):
            if x > 1:
                break
        return x

    @case("t is a list before; lanes can differ in numbers only")
    def _(x):  # type: ignore[no-untyped-def]
        t = []
        if x > 0:
            t = [x]
        return t[0]

    @case("t is no number, and is set where lanes differ")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            t = [x]
        else:
            t = [1]
        return t[0]

    @case("elements and attributes can't be assigned where lanes differ")
    def _(x):  # type: ignore[no-untyped-def]
        t = [x]
        if x > 0:
            t[0] = 1
        return t[0]

    @case("a call for its effect would run once")
    def _(x):  # type: ignore[no-untyped-def]
        t = [x]
        for _i in h.range(3):
            t.append(x)
        return t[-1]

    @case("add: a was computed in a branch or loop that not all lanes here went through")
    def _(x):  # type: ignore[no-untyped-def]
        kept = [x]
        if x > 0:
            y = keep(kept, x * 2)
            x = y
        return kept[-1] + 1

    @case("add: b was computed in a branch or loop")
    def _(x):  # type: ignore[no-untyped-def]
        kept = [x]
        for _i in h.range(3):
            x = keep(kept, x * 2)
        return x + kept[-1]

    @case("add: b was computed in a branch or loop")
    def _(x):  # type: ignore[no-untyped-def]
        kept = [x]
        for i in h.range(3):
            _y = keep(kept, i)
        return x + kept[-1]

    @case("add: b was computed in a branch or loop")
    def _(x):  # type: ignore[no-untyped-def]
        kept = [x]
        while x < 3:
            y = keep(kept, x)
            x = y + 1
        return x + kept[-1]

    @case("returns in some lanes and comes to its end without in others")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            return x

    @case("each return of a kernel gives as many results")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            return x
        return x, x

    for within in (
        lambda x: h.where(0.0 < (y := x * 2.0) < 5.0, y, x),
        lambda x: h.where((y := x > 0) and y, 1.0, x),
        lambda x: h.where(not (y := x > 0), 1.0, h.where(y, 2.0, x)),
        lambda x: y if (y := x) > 0 else x,
    ):
        case("a `:=` can't stand within .* assign the name in a line of its own before, .*\n  at .*: .*:= x")(within)

    @case("`nonlocal` is not there in kernels; .* as in s = function.s.\n  at .*: nonlocal s")
    def _(x):  # type: ignore[no-untyped-def]
        s = x

        def add(v):  # type: ignore[no-untyped-def]
            nonlocal s
            s = s + v
            return s

        return add(x)

    @case("`with` is not there in kernels")
    def _(x):  # type: ignore[no-untyped-def]
        with open("/dev/null"):
            return x

    @case("`try` is not there in kernels")
    def _(x):  # type: ignore[no-untyped-def]
        try:
            return x
        finally:
            pass

    @case("`else` can't follow a loop over hologram.range")
    def _(x):  # type: ignore[no-untyped-def]
        for _i in h.range(3):
            pass
        else:
            return x

    @case("a loop over hologram.range counts one name")
    def _(x):  # type: ignore[no-untyped-def]
        for i, j in h.range(3):
            x = i + j
        return x

    @case(r"a value of a kernel has no sum; a kernel sees one element at a time; reduce the result")
    def _(x):  # type: ignore[no-untyped-def]
        return x.sum()

    @case(r"a value of a kernel has no clip; write hologram.clip\(")
    def _(x):  # type: ignore[no-untyped-def]
        return x.clip(0, 1)

    @case(r"a value of a kernel has no T; it has dtype and astype")
    def _(x):  # type: ignore[no-untyped-def]
        return x.T

    @case(r"a matrix product can't be had of a value.*hologram.ops.gemm")
    def _(x):  # type: ignore[no-untyped-def]
        return 2 @ x

    @case(r"shape\[0\] of a value: a kernel sees one element")
    def _(x):  # type: ignore[no-untyped-def]
        return x * x.shape[0]

    @case(r"hologram.range: step is .*; expected an int of Python's, not 0; name the argument in static=")
    def _(x):  # type: ignore[no-untyped-def]
        for _ in h.range(0, 10, x.astype("i32")):
            x += 1
        return x

    @case("an exception can't be raised in some lanes")
    def _(x):  # type: ignore[no-untyped-def]
        if x > 0:
            raise ValueError
        return x

    @case(r"too many values to unpack \(expected 2")
    def _(x):  # type: ignore[no-untyped-def]
        a, b = x, x, x
        return a + b

    @case(r"too many values to unpack \(expected 2, got 3\)")
    def _(x):  # type: ignore[no-untyped-def]
        for _ in hologram.range(2):
            a, b = x, x, x
            x = a + b
        return x

    @case(r"not enough values to unpack \(expected at least 2, got 1\)")
    def _(x):  # type: ignore[no-untyped-def]
        for _ in hologram.range(2):
            a, b, *_c = (x,)
            x = a + b
        return x

    @case("cannot unpack non-iterable int object")
    def _(x):  # type: ignore[no-untyped-def]
        a, b = 3
        return x * a * b

    @case(r"work in functions decorated with @hologram\.kernel\n")
    def _(x):  # type: ignore[no-untyped-def]
        return hologram.maximum(x, bool(x))

    @case("the loop goes on while tracing")
    def _(x):  # type: ignore[no-untyped-def]
        k = 1
        while k > 0:
            k += 1
        return x

    return found


@pytest.mark.parametrize("a", ["f4", "f8", "i1", "i4", "u8", "bool"])
@pytest.mark.parametrize("b", ["f4", "f8", "i1", "i4", "u8", "bool"])
def test_and_and_or_are_one_of_their_operands(a: str, b: str) -> None:
    x, y = numbers(a, 1), numbers(b, 2)
    dtype = np.promote_types(a, b)
    for f in (
        lambda x, y: x or y,
        lambda x, y: x and y,
        lambda x, y: (x and y) or x,
        lambda x, y: not x or (y > 0 and x),
    ):
        expected = np.array([np.asarray(f(p, q)).astype(dtype) for p, q in zip(x, y)])
        assert_same(hologram.kernel(f)(x, y).astype(dtype), expected)
    assert hologram.kernel(lambda x, y: x or y)(x, y).dtype == dtype


def test_and_and_or_of_numbers_and_in_conditions() -> None:
    f = hologram.kernel(lambda a: a or 9.0)
    assert_same(f(np.array([0, 2, -3, np.nan, -0.0], "f4")), np.array([9, 2, -3, np.nan, 9], "f4"))
    assert hologram.kernel(lambda a: a and 5)(np.array([0, 2, -3], "i1")).tolist() == [0, 5, 5]
    assert hologram.kernel(lambda a: 0 or a or 7)(np.array([0, 2, -3])).tolist() == [7, 2, -3]
    assert hologram.kernel(lambda a: (a > 0) or (a < -5))(np.array([0, 2, -7])).tolist() == [False, True, True]

    @hologram.kernel
    def g(a, b):  # type: ignore[no-untyped-def]
        if (a and b) or not a:
            return 1
        return 0

    assert g(np.array([0, 0, 2, 2]), np.array([0.0, 3, 0, 3])).tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(("function", "text"), mistakes())
def test_mistakes_are_told_with_their_line(function: Any, text: str) -> None:
    code = function.__code__
    with pytest.raises((ValueError, TypeError, AttributeError)) as caught:
        hologram.kernel(function)(np.ones(3, np.float32))
    message = str(caught.value)
    said, _, place = message.partition("\n  at ")  # whose line may have the text itself
    assert re.search(text, message if "  at " in text else f"{said}\n  at " if place else said), message
    if not message.startswith("<lambda> returns") and "lambda returns" not in message:
        place = int(message.rpartition(f"at {__file__}:")[2].split(":")[0])
        last = max(line for _, _, line in code.co_lines() if line) if hasattr(code, "co_lines") else place
        lines = (with_if_in_helper.__code__.co_firstlineno, last + 1)
        assert code.co_firstlineno <= place <= last + 1 or lines[0] <= place <= lines[0] + 1, message


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("f2", "a * 65520.0"),
        ("f2", "a - 65520"),
        ("f4", "a * 1e300"),
        ("f4", "a + 3.4028235677973366e38"),
        ("f4", "hologram.where(a > 0, 1e39, a)"),
        ("f4", "a or 10**39"),
        ("f8", "a + 2**1024"),
    ],
)
def test_a_number_out_of_range_is_told_with_the_line(dtype: str, text: str) -> None:
    f = written(f"def f(a, k):\n    b = a\n    return {text}\n", f"<beyond {dtype} {text}>")
    with pytest.raises(ValueError, match=r"the number is .*; f\d\d goes from -") as caught:
        hologram.kernel(f)(np.ones(3, dtype), 1)
    assert type(caught.value) is hologram.errors.InvalidArgumentError
    assert f">:3: return {text}" in str(caught.value)


def test_a_comparison_with_a_number_out_of_range_is_numpy_s() -> None:
    for dtype, number in (("f2", 70_000), ("f2", 65_520.0), ("f2", -(10**20)), ("f4", 1e300), ("f4", 10**39)):
        x = np.array([0, 1, -np.inf, np.inf, np.nan, np.finfo(dtype).max], dtype)
        for compare in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
            with np.errstate(over="ignore"):
                expected = compare(x, number), compare(number, x)
            assert_same(hologram.kernel(lambda a, c=compare, n=number: c(a, n), static=("c", "n"))(x), expected[0])
            assert_same(hologram.kernel(lambda a, c=compare, n=number: c(n, a), static=("c", "n"))(x), expected[1])


def test_the_largest_numbers_are_in_range_and_casts_round() -> None:
    x = np.zeros(1, np.float32)
    largest = np.finfo("f4").max
    assert_same(hologram.kernel(lambda a: a + 3.4028235677973362e38)(x), np.array([largest]))  # below half a bit more
    assert_same(hologram.kernel(lambda a: a - 2**127)(x), np.array([-(2.0**127)], "f4"))
    assert hologram.kernel(lambda a: a + 65519.0)(np.zeros(1, "f2")).tolist() == [65504]
    assert hologram.kernel(lambda a: a + float("inf"))(x).tolist() == [np.inf]
    assert hologram.kernel(lambda a: a + hologram.cast(1e300, "f32"))(x).tolist() == [np.inf]
    assert hologram.kernel(lambda a: a + np.float64(1e300))(x).tolist() == [1e300]


class Counter:
    def __init__(self, x: Any) -> None: ...


def yields(x: Any) -> Any:
    yield x


@hologram.kernel
def recurs(x: Any) -> Any:
    if x <= 1:
        return 1
    return x * recurs(x - 1)


def test_kernels_call_each_other_as_deep_as_32() -> None:
    def deeper(count: int) -> Any:
        made = hologram.kernel(lambda x: x + 1)
        for _ in range(count):
            made = hologram.kernel(lambda x, inner=made: inner(x) * 1, static="inner")
        return made

    x = np.zeros(2)
    assert deeper(32)(x).tolist() == [1, 1]
    with pytest.raises(ValueError, match="more than 32 deep"):
        deeper(33)(x)
    one = deeper(0)
    assert hologram.kernel(lambda x: sum(one(x) for _ in range(40)))(x).tolist() == [40, 40]


def test_mistakes_of_calls() -> None:
    f = hologram.kernel(lambda x, y: x + y)
    x = np.ones(3)
    for arguments, keywords, text in [
        ((x,), {}, "missing a required argument: 'y'"),
        ((x, x), {"c": 2}, "lambda: there is no parameter c; it has x, y"),
        ((x, x), {"executor": "cpu"}, "lambda: executor is 'cpu'; expected an Executor"),
        ((x, x), {"out": 1.0}, "lambda: out is 1.0; expected an array"),
        ((x, x), {"out": [x, 0]}, r"lambda: out\[1\] is 0; expected an array"),
        ((x, x, x), {}, "too many positional"),
        ((x, [1, 2]), {}, "lambda: y is a list; expected a Buffer, a numpy array"),
        ((x, None), {}, "y is a NoneType"),
        ((x, 1j), {}, "y is a complex"),
        ((x, np.ones(3, complex)), {}, "y: dtype complex128 is not supported"),
        ((x, np.array([None])), {}, "y: dtype object is not supported"),
        ((x, x.astype(">f8")), {}, "byte order"),
        ((x, np.ones(4)), {}, r"the shapes don't broadcast together: x \(3,\), y \(4,\)"),
        ((x, x), {"out": np.ones(4)}, r"shapes don't broadcast to out's, \(4,\): x \(3,\), y \(3,\)"),
        ((x, x), {"out": np.ones(())}, "out has shape"),
        ((x, x), {"out": (x, x)}, "out has 2 arrays for 1 result$"),
        ((x, x), {"out": ()}, "out has 0 arrays for 1 result$"),
        ((np.ones(3, np.int64), 1 << 70), {}, "more than 64 bits"),
        ((x, 10**400), {}, "an int of 1329 bits, too large for a float"),
        ((np.ones(3, np.int8), 200), {}, "parameter y: 200 is out of range"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            f(*arguments, **keywords)
    read_only = np.ones(3)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(x, x, out=read_only)
    for make, text in [
        (lambda: hologram.kernel(3), "expected a function, got int"),
        (lambda: hologram.kernel(yields), "yields or awaits"),
        (lambda: hologram.kernel(Counter), "expected a function, got the class Counter"),
        (lambda: recurs(x), "recurs: kernels call each other more than 32 deep"),
        (lambda: hologram.kernel(lambda out: out), "it can't have a parameter out"),
        (lambda: hologram.kernel(lambda **k: 1), "it can't have a parameter"),
        (lambda: hologram.kernel(lambda x: x, static="y"), "static names 'y', which is no parameter"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            make()


def test_a_value_of_another_trace_is_refused() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x)
        return x

    hologram.kernel(f)(np.ones(1))
    with pytest.raises(ValueError, match="add: b is a value of another kernel, or of an earlier trace"):
        hologram.kernel(lambda x: x + kept[0])(np.ones(1))


def test_without_source_there_are_operators() -> None:
    namespace: dict[str, Any] = {"hologram": hologram}
    exec("def f(x, y):\n    for i in range(3):\n        x = x * y\n    return x\n", namespace)
    exec("def g(x):\n    for i in hologram.range(3):\n        x = x * 2\n    return x\n", namespace)
    assert hologram.kernel(namespace["f"])(np.array([2.0]), 3).tolist() == [54]
    with pytest.raises(ValueError, match="whose source Python can find"):
        hologram.kernel(namespace["g"])(np.ones(1))
    for name, text in {
        "h": "return x if x > 0 else -x",
        "k": "if x > 0:\n        x = -x\n    return x",
        "m": "return x or 9",
    }.items():
        exec(f"def {name}(x):\n    {text}\n", namespace)
        with pytest.raises(
            TypeError, match=f"the truth can't be had of a value.*the source of {name}, .* can't be found: of what"
        ):
            hologram.kernel(namespace[name])(np.ones(1))
    hologram.kernel(namespace["f"])(np.ones(1), 2.0)
    with pytest.raises(TypeError, match="`not` work in k if it is decorated with"):  # it has a source, its helper none
        hologram.kernel(lambda x: namespace["k"](x))(np.ones(1))


def test_an_assertion_can_fail_for_all_lanes_only() -> None:
    f = written("def f(x, k):\n    assert x > 0\n    return x\n", "<assertion>")  # pytest has its hands on those here
    with pytest.raises(
        ValueError, match=r"an assertion can't fail in some lanes; .*\n  at <assertion>:2: assert x > 0"
    ):
        hologram.kernel(f)(np.ones(1), 1)
    g = written("def f(x, k):\n    assert k > 0, 'positive'\n    return x\n", "<assertion 2>")
    assert hologram.kernel(g, static="k")(1, 1) == 1
    with pytest.raises(AssertionError, match="positive"):
        hologram.kernel(g, static="k")(1, 0)


def test_a_source_that_changed_is_not_taken_for_the_function(tmp_path: Any) -> None:
    """Neither one that was edited since it was compiled, nor one that linecache remembers from before."""
    file = tmp_path / "changing.py"
    kernels = []
    for number in (2, 3):
        file.write_text(f"def f(x):\n    if x > 0:\n        return x * {number}\n    return x * 0 - {'1' * number}\n")
        namespace: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), namespace)
        kernels.append((namespace["f"], hologram.kernel(namespace["f"])))
    x = np.array([-1.0, 1])
    assert [k(x).tolist() for _, k in kernels] == [[-11, 2], [-111, 3]]
    late = hologram.kernel(kernels[0][0])
    with pytest.raises(TypeError, match="the truth can't be had of a value"):
        late(x)


def test_instructions_are_of_their_lines_in_a_long_function_that_is_gone_through_twice() -> None:
    steps = "".join(f"    v = v * 3 + {i}\n" for i in range(30))
    text = f"def g(v):\n{steps}    v = v // (v - v)\n{steps}    return v\ndef f(x, y):\n    return g(x) + g(y)\n"
    f = hologram.kernel(written(text, "<long>"))
    with pytest.raises(hologram.ProgramFault, match=r"division by zero .*\n  at <long>:32: v = v // \(v - v\)"):
        f(np.ones(3, np.int32), np.ones(3, np.int32))
    lines = [place.line for place in f._last.lines.values()]  # type: ignore[union-attr]
    assert [line for line, _ in itertools.groupby(lines)] == [*range(2, 63), *range(2, 63), 65, 64]


def test_kernels_inside_kernels() -> None:
    @hologram.kernel
    def outer(x: Any, y: Any) -> Any:
        scale = 10

        @hologram.kernel
        def inner(v: Any) -> Any:
            if v < 0 or v > 5:
                return -v
            return v * scale

        return inner(x) + inner(y)

    assert outer(np.array([-1.0, 2]), np.array([3.0, 7])).tolist() == [31, 13]


def test_two_lambdas_of_a_line() -> None:
    one, other = hologram.kernel(lambda x: x + 1), hologram.kernel(lambda y: y + 2)
    assert (one(1), other(1)) == (2, 3)


def test_faults_are_reported() -> None:
    f = hologram.kernel(lambda x, y: x // y)
    with pytest.raises(hg.ProgramFault, match="division by zero") as caught:
        f(np.arange(5), np.array([1, 1, 0, 1, 1]))
    assert caught.value.lane == 2


def test_faults_name_the_line_of_the_function() -> None:
    helper = "def halves(a, b):\n    return a %\\\n        b\n\n"
    for body, line in [
        ("    c = x + 1\n    d = c // y\n    return c * d\n", "7: d = c // y"),
        ("    c = x + 1\n    while c % y < 0:\n        c = c + 1\n    return c\n", "7: while c % y < 0:"),
        (
            "    c = x\n    for i in hologram.range(2):\n        if x >= 0:\n            c //= y\n    return c\n",
            "9: c //= y",
        ),
        ("    c = x\n    return halves(c, y) + 1\n", "2: return a %\\"),
        ("    return hologram.rem(x,\n        y)\n", "6: return hologram.rem(x,"),
        ("    return np.floor_divide(x, y)\n", "6: return np.floor_divide"),
    ]:
        name = f"<fault {line}>"
        f = written(f"{helper}def f(x, y):\n{body}", name)
        f.__globals__["np"] = np
        kernel = hologram.kernel(f)
        for _ in range(2):  # the first call compiles
            with pytest.raises(hg.ProgramFault, match=re.escape(f"  at {name}:{line}")) as caught:
                kernel(np.arange(5), np.array([1, 1, 0, 1, 1]))
            fault = caught.value
            assert (fault.kind, fault.lane, str(fault).count("  at ")) == ("divide", 2, 1)
            assert fault.line is not None
            assert re.match(r"  (div|rem)\.i64", kernel.atlas.splitlines()[fault.line - 1])
    with pytest.raises(hg.ProgramFault) as caught:  # of a program that other lines share
        hologram.rem(np.arange(2), np.zeros(2, int))
    assert "  at " not in str(caught.value)


def test_the_names_of_kernels_are_hologram_s() -> None:
    from hologram import _kernel

    hidden = {"range", "abs", "pow", "round"}
    assert set(_kernel.__all__) - set(hologram.__all__) == hidden
    assert len(hologram.__all__) == len(set(hologram.__all__))
    for name in _kernel.__all__:
        assert getattr(hologram, name).__name__ == name
    assert not hasattr(hologram, "range_")


def test_a_long_line_is_shown_in_part() -> None:
    source = f"def f(x):\n    return int(x)  # {'and so on ' * 100}\n"
    with pytest.raises(TypeError) as caught:
        hologram.kernel(written(source, "<wide>"))(np.ones(1))
    assert re.search(r"int can't be had of .*hologram.floor, ceil", str(caught.value))
    assert len(str(caught.value).splitlines()[-1]) < 250
    assert str(caught.value).endswith("…")


def test_names_that_are_set_within_what_is_known() -> None:
    """Before the kernel runs: there Python decides."""
    x = np.ones(2, np.float32)
    low = 1
    assert hg.kernel(lambda x: x * n if 0 < (n := low) < 2 else x)(x).tolist() == [1, 1]
    assert hg.kernel(lambda x: hg.where(0 < (n := low) < (m := x * 3), m + n, x))(x).tolist() == [4, 4]
    assert hg.kernel(lambda x: x * n if (n := low) and not (m := 0) else x + m)(x).tolist() == [1, 1]
