"""Two revisions of this repository beside each other: both built, and their calls timed by turns.

Long-lived processes run them, each one revision, and take turns slice by slice in an order that chance gives, so that a
slow moment of the machine hits all alike. ratios.py says what the times mean.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ratios import Times

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ROOT / "build" / "_against"  # Go looks into no folder whose name begins so
LONGEST = 1024  # of a path of a tree
CASES = Path(__file__).with_name("cases.py")


class Unbuilt(Exception):
    """A revision that isn't there, or can't be built here; the text says why."""


def commit_of(revision: str) -> str:
    """The full hash of a revision."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", revision + "^{commit}"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode:
        raise Unbuilt(f"{revision} is no commit of this clone")
    return found.stdout.strip()


def build(revision: str) -> Path:
    """Build a revision once; return its tree."""
    tree = BUILDS / commit_of(revision)
    if (tree / "built").exists():
        return tree
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = subprocess.Popen(["git", "archive", tree.name], cwd=ROOT, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(tree)], stdin=archive.stdout, check=True)
    if archive.wait():
        raise Unbuilt(f"git archive {tree.name} failed")
    done = subprocess.run([sys.executable, "hatch_build.py", "build"], cwd=tree, stdout=sys.stderr)
    if done.returncode:
        raise Unbuilt(f"{revision} can't be built here; its hatch_build.py ended with status {done.returncode}")
    (tree / "built").touch()
    return tree


class Worker:
    """A process that runs the calls of the package in a tree."""

    def __init__(self, tree: Path, sizes: Sequence[int]) -> None:
        path = str(tree / "python")
        # The stack lies below the environment, so that this is equally long for all.
        fill = "x" * (LONGEST - len(path))
        self.process = subprocess.Popen(
            [sys.executable, str(CASES), *map(str, sizes)],
            env={**os.environ, "PYTHONPATH": path, "HOLOGRAM_BENCH_FILL": fill},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def names(self) -> list[str]:
        """The names of its cases; to be asked for first, and once."""
        names = self._answer()
        assert isinstance(names, list)
        return names

    def _answer(self) -> object:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a process that measures ended with status {self.process.wait()}")
        return json.loads(line)

    def seconds(self, name: str, times: int) -> float | str:
        """The time of one call of a case, from so many (0: roughly), or why this revision has none."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{times} {name}\n")
        self.process.stdin.flush()
        found = self._answer()
        assert isinstance(found, (float, str))
        return found

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(
    trees: Sequence[Path],
    sizes: Sequence[int],
    wanted: Callable[[str], bool],
    rounds: int,
    budget: float,
    until: float = math.inf,
) -> dict[str, Times]:
    """The times of a generation of processes, one for each of the trees: by case, those of each.

    budget is the seconds that a process has in a round. Cases whose turn has not come at the time until, by
    time.monotonic, are left out.
    """
    workers = [Worker(tree, sizes) for tree in trees]
    try:
        every = [worker.names() for worker in workers]
        names = [n for n in every[-1] if wanted(n) and all(n in others for others in every)]
        random.shuffle(names)
        taken: dict[str, Times] = {}
        for i, name in enumerate(names):
            if time.monotonic() > until:
                break
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{len(names)} {name:60}", end="", file=sys.stderr)
            if (times := by_turns(workers, name, rounds, budget)) is not None:
                taken[name] = times
        if sys.stderr.isatty():
            print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
        return {name: taken[name] for name in every[-1] if name in taken}
    finally:
        for worker in workers:
            worker.close()


def by_turns(workers: Sequence[Worker], name: str, rounds: int, budget: float) -> Times | None:
    """The times of a case, by worker; None where one of the revisions has it otherwise."""
    about = [worker.seconds(name, 0) for worker in workers]
    known = [a for a in about if not isinstance(a, str)]
    if len(known) < len(about):
        return None
    count = max(1, int(budget / min(known)))  # the same in all
    times: list[list[float]] = [[] for _ in workers]
    for _ in range(rounds):
        for k in random.sample(range(len(workers)), len(workers)):
            found = workers[k].seconds(name, count)
            assert isinstance(found, float)
            times[k].append(found)
    return times
