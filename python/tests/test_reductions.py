"""Operations on rows: reductions, places, sums along, softmax, norms, losses and classes, along any axis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from orders import ordered_sum
from support import DTYPES, FLOATS, RTOL, applied, buffer, numbers

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of


def ordered_softmax(ex: hg.Executor, row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = applied(ex, "vector_exp", row - row.max())
    return np.asarray(e / ordered_sum(e))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 255, 8192, 8193, 20000])
def test_reductions(ex: hg.Executor, name: str, n: int) -> None:
    x = numbers(name, n)
    a, out = ex.from_numpy(x), ex.allocate(3, name)
    assert ops.reduce_min(ex, a, out) == x.min()
    assert ops.reduce_max(ex, a, out) == x.max()
    total = ops.reduce_sum(ex, a, out)
    assert out.to_numpy()[0] == total
    if name == "f64":
        assert abs(total - x.sum()) <= 1e-12 * np.abs(x).sum()
    elif name in FLOATS:
        assert total == ordered_sum(x.astype(np.float32)).astype(x.dtype)
    else:
        assert total == x.sum(dtype=x.dtype)


def test_a_sum_is_the_same_from_any_dtype_of_threads(host: hg.Executor) -> None:
    a, out = host.from_numpy(numbers("f32", 1_000_000)), host.allocate(3)
    before, seen = hg.num_threads(), set()
    try:
        for threads in (1, 2, 3, 8):
            hg.set_num_threads(threads)
            seen.add(ops.reduce_sum(host, a, out))
    finally:
        hg.set_num_threads(before)
    assert len(seen) == 1


def test_rows(ex: hg.Executor) -> None:
    x = numbers("f32", 12).reshape(3, 4)
    a, out = ex.from_numpy(x), ex.allocate(3)
    ops.reduce_sum_rows(ex, a, out, 3, 4)
    assert np.array_equal(out.to_numpy(), [ordered_sum(row) for row in x])
    ops.reduce_max_rows(ex, a, out, 3, 4)
    assert np.array_equal(out.to_numpy(), x.max(1))
    ops.reduce_min_rows(ex, a, out, 3, 4)
    assert np.array_equal(out.to_numpy(), x.min(1))
    soft = ex.allocate(12)
    ops.softmax_rows(ex, a, soft, 3, 4)
    assert np.array_equal(soft.to_numpy().reshape(3, 4), [ordered_softmax(ex, row) for row in x])


def edges(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Numbers at the ends of a type, and of what its bits mean: all signs, subnormals, infinities."""
    bits = 8 * dtype.itemsize
    ends = [1 << i for i in range(bits)] + [(1 << i) - 1 for i in range(bits + 1)]
    signed = [value | 1 << bits - 1 for value in ends]
    found = np.array([*ends, *signed], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
    return found[found == found]


@pytest.mark.parametrize("name", DTYPES)
def test_a_result_is_the_number_that_the_bits_mean(ex: hg.Executor, host: hg.Executor, name: str) -> None:
    dtype = dtype_of(name)
    x, there, here = edges(dtype), ex.allocate(3, name), np.zeros(3, dtype)
    a = ex.from_numpy(x)
    for i, value in enumerate(x):
        expected = value.item()
        for got in (
            ops.reduce_max(ex, a.view((1,), offset=i), there),
            ops.reduce_max(host, x[i : i + 1], here),
            ops.reduce_max(host, x[i : i + 1], here, n=np.int64(1)),
        ):
            assert (type(got), repr(got)) == (type(expected), repr(expected))


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_min", "reduce_max"])
def test_reductions_need_three_outputs(ex: hg.Executor, op: str) -> None:
    a = ex.allocate(4)
    with pytest.raises(ValueError, match="at least 3 elements"):
        getattr(ops, op)(ex, a, ex.allocate(2))
    for loss in (ops.mse_loss, ops.cross_entropy_loss, ops.binary_cross_entropy_loss):
        with pytest.raises(ValueError, match="at least 3 elements"):
            loss(ex, a, a, ex.allocate(2))
    for n in (4, np.int64(4)):  # C makes the one call, and leaves the other to Python
        assert getattr(ops, op)(ex, a, ex.allocate(3), n=n) == 0


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)])
def test_cumsum_and_prod(ex: hg.Executor, host: hg.Executor, axis: Any) -> None:
    """Along axes, of strided arrays, and in a wider type."""
    x = np.random.default_rng(5).integers(-9, 9, (6, 70, 5)).astype(np.int16)[::2, ::-1]
    lies = x if axis is None else np.moveaxis(x, axis, range(-np.size(axis), 0))
    row = lies.reshape(-1) if axis is None else lies.reshape(*lies.shape[: x.ndim - np.size(axis)], -1)
    sums = np.cumsum(row, -1, dtype=np.int64).reshape(lies.shape)
    for on, a in ((host, x if axis is not None else x.copy()), (ex, ex.from_numpy(x))):
        sum_ = on.allocate(x.shape, np.int64)
        ops.cumsum(on, a, sum_) if axis is None else ops.cumsum(on, a, sum_, axis=axis)
        found = sum_.to_numpy()
        assert np.array_equal(found if axis is None else np.moveaxis(found, axis, range(-np.size(axis), 0)), sums)
        if axis is not None:
            product = on.allocate(np.prod(x, axis).shape, np.int64)
            ops.reduce_prod(on, a, product, axis=axis)
            assert np.array_equal(product.to_numpy(), np.prod(x, axis, dtype=np.int64))
        assert ops.reduce_prod(on, buffer(on, [1.5, 2, -3]), on.allocate(3)) == -9


