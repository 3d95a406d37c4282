"""Operations on arrays of sizes and layouts of chance, many where blocks and numbers of 32 bits end, beside numpy.

Numbers are small and whole, so that sums and products have one value whatever their order: what differs is a number
that was read twice, left out, or written where it should not be. Of operations whose results are rounded, a row's is
that of the row alone, bit for bit (docs/REDUCTIONS.md). A failure names its seed. HOLOGRAM_STRESS is how many times as
many calls there are.
"""

from __future__ import annotations

import math
import mmap
import os
import random
import sys
from typing import Any, Callable, Optional

import numpy as np
import pytest

from hologram import ops

Array = np.ndarray[Any, Any]
TIMES = int(os.environ.get("HOLOGRAM_STRESS", 1))

BORDERS = [n + d for n in (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 8192, 65536, 1 << 18) for d in (-1, 0, 1)]
BORDERS = [n for n in BORDERS if n >= 0]
WHOLE = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def sizes(r: random.Random, ranks: tuple[int, ...], most: int) -> tuple[int, ...]:
    """A shape of so many dimensions at most, with not too many elements."""
    shape: list[int] = []
    for _ in range(r.choice(ranks)):
        room = most // max(1, math.prod(shape))
        near = [n for n in BORDERS if n <= room] or [1]
        shape.append(
            r.choice(near[-12:] if r.random() < 0.3 else near) if r.random() < 0.6 else r.randint(1, min(9, room or 1))
        )
        if not shape[-1] and r.random() < 0.8:
            shape[-1] = 1
    r.shuffle(shape)
    return tuple(shape)


