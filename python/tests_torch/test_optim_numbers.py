"""Optimisers' numbers at the ends of their ranges: what is not finite, and options out of range."""

from __future__ import annotations

import pytest
import torch
from test_optim import KINDS

from hologram_torch import optim

INF = float("inf")
CORNERS = torch.tensor([0.0, 1.0, -2.0, INF, -INF, torch.nan], dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.0}, {"lr": 0.0}, {"lr": INF}], ids=str)
@pytest.mark.parametrize("kind", [*KINDS, "Adam captured", "AdamW captured"])
def test_numbers_that_are_not_finite(kind: str, options: dict[str, float], device: str) -> None:
    """Come out as torch's: what an option of 0 leaves out, nothing infinite is multiplied by."""
    name, own = KINDS.get(kind) or KINDS[kind.split()[0]]
    for dtype in (torch.float32, torch.float64):
        found = []
        for module in (optim, torch.optim):
            p, g = (t.flatten().to(device, dtype) for t in torch.meshgrid(CORNERS, CORNERS, indexing="ij"))
            optimizer = getattr(module, name)([torch.nn.Parameter(p)], **{**own, **options})
            (q,) = optimizer.param_groups[0]["params"]
            if "captured" in kind and module is optim:
                optimizer.param_groups[0]["capturable"] = True  # which torch has on GPUs alone
            for _ in range(3):
                q.grad = g.clone()
                optimizer.step()
            found.append(q.detach())
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6, equal_nan=True)
