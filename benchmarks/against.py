"""Compare the CPU's speed with that of another revision of this repository, operation by operation.

    ./build.sh bench --against REV [--only PATTERN] [--sizes N ...]

Both revisions are built, and every case of cases.py is timed in both: two processes run each, by turns, round after
round, in several generations of processes. The ratio of this tree to the other revision is the median over the
generations, with its 95 % confidence interval; beside it stands how far apart equal code comes out in this very run. A
case whose median is beyond 1.05 is measured once more, longer and in new processes; it is slower if then its whole
interval lies beyond 1.05 times what equal code showed, and the run ends with status 1.

./build.sh test speed (gate.py) is the short form that the continuous integration runs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cases import SIZES
from paired import ROOT, Unbuilt, build, measure
from ratios import LIMIT, SLOWER, Comparison, Generation, compare, generation, mean

CONFIRMING = 9  # generations, of which an interval leaves out the least and the greatest


def compared(
    base: Path, sizes: Sequence[int], wanted: Callable[[str], bool], generations: int, rounds: int, budget: float
) -> dict[str, Comparison]:
    """By case, this tree beside a base."""
    found: dict[str, list[Generation]] = {}
    for _ in range(generations):
        for name, (a, b, c, d) in measure([base, ROOT, base, ROOT], sizes, wanted, rounds, budget).items():
            found.setdefault(name, []).append(generation([a, c], [b, d]))
    return {name: compare(of) for name, of in found.items()}


def row(name: str, c: Comparison) -> str:
    """A case as a line of the table."""
    new, same, _ = c
    return f"{name:48} {new.median:6.3f} [{new.low:.3f}, {new.high:.3f}]   equal code [{same.low:.3f}, {same.high:.3f}]"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare the CPU's speed with that of another revision.")
    parser.add_argument("revision", help="a commit, tag or branch of this repository")
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression that names must contain")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of elements")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of a generation of processes")
    parser.add_argument("--generations", type=int, default=3, help="how often the processes are started anew")
    parser.add_argument("--budget", type=float, default=0.004, help="seconds that a case has in a round")
    args = parser.parse_args()
    try:
        base = build(args.revision)
    except Unbuilt as error:
        sys.exit(str(error))
    pattern = re.compile(args.only)
    results = compared(base, args.sizes, lambda n: bool(pattern.search(n)), args.generations, args.rounds, args.budget)
    if not results:
        sys.exit(f"no case's name contains {args.only!r}")
    for name, c in results.items():
        print(row(name, c))
    of = mean([c.new.median for c in results.values()])
    print(f"{len(results)} cases, geometric mean {of:.3f} of {args.revision}'s time")
    suspects = {name for name, c in results.items() if c.new.median > LIMIT}
    if not suspects:
        return 0
    print(f"beyond {LIMIT}, measured again: {'; '.join(sorted(suspects))}")
    again = compared(base, args.sizes, suspects.__contains__, CONFIRMING, 2 * args.rounds, 2 * args.budget)
    for name, c in again.items():
        print(f"{c.verdict:12} {row(name, c)}")
    return 1 if any(c.verdict == SLOWER for c in again.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