@pytest.mark.parametrize("n", [1, 100, 10000])
def test_softmax_flat(ex: hg.Executor, n: int) -> None:
    x = 50 * numbers("f32", n)
    c = ex.allocate(n)
    ops.softmax(ex, ex.from_numpy(x), c)
    assert c.to_numpy().tobytes() == ordered_softmax(ex, x).tobytes()
    e = np.exp(x.astype(np.float64) - x.max())
    np.testing.assert_allclose(c.to_numpy(), e / e.sum(), rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("cols", [10, 300])
def test_norms(ex: hg.Executor, name: str, cols: int) -> None:
    """Of rows, with weights and numbers in their place; what is left of each row is in f32 for 16-bit floats."""
    dtype = np.dtype(np.float64) if name == "f64" else np.dtype(np.float32)
    x, w = numbers(name, 4 * cols, 1).reshape(4, cols), numbers(name, cols, 2)
    g, wide, eps = numbers(name, 4 * cols, 3).reshape(4, cols), x.astype(np.float64), 1e-3
    mean, variance = ex.allocate(4, dtype), ex.allocate(4, dtype)
    buffers = [ex.allocate((4, cols), kind) for kind in (name, dtype, name, name)]
    in_, grad = ex.allocate((4, cols), name), ex.allocate((4, cols), name)
    in_.from_numpy(x), grad.from_numpy(g)
    ops.layer_norm(ex, in_, ex.from_numpy(w), 0.5, mean, variance, buffers[0], 1e-3, axis=1)
    ops.layer_norm_gradient(ex, grad, in_, ex.from_numpy(w), mean, variance, buffers[1], buffers[2], 1e-3, axis=1)
    scaled, slopes = w.astype(np.float64), g.astype(np.float64)
    unit = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + eps)
    gw = slopes * scaled
    want = gw - gw.mean(1, keepdims=True) - unit * (gw * unit).mean(1, keepdims=True)
    want /= np.sqrt(wide.var(1, keepdims=True) + eps)
    for found, expected in zip(buffers, (unit * scaled + 0.5, slopes * unit, want)):
        scale = np.abs(expected).max()
        got = found.to_numpy().reshape(4, cols).astype(np.float64)
        np.testing.assert_allclose(got / scale, expected / scale, rtol=RTOL[name], atol=RTOL[name])
    np.testing.assert_allclose(mean.to_numpy(), wide.mean(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance.to_numpy(), wide.var(1), rtol=1e-4)
    ops.rms_norm(ex, in_, 2.0, variance, buffers[3], eps, axis=1)
    want = 2 * wide / np.sqrt((wide**2).mean(1, keepdims=True) + eps)
    got = buffers[3].to_numpy().reshape(4, cols).astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=RTOL[name] * 4)


