"""The hologram command."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import cli

SCALE = """program scale
slot a f32
slot c f32
param k f32
  ldg.f32 x, a[index]
  ldp.f32 q, k
  mul.f32 x, x, q
  stg.f32 x, c[index]
  exit
"""


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    path = tmp_path / "scale.atlas"
    path.write_text(SCALE)
    np.save(tmp_path / "a.npy", np.arange(5, dtype=np.float32))
    return path


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"hologram {hg.__version__}")
    assert re.search(r"threads +\d", out)
    assert re.search(r"cpu +available", out)
    for backend in hg.backend.backends():
        if not backend["available"]:
            assert re.search(rf"{backend['name']} +not available: .", out)
    assert "caches" in out
    assert "hits" in out


def test_the_command_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hologram.cli", "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"hologram {hg.__version__}\n")


def test_asm_and_dis(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["asm", str(scale)]) == 0
    binary = scale.with_suffix(".atlb")
    assert hg.Program(binary.read_bytes()) == hg.Program(SCALE)
    capsys.readouterr()
    assert cli.main(["dis", str(binary)]) == 0
    assert hg.Program(capsys.readouterr().out) == hg.Program(SCALE)
    assert cli.main(["dis", "--canonical", str(scale)]) == 0
    assert "mul.f32" in capsys.readouterr().out
    assert cli.main(["asm", str(scale), "-o", str(scale.with_name("b"))]) == 0
    assert scale.with_name("b").exists()


def test_verify(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", str(scale)]) == 0
    out = capsys.readouterr().out
    assert "ok: program scale, 5 instructions" in out
    assert re.search(r"slot +a +f32 +in: \[index\]", out)
    assert re.search(r"slot +c +f32 +out: \[index\]", out)
    assert re.search(r"param +k +f32", out)


def test_errors_point_at_the_place(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = scale.with_name("bad.atlas")
    bad.write_text("program p\nslot a f32\n  ldg.f23 x, a[index]\n")
    assert cli.main(["verify", str(scale), str(bad)]) == 1
    captured = capsys.readouterr()
    assert "ok: program scale" in captured.out
    assert re.search(rf"{re.escape(str(bad))}:3:\d+: error: .*f23", captured.err)
    assert re.search(r"^ +ldg.f23 x, a\[index\]\n +\^~+$", captured.err, re.MULTILINE)
    assert "\033" not in captured.err


def test_errors_are_coloured_on_a_terminal(scale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bad = scale.with_name("bad.atlas")
    bad.write_text("program p\n  foo x\n")
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            patch.setenv("TERM", "xterm")
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stderr", Terminal())
            assert cli.main(["verify", str(bad)]) == 1
            assert ("\033[" in sys.stderr.getvalue()) == coloured  # type: ignore[attr-defined]


@pytest.mark.parametrize("backend", ["auto", "interp"])
@pytest.mark.parametrize("named", [False, True])
def test_run(scale: Path, named: bool, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    a, c = str(scale.with_name("a.npy")), str(scale.with_name("c.npy"))
    files = ["--in", f"a={a}", "--out", f"c={c}"] if named else ["--in", a, "--out", c]
    assert cli.main(["run", str(scale), *files, "--param", "k=2.5", "--backend", backend]) == 0
    assert np.load(c).tolist() == [0, 2.5, 5, 7.5, 10]
    assert "c, float32 (5,)" in capsys.readouterr().out


def test_run_shows_what_it_isnt_told_to_keep(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(scale), "--in", str(scale.with_name("a.npy")), "--param", "k=0x1p1", "--n", "3"]) == 0
    assert "c = [0. 2. 4.]" in capsys.readouterr().out


def test_run_tells_what_the_caches_did(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "run",
        str(scale),
        "--in",
        str(scale.with_name("a.npy")),
        "--param",
        "k=2",
        "--stats",
        "--backend",
        "cpu",
    ]
    counts = []
    for _ in range(2):
        assert cli.main(command) == 0
        found = re.search(r"^kernels: .*hits (\d+), misses (\d+)", capsys.readouterr().err, re.MULTILINE)
        assert found
        counts.append((int(found[1]), int(found[2])))
    # The second run finds the kernel of the first.
    assert counts[1] == (counts[0][0] + 1, counts[0][1])


def test_trace(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", str(scale), "--in", str(scale.with_name("a.npy")), "--param", "k=3", "--lane", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert re.search(r"mul\.f32 x, x, q +dst=12 +a=4 +b=3", lines[2])


def test_a_fault_is_told_after_the_outputs_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, c = tmp_path / "p.atlas", tmp_path / "c.npy"
    path.write_text("program p\nslot c u32\nstg.u32 7, c[index]\ndiv.u32 x, 7, 0\nexit\n")
    assert cli.main(["run", str(path), "--out", str(c), "--n", "2"]) == 1
    assert "integer division by zero" in capsys.readouterr().err
    assert np.load(c).tolist() == [7, 7]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, ""),
        (["frobnicate"], 2, "invalid choice"),
        (["run", "PROGRAM"], 2, r"slot a \(f32\) needs an array: --in a=FILE.npy"),
        (["run", "PROGRAM", "--in", "nowhere.npy"], 1, "nowhere.npy"),
        (["run", "PROGRAM", "--in", "A"], 1, r"parameter k \(f32\) is not given"),
        (["run", "PROGRAM", "--in", "A", "--param", "k"], 2, "expected NAME=NUMBER"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=x"], 2, "x is not a number"),
        (["run", "PROGRAM", "--in", "A", "--in", "A", "--param", "k=1"], 2, "no slot left"),
        (["run", "PROGRAM", "--in", "z=A", "--param", "k=1"], 2, "no slot z"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--n", "6"], 1, "fewer than n = 6"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--grid", "a"], 2, "not a list of numbers"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--backend", "tpu"], 1, "Invalid backend"),
        (["trace", "PROGRAM", "--in", "A", "--param", "k=1", "--lane", "9"], 1, "lane is 9"),
        (["verify", "nowhere.atlas"], 1, "nowhere.atlas"),
        (["dis", "nowhere.atlas"], 1, "nowhere.atlas"),
    ],
)
def test_what_goes_wrong(
    scale: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, text: str
) -> None:
    names: dict[str, Any] = {"PROGRAM": str(scale), "A": str(scale.with_name("a.npy"))}
    arguments = [names.get(a, a.replace("=A", "=" + names["A"])) for a in arguments]
    try:
        found = cli.main(arguments)
    except SystemExit as stopped:
        found = int(stopped.code or 0)
    assert found == status
    assert re.search(text, capsys.readouterr().err)
