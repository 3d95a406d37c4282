"""What C makes itself, without a line of Python: axes, numbers, bools, n and broadcasting, each held against numpy.

The calls are made once with Python's part of operations taken away, and once more in a way that C leaves to it, so that
both are the same.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of
from hologram._ffi import hooks

F32 = np.float32
Kind = Callable[[np.ndarray[Any, Any]], Any]


@pytest.fixture
def host() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


@pytest.fixture
def alone(host: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call may go to Python. What C asks for once it has asked before."""
    ops.vector_less(host, np.zeros(1, F32), np.zeros(1, F32))

    def left(name: str, *_: Any) -> None:
        raise AssertionError(f"{name} was left to Python")

    monkeypatch.setitem(hooks, "operation", left)


def kinds(host: hg.Executor) -> dict[str, Kind]:
    return {"array": lambda a: a, "Buffer": host.wrap}


def same(got: Any, want: np.ndarray[Any, Any], what: object) -> None:
    got = np.asarray(got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    assert got.tobytes() == want.tobytes(), what


def layouts() -> dict[str, np.ndarray[Any, Any]]:
    a = (np.arange(2 * 3 * 4, dtype=F32) * 7 % 11).reshape(2, 3, 4)
    return {
        "packed": a,
        "transposed": a.transpose(2, 0, 1),
        "backward": a[:, ::-1, ::2],
        "broadcast": np.broadcast_to(a[:, :1], (2, 5, 4)),
        "a vector": a[0, 0],
        "one number": np.array(a[0, 0, 1]),
        "empty": a[:, :, :0],
    }


def choices(rank: int) -> list[Any]:
    """Every set of axes, some of them counted from the end."""
    sets = [c for n in range(rank + 1) for c in itertools.combinations(range(rank), n)]
    return [None, *range(-rank, rank), *sets, *(tuple(a - rank for a in reversed(c)) for c in sets)]


REDUCED: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_prod": np.prod,
    "reduce_max": np.max,
    "reduce_min": np.min,
}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["array", "Buffer"])
@pytest.mark.parametrize("layout", list(layouts()))
def test_axes(host: hg.Executor, layout: str, kind: str) -> None:
    a = layouts()[layout]
    given = kinds(host)[kind](a)
    for (name, peer), keep in itertools.product(REDUCED.items(), (False, True)):
        if not a.size and name in ("reduce_max", "reduce_min"):
            continue
        for axis in choices(a.ndim):
            if axis is None and not keep:
                continue
            want = np.asarray(peer(a.astype(np.float64), axis=axis, keepdims=keep)).astype(F32)  # exact
            f = getattr(ops, name)
            if want.size or kind == "array":
                same(f(host, given, axis=axis, keepdims=keep), want, (name, axis, keep))
            if want.size:
                out = np.empty_like(want)
                assert f(host, given, out, axis=axis, keepdims=keep) is out
                same(out, want, (name, axis, keep, "out"))
    for axis in range(a.ndim) if a.size else ():
        same(ops.argmax(host, given, axis=axis), np.argmax(a, axis=axis), axis)
        same(ops.argmin(host, given, axis=-1 - axis), np.argmin(a, axis=-1 - axis), axis)
        same(ops.cumsum(host, given, axis=axis), np.cumsum(a, axis=axis), axis)
        by_rows = ops.softmax(host, np.ascontiguousarray(np.moveaxis(a, axis, -1)), axis=-1)
        same(ops.softmax(host, given, axis=axis), np.ascontiguousarray(np.moveaxis(by_rows, -1, axis)), axis)


def test_a_buffer_that_stood_for_a_scalar(host: hg.Executor, request: pytest.FixtureRequest) -> None:
    """C knows Buffers by their type still."""
    out = host.wrap(np.zeros(3, F32))
    ops.fill(host, out, host.wrap(np.full(1, 2, F32)))
    request.getfixturevalue("alone")
    assert ops.vector_add(host, out, out).to_numpy().tolist() == [4, 4, 4]


def test_axes_that_python_reads(host: hg.Executor) -> None:
    a = layouts()["transposed"]
    for axis, plain in (([0, 2], (0, 2)), (np.int64(1), 1), ((np.int8(-1), 0), (-1, 0)), ([], ())):
        for keep in (np.True_, 1, np.False_, 0):
            want = ops.reduce_sum(host, a, axis=plain, keepdims=bool(keep))
            same(ops.reduce_sum(host, a, axis=axis, keepdims=keep), np.asarray(want), (axis, keep))
        same(ops.softmax(host, a, axis=axis), np.asarray(ops.softmax(host, a, axis=plain)), axis)


