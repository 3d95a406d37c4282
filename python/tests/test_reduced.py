"""Reductions, softmax, losses and products whose result is left to us, of numpy's arrays and Buffers."""

from __future__ import annotations

import gc
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of
from hologram._ffi import hooks, native

F32 = np.float32
PLACES = {"argmin": np.argmin, "argmax": np.argmax}
REDUCTIONS: dict[str, Callable[..., Any]] = {"reduce_min": np.min, "reduce_max": np.max, "reduce_sum": np.sum, **PLACES}
LOSSES = ["mse_loss", "cross_entropy_loss", "binary_cross_entropy_loss"]
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 4), (2, 300), (2, 3, 4), (2, 1, 3, 2)]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """Whatever a test does, no handle stays but the executors that the process keeps."""
    ops.copy(np.zeros(1, F32))
    gc.collect()
    before = native.object_count()
    yield
    gc.collect()
    assert native.kept() == 0
    assert native.object_count() <= before


def some(name: str, shape: tuple[int, ...], seed: int = 3) -> np.ndarray[Any, Any]:
    return (
        np.random.default_rng(seed)
        .permutation(int(np.prod(shape)) % 40 + np.arange(np.prod(shape)) % 11)
        .reshape(shape)
        .astype(dtype_of(name))
    )


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_number(ex: hg.Executor, op: str, shape: tuple[int, ...]) -> None:
    function, expected = getattr(ops, op), REDUCTIONS[op]
    for name in DTYPES:
        x = some(name, shape)
        wide = x if x.dtype.kind in "iu" else x.astype("f8")  # numpy's sums of bf16 are rounded at every step
        wanted = expected(wide)
        wanted = wanted.item() if op in PLACES or wide is x else wanted.astype(x.dtype).item()
        for got in (
            function(x),
            function(ex.from_numpy(x)),
            function(x.T if op not in PLACES else x),
            function(x, axis=None, keepdims=False),
        ):
            assert type(got) is type(wanted) and got == wanted, (name, got, wanted)


# Numpy finds places along one axis or all; without axes and keepdims the result is a number.
AXES = [(None, True), *((axis, keep) for axis in (0, -1, (0, 2), (1, 0), (0, 1, 2), ()) for keep in (False, True))]


@pytest.mark.parametrize(
    ("op", "axis", "keepdims"),
    [(op, *how) for op in REDUCTIONS for how in AXES if op not in PLACES or not isinstance(how[0], tuple)],
)
def test_an_array(ex: hg.Executor, op: str, axis: Any, keepdims: bool) -> None:
    function, expected = getattr(ops, op), REDUCTIONS[op]
    x = some("f32", (2, 3, 5))
    for given in (
        x,
        np.asfortranarray(x),
        some("f32", (4, 3, 10))[::2, :, ::2],
        some("i16", (2, 3, 5)),
        some("u8", (2, 3, 5)),
    ):
        wanted = np.asarray(expected(given, axis=axis, keepdims=keepdims))
        for array in (given, ex.from_numpy(np.ascontiguousarray(given))):
            got = function(array, axis=axis, keepdims=keepdims)
            assert type(got) is type(array) and got.shape == wanted.shape and got.dtype == wanted.dtype
            assert np.array_equal(
                got if got is not array and isinstance(got, np.ndarray) else got.to_numpy().reshape(wanted.shape),
                wanted,
            )


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), (2, 0)])
def test_softmax(ex: hg.Executor, axis: Any) -> None:
    x = some("f32", (3, 4, 5)) / F32(7)
    along = (0, 1, 2) if axis is None else axis
    e = np.exp(x.astype("f8") - x.max(along, keepdims=True))
    wanted = e / e.sum(along, keepdims=True)
    for given in (x, np.asfortranarray(x), ex.from_numpy(x)):
        got = ops.softmax(given) if axis is None else ops.softmax(given, axis=axis)
        assert type(got) is type(given) and got.shape == x.shape and got.dtype == x.dtype
        got = got if isinstance(got, np.ndarray) else got.to_numpy().reshape(x.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    rows = np.empty((12, 5), F32)
    ops.softmax_rows(ex if hg.get_default_backend() == "interp" else hg.Executor("interp"), x, rows, 12, 5)
    assert np.array_equal(ops.softmax_rows(x, None, 12, 5), rows)


@pytest.mark.parametrize("op", LOSSES)
def test_losses(ex: hg.Executor, op: str) -> None:
    rng = np.random.default_rng(2)
    for shape in ((1,), (9,), (3, 5), (700, 30)):
        p, t = (rng.random(shape, F32) for _ in range(2))
        three = ex.allocate(3)
        wanted = getattr(ops, op)(ex, ex.from_numpy(p), ex.from_numpy(t), three)
        function = getattr(ops, op)
        assert function(p, t) == function(p.T, t.T.copy()) == function(ex, ex.from_numpy(p), ex.from_numpy(t)) == wanted
        assert type(function(p, t)) is float
        out = np.empty((), F32)
        assert function(p, t, output=out) is out and out == F32(wanted)
        if len(shape) > 1:
            with pytest.raises(ValueError, match=rf"{op}: pred has shape .*, and target has .*; expected the same"):
                function(p, t.T)
    with pytest.raises(ValueError, match=rf"{op}: the numbers of elements differ: pred \(3,\), target \(4,\); n takes"):
        function(np.ones(3, F32), np.ones(4, F32))
    assert function(p, t.reshape(-1)[:50].copy(), n=50) == function(
        p.reshape(-1)[:50].copy(), t.reshape(-1)[:50].copy()
    )


STACKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (6, 3, 1)),
    ((3, 700), (700, 2)),
]


