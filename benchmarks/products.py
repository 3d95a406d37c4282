"""Compare the CPU's matrix products with torch's and numpy's, on squares, layers, thin shapes and random ones.

    ./build.sh bench products            writes benchmarks/results/products.json and products.md, in some 10 minutes
    ./build.sh bench products [--threads 1 2] [--types f32 f64 bf16 i8] [--only squares layers thin small random]
                              [--random 300] [--seed 8] [--seconds 0.4] [--shape M,N,K[,NT]] [--peers torch numpy]
                                       a part of it; with --only or --shape nothing is written, but by
                              [--record NAME]
                                       products-NAME.json and .md, the record of another machine

All three compute the same product of the same arrays into an array that is there, by turns, in rounds of some
milliseconds, until a shape has had its seconds. A library's time is that of its best round: the machine may be shared,
and what others do to it comes and goes within a run. With one thread it is the processor time of the process, else the
time that passes; then a library whose peer was before it rests first, until the peer's threads have stopped looking for
work, and begins with calls that do not count, for 20 milliseconds, until its own are awake and the processors, which
have rested too, at their speed: on a virtual machine a product of 64 MB takes twice its time at first, and five calls
to come down, where torch's threads never let them rest. A figure is a peer's time in ours: above 1 Hologram is faster.
Each number of threads has a process of its own, bound to as many processors: those of a virtual machine differ by half
at a time, and a library whose threads move has the mean of them. The random shapes are the same in every run: every
other one has sizes spread evenly over 1 … 2,048, the rest over their logarithms; A and B are stored as they stand or
transposed. Two types have to be asked for and have no figures of numpy: bf16, which it does not know, of torch's
tensors on both sides, and i8, whose products are i32, which numpy multiplies element by element; torch's are then
``torch._int_mm``, into a tensor of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HOLOGRAM_NUM_THREADS")
KINDS = ("squares", "layers", "thin", "small", "random")
LEAST_ROUNDS = 3
ROUND_SECONDS = 0.003
REST_SECONDS = 0.08  # torch's threads look for work for some 15 ms, on some machines for 50
WAKE_SECONDS = 0.02
OPENBLAS_TIMEOUT = "20"  # numpy's for 2^26 cycles and more, if they are not told another power of two


class Case(NamedTuple):
    """A product of an m × k matrix and a k × n one; layout says which of them is stored transposed: N, T for each."""

    kind: str
    m: int
    n: int
    k: int
    layout: str = "NN"

    @property
    def text(self) -> str:
        """The case as tables have it."""
        return f"{self.m}×{self.n}×{self.k} {self.layout}"


def shapes(kinds: list[str], count: int, seed: int) -> Iterator[Case]:
    if "squares" in kinds:
        yield from (Case("squares", n, n, n) for n in (64, 100, 128, 256, 512, 1024, 2048, 4096))
    if "layers" in kinds:  # as torch.nn.Linear has its weights: n × k
        yield from (Case("layers", *s, "NT") for s in ((256, 512, 784), (1, 4096, 4096), (32, 4096, 4096)))
    if "thin" in kinds:
        yield from (Case("thin", m, 4096, 4096, layout) for m in (1, 2, 4, 8) for layout in ("NN", "NT"))
        yield from (Case("thin", m, 512, 512, layout) for m in (1, 2, 4, 8) for layout in ("NN", "NT"))
        yield from (Case("thin", m, 1, m, layout) for m in (512, 4096) for layout in ("NN", "TN"))
        yield from (Case("thin", 1, 1, k) for k in (512, 4096, 1 << 20))
    if "small" in kinds:
        yield from (Case("small", n, n, n) for n in (4, 8, 16, 24, 32, 48))
    if "random" in kinds:
        rng = random.Random(seed)
        for i in range(count):
            sizes = [rng.randint(1, 2048) if i % 2 else int(2048 ** rng.random()) for _ in range(3)]
            yield Case("random", sizes[0], sizes[1], sizes[2], rng.choice("NT") + rng.choice("NT"))


# ---- a process: one number of threads -----------------------------------------------------------------------------


def integer_calls(case: Case) -> dict[str, Callable[[], Any]]:
    import numpy as np
    import torch

    import hologram as hg

    m, n, k = case.m, case.n, case.k
    ta, tb = (letter == "T" for letter in case.layout)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, s, np.int8) for s in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
    ours = np.empty((m, n), np.int32)
    xa, xb = (torch.from_numpy(x.T if t else x) for x, t in ((a, ta), (b, tb)))
    found = {
        "hologram": lambda: hg.ops.gemm(a, b, ours, m, n, k, trans_a=ta, trans_b=tb),
        "torch": lambda: torch._int_mm(xa, xb),
    }
    theirs = found["torch"]()
    found["hologram"]()
    if not np.array_equal(ours, theirs.numpy()):
        raise SystemExit(f"{case.text} i8: the products differ")
    return found


def calls(case: Case, dtype: str) -> dict[str, Callable[[], Any]]:
    import numpy as np
    import torch

    import hologram as hg

    m, n, k = case.m, case.n, case.k
    ta, tb = (letter == "T" for letter in case.layout)
    rng = np.random.default_rng(1)
    short = dtype == "bf16"
    kind = "f4" if short else dtype
    a, b = (rng.standard_normal(s).astype(kind) for s in ((k, m) if ta else (m, k), (n, k) if tb else (k, n)))
    ours, theirs = np.empty((m, n), kind), np.empty((m, n), kind)
    ta_, tb_, tc, xc = (torch.from_numpy(x) for x in (a, b, ours, theirs))
    if short:
        ta_, tb_, tc, xc = (x.to(torch.bfloat16) for x in (ta_, tb_, tc, xc))
        a, b, ours = ta_, tb_, tc
    xa, xb = ta_.T if ta else ta_, tb_.T if tb else tb_
    found = {
        "hologram": lambda: hg.ops.gemm(a, b, ours, m, n, k, trans_a=ta, trans_b=tb),
        "torch": lambda: torch.mm(xa, xb, out=xc),
    }
    if not short:
        na, nb = a.T if ta else a, b.T if tb else b
        found["numpy"] = lambda: np.matmul(na, nb, out=theirs)
    for call in found.values():
        call()
    found["hologram"]()
    eps = 2.0**-7 if short else float(np.finfo(kind).eps)
    bound = 4 * math.sqrt(k) * (1 if short else k) * eps
    if not torch.allclose(tc, xc, rtol=0, atol=bound):
        raise SystemExit(f"{case.text} {dtype}: the products differ by more than {bound:.1e}")
    return found


def measure(case: Case, dtype: str, threads: int, budget: float, peers: list[str]) -> dict[str, Any]:
    """The seconds of a call by each library, in its best round."""
    clock = time.process_time if threads == 1 else time.perf_counter
    found = integer_calls(case) if dtype == "i8" else calls(case, dtype)
    found = {name: call for name, call in found.items() if name == "hologram" or name in peers}

    def spent(call: Callable[[], Any], times: int) -> float:
        start = clock()
        for _ in range(times):
            call()
        return (clock() - start) / times

    times = {}
    for name, call in found.items():
        once = min(spent(call, 1) for _ in range(3))
        times[name] = max(1, min(5000, int(ROUND_SECONDS / max(once, 1e-7))))
    best, before = dict.fromkeys(found, math.inf), ""
    rounds, end = 0, time.perf_counter() + budget
    while rounds < LEAST_ROUNDS or time.perf_counter() < end:
        for name, call in found.items():
            if threads > 1:
                if before != "hologram":
                    time.sleep(REST_SECONDS)
                before = name
                awake = time.perf_counter() + WAKE_SECONDS
                call()
                while time.perf_counter() < awake:
                    call()
            best[name] = min(best[name], spent(call, times[name]))
        rounds += 1
    return {"rounds": rounds, "seconds": best}


def work(args: argparse.Namespace) -> None:
    """Measures all cases with one number of threads; a line of JSON each."""
    if hasattr(os, "sched_setaffinity"):  # before there are other threads, which inherit it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-args.worker :])
    import numpy as np
    import torch

    import hologram as hg

    threads = args.worker
    torch.set_num_threads(threads)
    hg.set_num_threads(threads)
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), model)
    versions = {"hologram": hg.__version__, "torch": torch.__version__, "numpy": np.__version__}
    print(json.dumps({"cpu": model, "python": platform.python_version(), "versions": versions}), flush=True)
    given = [Case("given", *map(int, s.split(",")[:3]), *s.split(",")[3:]) for s in args.shape]
    for dtype in args.types:
        for case in given or shapes(args.only or list(KINDS), args.random, args.seed):
            row = {"case": case, "type": dtype, "threads": threads}
            kind = {"f32": "f4", "f64": "f8"}.get(dtype, dtype)
            row.update(measure(case, kind, threads, args.seconds, args.peers))
            print(json.dumps(row), flush=True)


# ---- the whole ----------------------------------------------------------------------------------------------------


PEERS = ("torch", "numpy")


def speeds(row: dict[str, Any]) -> list[float]:
    """How much faster Hologram is than torch and, where that has the type, than numpy."""
    s = row["seconds"]
    return [s[peer] / s["hologram"] for peer in PEERS if peer in s]


def text(row: dict[str, Any]) -> str:
    m, n, k = row["case"].m, row["case"].n, row["case"].k
    flops = {name: 2e-9 * m * n * k / t for name, t in row["seconds"].items()}
    us = row["seconds"]["hologram"] * 1e6
    figures = [f"{flops[name]:.1f}" if name in flops else "–" for name in ("hologram", *PEERS)]
    ours = row["seconds"]["hologram"]
    ratios = [f"{row['seconds'][peer] / ours:.2f}" if peer in flops else "–" for peer in PEERS]
    return f"| {' | '.join([row['case'].text, f'{us:.1f}', *figures, *ratios])} |"


def summary(rows: list[dict[str, Any]]) -> str:
    """The figures of many shapes: geometric means, and the worst."""
    found = [speeds(row) for row in rows]
    parts = []
    for i, peer in enumerate(peer for peer in PEERS if peer in rows[0]["seconds"]):
        ratios = sorted(s[i] for s in found)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = sum(r < 0.85 for r in ratios)
        parts.append(f"{mean:.3f} of {peer}'s speed, {below} of {len(ratios)} below 0.85, the worst {ratios[0]:.2f}")
    return "; ".join(parts)


HEAD = "| m×n×k | µs | GFLOPS | torch | numpy | to torch | to numpy |\n|---|---|---|---|---|---|---|"


def load() -> str:
    return "/".join(f"{x:.1f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"


def page(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    lines = [
        "# Matrix products on the CPU",
        "",
        "Written by `./build.sh bench products`, which says how it measures. The last two columns are torch's and",
        "numpy's time in Hologram's: above 1 Hologram is faster. Layouts: T is stored transposed.",
        "",
        f"{about['cpu']}, Python {about['python']}, "
        + ", ".join(f"{k} {v}" for k, v in about["versions"].items())
        + ";",
        f"options: {about['options'] or 'none'}; load average (1/5/15 minutes) of {about['cpus']} CPUs",
        f"{about['load'][0]} before the run, {about['load'][1]} after it: with more than one thread, what others do",
        "counts in full.",
    ]
    for threads, dtype in sorted({(row["threads"], row["type"]) for row in rows}):
        these = [row for row in rows if (row["threads"], row["type"]) == (threads, dtype)]
        lines += ["", f"## {dtype}, {threads} thread{'s' if threads > 1 else ''}"]
        for kind in dict.fromkeys(row["case"].kind for row in these):
            some = [row for row in these if row["case"].kind == kind]
            lines += ["", f"**{kind}** ({len(some)}): {summary(some)}"]
            if kind == "random":
                some = sorted(some, key=lambda row: min(speeds(row)))[:10]
                lines[-1] += ". Those where the better peer is farthest ahead:"
            lines += ["", HEAD, *map(text, some)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the CPU's matrix products with torch's and numpy's.")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--types", nargs="*", default=["f32", "f64"], choices=["f32", "f64", "bf16", "i8"])
    parser.add_argument("--only", nargs="*", choices=KINDS)
    parser.add_argument("--shape", nargs="*", default=[], help="shapes of your own, as 100,200,300 or 100,200,300,NT")
    parser.add_argument("--random", type=int, default=300, help="how many random shapes")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each shape")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--record", metavar="NAME", help="write it as products-NAME: another machine's record")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args)
    about: dict[str, Any] = {}
    rows = []
    before = load()
    for threads in args.threads:
        command = [sys.executable, __file__, "--worker", str(threads), *sys.argv[1:]]
        env = {**os.environ, **{name: str(threads) for name in VARIABLES}, "OPENBLAS_THREAD_TIMEOUT": OPENBLAS_TIMEOUT}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            about = json.loads(child.stdout.readline() or "{}")
            for line in child.stdout:
                row = json.loads(line)
                row["case"] = Case(*row["case"])
                rows.append(row)
                print(f"{threads} {row['type']} {row['case'].kind} {text(row)}", file=sys.stderr)
        if child.returncode:
            raise SystemExit(f"the process with {threads} threads ended with status {child.returncode}")
    about.update(options=" ".join(sys.argv[1:]), cpus=os.cpu_count(), load=[before, load()])
    result = page(about, rows)
    print(result)
    if (args.only or args.shape) and not args.record:
        return None
    record = f"products-{args.record}" if args.record else "products"
    RESULTS.mkdir(exist_ok=True)
    listed = [{**row, "case": row["case"].text} for row in rows]
    one_a_line = ",\n".join(json.dumps(row) for row in listed)
    (RESULTS / f"{record}.json").write_text(f'{{"machine": {json.dumps(about)},\n"rows": [\n{one_a_line}\n]}}\n')
    (RESULTS / f"{record}.md").write_text(result)
    print(f"wrote {RESULTS / record}.json and {record}.md")
    return None


if __name__ == "__main__":
    main()
