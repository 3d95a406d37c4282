"""Operations of the library against the best of numpy and torch, over types, sizes and axes.

    ./build.sh bench operations              writes benchmarks/results/operations.json and operations.md
    ./build.sh bench operations --quick      fewer types and sizes, in two minutes; writes with --write
    ./build.sh bench operations --only 'softmax|sum' --threads 1
    ./build.sh bench operations --runs 3     means of three runs: where memory lies differs from one to the next

A point is an operation on arrays of one type and one shape. All libraries work on the same memory, write to arrays that
exist before, and take turns, round after round. A figure is the speed of Hologram as a multiple of the faster peer's:
1.25 is a quarter faster than the best of the others. It is the quotient of the best times that each needed; with one
thread these are processor times, which other processes disturb less than the time that passes.

Losses, norms and gradients are not here; of products stacks of very small matrices are: benchmarks/products.py has the
others.

The bar is a geometric mean of at least 1 for every operation, and no point below 0.9.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MOST_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare operations with the best of numpy and torch.")
    parser.add_argument("--quick", action="store_true", help="some types and sizes; nothing is written")
    parser.add_argument("--write", action="store_true", help="with --quick: write the record too")
    parser.add_argument("--only", default="", help="a regular expression that the names of the points match")
    parser.add_argument("--threads", type=int, default=MOST_THREADS)
    parser.add_argument("--rounds", type=int, help="7 without it, 4 with --quick: on a busy machine take more")
    parser.add_argument("--runs", type=int, default=1, help="processes, whose times' geometric means are written")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=float, default=0.004, help="seconds a library has in a round")
    return parser.parse_args()


ARGUMENTS = arguments() if __name__ == "__main__" else argparse.Namespace(threads=MOST_THREADS)
# The libraries read these when they are loaded.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HOLOGRAM_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from limits import commit, limits  # noqa: E402

import hologram as hg  # noqa: E402

RESULTS = Path(__file__).parent / "results"
BAR, FLOOR = 1.0, 0.9
Call = Callable[[], Any]
T = Any  # of torch, whose functions are called by many names

TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}
FLOATS = ("f32", "f64", "bf16")
EVERYWHERE = [name for name in TYPES if name != "i16"]  # which quotients alone have: others of it are as of i8 and i32
SIZES = [1 << k for k in (10, 13, 15, 18, 20, 23, 26)]
QUICK_SIZES = [1 << k for k in (10, 15, 20, 23)]
ROWS = [(64, 128), (1024, 32), (32, 1024), (1024, 1024), (16, 1 << 16), (250_000, 4), (4, 250_000), (4096, 4096)]
QUICK_ROWS = [(64, 128), (1024, 1024), (16, 1 << 16), (250_000, 4)]
# Where a point has a type that is no f32, --quick takes these alone.
QUICK_OTHERS = (1 << 15, 1 << 20, 1024 * 1024, 64 * 128)


class Point(NamedTuple):
    """An operation on arrays of one type and one shape: the calls, by library."""

    operation: str
    dtype: str
    shape: str
    calls: dict[str, Call]

    @property
    def name(self) -> str:
        return f"{self.operation} {self.dtype} {self.shape}"


def random(shape: tuple[int, ...], dtype: str, low: float = -4.0, high: float = 4.0) -> torch.Tensor:
    """An array of numbers from low to high; of integers if the type is one."""
    rng = np.random.default_rng(math.prod(shape))
    values = torch.from_numpy(rng.uniform(low, high, shape).astype(np.float32))
    return values.to(TYPES[dtype])


def numpy_of(*tensors: torch.Tensor) -> list[Any] | None:
    """The same memory for numpy; None if it has no such type."""
    return None if any(t.dtype == torch.bfloat16 for t in tensors) else [t.numpy() for t in tensors]


# ---- element by element -------------------------------------------------------------------------------------------

ALL = tuple(TYPES)
# By operation: the types, and the calls of numpy (by arrays) and torch (by tensors) on inputs and the output, if any.
UNARY: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "vector_abs": (ALL, np.abs, torch.abs),
    "vector_neg": (ALL, np.negative, torch.neg),
    "relu": (ALL, lambda x, out: np.maximum(x, 0, out=out), lambda x, out: torch.clamp_min(x, 0, out=out)),
    "vector_sqrt": (FLOATS, np.sqrt, torch.sqrt),
    "vector_exp": (FLOATS, np.exp, torch.exp),
    "vector_log": (FLOATS, np.log, torch.log),
    "sigmoid": (FLOATS, None, torch.sigmoid),
    "tanh": (FLOATS, np.tanh, torch.tanh),
    "gelu": (FLOATS, None, lambda x, out: torch._C._nn.gelu(x, approximate="tanh", out=out)),
    "copy": (ALL, lambda x, out: np.copyto(out, x), lambda x, out: out.copy_(x)),
}
BINARY: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "vector_add": (ALL, np.add, torch.add),
    "vector_sub": (ALL, np.subtract, torch.sub),
    "vector_mul": (ALL, np.multiply, torch.mul),
    "vector_div": (FLOATS, np.divide, torch.div),
    "vector_min": (ALL, np.minimum, torch.minimum),
    "vector_max": (ALL, np.maximum, torch.maximum),
}
COMPARISONS = {"vector_equal": (np.equal, torch.eq), "vector_less": (np.less, torch.lt)}


def elementwise(ex: hg.Executor, n: int, dtype: str) -> Iterator[Point]:
    """The operations on arrays of n elements."""
    ops = hg.ops
    shape = (n,)
    x, y, z = (random(shape, dtype) for _ in range(3))
    positive = random(shape, dtype, 0.5, 4.0)
    out, mask = torch.empty_like(x), torch.empty(shape, dtype=torch.bool)
    arrays = numpy_of(x, y, z, positive, out, mask)
    text = f"{n:,}"

    def point(operation: str, hologram: Call, numpy: Call | None, eager: Call) -> Point:
        calls = {"hologram": hologram, "torch": eager}
        if numpy is not None and arrays is not None:
            calls["numpy"] = numpy
        return Point(operation, dtype, text, calls)

    nx, ny, _, npositive, nout, nmask = arrays or [None] * 6
    for name, (types, numpy, eager) in UNARY.items():
        if dtype in types:
            f, tin, nin = getattr(ops, name), positive if name in ("vector_sqrt", "vector_log") else x, nx
            if name in ("vector_sqrt", "vector_log"):
                nin = npositive
            yield point(
                name,
                lambda f=f, a=tin: f(ex, a, out),
                numpy and (lambda g=numpy, a=nin: g(a, out=nout)),
                lambda g=eager, a=tin: g(a, out=out),
            )
    for name, (types, numpy, eager) in BINARY.items():
        if dtype in types:
            f = getattr(ops, name)
            yield point(
                name,
                lambda f=f: f(ex, x, positive, out),
                lambda g=numpy: g(nx, npositive, out=nout),
                lambda g=eager: g(x, positive, out=out),
            )
    for name, (numpy, eager) in COMPARISONS.items():
        f = getattr(ops, name)
        yield point(
            name,
            lambda f=f: f(ex, x, y, mask),
            lambda g=numpy: g(nx, ny, out=nmask),
            lambda g=eager: g(x, y, out=mask),
        )
    chosen = x > 0
    nchosen = chosen.numpy()

    def numpy_where() -> None:
        np.copyto(nout, ny)
        np.copyto(nout, nx, where=nchosen)

    yield point(
        "where",
        lambda: ops.where(ex, chosen, x, y, out),
        numpy_where,
        lambda: torch.where(chosen, x, y, out=out),
    )
    yield point(
        "vector_clip",
        lambda: ops.vector_clip(ex, x, out, -1, 2),
        lambda: np.clip(nx, -1, 2, out=nout),
        lambda: torch.clamp(x, -1, 2, out=out),
    )
    for name, numpy, eager in ("scalar_add", np.add, torch.add), ("scalar_mul", np.multiply, torch.mul):
        f = getattr(ops, name)
        yield point(
            name,
            lambda f=f: f(ex, x, out, 3),
            lambda g=numpy: g(nx, 3, out=nout),
            lambda g=eager: g(x, 3, out=out),
        )
    yield point(
        "vector_mad",
        lambda: ops.vector_mad(ex, x, y, z, out),
        None,
        lambda: torch.addcmul(z, x, y, out=out),
    )
    yield point("fill", lambda: ops.fill(ex, out, 3), lambda: nout.fill(3), lambda: out.fill_(3))


FUNCTIONS = "sin cos tan log2 log10 log1p exp2 expm1 erf rsqrt pow".split()


def functions(n: int, dtype: str) -> Iterator[Point]:
    """The functions that are kernels, of positive numbers; numpy has no error function and no inverse root."""
    x, y = random((n,), dtype, 0.1, 8.0), random((n,), dtype, 0.0, 3.0)
    out = torch.empty_like(x)
    arrays = numpy_of(x, y, out)
    for name in FUNCTIONS:
        f, eager = getattr(hg, name), getattr(torch, name)
        numpy = getattr(np, "power" if name == "pow" else name, None)
        count = 2 if name == "pow" else 1
        calls: dict[str, Call] = {
            "hologram": lambda f=f, a=(x, y)[:count]: f(*a, out=out),
            "torch": lambda g=eager, a=(x, y)[:count]: g(*a, out=out),
        }
        if numpy is not None and arrays is not None:
            calls["numpy"] = lambda g=numpy, a=arrays[:count]: g(*a, out=arrays[2])
        yield Point(name, dtype, f"{n:,}", calls)


QUOTIENTS = ("i8", "i16", "i32", "i64")


def quotients(ex: hg.Executor, n: int, dtype: str) -> Iterator[Point]:
    """Integer quotients by an array and by a constant, of numbers of two digits, on whose size the time depends.

    Hologram's and torch's are rounded toward zero; numpy's, which has no such, down.
    """
    x, y = random((n,), dtype, -100, 100), random((n,), dtype, 1, 100)
    out = torch.empty_like(x)
    nx, ny, nout = x.numpy(), y.numpy(), out.numpy()
    for name, by, nby in ("vector_div", y, ny), ("vector_div by 3", 3, 3):
        calls: dict[str, Call] = {
            "hologram": lambda b=by: hg.ops.vector_div(ex, x, b, out),
            "torch": lambda b=by: torch.div(x, b, rounding_mode="trunc", out=out),
            "numpy": lambda b=nby: np.floor_divide(nx, b, out=nout),
        }
        yield Point(name, dtype, f"{n:,}", calls)


def stacks(ex: hg.Executor, count: int, side: int) -> Iterator[Point]:
    """Products of count pairs of very small matrices."""
    x, y = (random((count, side, side), "f32") for _ in range(2))
    out = torch.empty_like(x)
    nx, ny, nout = x.numpy(), y.numpy(), out.numpy()
    calls: dict[str, Call] = {
        "hologram": lambda: hg.ops.gemm(ex, x, y, out),
        "torch": lambda: torch.matmul(x, y, out=out),
        "numpy": lambda: np.matmul(nx, ny, out=nout),
    }
    yield Point(f"gemm of {side}×{side}", "f32", f"{count:,} × {side} × {side}", calls)


# ---- rows ---------------------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "reduce_sum": (ALL, np.sum, lambda x, axis, out: torch.sum(x, axis, dtype=x.dtype, out=out)),
    "reduce_max": (ALL, np.max, lambda x, axis, out: torch.amax(x, axis, out=out)),
    "reduce_min": (("f32", "i8"), np.min, lambda x, axis, out: torch.amin(x, axis, out=out)),
    "argmax": (ALL, np.argmax, lambda x, axis, out: torch.argmax(x, axis, out=out)),
}


def reduction(ex: hg.Executor, name: str, x: torch.Tensor, axis: int, out: torch.Tensor) -> Call:
    """Hologram's call: of a row as an array, of rows by their sizes, of columns by their axis."""
    if x.dim() == 1:
        f = getattr(hg.ops, name)
        return lambda: f(ex, x, out)
    if axis == 1:
        f, (rows, cols) = getattr(hg.ops, f"{name}_rows"), x.shape
        return lambda: f(ex, x, out, rows, cols)
    f = getattr(hg.ops, name)
    return lambda: f(ex, x, out, axis=0)


