"""Measure the error of ops.gelu on all 2^32 numbers of f32, against float64.

    python benchmarks/gelu_error.py [cpu|cuda]      some minutes

The error is in units of the last place of the exact value (docs/math-errors.md).
NaN must be NaN, and what is not NaN has the sign of its argument.
"""

from __future__ import annotations

import math
import sys

import numpy as np

import hologram as hg

CHUNK = 1 << 20


def exact(x: np.ndarray) -> np.ndarray:
    """Compute x · sigmoid(2u) in float64; below −40, where it is nothing in f32, −0."""
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.where(x < -40, -0.0, x / (1 + np.exp(-2 * np.maximum(u, -350))))


def main() -> None:
    ex = hg.Executor(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    source, result = ex.allocate(CHUNK), ex.allocate(CHUNK)
    worst, at = 0.0, 0.0
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        source.from_numpy(x)
        hg.ops.gelu(ex, source, result)
        got = result.to_numpy()
        number = ~np.isnan(x)
        if not np.array_equal(np.isnan(got), ~number) or (np.signbit(got) != np.signbit(x))[number].any():
            sys.exit(f"a NaN or a sign is wrong between {start:#x} and {start + CHUNK:#x}")
        finite = np.isfinite(x)
        if not np.array_equal(got[number & ~finite], exact(x[number & ~finite].astype(np.float64)).astype(np.float32)):
            sys.exit("wrong at infinity")
        if not finite.any():
            continue
        x, got = x[finite], got[finite]
        want = exact(x.astype(np.float64))
        _, exponent = np.frexp(want)
        error = np.ldexp(np.abs(got - want), -np.maximum(exponent - 24, -149))
        i = int(error.argmax())
        if error[i] > worst:
            worst, at = float(error[i]), float(x[i])
    print(f"gelu, f32, all 4294967296 on {ex.backend}: at most {worst:.4f} ULP, at {at.hex()}")


if __name__ == "__main__":
    main()
