"""Numbers of calls that C makes by itself are converted as Go converts them: see test_calls_by_c.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from test_calls_by_c import TIMES, by_go, direct, machine_code

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of


@pytest.fixture
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as ex:
        yield ex


def test_numbers_are_those_of_each_call(cpu: hg.Executor) -> None:
    x, out = np.ones(8, np.float32), np.empty(8, np.float32)
    for value in [1.0, 2.5, -0.0, float("inf"), float("nan"), 3.4028235e38, 1e-46, 2]:
        for _ in range(TIMES):
            ops.scalar_mul(cpu, x, out, scalar=value)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(out, x * np.float32(value))
    with pytest.raises(ValueError, match="out of range of f32"):
        ops.scalar_mul(cpu, x, out, scalar=1e39)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_are_those_of_go(cpu: hg.Executor, dtype: str) -> None:
    """NaNs of whatever sign and digits, and integers that are rounded once."""
    to = np.empty(8, dtype)
    nans = (0x7FF8 << 48, 0xFFF8 << 48, 0x7FFC << 48, 0xFFF8000000000001, 0x7FF0000000000001, 0x7FF4 << 48)
    values = [np.array(bits, np.uint64).view(np.float64).item() for bits in nans]
    values += [s * ((1 << 60) + k * (1 << 36) + d) for s in (1, -1) for k in (1, 3) for d in (1, -1)]
    for value in values:
        with by_go():
            ops.fill(cpu, to, value)
        expected = to.tobytes()
        for _ in range(TIMES):
            ops.fill(cpu, to, 1.0)
            ops.fill(cpu, to, value)
            assert to.tobytes() == expected, value


def doubles(name: str) -> list[float]:
    """Return what floats of 16 bits are made of: all ties and what lies beside them, and numbers of any size."""
    dtype = dtype_of(name)
    finite, least, most = (0x7C00, -30, 18) if name == "f16" else (0x7F80, -140, 130)
    table = np.arange(finite, dtype=np.uint16).view(dtype).astype(np.float64)
    ties = np.append((table[:-1] + table[1:]) / 2, table[-1] + (table[-1] - table[-2]) / 2)  # the last is out of range
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 1 << 52, 20_000) & rng.choice([-1, -1 << 26, -1 << 40, (-1 << 41) | 1], 20_000)
    exponents = rng.integers(least, most, digits.size)
    near = np.ldexp(1 + digits / 2.0**52, exponents)
    any_bits = rng.integers(0, 1 << 63, 500).view(np.float64)  # mostly out of range, or nothing
    found = np.concatenate(
        [table[::97], ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), near, any_bits[~np.isnan(any_bits)]]
    )
    return [*found.tolist(), *(-found[::3]).tolist(), 0.0, -0.0, float("inf"), float("-inf"), 5e-324]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_halves_are_those_of_go(cpu: hg.Executor, name: str) -> None:
    """They are rounded once, and where code wants f32 they are those that the rounded ones are."""
    dtype = dtype_of(name)
    ones, to = np.ones(1, dtype), np.empty(1, dtype)
    x, out = cpu.from_numpy(ones), cpu.from_numpy(to)
    cell = np.asarray(out).view(np.uint16)

    def results(call: Callable[[float], object], values: list[float]) -> list[int]:
        found = []
        for value in values:
            try:
                call(value)
                found.append(int(cell[0]))
            except ValueError as error:
                assert f"out of range of {name}" in str(error)
                found.append(-1)
        return found

    values = doubles(name)
    sizes = [(k, e) for e in (10, 24, 51, 53, 55, 61) for k in (1, 3)] + [(257, 52), (259, 52), (2049, 1), (2051, 2)]
    near = [(k << e) + d for k, e in sizes for d in (-1, 0, 1)]
    integers = [*near, *(-value for value in near)]
    for call, given in (
        (lambda value: ops.fill(cpu, out, value), [*values, *integers]),
        (lambda value: ops.scalar_mul(cpu, x, out, scalar=value), [*values[::7], *integers]),
    ):
        with by_go():
            expected = results(call, given)
        before = direct(cpu)
        assert results(call, given) == expected
        if machine_code(cpu):
            assert direct(cpu) - before > 0.9 * len(given)
        assert 0 < expected.count(-1) < 0.1 * len(given)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_nan_in_halves(cpu: hg.Executor, name: str) -> None:
    to = cpu.allocate(1, name)
    for value in (1.0, float("nan"), -float("nan")) * TIMES:
        with by_go():
            ops.fill(cpu, to, value)
        expected = np.asarray(to).tobytes()
        ops.fill(cpu, to, 2.0)
        ops.fill(cpu, to, value)
        assert np.asarray(to).tobytes() == expected


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_are_those_of_each_call(cpu: hg.Executor, dtype: str) -> None:
    info = np.iinfo(dtype)
    whole, to = np.ones(70, dtype), np.empty(70, dtype)
    least, most = int(info.min), int(info.max)
    values = [1, 0, 100, least, most, most // 2 + 1]
    for value in values:
        for call in (lambda v: ops.scalar_mul(cpu, whole, to, scalar=v), lambda v: ops.fill(cpu, to, v)):
            call(value)
            before = direct(cpu)
            for _ in range(TIMES):
                to[:] = value ^ 1
                call(value)
                assert (to == value).all()
            if machine_code(cpu) and value < 1 << 63 and value == values[-1]:
                assert direct(cpu) == before + TIMES
            for wrong in (most + 1, least - 1, 0.5):
                with pytest.raises((ValueError, TypeError)):
                    call(wrong)
            assert (to == value).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_floats_that_are_integers_are_those_of_go(cpu: hg.Executor, dtype: str) -> None:
    info, to = np.iinfo(dtype), np.zeros(8, dtype)
    ends = [s * 2.0**k for k in (7, 8, 15, 16, 31, 32, 62, 63, 64) for s in (1, -1)]
    near = [np.nextafter(v, d).item() for v in ends for d in (0, v * 2)]
    near += [v + d for v in ends for d in (-1, -0.5, 0.5, 1)]
    for value in [0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 5e-324, float("inf"), float("-inf"), float("nan"), *ends, *near]:
        found = []
        for many in (1, TIMES):
            to[:] = 1
            try:
                ops.fill(cpu, to, 2)
                before = direct(cpu)
                for _ in range(many):
                    if many == 1:
                        with by_go():
                            ops.fill(cpu, to, value)
                    else:
                        ops.fill(cpu, to, value)
                found.append(to.tolist())
                if machine_code(cpu) and many > 1 and value < 1 << 63:
                    assert direct(cpu) >= before + many - 2, value
            except (ValueError, TypeError) as error:
                found.append(str(error))
        assert found[0] == found[1], value
        assert isinstance(found[0], list) == (value.is_integer() and info.min <= value <= info.max), value


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_products_of_integers_are_made_by_c(cpu: hg.Executor, dtype: str) -> None:
    """Though the numbers that they have, if none are given, are floats."""
    a, b, c = (np.arange(k, k + 9).reshape(3, 3).astype(dtype) for k in range(3))
    for _ in range(TIMES):
        ops.gemm(cpu, a, b, c)
    before = direct(cpu)
    for _ in range(TIMES):
        c[:] = 0
        ops.gemm(cpu, a, b, c)
        np.testing.assert_array_equal(c, a @ b)
    if machine_code(cpu) and (dtype != "int64" or "avx512" in cpu.device):  # AVX2 multiplies none of 64 bits
        assert direct(cpu) == before + TIMES
