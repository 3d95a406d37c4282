"""Buffers as numbers, and what they answer where numpy's arrays would do something: never a wrong answer."""

from __future__ import annotations

import collections
import copy
import operator
import pickle
import weakref
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES, buffer

import hologram as hg
from hologram._dtypes import dtype_of


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("value", [0, 1, 49, 100])
@pytest.mark.parametrize("shape", [(1,), (), (1, 1)])
def test_one_element_is_a_number(ex: hg.Executor, name: str, value: int, shape: tuple[int, ...]) -> None:
    """Its bytes are never taken for text: 49 is the letter 1."""
    array = np.full(shape, value, dtype_of(name))
    b: Any = ex.from_numpy(array)
    assert float(b) == value and type(float(b)) is float
    assert int(b) == value and type(int(b)) is int
    assert complex(b) == value
    assert bool(b) is bool(value)
    assert b.item() == value and type(b.item()) is type(array.item())


@pytest.mark.parametrize("value", [0.5, -2.75, -0.0, np.inf, np.nan])
def test_fractions(ex: hg.Executor, value: float) -> None:
    b: Any = buffer(ex, [value], np.float64)
    np.testing.assert_equal(float(b), value)
    assert bool(b) is bool(value)
    if np.isfinite(value):
        assert int(b) == int(value)
    else:
        with pytest.raises((ValueError, OverflowError)):
            int(b)


@pytest.mark.parametrize("value", [False, True])
def test_bools(ex: hg.Executor, value: bool) -> None:
    b: Any = ex.from_numpy(np.array([value]))
    assert b.item() is value and bool(b) is value and int(b) == value and float(b) == value


def test_integers_are_exact(ex: hg.Executor) -> None:
    b: Any = buffer(ex, [2**60 + 1], np.int64)
    assert int(b) == b.item() == 2**60 + 1
    out = ex.allocate(1, "i64")
    hg.ops.fill(ex, out, b)
    assert out.to_numpy()[0] == 2**60 + 1


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.float32, np.float64, bool])
@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_index_is_numpys(ex: hg.Executor, dtype: type, shape: tuple[int, ...]) -> None:
    array: Any = np.full(shape, 1, dtype)
    b: Any = ex.from_numpy(array)
    try:
        expected = operator.index(array)
    except TypeError:
        with pytest.raises(TypeError, match="only an integer buffer of no dimensions converts to an index"):
            operator.index(b)
    else:
        assert operator.index(b) == expected
    assert bytes(b) == array.tobytes()
    places = np.arange(3)
    if dtype is np.int64 and shape and not ex.host_visible:  # numpy takes it for an array
        with pytest.raises(hg.errors.BackendError, match="can't be seen in place; use to_numpy"):
            places[b]
    elif dtype is np.int64:
        np.testing.assert_array_equal(places[b], places[array])


@pytest.mark.parametrize("function", [float, int, complex, hg.Buffer.item])
@pytest.mark.parametrize("n", [2, 3])
def test_several_elements_are_no_number(ex: hg.Executor, function: Callable[[Any], Any], n: int) -> None:
    with pytest.raises(TypeError, match=r"only a buffer of one element converts to .*; use \S+\(.*\)"):
        function(ex.allocate(n, "u8"))


def test_several_elements_have_no_truth(ex: hg.Executor, host: hg.Executor) -> None:
    with pytest.raises(ValueError, match=r"truth of <Buffer 2 .* ambiguous; use numpy.any or numpy.all of .*len\(\)"):
        bool(ex.allocate(2))
    empty = host.wrap(np.empty(0, np.float32))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(empty)
    with pytest.raises(TypeError, match="only a buffer of one element"):
        float(empty)


@pytest.mark.parametrize("function", [float, int, bool, hg.Buffer.item, bytes])
@pytest.mark.parametrize("n", [1, 2])
def test_freed(ex: hg.Executor, function: Callable[[Any], Any], n: int) -> None:
    b = ex.allocate(n)
    b.free()
    with pytest.raises(RuntimeError, match="freed"):
        function(b)


