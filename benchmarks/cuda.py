"""Compare Hologram on an NVIDIA GPU with its own bits on the CPU, and with torch, all in one run.

    ./build.sh bench cuda            writes benchmarks/results/cuda.json and cuda.md

It first runs every operation of the library on every dtype on both devices: what differs by a bit ends the run. Then
it times calls, by turns with torch: what a call on 1,024 elements costs the host, which goes on while the GPU works,
and how many bytes a second a call on arrays of 512 MB moves. Last comes what the first executor of a process costs.
Where there is a built package but no Go, run it as "python benchmarks/cuda.py".

All that is done in pieces, and each is kept in cuda.part.json when it is done. A run ends when its --seconds are over,
with status 3; called again, it goes on. When all pieces are there, the record is written, and cuda.part.json removed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
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

import bits
import creation
import numpy as np
import torch
from pieces import Kept, Piece, go_on

import hologram as hg
from hologram import _ffi

RESULTS = Path(__file__).parent / "results"
Call = Callable[[], Any]


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


def calls(gpu: hg.Executor) -> Iterator[Workload]:
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


def products(gpu: hg.Executor, cpu: hg.Executor, dtype: str, m: int, n: int, k: int) -> Iterator[Workload]:
    """A matrix product in all four layouts, of which some rows are compared with the CPU's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.dtype(dtype.replace("f", "float"))) for shape in ((m, k), (k, n)))
    some = np.unique(rng.integers(0, m, 4))
    want = np.empty((len(some), n), a.dtype)
    hg.ops.gemm(cpu, np.ascontiguousarray(a[some]), b, want, len(some), n, k)
    theirs = torch.empty(m, n, device="cuda", dtype=TORCH[dtype])
    x, y = (torch.from_numpy(v).cuda() for v in (a, b))
    for trans_a, trans_b in itertools.product((False, True), repeat=2):
        sx, sy = x.T.contiguous() if trans_a else x, y.T.contiguous() if trans_b else y  # as they are stored
        tx, ty = sx.T if trans_a else sx, sy.T if trans_b else sy
        hx, hy, hc = (gpu.allocate(size, dtype, zero=False) for size in (m * k, k * n, m * n))
        hg.ops.copy(gpu, sx.view(-1), hx)
        hg.ops.copy(gpu, sy.view(-1), hy)
        ours = functools.partial(hg.ops.gemm, gpu, hx, hy, hc, m, n, k, trans_a=trans_a, trans_b=trans_b)
        layout = f"{'t' if trans_a else 'n'}{'t' if trans_b else 'n'}"
        ours()
        if not bits.same(hc.to_numpy().reshape(m, n)[some], want):
            sys.exit(f"product {dtype} {m}×{n}×{k} {layout}: rows differ between {gpu.device} and the CPU")
        both: dict[str, Call] = {"torch": functools.partial(torch.mm, tx, ty, out=theirs), "hologram": ours}
        yield Workload(f"product {m}×{n}×{k} {layout}", dtype, m * n, 1, both, 2 * m * n * k)
        for buffer in (hx, hy, hc):
            buffer.free()


STAGES = ("bits", "products", "calls", "elementwise", "rows", "creation")
PROCESSES = 7  # of each kind, for what the first executor costs


class Benchmark:
    """All that is measured, as pieces."""

    def __init__(self, rounds: int, only: str | None = None) -> None:
        self.gpu, self.cpu = hg.Executor("cuda"), hg.Executor("cpu")
        self.rounds, self.only = rounds, only

    def timed(self, workloads: Callable[..., Iterator[Workload]], *args: Any) -> list[dict[str, Any]]:
        """Time workloads, or those of them that are asked for."""
        rows = []
        for workload in workloads(self.gpu, *args):
            name, dtype, n, moved, calls, work = workload
            if self.only and not re.search(self.only, f"{name} {dtype}"):
                continue
            seconds = measure(calls, self.gpu.synchronize, 10 if moved else 150, self.rounds)
            rows.append({"workload": name, "dtype": dtype, "n": n, "moved": moved, "work": work, "seconds": seconds})
        return rows

    def pieces(self) -> list[Piece]:
        """The pieces of all stages, in their order."""
        every: list[Piece] = []

        def rows(stage: str, name: str, *args: Any) -> None:
            every.append(Piece(stage, f"{stage} {name}".strip(), functools.partial(self.timed, *args)))

        compare = bits.Compare("cuda")
        for op in json.loads(_ffi.native.ops()):
            every.append(Piece("bits", f"bits {op['name']}", functools.partial(compared, compare, op), timed=False))
        for dtype, sizes in (("f32", PRODUCTS), ("f64", PRODUCTS[1:3])):
            for m, n, k in sizes:
                rows("products", f"{dtype} {m}×{n}×{k}", products, self.cpu, dtype, m, n, k)
        rows("calls", "", calls)
        for dtype in TORCH:
            rows("elementwise", dtype, elementwise, dtype)
        for dtype in ("f32", "bf16"):
            rows("rows", dtype, by_rows, dtype)
        every.append(Piece("creation", "creation", functools.partial(creation.measured, "cuda", PROCESSES)))
        return every


