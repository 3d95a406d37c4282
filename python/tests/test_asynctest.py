"""This suite once more, on the test-only backend: asynchronous, with memory of its own, as a GPU's.

The backend is in no library that is shipped: the build tag asynctest adds it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hologram

ROOT = Path(__file__).resolve().parents[2]
SUITE = ["buffer", "builder", "dlpack", "executor", "masks", "ops", "process", "program", "results"]


def test_the_suite_passes_on_an_asynchronous_device(tmp_path: Path) -> None:
    go = shutil.which("go")
    if not go:
        pytest.skip("go is not on PATH; ./build.sh test puts it there")
    library = tmp_path / "libhologram.so"
    subprocess.run(
        [
            *(go, "build", "-buildmode=c-shared", "-tags=asynctest", "-buildvcs=false"),
            *(f"-ldflags=-X main.version={hologram.__version__}", "-o", str(library), "./capi"),
        ],
        cwd=ROOT,
        check=True,
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(str(Path(__file__).with_name(f"test_{name}.py")) for name in SUITE),
            str(Path(__file__).with_name("streams.py")),
        ],
        cwd=ROOT,
        env={**os.environ, "HOLOGRAM_LIBRARY": str(library), "HOLOGRAM_TEST_BACKEND": "asynctest"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    print(done.stdout.splitlines()[-1])
