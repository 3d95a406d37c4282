"""What the tests of training share: a small net, its batches and its loss, and runs of such."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hologram_torch import functional as F
from hologram_torch import nn, optim, training

__all__ = ["batches", "loss", "network", "trained"]


def network(device: str = "cpu") -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.25), nn.LayerNorm(16), nn.Linear(16, 3)).to(
        device
    )


def batches(device: str = "cpu", count: int = 24, size: int = 6) -> Any:
    made = torch.Generator().manual_seed(1)
    x = torch.randn(count, 8, generator=made)
    data = torch.utils.data.TensorDataset(x.to(device), (x.sum(1) > 0).long().to(device))
    return torch.utils.data.DataLoader(data, batch_size=size, shuffle=True)


def loss(model: torch.nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def trained(given: Any, **named: Any) -> Any:
    model = network()
    arguments = {"model": model, "optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "batches": given}
    return training.fit(**{**arguments, "epochs": 2, "progress": False, **named})