def test_numbers_wait_for_what_was_queued(ex: hg.Executor) -> None:
    x: Any = ex.from_numpy(np.ones(1 << 20, np.float32))
    out: Any = ex.allocate(1)
    hg.ops.reduce_sum(ex, x, output=out)
    assert float(out) == 1 << 20


def test_len_and_identity_stay(ex: hg.Executor) -> None:
    a, b = ex.allocate((2, 3)), ex.allocate((2, 3))
    assert len(a) == 6
    assert a == a and not a != a and len({a, b, a}) == 2
    assert {a: 1, b: 2}[b] == 2 and a in [a, b]
    for keys in (weakref.WeakKeyDictionary({a: 1, b: 2}), weakref.WeakSet([a, b])):
        assert a in keys and b in keys and len(keys) == 2
    for other in (None, "text", object(), [1]):  # which have no elements to compare
        assert a != other and not a == other


# ---- what a Buffer has not

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]
BINARY += ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", BINARY)
def test_operators_say_what_to_use(ex: hg.Executor, name: str) -> None:
    b, f = ex.allocate(3), getattr(operator, name)
    for arguments in ((b, 1), (1, b), (b, 1.5), (1.5, b), (b, ex.allocate(3)), (b, True)):
        with pytest.raises(TypeError, match=r"a Buffer has no operator .*(numpy.asarray\(buffer\)|to_numpy\(\))"):
            f(*arguments)


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.inv, abs])
def test_unary_operators_say_what_to_use(ex: hg.Executor, function: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="a Buffer has no operator"):
        function(ex.allocate(3))


@pytest.mark.parametrize(
    ("function", "meant"),
    [
        (lambda b: b + 1, "hologram.ops.vector_add"),
        (lambda b: 2 - b, "hologram.ops.vector_sub"),
        (lambda b: b * b, "hologram.ops.vector_mul"),
        (lambda b: b / 2, "hologram.ops.vector_div"),
        (lambda b: b @ b, "hologram.ops.gemm"),
        (lambda b: b**2, "hologram.pow"),
        (lambda b: 2 / b, "hologram.ops.vector_div"),
        (lambda b: 2 * b, "hologram.ops.vector_mul"),
        (lambda b: b < 2, "hologram.ops.vector_less"),
        (lambda b: b <= 2, "hologram.ops.vector_less_equal"),
        (lambda b: b > 2, "hologram.ops.vector_greater"),
        (lambda b: b >= 2, "hologram.ops.vector_greater_equal"),
        (lambda b: b == 2, "hologram.ops.vector_equal"),
        (lambda b: b != 2, "hologram.ops.vector_not_equal"),
        (lambda b: b < None, "hologram.ops.vector_less"),
        (lambda b: b + "text", "hologram.ops.vector_add"),
        (lambda b: -b, "hologram.ops.vector_neg"),
        (lambda b: abs(b), "hologram.ops.vector_abs"),
    ],
)
def test_operators_name_the_operation(ex: hg.Executor, function: Callable[[Any], Any], meant: str) -> None:
    with pytest.raises(TypeError, match=f"{meant} takes it"):
        function(ex.allocate(3))


@pytest.mark.parametrize("name", BINARY)
def test_numpy_answers_with_reflected_operators(host: hg.Executor, name: str) -> None:
    whole = name in ("and_", "or_", "xor", "lshift", "rshift")
    x = np.array([1, 2, 3], np.int32 if whole else np.float32)
    b, f = host.from_numpy(x), getattr(operator, name)
    for other in (x, x.dtype.type(2)) if name != "matmul" else (x,):
        np.testing.assert_array_equal(f(other, b), f(other, x))
        np.testing.assert_array_equal(f(b, other), f(x, other))


