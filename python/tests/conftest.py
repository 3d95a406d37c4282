"""What the tests share: the backend under test, and executors on it.

HOLOGRAM_TEST_BACKEND names the backend; test_asynctest.py runs the suite on the test-only one too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support import DEVICE

import hologram as hg


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
