"""Second derivatives beside torch's own: where there are none, and of operations on rows to within few roundings."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest
import torch
from torch import Tensor

from hologram_torch import functional as F

X = torch.tensor([-1.5, -0.5, 0.5, 2.0, 0.0])
Y = torch.tensor([-1.0, -0.5, 1.0, 3.0, 1.0])

FLAT: dict[str, tuple[Callable[[Any], Callable[..., Tensor]], tuple[Tensor, ...]]] = {
    "abs": (lambda of: of.abs, (X,)),
    "neg": (lambda of: of.neg, (X,)),
    "relu": (lambda of: of.relu, (X,)),
    "leaky_relu": (lambda of: getattr(of, "leaky_relu", torch.nn.functional.leaky_relu), (X,)),
    "clamp by numbers": (lambda of: lambda x: of.clamp(x, -1, 1), (X,)),
    "clamp from a number": (lambda of: lambda x: of.clamp(x, min=-1), (X,)),
    "clamp by tensors": (lambda of: of.clamp, (X, Y - 1, Y + 0.2)),
    "maximum": (lambda of: of.maximum, (X, Y)),
    "minimum": (lambda of: of.minimum, (X, Y)),
    "add": (lambda of: of.add, (X, Y)),
    "where": (lambda of: lambda x, y: of.where(Y > 0, x, y), (X, Y)),
    "amax": (lambda of: lambda x: of.amax(x, 0), (X,)),
    "l1_loss": (lambda of: getattr(of, "l1_loss", torch.nn.functional.l1_loss), (X, Y)),
    "maximum of shapes": (lambda of: of.maximum, (X, Y[:, None])),
    "l1_loss of halves": (lambda of: getattr(of, "l1_loss", torch.nn.functional.l1_loss), (X.bfloat16(), Y.bfloat16())),
}


def seconds(function: Callable[..., Tensor], given: tuple[Tensor, ...], form: str) -> list[Any]:
    """Return, of each first derivative, its derivatives by the inputs and what was given; None where it has none."""
    inputs = [x.clone().requires_grad_() for x in given]
    result = function(*inputs)
    g = torch.full_like(result, 0.75).requires_grad_(form != "constant")
    firsts = torch.autograd.grad(result, inputs, g, create_graph=True)
    found: list[Any] = []
    for first in firsts:
        if not first.requires_grad:
            found.append("no graph")
            continue
        of = (first * first if form == "squared" else first).sum()
        by = [*inputs, g] if form != "constant" else inputs
        found.append(torch.autograd.grad(of, by, allow_unused=True, retain_graph=True))
    return found


@pytest.mark.parametrize("form", ["constant", "given", "squared"])
@pytest.mark.parametrize("name", FLAT)
def test_of_what_is_piecewise_linear(name: str, form: str) -> None:
    pick, given = FLAT[name]
    got, want = seconds(pick(F), given, form), seconds(pick(torch), given, form)
    for ours, torchs in zip(got, want):
        if isinstance(torchs, str) or isinstance(ours, str):
            assert ours == torchs
            continue
        for a, b in zip(ours, torchs):
            assert (a is None) == (b is None)
            torch.testing.assert_close(a, b)
