"""Compare Hologram on the CPU with numpy, torch and numexpr, all in one run.

    ./build.sh bench cpu             writes benchmarks/results/cpu.json and cpu.md
    ./build.sh bench cpu --calls     only what a call costs, in some seconds; writes nothing

Every workload runs on the same arrays in every library, which take turns, round
after round, so that a slow moment of the machine hits all alike. A figure is
the median over the rounds of the time for one call. Tables show it as a ratio
to numpy's, or to torch's where numpy has no such function: 0.50 is twice as
fast. All libraries have the same number of threads.

What a call of little work costs has a table of its own, in which each figure has
the bound that the project set itself. There the processor time of the calling
thread counts, which other processes disturb less than the time that passes; both
are shown. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
for variable in (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "HOLOGRAM_NUM_THREADS",
):
    os.environ[variable] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402

import hologram as hg  # noqa: E402

RESULTS = Path(__file__).parent / "results"

CHAIN = """
program chain                     ; c = max((x·y + x)·0.5 − y, 0)
slot x f32
slot y f32
slot c f32
  ldg.f32 a, x[index]
  ldg.f32 b, y[index]
  mul.f32 t, a, b
  add.f32 t, t, a
  mul.f32 t, t, 0.5
  sub.f32 t, t, b
  max.f32 t, t, 0
  stg.f32 t, c[index]
  exit
"""

ADD = """
program add
slot a f32
slot b f32
slot c f32
  ldg.f32 x, a[index]
  ldg.f32 y, b[index]
  add.f32 x, x, y
  stg.f32 x, c[index]
  exit
"""

Call = Callable[[], Any]


def workloads(n: int, ex: hg.Executor) -> dict[str, dict[str, Call]]:
    """By workload, then by library, a call on f32 arrays of n elements."""
    import numexpr  # here: what calls cost is measured where it is missing, too

    numexpr.set_num_threads(THREADS)
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    out = np.empty_like(x)
    tx, ty, tout = (torch.from_numpy(v.copy()) for v in (x, y, out))
    hx, hy, hout = (ex.allocate(n) for _ in range(3))
    hx.from_numpy(x)
    hy.from_numpy(y)
    small = ex.allocate(3)
    chain = hg.Program(CHAIN)
    names = {"x": x, "y": y}
    calls: dict[str, dict[str, Call]] = {}

    def add(
        name: str, hologram: Call, numpy: Call | None, eager: Call, compiled: Callable[..., Any], **more: Call
    ) -> None:
        fast = torch.compile(compiled, dynamic=False)
        libraries = {
            "hologram": hologram,
            "numpy": numpy,
            "torch": eager,
            "torch.compile": lambda: fast(tx, ty),
            **more,
        }
        calls[name] = {k: v for k, v in libraries.items() if v is not None}

    add(
        "add",
        lambda: hg.ops.vector_add(ex, hx, hy, hout),
        lambda: np.add(x, y, out=out),
        lambda: torch.add(tx, ty),
        lambda a, b: a + b,
        **{
            "torch out=": lambda: torch.add(tx, ty, out=tout),
            "numexpr": lambda: numexpr.evaluate("x + y", names, out=out),
        },
    )
    # The same with other operands: numpy's arrays, torch's tensors, and by a launch of the user's own program.
    own = hg.Program(ADD)
    peers = {k: v for k, v in calls["add"].items() if k != "hologram"}
    calls["add, arrays"] = {"hologram": lambda: hg.ops.vector_add(ex, x, y, out), **peers}
    calls["add, tensors"] = {"hologram": lambda: hg.ops.vector_add(ex, tx, ty, tout), **peers}
    calls["add, launch"] = {"hologram": lambda: ex.launch(own, a=hx, b=hy, c=hout), **peers}
    calls["buffer"] = {
        "hologram": lambda: ex.allocate(n).free(),
        "numpy": lambda: np.zeros(n, np.float32),
        "torch": lambda: torch.zeros(n),
    }
    add(
        "chain",
        lambda: ex.launch(chain, x=hx, y=hy, c=hout),
        lambda: np.maximum((x * y + x) * np.float32(0.5) - y, 0, out=out),
        lambda: torch.relu((tx * ty + tx) * 0.5 - ty),
        lambda a, b: torch.relu((a * b + a) * 0.5 - b),
        numexpr=lambda: numexpr.evaluate(
            "where((x*y + x)*0.5 - y > 0, (x*y + x)*0.5 - y, 0)", names, out=out, casting="unsafe"
        ),
    )
    add(
        "exp",
        lambda: hg.ops.vector_exp(ex, hx, hout),
        lambda: np.exp(x, out=out),
        lambda: torch.exp(tx),
        lambda a, b: torch.exp(a),
    )
    add(
        "sigmoid",
        lambda: hg.ops.sigmoid(ex, hx, hout),
        None,
        lambda: torch.sigmoid(tx),
        lambda a, b: torch.sigmoid(a),
    )
    gelu = torch.nn.functional.gelu
    add(
        "gelu",
        lambda: hg.ops.gelu(ex, hx, hout),
        None,
        lambda: gelu(tx, approximate="tanh"),
        lambda a, b: gelu(a, approximate="tanh"),
    )
    add(
        "softmax",
        lambda: hg.ops.softmax(ex, hx, hout),
        None,
        lambda: torch.softmax(tx, 0),
        lambda a, b: torch.softmax(a, 0),
    )
    add(
        "sum",
        lambda: hg.ops.reduce_sum(ex, hx, small),
        lambda: np.sum(x),
        lambda: torch.sum(tx),
        lambda a, b: torch.sum(a),
    )
    return calls


def product(
    m: int, n: int, k: int, ex: hg.Executor, dtype: str = "f4", ta: bool = False, tb: bool = False
) -> dict[str, Call]:
    """The product of an m × k matrix and a k × n one, which are stored transposed if ta, tb."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
    c = np.empty((m, n), dtype)
    na, nb = a.T if ta else a, b.T if tb else b
    xa, xb, xc = torch.from_numpy(na), torch.from_numpy(nb), torch.empty(m, n, dtype=torch.from_numpy(c).dtype)
    return {
        "hologram": lambda: hg.ops.gemm(ex, a, b, c, m, n, k, trans_a=ta, trans_b=tb),
        "numpy": lambda: np.matmul(na, nb, out=c),
        "torch": lambda: torch.mm(xa, xb),
        "torch out=": lambda: torch.mm(xa, xb, out=xc),
    }


