"""hologram.kernel: what the programs of traced functions compute."""

from __future__ import annotations

import itertools
import linecache
import operator
import random
import re
import threading
import warnings
from typing import Any, Callable

import numpy as np
import pytest

import hologram
import hologram as hg

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
NUMBERS = [True, 2, -3, 0, 1.5, -0.25, np.float32(0.1), np.int8(3), np.float64(0.1), np.uint16(7), np.bool_(True)]

numpy_2 = pytest.mark.skipif(int(np.__version__.split(".")[0]) < 2, reason="numpy 1 promotes Python numbers by value")


def numbers(dtype: Any, seed: int, n: int = 200) -> np.ndarray[Any, Any]:
    """Values of a dtype, the odd ones among them."""
    rng, d = np.random.default_rng(seed), np.dtype(dtype)
    if d.kind == "b":
        return rng.random(n) < 0.5
    if d.kind in "iu":
        limits = np.iinfo(d)
        x = rng.integers(limits.min, limits.max, n, dtype=d, endpoint=True)
        x[:22] = [*rng.integers(0, 5, 20).astype(d), limits.min, limits.max]
    else:
        with np.errstate(over="ignore"):
            x = (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)).astype(d)
        tiny = np.finfo(d).tiny
        x[:14] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, 3, -3, tiny / 2, -tiny / 4]
    rng.shuffle(x)
    return x


def assert_same(got: Any, expected: Any, what: object = "") -> None:
    """Demand the same dtype, shape and bits, any NaN for a NaN."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), what
    if got.dtype.kind == "f":
        assert np.array_equal(np.isnan(got), np.isnan(expected)), what
        numbers = ~np.isnan(got)
        got, expected = got[numbers], expected[numbers]
    assert got.tobytes() == expected.tobytes(), what


# ---- what is compiled


def test_a_kernel_is_the_program_written_by_hand() -> None:
    @hologram.kernel
    def f(x, y):  # type: ignore[no-untyped-def]
        return hologram.relu(x * y + x) * 0.5 - y

    written = hg.Program(
        "program f\nslot x f32\nslot y f32\nslot out f32\nldg.f32 a, x[index]\nldg.f32 b, y[index]\nmul.f32 t, a, b\n"
        "add.f32 t, t, a\nmax.f32 t, t, 0.0\nmul.f32 t, t, 0.5\nsub.f32 t, t, b\nstg.f32 t, out[index]\nexit\n"
    )
    assert f.program("f32", np.float32).hash == written.hash
    x, y = numbers("f4", 1), numbers("f4", 2)
    with np.errstate(all="ignore"):
        expected = np.maximum(x * y + x, 0) * np.float32(0.5) - y
    assert_same(f(x, y), expected)
    out = np.empty_like(x)
    assert f(x, y, out=out) is out
    with hg.Executor("interp") as interp:
        assert_same(f(x, y, executor=interp), out)


LOOP = """program newton
slot a f64
slot out f64
param rounds i64
  ldg.f64 a, a[index]
  ldp.i64 n, rounds
  max.i64 all, n, 0
  min.i64 n, all, 4294967295
  cvt.u32.i64 n, n
  set.gt.i64 more, all, 4294967295
  mov.f64 x, a
  loop n, again
    div.f64 y, a, x
    add.f64 y, x, y
    mul.f64 y, y, 0.5
    set.eq.f64 p, y, x
    bra done, p
    mov.f64 x, y
again:
  bra done, !more
  div.u32 nothing, 1, 0     ; a fault: the loop has more rounds than a LOOP
done:
  stg.f64 x, out[index]
  exit
