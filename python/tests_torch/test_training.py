"""Training: the loop, its checkpoints, and what torch puts around a training step; on every device there is."""

from __future__ import annotations

import csv
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import hologram_torch
from hologram_torch import functional as F
from hologram_torch import nn, optim, training

pytest.importorskip("safetensors", reason="checkpoints are safetensors files")


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


class Stop(Exception):
    pass


def run(path: Optional[Path], *, fails_at: int = 0, epochs: int = 3, device: str = "cpu", every: int = 1) -> Any:
    """Train; path is where checkpoint and log go. What has a state is all there."""
    model = network(device)
    torch.manual_seed(5)
    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    calls = 0

    def counted(model: torch.nn.Module, batch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise Stop
        return loss(model, batch)

    outcome = training.fit(
        model,
        optimizer,
        counted,
        batches(device),
        epochs=epochs,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        scaler=torch.amp.GradScaler(device, init_scale=8.0, growth_interval=3),
        clip=0.5,
        stop=training.EarlyStopping(5),
        validate=lambda model: float(loss(model, next(iter(batches(device))))),
        checkpoint=None if path is None else path / "run.safetensors",
        every=every,
        log=[] if path is None else training.CSVLog(path / "run.csv"),
        progress=False,
    )
    return outcome, model, optimizer


@pytest.mark.parametrize("fails_at", [1, 3, 5, 8, 11])  # in the midst of an epoch, and in its first and last step
def test_resumes_exactly(tmp_path: Path, fails_at: int, device: str) -> None:
    """A run that broke off goes on with the bits of one that did not: with dropout, shuffling, scheduler, scaler."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected, model, optimizer = run(whole, device=device)
    with pytest.raises(Stop):
        run(parts, fails_at=fails_at, device=device, every=2)  # some steps are done again
    found, resumed, other = run(parts, device=device, every=2)
    assert found == expected
    assert found.epochs == 3
    assert found.steps == 12
    for a, b in zip(model.state_dict().values(), resumed.state_dict().values()):
        assert torch.equal(a, b)
    for s, t in zip(optimizer.state.values(), other.state.values()):
        assert all(torch.equal(s[name], t[name]) for name in s)
    assert (whole / "run.csv").read_text() == (parts / "run.csv").read_text()
    rows = list(csv.reader((parts / "run.csv").read_text().splitlines()))
    assert [row[0] for row in rows if row[1] == "loss"] == [str(i) for i in range(1, 13)]
    assert sorted(path.name for path in parts.iterdir()) == ["run.csv", "run.safetensors"]


def test_goes_on_from_the_last_step_of_an_epoch(tmp_path: Path) -> None:
    """Where every says to write after it, and what comes at the epoch's end failed: no batch is done again."""

    def fails(model: torch.nn.Module) -> float:
        raise Stop

    named = {"checkpoint": tmp_path / "run", "every": 4}
    expected = trained(batches(), validate=lambda model: 1.0)
    with pytest.raises(Stop):
        trained(batches(), validate=fails, **named)
    steps: list[int] = []

    def counted(model: torch.nn.Module, batch: Any) -> Tensor:
        steps.append(len(steps))
        return loss(model, batch)

    assert trained(batches(), validate=lambda model: 1.0, loss=counted, **named) == expected
    assert len(steps) == 4


def test_more_epochs_later(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    _, model, _ = run(None, epochs=3)
    run(tmp_path, epochs=1)
    run(tmp_path, epochs=2)
    outcome, other, _ = run(tmp_path, epochs=3)
    assert outcome.epochs == 3
    assert len(outcome.losses) == len(outcome.validation) == 3
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
    assert run(tmp_path, epochs=3)[0] == outcome  # nothing is left to do


def trained(given: Any, **named: Any) -> Any:
    model = network()
    arguments = {"model": model, "optimizer": optim.SGD(model.parameters(), lr=0.1), "loss": loss, "batches": given}
    return training.fit(**{**arguments, "epochs": 2, "progress": False, **named})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: (batch for batch in batches()), "batches is used up; give something that can be gone through anew"),
        (lambda: iter([]), "batches has no batches"),
        (lambda: [], "batches has no batches"),
    ],
    ids=["used up", "an iterator of none", "none"],
)
def test_epochs_without_batches(given: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"fit: {said}"):
        trained(given())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", lambda x: x),
        ("optimizer", "adam"),
        ("loss", 1.0),
        ("batches", 3),
        ("validate", True),
        ("scheduler", 0.1),
        ("scaler", 8.0),
        ("stop", 3),
        ("log", "a.csv"),
        ("epochs", "3"),
        ("epochs", 2.5),
        ("log_every", None),
        ("every", 1.5),
        ("autocast", "bfloat16"),
        ("clip", "1"),
    ],
)
def test_arguments_are_looked_at_first(name: str, value: Any) -> None:
    """By name, and before anything is trained."""

    def never(model: torch.nn.Module, batch: Any) -> Tensor:
        raise AssertionError("a step was made")

    with pytest.raises(TypeError, match=rf"^fit: {name} is a {type(value).__name__}; expected an? "):
        trained(batches(), **{"loss": never, name: value})


