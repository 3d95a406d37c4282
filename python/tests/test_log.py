"""Messages under the logger "hologram"."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import hologram as hg


def test_why_auto_has_not_taken_a_gpu_is_said_once() -> None:
    """In a process of its own, since others have asked for auto in this one."""
    code = """if True:
        import logging, hologram as hg
        logging.basicConfig(level=logging.INFO)
        for _ in range(3):
            taken = hg.Executor("auto").backend
        print(taken)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.startswith("INFO:hologram:auto is ")]
    expected = {"metal": 0, "cuda": 1, "cpu": 2}[done.stdout.strip().partition(":")[0]]
    assert len(lines) == expected
    if expected == 2:
        assert lines[1].startswith("INFO:hologram:auto is cpu: backend cuda is not available: ")


def test_executors_and_programs_are_logged(device: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hologram"):
        with hg.Executor(device):
            hg.Program("program p\nexit")
    text = caplog.text
    assert f"on {device}" in text
    assert "program p: 1 instructions" in text
    assert "freed" in text
    assert {record.name for record in caplog.records} == {"hologram"}
