"""This suite once more, on the test-only backends: asynchronous, with memory of their own as a GPU's, or the host's.

They are in no library that is shipped: the build tag asynctest adds them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITES = {
    "asynctest": (
        "buffer buffer_numbers builder dlpack empty_shapes executor lifetimes masks ops process products profile "
        "program reductions results signals copies device_arrays events futures "
        "wrapped"
    ).split(),
    "asynctest-visible": ["buffer", "dlpack", "events", "futures", "executor", "lifetimes", "visible", "wrapped"],
    "asynctest-enters": [],
    "asynctest-enters-visible": ["visible"],
}
ONLY = {  # what others have not
    "asynctest": ["interfaces", "loading", "lost", "streams"],
    "asynctest-enters": ["entered"],
    "asynctest-enters-visible": ["entered"],
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, hatch_build: ModuleType) -> Path:
    if not shutil.which("go"):
        pytest.skip("go is not on PATH; ./build.sh test puts it there")
    # As the library is built that is tested, so that Go compiles anew only what has the tag.
    folder = tmp_path_factory.mktemp("asynctest")
    return Path(hatch_build.build_library(hatch_build.find_toolchain(), folder, "asynctest"))


@pytest.mark.parametrize("backend", list(SUITES))
def test_the_suite_passes_on_an_asynchronous_device(library: Path, backend: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(str(Path(__file__).with_name(f"test_{name}.py")) for name in SUITES[backend]),
            *(str(Path(__file__).with_name(f"{name}.py")) for name in ONLY.get(backend, [])),
        ],
        cwd=ROOT,
        env={**os.environ, "HOLOGRAM_LIBRARY": str(library), "HOLOGRAM_TEST_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    print(done.stdout.splitlines()[-1])
