"""Handwritten digits by two processes that share each batch: torch's DistributedDataParallel around Hologram's layers.

    python examples/ddp_torch.py [--steps 60] [--device cpu] [--picture ddp_torch.png]

Each process has half of a batch, and torch averages the gradients: by gloo on the CPU, or with --device cuda by NCCL,
each process on a GPU of its own. One process with whole batches trains beside, and the picture shows both losses.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from hologram_torch import nn, optim

PROCESSES, BATCH = 2, 64


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model: torch.nn.Module, device: str, steps: int, rank: int, processes: int) -> list[Any]:
    """Train on this process's part of each batch, and return the losses of all parts."""
    digits = load_digits()
    images, classes = torch.from_numpy(digits.data / 16).float(), torch.from_numpy(digits.target).long()
    images, classes = images.to(device), classes.to(device)
    chosen = torch.Generator().manual_seed(0)
    adam, loss = optim.Adam(model.parameters(), lr=3e-3), nn.CrossEntropyLoss()
    losses = []
    for _ in range(steps):
        mine = torch.randint(len(images), (BATCH,), generator=chosen).chunk(processes)[rank].to(device)
        adam.zero_grad()
        found = loss(model(images[mine]), classes[mine])
        found.backward()
        adam.step()
        mean = found.detach().clone()
        if processes > 1:
            distributed.all_reduce(mean)
        losses.append(mean.item() / processes)
    return losses


def process(rank: int, folder: str, device: str, steps: int) -> None:
    """What each process does."""
    torch.set_num_threads(1)
    where, by = (Path(folder) / "meeting").as_uri(), "gloo"
    if device == "cuda":
        device, by = f"cuda:{rank}", "nccl"
        torch.cuda.set_device(rank)
    distributed.init_process_group(by, init_method=where, rank=rank, world_size=PROCESSES)
    model = DistributedDataParallel(network().to(device))
    losses = train(model, device, steps, rank, PROCESSES)
    torch.save((losses, model.module.cpu().state_dict()), Path(folder) / f"rank{rank}.pt")
    distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--picture", default="ddp_torch.png")
    options = parser.parse_args()
    if options.device == "cuda" and torch.cuda.device_count() < PROCESSES:
        parser.error(f"--device cuda takes {PROCESSES} GPUs; torch sees {torch.cuda.device_count()}")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(process, (folder, options.device, options.steps), nprocs=PROCESSES)
        (losses, ours), (_, others) = (torch.load(Path(folder) / f"rank{rank}.pt") for rank in range(PROCESSES))
    same = all(torch.equal(ours[name], others[name]) for name in ours)
    print(f"the processes' parameters are {'the same' if same else 'DIFFERENT'}")
    alone = network().to(options.device)
    whole = train(alone, options.device, options.steps, 0, 1)
    alone.cpu()
    apart = max(float((ours[name] - value).abs().max()) for name, value in alone.state_dict().items())
    print(f"parameters of two processes and of one: at most {apart:.1e} apart")
    print(f"loss: {losses[0]:.3f} at first, {losses[-1]:.3f} at last")
    draw(losses, whole, options.picture)


def draw(two: list[float], one: list[float], file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    axes.plot(one, label="one process")
    axes.plot(two, "--", label="two processes")
    axes.set(xlabel="step", ylabel="loss", title="digits")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    print(f"drawn: {file}")


if __name__ == "__main__":
    main()
