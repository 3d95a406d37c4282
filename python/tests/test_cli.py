"""The hologram command."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import cli
from hologram.errors import BackendError

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


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hologram" / "cuda"
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", "off")
    assert cli.main(["cache", "info"]) == 0
    assert "not kept" in capsys.readouterr().out
    if sys.platform == "linux":
        monkeypatch.setenv("HOLOGRAM_CACHE_DIR", "")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    else:
        monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(folder))
    assert cli.main(["cache", "info"]) == 0
    assert "nothing" in capsys.readouterr().out
    folder.mkdir(parents=True)
    kept = [folder / ("ab" * 32 + ".cubin"), folder / ("01" * 8 + ".tmp-123")]
    (folder / ("cd" * 32 + ".cubin")).mkdir()
    for file in kept:
        file.write_bytes(bytes(100))
    others = [folder / name for name in ("notes.txt", "x.cubin", "ab" * 33 + ".cubin", "01" * 8 + ".tmp-1.txt")]
    for file in others:
        file.write_bytes(b"mine")
    others.append(folder / ("cd" * 32 + ".cubin"))
    assert cli.main(["cache", "info"]) == 0
    assert capsys.readouterr().out == f"{folder}: 2 files, 200 bytes\n"
    assert cli.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"{folder}: removed 2 files, 200 bytes\n"
    assert set(folder.iterdir()) == set(others)
    with pytest.raises(SystemExit):
        cli.main(["cache", "rm"])
    if os.name == "posix":
        folder.chmod(0o722)
        assert cli.main(["cache", "info"]) == 0
        assert "does not use it: others may write to it (mode 722)" in capsys.readouterr().out
        folder.chmod(0o700)
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        assert cli.main(["cache", "info"]) == 0
        assert f"it belongs to user {folder.stat().st_uid}, and this is user" in capsys.readouterr().out


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_folder_of_the_cache(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is named wins, then the platform's folder for caches; without any nothing is kept."""
    monkeypatch.setattr(sys, "platform", platform)
    places = {
        "linux": [("XDG_CACHE_HOME", ""), ("HOME", ".cache")],
        "darwin": [("HOME", "Library/Caches")],
        "win32": [("LocalAppData", "")],
    }[platform]
    for name in ("HOLOGRAM_CACHE_DIR", *(name for name, _ in places)):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, below in [("HOLOGRAM_CACHE_DIR", None), *places]:
        folder = tmp_path / name if below is None else tmp_path / name / below / "hologram" / "cuda"
        assert cli.main(["cache", "info"]) == 0
        assert capsys.readouterr().out == f"{folder}: nothing is kept there yet\n"
        monkeypatch.delenv(name)
    assert cli.main(["cache", "clear"]) == 0
    assert "not kept" in capsys.readouterr().out


def test_info(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        {"name": "cpu", "available": True, "reason": "", "device": "host", "devices": 1, "threads": 3},
        {"name": "interp", "available": True, "reason": "", "device": "interpreter", "devices": 3, "threads": 1},
        {"name": "cuda", "available": False, "reason": "backend cuda is not available: no driver", "device": ""},
    ]

    class Executor:
        backend, limit = "cpu", 0

        def __enter__(self) -> Executor:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def kernel_stats(self) -> dict[str, int]:
            return {"entries": 4, "limit": 5, "hits": 6, "misses": 7, "evictions": 8}

        def memory_stats(self) -> dict[str, int]:
            return {"reserved": 9, "limit": self.limit, "in_use": 1, "cached": 2, "executor_limit": 3}

    assert cli.main(["info"]) == 0  # what there is
    out = capsys.readouterr().out
    assert re.search(r"^threads  \d+$", out, re.MULTILINE)
    assert re.search(r"^  cpu      available: host.*$", out, re.MULTILINE)
    monkeypatch.setattr(hg, "Executor", Executor)
    monkeypatch.setattr(hg, "num_threads", lambda: 2)
    monkeypatch.setattr(hg, "get_default_backend", lambda: "interp")
    monkeypatch.setattr(hg.backend, "backends", lambda: found)
    for limit, text in ((0, "no limit"), (1, "limit 1 bytes")):
        Executor.limit = limit
        assert cli.main(["info"]) == 0
        assert capsys.readouterr().out == (
            f"hologram {hg.__version__} (C ABI {hg.abi_version()}), numpy {np.__version__}\n"
            f"python   {sys.version.split()[0]} on {sys.platform}\n"
            "threads  2\n"
            "backends\n"
            "  cpu      available: host, 3 threads\n"
            "  interp   available: interpreter and 2 more (default)\n"
            "  cuda     not available: no driver\n"
            "caches   kernels of cpu: 4 of 5, in memory, 6 hits, 7 misses\n"
            f"memory   9 bytes reserved, {text}\n"
        )