def reductions(ex: hg.Executor, shape: tuple[int, ...], dtype: str) -> Iterator[Point]:
    """What works on an array as one row, or on a matrix along either axis."""
    for axis in range(len(shape)):
        yield from along(ex, random(shape, dtype), axis, dtype)


def along(ex: hg.Executor, x: torch.Tensor, axis: int, dtype: str) -> Iterator[Point]:
    """What works along an axis."""
    ops, whole = hg.ops, x.dim() == 1
    text = f"{len(x):,}" if whole else " × ".join(map(str, x.shape)) + f", axis {axis}"
    kept = [n for k, n in enumerate(x.shape) if k != axis]
    for name, (types, numpy, eager) in REDUCTIONS.items():
        if dtype not in types:
            continue
        out = torch.empty(kept, dtype=torch.int64 if name == "argmax" else x.dtype)
        room = torch.empty(1 if name == "argmax" else 3, dtype=out.dtype) if whole else out
        calls = {"hologram": reduction(ex, name, x, axis, room), "torch": lambda g=eager, o=out: g(x, axis, out=o)}
        if (arrays := numpy_of(x, out)) is not None:
            more = {"dtype": arrays[0].dtype} if name == "reduce_sum" else {}
            calls["numpy"] = lambda g=numpy, n=arrays, m=more: g(n[0], axis=axis, out=n[1], **m)
        yield Point(name, dtype, text, calls)
    out = torch.empty_like(x)
    if dtype in FLOATS:
        rows, cols = (1, len(x)) if whole else x.shape
        own = lambda: ops.softmax(ex, x, out, axis=axis)  # noqa: E731
        if axis == x.dim() - 1:
            own = lambda: ops.softmax_rows(ex, x, out, rows, cols)  # noqa: E731
        yield Point("softmax", dtype, text, {"hologram": own, "torch": lambda: torch.softmax(x, axis, out=out)})
    if dtype in ("f32", "f64", "i32"):
        nx, nout = x.numpy(), out.numpy()
        own = lambda: ops.cumsum(ex, x, out, axis=axis)  # noqa: E731
        if axis == x.dim() - 1:
            rows, cols = (1, len(x)) if whole else x.shape
            own = lambda: ops.cumsum_rows(ex, x, out, rows, cols)  # noqa: E731
        calls = {
            "hologram": own,
            "torch": lambda: torch.cumsum(x, axis, dtype=x.dtype, out=out),
            "numpy": lambda: np.cumsum(nx, axis=axis, dtype=nx.dtype, out=nout),
        }
        yield Point("cumsum", dtype, text, calls)


