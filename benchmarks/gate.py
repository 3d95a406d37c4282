"""Fail where this tree slows the CPU down: the short form of ./build.sh bench --against, which is a step of the tests.

    ./build.sh test speed

This tree is compared with the commit of the last record of operations (benchmarks/results/operations.json), not with
the last commit: losses must not add up unseen. Timed are the operations that the files changed since can touch, by one
thread, in half a minute or less. Where one comes out more than 4 % slower it is measured again, longer, in up to nine
generations of new processes, two for each revision, which show how far apart equal code comes out as well. The run
fails, with status 1, if the whole confidence interval of an operation lies beyond 1.05 times that. Where the machine is
too noisy to tell it says "not decided", and does not fail; nor does it where the commit isn't there, or can't be built.

Losses that are meant stand in benchmarks/results/accepted.json until operations are recorded anew: by case, the factor
that is granted, and why.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from against import CONFIRMING, row
from paired import ROOT, Unbuilt, Worker, build, commit_of, measure
from ratios import FINE, LIMIT, SLOWER, UNDECIDED, Comparison, Generation, compare, generation, mean
from touched import touched

RECORD = ROOT / "benchmarks" / "results" / "operations.json"
ACCEPTED = RECORD.with_name("accepted.json")
SIZES = (1 << 10, 1 << 15, 1 << 20)

SUSPECT = 1.04  # a tenth is seldom seen as less, and what is not slower seldom as more
MOST = 8  # suspects that are measured again beside each other, the slowest first
HANDED_ON = ("embedding_gradient",)  # another thread does the work; what waking that takes differs tenfold
FEW, CLEAR = 3, 0.015  # generations that are enough where their median is so far below the limit
ROUNDS, BUDGET = 12, 0.0006  # of screening
SCREENING, WITHIN = 32.0, 88.0  # seconds, at most: to screen before looking closer; in all
SOME = 15.0  # seconds in which it is worth while to screen


class Skipped(Exception):
    """Nothing can be compared; the text says why."""


def git(*arguments: str) -> str:
    """What git says."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise Skipped(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def recorded() -> str:
    """The commit of the last record: the one that it names, else the one that wrote it."""
    record = RECORD.relative_to(ROOT)
    named = json.loads(RECORD.read_text()).get("commit", "") if RECORD.exists() else ""
    if not named:
        if git("rev-parse", "--is-shallow-repository").strip() == "true":
            raise Skipped(f"{record} names no commit, and this clone is shallow")
        named = git("log", "-1", "--format=%H", "--", str(record)).strip()
    if not named:
        raise Skipped(f"{record} isn't there, so there is no commit to compare with")
    try:
        return commit_of(named)
    except Unbuilt as error:
        raise Skipped(f"the record's commit isn't there: {error}; a shallow clone has not all commits") from None


def changed(since: str) -> list[str]:
    """The files of the work tree that differ from a commit's, and those that git doesn't know yet."""
    listed = git("diff", "--name-only", "--no-renames", "-z", since) + git("ls-files", "-z", "-o", "--exclude-standard")
    return [name for name in listed.split("\0") if name]


def losses(commit: str) -> dict[str, float]:
    """Losses since a commit's record that are meant, by case: the factors."""
    if not ACCEPTED.exists():
        return {}
    meant = json.loads(ACCEPTED.read_text())
    if meant["since"] != commit:  # a later record has them
        return {}
    return {name: loss["factor"] for name, loss in meant["losses"].items()}


def operation(name: str) -> str:
    """The operation of a case."""
    return name.split()[0].rstrip(",")


def chosen(files: Sequence[str], names: Sequence[str]) -> set[str]:
    """The cases to time for a change of the files: those by one thread. Others' work disturbs several far more."""
    alone = [name for name in names if not name.endswith(" threads") and operation(name) not in HANDED_ON]
    wanted = touched(files, {operation(name) for name in alone})
    return {name for name in alone if operation(name) in wanted}


def pair(base: Path, wanted: Callable[[str], bool], rounds: int, budget: float, until: float) -> dict[str, Generation]:
    """A generation of processes: two of the base, two of this tree."""
    taken = measure([base, ROOT, base, ROOT], SIZES, wanted, rounds, budget, until)
    return {name: generation([a, c], [b, d]) for name, (a, b, c, d) in taken.items()}


