"""The kernels of examples/kernels.py compute what numpy and Python do, in every float type and on both engines.

What examples/batches.py shows is so.
"""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernels.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_the_example_runs(kernels: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    kernels["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:7]] == [
        "chain",
        "twelve",
        "gelu",
        "stencil",
        "Black-Scholes call",
        "Black-Scholes put",
        "Mandelbrot",
    ]
    assert sum("@" in line for line in lines[7:]) > 10


ARGUMENTS: dict[str, list[Any]] = {
    "chain": [2],
    "twelve": [3],
    "gelu": [1],
    "diffuse": [5, 0.1],
    "black_scholes": [3, 0.02, 0.3],
    "mandelbrot": [2, 50],
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_bits_are_those_of_the_interpreter(kernels: dict[str, Any], name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    count, *numbers = ARGUMENTS[name]
    arrays = [rng.uniform(-2, 2, (7, 9)).astype(dtype) for _ in range(count)]
    with hg.Executor("interp") as interp:
        expected = kernels[name](*arrays, *numbers, executor=interp)
    got = kernels[name](*arrays, *numbers)
    for g, e in zip(
        got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,)
    ):
        assert g.dtype == e.dtype == (np.int32 if name == "mandelbrot" else dtype)
        assert np.array_equal(g, e, equal_nan=True)


def test_light_operations_have_numpys_bits(kernels: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    x, y, z = (rng.standard_normal(1000) for _ in range(3))
    a = x * y + z
    b = np.maximum(a, x) - y * z
    c = np.minimum(a * 0.25, b) + x
    assert np.array_equal(kernels["twelve"](x, y, z), np.abs(c - z) * 0.5 + np.sqrt(np.abs(b)))
    grid = rng.random((20, 30))
    new = grid.copy()
    kernels["diffuse_grid"](grid, 0.2, new)
    for i in range(1, 19):
        for j in range(1, 29):
            around = grid[i - 1, j] + grid[i + 1, j] + grid[i, j - 1] + grid[i, j + 1]
            assert new[i, j] == grid[i, j] + 0.2 * (around - 4 * grid[i, j])
    assert np.array_equal(new[0], grid[0])


def test_lanes_leave_one_by_one(kernels: dict[str, Any]) -> None:
    mandelbrot = kernels["mandelbrot"]
    cr, ci = np.linspace(-2, 1, 40), np.linspace(-1, 1, 30)
    got = mandelbrot(cr[:, None], ci, 77)
    for i, j in np.ndindex(got.shape):
        zr = zi = 0.0
        n = 0
        while n < 77 and zr * zr + zi * zi <= 4:
            zr, zi = zr * zr - zi * zi + cr[i], 2 * zr * zi + ci[j]
            n += 1
        assert got[i, j] == n


def test_prices_obey_parity_and_bounds(kernels: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    spot, strike, years = 50 + 100 * rng.random(500), 50 + 100 * rng.random(500), 0.1 + rng.random(500)
    call, put = kernels["black_scholes"](spot, strike, years, 0.03, 0.25)
    for s, k, t, c in zip(spot, strike, years, call):
        d1 = (math.log(s / k) + (0.03 + 0.03125) * t) / (0.25 * math.sqrt(t))
        d2 = d1 - 0.25 * math.sqrt(t)
        cdf = [0.5 * math.erfc(-d / math.sqrt(2)) for d in (d1, d2)]
        assert c == pytest.approx(s * cdf[0] - k * math.exp(-0.03 * t) * cdf[1], rel=1e-9, abs=1e-10)
    np.testing.assert_allclose(call - put, spot - strike * np.exp(-0.03 * years), rtol=1e-12, atol=1e-10)


def test_a_row_is_the_same_in_every_batch(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE.with_name("batches.py")))["main"]()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hologram")]
    assert [line.split(": ")[1] for line in lines] == ["0 of 1024 differ"] * 4
