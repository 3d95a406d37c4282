"""Functions that kernels call, and what they see from outside: closures, defaults, statics, annotations."""

from __future__ import annotations

import functools
import itertools
import operator
import typing
from typing import Any

import numpy as np
import pytest
from kernels import assert_same, branching

import hologram

SCALE = 3.0


HIDDEN = [1]


def helper(x: Any) -> Any:
    return x * SCALE


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


def test_helpers_and_what_they_name_are_those_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(1, np.float32)
    kernels = [
        hologram.kernel(lambda x: scaled(x)),
        hologram.kernel(lambda x: by_kernel(x) + 0),  # on a line of its own: before Python 3.11 two are one
    ]
    for f in kernels:
        assert f(x).tolist() == [FACTOR + 1]
        with monkeypatch.context() as m:
            m.setitem(globals(), "FACTOR", 5)
            assert f(x).tolist() == [6]
            m.setitem(globals(), "plus_one", lambda x: x - 1)
            assert f(x).tolist() == [4]
        assert f(x).tolist() == [FACTOR + 1]
        assert len(f._cache) == 3


FACTOR = 2


def plus_one(x: Any) -> Any:
    return x + 1 if FACTOR else scaled(x)


def scaled(x: Any) -> Any:
    return plus_one(x * FACTOR)


@hologram.kernel
def by_kernel(x: Any) -> Any:
    return scaled(x)


def test_tuples_and_texts_from_outside_are_those_of_now() -> None:
    weights: Any = (1, (2.0, int))
    mode = "twice"

    @hologram.kernel
    def f(x: Any) -> Any:
        total = x * weights[0] + weights[1][0]
        return total * 2 if mode == "twice" else total

    x = np.ones(2)
    assert f(x).tolist() == [6, 6]
    weights = (1, (3.0, int))
    assert f(x).tolist() == [8, 8]
    weights = (True, (-0.0, int))
    assert f(x).tolist() == [2, 2]
    mode = "once"
    assert f(x).tolist() == [1, 1]
    assert len(f._cache) == 4
    weights = (5, (np.zeros(1), int))  # arrays are none of what is looked at
    with pytest.raises(TypeError, match="an array goes into a kernel as an argument"):
        f(x)


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


def test_any_number_of_arguments_have_names_of_their_own() -> None:
    @hologram.kernel
    def first(x0: Any, *x: Any, x1: Any = 5) -> Any:
        return x0 * 100 + x[0] * 10 + x1

    @hologram.kernel(static="counts")
    def static(x: Any, *counts: Any) -> Any:
        for count in counts:
            for _ in range(count):
                x = x + count
        return x

    @hologram.kernel
    def typed(x: Any, *ks: np.float32) -> Any:
        return sum(ks, x)

    x = np.arange(3, dtype=np.int8)
    assert first(x, 2 * x).tolist() == [5, 125, -11]
    assert first(x, x, x, x1=1).tolist() == [1, 111, -35]
    assert static(x, 1, 2).tolist() == static(x, 2, 1).tolist() == [5, 6, 7]
    assert static(x, 3).tolist() == [9, 10, 11]
    assert typed(x, 1, 0.1).dtype == np.float32
    with pytest.raises(TypeError, match=r"typed: ks\[1\]: it is a str; expected a number \(f32\), as annotated"):
        typed(x, 1, "2")
    with pytest.raises(TypeError, match=r"first: x\[0\] is a str; expected"):
        first(x, "2")


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
    for order, text in [([1], "list has no hash, .*; give a tuple$"), (set(), "set has no hash, by which .* kept$")]:
        with pytest.raises(TypeError, match=f"order is static, and {text}"):
            f(x, order)


def test_an_option_that_is_not_static_is_told_of_it() -> None:
    for option, kind in [("sin", "str"), (None, "NoneType")]:

        @hologram.kernel
        def f(x: Any, name: Any = option) -> Any:
            return x

        with pytest.raises(TypeError, match=f"f: name is a {kind}; .*; name it in static= to have it as it is$"):
            f(np.ones(1))
    with pytest.raises(TypeError, match=r"exp: x is a str; .* or a number$"):
        hologram.exp("sin")


def test_nan_is_one_static_value() -> None:
    """Of which there is one program, though no NaN equals another."""
    f = hologram.kernel(lambda x, k: x * k, static="k")
    held = hologram.kernel(lambda x, pair: x * pair[0], static="pair")
    for _ in range(3):
        assert np.isnan(f(np.ones(1), float("nan"))).all()
        assert np.isnan(held(np.ones(1), (np.float64("nan"), 1))).all()
    assert [len(each._cache) for each in (f, held)] == [1, 1]


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


def test_an_annotation_spelled_as_a_dtype_may_be_a_name_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any, k: Any) -> Any:
        return x * k

    f.__annotations__["k"] = "float31"
    monkeypatch.setitem(globals(), "float31", np.ndarray)
    assert hologram.kernel(f)(np.ones(2), np.ones(2)).tolist() == [1, 1]


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