def test_classes_and_rows_by_number(ex: hg.Executor) -> None:
    logs, target = numbers("f32", 12).reshape(4, 3), np.array([2, 0, -1, 1])
    weights, losses, given = ex.allocate(4, np.float32), ex.allocate(4, np.float32), ex.allocate((4, 3), np.float32)
    x, classes = ex.allocate((4, 3), np.float32), ex.allocate(4, np.int64)
    x.from_numpy(logs), classes.from_numpy(target)
    ops.nll(ex, x, classes, 2.0, weights, losses, -1)
    assert weights.to_numpy().tolist() == [2, 2, 0, 2]
    assert losses.to_numpy().tolist() == [-2 * logs[0, 2], -2 * logs[1, 0], 0, -2 * logs[3, 1]]
    ops.nll_gradient(ex, losses, classes, 2.0, 4.0, given, -1)
    want = np.zeros((4, 3), np.float32)
    want[[0, 1, 3], [2, 0, 1]] = -losses.to_numpy()[[0, 1, 3]] / 2
    assert np.array_equal(given.to_numpy().reshape(4, 3), want)
    same, number, alike = (
        ex.allocate((4, 3), np.float32),
        ex.allocate((4, 3), np.float32),
        ex.from_numpy(np.full(4, 0.5, np.float32)),
    )
    for gradient, out in ((alike, same), (0.5, number)):  # a number first, before indices
        ops.nll_gradient(ex, gradient, classes, 2.0, 4.0, out, -1)
    assert np.array_equal(number.to_numpy(), same.to_numpy())
    most, log = ex.allocate(4, np.float32), ex.allocate(4, np.float32)
    ops.log_sum_exp(ex, x, most, log, axis=1)
    assert np.array_equal(most.to_numpy(), logs.max(1))
    np.testing.assert_allclose(np.exp(log.to_numpy()), np.exp(logs - logs.max(1)[:, None]).sum(1), rtol=1e-6)
    alone = ops.log_softmax(ex, x, axis=1)
    entropies = ex.allocate(4, np.float32)
    ops.nll(ex, alone, classes, 2.0, weights, losses, -1)
    ops.cross_entropy(ex, x, classes, 2.0, most, log, weights, entropies, -1)
    assert np.array_equal(entropies.to_numpy(), losses.to_numpy())
    for gradient, out in ((alike, same), (0.5, number)):
        ops.cross_entropy_gradient(ex, gradient, classes, 2.0, 4.0, x, most, log, out, -1)
    assert np.array_equal(number.to_numpy(), same.to_numpy())
    slopes = ops.cross_entropy_gradient(ex, losses, classes, 2.0, 4.0, x, most, log, ignored=-1)
    assert slopes.shape == (4, 3)
    share = np.where(target < 0, 0, losses.to_numpy() / 2)[:, None]
    want = np.exp(alone.to_numpy().reshape(4, 3)) * share
    want[[0, 1, 3], [2, 0, 1]] -= share[[0, 1, 3], 0]
    np.testing.assert_allclose(slopes.to_numpy(), want, rtol=1e-5, atol=1e-7)
    with pytest.raises(hg.ProgramFault):
        ops.cross_entropy_gradient(ex, losses, classes, 2.0, 4.0, x, most, log, given, -100)
        ex.synchronize()
    with pytest.raises(hg.ProgramFault):
        ops.nll(ex, x, classes, 1.0, weights, losses, -100)
        ex.synchronize()
    places = ex.from_numpy(np.array([3, 3, 0]))
    rows = ops.embedding(ex, x, places)
    assert np.array_equal(rows.to_numpy().reshape(3, 3), logs[[3, 3, 0]])
    order, starts, ends = (ex.from_numpy(np.array(of)) for of in ([2, 0, 1], [0, 1, 1, 1], [1, 1, 1, 3]))
    ops.embedding_gradient(ex, rows, order, starts, ends, given, -1, 0)
    want = np.stack([logs[0], np.zeros(3), np.zeros(3), logs[3] + logs[3]])
    assert np.array_equal(given.to_numpy().reshape(4, 3), want)


