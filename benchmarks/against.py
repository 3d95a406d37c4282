"""Compare the CPU's speed with that of another revision of this repository, operation by operation.

    ./build.sh bench --against REV [--only PATTERN] [--sizes N ...]

Both revisions are built, and every function of hologram.ops is timed in both: two processes run the other revision
and one runs this tree, by turns, round after round, so that a slow moment of the machine hits all three alike. The
ratio of this tree to the other revision is the median over the rounds, with its 95 % confidence interval; the ratio
between the two processes of the same code shows how far apart equal code comes out in this very run. A case whose
median is beyond 1.05 is measured once more, longer and in new processes; it is slower if then its whole interval lies
beyond 1.05 times what equal code showed, and the run ends with status 1.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build" / "_against"  # Go looks into no folder whose name begins so

LIMIT = 1.05
SIZES = (1 << 10, 1 << 15, 1 << 20)
DIMS = frozenset({"rows", "cols", "m", "n", "k"})
NUMBERS = {"scalar": 0.5, "value": 0.5, "min_val": -1.0, "max_val": 1.0}
NAMED = frozenset({"alpha", "beta", "trans_a", "trans_b", "axis", "keepdims"})  # left as they are


# ---- a worker: one revision's calls, timed when told --------------------------------------------------------------


def dims_of(names: list[str], n: int) -> list[dict[str, int]]:
    """The sizes to time a function at, whose sizes have these names, with matrices of about n elements."""
    side = math.isqrt(n)
    if "rows" in names:
        return [{"rows": n // cols, "cols": cols} for cols in (4, side, n)]
    if "k" in names:
        return [{"m": side, "n": side, "k": side}] if side <= 256 else []
    if "m" in names:
        return [{"m": side, "n": side}]
    return [{"n": n}]


def cases(sizes: list[int]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every function of hologram.ops on f32 buffers: the case's name, and the call."""
    import numpy as np

    import hologram as hg

    ex = hg.Executor("cpu")
    rng = np.random.default_rng(1)
    for n in sizes:
        inputs = [ex.from_numpy(rng.uniform(0.5, 2, n).astype(np.float32)) for _ in range(3)]
        output, places = ex.allocate(n), ex.allocate(n, "i64")
        for name in sorted(hg.ops.__all__):
            function = getattr(hg.ops, name)
            parameters = [p for p in inspect.signature(function).parameters if p != "ex"]
            arrays = [p for p in parameters if p not in DIMS and p not in NUMBERS and p not in NAMED]
            for dims in dims_of([p for p in parameters if p in DIMS], n):
                keywords: dict[str, Any] = {p: v for p, v in NUMBERS.items() if p in parameters}
                keywords.update(zip(arrays, [*inputs[: len(arrays) - 1], places if name.startswith("arg") else output]))
                size = " ".join(f"{k}={v:,}" for k, v in dims.items())
                yield f"{name} {size}", lambda f=function, k={**keywords, **dims}: f(ex, **k)


def seconds(call: Callable[[], Any], budget: float) -> float:
    """The time of a call, from as many as fit into about budget seconds."""
    start = time.perf_counter()
    call()
    times = max(1, min(10_000, int(budget / max(time.perf_counter() - start, 1e-7))))
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def work(sizes: list[int]) -> None:
    """Print the names of the cases, then answer each line "budget name" with the seconds of one call."""
    calls = dict(cases(sizes))
    print(json.dumps(list(calls)), flush=True)
    for line in sys.stdin:
        budget, name = line.rstrip("\n").split(" ", 1)
        print(seconds(calls[name], float(budget)), flush=True)


