"""A training step, with what torch puts around it, on every device there is; and its memory."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, ClassVar

import pytest
import torch
from runs import batches, network
from runs import loss as cross_entropy
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import hologram_torch
from hologram_torch import functional as F
from hologram_torch import optim, training


def steps(
    model: torch.nn.Module, forward: Callable[..., Tensor], device: str, lower: torch.dtype, count: int = 6
) -> list[Tensor]:
    """Train in mixed precision, and return the parameters."""
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0)
    torch.manual_seed(2)
    for batch in list(batches(device)) * (count // 4 + 1):
        optimizer.zero_grad()
        with torch.autocast(device, lower):
            found = F.cross_entropy(forward(batch[0]), batch[1])
        scaler.scale(found).backward()
        scaler.unscale_(optimizer)
        optim.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert bool(found.detach().isfinite())
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_scaler_and_checkpoints(lower: torch.dtype, device: str) -> None:
    """Checkpointing computes again what it dropped, dropout too: the same bits as without."""
    model = network(device)
    plain = steps(model, model, device, lower)
    model = network(device)

    def forward(x: Tensor) -> Tensor:
        return model[4](checkpoint(model[:4], x, use_reentrant=False))

    for a, b in zip(plain, steps(model, forward, device, lower)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_training(backend: str, device: str) -> None:
    """A converted model whose forward and backward are one graph each."""
    if backend == "inductor" and not (shutil.which("c++") or shutil.which("g++")):
        pytest.skip("torch's inductor takes a C++ compiler")
    torch._dynamo.reset()
    torch.manual_seed(0)
    eager = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).to(device)
    hologram_torch.convert(eager)
    compiled = torch.compile(eager, fullgraph=True, backend=backend)
    results = []
    for forward in (eager, compiled):
        eager.zero_grad()
        for batch in list(batches(device))[:1]:
            F.cross_entropy(forward(batch[0] * 0 + 0.5), batch[1] * 0).backward()
        results.append([p.grad.clone() for p in eager.parameters() if p.grad is not None])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("whole", [False, True], ids=["step", "whole"])
def test_a_step_in_what_is_compiled(whole: bool, device: str) -> None:
    """It is done as without: what torch.compile followed in the making of a program was none, nor of later steps."""
    torch._dynamo.reset()
    optim._update.cache_clear()  # the programs
    x, y = torch.randn(6, 8, device=device), torch.randint(0, 3, (6,), device=device)
    found = []
    for compiled in (True, False):
        model = network(device).eval()
        optimizer = optim.Adam(model.parameters(), lr=0.1)

        def change(optimizer: optim.Adam = optimizer) -> None:
            optimizer.step()

        if compiled and not whole:
            change = torch.compile(change, backend="aot_eager")

        def step(model: torch.nn.Module = model, change: Callable[[], None] = change) -> None:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            change()

        if compiled and whole:
            step = torch.compile(step, backend="aot_eager")
        for _ in range(3):
            step()
        found.append(list(model.parameters()))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_step() -> None:
    """A whole step in a CUDA graph, and no synchronisation in it; SGD, whose numbers don't change with the step."""
    model = network("cuda")
    model[2] = torch.nn.Identity()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(6, 8, device="cuda"), torch.randint(0, 3, (6,), device="cuda")

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        found = F.cross_entropy(model(x), y)
        found.backward()
        optimizer.step()
        return found

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    before = [p.detach().clone() for p in model.parameters()]
    graph.replay()
    replayed = [p.detach().clone() for p in model.parameters()]
    for p, old in zip(model.parameters(), before):
        p.data.copy_(old)
    step()
    assert all(torch.equal(p, r) for p, r in zip(model.parameters(), replayed))


# ---- memory

STEPS = int(os.environ.get("HOLOGRAM_TRAINING_STEPS", "1000"))


