"""Memory that the host sees in place, also where a device works by itself: what was called before is done by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
from exchange import Exchange
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


def test_arrays_of_numpy_s_are_taken_in_place(seen: hg.Executor) -> None:
    """Whatever the device calls its own memory: as wrap takes them."""
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    hg.ops.vector_add(seen, x, x, out)
    assert (out == 2 * x).all()
    double = hg.Program("program d\nslot c f32\nldg.f32 x, c[index]\nadd.f32 x, x, x\nstg.f32 x, c[index]\nexit")
    seen.launch(double, c=out)
    assert (out == 4 * x).all()
    w = seen.wrap(out)
    seen.launch(double, c=w)
    seen.launch(double, c=out)
    seen.synchronize()
    assert (out == 16 * x).all()


def test_arrays_of_numpy_s_beside_tensors_of_the_device(seen: hg.Executor) -> None:
    """The device's are in the order of their owner's stream, on which nobody waits; numpy's are not."""
    kind = Exchange(stream=0xF001)
    device = seen._device_type
    for i in range(5):
        x, out = np.full(N, i, np.float32), np.zeros(N, np.float32)
        hg.ops.vector_add(seen, kind.type(x, device_type=device), x, out)
        assert (out == 2 * i).all()