def far(size: int) -> Array:
    """Memory of many gigabytes, of which the system gives what is touched, and no more."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


class Placed:
    """An array in the midst of other memory, laid out in one of many ways."""

    def __init__(self, r: random.Random, values: Array) -> None:
        n, shape = values.ndim, values.shape
        self.whole: Optional[Array] = None
        if sys.platform == "linux" and n and 1 < shape[0] <= 4 and values.size <= 1000 and r.random() < 0.3:
            unit = r.choice([1, values.itemsize]) if values.itemsize < 8 else 1  # 2^31 bytes, or as many elements
            step = unit * r.choice([(1 << 31) - 64, 1 << 31, (1 << 31) + 8, (1 << 30) + 64])
            inner = [math.prod(shape[k + 1 :]) * values.itemsize for k in range(n)]
            start = far(4 * step + 65536)[r.choice([0, 64, 4096 - 16]) :]
            usable = start[: len(start) // 8 * 8].view(values.dtype)
            self.array = np.lib.stride_tricks.as_strided(usable, shape, (step, *inner[1:]))
            if r.random() < 0.3:
                self.array = self.array[::-1]
        else:
            order = r.sample(range(n), n) if r.random() < 0.4 else list(range(n))
            steps = [r.choice([1, 1, 1, 2, 3, -1]) if r.random() < 0.5 else 1 for _ in range(n)]
            wide = [shape[k] * abs(steps[k]) + r.choice([0, 0, 1, 5]) for k in order]
            if math.prod(wide) > 4 * values.size + 100:
                wide, steps = [shape[k] for k in order], [1] * n
            before = r.choice([0, 1, 3, 16])
            self.whole = np.full(before + math.prod(wide) + 16, 77).astype(values.dtype)
            box = self.whole[before : before + math.prod(wide)].reshape(wide)
            cut = box[tuple(slice(0, shape[k] * abs(steps[k]), abs(steps[k])) for k in order)]
            cut = cut[tuple(slice(None, None, -1 if steps[k] < 0 else 1) for k in order)]
            self.array = cut.transpose([order.index(k) for k in range(n)]) if n else box.reshape(())
        self.array[...] = values
        assert self.array.shape == shape

    def holds(self, expected: Array) -> bool:
        """Whether the array has elements, and what is beside it is as it was."""
        found = self.array.copy()
        if found.tobytes() != np.ascontiguousarray(expected).astype(found.dtype).tobytes():
            return False
        if self.whole is None:
            return True
        beside = np.array(77).astype(found.dtype)
        self.array[...] = beside
        return bool((self.whole == beside).all())


def numbers(r: random.Random, shape: tuple[int, ...], dtype: str, low: int = 0, high: int = 4) -> Array:
    made = np.random.default_rng(r.randrange(1 << 30)).integers(low, high, shape)
    return np.asarray(made).astype(dtype)


def axes(r: random.Random, rank: int) -> Any:
    if not rank or r.random() < 0.3:
        return None
    if r.random() < 0.7:
        return r.randrange(-rank, rank)
    return tuple(r.sample(range(rank), r.randint(1, rank)))


def reductions(r: random.Random) -> None:
    name = r.choice(["sum", "prod", "min", "max", "argmin", "argmax"])
    shape = sizes(r, (0, 1, 1, 2, 2, 3, 4), 300_000 if r.random() < 0.1 else 20_000)
    dtype = r.choice(["f4", "f8", *WHOLE] + ["f2"] * (name not in ("sum", "prod")))
    x = numbers(r, shape, dtype) if name != "prod" else np.where(numbers(r, shape, "i8") == 0, -1, 1).astype(dtype)
    if x.size and name not in ("sum", "prod"):
        for _ in range(r.choice([0, 1, 2])):  # the ends of the number of elements, and others
            x.flat[r.choice([0, -1, r.randrange(x.size)])] = r.choice([9, 0 if dtype[0] == "u" else -9])
    axis = axes(r, x.ndim)
    if name.startswith("arg") and isinstance(axis, tuple):
        axis = axis[0]
    keepdims = r.random() < 0.3
    given = Placed(r, x).array
    which = {"min": np.min, "max": np.max, "sum": np.sum, "prod": np.prod, "argmin": np.argmin, "argmax": np.argmax}[
        name
    ]
    op = getattr(ops, name if name.startswith("arg") else f"reduce_{name}")
    try:
        expected = np.asarray(which(x, axis=axis, keepdims=keepdims))
    except ValueError:  # an extremum of nothing
        with pytest.raises(ValueError):
            op(given, axis=axis, keepdims=keepdims)
        return
    if name in ("sum", "prod") and dtype[0] in "iu":
        expected = expected.astype(dtype[0] + "8")
    found = np.asarray(op(given, axis=axis, keepdims=keepdims))
    assert found.shape == expected.shape and found.tolist() == expected.tolist(), (name, shape, axis, given.strides)


def running(r: random.Random) -> None:
    shape, dtype = sizes(r, (1, 1, 2, 3), 20_000), r.choice(["f4", "f8", "i4", "i8", "u8"])
    x = numbers(r, shape, dtype)
    axis = r.choice([None, *range(-x.ndim, x.ndim)])
    expected = np.cumsum(x, axis=axis)
    found = np.asarray(ops.cumsum(Placed(r, x).array, axis=axis))
    assert found.reshape(expected.shape).tolist() == expected.tolist(), (shape, axis)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "vector_add": np.add,
    "vector_sub": np.subtract,
    "vector_mul": np.multiply,
    "vector_min": np.minimum,
    "vector_max": np.maximum,
    "vector_less": np.less,
    "vector_equal": np.equal,
}


def elementwise(r: random.Random) -> None:
    shape, dtype = (
        sizes(r, (0, 1, 1, 2, 3, 4), 300_000 if r.random() < 0.1 else 20_000),
        r.choice(["f2", "f4", "f8", *WHOLE]),
    )
    name = r.choice([*BINARY])
    a = numbers(r, shape, dtype)
    b = numbers(r, tuple(r.choice([1, n, n]) for n in shape)[r.choice([0, 0, 0, 1]) :], dtype)
    expected = BINARY[name](a, b)
    out = Placed(r, np.zeros(shape, bool if name in ("vector_less", "vector_equal") else dtype))
    getattr(ops, name)(Placed(r, a).array, Placed(r, b).array, out.array)
    assert out.holds(expected), (name, dtype, shape, b.shape, out.array.strides)


def products(r: random.Random) -> None:
    most, dtype = 1_000_000, r.choice(["f4", "f4", "f8", "i4", "u8", "f2"])
    near = [n for n in BORDERS if n <= 1025]
    m, n, k = (r.choice(near) if r.random() < 0.4 else r.randint(1, 40) for _ in range(3))
    while m * n * k > most:
        m, n, k = (max(1, d // r.choice([1, 2, 5])) for d in (m, n, k))
    trans_a, trans_b = r.random() < 0.3, r.random() < 0.3
    high = 2 if dtype == "f2" else 4  # so that sums stay exact
    a, b, c = (
        numbers(r, s, dtype, 0, high) for s in ((k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n), (m, n))
    )
    alpha, beta = r.choice([1, 1, 2, 0]), r.choice([0, 0, 1, 3])
    whole = (a.T if trans_a else a).astype("i8") @ (b.T if trans_b else b).astype("i8")
    out = Placed(r, c)
    scales = {"alpha": alpha, "beta": beta}
    ops.gemm(Placed(r, a).array, Placed(r, b).array, out.array, trans_a=trans_a, trans_b=trans_b, **scales)
    assert out.holds(alpha * whole + beta * c.astype("i8")), (m, n, k, trans_a, trans_b, alpha, beta, dtype)
    y = Placed(r, numbers(r, (m,), dtype))
    ops.matvec(
        Placed(r, a).array, Placed(r, b[0] if trans_b else b[:, 0]).array, y.array, trans_a=trans_a
    ) if n else None
    assert not n or y.holds(whole[:, 0]), (m, k, trans_a, dtype)


def gathered(r: random.Random) -> None:
    rows, columns = max(1, r.choice(BORDERS[:-9])), max(1, r.choice(BORDERS[:18]))
    rows = min(rows, 100_000 // columns + 1)
    dtype = r.choice(["f2", "f4", "f8"])
    table = numbers(r, (rows, columns), dtype)
    index = numbers(r, sizes(r, (0, 1, 2), 600), "i8", 0, rows)
    if index.size:
        index.flat[-1] = r.choice([0, rows - 1])
    out = Placed(r, np.zeros((*index.shape, columns), dtype))
    ops.embedding(Placed(r, table).array, Placed(r, index).array, out.array)
    assert out.holds(table[index]), (rows, columns, index.shape, dtype)


def row_by_row(r: random.Random) -> None:
    """What a row gives does not depend on the others, nor on where it lies."""
    rows, columns = max(1, r.choice(BORDERS[:21])), max(1, r.choice([n for n in BORDERS if n <= 8193]))
    rows = min(rows, 60_000 // columns + 1)
    dtype = r.choice(["f2", "f4", "f8"])
    x, g = ((numbers(r, (rows, columns), "i8", -40, 40) / 16).astype(dtype) for _ in "xg")
    weight = (numbers(r, (columns,), "i8", 1, 30) / 8).astype(dtype)
    calls: dict[str, Callable[[Array, Array, Array], Any]] = {
        "softmax": lambda x, g, w: ops.softmax(x, axis=-1),
        "log_softmax": lambda x, g, w: ops.log_softmax(x, axis=-1),
        "softmax_gradient": lambda x, g, w: ops.softmax_gradient(g, x, axis=-1),
        "sum": lambda x, g, w: ops.reduce_sum(x, axis=-1),
        "layer_norm": lambda x, g, w: ops.layer_norm(x, w, w, *stats(x, 2), eps=1e-5, axis=-1),
        "rms_norm": lambda x, g, w: ops.rms_norm(x, w, *stats(x, 1), eps=1e-5, axis=-1),
    }
    name = r.choice([*calls])
    found = np.asarray(calls[name](Placed(r, x).array, Placed(r, g).array, Placed(r, weight).array))
    for i in {0, rows - 1, r.randrange(rows)}:
        alone = np.asarray(calls[name](x[i : i + 1].copy(), g[i : i + 1].copy(), weight))
        assert found[i : i + 1].tobytes() == alone.tobytes(), (name, i, rows, columns, dtype)


def stats(x: Array, n: int) -> list[Array]:
    return [np.zeros((len(x), 1), "f8" if x.dtype == "f8" else "f4") for _ in range(n)]


KINDS = {"reductions": 300, "running": 100, "elementwise": 300, "products": 300, "gathered": 150, "row_by_row": 150}


@pytest.mark.parametrize("kind", KINDS)
def test_sizes(kind: str) -> None:
    for seed in range(KINDS[kind] * TIMES):
        try:
            globals()[kind](random.Random(seed))
        except AssertionError as error:
            error.args = (f"seed {seed}: {error}",)
            raise