def test_axes_that_are_none(host: hg.Executor) -> None:
    a = layouts()["packed"]
    for text, axis in (
        (r"reduce_sum: axis is 3; an array of shape \(2, 3, 4\) has 3 dimensions", 3),
        ("reduce_sum: axis is -4; ", -4),
        (r"reduce_sum: axis is \(1, -2\), which has one twice", (1, -2)),
        ("reduce_sum: axis is .*, which has more than 64 bits", 1 << 70),
    ):
        with pytest.raises(ValueError, match=text):
            ops.reduce_sum(host, a, axis=axis)
    with pytest.raises(TypeError, match=r"reduce_sum: axis is 1\.5; expected an integer"):
        ops.reduce_sum(host, a, axis=1.5)
    with pytest.raises(TypeError, match="reduce_sum: keepdims is 'yes'; expected True or False"):
        ops.reduce_sum(host, a, axis=0, keepdims="yes")
    with pytest.raises(ValueError, match="n counts elements, axis says"):
        ops.reduce_sum(host, a, n=3, axis=0)
    with pytest.raises(ValueError, match="reduce_max of no elements has no value"):
        ops.reduce_max(host, a[:, :0], axis=1)


def numbers(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "f":
        top = float(np.finfo(dtype).max)
        return [0, -3, True, 0.1, -0.0, 1e-42, float("inf"), float("nan"), top, -top, (1 << 53) + 1, (1 << 24) + 1]
    info = np.iinfo(dtype)
    return [int(info.min), min(int(info.max), (1 << 63) - 1), 0, 5, True, False]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["array", "Buffer"])
@pytest.mark.parametrize("name", [d for d in DTYPES if d not in ("f16", "bf16")])
def test_numbers(host: hg.Executor, name: str, kind: str) -> None:
    dtype = dtype_of(name)
    a = np.array([[1, 2, 3], [4, 5, 100]], dtype)
    given, out = kinds(host)[kind](a), np.empty_like(a)
    for value in numbers(dtype):
        with np.errstate(all="ignore"):
            cell = np.array(value).astype(dtype)
            left, right = (np.asarray(x, dtype) for x in (a - cell, cell - a))
        same(ops.vector_sub(host, given, value), left, value)
        same(ops.vector_sub(host, value, given), right, value)
        assert ops.vector_sub(host, given, value, out) is None
        same(out, left, value)
        same(ops.vector_sub(host, value, given, n=4), right.ravel()[:4], value)
        same(ops.vector_less(host, given, value), a < cell, value)
        same(ops.vector_less(value, given), cell < a, value)
        same(ops.where(host, a > 2, value, given), np.where(a > 2, cell, a), value)
        same(ops.where(a > 2, given, value), np.where(a > 2, a, cell), value)
    want = np.where(a > 2, np.array(1, dtype), a)
    same(ops.where(host, kinds(host)[kind](a > 2), 1, kinds(host)[kind](a)), want, "mask")


def test_numbers_that_do_not_fit(host: hg.Executor) -> None:
    for dtype, value, error, text in (
        (np.int8, 128, ValueError, "vector_add: b is 128; i8 goes from -128 to 127"),
        (np.int8, -129, ValueError, "vector_add: b is -129"),
        (np.uint8, -1, ValueError, "vector_add: b is -1"),
        (np.uint64, -1, ValueError, "vector_add: b is -1"),
        (np.uint64, 1 << 64, ValueError, "vector_add: b is"),
        (np.int64, 1 << 63, ValueError, "vector_add: b is"),
        (np.int32, 1.5, TypeError, r"vector_add: b is 1\.5, and a has dtype int32; expected an integer"),
        (np.float32, 1e39, ValueError, r"vector_add: b is 1e\+39; f32 goes from"),
        (np.float32, 10**39, ValueError, "vector_add: b is"),
        (np.float64, 10**400, ValueError, "vector_add: b is"),
        (np.float32, 1j, TypeError, "vector_add: b"),
        (np.float32, "2", TypeError, "vector_add: b"),
    ):
        a = np.zeros(3, dtype)
        with pytest.raises(error, match=text):
            ops.vector_add(host, a, value)
    same(ops.vector_add(host, np.zeros(2, np.uint64), (1 << 64) - 1), np.full(2, (1 << 64) - 1, np.uint64), "all bits")
    # Halves of f32's last digit and one more or less: rounded to f64 before, they are ties.
    for value in (s * ((1 << 60) + k * (1 << 36) + d) for s in (1, -1) for k in (1, 3) for d in (1, -1)):
        found = ops.vector_add(host, np.zeros(2, np.float32), value)
        same(found, np.full(2, np.array(value).astype(np.float32)), value)
    with pytest.raises(TypeError, match="a number; expected an array"):
        ops.vector_add(host, 1.0, 2.0)
    with pytest.raises(TypeError, match="a number; expected an array"):
        ops.vector_add(1.0, 2.0)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["array", "Buffer"])
