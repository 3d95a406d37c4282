"""The runner of the tests that need a GPU: what it counts, how it goes on, and when it warns."""

from __future__ import annotations

import argparse
import importlib.util
import json
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


ARGS = argparse.Namespace(seconds=60, seed=1, programs=0, processes=2, only=None)


def say(suite: ModuleType, name: str, text: str, rc: int = 0, limit: int = 30) -> object:
    return suite.Job(name, [sys.executable, "-c", f"import sys; print({text!r}); sys.exit({rc})"], limit)


def test_counts_and_goes_on(suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = "=== RUN A\n--- PASS: A\n    --- PASS: A/b\n    --- SKIP: A/c\n"
    random = "  cuda: 500 random programs from seed 7, no difference; 3 not supported\n--- PASS: R\nPASS"
    first = [say(suite, "go", go), say(suite, "random 1", random), say(suite, "bad", "1 failed, 4 passed in 2 s", 1)]
    monkeypatch.setattr(suite, "jobs", lambda seed, programs: first)
    assert suite.run(ARGS) == 1
    assert not (tmp_path / "record.json").exists()
    # What has passed is not run again.
    again = [say(suite, "go", "", 1), say(suite, "random 1", "", 1), say(suite, "bad", "2 skipped, 5 passed in 2 s")]
    monkeypatch.setattr(suite, "jobs", lambda seed, programs: again)
    assert suite.run(ARGS) == 0
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["device"], record["driver"], record["sources"]) == ("a device", "1.2", "s")
    counts = {n: [j[c] for c in ("passed", "skipped", "failed", "random")] for n, j in record["jobs"].items()}
    assert counts == {"go": [2, 1, 0, 0], "random 1": [1, 0, 0, 500], "bad": [5, 2, 0, 0]}


def test_without_time_there_is_more_to_do(suite: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "jobs", lambda seed, programs: [say(suite, "go", "PASS")])
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