@pytest.mark.parametrize(("a", "b"), STACKS)
def test_products(ex: hg.Executor, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for name in ("f32", "f64", "i32", "u8"):
        x, y = some(name, a, 1), some(name, b, 2)
        wanted = x @ y
        kinds = [(x, y), (np.asfortranarray(x), np.asfortranarray(y))]
        if 0 not in a + b:
            kinds.append((ex.from_numpy(x), ex.from_numpy(y)))
        for left, right in kinds:
            got = ops.gemm(left, right)
            assert type(got) is type(left) and got.shape == wanted.shape and got.dtype == wanted.dtype
            assert np.array_equal(got if isinstance(got, np.ndarray) else got.to_numpy().reshape(wanted.shape), wanted)
        if len(a) == len(b) == 2:
            m, k, n = *a, b[1]
            assert np.array_equal(ops.gemm(x, y, None, m, n, k), wanted)
            assert np.array_equal(ops.gemm(x.reshape(-1), y.reshape(-1), m=m, n=n, k=k, alpha=2), 2 * wanted)
            assert np.array_equal(ops.gemm(np.ascontiguousarray(x.T), y, trans_a=True), wanted)
            assert np.array_equal(ops.matvec(x, y[:, 0].copy()), x @ y[:, 0])
            assert np.array_equal(ops.matvec(x, y[:, 0]), x @ y[:, 0])


def test_products_that_are_none() -> None:
    x = np.ones((2, 3), F32)
    for call, text in (
        (lambda: ops.gemm(x, x), r"gemm: there is no product of \(2, 3\) and \(2, 3\)"),
        (lambda: ops.matvec(x, np.ones(2, F32)), r"matvec: there is no product of \(2, 3\) and \(2,\)"),
        (lambda: ops.gemm(x, x.T, beta=1), "gemm: beta scales what c holds; give c too"),
        (lambda: ops.matvec(x, x[0], beta=0), "matvec: beta scales what y holds; give y too"),
        (lambda: ops.gemm(x, x[:, 0]), r"gemm: there is no product of \(2, 3\) and \(2,\)"),
        (lambda: ops.gemm(x, np.array(1, F32)), r"gemm: b has shape \(\); expected a vector, a matrix or a stack"),
        (
            lambda: ops.gemm(np.ones((2, 2, 3), F32), np.ones((3, 3, 2), F32)),
            r"stacks of shapes \(2,\) and \(3,\) do not broadcast",
        ),
        (lambda: ops.gemm(x, x, None, 2, 2, 9), "gemm: a has 6 elements; m = 2, n = 2, k = 9.* need 18"),
        (lambda: ops.softmax(x, n=7), "softmax: input has 6 elements; .* need 7"),
        (lambda: ops.softmax(x, n=-1), "softmax: n is -1; expected 0"),
        (lambda: ops.reduce_max(np.ones((0, 3), F32)), "reduce_max of no elements has no value"),
        (lambda: ops.reduce_max(np.ones((2, 0), F32), axis=1), "reduce_max of no elements has no value"),
        (lambda: ops.reduce_sum(x, axis=2), r"reduce_sum: axis is 2; an array of shape \(2, 3\) has 2 dimensions"),
        (lambda: ops.reduce_sum(x, n=2, axis=0), "n counts elements"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match="softmax: dtype i32 is not supported"):
        ops.softmax(np.ones(3, "i4"))
    with pytest.raises(TypeError, match="gemm: a has dtype bool, and gemm makes no bools"):
        ops.gemm(np.ones((2, 2), bool), np.ones((2, 2), bool))


# ---- the two forms with an output


def test_the_output_by_position_is_the_form_with_three_elements(ex: hg.Executor) -> None:
    x, three = ex.from_numpy(np.arange(6, dtype=F32)), ex.allocate(3)
    assert ops.reduce_sum(ex, x, three) == ops.reduce_sum(x, three) == ops.reduce_sum(ex, x, three, 6) == 15
    for size in (1, 2):
        small = ex.allocate(size)
        text = f"reduce_sum: output has {size} elements; expected at least 3 elements; by name it may have 1"
        with pytest.raises(ValueError, match=text):
            ops.reduce_sum(ex, x, small)
    assert ops.reduce_sum(ex, x, three, 4) == 6


@pytest.mark.parametrize("shape", [(), (1,)])
def test_an_output_by_name_has_the_result_s_shape_and_is_returned(
    ex: hg.Executor, host: hg.Executor, shape: tuple[int, ...]
) -> None:
    x = np.arange(6, dtype=F32).reshape(2, 3)
    one, places = np.empty(shape, F32), np.empty(shape, "i8")
    assert ops.reduce_sum(x, output=one) is one and one == 15
    assert ops.reduce_max(host, x.T, output=one) is one and one == 5
    assert ops.argmax(x, output=places) is places and places == 5
    assert ops.argmax(x, places) is places
    assert ops.reduce_sum(x, output=one, n=2) is one and one == 1
    made = ex.allocate(1)
    assert ops.reduce_sum(ex, ex.from_numpy(x), output=made) is made and made.to_numpy().tolist() == [15]
    with pytest.raises(ValueError, match=r"reduce_sum: output has shape \(3,\); the result has \(\)"):
        ops.reduce_sum(x, output=np.empty(3, F32))
    rows = np.empty(2, F32)
    assert ops.reduce_sum(x, output=rows, axis=1) is rows and rows.tolist() == [3, 12]
    assert ops.reduce_sum(x, rows, axis=1) is rows


# ---- types


@pytest.mark.parametrize("name", ["i8", "i16", "i32", "u8", "u16", "u32"])
def test_sums_of_integers_widen_as_numpy_s(name: str) -> None:
    x = np.full((3, 200), np.iinfo(dtype_of(name)).max, dtype_of(name))
    assert ops.reduce_sum(x) == x.sum(dtype=object)
    got = ops.reduce_sum(x, axis=1)
    assert got.dtype == x.sum(1).dtype and np.array_equal(got, x.sum(1))


def test_bools(ex: hg.Executor) -> None:
    x = np.array([[True, False, True], [False, False, True]])
    assert ops.reduce_sum(x) == 3 and ops.argmax(x) == 0
    for given in (x, ex.from_numpy(x)):
        got = ops.reduce_sum(given, axis=0)
        assert got.dtype == np.sum(x, 0).dtype and np.asarray(
            got if isinstance(got, np.ndarray) else got.to_numpy()
        ).tolist() == [1, 0, 2]


def test_numbers_of_sixteen_bits() -> None:
    x = np.array([1.5, -2.25, 6e-8, 65504], np.float16)
    assert ops.reduce_min(x) == -2.25 and ops.reduce_max(x) == 65504 and ops.reduce_max(x[2:3]) == float(x[2])
    assert np.isnan(ops.reduce_sum(np.array([np.nan, 1], np.float16))) and ops.reduce_sum(-x[3:]) == -65504
    assert ops.reduce_sum(np.array([65504, 65504], np.float16)) == np.inf
    assert str(ops.reduce_sum(np.zeros(0, np.float16))) == "0.0"


def test_calls_without_axes_are_made_in_c(monkeypatch: pytest.MonkeyPatch, host: hg.Executor) -> None:
    x, b = np.ones((2, 3), F32), host.from_numpy(np.ones((3, 2), F32))

    def never(name: str, *arguments: Any) -> Any:
        raise AssertionError(f"{name} was left to Python")

    monkeypatch.setitem(hooks, "operation", never)
    assert ops.reduce_sum(x) == ops.reduce_sum(b) == ops.reduce_sum(x.T, None, keepdims=False) == 6
    assert ops.argmax(x) == 0 and ops.mse_loss(x, x) == 0
    assert ops.softmax(x).shape == (2, 3) and ops.softmax(b).shape == (3, 2)
    assert (
        ops.gemm(x, b).shape == (2, 2) and ops.gemm(b, x, alpha=2).shape == (3, 3) and ops.matvec(x, x[0]).shape == (2,)
    )
    assert ops.softmax_rows(x, None, 2, 3).shape == (2, 3) and ops.reduce_sum_rows(x, None, 2, 3).tolist() == [3, 3]


def test_calls_of_many_threads() -> None:
    import threading

    x = np.arange(5000, dtype=F32)
    wanted, found = ops.reduce_sum(x), []
    threads = [threading.Thread(target=lambda: found.extend(ops.reduce_sum(x) for _ in range(200))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 800


def test_what_is_broadcast_is_not_copied(host: hg.Executor) -> None:
    shape = 2**14, 2**12  # 256 MiB of f32
    row = np.arange(shape[1], dtype=np.float32)
    whole = np.broadcast_to(row, shape)
    before = host.memory_stats()["peak"]
    assert ops.reduce_sum(host, whole) == float(row.sum(dtype=np.float64)) * shape[0]
    assert ops.reduce_sum(host, np.broadcast_to(np.int8([3]), shape)) == 3 * whole.size
    assert ops.argmax(host, whole) == shape[1] - 1
    assert ops.mse_loss(host, whole, np.broadcast_to(np.float32(1), shape)) == pytest.approx(
        np.square(row.astype(np.float64) - 1).mean(), rel=1e-5
    )
    # Of what is chosen one of each is enough: this would be 64 GiB, and hours.
    for op in ops.reduce_max, ops.reduce_min:
        assert op(host, np.broadcast_to(np.float32([-2.5]), (2**20, 2**14))) == -2.5
        assert op(host, np.broadcast_to(row[:2, None], (2, 2**31)), axis=1).tolist() == [0, 1]
    assert host.memory_stats()["peak"] <= max(before, 2**27)
