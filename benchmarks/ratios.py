"""What times taken by turns say: ratios with confidence intervals, and whether one revision is slower than another.

The times of a generation are those of its processes, two for each revision, which were started anew for it: where a
process's memory lies changes its speed, and no number of rounds within one tells. So a generation gives one ratio of
the new revision to the old, and an interval is over generations. It gives ratios of equal code as well, made of the
same times: each process of the old revision together with one of the new, against the two others. A true difference
falls out of these, and what makes equal code differ is the same in both, so that they show what the first may be by
chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

LIMIT = 1.05
NOISIEST = 1.06  # where equal code lies farther apart than this, a tenth can't be told

SLOWER, UNDECIDED, FINE = "slower", "not decided", "fine"

Times = Sequence[Sequence[float]]  # by process, then by round


class Ratio(NamedTuple):
    """A ratio of times: the median, and its 95 % confidence interval."""

    median: float
    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def interval(values: Sequence[float]) -> Ratio:
    """The median of independent values.

    The interval needs no distribution: of n values, the median lies between the k-th smallest and the k-th largest with
    a probability that the binomial distribution B(n, 1/2) gives.
    """
    values = sorted(values)
    n = len(values)
    k, outside = 0, 0.0
    while k < n // 2:
        outside += 2 * math.comb(n, k) / 2**n
        if outside > 0.05:
            break
        k += 1
    k = max(k - 1, 0)
    return Ratio(statistics.median(values), values[k], values[n - 1 - k])


def least(rounds: Sequence[float]) -> float:
    """The time that a tenth of the rounds fall below.

    What disturbs a process makes it slower, so that the least times are disturbed the least. Between equal processes
    on a machine with six times the work that it can do, nine of ten ratios of these lay within 2.7 %, of medians
    within 4.9.
    """
    return sorted(rounds)[len(rounds) // 10]


def quotient(of: Times, to: Times) -> float:
    """The ratio of the times of some processes to those of others: of the geometric means of their least."""
    return mean([least(rounds) for rounds in of]) / mean([least(rounds) for rounds in to])


class Generation(NamedTuple):
    """What a generation of processes shows: the new revision's ratio to the old, and ratios of equal code."""

    new: float
    same: tuple[float, ...]


def generation(old: Times, new: Times) -> Generation:
    """A generation by its times: two processes of the old revision, and one or two of the new."""
    (a, b), c, d = old, new[0], new[-1]
    if len(new) == 1:
        return Generation(quotient(new, old), (quotient([a], [b]),))
    return Generation(quotient(new, old), (quotient([a, c], [b, d]), quotient([a, d], [b, c])))


class Comparison(NamedTuple):
    """The new revision's ratio to the old, and that of equal code in the same run."""

    new: Ratio
    same: Ratio
    limit: float

    @property
    def noise(self) -> float:
        """How far from 1 equal code may lie."""
        return max(self.same.high, 1 / self.same.low, 1.0)

    @property
    def verdict(self) -> str:
        """SLOWER if the whole interval is beyond the limit, and by more than equal code shows.

        UNDECIDED where some of it is, and either its median, or equal code lies so far apart that nobody could tell.
        """
        if self.new.low > self.limit * self.noise:
            return SLOWER
        if self.new.high > self.limit and (self.new.median > self.limit or self.noise > NOISIEST):
            return UNDECIDED
        return FINE


def compare(generations: Sequence[Generation], limit: float = LIMIT) -> Comparison:
    """What generations show together; beyond limit is slower."""
    return Comparison(interval([g.new for g in generations]), interval([s for g in generations for s in g.same]), limit)
