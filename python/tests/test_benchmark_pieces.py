"""Benchmarks that go on where the last run ended, and the comparison of bits that cuda_all.py begins with."""

import importlib.machinery
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hologram._ffi import native

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import bits
from pieces import Kept, Piece, go_on

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ABOUT = {"device": "d", "commit": "c"}


class Clock:
    """A clock that a piece of work moves."""

    now = 0.0

    def __call__(self):
        return self.now


def pieces(done, clock, takes=1.0):
    """Four pieces, which say that they were done: two of them may be done beside each other."""

    def work(name):
        done.append(name)
        clock.now += takes
        return name.upper()

    return [Piece("s", n, lambda n=n: work(n), timed=n > "b") for n in "abcd"]


def test_a_run_goes_on_where_the_last_ended(tmp_path):
    file, clock, done = tmp_path / "part.json", Clock(), []
    every = pieces(done, clock)
    go_on(Kept(file, ABOUT), every, 2.5, clock)
    assert sorted(done) == ["a", "b", "c"]
    later = Kept(file, ABOUT)
    assert [p.name for p in later.missing(every)] == ["d"]
    go_on(later, every, 2.5, clock)
    assert sorted(done) == ["a", "b", "c", "d"]
    assert Kept(file, ABOUT).results == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert list(tmp_path.iterdir()) == [file]


def test_what_was_measured_of_something_else_is_left(tmp_path, capsys):
    file, clock, done = tmp_path / "part.json", Clock(), []
    go_on(Kept(file, ABOUT), pieces(done, clock), 9, clock)
    other = Kept(file, {**ABOUT, "commit": "e"})
    assert len(other.missing(pieces(done, clock))) == 4
    assert "all is measured anew" in capsys.readouterr().err


def test_an_error_ends_the_run_and_leaves_what_was_done(tmp_path):
    file, clock, done = tmp_path / "part.json", Clock(), []
    every = pieces(done, clock)
    every[0] = Piece("s", "a", lambda: 1 // 0, timed=False)
    with pytest.raises(ZeroDivisionError):
        go_on(Kept(file, ABOUT), every, 9, clock)
    assert done == ["b"]
    assert json.loads(file.read_text())["results"] == {"b": "B"}


def operation(name):
    return next(op for op in json.loads(native.ops()) if op["name"] == name)


def test_bits_are_compared_on_every_dtype_and_size():
    compare, op = bits.Compare("cpu"), operation("vector_relu")
    assert len(list(bits.cases(op))) == len(op["types"])
    assert compare(op) == []
    assert not list(bits.cases(operation("embedding")))


def test_a_bit_that_differs_is_found(monkeypatch):
    op, run, count = operation("cumsum"), bits.run, [0]
    op["types"] = ["f32"]
    monkeypatch.setitem(bits.SIZES, ("rows", "cols"), [(1, 1), (7, 100), (39, 1025)])

    def one_bit_off(ex, op, dtype, dims):
        result = run(ex, op, dtype, dims)
        count[0] += 1
        if count[0] == 6:
            result[-1].view(np.uint32)[-1] ^= 1
        return result

    monkeypatch.setattr(bits, "run", one_bit_off)
    assert bits.Compare("cpu")(op) == ["cumsum f32 (39, 1025)"]


def test_nans_count_as_one_and_zeros_do_not():
    a = np.array([np.nan, 1.0, 0.0], np.float32)
    b = a.copy()
    b.view(np.uint32)[0] ^= 1 << 31
    assert bits.same(a, b)
    b[2] = -0.0
    assert not bits.same(a, b)
    assert not bits.same(a, np.array([1.0, np.nan, 0.0], np.float32))


def test_no_benchmark_hides_a_package():
    """A script's folder comes first where modules are looked for: CuPy got our cuda.py for NVIDIA's package cuda."""
    names = {f.stem for f in BENCHMARKS.glob("*.py")}
    path = [p for p in sys.path if Path(p or ".").resolve() != BENCHMARKS]
    found = {name for name in names if importlib.machinery.PathFinder.find_spec(name, path)}
    assert not found | (names & {"cuda", "cupy", "torch", "triton", "nvidia"})
