"""Compare Hologram on an NVIDIA GPU with its own bits on the CPU, and with torch, all in one run.

    ./build.sh bench cuda            writes benchmarks/results/cuda.json and cuda.md

It first runs every operation of the library on every dtype on both devices: what differs by a bit ends the run. Then
it times calls, by turns with torch: what a call on 1,024 elements costs the host, which goes on while the GPU works,
and how many bytes a second a call on arrays of 512 MB moves. Last comes what the first executor of a process costs.
Where there is a built package but no Go, run it as "python benchmarks/cuda.py".
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import creation
import numpy as np
import torch

import hologram as hg
from hologram._ffi import native

RESULTS = Path(__file__).parent / "results"
Call = Callable[[], Any]

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0)


def numbers(dtype: str, n: int, seed: int, tame: bool) -> np.ndarray[Any, Any]:
    """Random elements over the dtype's range, floats with special values among them unless they are to be tame."""
    rng = np.random.default_rng(seed)
    kind = hg.Executor("cpu").allocate(1, dtype).dtype
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
    if a.dtype.kind in "iu":
        return a.tobytes() == b.tobytes()
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
        native.call(ex, op["number"], None, handles, scalars, dims or None, None, None, 0, None, None, None)
        ex.synchronize()
    except hg.ProgramFault as error:
        fault = error.kind
    return [fault, *(b.to_numpy() for b, o in zip(buffers, op["operands"]) if o["writes"])]


def bits(gpu: hg.Executor, cpu: hg.Executor) -> int:
    """Run every operation on every dtype on both; return how many cases have the same bits."""
    cases, wrong = 0, []
    for op in json.loads(native.ops()):
        if any(o["kind"] == "index" and not o["writes"] for o in op["operands"]):
            continue  # random numbers are no indices; test_reductions.py has these operations
        for dtype in op["types"]:
            for dims in SIZES[tuple(op["dims"])]:
                here, there = run(cpu, op, dtype, dims), run(gpu, op, dtype, dims)
                cases += 1
                if here[0] != there[0] or not all(same(a, b) for a, b in zip(here[1:], there[1:])):
                    wrong.append(f"{op['name']} {dtype} {dims}")
    if wrong:
        sys.exit(f"{len(wrong)} of {cases} cases differ between {gpu.device} and the CPU: " + "; ".join(wrong[:20]))
    return cases


def measure(calls: dict[str, Call], wait: Call, count: int, rounds: int) -> dict[str, float]:
    """The seconds of a call, from rounds of count calls by turns.

    Of many calls it is the time until they have returned, in the best round; of few until their work is done, in the
    median one.
    """
    for call in calls.values():
        call()
    wait()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            wait()
            start = time.perf_counter()
            for _ in range(count):
                call()
            if count < 100:
                torch.cuda.synchronize()
                wait()
            taken[name].append((time.perf_counter() - start) / count)
    return {name: min(t) if count >= 100 else statistics.median(t) for name, t in taken.items()}


class Workload(NamedTuple):
    """What is timed: by library a call, and how many bytes it has to move, each input and output once.

    Of a product work is how many multiplications and additions it has.
    """

    name: str
    dtype: str
    n: int
    moved: int
    calls: dict[str, Call]
    work: int = 0


TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}