def test_bools_and_wider_results(host: hg.Executor, kind: str) -> None:
    of = kinds(host)[kind]
    for name, wide in (("int8", np.int64), ("uint16", np.uint64), ("int64", np.int64), ("float32", np.float32)):
        a = (np.arange(12) % 5).astype(name).reshape(3, 4)
        for op, peer in (
            ("vector_equal", np.equal),
            ("vector_not_equal", np.not_equal),
            ("vector_less", np.less),
            ("vector_greater_equal", np.greater_equal),
        ):
            got = getattr(ops, op)(host, of(a), of(a[1]))
            assert isinstance(got, hg.Buffer) == (kind == "Buffer")
            same(got, peer(a, a[1]), (op, name))
        same(ops.reduce_sum(host, of(a), axis=0), a.sum(0, dtype=wide), name)
        same(ops.argmax(host, of(a), axis=1), a.argmax(1), name)
    mask = np.array([True, False, True])
    same(ops.reduce_sum(host, of(mask), axis=0, keepdims=True), np.array([2], np.int64), "bools")
    same(ops.vector_max(host, of(mask), of(~mask)), np.ones(3, bool), "bools")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["array", "Buffer"])
def test_n_with_a_result_that_is_left(host: hg.Executor, kind: str) -> None:
    a = np.arange(6, dtype=F32).reshape(2, 3)
    given = kinds(host)[kind](a)
    same(ops.vector_add(host, given, given, n=5), np.arange(5, dtype=F32) * 2, "elements")
    same(ops.vector_relu(host, given, n=1), np.zeros(1, F32), "elements")
    same(ops.cumsum(host, given, n=4), np.array([0, 1, 3, 6], F32), "a row")
    assert np.asarray(ops.softmax(host, given, n=2)).shape == (2,)
    assert ops.reduce_sum(host, given, n=4) == 6
    assert ops.mse_loss(host, given, given, n=4) == 0


@pytest.mark.usefixtures("alone")
def test_shapes_broadcast(host: hg.Executor) -> None:
    a = np.arange(12, dtype=F32).reshape(3, 4)
    for kind in kinds(host).values():
        for b in (a[0], a[:, :1], a[::-1], np.array(a[0, 1]), a.T[1:2, 1:2]):
            same(ops.vector_add(host, kind(a), kind(b)), a + b, b.shape)
            same(ops.vector_less(host, kind(b), kind(a)), b < a, b.shape)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", ["array", "Buffer"])
