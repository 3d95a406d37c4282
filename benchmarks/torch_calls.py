"""What hologram_torch's calls cost beside torch's own, on the CPU, in one run.

    ./build.sh bench torch [--alone] [beginnings of names]

Both take turns, round after round. What counts is the processor time of the calling thread, and, where more threads
work, the time that passes, once the threads of the other one sleep; a ratio is the median of the rounds' ratios, and
stands beside the bound that the project set itself: at most so many times torch's. With --alone one thread works for
either, and its time alone counts, which says more where others use the machine.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import hologram
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import optim

ROUNDS = 25
# Seconds after which the other's threads, which look about for more work, sleep: torch's do it for milliseconds.
PAUSE = 0.03
WOKEN = 4  # calls after it until a processor and its caches are what they are in a loop
ALONE = "--alone" in sys.argv
ONLY = [name for name in sys.argv[1:] if name != "--alone"]  # those whose names begin so


class Case(NamedTuple):
    """Two calls that do the same."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    bound: float | None
    calls: int
    thread: bool = True  # whether the calling thread's time counts


def step(
    model: torch.nn.Module, adam: torch.optim.Optimizer, loss: torch.nn.Module, x: Any, y: Any
) -> Callable[[], Any]:
    def once() -> None:
        adam.zero_grad()
        loss(model(x), y).backward()
        adam.step()

    return once


def training(name: str, sizes: list[int], batch: int, calls: int) -> Case:
    layers: list[torch.nn.Module] = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    theirs = torch.nn.Sequential(*layers[:-1])
    ours = copy.deepcopy(theirs)
    hologram_torch.convert(ours)
    x, y = torch.rand(batch, sizes[0]), torch.randint(sizes[-1], (batch,))
    return Case(
        name,
        step(ours, optim.Adam(ours.parameters()), hologram_torch.nn.CrossEntropyLoss(), x, y),
        step(theirs, torch.optim.Adam(theirs.parameters()), torch.nn.CrossEntropyLoss(), x, y),
        1.0,
        calls,
        thread=False,
    )


