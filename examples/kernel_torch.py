"""A layer of one's own, made of one kernel: a gate with a learned slope for each channel, on handwritten digits.

    python examples/kernel_torch.py [--steps 200] [--picture kernel_torch.png]

What torch does in four operations and keeps three tensors for is one function of numbers here. It becomes one program,
and its gradient, by all three arguments, another that is derived from it. The network is trained with either layer from
the same start; a run in f64 tells how much of a distance between the losses is rounding.
"""

from __future__ import annotations

import argparse
from typing import Callable

import numpy as np
import torch
from sklearn.datasets import load_digits

import hologram
import hologram_torch
from hologram_torch import functional as F


@hologram_torch.kernel
def gate(a, b, slope):
    """Return b where a is large, nothing where it is small; slope says how steep it is between (Swish-GLU)."""
    return a * hologram.sigmoid(slope * a) * b


def gate_of_torch(a: torch.Tensor, b: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    return a * torch.sigmoid(slope * a) * b


class Gated(torch.nn.Module):
    """Two linear maps, one of which gates the other."""

    def __init__(self, inputs: int, outputs: int, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.both = torch.nn.Linear(inputs, 2 * outputs)
        self.slope = torch.nn.Parameter(torch.ones(outputs))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.both(x).chunk(2, dim=-1)  # views, which the kernel takes as they lie
        return self.function(a, b, self.slope)


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return images (n, 64) in 0 … 1 and their digits, for training and for testing."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, classes = torch.from_numpy(digits.data[order] / 16).float(), torch.from_numpy(digits.target[order]).long()
    return images[:1400], classes[:1400], images[1400:], classes[1400:]


def train(
    function: Callable[..., torch.Tensor], loss: Callable[..., torch.Tensor], dtype: torch.dtype, steps: int
) -> tuple[torch.nn.Module, list[float]]:
    """Train on batches of 64, and return the network and the loss of each step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(Gated(64, 32, function), torch.nn.Linear(32, 10)).to(dtype)
    adam = torch.optim.Adam(model.parameters(), lr=0.005)
    images, classes, _, _ = data()
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(images), (64,))
        adam.zero_grad()
        found = loss(model(images[batch].to(dtype)), classes[batch])
        found.backward()
        adam.step()
        losses.append(found.item())
    return model, losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--picture", default="kernel_torch.png")
    options = parser.parse_args()

    model, ours = train(gate, F.cross_entropy, torch.float32, options.steps)
    theirs, exact = (
        train(gate_of_torch, torch.nn.functional.cross_entropy, dtype, options.steps)[1]
        for dtype in (torch.float32, torch.float64)
    )
    apart, rounding = (max(abs(x - y) for x, y in zip(theirs, other)) for other in (ours, exact))
    _, _, images, classes = data()
    with torch.no_grad():
        right = (model(images).argmax(1) == classes).float().mean().item()
    slope = model[0].slope.detach()
    print(f"losses: at most {apart:.2g} apart; of torch in f32 and in f64: {rounding:.2g}")
    print(f"loss: {ours[0]:.3f} at first, {ours[-1]:.3f} at last; accuracy: {right:.3f}")
    print(f"slopes: {slope.min():.2f} to {slope.max():.2f}, 1 at first")
    draw(ours, theirs, slope, options.picture)


def draw(ours: list[float], theirs: list[float], slope: torch.Tensor, file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    left.semilogy(theirs, label="torch, four operations")
    left.semilogy(ours, "--", label="one kernel")
    left.set(xlabel="step", title="cross entropy")
    left.legend()
    a = torch.linspace(-6, 6, 200).view(-1, 1)
    right.plot(a, gate(a, 1.0, slope.sort().values[:: len(slope) // 8]))
    right.set(xlabel="a", title="the gates that were learned, b = 1")
    figure.tight_layout()
    figure.savefig(file)
    print(f"drawn: {file}")


if __name__ == "__main__":
    main()