def test_products_of_vectors(host: hg.Executor, kind: str) -> None:
    of = kinds(host)[kind]
    stack = (np.arange(24, dtype=F32) % 7).reshape(2, 3, 4)
    v, w, long = stack[0, 1], stack[1, :, 0], np.arange(2000, dtype=F32) % 3
    for a, b in (
        *((stack[0], v), (w, stack[0]), (v, v), (stack, v), (w, stack), (v[::-1], stack[0].T), (long, long)),
        (stack[0, :, 1], stack[..., ::2]),
        (np.empty((0, 4), F32), v),
        (v[:0], stack[0, :0]),
        (v[:0], v[:0]),
    ):
        want = np.asarray(np.matmul(a, b))  # exact
        if want.size:
            out = np.empty_like(want)
            assert ops.gemm(host, of(a), of(b), out) is None
            same(out, want, (a.shape, b.shape))
        if want.size or kind == "array":
            same(ops.gemm(host, of(a), of(b)), want, (a.shape, b.shape))
    out = np.ones(3, F32)
    ops.gemm(host, of(stack[0]), of(v), out, alpha=2, beta=3)
    same(out, 2 * (stack[0] @ v) + 3, "scaled")
    out = np.empty(1, F32)
    ops.gemm(host, of(v), of(v), out)
    same(out, np.array([v @ v]), "one number, in an array of one dimension")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("code", ["b1", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8"])
def test_numpy_s_numbers(host: hg.Executor, code: str) -> None:
    """They are arrays of no dimension, with a dtype, and numbers where such are asked for."""
    dtype = np.dtype(code)
    x, two = np.array([0, 1, 5]).astype(dtype), dtype.type(2)
    mask = np.array([True, False, True])
    for kind, of in kinds(host).items():
        same(ops.where(of(mask), of(x), two), np.where(mask, x, two), kind)
        same(ops.vector_less(two, of(x)), two < x, kind)
        if code == "b1":
            continue
        for value in (two, two + dtype.type(1)):
            same(ops.vector_add(of(x), value), x + value, kind)
            same(ops.vector_sub(host, value, of(x)), value - x, kind)
            same(ops.scalar_mul(of(x), scalar=value), x * value, kind)
    with pytest.raises(hg.errors.DTypeError, match="b has dtype f64, and a has i16"):
        ops.vector_add(x.astype(np.int16), np.float64(2))


@pytest.mark.usefixtures("alone")
def test_results_keep_the_order_of_numpy_s_arrays(host: hg.Executor) -> None:
    """Of what lies in one order, without gaps, the result does too; else it is row-major. Kernels' results likewise."""
    a = np.arange(24, dtype=F32).reshape(2, 3, 4)
    add = hg.kernel(lambda x, y: x + y)
    for order in itertools.permutations(range(3)):
        x, row = a.transpose(order), a.transpose(order)[0]
        for y in (x, 2.0, F32(2), row, row[:, :1]):
            want = x + y
            for got in (ops.vector_add(host, x, y), add(x, y)):
                same(got, want, order)
                assert got.strides == want.strides, order
        assert ops.vector_less(x, x + 1).strides == (x < x).strides
    for x, y in ((a.T, a.T.copy()), (a.T[::2], a.T[::2]), (a[:, :, ::2], a[:, :, ::2])):
        for got in (ops.vector_add(x, y), add(x, y)):
            same(got, x + y, "others")
            assert got.flags.c_contiguous
    wide = hg.kernel(lambda x, y: x + y)
    x, y = a[0].T, a[0].T.astype(np.float64)
    assert [wide(x, y).strides for _ in range(3)] == [(x + y).strides] * 3
    for x in (a[1::-1][:1], a.T[::-1][:1], a[:1, :1, :1]):  # a stride in a dimension of one element says nothing
        for got in (*(f(x, x) for f in (ops.vector_add, add, add)), np.asarray(ops.vector_less(x, x))):
            assert min(got.strides) > 0, x.strides


@pytest.mark.usefixtures("alone")
def test_transposed_matrices(host: hg.Executor) -> None:
    """Matrices and stacks of them that are stored transposed, of sizes that their shapes say."""
    a, b = np.arange(24, dtype=F32).reshape(2, 3, 4) % 7, np.arange(20, dtype=F32).reshape(5, 4) % 5
    for kind, of in kinds(host).items():
        for left, right, flags, want in (
            (a, b, {"trans_b": True}, a @ b.T),
            (a.transpose(0, 2, 1), b, {"trans_a": True, "trans_b": True}, a @ b.T),
            (a.transpose(0, 2, 1), b.T, {"trans_a": True, "trans_b": False}, a @ b.T),
        ):
            for _ in range(3):  # planned, and then repeated
                same(ops.gemm(of(left), of(right), **flags), want, (kind, flags))
            out = np.ones_like(want)
            ops.gemm(host, of(left), of(right), of(out), alpha=2, beta=-1, **flags)
            same(out, 2 * want - 1, (kind, flags))
        same(ops.matvec(of(b), of(b[:, 0]), trans_a=True), b.T @ b[:, 0], kind)


def test_transposed_vectors(host: hg.Executor) -> None:
    a = np.arange(12, dtype=F32).reshape(3, 4)
    same(ops.gemm(host, a[0], a, trans_b=True), a[0] @ a.T, "b")
    same(ops.gemm(host, a, a[:, 1], trans_a=True, trans_b=True), a.T @ a[:, 1], "a, and b as it is")
    same(ops.gemm(host, a[0], a[1], n=1), np.asarray(a[0] @ a[1]), "n")


@pytest.mark.parametrize("kind", ["array", "Buffer"])
def test_cumsum_is_flat_without_an_axis(host: hg.Executor, alone: None, kind: str) -> None:
    for name, a in layouts().items():
        if a.size:
            same(ops.cumsum(host, kinds(host)[kind](a)), np.cumsum(a), name)
            out = np.empty(a.shape, a.dtype)
            ops.cumsum(host, kinds(host)[kind](a), out)  # of any shape
            same(out.ravel(), np.cumsum(a), name)
    same(ops.cumsum(host, np.ones((2, 3), np.int8)), np.arange(1, 7), "wide")
