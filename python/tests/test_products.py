"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from orders import fma, ordered_product
from support import DTYPES, buffer, numbers

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of


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


def within_bound(c: Any, a: Any, b: Any, before: Any = None, alpha: float = 1, beta: float = 0) -> bool:
    """|c − exact| ≤ k·2⁻²³·Σ|ab| + 1 ULP of c; with alpha and beta, of what they make of it."""
    x, y, found = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    exact = alpha * (x @ y) + (0 if before is None else beta * before.astype(np.float64))
    ulp = np.exp2(np.floor(np.log2(np.abs(found) + 1e-30)) - (10 if c.dtype == np.float16 else 7))
    return bool((np.abs(found - exact) <= abs(alpha) * x.shape[1] * 2.0**-23 * (np.abs(x) @ np.abs(y)) + ulp).all())


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "shape",
    [(3, 4, 1500), (1, 1, 1), (1, 64, 64), (8, 8, 16), (17, 33, 65), (64, 64, 513), (31, 200, 24), (130, 260, 1096)],
)
def test_16_bit_products_keep_their_bound(
    ex: hg.Executor, name: str, trans: tuple[bool, bool], shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a, b, c = (numbers(name, r * s, i + 1).reshape(r, s) for i, (r, s) in enumerate(((m, k), (k, n), (m, n))))
    left, right = (ex.from_numpy(np.ascontiguousarray(x.T if t else x)) for x, t in zip((a, b), trans))
    out = ex.allocate(m * n, name)
    ops.gemm(ex, left, right, out, m, n, k, trans_a=trans[0], trans_b=trans[1])
    assert within_bound(out.to_numpy().reshape(m, n), a, b)
    out = ex.from_numpy(c)
    ops.gemm(ex, left, right, out, m, n, k, trans_a=trans[0], trans_b=trans[1], alpha=0.5, beta=-2)
    assert within_bound(out.to_numpy().reshape(m, n), a, b, c, 0.5, -2)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_16_bit_products_of_parts_of_arrays_and_stacks(ex: hg.Executor, name: str) -> None:
    """Rows that are apart, begin at odd places, or lie backwards; stacks of matrices."""
    a, b = numbers(name, 40 * 50, 1).reshape(40, 50), numbers(name, 50 * 44, 2).reshape(50, 44)

    def part(x: Any, *slices: slice) -> Any:
        """The part of a matrix as a view of a Buffer."""
        y, size = x[slices], x.itemsize
        offset = y.__array_interface__["data"][0] - x.__array_interface__["data"][0]
        return ex.from_numpy(x.ravel()).view(y.shape, strides=[s // size for s in y.strides], offset=offset // size)

    for rows, products, cols in (
        (slice(1, 38), slice(3, 40), slice(0, 44)),
        (slice(0, 40, 2), slice(0, 48), slice(8, 40)),
        (slice(0, 33), slice(1, 49, 3), slice(1, 44, 2)),
    ):
        x, y = part(a, rows, products), part(b, products, cols)
        assert within_bound(ops.gemm(x, y).to_numpy(), a[rows, products], b[products, cols])
    stack, other = numbers(name, 3 * 20 * 24, 3).reshape(3, 20, 24), numbers(name, 3 * 24 * 17, 4).reshape(3, 24, 17)
    c = ops.gemm(ex.from_numpy(stack), ex.from_numpy(other)).to_numpy()
    assert all(within_bound(c[i], stack[i], other[i]) for i in range(3))


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
def test_a_row_is_the_same_in_every_batch(ex: hg.Executor, name: str) -> None:
    k, n = 1100, 200
    a, b = numbers(name, 1000 * k, 1).reshape(1000, k), ex.from_numpy(numbers(name, k * n, 2))
    rows = set()
    for m in (1, 2, 7, 100, 1000):  # the last don't split k
        c = ex.allocate(m * n, name)
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


@pytest.mark.parametrize("of", ["i8", "u8", "i16", "u16", "i32"])
def test_products_of_integers_in_wider_ones(ex: hg.Executor, of: str) -> None:
    """As numpy has them of operands that were converted before: they wrap. By shapes, sizes, of stacks and vectors."""
    rng = np.random.default_rng(3)
    limits = np.iinfo(dtype_of(of))
    a, b = (rng.integers(limits.min, limits.max, s, dtype_of(of), True) for s in ((2, 33, 150), (150, 41)))
    x = np.asfortranarray(b)[:, 3]
    for name in DTYPES:
        to = dtype_of(name)
        if to.kind not in "iu" or to.itemsize < a.itemsize or (to.itemsize == a.itemsize and to != a.dtype):
            continue
        product, before = a.astype(to) @ b.astype(to), rng.integers(0, 100, (2, 33, 41)).astype(to)
        out = ex.from_numpy(before)
        ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(b), out)
        assert np.array_equal(out.to_numpy(), product)
        ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(b), out, alpha=3, beta=2)
        assert np.array_equal(out.to_numpy(), (product + product + product) + (product + product))
        out = ex.from_numpy(before[0])
        ops.gemm(ex, ex.from_numpy(a[0]), ex.from_numpy(np.ascontiguousarray(b.T)), out, 33, 41, 150, trans_b=True)
        assert np.array_equal(out.to_numpy(), product[0])
        y = ex.allocate((2, 33), name)
        ops.matvec(ex, ex.from_numpy(a), ex.from_numpy(x), y)
        assert np.array_equal(y.to_numpy(), product[..., 3])
        ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(x), y)
        assert np.array_equal(y.to_numpy(), product[..., 3])


def test_products_of_other_types_are_refused(ex: hg.Executor) -> None:
    a = ex.from_numpy(np.ones((3, 3), np.int8))
    with pytest.raises(
        hg.errors.DTypeError, match="c has dtype f32, and a has i8: of integers a product's type is the same"
    ):
        ops.gemm(ex, a, a, ex.allocate((3, 3)))
    with pytest.raises(hg.errors.DTypeError, match="b has dtype i32, and a has i8: all operands must have the same"):
        ops.gemm(ex, a, ex.allocate((3, 3), "i32"), ex.allocate((3, 3), "i32"))
    assert ops.gemm(ex, a, a).dtype == np.int8  # as of numpy


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
        (
            r"there is no product of \(3, 4\) and \(5, 4\): the first has 4 in its last dimension, and meets 5 of",
            lambda: ops.gemm(ex, a, b, c),
        ),
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


@pytest.mark.parametrize("count", [65535, 65536, 70001])
def test_more_matrices_than_a_grid_is_deep(ex: hg.Executor, count: int) -> None:
    a, b = (np.arange(count * 4, dtype=np.float32).reshape(count, 2, 2) % m for m in (7, 5))
    c = ex.from_numpy(np.full((count + 1, 2, 2), -1, np.float32))
    ops.gemm(ex, ex.from_numpy(a), ex.from_numpy(b), c.view((count, 2, 2)))
    found = c.to_numpy()
    np.testing.assert_array_equal(found[:count], a @ b)
    assert (found[count] == -1).all()


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
