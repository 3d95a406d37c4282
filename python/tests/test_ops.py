"""Operations: element by element, by sizes, and what they take."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES, FLOATS, RTOL, applied, buffer, numbers

import hologram as hg
from hologram import ops

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


def test_a_prefix_is_taken_by_n_alone(ex: hg.Executor) -> None:
    a, b, c = buffer(ex, range(10)), buffer(ex, range(7)), buffer(ex, [-1] * 12)
    with pytest.raises(ValueError, match=r"vector_add: a: shape \(10,\) does not broadcast to the output's \(12,\)"):
        ops.vector_add(ex, a, b, c)
    with pytest.raises(ValueError, match=r"vector_add: a: shape \(10,\) .*; n counts the elements of arrays"):
        ops.vector_add(ex, a, a, b)
    ops.vector_add(ex, a, b, c, n=7)
    assert c.to_numpy().tolist() == [0, 2, 4, 6, 8, 10, 12, -1, -1, -1, -1, -1]
    for use in (lambda: ops.mse_loss(ex, a, b, c), lambda: ops.softmax(ex, a, c)):
        with pytest.raises(
            ValueError, match=r"the numbers of elements differ: \w+ \(10,\), \w+ \((7|12),\); n takes the first"
        ):
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


def test_gelu_at_the_ends(ex: hg.Executor) -> None:
    x = np.array([-np.inf, -1e30, -60, np.inf, np.nan, -0.0], np.float32)
    y = applied(ex, "gelu", x)
    assert y.tobytes() == np.array([-0.0, -0.0, -0.0, np.inf, y[4], -0.0], np.float32).tobytes() and np.isnan(y[4])


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


def test_overlap(ex: hg.Executor) -> None:
    a = buffer(ex, range(10))
    ops.vector_add(ex, a, a, a)
    assert a.to_numpy().tolist() == [2 * i for i in range(10)]
    head, tail = a.view([9]), a.view([9], offset=1)
    with pytest.raises(ValueError, match=r"vector_add: c overlaps a .*only the identical array .*give a copy of a,"):
        ops.vector_add(ex, head, head, tail)
    square = a.view([3, 3])
    with pytest.raises(
        ValueError, match=r"gemm: c overlaps a in memory: a is read while c is written; give a copy of a,"
    ):
        ops.gemm(ex, square, square, square)
    assert a.to_numpy().tolist() == [2 * i for i in range(10)]
    ops.softmax(ex, a, a)
    assert a.to_numpy().sum() == pytest.approx(1)


@pytest.mark.parametrize("cols", [1, 7, 8, 64, 1024, 2500])
def test_rows_that_are_named_are_not_written_over(host: hg.Executor, cols: int) -> None:
    """Each row of a result may be made of any: of the identical array too, some are read after they were written."""
    x = np.arange(40 * cols, dtype=np.float32).reshape(40, cols)
    before, backwards, places = x.copy(), np.arange(40)[::-1].copy(), np.arange(41)
    with pytest.raises(ValueError, match="embedding: output overlaps table in memory"):
        ops.embedding(host, x, backwards, x)
    with pytest.raises(ValueError, match="embedding_gradient: output overlaps gradient in memory"):
        ops.embedding_gradient(host, x, backwards, places[:-1], places[1:], x, -1, 0)
    np.testing.assert_array_equal(x, before)


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
    with pytest.raises(hg.ProgramFault, match=r"zero: b is 0 at element \[1\] of the shape \(3,\); the") as caught:
        ops.vector_div(ex, a, b, c)
        ex.synchronize()
    assert (caught.value.kind, caught.value.lane) == ("divide", 1)
    assert c.to_numpy().tolist() == [3, 0, 3]
