"""Types in kernels are numpy's: operators, functions, numbers and casts."""

from __future__ import annotations

import itertools
import operator
import re
import warnings
from typing import Any, Callable

import numpy as np
import pytest
from kernels import DTYPES, NUMBERS, assert_same, numbers, numpy_2

import hologram
import hologram as hg

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "and_", "or_", "xor", "eq", "ne", "lt", "le", "gt", "ge"]


def compare_with_numpy(function: Callable[..., Any], *arguments: Any, kernel: Any = None) -> None:
    what = (function, [getattr(a, "dtype", a) for a in arguments])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = function(*arguments)
        except (TypeError, OverflowError):
            with pytest.raises((TypeError, ValueError)):
                (kernel or hologram.kernel(function))(*arguments)
            return
    got = (kernel or hologram.kernel(function))(*arguments)
    for g, e in zip(
        got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,)
    ):
        assert_same(g, e, what)


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_arrays(name: str) -> None:
    function = getattr(operator, name)
    kernel = hologram.kernel(function)
    for i, (a, b) in enumerate(itertools.product(DTYPES, DTYPES)):
        x, y = numbers(a, i), numbers(b, i + 1)
        if name in ("floordiv", "mod") and y.dtype.kind in "iub":
            y[y == 0] = 1
        compare_with_numpy(function, x, y, kernel=kernel)


@numpy_2
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "lt", "eq"])
def test_operators_of_an_array_and_a_number(name: str) -> None:
    function = getattr(operator, name)
    given = hologram.kernel(function)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        x = numbers(dtype, 3)
        if isinstance(number, int) and number < 0 and x.dtype.kind == "u":
            continue  # numpy compares them as if with -3, and refuses the rest
        compare_with_numpy(function, x, number, kernel=given)
        compare_with_numpy(function, number, x, kernel=given)
        written = hologram.kernel(lambda x, number=number: function(x, number), static="number")
        compare_with_numpy(lambda x, number=number: function(x, number), x, kernel=written)


@numpy_2
@pytest.mark.parametrize("name", ["lshift", "rshift", "pow"])
def test_shifts_and_powers_by_a_number(name: str) -> None:
    function = getattr(operator, name)
    given = hologram.kernel(function)
    for dtype, number in itertools.product(DTYPES, [1, 2, 3, True, np.int8(2), np.uint16(7), 2.0]):
        x = numbers(dtype, 3)
        if name == "pow":  # by a number of the source alone, and of integers: of floats in test_powers
            if np.result_type(x, number).kind == "f":
                continue
        else:
            compare_with_numpy(function, x, number, kernel=given)
        written = hologram.kernel(lambda x, number=number: function(x, number), static="number")
        compare_with_numpy(lambda x, number=number: function(x, number), x, kernel=written)


@numpy_2
def test_what_a_number_made_has_a_type_of_its_own() -> None:
    """An array's with a number is an array's: only numbers alone take the type of what they meet."""

    def function(x: Any, y: Any, number: Any) -> Any:
        return (x + number) * y, y - (number + x)

    kernel = hologram.kernel(function)
    for a, b, number in itertools.product(DTYPES, DTYPES, (True, 3, 1.5)):
        compare_with_numpy(function, numbers(a, 3), numbers(b, 4), number, kernel=kernel)


@pytest.mark.parametrize(
    "name", ["floor", "ceil", "trunc", "rint", "abs", "square", "negative", "isnan", "isfinite", "invert", "sqrt"]
)
def test_functions_that_round_once(name: str) -> None:
    for dtype in DTYPES:
        x = numbers(dtype, 4)
        if name in ("floor", "ceil", "trunc") and x.dtype.kind != "f":
            assert_same(hologram.kernel(lambda x: getattr(np, name)(x))(x), x)  # as in numpy from 2.1 on
        else:
            compare_with_numpy(lambda x: getattr(np, name)(x), x)


