"""What the step speed compares, and how it goes on where something looks slower: without measuring a time."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import hologram as hg

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import cases
import gate
from ratios import FINE, SLOWER, Generation
from touched import elementwise, touched

ROOT = Path(__file__).parents[2]
EVERY = {*hg.ops.__all__, "kernel"}


@pytest.fixture(scope="module")
def found():
    return dict(cases.cases([1 << 12]))


def test_every_operation_has_a_case_that_runs(found):
    assert {gate.operation(name) for name in found} == EVERY
    for call in found.values():
        call()


def test_cases_by_all_threads_are_large():
    some = {"vector_add n=1,048,576": len, "vector_add n=1,024": len, "tanh n=1,048,576": len}
    assert set(cases.parallel(some)) <= {f"vector_add n=1,048,576, {cases.CORES} threads"}
    assert cases.elements("softmax_rows rows=1,024 cols=2,048") == 1 << 21


@pytest.mark.parametrize(
    "files, operations",
    [
        ([], set()),
        (["docs/isa.md", "python/tests/test_ops.py", "backends/cuda/cuda.go", "isa/ir/build_test.go"], set()),
        (["kernels/softmax.go"], {"softmax", "softmax_rows"}),
        (["kernels/vector_relu.go"], {"relu", "vector_relu"}),
        (["kernels/tanh.go", "backends/cpu/gemm/dot.go"], {"tanh", "gemm", "linear", "matvec"}),
        (["kernels/rows.go"], EVERY),
        (["backends/cpu/jit/gen.go"], EVERY),
        (["something/new.go"], EVERY),
    ],
)
def test_a_change_is_compared_where_it_can_be_felt(files, operations):
    assert touched(files, EVERY) == operations


def test_plans_of_rows_touch_no_elementwise_operation():
    rows = touched(["backends/cpu/tuned/rows.go"], EVERY)
    assert {"softmax_rows", "cumsum", "layer_norm", "mse_loss"} < rows
    assert not any(elementwise(name) for name in rows)


def test_known_files_are_there():
    """So that a folder which is renamed isn't taken for one that nothing runs."""
    for folder in ("backends/cuda", "backends/cpu/gemm", "backends/cpu/tuned", "isa/isadoc", "capi/ctest", "kernels"):
        assert (ROOT / folder).is_dir(), folder


def test_several_threads_are_left_to_the_long_form():
    names = ["tanh n=1,024", "vector_add, arrays n=1", "vector_add n=1,048,576, 2 threads", "embedding_gradient 2×2"]
    assert gate.chosen(["go.mod"], names) == set(names[:2])


class Again:
    """Generations made up: by case, the ratio of this tree. Each takes a while by its clock."""

    def __init__(self, new, takes=1.0):
        self.new, self.takes, self.now, self.asked = new, takes, 0.0, []

    def clock(self):
        return self.now

    def __call__(self, wanted):
        self.now += self.takes
        self.asked.append([name for name in self.new if wanted(name)])
        return {name: Generation(self.new[name], (1.01, 0.99)) for name in self.asked[-1]}

    def confirm(self, until, accepted=()):
        return gate.confirm(self, list(self.new), until, dict(accepted), self.clock)


def test_a_slower_one_is_confirmed_and_others_make_room():
    again = Again({"slow": 1.2, **{f"same{i}": 1.0 for i in range(20)}})
    done, late = again.confirm(100)
    assert not late
    assert {name: c.verdict for name, c in done.items()} == {n: SLOWER if n == "slow" else FINE for n in again.new}
    assert max(map(len, again.asked)) == gate.MOST
    assert sum("slow" in asked for asked in again.asked) == gate.CONFIRMING
    assert all(sum(name in asked for asked in again.asked) == gate.FEW for name in list(again.new)[1:])


def test_there_may_be_no_time():
    again = Again({"slow": 1.2, "other": 1.2}, takes=10)
    done, late = again.confirm(55)
    assert not done
    assert late == ["slow", "other"]
    assert again.now <= 55


