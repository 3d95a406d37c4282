"""The library of operations: results against numpy, every kind of operand, every way to be wrong."""

from __future__ import annotations

import collections
import inspect
import itertools
import json
import math
import re
import runpy
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from orders import fma, ordered_product, ordered_sum
from support import DTYPES, buffer

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of
from hologram._ffi import native
from hologram._signatures import stub_file

FLOATS = ["f16", "bf16", "f32", "f64"]
RTOL = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-5, "f64": 1e-12}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "vector_add": np.add,
    "vector_sub": np.subtract,
    "vector_mul": np.multiply,
    "vector_min": np.minimum,
    "vector_max": np.maximum,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "vector_abs": np.abs,
    "vector_neg": np.negative,
    "vector_relu": lambda x: np.maximum(x, 0),
}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {"sigmoid": sigmoid, "tanh": np.tanh, "gelu": gelu, "vector_exp": np.exp}


def numbers(name: str, n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if name in FLOATS:
        return rng.standard_normal(n).astype(dtype_of(name))
    info = np.iinfo(dtype_of(name))
    return rng.integers(info.min, info.max, n, dtype_of(name), endpoint=True)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("op", BINARY)
def test_binary(ex: hg.Executor, op: str, name: str) -> None:
    for n in (1, 2, 255, 1000):
        x, y = numbers(name, n, 1), numbers(name, n, 2)
        a, b, c = ex.from_numpy(x), ex.from_numpy(y), ex.allocate(n, name)
        getattr(ops, op)(ex, a, b, c)
        with np.errstate(over="ignore"):
            assert c.to_numpy().tobytes() == BINARY[op](x, y).tobytes()


@pytest.mark.parametrize("name", DTYPES)
def test_divide(ex: hg.Executor, name: str) -> None:
    x, y = numbers(name, 500, 1), numbers(name, 500, 2)
    y[y == 0] = 1
    a, b, c = ex.from_numpy(x), ex.from_numpy(y), ex.allocate(500, name)
    ops.vector_div(ex, a, b, c)
    if name in FLOATS:
        assert c.to_numpy().tobytes() == (x / y).tobytes()
    else:
        expected = [abs(int(p)) // abs(int(q)) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(x, y)]
        bits = 8 * x.itemsize
        assert [int(v) % (1 << bits) for v in c.to_numpy()] == [v % (1 << bits) for v in expected]


@pytest.mark.parametrize("name", [n for n in DTYPES if n[0] != "u"])
@pytest.mark.parametrize("op", UNARY)
def test_unary(ex: hg.Executor, op: str, name: str) -> None:
    x = numbers(name, 777)
    c = ex.allocate(777, name)
    getattr(ops, op)(ex, ex.from_numpy(x), c)
    with np.errstate(over="ignore"):
        assert np.array_equal(c.to_numpy(), UNARY[op](x))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", ACTIVATIONS)
def test_activations(ex: hg.Executor, op: str, name: str) -> None:
    x = numbers(name, 999)
    c = ex.allocate(999, name)
    getattr(ops, op)(ex, ex.from_numpy(x), c)
    expected = ACTIVATIONS[op](x.astype(np.float64))
    np.testing.assert_allclose(c.to_numpy().astype(np.float64), expected, rtol=RTOL[name], atol=RTOL[name] * 1e-2)


def test_roots_and_logarithms(ex: hg.Executor) -> None:
    x = np.abs(numbers("f32", 100)) + np.float32(0.1)
    c = ex.allocate(100)
    ops.vector_sqrt(ex, ex.from_numpy(x), c)
    assert np.array_equal(c.to_numpy(), np.sqrt(x))
    ops.vector_log(ex, ex.from_numpy(x), c)
    np.testing.assert_allclose(c.to_numpy(), np.log(x), rtol=1e-5, atol=1e-7)


def test_numbers(ex: hg.Executor) -> None:
    x = numbers("f32", 100)
    a, c = ex.from_numpy(x), ex.allocate(100)
    ops.vector_clip(ex, a, c, -0.5, 0.5)
    assert np.array_equal(c.to_numpy(), np.clip(x, np.float32(-0.5), np.float32(0.5)))
    ops.scalar_add(ex, a, c, 2)
    assert np.array_equal(c.to_numpy(), x + np.float32(2))
    ops.scalar_mul(ex, a, c, np.float64(0.1))
    assert np.array_equal(c.to_numpy(), x * np.float32(0.1))
    ops.vector_mad(ex, a, a, a, c)
    assert np.array_equal(c.to_numpy(), x * x + x)
    ops.fill(ex, c, -1)
    assert (c.to_numpy() == -1).all()
    ops.copy(ex, a, c)
    assert np.array_equal(c.to_numpy(), x)
    for wrong in (None, "1", 1j):
        with pytest.raises(TypeError, match="scalar"):
            ops.scalar_add(ex, a, c, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"scalar_add.*out of range"):
        ops.scalar_add(ex, a, c, 1e300)


@pytest.mark.parametrize(("name", "digits", "least"), [("f16", 11, -24), ("bf16", 8, -133)])
def test_numbers_beside_half_floats_are_rounded_once(host: hg.Executor, name: str, digits: int, least: int) -> None:
    one = host.allocate(1, name)
    one.fill(1)
    tie = 1 + 2.0**-digits  # between two
    tiny = [m * 2.0 ** (least - 1) for m in (0.5, 1, 1 + 2.0**-52, 3, 4)]
    given = [2, True, 3.0, 0.1, 1 / 3, -tie, 3 * tie, tie + 2.0**-52, tie - 2.0**-40, 1025, 2**11 + 1, 2**11 + 3, *tiny]
    for value in [*given, 5e-324, -0.0, 1.99 * 2.0**14, 65519.99, math.inf, -math.inf, math.nan, 2.0**least * 1000.5]:
        want = float(value)
        if value and math.isfinite(value):  # to a multiple of the last digit's, ties to even
            unit = Fraction(2) ** max(math.frexp(value)[1] - digits, least)
            want = float(round(Fraction(value) / unit) * unit)
        got = float(ops.vector_mul(host, one, value).to_numpy().astype(np.float64)[0])
        assert struct.pack("d", got) == struct.pack("d", want), value


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 1e-45, np.finfo(np.float32).max])
def test_special_values(ex: hg.Executor, special: float) -> None:
    x = np.array([special, 1, special], np.float32)
    y = np.array([0.0, special, special], np.float32)
    a, b, c = ex.from_numpy(x), ex.from_numpy(y), ex.allocate(3)
    with np.errstate(all="ignore"):
        for op, reference in BINARY.items():
            getattr(ops, op)(ex, a, b, c)
            np.testing.assert_array_equal(c.to_numpy(), reference(x, y))