def points(ex: hg.Executor, quick: bool) -> Iterator[Point]:
    """All points, those of one array of memory after another's."""
    for dtype in ("f32", "bf16", "i8") if quick else EVERYWHERE:
        for n in QUICK_SIZES if quick else SIZES:
            if not quick or dtype == "f32" or n in QUICK_OTHERS:
                yield from elementwise(ex, n, dtype)
                if dtype in FLOATS:
                    yield from functions(n, dtype)
                yield from reductions(ex, (n,), dtype)
        for shape in QUICK_ROWS if quick else ROWS:
            if not quick or dtype == "f32" or math.prod(shape) in QUICK_OTHERS:
                yield from reductions(ex, shape, dtype)
    for dtype in QUOTIENTS:
        for n in (1 << 20,) if quick else (1 << 10, 1 << 15, 1 << 20):
            yield from quotients(ex, n, dtype)
    for side in (3, 4):
        yield from stacks(ex, 10_000, side)


# ---- measuring ----------------------------------------------------------------------------------------------------


def best(calls: dict[str, Call], rounds: int, budget: float, clock: Callable[[], float]) -> dict[str, float]:
    """The least time of a call in seconds, for each library; they take turns."""
    times: dict[str, int] = {}
    for name, call in calls.items():
        call()
        once = math.inf
        for _ in range(4):  # in the first of them things may be made for all that follow
            start = time.perf_counter()
            call()
            once = min(once, time.perf_counter() - start)
        times[name] = max(1, min(10_000, int(budget / max(once, 1e-7))))
    taken = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            for _ in range(times[name]):
                call()
            taken[name] = min(taken[name], (clock() - start) / times[name])
    return taken


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def speed(row: dict[str, Any]) -> float:
    """Hologram's speed as a multiple of the best peer's."""
    taken: dict[str, float] = row["seconds"]
    return min(t for name, t in taken.items() if name != "hologram") / taken["hologram"]