@pytest.mark.parametrize("base", [2, np.arange(3)], ids=["int", "array"])
@pytest.mark.parametrize("exponent", [2, np.arange(3)], ids=["int", "array"])
def test_powers_of_integers_outside_of_kernels_want_floats(base: Any, exponent: Any) -> None:
    """In no kernel, of Python's numbers too, the error speaks of what there is there; what it proposes works."""
    with pytest.raises(
        TypeError, match=r"^outside of kernels .* of integers .*: a float, such as 2.0, or an array of floats"
    ) as caught:
        hologram.pow(base, exponent)
    assert "written in the kernel" not in str(caught.value)
    assert hologram.pow(2, 10.0) == 1024
    assert hologram.pow(np.arange(3), 2.0).tolist() == [0, 1, 4]
    assert hologram.pow(np.arange(3), np.full(3, 2.0)).tolist() == [0, 1, 4]
    squared = hologram.kernel(lambda x: x**2)(np.arange(3))
    assert squared.tolist() == [0, 1, 4] and squared.dtype == np.int64
    with pytest.raises(TypeError, match="a number written in the kernel"):
        hologram.kernel(lambda x, n: hologram.pow(x, n))(np.arange(3), 2)


def doubled(x: Any) -> Any:
    return x * 2


ROOT = np.sqrt


class Adds:
    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, x: Any) -> Any:
        return x + self.n

    __hash__ = None  # type: ignore[assignment]


CALLED: list[tuple[Any, Any]] = [
    (hologram.exp, np.exp), (np.negative, np.negative), (abs, np.abs), (doubled, doubled), (operator.neg, np.negative),
    (functools.partial(operator.mul, 3), lambda x: x * 3), (Adds(1), lambda x: x + 1), (Adds(2), lambda x: x + 2),
    (Adds(3).__call__, lambda x: x + 3), (hologram.kernel(doubled), doubled), (hologram.sqrt, np.sqrt),
]  # fmt: skip


def test_what_a_name_stands_for_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is called: functions of the library's, numpy's and Python's, methods, and objects that are called."""
    inner = np.sqrt

    @hologram.kernel
    def outer(x: Any) -> Any:
        return ROOT(x) + inner(x)

    x = np.array([1.0, 4.0])
    for a, b in [*itertools.permutations(CALLED, 2), (CALLED[0], CALLED[0])]:
        monkeypatch.setitem(globals(), "ROOT", a[0])
        inner = b[0]
        np.testing.assert_allclose(outer(x), a[1](x) + b[1](x))


def test_a_global_may_come_to_hide_what_python_has(monkeypatch: pytest.MonkeyPatch) -> None:
    @hologram.kernel
    def f(x: Any) -> Any:
        return abs(x) * GONE  # type: ignore[name-defined]  # noqa: F821

    monkeypatch.setitem(globals(), "GONE", np.array(2.0))
    x = np.array([-1.0, 4.0])
    assert f(x).tolist() == [2, 8]
    monkeypatch.setitem(globals(), "abs", lambda v: v + 10)
    assert f(x).tolist() == [18, 28]
    monkeypatch.delitem(globals(), "GONE")
    with pytest.raises(NameError, match="GONE"):
        f(x)


def test_what_a_function_of_hologram_s_refuses_of_out_is_told_as_its_caller_can_mend_it() -> None:
    x = np.ones(2)
    for call, text in [
        (lambda: hologram.sin(x, out=np.empty(2, np.int32)), r"sin: out is i32.*; hologram\.cast\(…, 'i32'\) conv"),
        (lambda: hologram.cast(x, "f4", out=np.empty(2, bool)), r"cast: out is bool.*hologram\.cast\(…, 'bool'\)"),
    ]:
        with pytest.raises(TypeError, match=text) as told:
            call()
        assert f"\n  at {__file__}:" in str(told.value)
        assert "in the kernel" not in str(told.value)
    assert hologram.cast(hologram.sin(x), "i32", out=np.empty(2, np.int32)).tolist() == [0, 0]
    assert hologram.cast(x, "bool", out=np.empty(2, bool)).tolist() == [True, True]


def test_what_has_an_out_of_its_own_is_wrapped() -> None:
    for function in (np.sin, functools.partial(hologram.maximum, 0.5)):
        with pytest.raises(ValueError, match=r"a parameter out=None; make one of lambda x: f\(x\), f being this"):
            hologram.kernel(function)
        assert hologram.kernel(lambda x, f=function: f(x), static="f")(np.zeros(1)).tolist() == [function(0.0)]


def test_a_function_that_is_an_argument_is_static() -> None:
    x = np.zeros(1)
    with pytest.raises(TypeError, match=r"f is a ArrayFunction; .* number; name it in static= to have it as it is$"):
        hologram.kernel(lambda x, f: f(x))(x, hologram.cos)
    assert hologram.kernel(lambda x, f: f(x), static="f")(x, hologram.cos).tolist() == [1]
    with pytest.raises(TypeError, match=r"sin: x is a builtin_function_or_method; .* or a number$"):
        hologram.sin(len)  # has no static


def test_functions_have_no_annotations_of_what_they_are_made_of() -> None:
    for name in ("sin", "where", "pow", "round"):
        assert typing.get_type_hints(getattr(hologram, name)) == {}