@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh"])
def test_transcendental_functions(name: str) -> None:
    ours, numpys = getattr(hologram, name), getattr(np, name)
    kernel = hologram.kernel(lambda x: ours(x))
    through_numpy = hologram.kernel(lambda x: numpys(x))
    for dtype in DTYPES:
        x = numbers(dtype, 5)
        with np.errstate(all="ignore"):
            expected = numpys(x)
        got = kernel(x)
        assert got.dtype == expected.dtype
        assert_same(through_numpy(x), got)
        finite = np.isfinite(expected)
        assert np.array_equal(finite, np.isfinite(got))
        np.testing.assert_allclose(
            got[finite].astype("f8"), expected[finite].astype("f8"), rtol=4e-3 if got.itemsize == 2 else 1e-6, atol=1e-7
        )


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 5, 2.5])
def test_powers(exponent: float) -> None:
    for dtype in DTYPES[1:]:
        x = numbers(dtype, 6)
        kernel = hologram.kernel(lambda x: x**exponent)
        if x.dtype.kind != "f" and exponent == -1:
            with pytest.raises(ValueError, match="negative power -1"):
                kernel(x)
            continue
        with np.errstate(all="ignore"):
            expected = x**exponent
            exact = {-1: lambda v: 1 / v, 0.5: np.sqrt, 2: np.square}.get(exponent)
            if exact is not None:
                expected = exact(x.astype(expected.dtype))
        if expected.dtype.kind == "f" and exponent in (2.5, 3, 5):
            got = kernel(x)
            assert got.dtype == expected.dtype
            half = got.itemsize == 2
            tight = np.isfinite(expected) & (np.abs(expected) > (1e-3 if half else 1e-30))
            np.testing.assert_allclose(
                got[tight].astype("f8"), expected[tight].astype("f8"), rtol=1e-2 if half else 1e-6
            )
        else:
            assert_same(kernel(x), expected, (dtype, exponent))


def both_shifts(x: Any, y: Any) -> Any:
    return x << y, x >> y


def c_remainder(x: Any, y: Any) -> Any:
    return np.fmod(x, y)


def floor_and_rest(x: Any, y: Any) -> Any:
    return divmod(x, y)


def extremes(x: Any, y: Any) -> Any:
    return np.minimum(x, y), np.maximum(x, y), np.where(x < y, x, y)


def test_shifts_remainders_and_extremes() -> None:
    kernels = {f: hologram.kernel(f) for f in (both_shifts, c_remainder, floor_and_rest, extremes)}
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = numbers(a, 7), numbers(b, 8)
        if y.dtype.kind in "iu":
            y = (y % 8).astype(b)
        compare_with_numpy(both_shifts, x, y, kernel=kernels[both_shifts])
        if y.dtype.kind in "iub":
            y[y == 0] = 1
        for f in (c_remainder, floor_and_rest):
            compare_with_numpy(f, x, y, kernel=kernels[f])
        x, y = x[x != 0], y[y != 0]  # numpy takes either of two zeros
        n = min(x.size, y.size)
        compare_with_numpy(extremes, x[:n], y[:n], kernel=kernels[extremes])
    # Of two zeros the ISA knows which is smaller.
    zeros = np.array([0.0, -0.0]), np.array([-0.0, 0.0])
    assert np.signbit(hologram.minimum(*zeros)).all()
    assert not np.signbit(hologram.maximum(*zeros)).any()


