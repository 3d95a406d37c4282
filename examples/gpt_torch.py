"""A small GPT that learns to write Python, character by character, from the standard library's own source text.

    python examples/gpt_torch.py [--steps 200] [--amp] [--device cpu] [--picture gpt_torch.png]

The same model is trained by torch and by Hologram from the same weights on the same text; a third run in f64 tells how
much of a distance between two losses is rounding. Attention is written with matmul and softmax, which a namespace is
given for: torch or hologram_torch.functional. With --amp Hologram trains in bf16 and computes each block's inside again
in the backward pass (checkpointing), and what is kept for that pass is counted with and without.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import hologram_torch
from hologram_torch import functional as F
from hologram_torch import optim

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 32, 48, 4, 2, 8
MODULES = ("argparse", "ast", "copy", "csv", "heapq", "random", "statistics", "textwrap", "threading", "typing")


def text() -> str:
    """Return the source of some modules of the standard library."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    return "\n".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in MODULES)


class Block(torch.nn.Module):
    """Attention to what stands before, and a layer for each place, added to the input each."""

    by: Any = torch  # whose functions these are

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.queries, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.inside = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        f, (batch, places, _) = self.by, x.shape
        q, k, v = (
            part.view(batch, places, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.queries(self.before(x)).split(WIDTH, -1)
        )
        scores = f.mul(f.matmul(q, k.transpose(-2, -1)), 1 / math.sqrt(WIDTH // HEADS))
        later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        attention = f.softmax(f.where(later, -math.inf, scores), -1)
        mixed = f.matmul(attention, v).transpose(1, 2).reshape(batch, places, WIDTH)
        x = f.add(x, self.out(mixed))
        return f.add(x, self.inside(self.between(x)))


class GPT(torch.nn.Module):
    """Characters and places, blocks, and scores of the next character."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = torch.nn.Embedding(characters, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, characters)
        self.again = False  # whether blocks are computed again in the backward pass

    def forward(self, index: Tensor) -> Tensor:
        x = self.characters(index) + self.places[: index.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(self.norm(x))


def batches(codes: Tensor, steps: int) -> list[tuple[Tensor, Tensor]]:
    """Return pieces of the text and, for each place, the character that comes next."""
    chosen = torch.Generator().manual_seed(0)
    starts = torch.randint(len(codes) - CONTEXT - 1, (steps, BATCH, 1), generator=chosen)
    pieces = codes[starts + torch.arange(CONTEXT + 1)]
    return [(piece[:, :-1], piece[:, 1:]) for piece in pieces]


def train(model: GPT, adam: torch.optim.Optimizer, cross_entropy: Any, pieces: Any, amp: bool = False) -> list[float]:
    losses = []
    for before, after in pieces:
        adam.zero_grad()
        with torch.autocast(before.device.type, torch.bfloat16, enabled=amp):
            loss = cross_entropy(model(before).flatten(0, 1), after.flatten())
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def kept(model: GPT, piece: tuple[Tensor, Tensor]) -> int:
    """Return how many bytes a forward pass keeps for the backward pass, parameters left out."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in parameters:
            found[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        with torch.autocast(piece[0].device.type, torch.bfloat16):
            result = model(piece[0])
    del result
    return sum(found.values())


def written(model: GPT, letters: str, start: str, count: int) -> str:
    """Return text that the model goes on with."""
    torch.manual_seed(1)
    codes = [letters.index(letter) for letter in start]
    with torch.no_grad():
        for _ in range(count):
            scores = model(torch.tensor([codes[-CONTEXT:]], device=model.places.device))[0, -1]
            codes.append(int(torch.multinomial(F.softmax(scores, 0), 1)))
    return "".join(letters[code] for code in codes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--picture", default="gpt_torch.png")
    options = parser.parse_args()

    source = text()
    letters = "".join(sorted(set(source)))
    codes = torch.tensor([letters.index(letter) for letter in source[:400_000]])
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch finds no GPU of NVIDIA's here: --device cpu works anywhere")
    pieces = [tuple(part.to(options.device) for part in piece) for piece in batches(codes, options.steps)]
    torch.manual_seed(0)
    by_torch = GPT(len(letters)).to(options.device)
    in_f64, ours = copy.deepcopy(by_torch).double(), copy.deepcopy(by_torch)
    print(str(hologram_torch.convert(ours)).splitlines()[-1])
    for block in ours.blocks:
        block.by = F

    theirs = torch.nn.functional.cross_entropy
    losses = {
        "torch": train(by_torch, torch.optim.Adam(by_torch.parameters(), 3e-3), theirs, pieces),
        "torch, f64": train(in_f64, torch.optim.Adam(in_f64.parameters(), 3e-3), theirs, pieces),
    }
    if options.amp:
        plain = kept(ours, pieces[0])
        ours.again = True
        print(f"kept for the backward pass: {plain} bytes, with checkpointing {kept(ours, pieces[0])}")
    losses["hologram"] = train(ours, optim.Adam(ours.parameters(), 3e-3), F.cross_entropy, pieces, options.amp)
    apart = {
        name: max(abs(a - b) for a, b in zip(losses[name], losses["torch"])) for name in ("hologram", "torch, f64")
    }
    print(
        f"losses of hologram and torch: at most {apart['hologram']:.1e} apart; of torch in f32 and in f64: "
        f"{apart['torch, f64']:.1e}"
    )
    print(f"loss: {losses['hologram'][0]:.2f} at first, {losses['hologram'][-1]:.2f} at last")
    print(written(ours, letters, "def ", 120))
    draw(losses, options.picture)


def draw(losses: dict[str, list[float]], file: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for name, style in (("torch", "-"), ("hologram", "--")):
        axes.plot(losses[name], style, label=name)
    axes.set(xlabel="step", ylabel="loss", title="Python, character by character")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    print(f"drawn: {file}")


if __name__ == "__main__":
    main()
