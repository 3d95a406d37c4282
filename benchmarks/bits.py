"""Operations of the library on two devices: whether they give the same bits. cuda_all.py begins with it."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import hologram as hg
from hologram._dtypes import dtype_of
from hologram._ffi import native

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0)


@functools.cache
def numbers(dtype: str, n: int, seed: int, tame: bool) -> np.ndarray[Any, Any]:
    """Random elements over the dtype's range, floats with special values among them unless they are to be tame.

    They are kept: to make them takes longer than most cases, which want the same.
    """
    rng = np.random.default_rng(seed)
    kind = dtype_of(dtype)
    if dtype[0] in "fb":
        x = rng.standard_normal(n)
        if not tame:
            x *= np.exp(rng.uniform(-8, 8, n))
            x[: len(SPECIAL)] = SPECIAL[:n]
        with np.errstate(over="ignore"):
            return x.astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the bits are equal; all NaNs count as one."""
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iu":
        return False
    nan, other = (np.isnan(x.astype(np.float64)) for x in (a, b))
    return bool(np.array_equal(nan, other) and a[~nan].tobytes() == b[~nan].tobytes())


# The sizes of an operation, by its dims: of one step and of several, even and odd.
SIZES: dict[tuple[str, ...], list[tuple[int, ...]]] = {
    (): [()],
    ("n",): [(1,), (255,), (20_000,)],
    ("rows", "cols"): [
        (1, 1),
        (7, 100),
        (256, 64),
        (150, 257),
        (133, 256),
        (39, 1025),
        (5, 1000),
        (4, 8192),
        (2, 16_384),
        (2, 16_385),
        (1, 40_000),
        (1, 98_304),
        (1, 180_001),
        (2, 262_144),
    ],
    ("m", "n", "k", "trans_a", "trans_b"): [
        (1, 1, 1, 0, 0),
        (17, 33, 65, 0, 0),
        (40, 24, 600, 1, 0),
        (24, 40, 100, 0, 1),
        (190, 200, 100, 0, 0),
        (140, 136, 285, 1, 1),
        (33, 40, 1000, 0, 1),
        (8, 8, 2049, 1, 0),
    ],
    ("m", "n", "trans_a"): [(100, 77, 0), (77, 100, 1)],
}


def run(ex: hg.Executor, op: dict[str, Any], dtype: str, dims: tuple[int, ...]) -> list[Any]:
    """Run an operation on 40,000 elements or more for each operand; return what is written, or the fault."""
    tame = not op["elementwise"]
    n = max(40_000, dims[0] * dims[1] if op["dims"] == ["rows", "cols"] else 0)
    sums = [o for o in op["operands"] if o["kind"] == "sum"]
    # The one result of a sum may be of the elements' type; numbers of rows, in which these are summed, are wider.
    wide = "f32" if dtype in ("f16", "bf16") and sums != op["operands"][-1:] else dtype
    kinds = [{"index": "i64", "mask": "u8", "sum": wide}.get(o["kind"], dtype) for o in op["operands"]]
    buffers = [ex.from_numpy(numbers(kind, n, 10 * i + 1, tame)) for i, kind in enumerate(kinds)]
    scalars = tuple(hg._dtypes.scalar_bits(0.5 if dtype[0] in "fb" else 3, s["name"]) for s in op["scalars"])
    fault = None
    try:
        handles = tuple(b.handle for b in buffers)
        native.call(ex, op["number"], None, handles, scalars, dims or None, None, None, 0, None, None, 0, None)
        ex.synchronize()
    except hg.ProgramFault as error:
        fault = error.kind
    return [fault, *(b.to_numpy() for b, o in zip(buffers, op["operands"]) if o["writes"])]


def cases(op: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The dtypes and sizes that an operation is run on."""
    if any(o["kind"] == "index" and not o["writes"] for o in op["operands"]):
        return  # random numbers are no indices; test_reductions.py has these operations
    yield from itertools.product(op["types"], SIZES[tuple(op["dims"])])


def alike(op: dict[str, Any], dtype: str, dims: tuple[int, ...], here: Any, there: Any) -> bool:
    """Whether results agree: in their bits or, of 16-bit floats' products, each within its bound.

    Matrix units add these in an order of their own.
    """
    if op["name"] not in ("gemm", "matvec") or dtype not in ("f16", "bf16"):
        return same(here, there)
    m, n, k = (dims[0], dims[1], dims[2]) if op["name"] == "gemm" else (dims[0], 1, dims[1])
    x, y = (v[: m * n].astype(np.float64) for v in (here, there))
    # With numbers of about 1, beta · c among them, of which each |a · b| is less than 1 on average.
    apart = 2 * k * 2.0**-23 * k + np.maximum(np.abs(x), np.abs(y)) * (2.0**-9 if dtype == "f16" else 2.0**-6)
    return bool((np.abs(x - y) <= apart).all()) and same(here[m * n :], there[m * n :])


def differences(gpu: hg.Executor, cpu: hg.Executor, op: dict[str, Any]) -> list[str]:
    """Run an operation on every dtype on both; return the cases whose bits differ."""
    wrong = []
    for dtype, dims in cases(op):
        here, there = run(cpu, op, dtype, dims), run(gpu, op, dtype, dims)
        if here[0] != there[0] or not all(alike(op, dtype, dims, a, b) for a, b in zip(here[1:], there[1:])):
            wrong.append(f"{op['name']} {dtype} {dims}")
    return wrong


class Compare:
    """Compares operations on a backend with the CPU, in threads, each with executors of its own.

    What a thread waits for is mostly a compiler, of the driver or ours, which run on many cores at a time.
    """

    def __init__(self, backend: str = "cuda") -> None:
        self._backend, self._own = backend, threading.local()

    def __call__(self, op: dict[str, Any]) -> list[str]:
        """Return the cases of an operation whose bits differ."""
        own = self._own
        if not hasattr(own, "executors"):
            own.executors = hg.Executor(self._backend), hg.Executor("cpu")
        return differences(*own.executors, op)