def of_many(n: int) -> list[Case]:
    """What is done with the gradients of n parameters of 64 to 4,096 elements: clipping, and steps."""
    shapes = [(64,), (128,), (16, 32), (1024,), (32, 64), (64, 64)]

    def params() -> list[torch.nn.Parameter]:
        found = [torch.nn.Parameter(torch.randn(shapes[i % len(shapes)])) for i in range(n)]
        for p in found:
            p.grad = torch.randn_like(p)
        return found

    ours, theirs, calls = params(), params(), max(1, 200 // n)
    found = [
        Case(
            f"clip_grad_norm_, {n} parameters", lambda: optim.clip_grad_norm_(ours, 1e9),
            lambda: torch.nn.utils.clip_grad_norm_(theirs, 1e9), 1.0, calls,
        )
    ]  # fmt: skip
    for name, options in (("SGD", {"lr": 0.01, "momentum": 0.9}), ("Adam", {}), ("AdamW", {})):
        mine: Any = getattr(optim, name)(params(), **options)
        its: Any = getattr(torch.optim, name)(params(), fused=True, **options)
        found.append(Case(f"{name}, {n} parameters, beside torch's fused", mine.step, its.step, 1.0, calls))
    return found


def both_ways(
    name: str, ours: Callable[[], Any], theirs: Callable[[], Any], leaves: list[Any], calls: int
) -> list[Case]:
    """A call that is recorded, and it with its gradient, as training has them."""
    g = torch.randn_like(theirs())
    grad = torch.autograd.grad
    return [
        Case(name, ours, theirs, 1.0, calls),
        Case(
            f"{name}, forward and backward",
            lambda: grad(ours(), leaves, g), lambda: grad(theirs(), leaves, g), 1.0, max(calls // 3, 1),
        ),
    ]  # fmt: skip


def of_rows() -> list[Case]:
    """What works on rows: norms, softmax, losses of classes."""
    found = []
    theirs = torch.nn.functional
    for n, c in ((32, 64), (256, 768), (2048, 768)):
        x, w, b = (torch.randn(shape, requires_grad=True) for shape in ((n, c), (c,), (c,)))
        calls = max(1, 200_000 // (n * c))
        found += both_ways(
            f"layer_norm, {n}×{c}", lambda x=x, w=w, b=b, c=c: F.layer_norm(x, (c,), w, b),
            lambda x=x, w=w, b=b, c=c: theirs.layer_norm(x, (c,), w, b), [x, w, b], calls,
        )  # fmt: skip
        found += both_ways(
            f"rms_norm, {n}×{c}", lambda x=x, w=w, c=c: F.rms_norm(x, (c,), w),
            lambda x=x, w=w, c=c: theirs.rms_norm(x, (c,), w), [x, w], calls,
        )  # fmt: skip
    for n, c in ((32, 10), (256, 1000), (512, 8192)):
        x, t = torch.randn(n, c, requires_grad=True), torch.randint(c, (n,))
        calls = max(1, 200_000 // (n * c))
        found += both_ways(
            f"softmax, {n}×{c}", lambda x=x: F.softmax(x, 1), lambda x=x: theirs.softmax(x, 1), [x], calls
        )
        found += both_ways(
            f"cross_entropy, {n}×{c}", lambda x=x, t=t: F.cross_entropy(x, t),
            lambda x=x, t=t: theirs.cross_entropy(x, t), [x], calls,
        )  # fmt: skip
    for shape in ((64, 128), (32, 64, 16, 16)):
        c = shape[1]
        x, w, b = torch.randn(shape, requires_grad=True), *(torch.rand(c, requires_grad=True) for _ in range(2))
        m, v = torch.zeros(c), torch.ones(c)
        for training in (True, False):
            found += both_ways(
                f"batch_norm{'' if training else ' with running numbers'}, {'×'.join(map(str, shape))}",
                lambda x=x, m=m, v=v, w=w, b=b, t=training: F.batch_norm(x, m, v, w, b, training=t),
                lambda x=x, m=m, v=v, w=w, b=b, t=training: theirs.batch_norm(x, m, v, w, b, training=t), [x, w, b], 3,
            )  # fmt: skip
    return found


def cases() -> list[Case]:
    x, y, g = torch.randn(1024), torch.randn(1024), torch.ones(1024)
    square, row = x.reshape(32, 32), y[:32].clone()
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    grad = torch.autograd.grad
    w, bias, rows = torch.randn(512, 784), torch.randn(512), torch.randn(256, 784)
    return [
        Case("add, 1,024", lambda: F.add(x, y), lambda: x + y, 1.6, 1000),
        Case("add, 32×32 + 32", lambda: F.add(square, row), lambda: square + row, None, 1000),
        Case("relu, 1,024", lambda: F.relu(x), lambda: torch.relu(x), None, 1000),
        Case("leaky_relu, 1,024", lambda: F.leaky_relu(x), lambda: torch.nn.functional.leaky_relu(x), None, 1000),
        Case(
            "add, 1,024, forward and backward",
            lambda: grad(F.add(a, b), (a, b), g), lambda: grad(a + b, (a, b), g), 2.0, 300,
        ),
        Case(
            "mul, 1,024, forward and backward",
            lambda: grad(F.mul(a, b), (a, b), g), lambda: grad(a * b, (a, b), g), 2.0, 300,
        ),
        Case(
            "sigmoid, 1,024, forward and backward",
            lambda: grad(F.sigmoid(a), (a,), g), lambda: grad(torch.sigmoid(a), (a,), g), 2.0, 300,
        ),
        Case(
            "linear, 256×784→512", lambda: F.linear(rows, w, bias),
            lambda: torch.nn.functional.linear(rows, w, bias), 1.0, 20, thread=False,
        ),
        *of_rows(),
        *(case for n in (4, 20, 100, 400) for case in of_many(n)),
        training("step, digits 64-64-10, batch 32", [64, 64, 10], 32, 10),
        training("step, MLP 784-512-512-10, batch 256", [784, 512, 512, 10], 256, 1),
    ]  # fmt: skip


def measure(case: Case) -> tuple[float, float]:
    """Return the median time of a call of ours in µs, and the median ratio to theirs."""
    clock = time.process_time_ns if ALONE else time.thread_time_ns if case.thread else time.perf_counter_ns
    for call in (case.ours, case.theirs):
        call()
    times, ratios = [], []
    for _ in range(ROUNDS):
        spent = []
        for call in (case.ours, case.theirs):
            if not ALONE and not case.thread:
                time.sleep(PAUSE)
                for _ in range(WOKEN):
                    call()
            begin = clock()
            for _ in range(case.calls):
                call()
            spent.append((clock() - begin) / case.calls / 1000)
        times.append(spent[0])
        ratios.append(spent[0] / spent[1])
    return statistics.median(times), statistics.median(ratios)


def main() -> None:
    if ALONE:
        torch.set_num_threads(1)
        hologram.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; {ROUNDS} interleaved rounds\n")
    print("| call | µs | × torch | bound |\n|---|---|---|---|")
    for case in cases():
        if ONLY and not case.name.startswith(tuple(ONLY)):
            continue
        spent, ratio = measure(case)
        bound = "" if case.bound is None else f"{case.bound:.1f}"
        print(f"| {case.name} | {spent:.1f} | {ratio:.2f} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
