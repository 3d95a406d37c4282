"""What the tests of hologram_torch share."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator

import pytest
import torch
from moving import devices

import hologram as hg

torch.set_num_threads(1)  # torch's own wait for each other at full speed, which takes long where others work too

for absent in (torch.cuda, torch.xpu, torch.mtia):
    if not absent.is_available():
        # torch would keep each seed for them with the caller's stack as text, which takes longer than most tests.
        absent.manual_seed_all = lambda seed: None


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # torch's modules and the tests stay to the end, so that no collection need look through them


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # for what the process looks for when it ends


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def ex() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as executor:
        yield executor


@pytest.fixture(params=devices())
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def torchs_own_warnings() -> Iterator[None]:
    """Warnings are errors here, but torch's about itself."""
    with warnings.catch_warnings():
        for module in ("torch", "networkx", "sympy"):
            warnings.filterwarnings("ignore", module=rf"{module}\b")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, module in sys.modules.items():
        if name.endswith("test_opinfo") and module.counted:
            total = sum(module.counted.values())
            terminalreporter.write_line(f"{total} of torch's samples for {len(module.counted)} functions")
