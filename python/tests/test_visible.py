"""Memory that the host sees in place, also where a device works by itself: what was called before is done by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
from support import DEVICE

import hologram as hg

N = 1 << 20


@pytest.fixture
def seen() -> Iterator[hg.Executor]:
    with hg.Executor(DEVICE) as executor:
        if not executor.host_visible:
            pytest.skip(f"memory of {DEVICE} is not the host's")
        yield executor


class Copied:
    """Asks a buffer for a copy, as numpy.from_dlpack(buffer, copy=True) of newer versions."""

    def __init__(self, buffer: hg.Buffer) -> None:
        self._buffer = buffer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._buffer.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._buffer.__dlpack__(**{**options, "copy": True})


WAYS: dict[str, Callable[[hg.Buffer], Any]] = {
    "asarray": np.asarray,
    "memoryview": lambda buffer: np.asarray(memoryview(buffer)),
    "from_dlpack": np.from_dlpack,
    "a copy by DLPack": lambda buffer: np.from_dlpack(Copied(buffer)),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_what_was_written_before_is_seen(seen: hg.Executor, way: str) -> None:
    with hg.Executor(DEVICE) as other, seen.allocate(N) as x:
        for i in range(5):
            hg.ops.fill(other if i % 2 else seen, x, float(i))
            assert (WAYS[way](x) == i).all()