def products(ex: hg.Executor) -> list[tuple[int, dict[str, dict[str, Call]]]]:
    """Matrix products: square ones by size, and those of layers by how many numbers a matrix of weights has."""
    plans = [(n, {"gemm": product(n, n, n, ex)}) for n in (64, 100, 256, 512, 1024, 2048, 4096)]
    plans += [(n, {"gemm f64": product(n, n, n, ex, "f8")}) for n in (64, 512, 1024)]
    for m, n, k in (256, 512, 784), (1, 4096, 4096), (32, 4096, 4096):
        plans.append((n * k, {f"linear, {m} rows": product(m, n, k, ex, tb=True)}))
    plans.append((1 << 24, {"matvec by columns": product(1, 4096, 4096, ex)}))
    return plans


class Cost(NamedTuple):
    """A row of the table of calls.

    Attributes:
        name: What is called.
        call: The call.
        base: The row that it is compared with, if any.
        bound: What the ratio to that row may be, or without unit "" the microseconds beyond that row, or without a row
            the microseconds.
        unit: "" for a ratio, else "µs".
    """

    name: str
    call: Call
    base: str | None = None
    bound: float | None = None
    unit: str = ""


def costs(ex: hg.Executor) -> list[Cost]:
    """Calls of so little work that the call itself is what they cost: 1,024 f32, 8×8 of them, and single ones."""
    n, ops = 1024, hg.ops
    x, y, out = (np.ones(n, np.float32) for _ in range(3))
    hx, hy, hout = (ex.from_numpy(v) for v in (x, y, out))
    tx, ty, tout = (torch.ones(n) for _ in range(3))
    one = [ex.from_numpy(np.ones(1, np.float32)) for _ in range(3)]
    result = ex.allocate(3)
    own = hg.Program(ADD)
    hg.ops.vector_add(x, y)  # makes the executor that calls without one run on
    square = np.ones((8, 8), np.float32)
    tensor = torch.ones(8, 8)
    least, left, plain = "vector_add, 1 element", "vector_add, arrays, result left", "reduce_sum of 8×8"
    return [
        Cost("torch.add(out=)", lambda: torch.add(tx, ty, out=tout)),
        Cost("numpy.add(out=)", lambda: np.add(x, y, out=out)),
        Cost("vector_add, Buffers", lambda: ops.vector_add(ex, hx, hy, hout), "torch.add(out=)", 1.4),
        Cost("vector_add, arrays", lambda: ops.vector_add(ex, x, y, out), "torch.add(out=)", 1.4),
        Cost("vector_add, tensors", lambda: ops.vector_add(ex, tx, ty, tout), "torch.add(out=)", 1.4),
        Cost("torch, x + y", lambda: tx + ty),
        Cost("numpy, x + y", lambda: x + y),
        Cost("vector_add, tensors, result left", lambda: ops.vector_add(ex, tx, ty), "torch, x + y", 1.6),
        Cost("vector_add, arrays, result left", lambda: ops.vector_add(ex, x, y), "numpy, x + y", 2.5),
        Cost("vector_add, Buffers, result left", lambda: ops.vector_add(ex, hx, hy)),
        Cost("the same of tensors, executor left too", lambda: ops.vector_add(tx, ty), "torch, x + y", 1.6),
        Cost("the same of arrays, executor left too", lambda: ops.vector_add(x, y), "numpy, x + y", 2.5),
        Cost("vector_add, arrays and a number", lambda: ops.vector_add(ex, x, 2.0), left, 2),
        Cost("vector_add, arrays, shapes broadcast", lambda: ops.vector_add(ex, square, square[0]), left, 2),
        Cost("vector_add, arrays, n", lambda: ops.vector_add(ex, x, y, n=1000), left, 2),
        Cost("vector_less, arrays", lambda: ops.vector_less(ex, x, y), left, 2),
        Cost("vector_less, tensors", lambda: ops.vector_less(ex, tx, ty), "vector_add, tensors, result left", 2),
        Cost("vector_less, Buffers", lambda: ops.vector_less(ex, hx, hy), "vector_add, Buffers, result left", 2),
        Cost("numpy.sum of 8×8, axis 0", lambda: np.sum(square, axis=0)),
        Cost(plain, lambda: ops.reduce_sum(ex, square)),
        Cost("reduce_sum of 8×8, axis 0", lambda: ops.reduce_sum(ex, square, axis=0), plain, 2),
        Cost("the same of a tensor", lambda: ops.reduce_sum(ex, tensor, axis=0), plain, 2.5),
        Cost("softmax of 8×8, axis 0", lambda: ops.softmax(ex, square, axis=0), plain, 2),
        Cost("launch, Buffers by name", lambda: ex.launch(own, a=hx, b=hy, c=hout), "vector_add, Buffers", 2),
        Cost("a Buffer made and freed", lambda: ex.allocate(n).free(), None, 1, "µs"),
        Cost(least, lambda: ops.vector_add(ex, *one)),
        Cost("reduce_sum, 1 element", lambda: ops.reduce_sum(ex, one[0], result), least, 2, "µs"),
        Cost("softmax, 1 element", lambda: ops.softmax(ex, one[0], one[2]), least, 2, "µs"),
        Cost("mse_loss, 1 element", lambda: ops.mse_loss(ex, one[0], one[1], result), least, 2, "µs"),
        Cost("gemm, 1 element", lambda: ops.gemm(ex, *one, 1, 1, 1), least, 2, "µs"),
    ]


