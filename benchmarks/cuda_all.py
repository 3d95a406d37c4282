"""Compare Hologram on an NVIDIA GPU with its own bits on the CPU, and with torch and CuPy, all in one run.

    ./build.sh bench cuda            writes benchmarks/results/cuda.json and cuda.md

It first runs every operation of the library on every dtype on both devices: what differs by a bit ends the run. Then
it times calls, by turns with torch, torch.compile and CuPy (cuda_workloads.py): what a call on 1,024 elements costs the
host, which goes on while the GPU works, how many bytes a second calls on arrays of 512 MB move, products, and copies.
Last comes what the first executor of a process costs. The record ends with the bounds that the project set itself
(cuda_bounds.py), and README.md's sentence of it is written anew (readme_figures.py). Where there is a built package but
no Go, run it as "python benchmarks/cuda_all.py".

All that is done in pieces, and each is kept in cuda.part.json when it is done. A run ends when its --seconds are over,
with status 3; called again, it goes on. When all pieces are there, the record is written, and cuda.part.json removed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bits
import creation
import cuda_bounds
import cuda_workloads as workloads
import readme_figures
import torch
from cuda_workloads import Workload, measure
from pieces import Kept, Piece, go_on

import hologram as hg
from hologram import _ffi

RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = ("torch", "torch.compile", "cupy", "hologram", "hologram, tensors")

STAGES = ("bits", "calls", "elementwise", "rows", "products", "copies", "creation")
PROCESSES = 7  # of each kind, for what the first executor costs


class Benchmark:
    """All that is measured, as pieces."""

    def __init__(self, rounds: int, only: str | None = None) -> None:
        self.gpu, self.cpu = hg.Executor("cuda"), hg.Executor("cpu")
        self.rounds, self.only = rounds, only

    def timed(self, made: Callable[..., Iterator[Workload]], *args: Any) -> list[dict[str, Any]]:
        """Time workloads, or those of them that are asked for."""
        rows = []
        for workload in made(self.gpu, *args):
            name, dtype, n, calls, moved, work = workload
            if self.only and not re.search(self.only, f"{name} {dtype}"):
                continue
            seconds = measure(calls, self.gpu.synchronize, 10 if moved or work else 150, self.rounds)
            row = {"workload": name, "dtype": dtype, "n": n, "moved": moved, "work": work, "seconds": seconds}
            if refused := workloads.refused.get((name, dtype)):
                row["cupy"] = refused
            rows.append(row)
        return rows

    def pieces(self) -> list[Piece]:
        """The pieces of all stages, in their order."""
        every: list[Piece] = []

        def rows(stage: str, name: str, *args: Any) -> None:
            every.append(Piece(stage, f"{stage} {name}".strip(), functools.partial(self.timed, *args)))

        compare = bits.Compare("cuda")
        for op in json.loads(_ffi.native.ops()):
            every.append(Piece("bits", f"bits {op['name']}", functools.partial(compared, compare, op), timed=False))
        rows("calls", "", workloads.small)
        for dtype in ("f32", "bf16"):
            rows("elementwise", dtype, workloads.elementwise, dtype)
        for dtype in ("f32", "bf16"):
            for r, c in workloads.SHAPES:
                rows("rows", f"{dtype} {r}×{c}", workloads.by_rows, dtype, r, c)
        for m, n, k in workloads.PRODUCTS:
            rows("products", f"f32 {m}×{n}×{k}", workloads.products, self.cpu, m, n, k)
        rows("products", "bf16", workloads.halves, 4096)
        rows("copies", "", workloads.copies)
        every.append(Piece("creation", "creation", functools.partial(creation.taken, "cuda", PROCESSES)))
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
    """What is measured, and beside what; of CuPy, where it is missing, why."""
    return {
        "device": gpu.device,
        "hologram": hg.__version__,
        "library": hashlib.sha256(Path(_ffi.path).read_bytes()).hexdigest(),
        "torch": torch.__version__,
        "cupy": workloads.cupy.__version__ if workloads.cupy is not None else workloads.without_cupy,
        "commit": of or commit(),
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each workload: of calls on little microseconds, of large ones TB/s, of products TFLOP/s."""
    copies = cuda_bounds.copied(rows)
    libraries = [name for name in LIBRARIES if any(name in row["seconds"] for row in rows)]
    lines = [
        f"| workload | dtype | {' | '.join(libraries)} | | to torch | to the copy |",
        "|---" * (5 + len(libraries)) + "|",
    ]
    for row in rows:
        cells = [row["workload"], row["dtype"]]
        amount = row["work"] or row["moved"]
        for library in libraries:
            seconds = row["seconds"].get(library)
            cells.append("" if seconds is None else f"{amount / seconds / 1e12 if amount else seconds * 1e6:.2f}")
        cells.append("TFLOP/s" if row["work"] else "TB/s" if amount else "µs")
        cells.append(cuda_bounds.shown(cuda_bounds.to_torch(row)))
        beside = row["moved"] and row["dtype"] in copies and "copy to" not in row["workload"]
        cells.append(f"{cuda_bounds.to_copy(row, copies):.2f}" if beside else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def timed_rows(kept: Kept, pieces: list[Piece]) -> list[dict[str, Any]]:
    """The rows that those of some pieces have that are done."""
    return [row for p in pieces if p.stage not in ("bits", "creation") for row in kept.results.get(p.name, ())]


def so_far(kept: Kept, pieces: list[Piece]) -> list[tuple[str, list[cuda_bounds.Verdict]]]:
    """The bounds of what is measured."""
    taken = kept.results.get("creation")
    found = cuda_bounds.verdicts(timed_rows(kept, pieces), creation.medians(taken) if taken else {})
    return [(subject, each) for subject, each in found if each]


def write(to: Path, kept: Kept, pieces: list[Piece]) -> None:
    """Write the record of all pieces."""
    machine = {**kept.about, "date": time.strftime("%Y-%m-%d")}
    cases = sum(kept.results[p.name] for p in pieces if p.stage == "bits")
    rows = timed_rows(kept, pieces)
    taken = kept.results["creation"]
    found = cuda_bounds.verdicts(rows, creation.medians(taken))
    lines = [
        "# Hologram on an NVIDIA GPU",
        "",
        f"{machine['device']}, hologram {machine['hologram']}, torch {machine['torch']}, {machine['date']}, commit "
        f"{machine['commit'][:12]}. Written by `./build.sh bench cuda`.",
        "",
        cuda_bounds.of_cupy(machine["cupy"], rows),
        "",
        f"The operations of the library gave the CPU's bits in all of {cases} cases (operation × dtype × sizes).",
        "",
        "TB/s count each input and output once; µs are the host's of a call, which on buffers and on torch's tensors",
        "differ. Ratios are the time of the better of torch and torch.compile in Hologram's (on buffers): above 1",
        "Hologram is the faster. To the copy is of bytes a second, the fastest copy's of that dtype being 1. Letters",
        "of products say which factor is stored transposed; torch's are cuBLAS's with TF32 off, and rows of ours are",
        "compared with the CPU's, those of bf16 with the bound of their error.",
        "",
        *table(rows),
        "",
        "## The first executor of a process",
        "",
        f"Of {PROCESSES} processes, as `./build.sh bench creation` measures it. What the driver needs is above",
        "the executor's row in the first table.",
        *creation.tables(taken),
        "",
        "## Bounds",
        "",
        "What the project set itself; only what misses is listed by itself.",
        "",
        *cuda_bounds.lines(found),
    ]
    record = {"machine": {**machine, "cases": cases}, "rows": rows, "creation": taken}
    (to / "cuda.json").write_text(json.dumps(record, indent=1) + "\n")
    (to / "cuda.md").write_text("\n".join(lines) + "\n")
    if to.resolve() == RESULTS:
        readme_figures.write(record)
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
    try:
        benchmark = Benchmark(args.rounds, args.only)
    except hg.errors.BackendError as error:
        sys.exit(f"bench cuda: {error}")
    every = benchmark.pieces()
    chosen = [p for p in every if p.stage in (args.stage or STAGES)]
    if args.only:
        if not args.stage and "product" not in args.only:  # whose operands take long to make
            chosen = [p for p in chosen if p.stage != "products"]
        if not args.stage and "copy" not in args.only:
            chosen = [p for p in chosen if p.stage != "copies"]
        rows = [row for p in chosen if p.stage not in ("bits", "creation") for row in p.work()]
        print("\n".join(table(rows)))
        return 0
    args.to.mkdir(parents=True, exist_ok=True)
    kept = Kept(args.to / "cuda.part.json", about(benchmark.gpu, args.commit))
    go_on(kept, chosen, args.seconds)
    if missing := kept.missing(every):
        print("\n".join([*table(timed_rows(kept, chosen)), *cuda_bounds.lines(so_far(kept, chosen))]))
        print(f"{len(missing)} of {len(every)} pieces are missing: {missing[0].name} … Run again", file=sys.stderr)
        return 3
    write(args.to, kept, every)
    kept.file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