@numpy_2
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d[0] in "iu"])
def test_quotients_by_numbers_are_rounded_down(dtype: str) -> None:
    """By positive and negative ones, of all that lies beside their multiples and at the ends of the type."""
    ends = np.iinfo(dtype)
    for number in (1, 2, 7, 100, ends.max, -1, -7, ends.min):
        if (number < 0 and dtype[0] == "u") or number == 0:
            continue
        multiples = [number * k + rest for k in range(-3, 4) for rest in (-1, 0, 1)]
        values = [x for x in (*multiples, ends.min, ends.min + 1, ends.max - 1, ends.max) if ends.min <= x <= ends.max]
        if number == -1:  # the quotient of the least wraps, of which numpy warns
            values = [x for x in values if x != ends.min]
        x = np.array(values, dtype)
        for got, expected in zip(hologram.kernel(floor_and_rest, static="y")(x, y=number), (x // number, x % number)):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)


def test_numbers_stay_weak() -> None:
    """What is computed of Python numbers alone takes the type of what it meets, comparisons and loops included."""

    @hologram.kernel
    def f(x: Any, k: Any) -> Any:
        total = 0.0
        n = 0
        for i in hologram.range(3):
            total = total + k * i
            n += i
        return x * ((k > 1) + 1), x * total, x + n, x * hologram.cast(k, np.int64), x + (k if k > 0 else 0.5)

    for dtype in ("f2", "f4", "f8"):
        x = np.array([0.1, 3], dtype)
        for k in (1.9, 0.7):
            expected = x * ((k > 1) + 1), x * (k + k * 2), x + 3, x * np.int64(k), x + k
            for i, (got, wanted) in enumerate(zip(f(x, k), expected)):
                assert_same(got, wanted, (i, dtype, k))


@pytest.mark.parametrize(("k", "types"), [(0.1, ("f4", "f8")), (0.1, ("f2", "f4", "f8")), (3, ("i4", "u1", "f4"))])
def test_a_number_is_rounded_once_to_each_type_that_it_meets(k: Any, types: tuple[str, ...]) -> None:
    @hologram.kernel
    def f(k: Any, *arrays: Any) -> Any:
        return tuple(x * k for x in arrays)

    arrays = [np.arange(4).astype(dtype) for dtype in types]
    for got, x in zip(f(k, *arrays), arrays):
        assert_same(got, x * x.dtype.type(k), x.dtype)


def test_variables_of_loops_take_the_type_that_holds_all() -> None:
    @hologram.kernel
    def f(x: Any, y: Any) -> Any:
        total = 0
        best = x
        for i in hologram.range(4):
            if i % 2 == 0:
                total = total + x
            else:
                best = y * i
        return total, best

    for a, b in itertools.product(["i1", "u2", "f2", "f4", "f8"], repeat=2):
        x, y = np.array([1.5, 3]).astype(a), np.array([0.75, 2]).astype(b)
        both = np.promote_types(a, b)
        assert_same(f(x, y)[0], x + x)
        assert_same(f(x, y)[1], (y * np.asarray(3, b)).astype(both))


def test_every_instruction_that_computes_is_offered() -> None:
    """What the table has, kernels have: a new row goes into functions.py, or into a list here."""
    from hologram import _isa
    from hologram._kernel import functions

    operators = {"add", "sub", "mul", "div", "neg", "and", "or", "xor", "not", "shl", "shr", "set"}
    renamed = {"min": "minimum", "max": "maximum", "sel": "where", "cvt": "cast"}
    offered = {renamed.get(m, m) for m in _isa.ROWS} & functions.PUBLIC.keys()
    computing = {
        mnemonic
        for mnemonic, row in _isa.ROWS.items()
        if row.operands
        and row.operands[0].kind in ("dst", "pred_dst")
        and all(o.kind in ("dst", "pred_dst", "src", "pred_src") for o in row.operands)
    }
    others = {"mov", "mad", "cls_get", "mirror", "nbr_count", "bound_map", "phase_get", "pool_load"}  # Atlas's own
    blocks = {m for m in computing if m.startswith("block_")}
    left = {m for m in computing - operators - others - blocks if renamed.get(m, m) not in offered}
    assert left == set()
    assert functions.PUBLIC.keys() - offered == {"clip", "isfinite", "isnan", "relu"}  # made of others


def test_casts() -> None:
    x = np.array([1.9, -1.9, 300.5, np.nan, np.inf, -np.inf])
    f = hologram.kernel(lambda x: (x.astype(np.int8), hologram.cast(x, "u8"), x.astype("f32"), hologram.cast(x, bool)))
    i8, u8, f32, boolean = f(x)
    assert i8.tolist() == [1, -1, 127, 0, 127, -128]
    assert u8.tolist() == [1, 0, 255, 0, 255, 0]
    assert u8.dtype == np.uint8
    assert_same(f32, x.astype("f4"))
    assert boolean.tolist() == [True] * 6
    assert_same(hologram.bitcast(np.array([1.0], "f4"), np.uint32), np.array([0x3F800000], "u4"))
    assert hologram.cast(np.array([True, False]), "f16").tolist() == [1, 0]


def test_bits_of_integers() -> None:
    x = np.array([0, 1, 6, 255], np.uint8)
    assert hologram.popc(x).tolist() == [0, 1, 2, 8]
    assert hologram.clz(x).tolist() == [8, 7, 5, 0]
    assert hologram.ctz(x).tolist() == [8, 0, 1, 0]
    assert hologram.mulhi(np.array([1 << 31], np.uint32), np.array([6], np.uint32)).tolist() == [3]


def test_the_rest_of_the_table() -> None:
    x = np.array([-2.0, -0.5, 0, 0.5, 2.0], np.float32)
    assert hologram.clip(x, -1, 1).tolist() == [-1, -0.5, 0, 0.5, 1]
    assert hologram.rem(x, np.float32(1.5)).tolist() == [-0.5, -0.5, 0, 0.5, 0.5]
    assert hologram.fma(x, x, np.float32(1)).tolist() == [5, 1.25, 1, 1.25, 5]
    assert hologram.relu(x).tolist() == [0, 0, 0, 0.5, 2]
    assert hologram.pow(x, 2).tolist() == [4, 0.25, 0, 0.25, 4]
    with hg.Executor("cpu") as ex:
        for name in ("sigmoid", "tanh"):
            expected = np.empty_like(x)
            getattr(hg.ops, name)(ex, x, expected)
            assert_same(getattr(hologram, name)(x), expected)
    # One rounding, not two: 1 + 2**-24 is lost in the product's own rounding.
    a, b = np.float32(1 + 2**-12), np.float32(-1)
    ones = np.ones(1, np.float32)
    assert hologram.kernel(lambda o: hologram.fma(o * a, a, b))(ones)[0] == 2**-11 + 2**-24
    assert hologram.kernel(lambda o: (o * a) * a + b)(ones)[0] == 2**-11


@numpy_2
@pytest.mark.parametrize("dtype", DTYPES)
def test_python_s_and_numpy_s_numbers_beside_arrays(dtype: str) -> None:
    """In whichever order, also where the numbers meet each other first: numpy says dtypes and values."""
    x, big = numbers(dtype, 11, 60), np.int64((1 << 62) + 1)
    other = np.linspace(-2, 2, 60).astype("f4")

    def both(x: Any, y: Any, where: Any) -> Any:
        few = y < 5
        return (
            *(x + 1, 0.5 * x, (x + 1) * y, (x * 0.5) * y, x * True, x + big, where(few, 1.5, 2) + x),
            *(
                where(few, 2, 1.5) + x,
                x + where(few, 1, True),
                y * (where(few, 1, 1) * 0.5),
                -1.5 * y + where(few, 1, 2),
            ),
        )

    with np.errstate(all="ignore"):
        found = hologram.kernel(both, static="where")(x, other, hologram.where)
        expected = both(x, other, weakly)
    for i, (got, wanted) in enumerate(zip(found, expected)):
        assert_same(got, wanted, (i, dtype))


def weakly(condition: Any, a: Any, b: Any) -> Any:
    """Return a, which holds everywhere, as a number of Python's of the higher kind."""
    assert condition.all()
    return type(a + b)(a)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool" and d[0] != "f"])
def test_shifts_are_less_than_the_width(dtype: str) -> None:
    x, width = np.array([1, 2, 3]).astype(dtype), 8 * np.dtype(dtype).itemsize
    for by in (0, width - 1):
        left, right = hologram.kernel(lambda x, by=by: (x << by, x >> by), static="by")(x)
        assert_same(left, x << by)
        assert_same(right, x >> by)
    for by in (-1, width, width + 1):
        for shift in (
            lambda x, by: x << by,
            lambda x, by: x >> by,  # on a line of its own: before Python 3.11 two are one
        ):
            with pytest.raises(ValueError, match=f"by {by}; expected 0 … {width - 1}"):
                hologram.kernel(shift, static="by")(x, by)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_s_functions_in_kernels_are_numpy_s(dtype: str) -> None:
    """Each that is there: its dtype, and what it makes of numbers that no rounding has a part in."""
    from hologram._kernel import functions

    x, y = np.array([0, 1, 4, 1, 16]).astype(dtype), np.array([1, 1, 2, 1, 4]).astype(dtype)
    for name in functions.UFUNCS:
        function = getattr(np, name)
        arguments = (x, y)[: function.nin]
        try:
            with np.errstate(all="ignore"):
                expected = function(*arguments)
        except TypeError:
            continue
        try:
            found = hologram.kernel(lambda *values, function=function: function(*values), static="function")(*arguments)
        except (TypeError, ValueError) as error:
            assert re.search("not there|exponent|is not there, as in numpy|difference|negative", str(error)), (
                name,
                error,
            )
            continue
        for got, wanted in zip(found, expected) if function.nout > 1 else [(found, expected)]:
            assert got.dtype == wanted.dtype, name
            np.testing.assert_allclose(got.astype("f8"), wanted.astype("f8"), rtol=3e-3, err_msg=name)


def test_decisions_give_what_python_gives() -> None:
    """Of operands of all kinds, in each lane: `and` and `or` give one of them, `not` and chains a bool."""

    def decided(x: Any, y: Any, k: Any) -> Any:
        return (
            *((x > 0) and y, (x > 0) or y, x and y, x or y, k and x, k or x, x and k, x or k),
            *(not x, not (x > 0), x < y < 2, 0 < x <= y != 1, (x < y) and (y < 2) and k, not k, x if k else y),
        )

    values = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    for k in (0, 2, 0.0, 1.5, True, False):
        found = hologram.kernel(decided, static="k")(x, y, k)
        expected = [decided(float(a), float(b), k) for a, b in zip(x, y)]
        assert [[float(v) for v in row] for row in zip(*(np.asarray(f).tolist() for f in found))] == [
            [float(v) for v in row] for row in expected
        ]


def test_errors_of_a_conversion_name_it() -> None:
    with pytest.raises(hologram.errors.InvalidArgumentError, match='"cast": parameter x: -2 is out of range of u16'):
        hologram.cast(-2, "uint16")
    with pytest.raises(hologram.errors.DTypeError, match="cast: x is a str"):
        hologram.cast("1", "f32")


@numpy_2
@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
def test_u64_and_signed_integers_are_compared_exactly(name: str) -> None:
    signed = np.dtype(name)
    info = np.iinfo(signed)
    few = [info.min, -1, 0, 1, info.max, *([2**53, 2**53 + 1, 2**63 - 1025] if name == "int64" else [])]
    b = np.array(few, signed)
    a = np.array([0, 1, 127, 2**31 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)[:, None]
    for compared in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        assert np.array_equal(hologram.kernel(compared)(a, b), compared(a, b)), compared
        assert np.array_equal(hologram.kernel(compared)(b, a), compared(b, a)), compared
        for n in b:
            assert np.array_equal(hologram.kernel(compared)(a, n), compared(a, n)), (compared, n)