"""


def newton(a: Any, rounds: int) -> Any:
    x = a
    for _ in hologram.range(rounds):
        y = (x + a / x) * 0.5
        if y == x:
            break
        x = y
    return x


def test_a_loop_is_the_loop_written_by_hand() -> None:
    f = hologram.kernel(newton)
    assert f.program("f64", 5).hash == hg.Program(LOOP).hash
    a = np.array([1.0, 2.0, 10.0, 1e300])
    for rounds in (0, 1, 7, 2000):
        assert_same(f(a, rounds), np.array([newton(float(v), rounds) for v in a]))


def test_the_text_is_there_to_read() -> None:
    f = hologram.kernel(lambda x, k: x * k)
    with pytest.raises(ValueError, match="no program yet"):
        f.atlas  # noqa: B018
    f(np.ones(3, np.float32), 2)
    assert f.atlas.startswith("program lambda\nslot x f32\nslot out f32\nparam k f32\n")
    assert hg.Program(f.atlas).hash == f.program("f32", 2).hash
    assert "mul.i8" in f.program(np.int8, 2).disassemble()
    assert "mul.i8" in f.atlas
    assert f.program("bf16", 1.0).slots[0].dtype == "bf16"
    assert "<hologram.kernel lambda(x, k): 3 programs>" == repr(f)


def test_it_looks_like_the_function() -> None:
    @hologram.kernel
    def documented(x: Any) -> Any:
        """It has a docstring."""
        return x

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "It has a docstring."
    assert documented.__wrapped__(3) == 3  # type: ignore[attr-defined]


# ---- types are numpy's

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


# ---- control flow


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
    with pytest.raises(TypeError, match=r"i8 has another size\n  at .*test_kernel.py:\d+: hologram.bitcast"):
        hologram.bitcast(np.ones(2, np.float32), "i8")


def test_bounds_without_a_common_integer_are_refused() -> None:
    kernel = hologram.kernel(rounds, static="step")
    with pytest.raises(TypeError, match=r"hologram\.range: i64 and u64 have no common integer type; .*astype"):
        kernel(np.zeros(1, np.int64), np.ones(1, np.uint64), 1)
    with pytest.raises(ValueError, match="the number is 300; u8 goes from 0 to 255"):
        hologram.kernel(rounds, static=("stop", "step"))(np.zeros(1, np.uint8), 300, 1)


@pytest.mark.parametrize("constant", [False, True])
def test_more_rounds_than_a_loop_has_are_a_fault(monkeypatch: pytest.MonkeyPatch, constant: bool) -> None:
    """None of them is lost in silence; who leaves such a loop before has what Python has."""
    monkeypatch.setattr("hologram._kernel.statements._MOST", 7)

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
    with pytest.raises(hologram.ProgramFault, match=r"a loop has more than 7 rounds, .* lane (?s:.)*for _ in") as e:
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
                i = f"i{next(fresh)}"
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


def written(source: str, name: str) -> Callable[..., Any]:
    """Return the function f of a source that Python finds again."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace: dict[str, Any] = {"hologram": hologram}
    exec(compile(source, name, "exec"), namespace)
    found: Callable[..., Any] = namespace["f"]
    return found


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


# ---- functions in functions

SCALE = 3.0
HIDDEN = [1]


def helper(x: Any) -> Any:
    return x * SCALE


@hologram.kernel
def branching(x: Any) -> Any:
    if x < 0:
        return -x
    return x * 10


def test_helpers_closures_and_defaults() -> None:
    offset = 0.25

    @hologram.kernel
    def f(x: Any, y: Any = 2, *, z: float = 0.5) -> Any:
        def inner(v: Any) -> Any:
            return v + offset

        return helper(inner(x)) * y + branching(x - 1) + z

    x = np.array([0.0, 1.0, 2.0])
    assert f(x).tolist() == [(v + 0.25) * 3 * 2 + (1 - v if v < 1 else (v - 1) * 10) + 0.5 for v in (0, 1, 2)]
    assert f(x, z=1).tolist() == (f(x) + 0.5).tolist()
    g = hologram.kernel(lambda x, k=2.0: x * k)
    for _ in range(3):
        assert g(x).tolist() == [0, 2, 4]
    assert f(x, x, z=0).tolist() == [(v + 0.25) * 3 * v + (1 - v if v < 1 else (v - 1) * 10) for v in (0, 1, 2)]
    assert f(y=x, x=x, z=0).tolist() == f(x, x, z=0).tolist()