def test_a_loss_that_is_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"^fit: loss returned a float; expected a torch\.Tensor"):
        trained(batches(), loss=lambda model, batch: 0.5)


def test_a_loss_that_is_not_one_number() -> None:
    for shape in ((5, 2), (0,)):
        with pytest.raises(ValueError, match=rf"^fit: loss returned a tensor of shape {re.escape(str(shape))}; "):
            trained(batches(), loss=lambda model, batch, shape=shape: torch.ones(shape, requires_grad=True))


def test_numbers_of_numpy_train_as_those_of_python(tmp_path: Path) -> None:
    given = list(itertools.islice(batches(), 3)) * 50  # more steps than uint8 counts
    paths = tmp_path / "a.csv", tmp_path / "b.csv"

    def losses(path: Path, epochs: Any, log_every: Any, every: Any, clip: Any) -> list[float]:
        log = training.CSVLog(path)
        return trained(given, epochs=epochs, log_every=log_every, every=every, clip=clip, log=log).losses

    found = losses(paths[0], np.int64(2), np.uint8(2), np.uint8(3), np.float32(0.5))
    assert found == losses(paths[1], 2, 2, 3, 0.5)
    assert paths[0].read_text() == paths[1].read_text()


@pytest.mark.parametrize("without", [None, "scaler", "autocast", "clip", "scheduler", "validate"])
def test_a_run_is_the_loop_that_torch_shows(without: Optional[str]) -> None:
    """With all that it can do around a step, and with all but one."""
    found: list[Any] = []
    for own in (True, False):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
        given = {
            "scaler": scaler,
            "autocast": torch.bfloat16,
            "clip": 0.25,
            "scheduler": schedule,
            "validate": lambda model: loss(model, next(iter(batches()))) + (10 if torch.is_grad_enabled() else 0),
        }
        asked = {name: value for name, value in given.items() if name != without}
        torch.manual_seed(3)
        if own:
            outcome = training.fit(model, optimizer, loss, batches(), epochs=3, progress=False, **asked)
            losses, validation = outcome.losses, outcome.validation
        else:
            losses, validation = [], []
            for _ in range(3):
                model.train()
                each = []
                for batch in batches():
                    optimizer.zero_grad()
                    with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in asked):
                        value = loss(model, batch)
                    (scaler.scale(value) if "scaler" in asked else value).backward()
                    if "clip" in asked:
                        if "scaler" in asked:
                            scaler.unscale_(optimizer)
                        optim.clip_grad_norm_(model.parameters(), 0.25)
                    if "scaler" in asked:
                        scaler.step(optimizer)
                        scaler.update()
                    else:
                        optimizer.step()
                    each.append(value.item())
                losses.append(sum(each) / len(each))
                if "validate" in asked:
                    model.eval()
                    with torch.no_grad():
                        validation.append(float(asked["validate"](model)))
                if "scheduler" in asked:
                    schedule.step()
        found.append((losses, validation, optimizer.param_groups[0]["lr"], [p.tolist() for p in model.parameters()]))
    assert found[0] == found[1]