def test_info_in_full(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Fake:
        backend = "cpu"
        limit = 0

        def __enter__(self) -> Fake:
            return self

        def __exit__(self, *_: object) -> None: ...

        def kernel_stats(self) -> dict[str, int]:
            return {"entries": 3, "limit": 64, "hits": 5, "misses": 4}

        def memory_stats(self) -> dict[str, int]:
            return {"reserved": 4096, "limit": Fake.limit}

    one = {"name": "interp", "available": True, "device": "a scalar loop", "devices": 1, "threads": 1, "reason": ""}
    two = {"name": "cpu", "available": True, "device": "a chip", "devices": 1, "threads": 2, "reason": ""}
    none = {
        "name": "cuda",
        "available": False,
        "device": "",
        "threads": 0,
        "reason": "cuda is not available: no driver",
    }
    monkeypatch.setattr(hg.backend, "backends", lambda: [one, two, none])
    monkeypatch.setattr(hg, "get_default_backend", lambda: "cpu")
    monkeypatch.setattr(hg, "num_threads", lambda: 7)
    monkeypatch.setattr(hg, "Executor", Fake)
    for Fake.limit, limit in ((0, "no limit"), (8192, "limit 8192 bytes")):
        assert cli.main(["info"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"hologram {hg.__version__} (C ABI {hg.abi_version()}), numpy {np.__version__}",
            f"python   {sys.version.split()[0]} on {sys.platform}",
            "threads  7",
            "backends",
            "  interp   available: a scalar loop",
            "  cpu      available: a chip, 2 threads (default)",
            "  cuda     not available: no driver",
            "caches   kernels of cpu: 3 of 64, in memory, 5 hits, 4 misses",
            f"memory   4096 bytes reserved, {limit}",
        ]


def test_verify_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all.atlas"
    path.write_text(
        "program all\nslot a f32\nslot b u8\nslot c f32\nslot unused i64\nparam k f32\nldg.f32 x, a[index]\n"
        "ldg.f32 y, b[4]\nadd.f32 x, x, y\nldg.f32 z, c[index]\nadd.f32 x, x, z\nstg.f32 x, c[index]\nexit\n"
    )
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: ok: program all, 7 instructions",
        "  slot  a            f32   in: [index]",
        "  slot  b            u8    in: bytes",
        "  slot  c            f32   in, out: [index]",
        "  slot  unused       i64   not used",
        "  param k            f32",
        f"  hash  {hg.Program.from_file(path).hash}",
    ]


@pytest.mark.parametrize("module", ["hologram", "hologram.cli"])
def test_the_command_is_installed(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"hologram {hg.__version__}\n")


def command(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own, with real streams."""
    words = [sys.executable, "-m", "hologram", *map(str, arguments)]
    return subprocess.run(words, input=stdin, capture_output=True, timeout=60)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


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


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "uses.atlas"
    path.write_text(
        "program uses\nslot a f32\nslot b f64\nslot c i16\nslot d u8\nslot e f32\nslot g f32\nparam k f32\n"
        "  ldg.f32 x, a[index]\n  ldg.f64 y, b[8]\n  stg.f64 y, b[index]\n  stg.i16 7, c[0]\n"
        "  ldg.f32 x, g[flat 1]\n  stg.f32 x, e[index]\n  exit\n"
    )
    assert cli.main(["verify", str(path)]) == 0
    assert capsys.readouterr().out == (
        f"{path}: ok: program uses, 7 instructions\n"
        "  slot  a            f32   in: [index]\n"
        "  slot  b            f64   in, out: [index], bytes\n"
        "  slot  c            i16   out: bytes\n"
        "  slot  d            u8    not used\n"
        "  slot  e            f32   out: [index]\n"
        "  slot  g            f32   in\n"
        "  param k            f32\n"
        f"  hash  {hg.Program.from_file(path).hash}\n"
    )


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


SPACE = """program space
slot a u32
slot b u32
slot c u32
param k i32
param f f64
  sreg x, block_dim.x
  sreg y, grid_dim.y
  sreg l, block_dim.y
  sreg z, columns
  cvt.u32.u64 z, z
  stg.u32 x, a[index]
  mad.u32 y, y, 16, l
  stg.u32 y, b[index]
  ldp.i32 i, k
  cvt.u32.i32 i, i
  ldp.f64 g, f
  cvt.u32.f64 j, g
  mad.u32 i, i, 256, j
  mad.u32 i, i, 16, z
  stg.u32 i, c[index]
  exit
"""


@pytest.mark.parametrize("action", ["run", "trace"])
def test_sizes_and_numbers_of_a_launch(tmp_path: Path, action: str) -> None:
    path, out = tmp_path / "space.atlas", tmp_path / "out.npz"
    path.write_text(SPACE)
    given = [action, str(path), *(f"--out={slot}={out}" for slot in "abc"), "--shape", "2,3"]
    given += ["--grid", "1x3", "--block=4,2", "--param", "k=0x10"]
    for text, number in (("2.5", 2), ("0x1.8p1", 3), ("1e1", 10), ("-1", 0), ("inf", 2**32 - 1)):
        assert cli.main([*given, "--param", f"f={text}"]) == 0
        found = np.load(out)
        assert {name: (array.dtype, array.shape) for name, array in found.items()} == dict.fromkeys(
            "abc", (np.dtype(np.uint32), (2, 3))
        )
        assert np.unique(found["a"]).tolist() == [4]
        assert np.unique(found["b"]).tolist() == [3 * 16 + 2]
        assert np.unique(found["c"]).tolist() == [((16 * 256 + number) * 16 + 3) % 2**32]


def test_which_slots_files_go_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files without names are for the slots that are left, in the program's order."""
    path = tmp_path / "p.atlas"
    path.write_text(
        "program p\nslot a u32\nslot o u32\nslot b u32\nslot c u32\nslot q u32\nslot boundary u8\n"
        "ldg.u32 x, a[index]\nldg.u32 y, b[index]\nldg.u32 z, c[index]\n"
        "mad.u32 x, x, 10, y\nmad.u32 x, x, 10, z\nstg.u32 x, o[index]\nadd.u32 x, x, 1\nstg.u32 x, q[index]\n"
        "stg.u8 1, phi(0, 0, 0)\nexit\n"
    )
    for number in (1, 2, 3):
        np.save(tmp_path / f"{number}.npy", np.array([number], np.uint32))
    files = [str(tmp_path / f"{number}.npy") for number in (1, 2, 3)]
    one, two = str(tmp_path / "one.npy"), str(tmp_path / "two.npy")
    given = ["run", str(path), "--in", files[0], "--in", f"b={files[1]}", "--in", files[2], "--out", one]
    assert cli.main([*given, "--out", two]) == 0
    assert (np.load(one).tolist(), np.load(two).tolist()) == ([123], [124])
    assert cli.main([*given, "--out", f"o={two}"]) == 0
    assert (np.load(one).tolist(), np.load(two).tolist()) == ([124], [123])
    np.save(tmp_path / "o.npy", np.array([7, 7], np.uint32)[:1])
    capsys.readouterr()
    assert cli.main([*given[:-2], "--in", f"o={tmp_path / 'o.npy'}"]) == 0  # an output may be given too
    shown = capsys.readouterr().out
    assert sorted(re.findall(r"^(\w+) = (.*)$", shown, re.MULTILINE)) == [
        ("a", "[1]"),
        ("b", "[2]"),
        ("c", "[3]"),
        ("o", "[123]"),
        ("q", "[124]"),
    ]


def test_long_arrays_are_shown_in_part(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in (20, 21):
        np.save(scale.with_name("a.npy"), np.arange(n, dtype=np.float32))
        assert cli.main(["run", str(scale), "--in", str(scale.with_name("a.npy")), "--param", "k=1"]) == 0
        assert ("..." in capsys.readouterr().out) == (n > 20)


def test_residues_and_fuel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.atlas"
    path.write_text(
        "program p\nslot c u32\nres_accum 3, 5\nmov.u32 n, 9\nloop n, end\nend:\nstg.u32 n, c[index]\nexit\n"
    )
    assert cli.main(["run", str(path), "--n", "2", "--fuel", "9"]) == 0
    out = capsys.readouterr().out
    assert "residue = [ 0  0  0 10  0" in out
    assert "c = [9 9]" in out
    assert cli.main(["run", str(path), "--n", "2", "--fuel", "8"]) == 1
    captured = capsys.readouterr()
    assert "out of fuel" in captured.err
    assert "residue" not in captured.out
    assert "c = [0 0]" in captured.out


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (MemoryError(), 1, "error: MemoryError\n"),
        (ValueError("one\ntwo\n  three"), 1, "error: one\ntwo\n  three\n"),
        (TypeError("no"), 1, "error: no\n"),
        (OSError("no"), 1, "error: no\n"),
        (hg.HologramError("no"), 1, "error: no\n"),
    ],
)
def test_what_an_action_may_raise(
    raised: BaseException, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def action(_: object) -> int:
        raise raised

    monkeypatch.setattr(cli, "_info", action)
    assert cli.main(["info"]) == status
    assert capsys.readouterr() == ("", text)


def test_trace(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", str(scale), "--in", str(scale.with_name("a.npy")), "--param", "k=3", "--lane", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert sorted(scale.parent.iterdir()) == [scale.with_name("a.npy"), scale]
    assert re.search(r"mul\.f32 x, x, q +dst=12 +a=4 +b=3", lines[2])


def test_a_fault_is_told_after_the_outputs_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, c = tmp_path / "p.atlas", tmp_path / "c.npy"
    path.write_text("program p\nslot c u32\nstg.u32 7, c[index]\ndiv.u32 x, 7, 0\nexit\n")
    assert cli.main(["run", str(path), "--out", str(c), "--n", "2"]) == 1
    assert "integer division by zero" in capsys.readouterr().err
    assert np.load(c).tolist() == [7, 7]


def _damaged(folder: Path) -> None:
    """Write files with headers that no parser likes, and archives whose members don't unpack."""
    headers = {
        "token": "{'descr': '<f4', 'shape': ((((",
        "deep": "-" * 3000 + "1",
        "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
    }
    for name, header in headers.items():
        text = header.encode() + b"\n"
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes(64))
    methods = {"deflated": zipfile.ZIP_DEFLATED, "lzma": zipfile.ZIP_LZMA, "bzip": zipfile.ZIP_BZIP2, "encrypted": 0}
    for name, method in methods.items():
        with zipfile.ZipFile(folder / f"{name}.npz", "w", method) as file:
            file.writestr("a.npy", (folder / "b.npy").read_bytes())
        found = bytearray((folder / f"{name}.npz").read_bytes())
        if name == "encrypted":
            found[6] |= 1
            found[found.find(b"PK\1\2") + 8] |= 1
        else:
            found[44:60] = b"\xff" * 16
        (folder / f"{name}.npz").write_bytes(found)


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
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--out", "a=z.npy"], 2, "never writes a; it writes "),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--param", "k=2"], 2, "k is given twice"),
        (["run", "PROGRAM", "--in", "x=A", "--in", "x=A", "--param", "k=1"], 2, "x is given twice"),
        (["run", "PROGRAM", "--in", "x=", "--param", "k=1"], 2, "nothing follows x="),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--n", "6"], 1, "fewer than n = 6"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--grid", "a"], 2, "not a list of numbers"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--backend", "tpu"], 1, "Invalid backend"),
        (["trace", "PROGRAM", "--in", "A", "--param", "k=1", "--lane", "9"], 1, "lane is 9"),
        (["verify", "nowhere.atlas"], 1, "nowhere.atlas"),
        (["verify", "nowhere.atlas", "nor.here"], 1, "(?s)nowhere.atlas.*nor.here"),
        (["dis", "nowhere.atlas"], 1, "nowhere.atlas"),
        (["run", "BOTH", "--n", "2"], 2, r"slot x \(i32\) needs an array: --in x=FILE.npy"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--shape", "2,3x"], 2, "'2,3x' is not a list of numbers"),
        (["run", "PROGRAM", "--in", "A", "--param", "k=1", "--in", "c=B"], 2, r"shapes .*: a \(5,\), c \(4,\)"),
        (["run", "PROGRAM", "--in", "PROGRAM", "--param", "k=1"], 1, r"slot a: .*scale.atlas is no .npy or .npz file"),
        (
            ["run", "PROGRAM", "--in", "OBJECTS", "--param", "k=1"],
            1,
            "objects.npy can't be read: it holds Python objects",
        ),
        (["run", "PROGRAM", "--in", "SHORT", "--param", "k=1"], 1, "slot a: .*short.npy can't be read: "),
        (["run", "PROGRAM", "--in", "TWO", "--param", "k=1"], 2, "slot a: .*two.npz holds no array a; it has b, d"),
        (["run", "PROGRAM", "--in", "EMPTY", "--param", "k=1"], 2, "empty.npz holds no array a; it has none"),
        (["run", "PROGRAM", "--in", "TORN", "--param", "k=1"], 1, "torn.npz can't be read"),
        *(
            (
                ["run", "PROGRAM", "--in", name, "--param", "k=1"],
                1,
                rf"slot a: .*{name.lower()}.np[yz] can't be read: .",
            )
            for name in ("TOKEN", "DEEP", "HUGE", "DEFLATED", "ENCRYPTED", "LZMA", "BZIP")
        ),
        (["asm", "BINARY"], 2, r"asm would overwrite .*scale.atlb, the program"),
        (["asm", "PROGRAM", "-o", "PROGRAM"], 2, r"asm would overwrite .*scale.atlas, the program"),
        (["asm", "PROGRAM", "-o", "LINK"], 2, r"asm would overwrite .*scale.atlas, the program"),
    ],
)
def test_what_goes_wrong(
    scale: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, text: str
) -> None:
    folder = scale.parent
    np.save(folder / "b.npy", np.arange(4, dtype=np.float32))
    np.save(folder / "objects.npy", np.array([{}, None]), allow_pickle=True)
    (folder / "short.npy").write_bytes((folder / "b.npy").read_bytes()[:-4])
    np.savez(folder / "two.npz", b=np.zeros(5), d=np.zeros(5))
    np.savez(folder / "empty.npz")
    (folder / "torn.npz").write_bytes((folder / "two.npz").read_bytes()[:-40])
    _damaged(folder)
    (folder / "scale.atlb").write_bytes(hg.Program(SCALE).to_bytes())
    (folder / "both.atlas").write_text(
        "program both\nslot x i32\nldg.i32 v, x[index]\nadd.i32 v, v, 1\nstg.i32 v, x[index]\nexit\n"
    )
    names: dict[str, Any] = {"PROGRAM": str(scale), "BINARY": str(folder / "scale.atlb")}
    names |= {"BOTH": str(folder / "both.atlas"), "LINK": str(folder / "." / ".." / folder.name / "scale.atlas")}
    for path in (*folder.glob("*.npy"), *folder.glob("*.npz")):
        names[path.stem.upper()] = str(path)
    arguments = [re.sub(r"[A-Z]+$", lambda found: names[found[0]], a) for a in arguments]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    try:
        found = cli.main(arguments)
    except SystemExit as stopped:
        found = int(stopped.code or 0)
    assert found == status
    assert re.search(text, capsys.readouterr().err)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("members", [{"a": [1, 2]}, {"z": [1, 2]}, {"z": [5, 6], "a": [1, 2]}])
