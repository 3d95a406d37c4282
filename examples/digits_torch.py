"""Handwritten digits by a PyTorch model, trained by torch and, converted, by Hologram.

    python examples/digits_torch.py [--steps 200] [--picture digits_torch.png]

Both start from the same weights and see the same batches. A third run in f64 tells how much of a distance between two
losses is rounding. Draws the losses and their distances, and prints what they come to. Where there is a CUDA device,
Hologram trains on that too, and the losses and weights have the same bits.
"""

from __future__ import annotations

import argparse
import copy

import numpy as np
import torch
from sklearn.datasets import load_digits

import hologram
import hologram_torch
from hologram_torch import optim


def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return images (n, 64) in 0 … 1 and their digits, for training and for testing."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = torch.from_numpy(digits.data[order] / 16).float()
    classes = torch.from_numpy(digits.target[order]).long()
    return images[:1400], classes[:1400], images[1400:], classes[1400:]


def train(model: torch.nn.Module, adam: torch.optim.Optimizer, steps: int, loss: torch.nn.Module) -> list[float]:
    """Train on batches of 32 and return the loss of each step."""
    first = next(model.parameters())
    images, classes = (tensor.to(first.device) for tensor in data()[:2])
    dtype = first.dtype
    chosen = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(steps):
        batch = torch.randint(len(images), (32,), generator=chosen).to(first.device)
        adam.zero_grad()
        found = loss(model(images[batch].to(dtype)), classes[batch])
        found.backward()
        adam.step()
        losses.append(found.item())
    return losses


def distance(a: list[float], b: list[float]) -> float:
    """Return the largest distance between the losses of two runs."""
    return max(abs(x - y) for x, y in zip(a, b))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--picture", default="digits_torch.png")
    options = parser.parse_args()

    torch.manual_seed(0)
    by_torch = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    in_f64, ours = copy.deepcopy(by_torch).double(), copy.deepcopy(by_torch)
    print(hologram_torch.convert(ours))

    on_gpu = copy.deepcopy(ours)

    cross_entropy = torch.nn.CrossEntropyLoss()
    losses = {
        "torch": train(by_torch, torch.optim.Adam(by_torch.parameters()), options.steps, cross_entropy),
        "torch, f64": train(in_f64, torch.optim.Adam(in_f64.parameters()), options.steps, cross_entropy),
        "hologram": train(ours, optim.Adam(ours.parameters()), options.steps, hologram_torch.nn.CrossEntropyLoss()),
    }
    rounding, apart = distance(losses["torch"], losses["torch, f64"]), distance(losses["torch"], losses["hologram"])
    print(f"losses of hologram and torch: at most {apart:.1e} apart; of torch in f32 and in f64: {rounding:.1e}")
    _, _, images, classes = data()
    with torch.no_grad():
        for name, model in (("torch", by_torch), ("hologram", ours)):
            print(f"accuracy of {name}: {(model(images).argmax(1) == classes).float().mean():.3f}")
    if torch.cuda.is_available() and hologram.is_cuda_available():
        on_gpu.cuda()
        adam, loss = optim.Adam(on_gpu.parameters()), hologram_torch.nn.CrossEntropyLoss()
        same = train(on_gpu, adam, options.steps, loss) == losses["hologram"]
        same &= all(torch.equal(a, b.cpu()) for a, b in zip(ours.parameters(), on_gpu.parameters()))
        print(f"on {torch.cuda.get_device_name()}: {'the same bits' if same else 'OTHER BITS'} in every step")
    draw(losses, options.picture)


def draw(losses: dict[str, list[float]], file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4))
    for name, style in (("torch", "-"), ("hologram", "--")):
        left.plot(losses[name], style, label=name)
    left.set(xlabel="step", ylabel="loss", title="losses")
    left.legend()
    for name in ("hologram", "torch, f64"):
        right.semilogy([abs(a - b) + 1e-12 for a, b in zip(losses[name], losses["torch"])], label=f"|{name} − torch|")
    right.set(xlabel="step", title="distances from torch's in f32")
    right.legend()
    figure.tight_layout()
    figure.savefig(file)
    print(f"drawn: {file}")


if __name__ == "__main__":
    main()
