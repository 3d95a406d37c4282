"""The judgement of ./build.sh bench --against, on times made up for it."""

import random
import runpy
import statistics
from pathlib import Path

import pytest

AGAINST = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "against.py"), run_name="against")
ratio, slower = AGAINST["ratio"], AGAINST["slower"]


def times(rng, factor, rounds=64):
    """Rounds of three processes, each with 3 % of noise; all three are disturbed together now and then."""
    old, again, new = [], [], []
    for _ in range(rounds):
        disturbed = 2.0 if rng.random() < 0.1 else 1.0
        for to, speed in ((old, 1), (again, 1), (new, factor)):
            to.append(speed * disturbed * rng.gauss(1, 0.03))
    return ratio(new, old), ratio(again, old)


@pytest.mark.parametrize("factor, verdict", [(1.0, False), (0.8, False), (1.02, False), (1.1, True), (1.3, True)])
def test_a_slowdown_is_told_from_noise(factor, verdict):
    rng = random.Random(1)
    verdicts = [slower(*times(rng, factor)) for _ in range(200)]
    assert verdicts.count(verdict) >= 180


def test_noise_of_equal_code_is_granted():
    rng = random.Random(2)
    new, _ = times(rng, 1.1)
    assert not slower(new, ratio([1.1] * 32, [1.0] * 32))
    assert not slower(new, ratio([1.0] * 32, [1.1] * 32))


def test_the_interval_covers_the_median():
    rng = random.Random(3)
    inside = 0
    for _ in range(1000):
        r = ratio([rng.lognormvariate(0, 0.2) for _ in range(16)], [1.0] * 16)
        inside += r.low <= 1.0 <= r.high
    assert 940 <= inside <= 995


def test_few_rounds_give_the_whole_range():
    assert ratio([3.0, 1.0, 2.0], [1.0] * 3) == (statistics.median([1, 2, 3]), 1.0, 3.0)
