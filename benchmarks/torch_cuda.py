"""Compare hologram_torch on an NVIDIA GPU with torch eager, torch.compile and torch's captured graphs, in one run.

    ./build.sh bench torch-cuda [--commit HASH]

All take turns, round after round. A time is what passes from the first call of a round to the end of the GPU's work,
by the host's clock; a ratio is the median of the rounds' ratios of Hologram's time to the other's, so that below 1
Hologram is the faster. What is compared is checked to be the same within rounding first. Writes
results/torch_cuda.json and torch_cuda.md, which ends with the bounds that are met and missed (cuda_bounds.py).
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import cuda_bounds
import torch

import hologram
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import optim

RESULTS = Path(__file__).parent / "results"
ROUNDS = 11
BOUND = 1.0  # what the project set itself: as fast as the best of torch

FUSED = ("torch, fused Adam", torch.optim, {"fused": True})

Call = Callable[[], Any]


class Case(NamedTuple):
    """Calls that do the same: Hologram's first."""

    name: str
    libraries: dict[str, Call]
    calls: int


def captured(step: Call) -> Call:
    """A step as torch's captured graph of it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def steps(name: str, sizes: list[int], batch: int, calls: int) -> list[Case]:
    """Training steps of an MLP, as they are and captured: by SGD, and by Adam, torch's fused one beside its usual."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for n, m in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
    theirs = torch.nn.Sequential(*layers[:-1]).cuda()
    x, y = torch.rand(batch, sizes[0], device="cuda"), torch.randint(sizes[-1], (batch,), device="cuda")

    def step(model: Any, adam: Any, loss: Any) -> Call:
        def run() -> None:
            adam.zero_grad(set_to_none=False)
            loss(model(x), y).backward()
            adam.step()

        return run

    def by_adam(capturable: bool) -> dict[str, Call]:
        found = {}
        for key, namespace, more in (("hologram", optim, {}), ("torch", torch.optim, {}), FUSED):
            model = copy.deepcopy(theirs)
            if namespace is optim:
                hologram_torch.convert(model)
            adam = namespace.Adam(model.parameters(), capturable=capturable, **more)
            found[key] = step(model, adam, (hologram_torch if namespace is optim else torch).nn.CrossEntropyLoss())
        return found

    def ours_and_theirs() -> dict[str, Call]:
        ours, other = copy.deepcopy(theirs), copy.deepcopy(theirs)
        hologram_torch.convert(ours)
        return {
            "hologram": step(ours, optim.SGD(ours.parameters(), lr=0.01), hologram_torch.nn.CrossEntropyLoss()),
            "torch": step(other, torch.optim.SGD(other.parameters(), lr=0.01), torch.nn.CrossEntropyLoss()),
        }

    return [
        Case(name, ours_and_theirs(), calls),
        Case(f"{name}, captured", {k: captured(v) for k, v in ours_and_theirs().items()}, calls),
        Case(f"{name}, Adam", by_adam(False), calls),
        Case(f"{name}, Adam, captured", {k: captured(v) for k, v in by_adam(True).items()}, calls),
    ]


