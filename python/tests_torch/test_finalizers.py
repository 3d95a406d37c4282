"""Functions whose calls are recorded and repeated, where finalizers run amid a recording or a call."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import hologram as hg
from hologram._ffi import native
from hologram_torch import functional as F
from hologram_torch._executors import executor_of
from hologram_torch._fused import Fused
from hologram_torch._products import _LINEAR
from hologram_torch._table import OPERATIONS

F.add(torch.ones(1), 1.0)
pytestmark = pytest.mark.skipif(
    not native.torch_usual(True), reason="torch's libraries don't tell C about tensors here: nothing is recorded"
)


@contextlib.contextmanager
def finalized(after: int, act: Callable[[], None]) -> Iterator[None]:
    """Have a finalizer do something when about so many objects were made, as any program's may."""

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if armed:
                act()

    armed, thresholds = True, gc.get_threshold()
    gc.disable()
    gc.collect(0)
    Cycle()
    gc.set_threshold(after)
    gc.enable()
    try:
        yield
    finally:
        armed = False
        gc.set_threshold(*thresholds)


def test_inputs_that_finalizers_change_meanwhile() -> None:
    """Results are made between the look at inputs and the work: nothing is written beyond what an input is by then."""
    x, w, b = torch.randn(4, 16), torch.ones(16), torch.zeros(16)
    for _ in range(4):
        F.batch_norm(x, torch.zeros(16), torch.ones(16), w, b, training=True)
    changed = 0
    for after in range(1, 40):
        running, store = torch.zeros(16), torch.zeros(32)

        def act(running: Tensor = running, store: Tensor = store) -> None:
            running.data = store[:1]

        with finalized(after, act), contextlib.suppress(RuntimeError):
            F.batch_norm(x, running, torch.ones(16), w, b, training=True)
        changed += len(running) == 1
        assert not store[1:].any()
    assert changed


def test_inputs_that_finalizers_move_meanwhile() -> None:
    """To other memory that will do as well: the calls are done all the same, and once, though the first writes."""

    def both(x: Tensor, y: Tensor) -> Tensor:
        hg.ops.scalar_mul(x, x, scalar=2.0)
        for _ in range(3):
            y = OPERATIONS["neg"](y)
        return OPERATIONS["mul"](x, y)

    fused = Fused("both", both, 2, (0,))
    for _ in range(4):
        fused((torch.ones(16), torch.ones(16)))
    moved = 0
    for after in range(1, 40):
        x, y = torch.ones(16), torch.full((16,), 3.0)

        def act(y: Tensor = y) -> None:
            y.data = torch.full((32,), 3.0)[::2]

        with finalized(after, act):
            found = fused((x, y))
        moved += y.stride() == (2,)
        assert found.tolist() == [-6.0] * 16
        assert x.tolist() == [2.0] * 16
    assert moved


@pytest.mark.parametrize("requires", [False, True])
def test_what_finalizers_do_meanwhile_is_not_repeated(requires: bool) -> None:
    """Not even what they do to the inputs: only what two recordings have alike is."""
    fused = Fused("linear", _LINEAR.function, 3)
    acted = 0
    for after in range(1, 100, 3):
        x, w, others = torch.ones(3, after), torch.ones(2, after), []
        fused((x, w.requires_grad_(requires), None), (None,))

        def act(x: Tensor = x, others: list[Tensor] = others) -> None:
            others.append(OPERATIONS["exp"](x))
            hg.ops.scalar_mul(x, x, scalar=2.0)

        with finalized(after, act):
            y = fused((x, w, None), (None,))
            if requires:
                y.sum().backward()
        acted += len(others)
        for _ in range(3):
            given = torch.ones(3, after), torch.ones(2, after, requires_grad=requires)
            y = fused((*given, None), (None,))
            if requires:
                y.sum().backward()
            assert all(torch.equal(t.detach(), torch.ones_like(t)) for t in given)
            assert torch.equal(y.detach(), torch.full((3, 2), float(after)))
    assert acted


def test_inputs_that_are_written_are_said_to_be() -> None:
    """A function that writes another is not repeated: nobody can tell that from what a finalizer did."""
    for written in ((), (0,)):
        fused = Fused("doubled", lambda x: hg.ops.scalar_mul(x, x, scalar=2.0) or OPERATIONS["exp"](x), 1, written)
        for i in range(4):
            x = torch.ones(4)
            assert torch.equal(fused((x,)), OPERATIONS["exp"](x))
            assert x[0] == 2 or not written
            assert (fused._forms[()].known(executor_of(x), torch.ones(4)) is not None) == (written == (0,) and i > 0)


@pytest.fixture
def overwritten() -> Iterator[None]:
    """Have the C library overwrite what is freed, where it can."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    perturb = -6
    if mallopt:
        mallopt(perturb, 165)
    yield
    if mallopt:
        mallopt(perturb, 0)


@pytest.mark.usefixtures("overwritten")
@pytest.mark.parametrize("after", range(1, 8))
def test_recordings_that_finalizers_end_while_they_are_asked_about(after: int) -> None:
    """Up to Python 3.11 making the answer may run them."""
    x = torch.ones(4)
    for ask in (native.torch_written, lambda: native.torch_uses((x,), 0, 2)[1]):
        native.torch_record(True)
        F.mul(torch.ones(4), F.add(x, 1.0))
        answer: tuple[Any, ...] = ()
        with finalized(after, lambda: native.torch_record(False)), contextlib.suppress(RuntimeError):
            answer = ask()  # refused if it was forgotten before
        native.torch_record(False)
        for tensor in answer:
            assert (tensor[0] if ask is native.torch_written else tensor).shape == (4,)