def test_numbers_from_outside_are_those_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    k = 1.0

    @hologram.kernel
    def f(x: Any) -> Any:
        return x * k + SCALE

    x = np.ones(2)
    assert f(x).tolist() == [4, 4]
    k = 5.0
    assert f(x).tolist() == [8, 8]
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert f(x).tolist() == [15, 15]
    k = 0.0
    g = hologram.kernel(lambda x: x * k)
    assert not np.signbit(g(x)).any()
    k = -0.0
    assert np.signbit(g(x)).all()
    one, other = None, 2.0
    either = hologram.kernel(lambda x: x + (one or 0) * 10 + (other or 0))
    assert either(x).tolist() == [3, 3]
    one, other = 2.0, None
    assert either(x).tolist() == [21, 21]
    k = True
    h = hologram.kernel(lambda x: x + k)
    assert h(np.ones(1, bool)).dtype == bool
    k = 1
    assert h(np.ones(1, bool)).dtype == np.int64


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
def test_zeros_of_both_signs_make_programs_of_their_own(kind: Any) -> None:
    x = np.ones(3, np.float32)
    k = kind(0.0)
    outside, static = hologram.kernel(lambda x: x * k), hologram.kernel(lambda x, k: x * k, static="k")
    held = hologram.kernel(lambda x, pair: x * pair[0], static="pair")
    for value in (0.0, -0.0, 0.0):
        k = kind(value)
        for made in (outside(x), static(x, k), held(x, (k, 1))):
            assert_same(made, x * k)