def report(rows: list[dict[str, Any]], about: str) -> str:
    """The tables: by operation, the worst points, and all of them."""
    operations = list(dict.fromkeys(row["operation"] for row in rows))
    types = [t for t in TYPES if any(row["dtype"] == t for row in rows)]
    below = sum(speed(row) < FLOOR for row in rows)
    lines = [
        "# Operations on the CPU",
        "",
        "Hologram's speed as a multiple of the faster of numpy and torch: above 1 is faster than both. Geometric means"
        " over sizes, shapes and axes; then the worst points, and all.",
        "",
        about,
        "",
        f"All {len(rows)} points: {mean([speed(row) for row in rows]):.2f}; {below} of them are below {FLOOR}.",
        "",
        "| operation | all | worst | " + " | ".join(types) + " |",
        "|---|---|---|" + "---|" * len(types),
    ]
    for operation in operations:
        own = [row for row in rows if row["operation"] == operation]
        cells = []
        for dtype in types:
            figures = [speed(row) for row in own if row["dtype"] == dtype]
            cells.append(f"{mean(figures):.2f}" if figures else "")
        all_of = [speed(row) for row in own]
        lines.append(f"| {operation} | {mean(all_of):.2f} | {min(all_of):.2f} | " + " | ".join(cells) + " |")
    lines += ["", "| the worst points | speed | hologram, µs | best peer, µs |", "|---|---|---|---|"]

    def line(row: dict[str, Any]) -> str:
        peer = min((k for k in row["seconds"] if k != "hologram"), key=row["seconds"].__getitem__)
        own, other = row["seconds"]["hologram"] * 1e6, row["seconds"][peer] * 1e6
        name = f"{row['operation']} {row['dtype']} {row['shape']}"
        return f"| {name} | {speed(row):.2f} | {own:.1f} | {other:.1f} ({peer}) |"

    lines += [line(row) for row in sorted(rows, key=speed)[:10]]
    lines += ["", "| point | speed | hologram, µs | best peer, µs |", "|---|---|---|---|"]
    return "\n".join(lines + [line(row) for row in rows]) + "\n"


