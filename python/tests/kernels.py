"""What the tests of kernels share: numbers of every type, and when results are the same."""

from __future__ import annotations

import linecache
from typing import Any, Callable

import numpy as np
import pytest

import hologram

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


NUMBERS = [True, 2, -3, 0, 1.5, -0.25, np.float32(0.1), np.int8(3), np.float64(0.1), np.uint16(7), np.bool_(True)]


numpy_2 = pytest.mark.skipif(int(np.__version__.split(".")[0]) < 2, reason="numpy 1 promotes Python numbers by value")


def numbers(dtype: Any, seed: int, n: int = 200) -> np.ndarray[Any, Any]:
    """Values of a dtype, the odd ones among them."""
    rng, d = np.random.default_rng(seed), np.dtype(dtype)
    if d.kind == "b":
        return rng.random(n) < 0.5
    if d.kind in "iu":
        limits = np.iinfo(d)
        x = rng.integers(limits.min, limits.max, n, dtype=d, endpoint=True)
        x[:22] = [*rng.integers(0, 5, 20).astype(d), limits.min, limits.max]
    else:
        with np.errstate(over="ignore"):
            x = (rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)).astype(d)
        tiny = np.finfo(d).tiny
        x[:14] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, 3, -3, tiny / 2, -tiny / 4]
    rng.shuffle(x)
    return x


def assert_same(got: Any, expected: Any, what: object = "") -> None:
    """Demand the same dtype, shape and bits, any NaN for a NaN."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), what
    if got.dtype.kind == "f":
        assert np.array_equal(np.isnan(got), np.isnan(expected)), what
        numbers = ~np.isnan(got)
        got, expected = got[numbers], expected[numbers]
    assert got.tobytes() == expected.tobytes(), what


def written(source: str, name: str) -> Callable[..., Any]:
    """Return the function f of a source that Python finds again."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace: dict[str, Any] = {"hologram": hologram}
    exec(compile(source, name, "exec"), namespace)
    found: Callable[..., Any] = namespace["f"]
    return found


@hologram.kernel
def branching(x: Any) -> Any:
    if x < 0:
        return -x
    return x * 10