def compared(compare: bits.Compare, op: dict[str, Any]) -> int:
    """Compare an operation's bits; return how many cases it has."""
    count, wrong = len(list(bits.cases(op))), compare(op)
    if wrong:
        raise ArithmeticError(f"{len(wrong)} of {count} cases differ from the CPU's: " + "; ".join(wrong[:20]))
    return count


def commit() -> str:
    """The commit of the tree, if there is one and git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=RESULTS.parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def about(gpu: hg.Executor, of: str | None) -> dict[str, str]:
    """What is measured."""
    return {
        "device": gpu.device,
        "hologram": hg.__version__,
        "library": hashlib.sha256(Path(_ffi.path).read_bytes()).hexdigest(),
        "torch": torch.__version__,
        "commit": of or commit(),
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each library of each workload."""
    lines = [TABLE, "|---|---|---|---|---|---|---|"]
    for row in rows:
        for library, seconds in row["seconds"].items():
            host = "" if row["moved"] else f"{seconds * 1e6:.2f}"
            speed = f"{(row['work'] or row['moved']) / seconds / 1e12:.2f}" if row["moved"] else ""
            ratio = seconds / row["seconds"]["torch"]
            cells = (str(row["workload"]), str(row["dtype"]), f"{row['n']:,}", library, host, speed, f"{ratio:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def timed_rows(kept: Kept, pieces: list[Piece]) -> list[dict[str, Any]]:
    """The rows that those of some pieces have that are done."""
    return [row for p in pieces if p.stage not in ("bits", "creation") for row in kept.results.get(p.name, ())]


def write(to: Path, kept: Kept, pieces: list[Piece]) -> None:
    """Write the record of all pieces."""
    machine = {**kept.about, "date": time.strftime("%Y-%m-%d")}
    cases = sum(kept.results[p.name] for p in pieces if p.stage == "bits")
    rows = timed_rows(kept, pieces)
    lines = [
        "# Hologram on an NVIDIA GPU",
        "",
        f"{machine['device']}, hologram {machine['hologram']}, torch {machine['torch']}, {machine['date']}, commit "
        f"{machine['commit'][:12]}. Written by `./build.sh bench cuda`.",
        "",
        f"The operations of the library gave the CPU's bits in all of {cases} cases (operation × dtype × sizes).",
        "",
        "TB/s count each input and output once. Ratios are of times: below 1 Hologram is the faster. Of products, of",
        "which some rows are compared with the CPU's too, the letters say which factor is stored transposed; torch's",
        "are cuBLAS's with TF32 off.",
        "",
        *table(rows),
        "",
        "## The first executor of a process",
        "",
        f"Of {PROCESSES} processes, as `./build.sh bench creation` measures it. What the driver needs is above",
        "the executor's row in the first table.",
        *kept.results["creation"],
    ]
    (to / "cuda.json").write_text(json.dumps({"machine": {**machine, "cases": cases}, "rows": rows}, indent=1) + "\n")
    (to / "cuda.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Compare Hologram on an NVIDIA GPU with the CPU's bits and with torch."
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--stage", action="append", choices=STAGES, help="do this one alone, or these (all)")
    parser.add_argument("--seconds", type=float, default=480, help="begin no piece after so many (480)")
    parser.add_argument(
        "--to", type=Path, default=RESULTS, help="where the record goes, and what there is of it so far"
    )
    parser.add_argument(
        "--only", help="time those workloads alone whose name and dtype this expression matches; nothing is kept"
    )
    parser.add_argument("--commit", help="what the package was built from; git's HEAD where there is one")
    args = parser.parse_args()
    benchmark = Benchmark(args.rounds, args.only)
    every = benchmark.pieces()
    chosen = [p for p in every if p.stage in (args.stage or STAGES)]
    if args.only:
        if not args.stage and "product" not in args.only:  # whose operands take long to make
            chosen = [p for p in chosen if p.stage != "products"]
        rows = [row for p in chosen if p.stage not in ("bits", "creation") for row in p.work()]
        print("\n".join(table(rows)))
        return 0
    args.to.mkdir(parents=True, exist_ok=True)
    kept = Kept(args.to / "cuda.part.json", about(benchmark.gpu, args.commit))
    go_on(kept, chosen, args.seconds)
    if missing := kept.missing(every):
        print("\n".join(table(timed_rows(kept, chosen))))
        print(f"{len(missing)} of {len(every)} pieces are missing: {missing[0].name} … Run again", file=sys.stderr)
        return 3
    write(args.to, kept, every)
    kept.file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