def of_many(n: int) -> list[Case]:
    """Clipping of n parameters of 64 to 4,096 elements, and their steps, which take what the host does for each."""
    shapes = [(64,), (128,), (16, 32), (1024,), (32, 64), (64, 64)]

    def params() -> list[torch.nn.Parameter]:
        found = [torch.nn.Parameter(torch.randn(shapes[i % len(shapes)], device="cuda")) for i in range(n)]
        for p in found:
            p.grad = torch.randn_like(p)
        return found

    ours, theirs, calls = params(), params(), max(1, 400 // n)
    return [
        Case(
            f"clip_grad_norm_, {n} parameters",
            {"hologram": lambda: optim.clip_grad_norm_(ours, 1e9),
             "torch": lambda: torch.nn.utils.clip_grad_norm_(theirs, 1e9)},
            calls,
        ),
        Case(
            f"Adam, {n} parameters",
            {key: module.Adam(params(), **more).step
             for key, module, more in (("hologram", optim, {}), ("torch", torch.optim, {}), FUSED)},
            calls,
        ),
    ]  # fmt: skip


def of_rows(n: int, c: int, dtype: torch.dtype, calls: int) -> list[Case]:
    """Softmax, layer_norm and cross_entropy of n rows, forward and backward."""
    x = torch.randn(n, c, device="cuda", dtype=dtype, requires_grad=True)
    w, b = (torch.rand(c, device="cuda", dtype=dtype, requires_grad=True) for _ in range(2))
    g, t = torch.randn(n, c, device="cuda", dtype=dtype), torch.randint(c, (n,), device="cuda")
    theirs = torch.nn.functional

    def softmax(m: Any) -> Call:
        return lambda: torch.autograd.grad(m.softmax(x, 1), (x,), g)

    def layer_norm(m: Any) -> Call:
        return lambda: torch.autograd.grad(m.layer_norm(x, (c,), w, b), (x, w, b), g)

    def cross_entropy(m: Any) -> Call:
        return lambda: torch.autograd.grad(m.cross_entropy(x, t), (x,))

    class Compiled:
        softmax = staticmethod(torch.compile(lambda x, d: theirs.softmax(x, d), dynamic=False))
        layer_norm = staticmethod(torch.compile(lambda x, s, w, b: theirs.layer_norm(x, s, w, b), dynamic=False))
        cross_entropy = staticmethod(torch.compile(lambda x, t: theirs.cross_entropy(x, t), dynamic=False))

    found = []
    for call in (softmax, layer_norm, cross_entropy):
        libraries = {"hologram": call(F), "torch": call(theirs), "torch.compile": call(Compiled)}
        results = [libraries[k]() for k in libraries]
        tolerance = {torch.float32: 2e-4, torch.bfloat16: 3e-2}[dtype]
        for result in results[1:]:
            for a, e in zip(results[0], result):
                scale = float(e.abs().max())
                if not float((a - e).abs().max()) <= tolerance * scale:
                    raise AssertionError(f"{call.__name__}, {dtype}: the results differ")
        del results
        name = f"{call.__name__}, {n}×{c} {str(dtype).removeprefix('torch.')}, forward and backward"
        found.append(Case(name, libraries, calls))
    return found


def small() -> list[Case]:
    """Calls of little work: what they cost the host."""
    x, y = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    a, b, g = x.clone().requires_grad_(), y.clone().requires_grad_(), torch.ones_like(x)
    grad = torch.autograd.grad
    return [
        Case("add, 1,024", {"hologram": lambda: F.add(x, y), "torch": lambda: x + y}, 1000),
        Case("sigmoid, 1,024", {"hologram": lambda: F.sigmoid(x), "torch": lambda: torch.sigmoid(x)}, 1000),
        Case(
            "mul, 1,024, forward and backward",
            {"hologram": lambda: grad(F.mul(a, b), (a, b), g), "torch": lambda: grad(a * b, (a, b), g)},
            200,
        ),
    ]


def measure(case: Case) -> dict[str, list[float]]:
    """Seconds of a call, by library, in each round."""
    for call in case.libraries.values():
        for _ in range(3):
            call()
    found: dict[str, list[float]] = {k: [] for k in case.libraries}
    for _ in range(ROUNDS):
        for name, call in case.libraries.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(case.calls):
                call()
            torch.cuda.synchronize()
            found[name].append((time.perf_counter() - begin) / case.calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare hologram_torch on a GPU with torch.")
    parser.add_argument("--commit", default="", help="what is measured, for the record")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("bench torch-cuda: torch finds no GPU of NVIDIA's here")
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "hologram": hologram.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "commit": options.commit,
        "rounds": ROUNDS,
    }
    lines = [
        "# hologram_torch on an NVIDIA GPU",
        "",
        f"{about['device']}, hologram {about['hologram']}, torch {about['torch']}, {about['date']}, "
        f"commit {about['commit'][:12]}. Written by `./build.sh bench torch-cuda`.",
        "",
        "Ratios are of times, the median of the rounds': below 1 Hologram is the faster.",
        "",
        "| work | hologram, µs | to torch | to torch.compile | to torch's fused Adam | bound |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    rows = []
    for make in (
        small,
        lambda: steps("step, MLP 784-512-512-10, batch 256", [784, 512, 512, 10], 256, 50),
        lambda: of_rows(8192, 32768, torch.float32, 3),
        lambda: of_rows(8192, 32768, torch.bfloat16, 3),
        lambda: of_rows(4096, 4096, torch.float32, 20),
        lambda: of_many(20),
        lambda: of_many(400),
    ):
        for case in make():
            if not case.name.startswith(options.only):
                continue
            spent = measure(case)
            ours = spent["hologram"]
            ratios = {k: statistics.median(a / b for a, b in zip(ours, v)) for k, v in spent.items() if k != "hologram"}
            rows.append({"name": case.name, "seconds": spent, "ratios": ratios, "bound": BOUND})
            cells = [
                cuda_bounds.shown(ratios[k], BOUND, True) if k in ratios else ""
                for k in ("torch", "torch.compile", FUSED[0])
            ]
            lines.append(f"| {case.name} | {statistics.median(ours) * 1e6:.1f} | {' | '.join(cells)} | {BOUND:.1f} |")
            print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    bounds = [
        "",
        "## Bounds",
        "",
        "What the project set itself: to take no longer than the fastest of torch, torch.compile and torch's fused",
        "Adam, as far as a row has them. Only what misses is listed by itself.",
        "",
        *cuda_bounds.fastest_of_torch(rows),
    ]
    print("\n".join(bounds))
    lines += bounds
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "torch_cuda.json").write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    (RESULTS / "torch_cuda.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