def screen(base: Path, wanted: set[str], until: float) -> tuple[dict[str, Generation], set[str]]:
    """Look at cases briefly; what was measured, and those for which the time was too short."""
    found = pair(base, wanted.__contains__, ROUNDS, BUDGET, until)
    spread = sorted(max(same, 1 / same) for g in found.values() for same in g.same)
    if found:
        print(
            f"{len(found)} cases, geometric mean {mean([g.new for g in found.values()]):.3f}; equal code within "
            f"{100 * (spread[len(spread) * 9 // 10] - 1):.1f} % in nine of ten",
            flush=True,
        )
    left = wanted - found.keys()
    if time.monotonic() > until:
        return found, left
    if left:
        print(f"not compared, as one revision has them otherwise: {'; '.join(sorted(left))}")
    return found, set()


def settled(seen: Sequence[Generation], limit: float) -> bool:
    """Whether generations are enough: all that are wanted, or so many that it is plainly not slower."""
    return len(seen) == CONFIRMING or (len(seen) >= FEW and statistics.median(g.new for g in seen) < limit - CLEAR)


Pair = Callable[[Callable[[str], bool]], dict[str, Generation]]


def confirm(
    again: Pair, suspects: Sequence[str], until: float, accepted: dict[str, float], clock: Callable[[], float]
) -> tuple[dict[str, Comparison], list[str]]:
    """Measure suspects longer, some at a time; the comparisons, and those for which the time was too short.

    What is plainly not slower makes room for the next one early. again measures a generation.
    """
    waiting, seen, done = list(suspects), dict[str, list[Generation]](), dict[str, Comparison]()
    longest = 0.0
    while waiting or seen:
        while waiting and len(seen) < MOST:
            seen[waiting.pop(0)] = []
        start = clock()
        if start + longest > until:
            break
        for name, g in again(seen.__contains__).items():
            seen[name].append(g)
        longest = max(longest, clock() - start)
        for name in list(seen):
            limit = LIMIT * accepted.get(name, 1.0)
            if settled(seen[name], limit):
                done[name] = compare(seen.pop(name), limit)
    return done, [*seen, *waiting]


def gate(base: Path, wanted: set[str], start: float, within: float, accepted: dict[str, float]) -> int:
    """Compare this tree with a base; the exit status."""
    left, end, verdicts, late = wanted, start + within, set[str](), list[str]()
    while left:
        now = time.monotonic()
        if left is not wanted and end - now < SOME:
            break
        screened, left = screen(base, left, now + max(SOME, min(SCREENING, 0.5 * (end - now))))
        slow = [name for name, g in screened.items() if g.new > SUSPECT * accepted.get(name, 1.0)]
        slow.sort(key=lambda n: -screened[n].new)
        if not slow:
            continue
        print(
            f"slower at first sight, measured again: {'; '.join(f'{n} {screened[n].new:.3f}' for n in slow)}",
            flush=True,
        )
        again = functools.partial(pair, base, rounds=2 * ROUNDS, budget=2 * BUDGET, until=math.inf)
        results, without = confirm(again, slow, end, accepted, time.monotonic)
        for name, c in results.items():
            print(f"{'' if c.verdict == FINE else c.verdict.upper():12} {row(name, c)}", flush=True)
        verdicts |= {c.verdict for c in results.values()}
        late += without
    if late:
        print(f"NOT DECIDED: there was no time for {'; '.join(late)}")
    if left:
        print(f"NOT MEASURED: {len(left)} cases, for which there was no time; another run takes others first")
    if UNDECIDED in verdicts:
        print("NOT DECIDED: the machine is too noisy to tell; ./build.sh bench --against takes longer, and tells more")
    if SLOWER in verdicts:
        print(
            f"Slower than at the last record, beyond {LIMIT} and noise. If that is meant, say why in "
            f"{ACCEPTED.relative_to(ROOT)}, or record the operations anew (./build.sh bench operations)."
        )
        return 1
    print("nothing is found slower")
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Fail where this tree slows the CPU down since the last record.")
    parser.add_argument("--against", metavar="REV", help="a revision to compare with, instead of the last record's")
    parser.add_argument("--within", type=float, default=WITHIN, help="seconds to take, at most")
    parser.add_argument("--all", action="store_true", help="all operations, whatever has changed")
    args = parser.parse_args()
    start = time.monotonic()
    try:
        commit = commit_of(args.against) if args.against else recorded()
        files = changed(commit)
        own = Worker(ROOT, SIZES)
        wanted = chosen(["?"] if args.all else files, own.names())
        own.close()
        print(f"against {commit[:12]}, since which {len(files)} files have changed: {len(wanted)} cases")
        if not wanted:
            print("nothing that has changed can touch the CPU's operations")
            return 0
        base = build(commit)
        accepted = losses(commit)
    except (Skipped, Unbuilt) as error:
        print(f"SKIPPED: the speed of operations isn't compared: {error}")
        return 0
    print(f"built in {time.monotonic() - start:.0f} s", flush=True)
    status = gate(base, wanted, start, args.within, accepted)
    print(f"took {time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