def resident() -> int:
    """The pages of memory that the process has, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def train_flat(device: str) -> None:
    model = network(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(6, 8, device=device), torch.randint(0, 3, (6,), device=device)
    sizes = []
    for i in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if i in (STEPS // 3, STEPS - 1):
            sizes.append(resident())
    assert sizes[1] - sizes[0] < 4 << 20, sizes
    if device == "cuda":
        assert torch.cuda.memory_allocated() < 64 << 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_flat(device: str) -> None:
    """HOLOGRAM_TRAINING_STEPS steps of a small net, 10^5 where it is asked for: nothing is kept of a step."""
    if device == "cpu":
        train_flat(device)
        return
    # A call on a GPU leaves garbage to Go's collector, which comes when the heap has doubled: seldom in a process with
    # all that other tests have made.
    child = subprocess.run([sys.executable, __file__, device], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr


if __name__ == "__main__":
    train_flat(sys.argv[1])


def test_an_optimizer_of_another_model_is_refused() -> None:
    model, other = network("cpu"), network("cpu")
    before = [p.detach().clone() for p in model.parameters()]

    def loss(m: torch.nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(m(batch[0]), batch[1])

    for optimizer in (torch.optim.SGD(other.parameters(), 0.1), optim.Adam(list(other.parameters())[:1])):
        with pytest.raises(ValueError, match="fit: the optimizer has none of the model's parameters; make it of model"):
            training.fit(model, optimizer, loss, list(batches("cpu")), epochs=1)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    some = torch.optim.SGD([*list(model.parameters())[:1], *other.parameters()], 0.1)  # as of a loss that learns
    assert training.fit(model, some, loss, list(batches("cpu")), epochs=1).epochs == 1


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_models_of_several_processes_are_refused(tmp_path: Path) -> None:
    """Which train together in a loop of one's own."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=1)
    try:
        shared = torch.nn.parallel.DistributedDataParallel(network("cpu"))
        for model, where in ((shared, "model"), (torch.nn.Sequential(shared), "model.0")):
            optimizer = optim.SGD(model.parameters(), lr=0.1)
            with pytest.raises(ValueError, match=f"^fit: {where} is a DistributedDataParallel; expected a model that"):
                training.fit(model, optimizer, cross_entropy, batches("cpu"), epochs=1, progress=False)
        for batch in list(batches("cpu"))[:3]:
            before = [p.detach().clone() for p in shared.parameters()]
            optimizer.zero_grad()
            cross_entropy(shared, batch).backward()
            optimizer.step()
            assert not any(torch.equal(a, b) for a, b in zip(before, shared.parameters()))
    finally:
        torch.distributed.destroy_process_group()


def test_a_model_need_be_no_module() -> None:
    class Line:
        def __init__(self) -> None:
            self.slope = torch.nn.Parameter(torch.ones(()))

        def parameters(self) -> list[Tensor]:
            return [self.slope]

        def train(self, mode: bool = True) -> None: ...

        eval = train

    line: Any = Line()
    optimizer = torch.optim.SGD([line.slope], lr=0.5)
    outcome = training.fit(line, optimizer, lambda m, x: m.slope * x, [1.0, 1.0], epochs=1, progress=False)
    assert outcome.losses == [0.75] and float(line.slope.detach()) == 0


def test_a_loss_that_is_nan_is_told_once() -> None:
    model = torch.nn.Linear(2, 1)
    values = [1.0, 1.0, math.nan, math.inf, math.nan]

    def loss(m: torch.nn.Module, batch: float) -> Tensor:
        return m(torch.ones(2)).sum() * 0 + batch

    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.warns(RuntimeWarning, match="^fit: the loss is NaN at step 3, in epoch 1; the run goes on$") as caught:
        outcome = training.fit(model, optimizer, loss, values, epochs=2)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert outcome.steps == 10


class Distant(Tensor):
    """A tensor that is not the CPU's, as far as one asks it; what reads it is told."""

    events: ClassVar[list[Any]] = []

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    def __float__(self) -> float:
        self.events.append("read")
        return float(self.as_subclass(Tensor))