@pytest.mark.parametrize("name", [*BINARY, "divmod"])
def test_others_may_reflect(ex: hg.Executor, name: str) -> None:
    """Each by the one method that Python asks for it, and no other."""
    mirror = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
    plain = name.rstrip("_")
    method = f"__{mirror.get(plain, 'r' + plain)}__"
    function = divmod if name == "divmod" else getattr(operator, name)
    other = type("Other", (), {method: lambda self, other: "reflected"})()
    b: Any = ex.allocate(3)
    assert function(b, other) == "reflected"
    if plain in ("eq", "ne"):
        return  # of anything else than numbers and buffers, whose answer Python has
    others = type("Others", (), {f"__r{n.rstrip('_')}__": lambda self, o: 0 for n in BINARY if n.rstrip("_") != plain})
    wrong_ones: list[Any] = [object(), others(), *(["text"] if name in ("and_", "or_", "xor", "lshift") else [])]
    for wrong in wrong_ones:
        with pytest.raises(TypeError, match="a Buffer has no operator"):
            function(b, wrong)


ATTRIBUTES = [name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(hg.Buffer, name)]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes_of_arrays_say_what_to_use(ex: hg.Executor, name: str) -> None:
    b = ex.allocate(3)
    assert not hasattr(b, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; .*(numpy.asarray\(buffer\)|to_numpy\(\))"):
        getattr(b, name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sum", "hologram.ops.reduce_sum takes it"),
        ("cumsum", "hologram.ops.cumsum takes it"),
        ("copy", "hologram.ops.copy takes it"),
        ("reshape", r"it has view\(shape\)"),
        ("tobytes", r"it has to_bytes\(\)"),
        ("numpy", r"its to_numpy\(\) is a copy"),
        ("cpu", r"its to_numpy\(\) is a copy"),
    ],
)
def test_attributes_name_what_there_is(ex: hg.Executor, name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=meant):
        getattr(ex.allocate(3), name)


def test_other_attributes_are_plainly_absent(ex: hg.Executor) -> None:
    with pytest.raises(AttributeError, match=r"^'Buffer' object has no attribute 'nothing'$"):
        _ = ex.allocate(3).nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = hg.Buffer.__new__(hg.Buffer).T  # type: ignore[attr-defined]


def test_items_and_iteration_say_what_to_use(ex: hg.Executor) -> None:
    b: Any = ex.allocate(3)
    for function in (lambda: b[0], lambda: b[:2], lambda: b[0, 1], lambda: operator.setitem(b, 0, 1)):
        with pytest.raises(TypeError, match=r"a Buffer has no items by \[\]; .*(numpy.asarray\(buffer\)|to_numpy)"):
            function()
    for function in (lambda: iter(b), lambda: list(b), lambda: [*b], lambda: 1 in b, lambda: sum(b)):
        with pytest.raises(TypeError, match=r"a Buffer is not iterable; .*(numpy.asarray\(buffer\)|to_numpy)"):
            function()


def test_memory_that_the_host_does_not_see_is_copied(ex: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    b: Any = buffer(ex, [7], np.int32)
    monkeypatch.setattr(ex, "_host_visible", False)
    assert int(b) == 7 and bool(b)
    for function in (lambda: b[0], lambda: b % 1):
        with pytest.raises(TypeError, match=r"its to_numpy\(\) is a copy as an array"):
            function()


def test_protocols_stay(host: hg.Executor) -> None:
    x = np.arange(3.0)
    b: Any = host.from_numpy(x)
    for name in ("__array__", "__array_interface__", "__dlpack__", "__len__"):
        assert hasattr(b, name)
    for name in ("__array_struct__", "__array_ufunc__", "__array_priority__", "__cuda_array_interface__", "__copy__"):
        assert not hasattr(b, name)
    np.asarray(b)[1] = 5
    assert b.to_numpy()[1] == 5
    np.testing.assert_array_equal(np.array([b, b]), [b.to_numpy()] * 2)
    assert np.sum(b) == 7 and np.add(b, 1)[1] == 6
    for function in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot copy or pickle"):
            function(b)
    assert not isinstance(b, (collections.abc.Sequence, collections.abc.Mapping))
