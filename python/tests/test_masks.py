"""Comparisons, whose results are masks, and where, which takes one; bools where the result of bools is bools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import DTYPES

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of

F32 = np.float32
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


def edges(name: str) -> np.ndarray[Any, Any]:
    dtype = dtype_of(name)
    if name[0] in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, 2, limits.max - 1, limits.min + 1], dtype)
    return np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1.5, 6e-8, -6e-8], dtype)


def host_array(x: Any) -> np.ndarray[Any, Any]:
    return x if isinstance(x, np.ndarray) else x.to_numpy().reshape(x.shape)


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("name", DTYPES)
def test_comparisons_are_numpy_s(ex: hg.Executor, op: str, name: str) -> None:
    function, expected = getattr(ops, f"vector_{op}"), getattr(np, op)
    x = edges(name)
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    with np.errstate(invalid="ignore"):
        wanted = expected(a, b)
    out, octets = np.zeros(a.size, bool), np.full(a.size, 9, "u1")
    assert function(a, b, out) is None and np.array_equal(out, wanted)
    function(a, b, octets)
    assert np.array_equal(octets, wanted.view("u1"))
    got = function(x[:, None], x)
    assert got.dtype == bool and np.array_equal(got, wanted.reshape(x.size, x.size))
    made = function(ex.from_numpy(a), ex.from_numpy(b))
    assert type(made) is hg.Buffer and made.dtype == bool and np.array_equal(made.to_numpy(), wanted)
    assert np.array_equal(function(a[::-2], b[::-2]), wanted[::-2])
    one = np.ones_like(a)
    assert np.array_equal(function(a, 1), function(a, one)) and np.array_equal(function(1, a), function(one, a))
    assert np.array_equal(function(a, b, n=3), wanted[:3])


BEYOND = [-(2**70), -(2**63) - 1, -(2**63), -129, -1, 0, 255, 256, 300, 70_000, 2**32, 2**63, 2**64, 10**30]


@pytest.mark.parametrize("op", COMPARISONS)
@pytest.mark.parametrize("name", [*DTYPES, "bool"])
def test_comparisons_with_any_int_are_numpy_s(ex: hg.Executor, op: str, name: str) -> None:
    """Of what a type does not hold too; of floats what is beyond all is infinite, about which numpy warns."""
    function, expected = getattr(ops, f"vector_{op}"), getattr(np, op)
    x = np.array([False, True]) if name == "bool" else edges(name)
    numbers: list[Any] = (
        BEYOND if x.dtype.kind in "iub" else [-(2**62), -70_000, 2**62, 1e39, -1e39, 65_520.0, 65_519.9]
    )
    for number in numbers:
        theirs = x.view("u1") if name == "bool" and abs(number) >= 2**63 else x  # numpy 2.4 refuses such beside bools
        with np.errstate(all="ignore"):
            wanted = expected(theirs, number), expected(number, theirs)
        for given in (x, ex.from_numpy(x)):
            assert np.array_equal(host_array(function(given, number)), wanted[0])
            assert np.array_equal(host_array(function(number, given)), wanted[1])
        out = np.zeros(x.shape, bool)
        assert function(x, number, out=out) is out and np.array_equal(out, wanted[0])
        assert np.array_equal(function(x, number, n=2), wanted[0][:2])
    with pytest.raises(ValueError, match=rf"^vector_{op}: a: shape"):
        function(x, 10**30 if x.dtype.kind in "iub" else 1e39, np.zeros((2, 2, 2), bool)[:, :, :1])


def test_what_is_computed_holds_its_numbers() -> None:
    for call in (ops.vector_add, ops.vector_min, lambda x, n: ops.where(x > 0, x, n)):
        with pytest.raises(ValueError, match="300; i8 goes from -128 to 127"):
            call(np.ones(3, np.int8), 300)


@pytest.mark.parametrize("name", DTYPES)
def test_where(ex: hg.Executor, name: str) -> None:
    x = edges(name)
    y, mask = x[::-1].copy(), np.arange(x.size) % 3 == 0
    wanted = np.where(mask, x, y)
    for got in (
        ops.where(mask, x, y),
        ops.where(mask.view("u1") * 7, x, y),
        ops.where(ex.from_numpy(mask), ex.from_numpy(x), ex.from_numpy(y)),
        ops.where(~mask, y, x),
    ):
        assert got.dtype == x.dtype and host_array(got).tobytes() == wanted.tobytes()
    assert np.array_equal(
        ops.where(mask[:, None], x, 1), np.where(mask[:, None], x, x.dtype.type(1)), equal_nan=name[0] not in "iu"
    )
    assert ops.where(True, x, y).tobytes() == x.tobytes() and ops.where(False, x, y).tobytes() == y.tobytes()
    assert ops.where(mask, 1, y).tobytes() == np.where(mask, x.dtype.type(1), y).tobytes()
    out = x.copy()
    ops.where(mask, out, y, out)
    assert out.tobytes() == wanted.tobytes()


def test_the_bits_of_nans_stay(host: hg.Executor) -> None:
    odd = np.array([0x7F800001, 0xFFC12345], "u4").view(F32)
    assert ops.where(np.array([True, False]), odd, odd[::-1]).view("u4").tolist() == [0x7F800001, 0x7F800001]


def test_bools_stay_bools(ex: hg.Executor) -> None:
    x = np.array([True, True, False, False])
    y = np.array([True, False, True, False])
    for function, wanted in ((ops.vector_max, x | y), (ops.vector_min, x & y), (ops.vector_mul, x & y)):
        for got in (function(x, y), function(ex.from_numpy(x), ex.from_numpy(y))):
            assert got.dtype == bool and np.array_equal(host_array(got), wanted)
    assert ops.where(x, y, False).tolist() == (x & y).tolist() and ops.where(x, y, False).dtype == bool
    assert ops.vector_equal(x, y).tolist() == (x == y).tolist()
    assert ops.reduce_max(x) is True and ops.reduce_min(x) is False and ops.reduce_max(ex.from_numpy(x)) is True
    rows = ops.reduce_min(np.stack([x, y]), axis=0)
    assert rows.dtype == bool and np.array_equal(rows, x & y)


def test_one_of_bools_is_a_bool(ex: hg.Executor) -> None:
    """However it comes to the host."""
    x, out = ex.from_numpy(np.array([True, False])), ex.from_numpy(np.zeros(3, bool))
    for found in (ops.reduce_max(ex, x, out), ops.reduce_max(ex, x), ops.reduce_max(x)):
        assert found is True
    assert ops.reduce_min(ex, x, out) is False


def test_numbers_beside_bools_are_bools_where_the_result_is(ex: hg.Executor) -> None:
    x = np.array([False, True, True])
    for of in (x, ex.from_numpy(x)):
        for n in (True, False, 1, 0):
            for call, wanted in (
                (lambda a, n=n: ops.vector_mul(a, n), x * bool(n)),
                (lambda a, n=n: ops.vector_max(n, a), np.maximum(bool(n), x)),
                (lambda a, n=n: ops.where(a, a, n), np.where(x, x, bool(n))),
            ):
                assert host_array(call(of)).view("u1").tolist() == wanted.tolist()
        for n in (3, -1, 300, 0.5, 2.0, float("nan")):
            for refused in (
                lambda a, n=n: ops.vector_mul(a, n),
                lambda a, n=n: ops.vector_max(n, a),
                lambda a, n=n: ops.where(a, n, a),
                lambda a, n=n: ops.vector_min(a, n, out=np.zeros(3, bool) if a is x else ex.from_numpy(x)),
            ):
                with pytest.raises(
                    ValueError, match=r"is (-?[0-9.]+|nan), and [ab] has dtype bool.* expected True or F"
                ):
                    refused(of)
    assert ops.vector_mul(x, 3, out=np.zeros(3, "u1")).tolist() == [0, 3, 3]
    assert ops.vector_mul(x.view("u1"), 3).tolist() == [0, 3, 3]
    assert ops.vector_equal(x, 3).tolist() == [False] * 3 and ops.vector_less(x, 3).tolist() == [True] * 3


def test_where_of_two_numbers_has_numpys_dtypes(ex: hg.Executor) -> None:
    mask = np.array([[True, False, True], [False, False, True]])
    for a, b in ((1.0, 0.0), (1, 0), (True, False), (-1, 0.5), (True, 3), (0.5, True)):
        for given in (mask, mask.view("u1")):
            found, expected = ops.where(given, a, b), np.where(mask, a, b)
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)
        made = ops.where(ex.from_numpy(mask), a, b)
        assert isinstance(made, hg.Buffer)
        assert np.array_equal(made.to_numpy(), np.where(mask, a, b))
        assert ops.where(mask, a, b, n=2).tolist() == [a, b]
    assert ops.where(mask, 1, 0, out=np.zeros((2, 3), np.float32)).tolist() == mask.tolist()


def test_what_is_no_mask(host: hg.Executor) -> None:
    x, mask = np.ones(3, F32), np.ones(3, bool)
    for call, text in (
        (lambda: ops.where(x, x, x), "where: mask has dtype f32; expected bool, or u8"),
        (lambda: ops.where(mask, x, x.astype("f8")), "where: b has dtype f64, and a has f32"),
        (lambda: ops.vector_less(x, x, x.copy()), "vector_less: c has dtype f32; expected bool, or u8"),
        (lambda: ops.vector_less(1, 2), "vector_less: a is 1, a number"),
        (
            lambda: ops.where(mask, x, x, np.ones(3, bool)),
            "where: c has dtype bool; the operation would write bytes other",
        ),
        (
            lambda: ops.copy(np.full(3, 7, "u1"), mask.copy()),
            "copy: dst has dtype bool; the operation would write bytes other",
        ),
        (lambda: ops.vector_max(mask, np.full(3, 7, "u1"), mask.copy()), "vector_max: c has dtype bool"),
        (lambda: ops.vector_add(mask, mask), "vector_add: a has dtype bool, and vector_add makes no bools"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match=r"where: the shapes do not broadcast together: mask \(3,\), a \(2,\)"):
        ops.where(mask, x[:2], x[:2])
    assert ops.vector_max(mask, np.full(3, 7, "u1")).tolist() == [7, 7, 7]


def test_bools_that_are_no_0_and_1(host: hg.Executor) -> None:
    """Masks and kernels take all but 0 for true; all else is as of u8."""
    a, b = (np.array(each, np.uint8) for each in ([16, 2, 255, 0, 64, 0], [16, 128, 255, 1, 4, 0]))
    x, y = a.view(bool), b.view(bool)
    numbers = np.arange(6, dtype=np.float32)
    assert ops.where(host, x, numbers, -numbers).tolist() == np.where(a != 0, numbers, -numbers).tolist()
    for name in ("vector_equal", "vector_less", "vector_min", "vector_max", "vector_mul"):
        function = getattr(ops, name)
        assert function(host, x, y).view(np.uint8).tolist() == function(host, a, b).view(np.uint8).tolist()
    assert ops.copy(host, x).view(np.uint8).tolist() == a.tolist()
    assert ops.reduce_sum(host, x) == a.sum(dtype=int)

    @hg.kernel
    def f(p: Any, q: Any) -> Any:
        return p & q, p ^ q, p == q, not p, hg.where(p, 1.0, 2.0), p + 1

    for found, expected in zip(f(x, y, executor=host), f(a != 0, b != 0, executor=host)):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("number", [2, 255, -1, 0, 1])
def test_a_number_that_bools_are_filled_with_is_one_of_them(host: hg.Executor, number: int) -> None:
    """What the memory holds then are 0 and 1 alone."""
    to = host.allocate(3, bool)
    try:
        ops.fill(host, to, number)
    except ValueError:  # as of no u8
        return
    assert to.to_numpy().view(np.uint8).tolist() == [int(number != 0)] * 3