def test_an_accepted_loss_is_no_loss():
    done, _ = Again({"slow": 1.2}).confirm(100, {"slow": 1.2})
    assert done["slow"].verdict == FINE


def git(folder, *arguments):
    named = ["-c", "user.name=n", "-c", "user.email=e"]
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with a record, and a later commit."""
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    for name, text in (("operations.json", "{}"), ("later.go", "")):
        (results / name).write_text(text)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", name)
    for module in (gate, inspect.getmodule(gate.commit_of)):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "RECORD", results / "operations.json")
    monkeypatch.setattr(gate, "ACCEPTED", results / "accepted.json")
    return tmp_path


def test_the_record_names_its_commit(clone):
    first, last = git(clone, "rev-parse", "HEAD^"), git(clone, "rev-parse", "HEAD")
    assert gate.recorded() == first  # which wrote it
    assert gate.changed(first) == ["benchmarks/results/later.go"]
    (clone / "new.go").write_text("")
    assert gate.changed(last) == ["new.go"]
    gate.RECORD.write_text(json.dumps({"commit": last[:9]}))
    assert gate.recorded() == last


@pytest.mark.parametrize("text, why", [('{"commit": "0123abc"}', "0123abc is no commit"), (None, "isn't there")])
def test_without_the_commit_it_says_so(clone, text, why):
    if text is None:
        git(clone, "update-ref", "-d", "HEAD")
        git(clone, "commit", "-q", "--allow-empty", "-m", "x", "--only")
        gate.RECORD.unlink()
    else:
        gate.RECORD.write_text(text)
    with pytest.raises(gate.Skipped, match=why):
        gate.recorded()


def test_accepted_losses_end_with_their_record(clone):
    assert gate.losses("c") == {}
    gate.ACCEPTED.write_text(json.dumps({"since": "c", "losses": {"tanh n=1": {"factor": 1.1, "why": "it was wrong"}}}))
    assert gate.losses("c") == {"tanh n=1": 1.1}
    assert gate.losses("d") == {}


def test_losses_that_are_meant_are_known_cases_with_reasons():
    file = ROOT / "benchmarks" / "results" / "accepted.json"
    losses = json.loads(file.read_text())["losses"] if file.exists() else {}
    assert set(losses) <= {name for name, _ in cases.cases(list(gate.SIZES))}
    for loss in losses.values():
        assert loss["factor"] > 1
        assert loss["why"]


@pytest.mark.parametrize(
    "first, later, spread, status, says",
    [
        (1.2, 1.2, 1.01, 1, "SLOWER"),
        (1.2, 1.0, 1.01, 0, "nothing is found slower"),  # at first sight alone
        (1.0, 1.2, 1.01, 0, "nothing is found slower"),  # nobody looked closer
        (1.2, 1.1, 1.08, 0, "NOT DECIDED"),
    ],
)
def test_what_fails_was_confirmed(monkeypatch, capsys, first, later, spread, status, says):
    asked = []

    def pair(base, wanted, rounds, budget, until):
        asked.append(rounds)
        ratio = first if len(asked) == 1 else later
        new = {"tanh n=1": ratio, "gelu n=1": 1.0, "fill n=1": 1.0}
        return {name: Generation(r, (spread, 1 / spread)) for name, r in new.items() if wanted(name)}

    monkeypatch.setattr(gate, "pair", pair)
    names = {"tanh n=1", "gelu n=1", "fill n=1", "not there any more"}
    assert gate.gate(Path(), names, gate.time.monotonic(), 60, {}) == status
    out = capsys.readouterr().out
    assert says in out
    assert "one revision has them otherwise: not there any more" in out
    assert len(asked) == 1 or min(asked[1:]) > asked[0]


def test_what_there_was_no_time_for_is_said(monkeypatch, capsys):
    monkeypatch.setattr(gate, "SOME", 0.0)
    monkeypatch.setattr(gate, "pair", lambda *_, **__: {})
    assert gate.gate(Path(), {"tanh n=1"}, gate.time.monotonic() - 90, 88, {}) == 0
    assert "NOT MEASURED: 1 cases" in capsys.readouterr().out