def measure_costs(ex: hg.Executor, rounds: int = 40, times: int = 1000) -> list[dict[str, Any]]:
    """The table of calls: the seconds of a call, the thread's own and those that pass; and how they compare."""
    rows = costs(ex)
    thread: dict[str, list[float]] = {row.name: [] for row in rows}
    wall: dict[str, list[float]] = {row.name: [] for row in rows}
    for row in rows:
        for _ in range(100):
            row.call()
    for _ in range(rounds):
        for row in rows:
            call = row.call
            passed, own = time.perf_counter(), time.thread_time()
            for _ in range(times):
                call()
            thread[row.name].append((time.thread_time() - own) / times)
            wall[row.name].append((time.perf_counter() - passed) / times)
    found = []
    for row in rows:
        own, base = thread[row.name], thread[row.base] if row.base else [0.0] * rounds
        figures = [(a - b) * 1e6 if row.unit else a / b for a, b in zip(own, base)] if row.bound is not None else []
        found.append(
            {
                "call": row.name,
                "thread_seconds": statistics.median(own),
                "seconds": statistics.median(wall[row.name]),
                "base": row.base,
                "unit": row.unit,
                "figure": statistics.median(figures) if figures else None,
                "bound": row.bound,
            }
        )
    return found


def costs_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| call | thread's µs | µs | compared | bound | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        compared = bound = verdict = ""
        if row["bound"] is not None:
            unit = " µs" if row["unit"] else ""
            of = (" beyond " if unit else " of ") + row["base"] if row["base"] else ""
            compared, bound = f"{row['figure']:.2f}{unit}{of}", f"≤ {row['bound']:g}{unit}"
            verdict = "met" if row["figure"] <= row["bound"] else "MISSED"
        times = f"{row['thread_seconds'] * 1e6:.2f} | {row['seconds'] * 1e6:.2f}"
        lines.append(f"| {row['call']} | {times} | {compared} | {bound} | {verdict} |")
    return "\n".join(lines) + "\n"


