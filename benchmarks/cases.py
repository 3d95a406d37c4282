"""The calls by which ./build.sh bench --against compares two revisions, and the process that times one revision's.

    python benchmarks/cases.py      is such a process, which Worker in benchmarks/paired.py starts and tells what to do

A case has a name, which says the operation, the type, the sizes and, if there are several, the threads. The process
imports the package that PYTHONPATH leads to, so what stands here has to run with an older one too: a case that it
refuses is answered by its error, and is not compared.
"""

from __future__ import annotations

import gc
import inspect
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Call = Callable[[], Any]

SIZES = (1 << 10, 1 << 15, 1 << 20)
MOST_PRODUCT = 256  # a square product of more has no size of its own here: benchmarks/products.py has
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

DIMS = frozenset({"rows", "cols", "m", "n", "k"})
NUMBERS = {"scalar": 0.5, "value": 0.5, "min_val": -1.0, "max_val": 1.0}
NAMED = frozenset({"stream", "alpha", "beta", "trans_a", "trans_b", "axis", "keepdims"})  # left as they are
INDEXED = ("embedding", "embedding_gradient", "nll", "nll_gradient", "cross_entropy", "cross_entropy_gradient")
ROWWISE = (
    "layer_norm",
    "layer_norm_gradient",
    "layer_norm_input_gradient",
    "layer_norm_parameter_gradients",
    "rms_norm",
    "rms_norm_gradient",
    "softmax_gradient",
    "log_softmax_gradient",
    "log_sum_exp",
)
# What stands for the other types, and for all threads; the rest differs from it by instructions alone.
OTHER_TYPES = ("bf16", "f64", "i8", "i32")
TYPED = (
    "vector_add",
    "vector_max",
    "vector_mul",
    "sigmoid",
    "reduce_sum_rows",
    "reduce_max_rows",
    "softmax_rows",
    "gemm",
)
WHOLE = tuple(t for t in TYPED if t not in ("sigmoid", "softmax_rows"))
PAGE, LINE = 4096, 64
BEYOND = 1 << 20  # elements: no second cache holds them
LARGE = ("vector_add", "vector_exp", "reduce_sum", "softmax_rows")
ALONG_COLUMNS = ("reduce_sum", "reduce_max", "argmax", "softmax", "cumsum")


