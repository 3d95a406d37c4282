"""The runner of the tests that need a GPU: what it counts, how it goes on, and when it warns."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[1] / "gpu_suite.py"
pytestmark = pytest.mark.skipif(not SOURCE.exists(), reason="gpu_suite.py is in the repository alone")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as if it were in a packed folder on a machine with a GPU."""
    spec = importlib.util.spec_from_file_location("gpu_suite", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_suite", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "environment", dict)
    monkeypatch.setattr(module, "device", lambda env: ("a device", "1.2"))
    (tmp_path / "pack.json").write_text(json.dumps({"commit": "c" * 40, "sources": "s"}))
    return module


ARGS = argparse.Namespace(seconds=60, seed=1, programs=0, unoptimised=0, processes=2, only=None, keep=None)


def say(suite: ModuleType, name: str, text: str, rc: int = 0, limit: int = 30) -> object:
    return suite.Job(name, [sys.executable, "-c", f"import sys; print({text!r}); sys.exit({rc})"], limit)


def test_counts_and_goes_on(suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = "=== RUN A\n--- PASS: A\n    --- PASS: A/b\n    --- SKIP: A/c\n"
    random = "  cuda: 500 random programs from seed 7, no difference; 3 not supported\n--- PASS: R\nPASS"
    first = [say(suite, "go", go), say(suite, "random 1", random), say(suite, "bad", "1 failed, 4 passed in 2 s", 1)]
    monkeypatch.setattr(suite, "jobs", lambda *given: first)
    assert suite.run(ARGS) == 1
    assert not (tmp_path / "record.json").exists()
    # What has passed is not run again.
    again = [say(suite, "go", "", 1), say(suite, "random 1", "", 1), say(suite, "bad", "2 skipped, 5 passed in 2 s")]
    monkeypatch.setattr(suite, "jobs", lambda *given: again)
    assert suite.run(ARGS) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["device"], record["driver"], record["sources"]) == ("a device", "1.2", "s")
    counts = {n: [j[c] for c in ("passed", "skipped", "failed", "random")] for n, j in record["jobs"].items()}
    assert counts == {"go": [2, 1, 0, 0], "random 1": [1, 0, 0, 500], "bad": [5, 2, 0, 0]}


def test_what_passed_under_a_sanitizer_is_counted(suite: ModuleType) -> None:
    """The tool's summary comes after the script's own last line."""
    text = "========= COMPUTE-SANITIZER\n108 passed\n========= ERROR SUMMARY: 0 errors\n"
    (suite.HERE / "logs").mkdir()
    found = suite.perform(say(suite, "sanitizer memcheck library", text), dict(os.environ), 30)
    assert [found[c] for c in ("rc", "passed", "skipped", "failed")] == [0, 108, 0, 0]


@pytest.mark.parametrize(("rc", "says"), [(0, "ran, with status 0"), (1, "ended in an error")])
def test_a_job_that_counts_nothing_is_said_to_have_run(
    suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rc: int, says: str
) -> None:
    monkeypatch.setattr(suite, "RECORD", tmp_path / "gpu.json")
    job = {"rc": rc, "seconds": 24, "passed": 0, "skipped": 0, "failed": 0, "random": 0}
    record = {"device": "d", "driver": "1", "date": "2026-01-02", "commit": "c" * 40, "sources": "s"}
    (tmp_path / "record.json").write_text(json.dumps({**record, "jobs": {"sanitizer memcheck library": job}}))
    suite.keep(tmp_path / "record.json")
    assert f"| sanitizer memcheck library | {says} | 0 | 0 | 0 | 24 |" in (tmp_path / "gpu.md").read_text()


def test_without_time_there_is_more_to_do(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "jobs", lambda *given: [say(suite, "go", "PASS")])
    assert suite.run(argparse.Namespace(**{**vars(ARGS), "seconds": 1})) == 3


def test_without_a_gpu_it_says_why(
    suite: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "device", lambda env: ("", "no driver"))
    assert suite.run(ARGS) == 0
    assert capsys.readouterr().out == "SKIPPED: the tests that need a GPU: no driver\n"


def test_warns_of_changes(
    suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "RECORD", tmp_path / "gpu.json")
    monkeypatch.setattr(suite, "sources", lambda: "s")
    suite.check()
    assert "WARNING: the tests have not run on a GPU" in capsys.readouterr().out
    job = {"rc": 0, "seconds": 3, "passed": 5, "skipped": 1, "failed": 0, "random": 500}
    record = {"device": "d", "driver": "1", "date": "2026-01-02", "commit": "c" * 40, "sources": "s"}
    (tmp_path / "record.json").write_text(json.dumps({**record, "jobs": {"random 1": job, "random 2": job}}))
    suite.keep(tmp_path / "record.json")
    assert "| random | 10 | 2 | 0 | 1000 | 6 |" in (tmp_path / "gpu.md").read_text()
    suite.check()
    assert "WARNING" not in capsys.readouterr().out
    monkeypatch.setattr(suite, "sources", lambda: "others")
    suite.check()
    assert "WARNING: sources have changed" in capsys.readouterr().out


def test_every_program_has_its_job_once(suite: ModuleType) -> None:
    """Those at level 0 are the first of those at level 4, which shows that both have the same bits."""
    found: dict[str, list[range]] = {}
    names = []
    for job in suite.jobs(7, 1200, 600):
        names.append(job.name)
        if "-programs" in job.command:
            options = dict(zip(job.command[4::2], job.command[5::2]))
            first = int(options["-seed"])
            found.setdefault(options["-level"], []).append(range(first, first + int(options["-programs"])))
    assert found == {"4": [range(7, 507), range(507, 1007), range(1007, 1207)], "0": [range(7, 507), range(507, 607)]}
    assert len(set(names)) == len(names)
    assert len({suite.log_of(job) for job in suite.jobs(7, 1200, 600)}) == len(names)


TOOL = """#!/bin/sh
case "$2" in synccheck) echo '========= Barrier error detected. Divergent thread(s) in block';; esac
while [ "$1" != -- ]; do shift; done
shift
"$@"
rc=$?
echo "========= $SAYS"
exit $rc
"""


@pytest.mark.parametrize(
    ("tool", "planted", "says", "rc", "expected"),
    [
        ("memcheck", False, "ERROR SUMMARY: 0 errors", 0, 0),
        ("memcheck", False, "ERROR SUMMARY: 0 errors", 2, 2),
        ("memcheck", False, "ERROR SUMMARY: 1 error", 0, 1),
        ("memcheck", False, "Target application terminated before first instrumented API call", 0, 1),
        ("racecheck", False, "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, 0),
        ("racecheck", False, "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", 0, 1),
        ("racecheck", True, "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)", 1, 0),
        ("racecheck", True, "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, 1),
        ("synccheck", True, "ERROR SUMMARY: 16 errors", 1, 0),
        ("initcheck", True, "ERROR SUMMARY: 0 errors", 0, 1),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for the tool is a shell script")
def test_what_sanitizers_say(
    suite: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    planted: bool,
    says: str,
    rc: int,
    expected: int,
) -> None:
    """Nothing is taken for clean that the tool does not call so, and what is planted is to be found."""
    stand_in = tmp_path / "compute-sanitizer"
    stand_in.write_text(TOOL)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SAYS", says)
    assert suite.sanitize(tool, ["--", "sh", "-c", f"exit {rc}"], planted) == expected