def small(gpu: hg.Executor) -> Iterator[Workload]:
    """Calls on 1,024 f32, of which the host's time counts."""
    f, n = hg.ops, 1 << 10
    hx, hy, hc = (gpu.allocate(n) for _ in range(3))
    x, y, c = (torch.ones(n, device="cuda") for _ in range(3))
    matrix = x.view(-1, 256)
    for name, calls in {
        "add": {
            "torch": lambda: torch.add(x, y, out=c),
            "hologram": lambda: f.vector_add(gpu, hx, hy, hc),
            "hologram, tensors": lambda: f.vector_add(gpu, x, y, c),
        },
        "relu": {
            "torch": lambda: torch.relu(x),
            "hologram": lambda: f.vector_relu(gpu, hx, hc),
            "hologram, tensors": lambda: f.vector_relu(gpu, x, c),
        },
        "exp": {
            "torch": lambda: torch.exp(x, out=c),
            "hologram": lambda: f.vector_exp(gpu, hx, hc),
            "hologram, tensors": lambda: f.vector_exp(gpu, x, c),
        },
        "softmax, rows of 256": {
            "torch": lambda: torch.softmax(matrix, 1),
            "hologram": lambda: f.softmax_rows(gpu, hx, hc, n // 256, 256),
            "hologram, tensors": lambda: f.softmax_rows(gpu, x, c, n // 256, 256),
        },
    }.items():
        yield Workload(name, "f32", n, 0, calls)


def elementwise(gpu: hg.Executor, dtype: str) -> Iterator[Workload]:
    """Operations by element, and whole sums, on 512 MB an array."""
    f, size = hg.ops, TORCH[dtype].itemsize
    n = (1 << 29) // size
    hx, hy, hc = (gpu.allocate(n, dtype, zero=False) for _ in range(3))
    x, y = (torch.randn(n, device="cuda", dtype=TORCH[dtype]) for _ in range(2))
    c = torch.empty_like(x)
    f.copy(gpu, x, hx)
    f.copy(gpu, y, hy)
    both = {
        "add": (lambda: torch.add(x, y, out=c), lambda: f.vector_add(gpu, hx, hy, hc), 3),
        "copy": (lambda: c.copy_(x), lambda: f.copy(gpu, hx, hc), 2),
        "exp": (lambda: torch.exp(x, out=c), lambda: f.vector_exp(gpu, hx, hc), 2),
        "sigmoid": (lambda: torch.sigmoid(x, out=c), lambda: f.sigmoid(gpu, hx, hc), 2),
        "tanh": (lambda: torch.tanh(x, out=c), lambda: f.tanh(gpu, hx, hc), 2),
        "gelu": (lambda: torch.nn.functional.gelu(x, approximate="tanh"), lambda: f.gelu(gpu, hx, hc), 2),
        "sum": (lambda: torch.sum(x), lambda: f.reduce_sum_rows(gpu, hx, hc, 1, n), 1),
        "max": (lambda: torch.max(x), lambda: f.reduce_max_rows(gpu, hx, hc, 1, n), 1),
    }
    for name, (theirs, ours, arrays) in both.items():
        yield Workload(name, dtype, n, arrays * n * size, {"torch": theirs, "hologram": ours})
    for b in (hx, hy, hc):
        b.free()


def by_rows(gpu: hg.Executor, dtype: str) -> Iterator[Workload]:
    """Softmax and sums of the rows of a matrix of 512 MB."""
    f, size = hg.ops, TORCH[dtype].itemsize
    n = (1 << 29) // size
    hx, hc = (gpu.allocate(n, dtype, zero=False) for _ in range(2))
    x = torch.randn(n, device="cuda", dtype=TORCH[dtype])
    f.copy(gpu, x, hx)
    for cols in (64, 256, 1024, 4096, 16384, 32768, 262144):
        rows, m = n // cols, x.view(-1, cols)
        calls = {
            "torch": lambda m=m: torch.softmax(m, 1),
            "hologram": lambda rows=rows, cols=cols: f.softmax_rows(gpu, hx, hc, rows, cols),
        }
        yield Workload(f"softmax, rows of {cols:,}", dtype, n, 2 * n * size, calls)
        calls = {
            "torch": lambda m=m: torch.sum(m, 1),
            "hologram": lambda rows=rows, cols=cols: f.reduce_sum_rows(gpu, hx, hc, rows, cols),
        }
        yield Workload(f"sums of rows of {cols:,}", dtype, n, n * size, calls)
    hx.free()
    hc.free()


TABLE = "| workload | dtype | n | library | host time of a call, µs | TB/s; TFLOP/s of products | to torch |"
PRODUCTS = [(n, n, n) for n in (1024, 2048, 4096, 8192)] + [(100, 100, 100), (4096, 4096, 64), (64, 4096, 4096)]


def products(gpu: hg.Executor, cpu: hg.Executor, dtype: str) -> Iterator[Workload]:
    """Matrix products in all four layouts, of which some rows are compared with the CPU's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    rng = np.random.default_rng(0)
    for m, n, k in PRODUCTS if dtype == "f32" else PRODUCTS[1:3]:
        a, b = (rng.standard_normal(shape).astype(np.dtype(dtype.replace("f", "float"))) for shape in ((m, k), (k, n)))
        some = np.unique(rng.integers(0, m, 4))
        want = np.empty((len(some), n), a.dtype)
        hg.ops.gemm(cpu, np.ascontiguousarray(a[some]), b, want, len(some), n, k)
        theirs = torch.empty(m, n, device="cuda", dtype=TORCH[dtype])
        for trans_a, trans_b in itertools.product((False, True), repeat=2):
            x, y = (torch.from_numpy(v).cuda() for v in (a, b))
            hx, hy = x.T.contiguous() if trans_a else x, y.T.contiguous() if trans_b else y
            tx, ty = hx.T if trans_a else hx, hy.T if trans_b else hy
            hx, hy, hc = gpu.from_numpy(hx.cpu().numpy()), gpu.from_numpy(hy.cpu().numpy()), gpu.allocate(m * n, dtype)

            ours = functools.partial(hg.ops.gemm, gpu, hx, hy, hc, m, n, k, trans_a=trans_a, trans_b=trans_b)
            layout = f"{'t' if trans_a else 'n'}{'t' if trans_b else 'n'}"
            ours()
            if not same(hc.to_numpy().reshape(m, n)[some], want):
                sys.exit(f"product {dtype} {m}×{n}×{k} {layout}: rows differ between {gpu.device} and the CPU")
            calls: dict[str, Call] = {"torch": functools.partial(torch.mm, tx, ty, out=theirs), "hologram": ours}
            yield Workload(f"product {m}×{n}×{k} {layout}", dtype, m * n, 1, calls, 2 * m * n * k)
            for buffer in (hx, hy, hc):
                buffer.free()


def commit() -> str:
    """The commit of the tree, if there is one and git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare Hologram on an NVIDIA GPU with the CPU's bits and with torch."
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--only", help="time those workloads alone whose name and dtype this expression matches; no record"
    )
    parser.add_argument("--commit", help="what the package was built from; git's HEAD where there is one")
    args = parser.parse_args()
    gpu, cpu = hg.Executor("cuda"), hg.Executor("cpu")
    cases = 0
    if not args.only:
        cases = bits(gpu, cpu)
        print(f"{cases} cases have the same bits on {gpu.device} and on the CPU", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for workload in itertools.chain(
        *(products(gpu, cpu, dtype) for dtype in ("f32", "f64") if "product" in (args.only or "product")),
        small(gpu),
        *(f(gpu, dtype) for dtype in TORCH for f in (elementwise, by_rows) if f is elementwise or dtype != "f64"),
    ):
        if args.only and not re.search(args.only, f"{workload.name} {workload.dtype}"):
            continue
        seconds = measure(workload.calls, gpu.synchronize, 10 if workload.moved else 150, args.rounds)
        name, dtype, n, moved, _, work = workload
        rows.append({"workload": name, "dtype": dtype, "n": n, "moved": moved, "work": work, "seconds": seconds})
    about = {
        "device": gpu.device,
        "hologram": hg.__version__,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "commit": args.commit or commit(),
        "cases": cases,
    }
    lines = [
        "# Hologram on an NVIDIA GPU",
        "",
        f"{about['device']}, hologram {about['hologram']}, torch {about['torch']}, {about['date']}, commit "
        f"{about['commit'][:12]}. Written by `./build.sh bench cuda`.",
        "",
        f"The operations of the library gave the CPU's bits in all of {cases} cases (operation × dtype × sizes).",
        "",
        "TB/s count each input and output once. Ratios are of times: below 1 Hologram is the faster. Of products, of",
        "which some rows are compared with the CPU's too, the letters say which factor is stored transposed; torch's",
        "are cuBLAS's with TF32 off.",
        "",
        TABLE,
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for library, seconds in row["seconds"].items():
            host = "" if row["moved"] else f"{seconds * 1e6:.2f}"
            speed = f"{(row['work'] or row['moved']) / seconds / 1e12:.2f}" if row["moved"] else ""
            ratio = seconds / row["seconds"]["torch"]
            cells = (str(row["workload"]), str(row["dtype"]), f"{row['n']:,}", library, host, speed, f"{ratio:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
    if args.only:
        print("\n".join(lines[lines.index(TABLE) :]))
        return
    processes = 7
    lines += [
        "",
        "## The first executor of a process",
        "",
        f"Of {processes} processes, as `./build.sh bench creation` measures it. What the driver needs is above",
        "the executor's row in the first table.",
        *creation.measured("cuda", processes),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cuda.json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    (RESULTS / "cuda.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