def seconds(call: Call, budget: float) -> float:
    """The time of one call, from as many as fit about budget seconds."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    times = max(1, min(10_000, int(budget / max(once, 1e-7))))
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def measure(calls: dict[str, Call], rounds: int, budget: float) -> dict[str, float]:
    """The median time of a call in seconds, for each library; they take turns."""
    for call in calls.values():
        call()
        call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(seconds(call, budget))
    return {name: statistics.median(t) for name, t in taken.items()}


def machine() -> dict[str, Any]:
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model = next(
            (line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line),
            model,
        )
    versions = {
        "hologram": hg.__version__,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "numexpr": metadata.version("numexpr"),
    }
    return {
        "cpu": model,
        "system": platform.system(),
        "threads": THREADS,
        "python": platform.python_version(),
        "versions": versions,
    }


def table(rows: list[dict[str, Any]], calls: list[dict[str, Any]], about: dict[str, Any]) -> str:
    libraries = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    lines = [
        "# Hologram on the CPU",
        "",
        "Time of a call as a ratio to numpy's (*: to torch's): below 1 is faster. Written by `./build.sh bench cpu`.",
        "",
        f"{about['cpu']}, {about['threads']} threads each, Python {about['python']}, "
        + ", ".join(f"{k} {v}" for k, v in about["versions"].items())
        + "; f32; medians of interleaved rounds.",
        "",
        "| workload | n | " + " | ".join(libraries) + " |",
        "|---|---|" + "---|" * len(libraries),
    ]
    for row in rows:
        base = "numpy" if "numpy" in row["seconds"] else "torch"
        cells = [f"{row['seconds'][k] / row['seconds'][base]:.2f}" if k in row["seconds"] else "" for k in libraries]
        lines.append(
            f"| {row['workload']}{'' if base == 'numpy' else '*'} | {row['n']:,} | " + " | ".join(cells) + " |"
        )
    lines += [
        "",
        "## Calls",
        "",
        "What a call of little work costs: 1,024 f32, 8×8 of them, and single ones, in processor time of the calling",
        "thread and in time that passes; ratios are of the former.",
        "",
    ]
    return "\n".join(lines) + "\n" + costs_table(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare Hologram on the CPU with numpy, torch and numexpr.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.05, help="seconds a library has in a round")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1 << 10, 1 << 15, 1 << 20, 1 << 24])
    parser.add_argument("--calls", action="store_true", help="only what a call costs; nothing is written")
    args = parser.parse_args()
    torch.set_num_threads(THREADS)
    ex = hg.Executor("cpu")
    calls = measure_costs(ex)
    print(costs_table(calls))
    if args.calls:
        return
    rows = []
    plans = [(n, workloads(n, ex)) for n in args.sizes] + products(ex)
    for n, plan in plans:
        for name, libraries in plan.items():
            row = {"workload": name, "n": n, "seconds": measure(libraries, args.rounds, args.budget)}
            rows.append(row)
            print(
                f"{name:12} {n:>10,} " + "  ".join(f"{k} {v * 1e6:.2f} µs" for k, v in row["seconds"].items()),
                file=sys.stderr,
            )
    about = machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cpu.json").write_text(json.dumps({"machine": about, "rows": rows, "calls": calls}, indent=1) + "\n")
    (RESULTS / "cpu.md").write_text(table(rows, calls, about))
    print(f"wrote {RESULTS / 'cpu.json'} and cpu.md")


if __name__ == "__main__":
    main()