@pytest.mark.parametrize(("start", "end"), [(2, 0), (1, 0), (0, 1 << 40), (1 << 62, -(1 << 62)), (-(1 << 40), 1)])
def test_ends_that_no_row_has_end(ex: hg.Executor, start: int, end: int) -> None:
    """A row's places are at most all; from its start to an end before it there are none."""
    rows, out = ex.from_numpy(np.ones((2, 3), np.float32)), ex.allocate((4, 3))
    order, starts, ends = (ex.from_numpy(a) for a in (np.arange(2), np.full(4, start), np.full(4, end)))
    try:
        ops.embedding_gradient(ex, rows, order, starts, ends, out, -1, 0)
        ex.synchronize()
    except hg.errors.ProgramFault:
        assert start < 0
    if end < start:
        np.testing.assert_array_equal(out.to_numpy(), 0)


BACKWARDS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "nll": (("x", "target", "weight", "total_", "losses_"), (1,)),
    "nll_gradient": (("losses", "target", "weight", "one", "x_"), (1,)),
    "cross_entropy": (("x", "target", "weight", "most", "log", "total_", "losses_"), (1,)),
    "cross_entropy_gradient": (("losses", "target", "weight", "one", "x", "most", "log", "x_"), (1,)),
    "embedding": (("x", "places", "many_"), ()),
    "embedding_gradient": (("many", "order", "starts", "ends", "x_"), (-1, 1)),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_arrays_that_lie_backwards(host: hg.Executor, name: str) -> None:
    """Each of the operands from its end to its start, the last element first in memory: the results are the same."""
    operands, scalars = BACKWARDS[name]
    places = np.array([3, 0, 3, 1, 0])
    arrays = {
        "x": numbers("f32", 12).reshape(4, 3),
        "target": np.array([2, 0, 1, 2]),
        "weight": np.array([0.5, 2, 3], np.float32),
        "losses": numbers("f32", 4),
        "total": np.zeros(4, np.float32),
        "one": np.full(1, 4, np.float32),
        "most": numbers("f32", 4) + 1,
        "log": numbers("f32", 4),
        "places": places,
        "many": numbers("f32", 15).reshape(5, 3),
        "order": np.argsort(places, kind="stable"),
        "starts": np.array([0, 2, 3, 3]),
        "ends": np.array([2, 3, 3, 5]),
    }

    def results(backwards: int) -> list[bytes]:
        given = [arrays[operand.rstrip("_")].copy() for operand in operands]
        if backwards >= 0:
            given[backwards] = np.flip(np.flip(given[backwards]).copy())
        getattr(ops, name)(host, *given, *scalars)
        return [array.tobytes() for operand, array in zip(operands, given) if operand.endswith("_")]

    expected = results(-1)
    assert [results(i) for i in range(len(operands))] == [expected] * len(operands)


def test_losses(ex: hg.Executor) -> None:
    p, t = np.random.default_rng(3).uniform(0.01, 0.99, (2, 1000)).astype(np.float32)
    pred, target, out = ex.from_numpy(p), ex.from_numpy(t), ex.allocate(3)
    n = np.float32(1000)
    assert ops.mse_loss(ex, pred, target, out) == ordered_sum((p - t) * (p - t)) / n
    log = applied(ex, "vector_log", p)
    assert ops.cross_entropy_loss(ex, pred, target, out) == -(ordered_sum(t * log) / n)
    p, t = p.astype(np.float64), t.astype(np.float64)
    assert ops.mse_loss(ex, pred, target, out) == pytest.approx(((p - t) ** 2).mean(), rel=1e-4)
    assert out.to_numpy()[0] == ops.mse_loss(ex, pred, target, out)
    assert ops.cross_entropy_loss(ex, pred, target, out) == pytest.approx(-(t * np.log(p)).mean(), rel=1e-4)
    bce = -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean()
    assert ops.binary_cross_entropy_loss(ex, pred, target, out) == pytest.approx(bce, rel=1e-4)
    assert ops.mse_loss(ex, pred, target, out, n=10) == pytest.approx(((p[:10] - t[:10]) ** 2).mean(), rel=1e-4)


def test_a_term_of_weight_0_counts_0(ex: hg.Executor) -> None:
    """A softmax that is saturated gives 0·ln 0 where its target is 0."""
    out = ex.allocate(3)
    pred, target = buffer(ex, [1, 0, 0.5, 0, 1, np.nan]), buffer(ex, [1, 0, 0.5, -0.0, 1, 0])
    half = -np.float32(0.5) * np.float32(np.log(np.float32(0.5)))
    assert ops.cross_entropy_loss(ex, pred, target, out) == half / np.float32(6)
    assert ops.binary_cross_entropy_loss(ex, pred, target, out, n=5) == 2 * half / np.float32(5)
    assert np.isnan(ops.binary_cross_entropy_loss(ex, pred, target, out))  # 1 · ln(1 − NaN)
    assert ops.cross_entropy_loss(ex, buffer(ex, [0, 0]), buffer(ex, [0, 1e-6]), out) == np.inf


