"""Numbers beside arrays of 16-bit floats, rounded once to nearest, ties to even.

Beside Buffers C rounds them, beside numpy's arrays of bf16 Python.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram._dtypes import dtype_of


def nearest(value: float, table: np.ndarray[Any, Any]) -> int:
    """Return the place of the nearest of some numbers, found by their exact distances; of two an even one."""
    i = int(np.searchsorted(table, value))
    if i == 0 or i == len(table) or table[i] == value:
        return min(i, len(table) - 1)
    below, above = (abs(Fraction(value) - Fraction(float(table[k]))) for k in (i - 1, i))
    return i if above < below or (above == below and i % 2 == 0) else i - 1


def array(ex: hg.Executor, kind: str, elements: np.ndarray[Any, Any]) -> Any:
    return ex.from_numpy(elements) if kind == "Buffer" else elements


@pytest.mark.parametrize("kind", ["array", "Buffer"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_numbers_are_rounded_once(host: hg.Executor, name: str, kind: str) -> None:
    dtype = dtype_of(name)
    finite = 0x7C00 if name == "f16" else 0x7F80
    numbers = np.arange(finite, dtype=np.uint16).view(dtype)
    table = numbers.astype(np.float64)
    rng = np.random.default_rng(0)
    at = np.unique(
        [*range(6), *range(finite - 130, finite - 1), *rng.integers(0, finite - 1, 150), 1023, 1024, 127, 128]
    )
    exact, ties = table[at], (table[at] + table[at + 1]) / 2
    values = [*exact, *ties, *np.nextafter(ties, 0), *np.nextafter(ties, np.inf), *rng.uniform(0, 3, 20)]
    values += [table[1] / 2, *(table[1] * 0.5 ** rng.uniform(0, 40, 40)), 1e-300, 5e-324]  # nothing, or the least
    mask, one = array(host, kind, np.zeros(1, bool)), array(host, kind, np.ones(1, dtype))
    for value in values:
        for sign in (1, -1):
            found = np.asarray(hg.ops.where(mask, one, float(sign * value)))
            expected = (numbers[nearest(float(value), table)] * dtype.type(sign)).reshape(1)
            assert found.tobytes() == expected.tobytes(), (value, found, expected)


@pytest.mark.parametrize("kind", ["array", "Buffer"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_integers_are_rounded_once(host: hg.Executor, name: str, kind: str) -> None:
    """What lies beside the middle of two numbers; above 2^53 an f64 has it in the middle."""
    dtype = dtype_of(name)
    digits, most, finite = (10, 15, 0x7C00) if name == "f16" else (7, 62, 0x7F80)
    numbers = np.arange(finite, dtype=np.uint16).view(dtype)
    table = numbers.astype(np.float64)
    mask, one = array(host, kind, np.zeros(1, bool)), array(host, kind, np.ones(1, dtype))
    for power in range(digits + 2, most + 1):
        step = 1 << (power - digits)
        for middle in ((1 << power) + step // 2, (1 << power) + step + step // 2):
            for value in (middle - 1, middle, middle + 1):
                for sign in (1, -1):
                    found = np.asarray(hg.ops.where(mask, one, sign * value))
                    expected = (numbers[nearest(value, table)] * dtype.type(sign)).reshape(1)
                    assert found.tobytes() == expected.tobytes(), (sign * value, found, expected)


@pytest.mark.parametrize("kind", ["array", "Buffer"])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_what_is_no_finite_number_stays_so(host: hg.Executor, name: str, kind: str) -> None:
    dtype = dtype_of(name)
    mask, one = array(host, kind, np.zeros(1, bool)), array(host, kind, np.ones(1, dtype))
    for value in (float("inf"), float("-inf"), float("nan"), -float("nan")):
        found = np.asarray(hg.ops.where(mask, one, value)).astype(np.float64)
        assert np.array_equal(found, [value], equal_nan=True), (value, found)
    for value in (0.0, -0.0):
        assert np.signbit(np.asarray(hg.ops.where(mask, one, value)).astype(np.float64)) == np.signbit(value)
