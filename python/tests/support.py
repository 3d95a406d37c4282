"""What the test modules import: the backend under test, the dtypes, and buffers with values."""

from __future__ import annotations

import os
import random
import threading
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of

if TYPE_CHECKING:
    from collections.abc import Sequence

DEVICE = os.environ.get("HOLOGRAM_TEST_BACKEND", "cpu")

DTYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]

from_dlpack = getattr(np, "from_dlpack", None) or np._from_dlpack  # its name in numpy 1.22


def buffer(ex: hg.Executor, values: Any, dtype: Any = np.float32) -> hg.Buffer:
    """A buffer with the given values."""
    return ex.from_numpy(np.asarray(values, dtype=dtype))


FLOATS = ["f16", "bf16", "f32", "f64"]


RTOL = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-5, "f64": 1e-12}


def numbers(name: str, n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if name in FLOATS:
        return rng.standard_normal(n).astype(dtype_of(name))
    info = np.iinfo(dtype_of(name))
    return rng.integers(info.min, info.max, n, dtype_of(name), endpoint=True)


def applied(ex: hg.Executor, op: str, x: Any) -> np.ndarray[Any, Any]:
    """An elementwise operation's results: EXP and LOG are the ISA's, tested on their own."""
    x = np.ascontiguousarray(x)
    out = ex.allocate(x.size, x.dtype)
    getattr(ops, op)(ex, ex.from_numpy(x.ravel()), out)
    return out.to_numpy().reshape(x.shape)


def by_threads(works: Sequence[Callable[[random.Random], None]], seconds: float) -> None:
    """Repeat each work on a thread of its own, with random numbers of its own; what one raises is raised."""
    stop = threading.Event()
    wrong: list[BaseException] = []

    def repeat(i: int) -> None:
        rng = random.Random(i)
        try:
            while not stop.is_set():
                works[i](rng)
        except BaseException as error:
            wrong.append(error)
            stop.set()

    threads = [threading.Thread(target=repeat, args=(i,)) for i in range(len(works))]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