def test_arrays_of_an_npz_file(scale: Path, members: dict[str, list[float]]) -> None:
    given, kept = scale.with_name("in.npz"), scale.with_name("out.npz")
    np.savez(given, **{name: np.array(value, np.float32) for name, value in members.items()})
    assert cli.main(["run", str(scale), "--in", str(given), "--out", str(kept), "--param", "k=3"]) == 0
    assert np.load(kept)["c"].tolist() == [3, 6]


def test_the_index_space_and_whole_numbers_in_all_spellings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.atlas"
    path.write_text("program p\nslot c i32\nparam k i32\nldp.i32 v, k\nstg.i32 v, c[index]\nexit\n")
    for shape, wanted in (("2x3", (2, 3)), ("2,3", (2, 3)), ("1x2,3", (1, 2, 3)), ("6", (6,))):
        for k, value in (("12", 12), ("-0x1F", -31), ("0b101", 5), ("0o17", 15)):
            words = ["--shape", shape, f"--param=k={k}", "--out", str(tmp_path / "c.npy"), "--block", "2x1x1"]
            assert cli.main(["run", str(path), *words]) == 0
            found = np.load(tmp_path / "c.npy")
            assert found.shape == wanted and (found == value).all()


def test_ctrl_c_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(hg, "num_threads", interrupted)
    assert cli.main(["info"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_several_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.atlas"
    path.write_text("program p\nslot c u32\nslot d u8\nstg.u32 7, c[index]\nstg.u8 8, d[index]\nexit\n")
    both = str(tmp_path / "both.npz")
    assert cli.main(["run", str(path), "--n", "2", "--out", both, "--out", f"d={both}"]) == 0
    assert {name: value.tolist() for name, value in np.load(both).items()} == {"c": [7, 7], "d": [8, 8]}
    one = str(tmp_path / "one.npy")
    assert cli.main(["run", str(path), "--n", "2", "--out", one, "--out", f"d={one}"]) == 2
    assert "d and c go to one file" in capsys.readouterr().err
    # The name is the file's, whatever it ends in.
    plain = tmp_path / "plain"
    assert cli.main(["run", str(path), "--n", "2", "--out", f"c={plain}"]) == 0
    assert np.load(plain).tolist() == [7, 7]


def test_slots_by_bytes_have_no_say_in_the_index_space(tmp_path: Path) -> None:
    path, out = tmp_path / "gather.atlas", tmp_path / "out.npy"
    path.write_text(
        "program gather\nslot table f32\nslot idx i32\nslot out f32\n  ldg.i32 i, idx[index]\n  cvt.i64.i32 o, i\n"
        "  mul.i64 o, o, 4\n  ldg.f32 v, table[o]\n  stg.f32 v, out[index]\n  exit\n"
    )
    for rows in (7, 1, 5, 3):  # more than there are indices, as many, and fewer
        table, idx = np.arange(rows, dtype=np.float32) * 10, np.array([4, 0, 3, 3, 1], np.int32) % rows
        np.save(tmp_path / "t.npy", table)
        np.save(tmp_path / "i.npy", idx)
        given = ["--in", f"table={tmp_path / 't.npy'}", "--in", f"idx={tmp_path / 'i.npy'}"]
        assert cli.main(["run", str(path), *given, "--out", str(out)]) == 0
        np.testing.assert_array_equal(np.load(out), table[idx])


def test_standard_streams(scale: Path) -> None:
    binary = hg.Program(SCALE).to_bytes()
    assert command("asm", "-", stdin=SCALE.encode()).stdout == binary
    assert command("asm", scale, "-o", "-").stdout == binary
    assert hg.Program(command("dis", "-", stdin=binary).stdout.decode()) == hg.Program(SCALE)
    assert b"ok: program scale" in command("verify", "-", stdin=SCALE.encode()).stdout
    x = np.arange(4, dtype=np.float32)
    done = command("run", scale, "--in", "-", "--out", "-", "--param", "k=2", stdin=npy(x))
    assert np.load(io.BytesIO(done.stdout)).tolist() == [0, 2, 4, 6]
    assert done.stderr == b"-: c, float32 (4,)\n"
    done = command("trace", scale, "--in", "-", "--out", "-", "--param", "k=2", stdin=npy(x))
    assert np.load(io.BytesIO(done.stdout)).tolist() == [0, 2, 4, 6]
    assert done.stderr.count(b"\n") == 6
    done = command("run", "-", "--in", "-", "--param", "k=2", stdin=binary)
    assert (done.returncode, done.stderr) == (
        2,
        b"error: slot a: standard input is the program already, and can be read once\n",
    )
    done = command("verify", "-", stdin=b"\xff\xfe")
    assert done.returncode == 1
    assert b"neither UTF-8 text nor" in done.stderr
    assert b"<stdin>:1:" in command("dis", "-", stdin=b"foo\n").stderr
    done = command("run", scale, "--in", "-", "--param", "k=2", stdin=b"foo\n")
    assert done.stderr == b"error: slot a: standard input is no .npy or .npz file\n"


@pytest.mark.parametrize(
    ("closed", "arguments", "status"),
    [
        ("stdout", "info", 0),
        ("stdout", "verify scale.atlas", 0),
        ("stdout", "run scale.atlas --in a=a.npy --param k=3", 0),
        ("stdout", "run scale.atlas --in a=a.npy --param k=3 --out c=-", 1),
        ("stdout", "asm scale.atlas -o -", 1),
        ("stdin", "verify -", 1),
        ("stderr", "verify absent.atlas", 1),
        ("stderr", "run scale.atlas --in a=a.npy --param k=3 --out c=-", 0),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors as POSIX has them")
def test_streams_may_be_closed(scale: Path, closed: str, arguments: str, status: int) -> None:
    """What would go to a closed stream goes nowhere else; where all is about that, the command fails."""
    number = ["stdin", "stdout", "stderr"].index(closed)
    code = f"import os, sys; os.close({number}); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", code, "-m", "hologram", *arguments.split()]
    found = subprocess.run(command, cwd=scale.parent, capture_output=True, stdin=subprocess.DEVNULL)
    assert found.returncode == status, found.stderr
    assert b"Traceback" not in found.stderr
    if closed == "stderr":
        output = npy(np.arange(5, dtype=np.float32) * 3) if status == 0 else b""
        assert found.stdout == output
    elif status:
        assert f"error: standard {'input' if number == 0 else 'output'} is closed" in found.stderr.decode()


def test_a_reader_that_goes_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "long.atlas"
    path.write_text("program p\nslot o f32\nmov.f32 x, 1.0\n" + "add.f32 x, x, 1.0\n" * 20000 + "exit\n")
    for action in ("dis", "verify"):
        words = [sys.executable, "-m", "hologram", action, *[str(path)] * (1 if action == "dis" else 3)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(60) == 141


STAGES = ("ir", "expanded", "instructions", "tidy", "schedule", "registers", "machine")


@pytest.mark.parametrize("engine", ["avx2", "avx512"])
def test_dis_shows_every_stage(scale: Path, capsys: pytest.CaptureFixture[str], engine: str) -> None:
    texts = {}
    for stage in STAGES:
        assert cli.main(["dis", "--stage", stage, "--engine", engine, str(scale)]) == 0
        texts[stage] = capsys.readouterr().out
    assert texts["ir"] == hg.Program(SCALE).canonical()
    assert len(set(texts.values())) > 3
    for stage in STAGES[2:]:
        for i in (0, 2, 3):  # parameters are loaded for all who use them
            line = SCALE.splitlines()[4 + i]
            assert f"; {i}: {line.strip()}\n" in texts[stage], (stage, texts[stage])
    code = re.findall(r"^ *[0-9a-f]+  [0-9a-f ]+  +(\w+)", texts["machine"], re.MULTILINE)
    assert "vmulps" in code
    assert code[-1] == "ret"
    assert ("zmm" in texts["machine"]) == (engine == "avx512")


def test_dis_shows_what_runs_here(scale: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["dis", "--stage", "machine", str(scale)])
    out, err = capsys.readouterr()
    if "by strips" in hg.Program(SCALE).analysis:  # it may have been asked for, or there is nothing else
        assert status == 1
        assert "an engine that does can be named" in err
    else:
        assert status == 0
        assert "vmulps" in out


@pytest.mark.parametrize(
    "words, status, why",
    [
        (["--stage", "assembly"], 1, 'stage is "assembly"; expected one of ir, expanded, .*, machine'),
        (["--stage", "machine", "--engine", "strips"], 1, 'engine is "strips"; .* are avx2, avx512'),
        (["--stage", "ir", "--engine", "avx"], 1, 'engine is "avx"'),
        (["--engine", "avx2"], 2, "give a --stage"),
    ],
)
def test_dis_knows_its_stages(
    scale: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, why: str
) -> None:
    assert cli.main(["dis", str(scale), *words]) == status
    assert re.search(why, capsys.readouterr().err)


def test_what_no_machine_code_is_made_of_says_so() -> None:
    graph = "program p\nslot c u8\n  ldg.u8 x, c[index]\n  mirror x, x\n  stg.u8 x, c[index]\n  exit\n"
    with pytest.raises(BackendError, match="MIRROR"):
        hg.Program(graph).stage("machine", "avx2")
    with pytest.raises(BackendError, match=r"runs by strips.*MIRROR"):
        hg.Program(graph).stage("machine")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without end here")
def test_files_without_end(scale: Path, tmp_path: Path) -> None:
    """Are read as far as a program's file may go, and no farther; what is no array is seen by its first bytes."""
    limit = b"has more than 67108864 bytes, the limit of a program's file"
    for words in (["verify"], ["dis"], ["asm"], ["run"], ["trace"]):
        done = command(*words, "/dev/zero")
        assert (done.returncode, limit in done.stderr) == (1, True), done
        with open("/dev/zero", "rb") as zeros:
            run = [sys.executable, "-m", "hologram", *words, "-"]
            piped = subprocess.run(run, stdin=zeros, capture_output=True, timeout=60)
        assert (piped.returncode, b"standard input " + limit in piped.stderr) == (1, True), piped
    with open("/dev/zero", "rb") as zeros:
        run = [sys.executable, "-m", "hologram", "run", str(scale), "--in", "-", "--param", "k=2"]
        done = subprocess.run(run, stdin=zeros, capture_output=True, timeout=60)
    assert (done.returncode, b"standard input is no .npy or .npz file" in done.stderr) == (1, True), done
    large = tmp_path / "large.atlas"
    large.write_text(SCALE + ";" * (2**26 - len(SCALE)))
    assert hg.Program.from_file(large).name == "scale"
    large.write_text(SCALE + ";" * (2**26 + 1 - len(SCALE)))
    with pytest.raises(ValueError, match=r"large\.atlas has more than 67108864 bytes"):
        hg.Program.from_file(large)