def measure(clock: Callable[[], float], rounds: int) -> list[dict[str, Any]]:
    """A row for each point, measured here."""
    ex = hg.Executor("cpu")
    budget = ARGUMENTS.budget / 2 if ARGUMENTS.quick else ARGUMENTS.budget
    rows: list[dict[str, Any]] = []
    for point in points(ex, ARGUMENTS.quick):
        if not re.search(ARGUMENTS.only, point.name):
            continue
        row = {**point._asdict(), "seconds": best(point.calls, rounds, budget, clock)}
        del row["calls"]
        rows.append(row)
        own = row["seconds"]["hologram"]
        times = f"{own * 1e6:.2f} µs, peer {own * speed(row) * 1e6:.2f}"
        print(f"{point.name:44} {speed(row):6.2f}  {times}", file=sys.stderr)
    return rows


def measure_runs(runs: int) -> list[dict[str, Any]]:
    """A row for each point: the geometric means of the times that as many processes measured."""
    command = [sys.executable, __file__, *sys.argv[1:], "--worker"]
    each = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) for _ in range(runs)]
    return [
        {**rows[0], "seconds": {name: mean([row["seconds"][name] for row in rows]) for name in rows[0]["seconds"]}}
        for rows in zip(*each, strict=True)
    ]


def main() -> None:
    torch.set_num_threads(ARGUMENTS.threads)
    hg.set_num_threads(ARGUMENTS.threads)
    clock = time.process_time if ARGUMENTS.threads == 1 else time.perf_counter
    rounds = ARGUMENTS.rounds or (4 if ARGUMENTS.quick else 7)
    if ARGUMENTS.worker:
        print(json.dumps(measure(clock, rounds)))
        return
    rows = measure_runs(ARGUMENTS.runs) if ARGUMENTS.runs > 1 else measure(clock, rounds)
    one = ARGUMENTS.threads == 1
    command = "operations" + " --quick --write" * ARGUMENTS.quick
    if ARGUMENTS.threads < MOST_THREADS:
        command += f" --threads {ARGUMENTS.threads}"
    command += f" --rounds {rounds}" if ARGUMENTS.rounds else ""
    command += f" --runs {ARGUMENTS.runs}" if ARGUMENTS.runs > 1 else ""
    about = (
        f"{model()}, threads each: {ARGUMENTS.threads}{', in processor time' * one}; hologram {hg.__version__}, numpy "
        f"{np.__version__}, torch {torch.__version__}; the best of {rounds} interleaved rounds"
        f"{f', geometric means of {ARGUMENTS.runs} runs' if ARGUMENTS.runs > 1 else ''}. Written by "
        f"`./build.sh bench {command}`."
    )
    text = report(rows, about)
    if ARGUMENTS.only or (ARGUMENTS.quick and not ARGUMENTS.write):
        print(text.rpartition("\n\n")[0])
        return
    RESULTS.mkdir(exist_ok=True)
    products = {"numpy": lambda a, b, c: np.matmul(a, b, out=c), "torch": torch_product}
    record = {"about": about, "commit": commit(), "limits": limits(products, clock), "rows": rows}
    (RESULTS / "operations.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "operations.md").write_text(text)
    print(text.rpartition("\n\n")[0])


def torch_product(a: T, b: T, c: T) -> None:
    """The product of two matrices of numpy, by torch."""
    torch.mm(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(c))


def model() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "a processor")


if __name__ == "__main__":
    main()