def test_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is told, and when, of a run that broke off too: each log begins at the step that is done."""
    told: list[Any] = []

    class Writer:
        def __init__(self, folder: str, purge_step: Optional[int]) -> None:
            told.append(("begin", folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def close(self) -> None:
            told.append("close")

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def values(model: torch.nn.Module, batch: Tensor) -> Tensor:
        return model(batch).sum() * 0 + batch.sum()

    def run(epochs: int) -> None:
        model = torch.nn.Linear(1, 1)
        given = [torch.full((1, 1), float(i)) for i in (1, 2, 6)]
        training.fit(
            model, torch.optim.SGD(model.parameters()), values, given, epochs=epochs, progress=False, log_every=2,
            log=[training.TensorBoardLog(tmp_path), training.CSVLog(tmp_path / "a.csv")], checkpoint=tmp_path / "run",
        )  # fmt: skip

    run(1)
    run(2)
    folder = str(tmp_path)
    assert told == [
        *(("begin", folder, None), ("loss", 2.0, 2), ("mean loss", 3.0, 3), "close"),
        *(("begin", folder, 4), ("loss", 1.0, 4), ("loss", 6.0, 6), ("mean loss", 3.0, 6), "close"),
    ]
    rows = [row.split(",") for row in (tmp_path / "a.csv").read_text().splitlines()]
    assert rows == [
        ["step", "name", "value"],
        *([str(each[2]), each[0], str(each[1])] for each in told if each[0] in ("loss", "mean loss")),
    ]


def test_early_stopping() -> None:
    stop = training.EarlyStopping(2, least=0.1)
    assert [stop(v) for v in (1.0, 0.95, 0.8, math.nan, 0.75)] == [False, False, False, False, True]
    assert stop.best == 0.8
    up = training.EarlyStopping(1, larger=True)
    assert [up(v) for v in (0.1, 0.2, 0.2)] == [False, False, True]
    with pytest.raises(ValueError, match="patience is 0"):
        training.EarlyStopping(0)
    # Any values in any order, NaN and infinities first among them, beside the rule itself.
    for larger, patience, least in itertools.product((False, True), (1, 2, 3), (0.0, 0.5)):
        for values in itertools.product((math.nan, -math.inf, 0.0, 0.25, 1.0, math.inf), repeat=4):
            stop, best, waited = training.EarlyStopping(patience, least, larger), None, 0
            for value in values:
                better = not math.isnan(value) and (
                    best is None or (value > best + least if larger else value < best - least)
                )
                best, waited = (value, 0) if better else (best, waited + 1)
                assert stop(value) == (waited >= patience), (values, larger, patience, least)
                assert (stop.best, stop.waited) == (best, waited), (values, larger, patience, least)
    validations = iter([3.0, 2.0, 2.5, 2.5, 2.5])
    model = network()
    outcome = training.fit(
        model,
        optim.SGD(model.parameters(), lr=0.01),
        loss,
        batches(),
        epochs=9,
        validate=lambda model: next(validations),
        stop=training.EarlyStopping(2),
        progress=False,
    )
    assert outcome.stopped
    assert outcome.epochs == 4
    assert outcome.validation == [3.0, 2.0, 2.5, 2.5]


def test_states(tmp_path: Path) -> None:
    state = {
        "tensors": [torch.arange(6).reshape(2, 3).t(), torch.tensor(2.5, dtype=torch.bfloat16), torch.empty(0, 2)],
        "numbers": {1: 0.1, "x": (None, True, -3, math.inf), 2.5: []},
        "shared": {},
    }
    state["shared"] = {"a": state["tensors"][0], "b": state["tensors"][0][0]}  # type: ignore[index]
    training.save(tmp_path / "s", state)
    found = training.load(tmp_path / "s")
    assert found["numbers"] == state["numbers"]
    assert type(found["numbers"]["x"]) is tuple
    for a, b in zip(found["tensors"], state["tensors"]):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    assert torch.equal(found["shared"]["b"], state["tensors"][0][0])  # type: ignore[index]
    before = (tmp_path / "s").read_bytes()
    with pytest.raises(TypeError, match=r"state\.f is a function"):
        training.save(tmp_path / "s", {"f": run})
    assert (tmp_path / "s").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_files_that_are_none(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(FileNotFoundError):
        training.load(tmp_path / "none")
    training.save(tmp_path / "whole", {"x": torch.ones(100)})
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:-9])
    (tmp_path / "text").write_text("hello")
    for name in ("cut", "text"):
        with pytest.raises(ValueError, match=f"{name} is no safetensors file"):
            training.load(tmp_path / name)
    save_file({"x": torch.ones(2)}, tmp_path / "other")
    with pytest.raises(ValueError, match="was not written by"):
        training.load(tmp_path / "other")
    training.save(tmp_path / "less", {"model": network().state_dict(), "run": {}, "random": {}})
    model = network()
    arguments = (model, optim.SGD(model.parameters(), lr=0.1), loss, batches())
    with pytest.raises(ValueError, match="has no optimizer"):
        training.fit(*arguments, epochs=1, checkpoint=tmp_path / "less")
    for named in ({"epochs": 0}, {"epochs": 1, "every": 0}, {"epochs": 1, "log_every": -1}):
        with pytest.raises(ValueError, match="expected 1 or more"):
            training.fit(*arguments, **named)  # type: ignore[arg-type]


def test_what_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("tqdm.auto", "safetensors.torch", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    model = network()
    arguments = (model, optim.SGD(model.parameters(), lr=0.1), loss, batches())
    training.fit(*arguments, epochs=1)
    with pytest.raises(ImportError, match="pip install tqdm"):
        training.fit(*arguments, epochs=1, progress=True)
    with pytest.raises(ImportError, match="pip install safetensors"):
        training.fit(*arguments, epochs=1, checkpoint=tmp_path / "x")
    with pytest.raises(ImportError, match="tensorboard"):
        training.TensorBoardLog(tmp_path)


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    model = network()
    training.fit(model, optim.SGD(model.parameters(), lr=0.1), loss, batches(), epochs=1, progress=True)
    assert "epoch 1" in capsys.readouterr().err


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    model = network()
    log = training.TensorBoardLog(tmp_path)
    training.fit(model, optim.SGD(model.parameters(), lr=0.1), loss, batches(), epochs=1, log=log, progress=False)
    assert any(path.name.startswith("events") for path in tmp_path.iterdir())


# ---- what torch puts around a step


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


@pytest.mark.skipif("cuda" not in {d for d in ("cuda",) if torch.cuda.is_available()}, reason="needs a CUDA device")
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


def test_keys_with_the_same_text(tmp_path: Path) -> None:
    one, two, three, four = (torch.full((2,), float(i)) for i in range(4))
    training.save(tmp_path / "s", {"a": {"b": one}, "a.b'": three, "a.b": two, "c": {1: three, "1": four}})
    state = training.load(tmp_path / "s")
    for found, expected in (
        (state["a"]["b"], one),
        (state["a.b"], two),
        (state["a.b'"], three),
        (state["c"][1], three),
        (state["c"]["1"], four),
    ):
        assert torch.equal(found, expected)
    with pytest.raises(TypeError, match=r"a key of state\.c is a tensor"):
        training.save(tmp_path / "s", {"c": {one: 1}})


def test_what_fit_refuses_changes_nothing(tmp_path: Path) -> None:
    x, path = torch.ones(4, 2), tmp_path / "run"

    def loss(model: torch.nn.Module, batch: Tensor) -> Tensor:
        return model(batch).square().mean()

    def fit(model: torch.nn.Module, optimizer: torch.optim.Optimizer, **given: Any) -> None:
        training.fit(model, optimizer, loss, [x], epochs=2, progress=False, **given)

    model = torch.nn.Linear(2, 1)
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), checkpoint=path)
    other = torch.nn.Linear(2, 1)
    adam, before = torch.optim.Adam(other.parameters()), other.weight.detach().clone()
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"checkpoint": path}, ValueError, "was not written with such an optimizer"),
        ({"clip": -1}, ValueError, "clip is -1"),
        ({"clip": 0}, ValueError, "expected a norm above 0"),
        ({"clip": float("nan")}, ValueError, "clip is nan"),
        ({"checkpoint": tmp_path / "none" / "run"}, FileNotFoundError, "there is no folder"),
        ({"checkpoint": tmp_path}, IsADirectoryError, "checkpoint is .*, a folder"),
        ({"checkpoint": 3}, TypeError, "checkpoint is a int"),
    ]
    for given, error, text in cases:
        with pytest.raises(error, match=text):
            fit(other, adam, **given)
        assert torch.equal(other.weight, before)
        assert "betas" in adam.param_groups[0] and not adam.state
    fit(other, adam)
