"""Nothing is copied, and nothing is kept."""

from __future__ import annotations

import gc
import resource
import weakref
from typing import Any, Callable

import pytest
import torch
from torch import Tensor

import hologram_torch as ht
from hologram_torch import functional as F


def resident() -> float:
    """Megabytes that the process has in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


@ht.kernel
def scaled(x: Any, y: Any) -> Any:
    return x * y + x


STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": F.add,
    "broadcast": lambda x, y: F.mul(x, y[:1]),
    "softmax": lambda x, y: F.softmax(x.view(128, 128), 1),
    "linear": lambda x, y: F.linear(x.view(128, 128), y.view(128, 128)[:2]),
    "loss": F.mse_loss,
    "kernel": scaled,
}


@pytest.mark.parametrize("name", STEPS)
def test_memory_is_flat(name: str, device: str) -> None:
    """Results, gradients and what is saved for them go when nobody has them."""
    x, y = (torch.randn(1 << 14, requires_grad=True, device=device) for _ in range(2))

    def run(rounds: int) -> None:
        for _ in range(rounds):
            STEPS[name](x, y).sum().backward()
            x.grad = y.grad = None
            with torch.no_grad():
                STEPS[name](x, y)

    run(20)
    gc.collect()
    before, there = resident(), torch.cuda.memory_allocated() if device != "cpu" else 0
    run(500)  # of 64 KB and more each
    gc.collect()
    assert resident() - before < 20
    if device != "cpu":
        assert torch.cuda.memory_allocated() == there


def test_tensors_are_let_go() -> None:
    x = torch.randn(8, requires_grad=True)
    y = F.exp(F.mul(x, 2.0))
    kept = weakref.ref(y)
    y.sum().backward()
    del y
    assert kept() is None


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("recorded", [True, False])
def test_inputs_that_then_depend_on_the_result_are_let_go(backward: bool, recorded: bool) -> None:
    """A node that held the input itself would be held by it."""
    w, x = torch.randn(3, 5, requires_grad=True), torch.randn(4, 5)

    class Tag:
        pass

    gone = []
    for _ in range(5):  # the third is the first that is known
        b = torch.randn(3, requires_grad=recorded) * 1
        y = F.linear(x, w, b)
        b.add_(y.sum(0))
        if backward:
            b.sum().backward()
        b.tag = Tag()
        gone.append(weakref.ref(b.tag))
        del b, y
    gc.collect()
    assert [tag() for tag in gone] == [None] * 5


def test_results_are_torchs_own_memory() -> None:
    """A view of an argument is read, and a result written, where it lies."""
    whole = torch.randn(64)
    part = whole[3:35].view(4, 8).t()
    out = torch.empty(4, 8).t()
    F.add(part, part, out=out)
    assert torch.equal(out, part + part)
    grown = torch.zeros(8, 4)
    F.mul(part, 2.0, out=grown)
    whole[3] = 100
    assert grown[0, 0] != 200
    F.mul(part, 2.0, out=grown)
    assert grown[0, 0] == 200


def test_gradients_that_are_the_results_own_are_not_computed() -> None:
    """Of a sum both arguments get the gradient by the result itself."""
    x, y = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    g = torch.randn(4)
    found = torch.autograd.grad(F.add(x, y), (x, y), g)
    assert [t.data_ptr() for t in found] == [g.data_ptr()] * 2
