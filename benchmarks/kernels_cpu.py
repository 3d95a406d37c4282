"""The kernels of examples/kernels.py against torch.compile, torch and numexpr, on the CPU, in one run.

    ./build.sh bench kernels                 writes benchmarks/results/kernels.json and kernels.md
    ./build.sh bench kernels --quick         three sizes, few rounds; writes with --write
    ./build.sh bench kernels --only 'gelu|chain' --threads 1 --sizes 1024 1048576

Each kernel runs on the same f32 arrays in every library, which is first checked to compute the same. They write to
arrays that exist before, and beside that have their natural form, which makes its results anew. All forms take turns,
round after round, each with a call before those that are timed, or it would pay for what the form before it left in the
caches. The least time of each counts; with one thread processor time, which other processes disturb less than the time
that passes. "speed" is that of Hologram's call with out= as a multiple of the fastest of *all* forms of the others;
"anew" compares the forms that make their results.

kernel_peers.py runs them, in a process for each number of threads, and tells what the others are given to do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from limits import commit

MOST_THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
RESULTS = Path(__file__).parent / "results"
WORKER = Path(__file__).with_name("kernel_peers.py")
SIZES = [1 << k for k in (10, 14, 17, 20, 24)]
QUICK_SIZES = [1 << k for k in (10, 17, 20)]
ANEW = ", anew"  # ends the names of the forms that make their results
BAR = 1.0  # what the project set itself, for every kernel and size


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare kernels of Python functions with torch.compile and numexpr.")
    parser.add_argument("--quick", action="store_true", help="three sizes and few rounds; nothing is written")
    parser.add_argument("--write", action="store_true", help="with --quick: write the record too")
    parser.add_argument("--only", default="", help="a regular expression that the names of the kernels match")
    parser.add_argument("--sizes", type=int, nargs="+", help="elements")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, MOST_THREADS}))
    parser.add_argument("--rounds", type=int, help="9 without it, 4 with --quick: on a busy machine take more")
    parser.add_argument("--budget", type=float, default=0.004, help="seconds a form has in a round")
    return parser.parse_args()


def measure(threads: int, options: dict[str, Any]) -> dict[str, Any]:
    """What the process with so many threads finds: the machine, what compiling takes, and the points.

    torch.compile's cache is a new one, so that it compiles.
    """
    names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "HOLOGRAM")
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, **{f"{k}_NUM_THREADS": str(threads) for k in names}}
        env["NUMEXPR_MAX_THREADS"] = str(threads)
        command = [sys.executable, str(WORKER), json.dumps({**options, "threads": threads})]
        found: dict[str, Any] = {}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                kind, value = json.loads(line)
                if kind == "row":
                    own = value["seconds"]["hologram"]
                    shown = f"{own * 1e6:10.2f} µs, peer {own * speed(value) * 1e6:.2f}"
                    print(f"{value['workload']:28} {value['n']:>10,} {speed(value):6.2f} {shown}", file=sys.stderr)
                found.setdefault(kind, []).append(value)
        if process.returncode:
            sys.exit(f"the process with {threads} threads ended with status {process.returncode}")
    return found


def speed(row: dict[str, Any]) -> float:
    """Hologram's speed with out= as a multiple of the fastest of all forms of the others."""
    taken: dict[str, float] = row["seconds"]
    return min(t for name, t in taken.items() if not name.startswith("hologram")) / taken["hologram"]


def anew(row: dict[str, Any]) -> float:
    """Likewise of the forms that make their results."""
    taken = {name: t for name, t in row["seconds"].items() if name.endswith(ANEW)}
    return min(t for name, t in taken.items() if not name.startswith("hologram")) / taken["hologram" + ANEW]


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def milliseconds(seconds: float) -> str:
    """A time as a cell of a table, with three digits."""
    ms = seconds * 1e3
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.{2 if ms < 10 else 1}f}"


