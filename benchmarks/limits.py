"""What a machine can do at most: the rates that the points of a record are seen against."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COPIED = [1 << k for k in (14, 17, 20, 23, 26)]  # bytes, from what the nearest cache holds to memory
SIDE = 1024  # of the products


def best(call: Callable[[], Any], clock: Callable[[], float], seconds: float = 0.05) -> float:
    """The least time of a call, in rounds that take so long altogether."""
    call()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        times = max(1, int(2e-4 / least)) if least < 1 else 1
        start = clock()
        for _ in range(times):
            call()
        least = min(least, (clock() - start) / times)
    return least


def limits(
    products: dict[str, Callable[[Any, Any, Any], Any]], clock: Callable[[], float]
) -> dict[str, dict[str, float]]:
    """The bytes a second of copies, read and written, by their size; and operations a second by type, of products.

    products are functions that write a product of two matrices to a third, by library: the fastest counts.
    """
    found: dict[str, dict[str, float]] = {"copy": {}, "peak": {}}
    for size in COPIED:
        a, b = np.ones(size, "u1"), np.zeros(size, "u1")
        found["copy"][str(size)] = 2 * size / best(lambda a=a, b=b: np.copyto(b, a), clock)
    for name in ("f32", "f64"):
        a, b, c = (np.ones((SIDE, SIDE), name.replace("32", "4").replace("64", "8")) for _ in range(3))
        taken = min(best(lambda f=f, x=(a, b, c): f(*x), clock, 0.3) for f in products.values())
        found["peak"][name] = 2 * SIDE**3 / taken
    return found


def commit() -> str:
    """The commit that this tree is at; empty outside a clone."""
    folder = Path(__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