class Worker:
    """A process that runs the calls of the package in a tree."""

    def __init__(self, tree: Path, sizes: list[int]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *map(str, sizes)],
            env={**os.environ, "PYTHONPATH": str(tree / "python")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = json.loads(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a process that measures ended with status {self.process.wait()}")
        return line

    def seconds(self, name: str, budget: float) -> float:
        """The time of one call of a case."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{budget} {name}\n")
        self.process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# ---- what the times say -------------------------------------------------------------------------------------------


class Ratio(NamedTuple):
    """A ratio of times: the median over the rounds, and its 95 % confidence interval."""

    median: float
    low: float
    high: float


def ratio(of: list[float], to: list[float]) -> Ratio:
    """The ratio of times taken by turns.

    The interval needs no distribution: of n independent rounds, the median lies between the k-th smallest and the
    k-th largest value with a probability that the binomial distribution B(n, 1/2) gives.
    """
    values = sorted(a / b for a, b in zip(of, to))
    n = len(values)
    k, outside = 0, 0.0
    while k < n // 2:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 0.05:
            break
        k += 1
    k = max(k - 1, 0)
    return Ratio(statistics.median(values), values[k], values[n - 1 - k])


def slower(new: Ratio, same: Ratio) -> bool:
    """Whether this tree is slower beyond what equal code shows in the same run."""
    return new.low > LIMIT * max(1.0, same.high, 1 / same.low)


def measure(
    base: Path, sizes: list[int], wanted: Callable[[str], bool], rounds: int, generations: int, budget: float
) -> dict[str, tuple[Ratio, Ratio]]:
    """By case, the ratio of this tree to the base, and that of the base to itself.

    Processes differ by where their memory lies, so the rounds are spread over several generations of them.
    """
    taken: dict[str, list[list[float]]] = {}
    for generation in range(generations):
        workers = [Worker(tree, sizes) for tree in (base, base, ROOT)]
        names = [n for n in workers[2].names if n in workers[0].names and wanted(n)]
        missing = [n for n in workers[0].names if n not in workers[2].names]
        if missing:
            print("no longer there, not compared: " + "; ".join(missing), file=sys.stderr)
        for i, name in enumerate(names):
            if sys.stderr.isatty():
                print(f"\r{generation + 1}/{generations} {i + 1}/{len(names)} {name:60}", end="", file=sys.stderr)
            times = taken.setdefault(name, [[], [], []])
            for worker in workers:
                worker.seconds(name, 0)
            for _ in range(rounds):
                for i in random.sample(range(3), 3):
                    times[i].append(workers[i].seconds(name, budget))
        for worker in workers:
            worker.close()
    return {name: (ratio(new, old), ratio(again, old)) for name, (old, again, new) in taken.items()}


# ---- the command --------------------------------------------------------------------------------------------------


def build(revision: str) -> Path:
    """Build a revision of this repository once; return its tree."""
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", revision + "^{commit}"], cwd=ROOT, capture_output=True, text=True
    )
    if commit.returncode:
        sys.exit(f"{revision} is no revision of this repository: {commit.stderr.strip()}")
    tree = BUILDS / commit.stdout.strip()
    if (tree / "built").exists():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = subprocess.Popen(["git", "archive", tree.name], cwd=ROOT, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
    if archive.wait():
        sys.exit(f"git archive {tree.name} failed")
    subprocess.run([sys.executable, "hatch_build.py", "build"], cwd=tree, check=True)
    (tree / "built").touch()
    return tree


def row(name: str, new: Ratio, same: Ratio) -> str:
    """A case as a line of the table."""
    return f"{name:45} {new.median:6.3f} [{new.low:.3f}, {new.high:.3f}]   equal code {same.median:.3f}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare the CPU's speed with that of another revision.")
    parser.add_argument("revision", help="a commit, tag or branch of this repository")
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression that names must contain")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of elements")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of a generation of processes")
    parser.add_argument("--generations", type=int, default=2, help="how often the processes are started anew")
    parser.add_argument("--budget", type=float, default=0.004, help="seconds that a case has in a round")
    args = parser.parse_args()
    base = build(args.revision)
    pattern = re.compile(args.only)
    results = measure(base, args.sizes, lambda n: bool(pattern.search(n)), args.rounds, args.generations, args.budget)
    if not results:
        sys.exit(f"no case's name contains {args.only!r}")
    for name, (new, same) in results.items():
        print(row(name, new, same))
    mean = math.exp(statistics.fmean(math.log(new.median) for new, _ in results.values()))
    print(f"{len(results)} cases, geometric mean {mean:.3f} of {args.revision}'s time")
    suspects = {name for name, (new, _) in results.items() if new.median > LIMIT}
    if not suspects:
        return 0
    print(f"beyond {LIMIT}, measured again: {'; '.join(sorted(suspects))}")
    again = measure(base, args.sizes, suspects.__contains__, 2 * args.rounds, 2 * args.generations, 2 * args.budget)
    lost = {name: r for name, r in again.items() if slower(*r)}
    for name, r in lost.items():
        print("SLOWER  " + row(name, *r))
    return 1 if lost else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work([int(n) for n in sys.argv[2:]])
    else:
        sys.exit(main())
