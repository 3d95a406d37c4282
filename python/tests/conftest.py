"""What the tests share: the backend under test, and executors on it.

HOLOGRAM_TEST_BACKEND names the backend; test_asynctest.py runs the suite on the test-only one too.
"""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support import DEVICE

import hologram as hg


def pytest_collection_finish() -> None:
    # Tests that see what goes have garbage collected, by the hundred: let that look at what they made, not each time
    # through the modules and tests that stay to the end.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # for what the process looks for when it ends


@pytest.fixture(scope="session")
def hatch_build() -> ModuleType:
    """The module that builds the library."""
    file = Path(__file__).resolve().parents[2] / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def device() -> str:
    return DEVICE


@pytest.fixture
def ex() -> Iterator[hg.Executor]:
    """An executor on the backend under test."""
    with hg.Executor(DEVICE) as executor:
        yield executor


@pytest.fixture
def host() -> Iterator[hg.Executor]:
    """An executor whose buffers numpy sees in place."""
    with hg.Executor("cpu") as executor:
        yield executor
