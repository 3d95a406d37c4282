"""What functions made of several operations do where a recording fails."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_fused import is_node
from torch import Tensor

import hologram as hg
from hologram.errors import InternalError, LaunchCancelledError
from hologram_torch._fused import Fused
from hologram_torch._table import OPERATIONS


class _Failing(torch.autograd.Function):
    """Twice its input, whose gradient raises."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, error: Exception) -> Tensor:
        ctx.error = error
        return OPERATIONS["scaled"](x.detach(), 2.0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise ctx.error


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize("error", [LaunchCancelledError("stop"), InternalError("stop")])
def test_what_is_raised_while_recording_is_told(error: Exception, place: str) -> None:
    """The second call is recorded, with its gradient; what a cancelled or broken one raises is not taken for it."""
    failing = False

    def function(x: Tensor) -> Tensor:
        if failing and place == "forward":
            raise error
        return _Failing.apply(x, error) if failing else OPERATIONS["scaled"](x, 2.0)

    fused, x = Fused("failing", function, 1), torch.ones(3, requires_grad=True)
    fused((x,))
    failing = True
    with pytest.raises(type(error), match="stop"):
        fused((x,))
    failing = False
    assert [fused((x,)).tolist() for _ in range(6)] == [[2.0, 2.0, 2.0]] * 6


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("short"),
        hg.OutOfMemoryError("short"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: short"),
    ],
)
def test_a_recording_without_memory_is_given_up(error: Exception) -> None:
    """It takes more than the call, which is then made; what that raises is told."""
    failing, calls = True, 0

    def function(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return _Failing.apply(x, error) if failing else OPERATIONS["scaled"](x, 2.0)

    fused, x = Fused("short", function, 1), torch.ones(3, requires_grad=True)
    assert [fused((x,)).tolist() for _ in range(4)] == [[2.0, 2.0, 2.0]] * 4
    assert calls > 4
    with pytest.raises(type(error), match="short"):
        fused((x,)).sum().backward()
    failing = False
    assert [fused((x,)).tolist() for _ in range(6)] == [[2.0, 2.0, 2.0]] * 6


def test_calls_without_a_gradient_are_not_recorded() -> None:
    """That autograd has none is no error of a call."""
    refusing = Fused("refusing", lambda x: _Failing.apply(x, RuntimeError("no gradient")), 1)
    detached = Fused("detached", lambda x: OPERATIONS["scaled"](x.detach(), 2.0), 1)
    x = torch.ones(3, requires_grad=True)
    for fused in (refusing, detached):
        for _ in range(4):
            y = fused((x,))
            assert y.tolist() == [2.0, 2.0, 2.0] and not is_node(y)
    with pytest.raises(RuntimeError, match="no gradient"):
        refusing((x,)).sum().backward()