def microseconds(seconds: float) -> str:
    """Likewise, in µs."""
    us = seconds * 1e6
    return f"{us:,.0f}" if us >= 100 else f"{us:.{2 if us < 10 else 1}f}"


def report(rows: list[dict[str, Any]], compiling: list[dict[str, Any]], about: str) -> str:
    """The tables: by kernel, what compiling takes, and all points."""
    below = sum(speed(row) < BAR for row in rows)
    lines = [
        "# Kernels of Python functions on the CPU",
        "",
        "The kernels of [examples/kernels.py](../../examples/kernels.py). Hologram's speed with `out=` as a multiple of"
        " the fastest of all forms of torch.compile, torch and numexpr: above 1 is faster than all of them. "
        '"anew" is the same of the forms that make their results. [kernel_peers.py](../kernel_peers.py) tells what'
        " the others run.",
        "",
        "Means are geometric. What would take seconds in all rounds has fewer of them, which other processes on the"
        " machine may have disturbed.",
        "",
        about,
        "",
        f"Mean of all {len(rows)} points: {mean([speed(row) for row in rows]):.2f}; {below} of them are below {BAR:g}.",
        "",
    ]
    sizes = sorted({row["n"] for row in rows})
    lines += ["| kernel | mean | " + " | ".join(f"{n:,}" for n in sizes) + " |", "|---|---|" + "---|" * len(sizes)]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = {row["n"]: speed(row) for row in rows if row["workload"] == workload}
        cells = [f"{own[n]:.2f}" if n in own else "" for n in sizes]
        lines.append(f"| {workload} | {mean(list(own.values())):.2f} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "What compiling takes, in ms: Hologram's first call on a few elements, from tracing the function to its machine"
        " code; torch.compile's first call with nothing in its cache; making numexpr's expressions.",
        "",
        "| kernel | instructions | hologram | torch.compile | numexpr |",
        "|---|---|---|---|---|",
    ]
    for row in compiling:
        cells = [milliseconds(row[k]) if k in row else "" for k in ("hologram", "torch.compile", "numexpr")]
        lines.append(f"| {row['kernel']} | {row['instructions']} | " + " | ".join(cells) + " |")
    forms = list(dict.fromkeys(name for row in rows for name in row["seconds"]))
    lines += ["", "Times in µs:", "", "| kernel | n | speed | anew | " + " | ".join(forms) + " |"]
    lines.append("|---|---|---|---|" + "---|" * len(forms))
    for row in rows:
        taken = row["seconds"]
        cells = [microseconds(taken[name]) if name in taken else "" for name in forms]
        lines.append(f"| {row['workload']} | {row['n']:,} | {speed(row):.2f} | {anew(row):.2f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def model() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())


def main() -> None:
    args = arguments()
    rounds = args.rounds or (4 if args.quick else 9)
    sizes = args.sizes or (QUICK_SIZES if args.quick else SIZES)
    options = {"sizes": sizes, "only": args.only, "rounds": rounds, "budget": args.budget}
    rows: list[dict[str, Any]] = []
    compiling: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for threads in args.threads:
        found = measure(threads, options)
        rows += found.get("row", [])
        compiling = compiling or found.get("compiling", [])
        versions = found["versions"][0]
    if not rows:
        sys.exit(f"no kernel is called {args.only}")
    command = "kernels" + " --quick --write" * args.quick + (f" --rounds {rounds}" if args.rounds else "")
    about = (
        f"{model()}, {' and '.join(map(str, args.threads))} threads each; with one in processor time; Python "
        f"{platform.python_version()}, {', '.join(f'{k} {v}' for k, v in versions.items())}; f32; the best of {rounds} "
        f"interleaved rounds. Written by `./build.sh bench {command}`."
    )
    text = report(rows, compiling, about)
    print(text)
    if args.only or args.sizes or (args.quick and not args.write):
        return
    record = {"about": about, "commit": commit(), "compiling": compiling, "rows": rows}
    (RESULTS / "kernels.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "kernels.md").write_text(text)


if __name__ == "__main__":
    main()
