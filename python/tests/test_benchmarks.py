"""The judgement of ./build.sh bench --against and of its short form, on times made up for it."""

import random
import statistics
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import ratios
from ratios import FINE, SLOWER, UNDECIDED, Generation, compare, generation, interval, least, quotient


def process(rng, speed, rounds, place):
    """The times of a process: its memory's place counts for all, and now and then a round is disturbed."""
    own = speed * rng.lognormvariate(0, place)
    return [own * rng.gauss(1, 0.01) * (1 + rng.expovariate(1) * (rng.random() < 0.4)) for _ in range(rounds)]


def comparison(rng, factor, place=0.01, generations=9, rounds=40, limit=ratios.LIMIT):
    found = []
    for _ in range(generations):
        old, new = ([process(rng, speed, rounds, place) for _ in range(2)] for speed in (1.0, factor))
        found.append(generation(old, new))
    return compare(found, limit)


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.02])
def test_what_is_no_slower_never_fails(factor):
    rng = random.Random(1)
    verdicts = [comparison(rng, factor).verdict for _ in range(200)]
    assert SLOWER not in verdicts
    assert verdicts.count(FINE) >= 195


@pytest.mark.parametrize("factor", [1.1, 1.3])
def test_a_tenth_is_found(factor):
    rng = random.Random(2)
    assert [comparison(rng, factor).verdict for _ in range(100)].count(SLOWER) >= 97


def test_processes_far_apart_leave_it_open():
    """Equal code that differs by a tenth from process to process is no loss, and nobody could tell one."""
    rng = random.Random(3)
    same = [comparison(rng, 1.0, place=0.1).verdict for _ in range(300)]
    assert SLOWER not in same
    assert same.count(UNDECIDED) > 50
    slower = [comparison(rng, 1.1, place=0.1).verdict for _ in range(100)]
    assert slower.count(UNDECIDED) > 50


def test_two_speeds_of_equal_code_are_no_loss():
    """Where a process lands is a tenth slower one time in three, as with pages that share sets of a cache."""
    rng = random.Random(4)
    for _ in range(300):
        found = []
        for _ in range(9):
            old, new = ([process(rng, rng.choice([1, 1, 1.1]), 40, 0.005) for _ in range(2)] for _ in range(2))
            found.append(generation(old, new))
        assert compare(found).verdict != SLOWER


def test_a_loss_that_is_meant_is_granted():
    rng = random.Random(5)
    assert comparison(rng, 1.2).verdict == SLOWER
    assert comparison(rng, 1.2, limit=ratios.LIMIT * 1.2).verdict == FINE


def test_equal_code_shows_no_true_difference():
    old, new = [[1.0] * 10, [1.02] * 10], [[2.0] * 10, [2.02] * 10]
    found = generation(old, new)
    assert found.new == pytest.approx(1.99, abs=0.01)
    assert all(0.98 < same < 1.02 for same in found.same)
    assert generation(old, new[:1]).same == (pytest.approx(1 / 1.02),)


def test_the_verdict_takes_the_whole_interval():
    same = (1.0, 1.0)
    assert compare([Generation(1.2, same)] * 8 + [Generation(1.0, same)]).verdict == SLOWER  # one may lie apart
    assert compare([Generation(1.2, same)] * 7 + [Generation(1.0, same)] * 2).verdict == UNDECIDED
    assert compare([Generation(1.2, (1.15, 1 / 1.15))] * 9).verdict == UNDECIDED


def test_the_least_times_count():
    assert least([5.0, 1.0, 9.0]) == 1.0
    assert least([3.0, 0.1, *[7.0] * 10]) == 3.0  # of ten or more, the least may be a mistake of the clock
    assert quotient([[2.0, 50.0], [8.0, 60.0]], [[2.0, 2.0], [2.0, 90.0]]) == pytest.approx(2.0)


def test_the_interval_covers_the_median():
    rng = random.Random(6)
    inside = 0
    for _ in range(1000):
        r = interval([rng.lognormvariate(0, 0.2) for _ in range(16)])
        inside += r.low <= 1.0 <= r.high
    assert 940 <= inside <= 995


def test_few_values_give_the_whole_range():
    assert interval([3.0, 1.0, 2.0]) == (statistics.median([1, 2, 3]), 1.0, 3.0)