def distant(monkeypatch: pytest.MonkeyPatch, steps: int = 6, **given: Any) -> tuple[list[Any], training.Outcome]:
    """Train by the losses 1, 2, …, and return what happened in which order."""
    events: list[Any] = []
    monkeypatch.setattr(Distant, "events", events)
    model = torch.nn.Linear(2, 1)

    def loss(m: torch.nn.Module, batch: float) -> Tensor:
        events.append("step")
        return (m(torch.ones(2)).sum() * 0 + batch).as_subclass(Distant)

    class Log:
        def begin(self, step: int) -> None: ...

        def close(self) -> None: ...

        def write(self, step: int, values: dict[str, float]) -> None:
            events.append(values.get("loss", "mean"))

    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    given = {"log": Log() if "log_every" in given else (), "epochs": 1, "progress": False, **given}
    outcome = training.fit(model, optimizer, loss, [float(i + 1) for i in range(steps)], **given)
    return events, outcome


def test_losses_of_a_device_are_read_when_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading waits for the device, which then has nothing to do."""
    events, outcome = distant(monkeypatch)
    assert events == ["step"] * 6 + ["read"] * 6 and outcome.losses == [3.5]
    events, outcome = distant(monkeypatch, log_every=3)
    assert events == [*["step"] * 3, *["read"] * 3, 3.0, *["step"] * 3, *["read"] * 3, 6.0, "mean"]
    monkeypatch.setattr(training, "_MOST_UNREAD", 4)
    events, outcome = distant(monkeypatch, epochs=2)
    assert events == [*["step"] * 4, *["read"] * 4, "step", "step", "read", "read"] * 2 and outcome.losses == [3.5] * 2


def test_a_loss_that_is_nan_is_told_though_a_later_step_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Distant, "events", [])
    model = torch.nn.Linear(2, 1)

    def loss(m: torch.nn.Module, batch: float) -> Tensor:
        if batch == 5:
            raise KeyError("five")
        return (m(torch.ones(2)).sum() * 0 + (math.nan if batch == 3 else batch)).as_subclass(Distant)

    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    with pytest.warns(RuntimeWarning, match="the loss is NaN at step 3"), pytest.raises(KeyError, match="five"):
        training.fit(model, optimizer, loss, [float(i + 1) for i in range(6)], epochs=1, progress=False)


def test_the_bar_reads_losses_as_often_as_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Bar(contextlib.nullcontext["Bar"]):
        def __init__(self, **_: Any) -> None:
            super().__init__(self)

        def update(self) -> None: ...

        def set_postfix(self, loss: str, refresh: bool) -> None:
            shown.append(loss)

    clock = itertools.count(0, 0.03)
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))  # type: ignore[arg-type]
    monkeypatch.setattr(training.time, "monotonic", lambda: next(clock))
    events, _ = distant(monkeypatch, progress=True)
    assert shown == ["1", "5"]
    assert events == ["step", "read", *["step"] * 4, *["read"] * 4, "step", "read"]


def test_a_loss_that_is_nan_is_told_by_its_own_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is read later."""
    model = torch.nn.Linear(2, 1)

    def loss(m: torch.nn.Module, batch: float) -> Tensor:
        return (m(torch.ones(2)).sum() * 0 + batch).as_subclass(Distant)

    with pytest.warns(RuntimeWarning, match="^fit: the loss is NaN at step 5, in epoch 2; the run goes on$") as caught:
        batches = iter([[1.0, 1.0, 1.0], [1.0, math.nan, math.nan], [math.nan]])
        training.fit(model, torch.optim.SGD(model.parameters(), 0.1), loss, Renewed(batches), epochs=3, progress=False)
    assert len(caught) == 1 and caught[0].filename == __file__


class Renewed:
    """Other batches in each epoch."""

    def __init__(self, epochs: Iterator[list[float]]) -> None:
        self.epochs = epochs

    def __iter__(self) -> Iterator[float]:
        return iter(next(self.epochs))
