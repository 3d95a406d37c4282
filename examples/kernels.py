"""Six kernels written as Python functions, each checked against numpy or plain Python.

    .venv/bin/python examples/kernels.py

They are what people write kernels for: a chain of simple operations, more of them on three arrays, an activation
function, a stencil, a formula of finance, and a loop that lanes leave one by one. docs/KERNELS.md tells how they work.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hologram


@hologram.kernel
def chain(x: Any, y: Any) -> Any:
    """Five operations that numpy would make four arrays for."""
    return hologram.sigmoid(hologram.relu((x * y + x) * 0.5 - y))


@hologram.kernel
def twelve(x: Any, y: Any, z: Any) -> Any:
    """Twelve light operations on three arrays."""
    a = x * y + z
    b = hologram.maximum(a, x) - y * z
    c = hologram.minimum(a * 0.25, b) + x
    return abs(c - z) * 0.5 + hologram.sqrt(abs(b))


@hologram.kernel
def gelu(x: Any) -> Any:
    """The Gaussian error linear unit, in the form with tanh."""
    return 0.5 * x * (1 + hologram.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@hologram.kernel
def diffuse(here: Any, up: Any, down: Any, left: Any, right: Any, rate: float) -> Any:
    """A step of the heat equation on a grid; neighbours are shifted views of it."""
    return here + rate * (up + down + left + right - 4 * here)


@hologram.kernel
def black_scholes(spot: Any, strike: Any, years: Any, rate: float, volatility: float) -> Any:
    """The prices of a European call and put (Black and Scholes, 1973)."""
    spread = volatility * hologram.sqrt(years)
    d1 = (hologram.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    d2 = d1 - spread
    discounted = strike * hologram.exp(-rate * years)
    call = spot * normal(d1) - discounted * normal(d2)
    return call, call - spot + discounted


def normal(x: Any) -> Any:
    """The normal distribution function."""
    return 0.5 + 0.5 * hologram.erf(x * math.sqrt(0.5))


@hologram.kernel
def mandelbrot(cr: Any, ci: Any, limit: int) -> Any:
    """The rounds of z = z² + c until |z| > 2, at most limit; each lane leaves when it is through."""
    zr = zi = 0.0
    rounds = np.int32(0)
    for _ in hologram.range(limit):
        zr2, zi2 = zr * zr, zi * zi
        if zr2 + zi2 > 4:
            break
        zr, zi = zr2 - zi2 + cr, 2 * zr * zi + ci
        rounds += np.int32(1)
    return rounds


def diffuse_grid(grid: Any, rate: float, out: Any) -> None:
    """Carry out a step in all but the border."""
    diffuse(
        grid[1:-1, 1:-1], grid[:-2, 1:-1], grid[2:, 1:-1], grid[1:-1, :-2], grid[1:-1, 2:], rate, out=out[1:-1, 1:-1]
    )


def main() -> None:
    """Run each kernel, compare, and show the Mandelbrot set."""
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(1 << 16, dtype=np.float32) for _ in range(3))
    half = np.float32(0.5)

    u = np.maximum((x * y + x) * half - y, 0).astype(np.float64)
    check("chain", chain(x, y), 1 / (1 + np.exp(-u)))

    a = x * y + z
    b = np.maximum(a, x) - y * z
    c = np.minimum(a * np.float32(0.25), b) + x
    check("twelve", twelve(x, y, z), np.abs(c - z) * half + np.sqrt(np.abs(b)), exact=True)

    w = x.astype(np.float64)
    check("gelu", gelu(x), 0.5 * w * (1 + np.tanh(math.sqrt(2 / math.pi) * (w + 0.044715 * w**3))))

    grid = rng.random((200, 300))
    new = grid.copy()
    diffuse_grid(grid, 0.1, new)
    around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    check("stencil", new[1:-1, 1:-1], grid[1:-1, 1:-1] + 0.1 * (around - 4 * grid[1:-1, 1:-1]), exact=True)

    spot, strike, years = 50 + 100 * rng.random(2000), 50 + 100 * rng.random(2000), 0.1 + rng.random(2000)
    call, put = black_scholes(spot, strike, years, 0.02, 0.3)
    d1 = (np.log(spot / strike) + (0.02 + 0.045) * years) / (0.3 * np.sqrt(years))
    cdf = [np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in d]) for d in (d1, d1 - 0.3 * np.sqrt(years))]
    expected = spot * cdf[0] - strike * np.exp(-0.02 * years) * cdf[1]
    check("Black-Scholes call", call, expected)
    check("Black-Scholes put", put, expected - spot + strike * np.exp(-0.02 * years))

    cr, ci = np.linspace(-2, 0.6, 66), np.linspace(-1.1, 1.1, 25)[:, None]
    counts = mandelbrot(cr, ci, 60)
    plain = [[mandelbrot.__wrapped__(a, b, 60) for a in cr.tolist()] for b in ci[:, 0].tolist()]
    check("Mandelbrot", counts, np.array(plain), exact=True)
    for row in counts:
        print("".join(" .:-=+*#%@"[min(9, int(n) // 6)] for n in row).rstrip())


def check(name: str, got: Any, expected: Any, exact: bool = False) -> None:
    """Compare a result with what was expected, and say so.

    Raises:
        SystemExit: They differ.
    """
    largest = float(np.max(np.abs(got - expected)))
    if largest > (0 if exact else 1e-6 * max(1.0, float(np.max(np.abs(expected))))):
        raise SystemExit(f"{name}: differs by {largest}")
    print(f"{name}: {got.size} values, {'equal' if exact else f'at most {largest:.1e} from f64'}")


if __name__ == "__main__":
    main()