def test_numbers_from_outside_may_be_named_inside_or_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(2)
    inside = [
        hologram.kernel(lambda x: sum([x * SCALE for _ in range(1)])),
        hologram.kernel(lambda x: (lambda y: y * SCALE)(x)),
    ]
    late = hologram.kernel(lambda x: x * LATER)  # type: ignore[name-defined]  # noqa: F821
    maybe = hologram.kernel(lambda x: x * (LATER if SCALE > 5 else 1))  # type: ignore[name-defined]  # noqa: F821
    with pytest.raises(NameError):
        late(x)
    assert maybe(x).tolist() == [1, 1]
    for scale in (2.0, 7.0, 9.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        monkeypatch.setitem(globals(), "LATER", scale + 1)
        assert [f(x)[0] for f in inside] == [scale, scale]
        assert (late(x)[0], maybe(x)[0]) == (scale + 1, scale + 1 if scale > 5 else 1)


def test_any_number_of_arrays() -> None:
    @hologram.kernel
    def mean(first: Any, *others: Any) -> Any:
        total = first
        for other in others:
            total = total + other
        return total / (1 + len(others))

    x = np.arange(3.0)
    assert mean(x).tolist() == [0, 1, 2]
    assert mean(x, x + 1, x + 5).tolist() == [2, 3, 4]


def test_static_arguments() -> None:
    @hologram.kernel(static=["order", "name"])
    def f(x: Any, order: int, name: str = "sin") -> Any:
        total = 0.0
        for _ in range(order):
            total = total + getattr(hologram, name)(x)
        return total

    x = np.linspace(0, 1, 5)
    assert f(x, 3).tolist() == (hologram.sin(x) + hologram.sin(x) + hologram.sin(x)).tolist()
    assert f(x, 1, "cos").tolist() == hologram.cos(x).tolist()
    assert f(x, 0).tolist() == [0] * 5
    g = hologram.kernel(lambda x, k: x * k[0], static="k")
    assert [str(g(np.ones(1, bool), (k,)).dtype) for k in (True, 1, 1.0)] == ["bool", "int64", "float64"]
    with pytest.raises(TypeError, match="order is static, and list has no hash"):
        f(x, [1])


def test_annotated_numbers() -> None:
    @hologram.kernel
    def f(x: Any, a: float, b: np.float32, c: "i8" = 1) -> Any:  # type: ignore[name-defined]  # noqa: F821, UP037
        return x * a, x * b, x * c

    x = np.ones(1, np.int32)
    first = f(x, 2, 2)
    assert [r.dtype for r in first] == [np.float64, np.float64, np.int32]
    f(x, 2.5, 3.5, 2)
    assert "1 programs" in repr(f)
    assert f(np.ones(1, np.float16), 2, 2)[1].dtype == np.float32
    inlined = hologram.kernel(lambda x: f(x, 2, 3))(np.ones(1, np.float16))
    assert [r.dtype for r in inlined] == [np.float16, np.float32, np.float16]
    with pytest.raises(TypeError, match=r"f: a: it is a ndarray; expected a number \(float\), as annotated"):
        f(x, x, 2)
    g = hologram.kernel(branching_int)
    with pytest.raises(TypeError, match=r"n: it is 1.5; expected a number \(int\), as annotated"):
        g(x, 1.5)
    assert g(x, True).tolist() == [2]


@pytest.mark.parametrize("annotation", ["f31", "'f31'", "np.float31", "float33", "u7", "bf8", "numpy.int128"])
def test_annotations_spelled_as_dtypes_are_dtypes(annotation: str) -> None:
    def f(x, k):  # type: ignore[no-untyped-def]
        return x * k

    f.__annotations__["k"] = annotation
    with pytest.raises(
        ValueError, match=r"kernel f: k is annotated '[\w.]+', which is no dtype; expected float, int, bool"
    ):
        hologram.kernel(f)


@pytest.mark.parametrize("annotation", ["f32", "'f32'", "np.float32", "float32", np.float32, np.dtype("f4")])
def test_annotations_that_are_dtypes(annotation: Any) -> None:
    def f(x, k):  # type: ignore[no-untyped-def]
        return x * k

    f.__annotations__["k"] = annotation
    assert hologram.kernel(f)(np.ones(1, np.float16), 2).dtype == np.float32
    f.__annotations__["k"] = "Any"
    assert hologram.kernel(f)(np.ones(1, np.float16), 2).dtype == np.float16


def branching_int(x: Any, n: int) -> Any:
    return x + n


# ---- arrays

KINDS = ["numpy", "buffer", "torch"]


def as_kind(kind: str, x: np.ndarray[Any, Any], ex: hg.Executor) -> Any:
    if kind == "torch":
        return pytest.importorskip("torch", reason="torch is not installed").from_numpy(x)
    return ex.wrap(x) if kind == "buffer" else x


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_what_the_first_array_is(host: hg.Executor, kind: str) -> None:
    f = hologram.kernel(lambda k, x, y: (x + y * k, x < y))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.ones(3, np.float32)
    total, less = f(2, as_kind(kind, x, host), y)
    for result, dtype in ((total, "float32"), (less, "bool")):
        assert type(result) is type(as_kind(kind, x, host))
        assert tuple(result.shape) == (2, 3)
        assert dtype in str(result.dtype)
    assert_same(np.asarray(total), x + y * 2)
    assert_same(np.asarray(less), x < y)
    out = as_kind(kind, np.empty((2, 3), np.float32), host), as_kind(kind, np.empty((2, 3), bool), host)
    assert f(2, x, y, out=out) is out
    assert_same(np.asarray(out[0]), x + y * 2)
    assert_same(np.asarray(out[1]), x < y)


def test_other_memory_and_dlpack(host: hg.Executor) -> None:
    class Other:
        """Something with DLPack and nothing else."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    import array

    f = hologram.kernel(lambda x: x + 1)
    assert f(Other(np.arange(3))).tolist() == [1, 2, 3]
    assert f(array.array("f", [1, 2])).tolist() == [2, 3]
    assert f(memoryview(np.arange(3, dtype=np.int16))).tolist() == [1, 2, 3]


def test_bfloat16(host: hg.Executor) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    got = hologram.kernel(lambda x: (x * 0.5 + 1, x + np.float32(1)))(x)
    assert [str(g.dtype) for g in got] == ["bfloat16", "float32"]
    assert got[0].astype("f4").tolist() == [1, 1.5, 2, 2.5, 3]
    with pytest.raises(TypeError, match=r"bf16 and i32 have no common type; convert one with .astype"):
        hologram.kernel(lambda x, y: x + y)(x, np.arange(5, dtype=np.int32))


@pytest.mark.parametrize(
    "shapes",
    [[(), ()], [(3,), ()], [(2, 1), (1, 3)], [(0,), (1,)], [(3, 0), (0,)], [(4, 1, 2), (3, 1)], [(1,), (1, 1)]],
)
def test_shapes_broadcast(shapes: list[tuple[int, ...]]) -> None:
    f = hologram.kernel(lambda x, y: x - y)
    rng = np.random.default_rng(0)
    x, y = (np.asarray(rng.standard_normal(shape)) for shape in shapes)
    expected = np.asarray(x - y)
    assert_same(f(x, y), expected)
    out = np.full((2, *expected.shape), 7.0)
    assert f(x, y, out=out) is out
    assert_same(out, np.broadcast_to(expected, out.shape).copy())
    f(np.ones(3), np.ones(3))  # what is known of dtypes must not stand for shapes
    assert_same(f(np.zeros(3), np.ones((2, 3))), np.full((2, 3), -1.0))


def test_strides(host: hg.Executor) -> None:
    f = hologram.kernel(lambda x, y: x * 2 + y)
    base = np.arange(120.0).reshape(10, 12)
    for view in (base[::2, ::3], base.T[1:9:2], base[::-1, ::-1], np.broadcast_to(base[0], (4, 12)), base[3:4, 5:6]):
        assert_same(f(view, view), view * 2 + view)
        out = np.zeros((*view.shape, 2))[..., 1]
        f(view, view, out=out)
        assert_same(out.copy(), view * 2 + view)
    x = np.arange(5.0)
    f(x, x, out=x)
    assert x.tolist() == [0, 3, 6, 9, 12]
    buffer = host.from_numpy(np.arange(12.0))
    got = f(buffer.view((3, 4), strides=(1, 3)), 1)
    assert np.asarray(got).tolist() == (np.arange(12.0).reshape(4, 3).T * 2 + 1).tolist()


def test_a_stencil_sees_neighbours_as_shifted_views() -> None:
    f = hologram.kernel(lambda left, here, right: 0.25 * left + 0.5 * here + 0.25 * right)
    x = np.random.default_rng(0).standard_normal(100)
    out = x.copy()
    f(x[:-2], x[1:-1], x[2:], out=out[1:-1])
    assert_same(out[1:-1], 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:])
    with pytest.raises(ValueError, match="overlap"):
        f(x[:-2], x[1:-1], x[2:], out=x[1:-1])


def test_names_that_programs_reserve() -> None:
    @hologram.kernel
    def f(index: Any, n: Any, shape: Any, λ: Any, r1: Any, program: float, out_: Any, exit: Any = 8) -> Any:
        return index + 2 * n + 3 * shape + 4 * λ + 5 * r1 + 6 * program + 7 * out_ + exit

    x = np.ones(2)
    assert f(x, x, x, x, x, 1, x).tolist() == [36, 36]
    many = hologram.kernel(lambda *x: sum(x))
    assert many(*[x] * 63).tolist() == [63, 63]
    with pytest.raises(ValueError, match="64 slots"):
        many(*[x] * 64)


def test_pickling_is_by_name() -> None:
    import pickle

    # The module of this test can't be imported by its name, so one that can stands in.
    import sys
    import types

    module = types.ModuleType("of_kernels")
    branching_there = hologram.kernel(branching.__wrapped__)
    branching_there.__module__, module.branching = module.__name__, branching_there  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        assert pickle.loads(pickle.dumps(branching_there)) is branching_there
    finally:
        del sys.modules[module.__name__]


def test_numbers_alone_give_a_number() -> None:
    f = hologram.kernel(lambda x, y: x / y)
    assert f(1, 4) == 0.25
    assert type(f(1, 4)) is np.float64
    assert f(np.float32(1), 4).dtype == np.float32
    assert hologram.exp(0) == 1


def test_out_of_another_type() -> None:
    f = hologram.kernel(lambda x, y: x * y)
    x = np.array([1.25, -3.75])
    for dtype in ("f2", "f4", "f8"):
        out = np.empty(2, dtype)
        f(x, 2, out=out)
        assert_same(out, (x * 2).astype(dtype))
    with pytest.raises(TypeError, match="out is i32, and the result f64 isn't put there silently"):
        f(x, 2, out=np.empty(2, np.int32))
    with pytest.raises(TypeError, match="out is u32, and the result i32"):
        f(np.ones(2, np.int32), 2, out=np.empty(2, np.uint32))
    line = test_out_of_another_type.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=rf"at {re.escape(__file__)}:{line}: f = hologram.kernel"):
        f(x, 2, out=np.empty(2, np.int32))
    wide = np.empty(2, np.int64)
    f(np.array([100, 7], np.int8), np.int8(2), out=wide)
    assert wide.tolist() == [-56, 14]  # computed as the arguments are


# ---- mistakes


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

    case("a Python float of a value .* not math's")(lambda x: math.exp(x))
    case(r"an index of a value .* name the argument in static=")(lambda x: sum(range(x)))
    case("the truth of a value .* hologram.where")(lambda x: with_if_in_helper(x))
    case("the truth of a value")(lambda x: max(x, 1))
    case("iteration of a value")(lambda x: sum(x))
    case("an element of a value .* shifted views")(lambda x: x[1:])
    case("the length of a value")(lambda x: len(x))
    case("a Python float of a value")(lambda x: np.float32(x))
    case("Python's round of a value .* hologram.round")(lambda x: round(x))
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
    case("a power of integers takes a number")(lambda x: x.astype("i32") ** x.astype("i32"))
    case("bitcast: x is .*f32>; i64 has another size")(lambda x: h.bitcast(x, "i64"))
    case("hologram.range: stop is .*f32>; expected an integer")(lambda x: [0 for _ in h.range(x)])
    case("step is 0; expected an int")(lambda x: h.range(0, 3, 0))
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

    @case("`else` of a loop over hologram.range is not there")
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

    @case(r"a matrix product of a value.*hologram.ops.gemm")
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

    @case("3 values don't go to 2 names")
    def _(x):  # type: ignore[no-untyped-def]
        a, b = x, x, x
        return a + b

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
    with pytest.raises((ValueError, TypeError, AttributeError), match=text) as caught:
        hologram.kernel(function)(np.ones(3, np.float32))
    message = str(caught.value)
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
        ("f4", "a < -1e300"),
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


def test_mistakes_of_calls() -> None:
    f = hologram.kernel(lambda x, y: x + y)
    x = np.ones(3)
    for arguments, keywords, text in [
        ((x,), {}, "missing a required argument: 'y'"),
        ((x, x), {"c": 2}, "lambda: there is no parameter c; it has x, y"),
        ((x, x), {"executor": "cpu"}, "lambda: executor is 'cpu'; expected an Executor"),
        ((x, x), {"out": 1.0}, "lambda: out is 1.0; expected an array"),
        ((x, x), {"out": (x, None)}, "lambda: out is None; expected an array"),
        ((x, x, x), {}, "too many positional"),
        ((x, [1, 2]), {}, "lambda: y is a list; expected a Buffer, a numpy array"),
        ((x, None), {}, "y is a NoneType"),
        ((x, 1j), {}, "y is a complex"),
        ((x, np.ones(3, complex)), {}, "y: dtype complex128 is not supported"),
        ((x, np.array([None])), {}, "y: dtype object is not supported"),
        ((x, x.astype(">f8")), {}, "byte order"),
        ((x, np.ones(4)), {}, r"the shapes \(3,\), \(4,\) don't broadcast together"),
        ((x, x), {"out": np.ones(4)}, r"the shapes \(3,\), \(3,\) don't broadcast together, and to out \(4,\)"),
        ((x, x), {"out": np.ones(())}, "out has shape"),
        ((x, x), {"out": (x, x)}, "out has 2 arrays for 1 results"),
        ((x, 1 << 70), {}, "more than 64 bits"),
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
        with pytest.raises(TypeError, match=f"the truth of a value.*the source of {name}, .* can't be found: of what"):
            hologram.kernel(namespace[name])(np.ones(1))
    hologram.kernel(namespace["f"])(np.ones(1), 2.0)
    with pytest.raises(TypeError, match="`if` works in functions decorated with"):  # it has a source, its helper none
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
    with pytest.raises(TypeError, match="the truth of a value"):
        late(x)


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


# ---- compiling once


def counted(f: Any) -> int:
    return int(repr(f).rpartition(": ")[2].split()[0])


def test_a_signature_is_compiled_once() -> None:
    runs = []

    def body(x: Any, k: Any) -> Any:
        runs.append(1)
        return x * k

    f = hologram.kernel(body)
    x = np.ones(3, np.float32)
    for k in (1.0, 2.0, 3.0):
        for shape in ((3,), (2, 2), ()):
            f(np.ones(shape, np.float32), k)
    assert len(runs) == 1
    f(x, 1)
    f(x, np.float32(1))
    f(x.astype("f8"), 1.0)
    assert (len(runs), counted(f)) == (4, 4)


def test_a_kernel_keeps_a_bounded_number_of_programs() -> None:
    from hologram._kernel import call

    f = hologram.kernel(lambda x, k: x + k, static="k")
    x = np.zeros(1)
    for k in range(call._LIMIT + 20):
        assert f(x, k) == k
    assert counted(f) == call._LIMIT
    assert f(x, 0) == 0
    number = 0.0
    g = hologram.kernel(lambda x: x + number)
    for k in range(call._LIMIT + 20):
        number = float(k)
        assert g(x) == k
    assert counted(g) == call._LIMIT
    assert len(g._ready) <= call._LIMIT


def test_threads() -> None:
    runs = []

    def body(x: Any, k: Any) -> Any:
        runs.append(1)
        for _ in hologram.range(3):
            x = x + k
        return x

    f = hologram.kernel(body)
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(i: int) -> None:
        try:
            start.wait()
            for n in range(50):
                for dtype in ("f4", "f8", "i4"):
                    x = np.full(100 + i, n, dtype)
                    assert_same(f(x, i), (x + 3 * i).astype(dtype))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (len(runs), counted(f)) == (3, 3)


def test_the_names_of_kernels_are_hologram_s() -> None:
    from hologram import _kernel

    hidden = {"range", "abs", "pow", "round"}
    assert set(_kernel.__all__) - set(hologram.__all__) == hidden
    assert len(hologram.__all__) == len(set(hologram.__all__))
    for name in _kernel.__all__:
        assert getattr(hologram, name).__name__ == name
    assert not hasattr(hologram, "range_")


def test_importing_hologram_does_not_import_kernels() -> None:
    import subprocess
    import sys

    code = (
        "import sys, hologram; assert not [m for m in sys.modules if m.startswith('hologram._kernel')]; "
        "assert {'kernel', 'where', 'range'} <= set(dir(hologram)); "
        "from hologram import *; assert range(3)[1] == 1; assert abs is __builtins__.abs; "
        "hologram.where; assert 'hologram._kernel' in sys.modules; "
        "assert hologram._KERNELS == set(hologram._kernel.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


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