def dims_of(names: list[str], n: int) -> list[dict[str, int]]:
    """The sizes to time a function at, whose sizes have these names, with matrices of about n elements."""
    side = math.isqrt(n)
    if "rows" in names:
        return [{"rows": n // cols, "cols": cols} for cols in (4, side, n)]
    if "k" in names:
        return [{"m": side, "n": side, "k": side}] if side <= MOST_PRODUCT else []
    if "m" in names:
        return [{"m": side, "n": side}]
    return [{"n": n}]


def dtype(name: str) -> Any:
    """The type of that name in numpy."""
    import numpy as np

    if name == "bf16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype({"f32": "f4", "f64": "f8", "i8": "i1", "i32": "i4", "i64": "i8", "bool": "?"}[name])


class Calls:
    """The calls on arrays of about n elements."""

    def __init__(self, n: int) -> None:
        import numpy as np

        import hologram as hg

        self.hg, self.np, self.n = hg, np, n
        self.ex = hg.Executor("cpu")
        self.rng = np.random.default_rng(1)
        self.places = 0

    def array(self, *shape: int, kind: str = "f32") -> Any:
        """An array of numbers from 0.5 to 2, of integers from 1 to 4."""
        high = 2.0 if kind not in ("i8", "i32", "i64") else 4.0
        some = self.rng.uniform(high / 4, high, min(math.prod(shape), 4096)).astype(dtype(kind))
        return self.placed(self.np.resize(some, shape))  # the same again and again: processes are started often

    def placed(self, array: Any) -> Any:
        """A copy of an array at a place in a page that every process gives it.

        Where malloc puts arrays depends on all that came before, so on the revision, and those at one place in two
        pages take each other's stores for loads: that would be a loss of a tenth which no code has.
        """
        room = self.np.empty(array.nbytes + 2 * PAGE, "u1")
        self.places += 1
        start = -room.ctypes.data % PAGE + self.places * 9 * LINE % PAGE
        there = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        there[...] = array
        return there

    def flat(self, kind: str, wanted: tuple[str, ...] | None = None) -> Iterator[tuple[str, Call]]:
        """The functions that take arrays and sizes, on buffers."""
        ops, ex, n = self.hg.ops, self.ex, self.n
        inputs = [ex.from_numpy(self.array(n, kind=kind)) for _ in range(3)]
        output, places, mask = (ex.from_numpy(self.array(n, kind=k)) for k in (kind, "i64", "bool"))
        for name in sorted(ops.__all__):
            if name in INDEXED or name in ROWWISE or name == "linear" or (wanted is not None and name not in wanted):
                continue
            function = getattr(ops, name)
            parameters = [p for p in inspect.signature(function).parameters if p != "ex"]
            arrays = [p for p in parameters if p not in DIMS and p not in NUMBERS and p not in NAMED]
            given = [mask, *inputs] if name == "where" else inputs
            last = places if name.startswith("arg") else output
            if "equal" in name or "less" in name or "greater" in name:
                last = mask
            for dims in dims_of([p for p in parameters if p in DIMS], n):
                keywords: dict[str, Any] = {p: v for p, v in NUMBERS.items() if p in parameters}
                keywords.update(zip(arrays, [*given[: len(arrays) - 1], last]))
                size = " ".join(f"{k}={v:,}" for k, v in dims.items())
                type_of = "" if kind == "f32" else f" {kind}"
                yield f"{name}{type_of} {size}", lambda f=function, k={**keywords, **dims}: f(ex, **k)

    def columns(self) -> Iterator[tuple[str, Call]]:
        """What works along the columns of a matrix."""
        side = math.isqrt(self.n)
        x = self.array(side, side)
        for name in ALONG_COLUMNS:
            function = getattr(self.hg.ops, name)
            whole = name in ("softmax", "cumsum")
            out = self.array(*x.shape if whole else x.shape[1:], kind="i64" if name.startswith("arg") else "f32")
            yield f"{name} axis=0 {side}×{side}", lambda f=function, o=out: f(self.ex, x, o, axis=0)

    def rowwise(self) -> Iterator[tuple[str, Call]]:
        """What takes numbers of each row beside a matrix."""
        ex, ops = self.ex, self.hg.ops
        rows, cols = self.n // 64, 64
        x, g, out, more = (self.array(rows, cols) for _ in range(4))
        w, b = self.array(cols), self.array(cols)
        p, q = self.array(rows, 1), self.array(rows, 1)
        by_w, by_b, most, log = self.array(cols), self.array(cols), self.array(rows), self.array(rows)
        eps = 1e-5
        calls: dict[str, Call] = {
            "layer_norm": lambda: ops.layer_norm(ex, x, w, b, p, q, out, eps, axis=1),
            "layer_norm_gradient": lambda: ops.layer_norm_gradient(ex, g, x, w, p, q, more, out, eps, axis=1),
            "layer_norm_input_gradient": lambda: ops.layer_norm_input_gradient(ex, g, x, w, p, q, out, eps, axis=1),
            "layer_norm_parameter_gradients": lambda: ops.layer_norm_parameter_gradients(
                ex, g, x, p, q, by_w, by_b, axis=0
            ),
            "rms_norm": lambda: ops.rms_norm(ex, x, w, p, out, eps, axis=1),
            "rms_norm_gradient": lambda: ops.rms_norm_gradient(ex, g, x, w, p, more, out, eps, axis=1),
            "softmax_gradient": lambda: ops.softmax_gradient(ex, g, x, out, axis=1),
            "log_softmax_gradient": lambda: ops.log_softmax_gradient(ex, g, x, out, axis=1),
            "log_sum_exp": lambda: ops.log_sum_exp(ex, x, most, log, axis=1),
        }
        for name, call in calls.items():
            yield f"{name} {rows:,}×{cols}", call

    def indexed(self) -> Iterator[tuple[str, Call]]:
        """What takes the numbers of rows or columns."""
        ex, ops, np = self.ex, self.hg.ops, self.np
        rows, cols = self.n // 64, 64
        x, out = self.array(rows, cols), self.array(rows, cols)
        w, total, ignored = self.array(cols), self.array(1), -100
        most, log, r, s, g = (self.array(rows) for _ in range(5))
        target = self.placed(self.rng.integers(0, cols, rows))
        index = self.placed(self.rng.integers(0, rows, rows))
        order = self.placed(np.argsort(index, kind="stable"))
        starts = self.placed(np.searchsorted(index[order], np.arange(rows)))
        ends = self.placed(np.searchsorted(index[order], np.arange(rows), side="right"))
        calls: dict[str, Call] = {
            "embedding": lambda: ops.embedding(ex, x, index, out),
            "embedding_gradient": lambda: ops.embedding_gradient(ex, x, order, starts, ends, out, -1, 0),
            "nll": lambda: ops.nll(ex, x, target, w, r, s, ignored),
            "nll_gradient": lambda: ops.nll_gradient(ex, g, target, w, total, out, ignored),
            "cross_entropy": lambda: ops.cross_entropy(ex, x, target, w, most, log, r, s, ignored),
            "cross_entropy_gradient": lambda: ops.cross_entropy_gradient(
                ex, g, target, w, total, x, most, log, out, ignored
            ),
        }
        for name, call in calls.items():
            yield f"{name} {rows:,}×{cols}", call

    def arrays(self) -> Iterator[tuple[str, Call]]:
        """Calls as Python's users write them: on arrays, and by a kernel of their own."""
        hg, n = self.hg, self.n
        x, y, out = (self.array(n) for _ in range(3))
        yield f"vector_add, arrays n={n:,}", lambda: hg.ops.vector_add(self.ex, x, y, out)
        if (side := math.isqrt(n)) <= MOST_PRODUCT:
            square, weight, bias, product = (
                self.array(*shape) for shape in ((side, side), (side, side), (side,), (side, side))
            )
            yield (
                f"linear m={side:,} n={side:,} k={side:,}",
                lambda: hg.ops.linear(square, weight, bias, activation="relu", out=product),
            )

        @hg.kernel
        def chain(x: Any, y: Any) -> Any:
            return hg.relu(x * y + x) * 0.5 - y

        yield f"kernel n={n:,}", lambda: chain(x, y, out=out)


def cases(sizes: list[int]) -> Iterator[tuple[str, Call]]:
    """Every function of hologram.ops: the case's name, and the call.

    What is not element by element, and what has other types, is not timed at the least of several sizes, where a call
    is most of it; at sizes beyond the caches, where memory is, what stands for the rest is timed alone.
    """
    for n in sizes:
        calls = Calls(n)
        beyond = n >= BEYOND and len(sizes) > 1
        yield from calls.flat("f32", LARGE if beyond else None)
        yield from calls.arrays()
        if beyond or (n == min(sizes) and len(sizes) > 1):
            continue
        yield from calls.columns()
        yield from calls.rowwise()
        yield from calls.indexed()
        for kind in OTHER_TYPES:
            yield from calls.flat(kind, TYPED if kind not in ("i8", "i32") else WHOLE)


def parallel(found: dict[str, Call]) -> dict[str, Call]:
    """Those beyond the caches once more, by all threads."""
    return {
        f"{name}, {CORES} threads": call
        for name, call in found.items()
        if CORES > 1 and name.split()[0] in LARGE and elements(name) >= BEYOND
    }


def elements(name: str) -> int:
    """The elements of a case's arrays, by the sizes in its name."""
    return math.prod(int(text.replace(",", "")) for text in re.findall(r"(?:n|rows|cols)=([\d,]+)", name))


# ---- timing -------------------------------------------------------------------------------------------------------


class Timed:
    """A case, called as often as it is told."""

    def __init__(self, call: Call, threads: int) -> None:
        self.call = call
        # By one thread it is the processor's time, which others disturb less than the time that passes.
        self.clock = time.process_time if threads == 1 else time.perf_counter
        call()  # makes and compiles what it needs

    def about(self) -> float:
        """The time of a call, roughly."""
        times, least = 1, math.inf
        while True:
            taken = [self.seconds(times) for _ in range(3)]
            least = min(least, *taken)
            if least * times > 1e-4:
                return least
            times *= 4

    def seconds(self, times: int) -> float:
        """The time of a call, from so many."""
        call = self.call
        for _ in range(1 + times // 8):  # the other processes have used the caches
            call()
        start = self.clock()
        for _ in range(times):
            call()
        return (self.clock() - start) / times


def work(sizes: list[int]) -> None:
    """Print the names of the cases, then answer each line "times name" with the seconds of one call; 0 times: roughly.

    Cases by one thread are all on one processor, in all processes: two may be disturbed differently.
    """
    import hologram as hg

    found = dict(cases(sizes))
    many = parallel(found)
    timed: dict[str, Timed] = {}
    print(json.dumps([*found, *many]), flush=True)
    gc.collect()
    gc.disable()
    every = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    for line in sys.stdin:
        times, name = line.rstrip("\n").split(" ", 1)
        threads = CORES if name in many else 1
        hg.set_num_threads(threads)
        if every:
            os.sched_setaffinity(0, {max(every)} if threads == 1 else every)
        try:
            if name not in timed:
                timed[name] = Timed({**found, **many}[name], threads)
            case = timed[name]
            print(json.dumps(case.seconds(int(times)) if int(times) else case.about()), flush=True)
        except Exception as error:  # this revision has the case otherwise
            print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)


if __name__ == "__main__":
    work([int(n) for n in sys.argv[1:]])