def test_strided_operands_as_one_row(host: hg.Executor) -> None:
    x = numbers("f32", 24).reshape(4, 6)
    flat, shaped = np.empty(24, np.float32), np.empty((6, 4), np.float32)
    ops.softmax(host, x.T, flat)
    ops.softmax(host, x.T, shaped[::1])
    assert flat.tobytes() == shaped.tobytes() == ordered_softmax(host, np.ascontiguousarray(x.T).ravel()).tobytes()
    out = np.empty(3, np.float32)
    assert ops.reduce_sum(host, x.T, out) == ordered_sum(x.T.ravel())
    assert ops.mse_loss(host, x.T, np.zeros(24, np.float32), out) == ordered_sum((x.T * x.T).ravel()) / np.float32(24)
    with pytest.raises(ValueError, match=r"input has shape \(4, 6\), and output has \(6, 4\)"):
        ops.softmax(host, x.reshape(6, 4).T, shaped[:, ::-1])


AXES: list[Any] = [0, 1, 2, -1, (0, 1), (0, 2), (2, 1), (0, 1, 2)]


@pytest.mark.parametrize("shape", [(4, 3, 5), (3, 33, 2), (2, 3, 4, 2)])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_dimensions_may_lie_in_any_order(ex: hg.Executor, shape: tuple[int, ...], dtype: str) -> None:
    """Where elements lie, the result's too, changes no bit."""
    rank, whole = len(shape), numbers(dtype, int(np.prod(shape)))
    orders = list(itertools.permutations(range(rank)))
    some = 7 if rank > 3 else 1 if ex.host_visible else 3  # of the results' orders: each calls the device
    rows = [ops.cumsum] if dtype == "i32" else [ops.cumsum, ops.softmax, ops.log_softmax]
    ends = [ops.reduce_sum, ops.reduce_max, ops.argmax]
    for turn, (order, axis) in enumerate(itertools.product(orders, range(rank))):
        x = whole.reshape([shape[d] for d in order]).transpose(np.argsort(order))
        a, packed = ex.from_numpy(whole), ex.from_numpy(np.ascontiguousarray(x))
        a = a.view(x.shape, strides=[s // x.itemsize for s in x.strides])
        for operation in ends:
            assert (
                operation(ex, a, axis=axis).to_numpy().tobytes()
                == operation(ex, packed, axis=axis).to_numpy().tobytes()
            )
        for operation in rows:
            kind = operation(ex, packed, axis=axis)
            expected = kind.to_numpy()
            assert operation(ex, a, axis=axis).to_numpy().tobytes() == expected.tobytes()
            for other in orders[turn % some :: some]:
                strides = (
                    np.empty(np.prod(shape)).reshape([shape[d] for d in other]).transpose(np.argsort(other)).strides
                )
                out = ex.allocate(int(np.prod(shape)), kind.dtype).view(shape, strides=[s // 8 for s in strides])
                operation(ex, a, out, axis=axis)
                assert out.to_numpy().tobytes() == expected.tobytes(), (operation.__name__, order, other, axis)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8"])
def test_parts_of_rows(ex: hg.Executor, dtype: str) -> None:
    """Rows of a larger array, all or some of them, have the bits that a copy has."""
    whole = ex.from_numpy(numbers(dtype, 6 * 5 * 300))
    operations = [ops.reduce_sum, ops.reduce_min, ops.argmax] + [ops.softmax] * (dtype in FLOATS)
    for shape, strides, first in [
        ((5, 290), (300, 1), 3),
        ((15, 260), (600, 1), 0),
        ((3, 5, 270), (3000, 300, 1), 7),
        ((3, 5, 270), (3000, 600, 1), 7),
        ((4, 100), (0, 1), 5),
        ((4, 280), (1, 1), 5),
        ((4, 280), (300, 2), 1),
        ((4, 100), (300, 2), 1),
        ((4, 140), (300, 0), 1),
        ((1, 700), (0, 2), 1),
        ((30, 40), (300, 1), 11),
    ]:
        a = whole.view(strides=strides, shape=shape, offset=first)
        packed = ex.from_numpy(np.ascontiguousarray(a.to_numpy()))
        for operation in operations:
            for axis in (-1, (0, 1), None):
                if axis != -1 and operation in (ops.softmax, ops.argmax) and axis is not None:
                    continue
                if operation is ops.softmax and axis is None:
                    continue
                found, want = [operation(ex, x, axis=axis) for x in (a, packed)]
                if axis is not None:
                    found, want = found.to_numpy(), want.to_numpy()
                assert np.asarray(found).tobytes() == np.asarray(want).tobytes(), (operation.__name__, shape, strides)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (2, 3, 0), (0, 33, 64), (0, 0, 3)])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i16"])
def test_rows_of_arrays_without_elements(ex: hg.Executor, shape: tuple[int, ...], dtype: str) -> None:
    x = ex.wrap(np.empty(shape, dtype_of(dtype))) if ex.host_visible else ex.allocate(3, dtype).view((0,)).view(shape)
    floats = dtype in FLOATS
    for axis in range(3):
        for operation in [ops.cumsum] + [ops.softmax, ops.log_softmax] * floats:
            assert operation(ex, x, axis=axis).shape == shape
        for operation in [ops.softmax_gradient, ops.log_softmax_gradient] * floats:
            assert operation(ex, x, x, axis=axis).shape == shape
        rest = shape[:axis] + shape[axis + 1 :]
        assert ops.reduce_sum(ex, x, axis=axis).to_numpy().tolist() == np.zeros(rest).tolist()
        if shape[axis]:
            assert ops.argmax(ex, x, axis=axis).shape == ops.reduce_max(ex, x, axis=axis).shape == rest


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_over_axes(ex: hg.Executor, axis: Any, keepdims: bool) -> None:
    for shape in ((5, 6, 7), (3, 200, 2)):
        x = numbers("f32", int(np.prod(shape))).reshape(shape)
        a, expected = ex.from_numpy(x), x.max(axis, keepdims=keepdims)
        out = ex.allocate(expected.shape or (1,))
        ops.reduce_max(ex, a, out, axis=axis, keepdims=keepdims)
        assert np.array_equal(out.to_numpy().reshape(expected.shape), expected)
        assert ops.reduce_sum(ex, a, out, axis=axis, keepdims=keepdims) is out
        axes = [i % 3 for i in (axis if isinstance(axis, tuple) else [axis])]
        rows = np.moveaxis(x, sorted(axes), range(-len(axes), 0)).reshape(expected.size, -1)
        assert np.array_equal(out.to_numpy().ravel(), [ordered_sum(row) for row in rows])
        if len(axes) == 1:
            places = ex.allocate(expected.shape, "i64")
            ops.argmin(ex, a, places, axis=axis, keepdims=keepdims)
            assert np.array_equal(places.to_numpy().ravel(), x.argmin(axis).ravel())
            soft = ex.allocate(shape)
            ops.softmax(ex, a, soft, axis=axis)
            got = np.moveaxis(soft.to_numpy(), axes[0], -1).reshape(rows.shape)
            assert np.array_equal(got, [ordered_softmax(ex, row) for row in rows])


SOME: list[Any] = [
    0,
    1,
    -1,
    -2,
    -3,
    2,
    (0,),
    (1, 2),
    (-1, 0),
    (0, 1, 2),
    (),
    [0],
    [2, 0],
    [-1],
    np.int64(1),
    (np.int8(2),),
]
NO_AXES: list[Any] = [3, -4, (0, 3), [0, 0], (1, -2), [-1, 2], 1.0, "0", (1.0,), [None], np.zeros(1)]
NO_AXES += [True, False, (True,), [0, False], np.True_]


@pytest.mark.parametrize("axis", SOME, ids=repr)
def test_axes_are_numpy_s(ex: hg.Executor, axis: Any) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for keepdims in (False, True):
        expected = x.sum(axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
        found = ops.reduce_sum(ex, ex.from_numpy(x), axis=axis, keepdims=keepdims)
        assert found.shape == np.shape(expected) and np.array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize("axis", NO_AXES, ids=repr)
def test_what_is_no_axis(ex: hg.Executor, axis: Any) -> None:
    b = ex.allocate((2, 3, 4))
    for name in ("reduce_sum", "softmax"):
        with pytest.raises((ValueError, TypeError), match=f"{name}: axis"):
            getattr(ops, name)(ex, b, axis=axis)


@pytest.mark.parametrize("axis", [0, -1, np.int64(0)], ids=repr)
def test_an_axis_of_what_has_no_dimensions_is_numpy_s(ex: hg.Executor, axis: Any) -> None:
    x = np.array(3, np.float32)
    for given in (x, ex.from_numpy(x)):
        for function, expected in (
            (ops.reduce_sum, np.sum(x, axis=axis)),
            (ops.reduce_max, np.max(x, axis=axis)),
            (ops.argmax, np.argmax(x, axis=axis)),
            (ops.softmax, 1),
        ):
            made = function(given, axis=axis)
            assert made.shape == () and (made if given is x else made.to_numpy()) == expected
        assert ops.reduce_sum(given, axis=axis, keepdims=True).shape == ()
    for wrong in (1, -2, (0,), [-1], True):
        with pytest.raises((ValueError, TypeError), match="reduce_sum: axis"):
            ops.reduce_sum(x, axis=wrong)


@pytest.mark.parametrize("n", [1, 4, 300, 9000])
def test_sums_begin_with_the_identity(n: int) -> None:
    """Which is −0.0, as docs/REDUCTIONS.md says; numpy's begin with +0.0."""
    x = np.full(n, -0.0, np.float32)
    assert np.signbit(ops.reduce_sum(x)) and np.signbit(ops.reduce_sum(x[:, None], axis=0)).all()
    assert not np.signbit(ops.reduce_sum(x[:0])) and not np.signbit(np.sum(x))


def test_places(ex: hg.Executor) -> None:
    x = np.array([[3, 1, 1], [0, np.nan, -1], [-0.0, 0.0, 0.0]], np.float32)
    out, one = ex.allocate(3, "i64"), ex.allocate(1, "i64")
    ops.argmax(ex, ex.from_numpy(x), out, axis=1)
    assert out.to_numpy().tolist() == x.argmax(1).tolist() == [0, 1, 0]
    ops.argmin(ex, ex.from_numpy(x[:1]), one)
    assert out.to_numpy().tolist() == [0, 1, 0] and one.to_numpy().tolist() == [1]
    with pytest.raises(TypeError, match="argmax: output has dtype f32; expected i64"):
        ops.argmax(ex, ex.from_numpy(x), ex.allocate(3), axis=0)


def test_sums_of_wider_types(ex: hg.Executor) -> None:
    out = ex.allocate(3, "i64")
    assert ops.reduce_sum(ex, ex.from_numpy(np.full(1000, 2**30, np.int32)), out) == 1000 * 2**30
    assert ops.reduce_sum(ex, ex.from_numpy(np.arange(300) % 3 == 0), out) == 100
    narrow = ex.allocate(3, "i32")
    assert ops.reduce_sum(ex, ex.from_numpy(np.full(4, 2**30, np.int32)), narrow) == 0
    exact = ex.allocate(3, "f64")
    x = numbers("f32", 5000)
    assert ops.reduce_sum(ex, ex.from_numpy(x), exact) == pytest.approx(x.astype(np.float64).sum(), rel=1e-13)
    with pytest.raises(TypeError, match="the same or a wider one"):
        ops.reduce_sum(ex, ex.from_numpy(x), out)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod", "cumsum"])
def test_sums_of_integers_come_out_in_64_bits(op: str, dtype: str) -> None:
    """As the page of operations and the README say."""
    result = getattr(ops, op)(np.ones(3, dtype), axis=0)
    assert result.dtype == ("u8" if dtype[0] == "u" else "i8")


@pytest.mark.parametrize(("shape", "axis"), [((40, 70), 0), ((300, 17), 0), ((3, 20, 33), 1), ((2, 64), 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_columns_are_as_rows(ex: hg.Executor, shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    """An operation along columns, which has plans of its own, has the bits of the one along rows; in place too."""
    x = (np.random.default_rng(5).standard_normal(shape) * 20).astype(dtype)
    x.flat[7:40:11] = x.flat[3]
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1))
    for name in ("cumsum", "softmax", "argmax", "argmin", "reduce_sum"):
        if name == "softmax" and dtype == np.int8:
            continue
        op, places = getattr(ops, name), name.startswith("arg")
        made = np.int64 if places else dtype
        gone = places or name == "reduce_sum"
        want = ex.allocate(rows.shape[:-1] if gone else rows.shape, made)
        op(ex, ex.from_numpy(rows), want, axis=-1)
        a = ex.from_numpy(x)
        found = [ex.allocate(np.delete(shape, axis) if gone else shape, made)]
        op(ex, a, found[0], axis=axis)
        if not gone:
            op(ex, a, a, axis=axis)
            found.append(a)
        for f in found:
            got = f.to_numpy() if gone else np.ascontiguousarray(np.moveaxis(f.to_numpy(), axis, -1))
            assert got.tobytes() == want.to_numpy().tobytes(), name


@pytest.mark.parametrize("name", ["reduce_min", "reduce_max", "reduce_sum", "reduce_prod"])
def test_rows_that_are_taken_in_the_order_of_memory_have_the_same_bits(name: str) -> None:
    """What rounds nothing takes a row as it lies in memory; sums of floats take it in its own order, wherever it is."""
    reduce, rng = getattr(ops, name), np.random.default_rng(3)
    for dtype in ("i4", "u1", "f4", "f8", "f2"):
        whole = rng.integers(0, 9, (3, 40, 5, 70)).astype(dtype)
        if whole.dtype.kind == "f":
            whole = (whole - 4) * np.asarray(0.3, dtype)
            whole[1, 7, 2] = np.where(whole[1, 7, 2] == 0, -0.0, whole[1, 7, 2])
        for view in (whole.T, whole[:, ::-1].transpose(1, 3, 0, 2), np.broadcast_to(whole[:, :1].T, (70, 5, 2, 3))):
            packed = np.ascontiguousarray(view)
            for axis in (None, 0, (1, 3), (3, 0, 2)):
                got, want = (np.asarray(reduce(x) if axis is None else reduce(x, axis=axis)) for x in (view, packed))
                assert got.dtype == want.dtype and got.tobytes() == want.tobytes()
    nan = np.zeros((4, 300), np.float32).T
    nan[7, 2] = np.nan
    assert np.isnan(ops.reduce_max(nan)) and np.isnan(ops.reduce_min(nan))


@pytest.mark.parametrize("name", [f.name for f in ops._functions if f.name.endswith("_rows")])
def test_a_matrix_has_the_sizes_that_are_given(host: hg.Executor, name: str) -> None:
    f, x = getattr(ops, name), np.arange(12, dtype=np.float32).reshape(3, 4)
    good = f(host, x, None, 3, 4)
    np.testing.assert_array_equal(f(host, x.ravel(), None, 3, 4), good)  # what is no matrix is taken row-major
    np.testing.assert_array_equal(f(host, x.reshape(3, 2, 2), None, 3, 4), good)
    for rows, cols in ((4, 3), (3, 3), (2, 4), (2, 6), (6, 2)):
        with pytest.raises(ValueError, match=rf"has shape \(3, 4\); these sizes demand \({rows}, {cols}\)"):
            f(host, x, None, rows, cols)
        with pytest.raises(ValueError, match=r"these sizes demand|need \d"):
            f(host, x, np.zeros_like(good), rows, cols)
    for kind in (lambda a: a, host.from_numpy):  # the shape says what is not given
        for given in ({}, {"rows": 3}, {"cols": 4}):
            made = f(host, kind(x), **given)
            np.testing.assert_array_equal(made if isinstance(made, np.ndarray) else made.to_numpy(), good)
        out = np.empty_like(good)
        assert f(host, kind(x), out=out) is out and np.array_equal(out, good)
        np.testing.assert_array_equal(np.asarray(f(kind(x.T.copy()).T if kind(x) is x else x)), good)
        with pytest.raises(ValueError, match=r"rows is 4, and input has shape \(3, 4\)"):
            f(host, kind(x), rows=4)
        with pytest.raises(ValueError, match=r"input has shape \(12,\); expected a matrix, or rows and cols"):
            f(host, kind(x.ravel()), rows=3)