# ---- sizes


def test_a_prefix_is_taken_by_n_alone(ex: hg.Executor) -> None:
    a, b, c = buffer(ex, range(10)), buffer(ex, range(7)), buffer(ex, [-1] * 12)
    with pytest.raises(ValueError, match=r"vector_add: a: shape \(10,\) does not broadcast to the output's \(12,\)"):
        ops.vector_add(ex, a, b, c)
    with pytest.raises(ValueError, match=r"vector_add: a: shape \(10,\) .*; n counts the elements of arrays"):
        ops.vector_add(ex, a, a, b)
    ops.vector_add(ex, a, b, c, n=7)
    assert c.to_numpy().tolist() == [0, 2, 4, 6, 8, 10, 12, -1, -1, -1, -1, -1]
    for use in (lambda: ops.mse_loss(ex, a, b, c), lambda: ops.softmax(ex, a, c)):
        with pytest.raises(ValueError, match=r"the numbers of elements differ: \w+ 10, \w+ (7|12); n takes the first"):
            use()
    ops.softmax(ex, a, c, n=2)


SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1,), (), (3,), (2, 1), (1, 3), (2, 2), (0,), (5,)]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_broadcast_as_numpy_s(host: hg.Executor, shape: tuple[int, ...]) -> None:
    """What numpy adds into an output, this adds; what numpy refuses, this refuses, and says how to do it."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for other in SHAPES:
        y = np.arange(np.prod(other), dtype=np.float32).reshape(other) + 100
        for to in SHAPES:
            expected, out = np.full(to, -1, np.float32), np.full(to, -1, np.float32)
            try:
                np.add(x, y, out=expected)
                fits = True
            except ValueError:
                fits = False
            if fits:
                ops.vector_add(host, x, y, out)
                np.testing.assert_array_equal(out, expected)
                continue
            with pytest.raises(ValueError, match=r"vector_add: [ab]: shape .* does not broadcast to the output's"):
                ops.vector_add(host, x, y, out)
            assert (out == -1).all()


def test_a_count_takes_all_element_by_element(host: hg.Executor) -> None:
    x, y, out = np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32), np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match=r"a: shape \(2, 3\) .* output's \(3, 2\); give n = 6 to take all element by"):
        ops.vector_add(host, x, y, out)
    ops.vector_add(host, x, y, out, n=6)
    assert out.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("n", [0, 1, 5, 10])
def test_n_counts_from_the_first(ex: hg.Executor, n: int) -> None:
    a, c = buffer(ex, range(10)), buffer(ex, [-1] * 10)
    ops.vector_add(ex, a, a, c, n=n)
    assert c.to_numpy().tolist() == [2 * i if i < n else -1 for i in range(10)]
    ops.vector_neg(ex, a, c, n)
    ops.sigmoid(ex, a, c, n)
    ops.scalar_mul(ex, a, c, 3, n)


@pytest.mark.parametrize("n", [11, 1 << 40, -1])
def test_n_beyond_an_array_is_refused(ex: hg.Executor, n: int) -> None:
    a, c = buffer(ex, range(10)), buffer(ex, [7] * 20)
    for use in (
        lambda: ops.vector_add(ex, a, a, c, n=n),
        lambda: ops.vector_relu(ex, a, c, n=n),
        lambda: ops.softmax(ex, a, c, n=n),
        lambda: ops.reduce_sum(ex, a, c, n=n),
        lambda: ops.mse_loss(ex, a, a, c, n=n),
    ):
        with pytest.raises(ValueError, match=r"exceeds|need|negative|expected"):
            use()
    assert (c.to_numpy() == 7).all()


def test_n_must_be_an_integer(ex: hg.Executor) -> None:
    a = buffer(ex, range(10))
    for n in (1.0, "1"):
        with pytest.raises(TypeError, match="integer"):
            ops.vector_add(ex, a, a, a, n=n)  # type: ignore[arg-type]


def test_large_operations_use_all_threads(ex: hg.Executor) -> None:
    n = 3_000_001
    x = np.arange(n, dtype=np.float32)
    a, c = ex.from_numpy(x), ex.allocate(n)
    ops.vector_add(ex, a, a, c)
    assert np.array_equal(c.to_numpy(), x + x)


# ---- reductions and losses


def applied(ex: hg.Executor, op: str, x: Any) -> np.ndarray[Any, Any]:
    """An elementwise operation's results: EXP and LOG are the ISA's, tested on their own."""
    x = np.ascontiguousarray(x)
    out = ex.allocate(x.size, x.dtype)
    getattr(ops, op)(ex, ex.from_numpy(x.ravel()), out)
    return out.to_numpy().reshape(x.shape)


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


@pytest.mark.parametrize("seen", [np.asarray, memoryview])
@pytest.mark.parametrize("stride", [6, 2, -6, 5])
def test_strides_that_are_no_elements_are_refused(host: hg.Executor, seen: Any, stride: int) -> None:
    raw, out, packed = np.zeros(64, np.uint8), np.zeros(4, np.float32), np.ones(4, np.float32)
    x = np.ndarray((4,), np.float32, raw.data, 32, (stride,))
    for call in (
        lambda: ops.vector_add(host, seen(x), packed, out),
        lambda: ops.vector_add(host, packed, packed, seen(x)),
    ):
        with pytest.raises(ValueError, match="multiples of the item size 4"):
            call()
    assert not raw.any() and not out.any()


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
    for gradient, out in ((alike, same), (0.5, number)):
        ops.cross_entropy_gradient(ex, gradient, classes, 2.0, 4.0, x, out, -1)
    assert np.array_equal(number.to_numpy(), same.to_numpy())
    slopes = ops.cross_entropy_gradient(ex, losses, classes, 2.0, 4.0, x, ignored=-1)
    assert slopes.shape == (4, 3)
    share = np.where(target < 0, 0, losses.to_numpy() / 2)[:, None]
    np.testing.assert_allclose(slopes.to_numpy(), np.exp(logs) * share + want, rtol=1e-5, atol=1e-7)
    with pytest.raises(hg.ProgramFault):
        ops.cross_entropy_gradient(ex, losses, classes, 2.0, 4.0, x, given, -100)
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


def test_gelu_at_the_ends(ex: hg.Executor) -> None:
    x = np.array([-np.inf, -1e30, -60, np.inf, np.nan, -0.0], np.float32)
    y = applied(ex, "gelu", x)
    assert y.tobytes() == np.array([-0.0, -0.0, -0.0, np.inf, y[4], -0.0], np.float32).tobytes() and np.isnan(y[4])


# ---- matrices


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 3, 4), (17, 33, 5), (64, 64, 64), (5, 1, 300), (3, 300, 0), (2, 3, 513), (130, 130, 1030)]
)
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_gemm(ex: hg.Executor, shape: tuple[int, int, int], trans: tuple[bool, bool]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    stored = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), trans)]
    left, right = (ex.from_numpy(x) if x.size else ex.allocate(1) for x in stored)
    product = ordered_product(a, b)
    np.testing.assert_allclose(product, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    out = buffer(ex, np.full((m, n), np.nan))
    ops.gemm(ex, left, right, out, m, n, k, trans_a=trans[0], trans_b=trans[1])
    assert out.to_numpy().tobytes() == product.tobytes()
    out = buffer(ex, c)
    ops.gemm(ex, left, right, out, m, n, k, trans_a=trans[0], trans_b=trans[1], alpha=0.3, beta=0.7)
    t = np.float32(0.3) * product
    assert out.to_numpy().tobytes() == fma(np.float32(0.7), c, t).tobytes()


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_16_bit_products_keep_their_bound(ex: hg.Executor, name: str) -> None:
    """|c − exact| ≤ k·2⁻²³·Σ|ab| + 1 ULP of c."""
    m, n, k = 3, 4, 1500
    a, b = numbers(name, m * k, 1).reshape(m, k), numbers(name, k * n, 2).reshape(k, n)
    out = ex.allocate(m * n, name)
    ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(b), out, m, n, k)
    x, y = a.astype(np.float64), b.astype(np.float64)
    c = out.to_numpy().reshape(m, n).astype(np.float64)
    ulp = np.exp2(np.floor(np.log2(np.abs(c))) - (10 if name == "f16" else 7))
    assert (np.abs(c - x @ y) <= k * 2.0**-23 * (np.abs(x) @ np.abs(y)) + ulp).all()


def test_a_row_is_the_same_in_every_batch(ex: hg.Executor) -> None:
    k, n = 1100, 200
    a, b = numbers("f32", 100 * k, 1).reshape(100, k), ex.from_numpy(numbers("f32", k * n, 2))
    rows = set()
    for m in (1, 2, 7, 100):  # the last doesn't split k
        c = ex.allocate(m * n)
        ops.gemm(ex, ex.from_numpy(a[:m]), b, c, m, n, k)
        rows.add(c.to_numpy()[:n].tobytes())
    assert len(rows) == 1


@pytest.mark.parametrize("name", DTYPES)
def test_gemm_dtypes(ex: hg.Executor, name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 5, (7, 7)).astype(dtype_of(name)) for _ in range(2))
    out = ex.allocate(49, name)
    ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(b), out, 7, 7, 7)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(out.to_numpy().reshape(7, 7).astype(np.int64), exact.astype(a.dtype).astype(np.int64))


def test_matvec(ex: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((5, 9)).astype(np.float32), rng.standard_normal(9).astype(np.float32)
    y = ex.allocate(5)
    ops.matvec(ex, ex.from_numpy(a), ex.from_numpy(x), y, 5, 9)
    product = ordered_product(a, x[:, None])[:, 0]
    assert np.array_equal(y.to_numpy(), product)
    ops.matvec(ex, ex.from_numpy(np.ascontiguousarray(a.T)), ex.from_numpy(x), y, 5, 9, trans_a=True, alpha=2)
    assert np.array_equal(y.to_numpy(), 2 * product)


def test_matrix_sizes_are_checked(ex: hg.Executor) -> None:
    a, c = ex.allocate(6), buffer(ex, [7] * 9)
    for sizes in ((4, 4, 2), (2, 3, 4), (-1, 2, 2), (1 << 40, 1, 1), (1 << 31, 1 << 31, 1)):
        with pytest.raises(ValueError, match="gemm"):
            ops.gemm(ex, a, a, c, *sizes)
    with pytest.raises(ValueError, match="matvec"):
        ops.matvec(ex, a, a, c, 3, 3)
    with pytest.raises(ValueError, match="overlaps"):
        ops.gemm(ex, c, a, c, 2, 2, 2)
    assert (c.to_numpy() == 7).all()


# ---- kinds of operands


def test_numpy_operands(host: hg.Executor) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    out = np.zeros((6, 4), np.float32)
    ops.vector_add(host, x.T, x.T, out)
    assert np.array_equal(out, 2 * x.T)
    ops.vector_mul(host, x[0, :4], np.float32(2).reshape(1), out)
    assert np.array_equal(out, np.broadcast_to(x[0, :4] * 2, (6, 4)))
    ops.vector_add(host, np.broadcast_to(np.float32(1), (6, 4)), x.T, out[::-1])
    assert np.array_equal(out, (x.T + 1)[::-1])
    b = host.from_numpy(x[0])
    ops.vector_sub(host, b, x[1], b)
    assert b.to_numpy().tolist() == [-6] * 6
    three = np.zeros(3, np.float32)
    assert ops.reduce_sum(host, x, three) == x.sum()
    assert three[0] == x.sum()
    ops.vector_neg(host, x[:, 0], x[:, 0])
    assert x[:, 0].tolist() == [0, -6, -12, -18]


def test_broadcast_mismatch_names_the_operand(host: hg.Executor) -> None:
    out = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match=r"vector_add: b: shape \(3, 5\) does not broadcast"):
        ops.vector_add(host, out, np.zeros((3, 5), np.float32), out.copy())
    with pytest.raises(ValueError, match=r"vector_add: c"):
        ops.vector_add(host, out, out, np.broadcast_to(np.float32(1), (3, 4)))


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


@pytest.mark.parametrize("stride", [2, -1, 0])
def test_n_takes_the_first_elements_of_strided_vectors(host: hg.Executor, stride: int) -> None:
    """As of arrays that lie packed, in operations that work on all elements as in those element by element."""
    x = numbers("f32", 48)
    v = np.broadcast_to(x[:1], (24,)) if stride == 0 else x[::stride]
    for n in (0, 1, 7, len(v) - 1):
        first, ends = np.ascontiguousarray(v[:n]), np.full(25, 9, np.float32)
        assert ops.reduce_sum(host, v, n=n) == ops.reduce_sum(host, first)
        for row in (ops.softmax, ops.log_softmax, ops.cumsum):
            assert row(host, v, n=n).tobytes() == row(host, first).tobytes()
            row(host, v, ends[1::2], n=min(n, 12))
            assert ends[1::2][: min(n, 12)].tobytes() == row(host, first[:12]).tobytes()
            assert set(ends[::2]) | set(ends[1::2][min(n, 12) :]) == {9}
        if n:
            assert ops.argmax(host, v, n=n) == ops.argmax(host, first)
            assert ops.mse_loss(host, v, v[::-1], n=n) == ops.mse_loss(host, first, np.ascontiguousarray(v[::-1][:n]))
    with pytest.raises(
        ValueError, match=r"input has shape \(6, 8\) and is strided: the first 5 elements .* take all 48"
    ):
        ops.reduce_sum(host, x.reshape(8, 6).T, n=5)


@pytest.mark.parametrize("strides", [(1, 1), (3, -2), (-2, 2), (1, 2)])
def test_matrices_of_windows_are_used_transposed(host: hg.Executor, strides: tuple[int, int]) -> None:
    """Strides may be any, also such that elements share memory."""
    memory, b = numbers("f32", 60)[20:], numbers("f32", 30)
    a = np.lib.stride_tricks.as_strided(memory, (6, 5), [4 * s for s in strides], writeable=False)
    packed = np.ascontiguousarray(a.T)
    assert (
        ops.gemm(host, a, b.reshape(6, 5), trans_a=True).tobytes() == ops.gemm(host, packed, b.reshape(6, 5)).tobytes()
    )
    assert (
        ops.gemm(host, b.reshape(6, 5), a, trans_b=True).tobytes() == ops.gemm(host, b.reshape(6, 5), packed).tobytes()
    )
    assert ops.matvec(host, a, b[:6], trans_a=True).tobytes() == ops.matvec(host, packed, b[:6]).tobytes()


AXES: list[Any] = [0, 1, 2, -1, (0, 1), (0, 2), (2, 1), (0, 1, 2)]


@pytest.mark.parametrize("shape", [(4, 3, 5), (3, 33, 2), (2, 3, 4, 2)])
@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_dimensions_may_lie_in_any_order(ex: hg.Executor, shape: tuple[int, ...], dtype: str) -> None:
    """Where elements lie, the result's too, changes no bit."""
    rank, whole = len(shape), numbers(dtype, int(np.prod(shape)))
    orders = list(itertools.permutations(range(rank)))
    rows = [ops.cumsum] if dtype == "i32" else [ops.cumsum, ops.softmax, ops.log_softmax]
    ends = [ops.reduce_sum, ops.reduce_max, ops.argmax]
    for order, axis in itertools.product(orders, range(rank)):
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
            for other in orders[:: 1 + (rank > 3)]:
                strides = (
                    np.empty(np.prod(shape)).reshape([shape[d] for d in other]).transpose(np.argsort(other)).strides
                )
                out = ex.allocate(int(np.prod(shape)), kind.dtype).view(shape, strides=[s // 8 for s in strides])
                operation(ex, a, out, axis=axis)
                assert out.to_numpy().tobytes() == expected.tobytes(), (operation.__name__, order, other, axis)


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


def test_products_take_their_sizes_from_shapes(ex: hg.Executor) -> None:
    a, b = numbers("f32", 12, 1).reshape(3, 4), numbers("f32", 20, 2).reshape(5, 4)
    left, right, out = ex.from_numpy(a), ex.from_numpy(b), ex.allocate((3, 5))
    columns = right.view([4, 5], strides=[1, 4])
    expected = ordered_product(a, b.T)
    for call in (
        lambda: ops.gemm(ex, left, columns, out),
        lambda: ops.gemm(ex, left, columns, out, 3, 5, 4),
        lambda: ops.gemm(ex, left, right, out, trans_b=True),
        lambda: ops.gemm(ex, left, right, out, 3, 5, 4, trans_b=True),
        lambda: ops.gemm(ex, left, right, out, n=5, trans_b=True),
    ):
        out.fill(7)
        call()
        assert out.to_numpy().tobytes() == expected.tobytes()
    stack = numbers("f32", 10 * 12, 3).reshape(2, 5, 3, 4)
    many, vectors = ex.allocate((2, 5, 3, 5)), ex.allocate((2, 5, 3))
    ops.gemm(ex, ex.from_numpy(stack), columns, many)
    assert many.to_numpy().tobytes() == ordered_product(stack.reshape(30, 4), b.T).tobytes()
    ops.matvec(ex, ex.from_numpy(stack), right.view([4]), vectors)
    assert vectors.to_numpy().tobytes() == ordered_product(stack.reshape(30, 4), b[:1].T).tobytes()


def test_shapes_that_contradict_are_refused(ex: hg.Executor) -> None:
    a, b, c = ex.allocate((3, 4)), ex.allocate((5, 4)), ex.allocate((3, 5))
    for text, call in (
        (r"a product of \(3, 4\) and \(5, 4\) is no \(3, 5\)", lambda: ops.gemm(ex, a, b, c)),
        ("n is 6, and the arrays' shapes make it 5", lambda: ops.gemm(ex, a, b, c, n=6, trans_b=True)),
        (r"b has shape \(5, 4\); these sizes demand \(4, 5\)", lambda: ops.gemm(ex, a, b, c, 3, 5, 4)),
        (r"there is no product of \(12,\) and \(5, 4\)", lambda: ops.gemm(ex, a.view([12]), b, c)),
        (r"c has shape \(3, 5\); the result has \(5,\)", lambda: ops.gemm(ex, ex.allocate(4), b, c, trans_b=True)),
        ("m is 2, and the arrays' shapes make it 1", lambda: ops.gemm(ex, ex.allocate(5), b, m=2)),
        ("n is 4, and the arrays' shapes make it 1", lambda: ops.gemm(ex, a, ex.allocate(4), n=4)),
        (r"b has shape \(\); expected a vector, a matrix", lambda: ops.gemm(ex, a, ex.allocate(1).view([]))),
        (r"axis is 2; an array of shape \(3, 4\) has 2 dimensions", lambda: ops.reduce_sum(ex, a, c, axis=2)),
        ("axis is .*, which has one twice", lambda: ops.reduce_sum(ex, a, c, axis=(0, -2))),
        (r"output has shape \(5,\); the result has \(4,\)", lambda: ops.reduce_sum(ex, a, ex.allocate(5), axis=0)),
        (r"output has shape \(3, 5\); the result has \(4,\)", lambda: ops.reduce_sum(ex, a, c, axis=0)),
        ("n counts elements", lambda: ops.reduce_sum(ex, a, c, 3, axis=0)),
        (r"output has shape \(5, 4\); the result has \(3, 4\)", lambda: ops.softmax(ex, a, b, axis=0)),
    ):
        with pytest.raises(ValueError, match=text):
            call()


@pytest.mark.parametrize("stack", [(), (2,), (3, 1)])
@pytest.mark.parametrize("trans", [False, True])
def test_each_size_of_a_product_is_compared_with_the_shapes(
    ex: hg.Executor, stack: tuple[int, ...], trans: bool
) -> None:
    """A size that is what the shapes make it changes nothing; any other is refused by its name and number."""
    m, n, k = 3, 5, 4
    a = ex.allocate((*stack, k, m) if trans else (*stack, m, k))
    b = ex.allocate((*stack, n, k) if trans else (*stack, k, n))
    x = ex.allocate((*stack, k))
    products = {
        ("m", "n", "k"): lambda **given: ops.gemm(ex, a, b, trans_a=trans, trans_b=trans, **given),
        ("m", "n"): lambda **given: ops.matvec(ex, a, x, trans_a=trans, **given),
    }
    for names, product in products.items():
        right = dict(zip(names, (m, n, k) if len(names) == 3 else (m, k)))
        shape = (*stack, m, n) if len(names) == 3 else (*stack, m)
        assert product().shape == shape
        for name in names:
            if not stack:
                assert product(**{name: right[name]}).shape == shape
            for wrong in (0, right[name] - 1, right[name] + 1):
                with pytest.raises(
                    ValueError, match=f"{name} is {wrong}, and the arrays' shapes make it {right[name]}"
                ):
                    product(**{name: wrong})


def test_overlap(ex: hg.Executor) -> None:
    a = buffer(ex, range(10))
    ops.vector_add(ex, a, a, a)
    assert a.to_numpy().tolist() == [2 * i for i in range(10)]
    head, tail = a.view([9]), a.view([9], offset=1)
    with pytest.raises(ValueError, match=r"vector_add: c overlaps a"):
        ops.vector_add(ex, head, head, tail)
    assert a.to_numpy().tolist() == [2 * i for i in range(10)]
    ops.softmax(ex, a, a)
    assert a.to_numpy().sum() == pytest.approx(1)


def test_dtypes_must_agree(ex: hg.Executor) -> None:
    a, b = ex.allocate(4), ex.allocate(4, "f64")
    with pytest.raises(TypeError, match=r"vector_add: b has dtype f64, and a has f32"):
        ops.vector_add(ex, a, b, a)
    i = ex.allocate(4, "i32")
    with pytest.raises(TypeError, match=r"sigmoid: dtype i32 is not supported; supported: f16 bf16 f32 f64"):
        ops.sigmoid(ex, i, i)


@pytest.mark.parametrize("wrong", [None, 5, 1.5, "abc", [1.0], object(), b"", np.float32])
def test_operands_that_are_none(ex: hg.Executor, wrong: Any) -> None:
    a = ex.allocate(4)
    calls = [(wrong, a, a), (a, wrong, a), (a, a, wrong)]
    if isinstance(wrong, (int, float)):
        del calls[:2]  # numbers are read as arrays
    if wrong is None:
        del calls[2]  # the result is made
    for arguments in calls:
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            ops.vector_add(ex, *arguments)
        assert "vector_add: " in str(caught.value)
    with pytest.raises((TypeError, ValueError, RuntimeError, AttributeError)):
        ops.vector_add(wrong, a, a, a)


def test_executor_as_an_operand(ex: hg.Executor) -> None:
    a = ex.allocate(4)
    with pytest.raises(TypeError, match="got Executor"):
        ops.vector_add(ex, ex, a, a)


def test_integer_division_by_zero_is_a_fault(ex: hg.Executor) -> None:
    a, b, c = (ex.from_numpy(np.array(v, np.int32)) for v in ([7, 8, 9], [2, 0, 3], [0, 5, 0]))
    with pytest.raises(hg.ProgramFault, match="vector_div: integer division by zero in lane 1") as caught:
        ops.vector_div(ex, a, b, c)
        ex.synchronize()
    assert (caught.value.kind, caught.value.lane) == ("divide", 1)
    assert c.to_numpy().tolist() == [3, 0, 3]


def test_every_operation_is_documented() -> None:
    for name in ops.__all__:
        op = getattr(ops, name)
        assert op.__doc__ and op.__doc__.strip().endswith(".")
        assert op.__name__ == name
        assert next(iter(inspect.signature(op).parameters)) == "ex"


def test_a_misspelled_name_is_told_what_there_is() -> None:
    for of, name, expected in (
        (ops, "sigmod", "hologram.ops' has no operation 'sigmod'; did you mean sigmoid?"),
        (ops, "zzz", r"no operation 'zzz'; dir(hologram.ops) lists"),
        (ops, "exp", "no operation 'exp'; did you mean vector_exp?"),
        (ops, "max", "did you mean reduce_max or vector_max?"),
        (ops, "mse", "did you mean mse_loss?"),
        (ops, "matmul", "did you mean gemm?"),
        (ops, "subtract", "did you mean vector_sub?"),
        (hg, "softmax", "hologram' has no attribute 'softmax'; for arrays there is hologram.ops.softmax"),
        (hg, "sum", "for arrays there is hologram.ops.reduce_sum"),
        (hg, "Executer", "hologram' has no attribute 'Executer'; did you mean Executor?"),
    ):
        with pytest.raises(AttributeError, match=re.escape(expected)):
            getattr(of, name)
    assert all(getattr(ops, ops.called(name) or "") for name in ops._ELSEWHERE)
    assert set(ops.__all__) <= set(dir(ops)) and "numpy" not in dir(ops)
    assert set(hg.__all__) <= set(dir(hg)) and "TYPE_CHECKING" not in dir(hg)


SUMS = {"reduce_sum", "reduce_min", "reduce_max", "reduce_prod"}
LOSSES = {"mse_loss", "cross_entropy_loss", "binary_cross_entropy_loss"}


def test_every_operation_of_the_library_is_there() -> None:
    descriptions = json.loads(native.ops())
    assert [d["number"] for d in descriptions] == list(range(len(descriptions)))
    assert len(descriptions) >= 30
    assert [d["name"] for d in descriptions if not hasattr(ops, d["name"])] == []
    gemm = next(d for d in descriptions if d["name"] == "gemm")
    assert gemm["dims"] == ["m", "n", "k", "trans_a", "trans_b"]
    assert gemm["operands"][2] == {"name": "c", "reads": True, "writes": True, "kind": "same"}
    assert gemm["scalars"] == [
        {"name": "alpha", "wide": True, "default": 1, "of": None},
        {"name": "beta", "wide": True, "default": 0, "of": "c"},
    ]
    assert {d["name"] for d in descriptions if d["scalar_result"]} == {*SUMS, *LOSSES}
    assert {d["name"] for d in descriptions if d["reduces"] and not d["scalar_result"]} == {"argmin", "argmax"}


def test_the_stub_file_is_up_to_date() -> None:
    path = Path(ops.__file__).with_suffix(".pyi")
    assert path.read_text() == stub_file(ops._functions), "run python python/stubs.py"


def test_the_page_of_operations_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    page = runpy.run_path(str(root / "python/stubs.py"))["page"]
    text = (root / "docs/OPERATIONS.md").read_text(encoding="utf-8")
    assert text == page(json.loads(ops.native.ops())), "run python python/stubs.py"


def test_the_page_of_operations_says_once_what_holds_of_many() -> None:
    text = (Path(__file__).parents[2] / "docs/OPERATIONS.md").read_text(encoding="utf-8")
    rows = [line.rpartition(" | ")[2] for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(ops.__all__) and all(len(row) > 5 for row in rows)
    sentences = collections.Counter(
        re.sub(r"\b(a|b|c|y|src|dst|input|output|pred|gradient|logs|table)\b", "…", sentence)
        for row in rows
        for sentence in set(re.split(r"(?<=\.) ", row.removesuffix(" |"))[1:])
    )
    assert [sentence for sentence, rows in sentences.items() if rows > 6] == []


def test_the_help_says_what_makes_bools() -> None:
    text = re.sub(r"\s+", " ", str(ops.__doc__))
    (said,) = re.findall(r"outputs of bools have (.*?)\.", text)
    named = {"vector_" + n for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")}
    assert "comparisons" in said
    named |= set(re.findall(r"``(\w+)``", said))
    assert named == {f.name for f in ops._functions if f.bools and not f.name.endswith("_rows")}


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_prod", "cumsum"])
def test_sums_of_integers_come_out_in_64_bits(op: str, dtype: str) -> None:
    """As the page of operations and the README say."""
    result = getattr(ops, op)(np.ones(3, dtype), axis=0)
    assert result.dtype == ("u8" if dtype[0] == "u" else "i8")


# The signatures that users of the system before know (FACTS.md has them).
SIGNATURES = {
    "vector_add": "(ex, a, b, c=None, n=None)",
    "vector_mad": "(ex, a, b, c, d=None, n=None)",
    "vector_relu": "(ex, a, c=None, n=None)",
    "vector_clip": "(ex, a, c, min_val, max_val, n=None)",
    "scalar_mul": "(ex, a, c, scalar, n=None)",
    "sigmoid": "(ex, input, output=None, n=None)",
    "copy": "(ex, src, dst=None, n=None)",
    "softmax": "(ex, input, output=None, n=None, *, axis=None)",
    "softmax_rows": "(ex, input, output, rows, cols)",
    "reduce_sum": "(ex, input, output=None, n=None, *, axis=None, keepdims=False)",
    "argmax": "(ex, input, output=None, n=None, *, axis=None, keepdims=False)",
    "reduce_max_rows": "(ex, input, output, rows, cols)",
    "mse_loss": "(ex, pred, target, output=None, n=None)",
    "gemm": "(ex, a, b, c=None, m=None, n=None, k=None, *, trans_a=False, trans_b=False, alpha=1.0, beta=0.0)",
    "matvec": "(ex, a, x, y=None, m=None, n=None, *, trans_a=False, alpha=1.0, beta=0.0)",
    "fill": "(ex, dst, value, n=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    assert str(inspect.signature(getattr(ops, name))) == SIGNATURES[name]


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        (2, {}, r"vector_add\(\) missing required argument: 'b'"),
        (6, {}, r"vector_add\(\) takes at most 5 positional arguments \(6 given\)"),
        (4, {"a": 1}, r"vector_add\(\) got multiple values for argument 'a'"),
        (4, {"m": 1}, r"vector_add\(\) got an unexpected keyword argument 'm'; it has ex, a, b, c, n"),
    ],
)
def test_arguments_that_no_function_takes(ex: hg.Executor, arguments: int, named: dict[str, Any], text: str) -> None:
    given = [ex, *[ex.allocate(4)] * 5][:arguments]
    with pytest.raises(TypeError, match=text):
        ops.vector_add(*given, **named)


def test_an_integer_beyond_64_bits_is_wanted_as_a_float() -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="b is 1180591620717411303424, which has more than 64 bits; expected a float"):
        ops.vector_add(x, 2**70)
    assert ops.vector_add(x, 2.0**70).tolist() == [2.0**70] * 2


def test_arguments_by_name(ex: hg.Executor) -> None:
    a, c = buffer(ex, [1, 2, 3, 4]), ex.allocate(4)
    ops.vector_add(c=c, ex=ex, b=a, a=a, n=3)
    assert c.to_numpy().tolist() == [2, 4, 6, 0]
    name = "".join(["sca", "lar"])  # no interned one
    ops.scalar_mul(ex, a, c, **{name: 3})
    assert c.to_numpy().tolist() == [3, 6, 9, 12]
    ops.gemm(ex, a, a, c, 2, 2, 2, trans_b=True, alpha=2)
    assert c.to_numpy().tolist() == [10, 22, 22, 50]


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
