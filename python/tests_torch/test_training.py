"""Training: the loop, its arguments, its logs, and states in files."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
import pytest
import torch
from runs import batches, loss, network, trained
from torch import Tensor

from hologram_torch import optim, training

pytest.importorskip("safetensors", reason="checkpoints are safetensors files")


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
        ("epochs", None),
    ],
)
def test_arguments_are_looked_at_first(name: str, value: Any) -> None:
    """By name, and before anything is trained."""

    def never(model: torch.nn.Module, batch: Any) -> Tensor:
        raise AssertionError("a step was made")

    with pytest.raises(TypeError, match=rf"^fit: {name} is an? {type(value).__name__}; expected an? "):
        trained(batches(), **{"loss": never, name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("model", torch.nn.Linear, "a torch.nn.Module"),
        ("optimizer", optim.Adam, "an optimiser"),
        ("loss", torch.nn.MSELoss, "a function"),
        ("batches", torch.utils.data.DataLoader, "a DataLoader or another iterable"),
        ("validate", torch.nn.MSELoss, "a function"),
        ("scheduler", torch.optim.lr_scheduler.StepLR, "a scheduler"),
        ("scaler", torch.amp.GradScaler, "a GradScaler"),
        ("stop", training.EarlyStopping, r"a training\.EarlyStopping"),
        ("log", training.CSVLog, "a Log, such as"),
    ],
)
def test_classes_are_not_what_is_made_of_them(name: str, value: type, expected: str) -> None:
    with pytest.raises(TypeError, match=rf"^fit: {name} is the class {value.__name__} itself; expected {expected}"):
        trained(batches(), **{name: value})


def test_optimisers_whose_step_asks_for_a_closure() -> None:
    """Which the loop has none of, are refused before a step; those that take one are not."""

    def never(model: torch.nn.Module, batch: Any) -> Tensor:
        raise AssertionError("a step was made")

    model = network()
    with pytest.raises(TypeError, match=r"^fit: optimizer is a LBFGS, whose step asks for closure; expected an optimi"):
        trained(batches(), model=model, optimizer=torch.optim.LBFGS(model.parameters()), loss=never)
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Rprop, optim.AdamW):
        trained(batches(), model=model, optimizer=kind(model.parameters(), lr=0.01), epochs=1)


@pytest.mark.parametrize("kind", ["StepLR", "ReduceLROnPlateau", "SequentialLR", "ChainedScheduler"])
def test_a_scheduler_of_another_optimiser_is_refused(kind: str) -> None:
    def make(optimizer: torch.optim.Optimizer) -> Any:
        inner = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) for _ in range(2)]
        given = {"StepLR": (optimizer, 1), "ReduceLROnPlateau": (optimizer,), "SequentialLR": (optimizer, inner, [1])}
        return getattr(torch.optim.lr_scheduler, kind)(*given.get(kind, (inner,)))

    model = network()
    first, second = (optim.SGD(model.parameters(), lr=0.1) for _ in range(2))
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=r"^fit: the scheduler is that of another optimizer; make it of the one given"):
        trained(batches(), model=model, optimizer=first, scheduler=make(second))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before))
    trained(batches(), model=model, optimizer=second, scheduler=make(second))


def test_every_needs_a_checkpoint() -> None:
    with pytest.raises(ValueError, match=r"^fit: every is 3, and checkpoint is None; expected the path to write to"):
        trained(batches(), every=3)


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
        asked = {"log_every": log_every, "every": every, "checkpoint": path.with_suffix(".run")}
        return trained(given, epochs=epochs, clip=clip, log=log, **asked).losses

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
                    model.train()
                if "scheduler" in asked:
                    schedule.step()
        found.append((losses, validation, optimizer.param_groups[0]["lr"], [p.tolist() for p in model.parameters()]))
        assert model.training
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
    for given, error, said in (
        ({"patience": 0}, ValueError, "patience is 0; expected 1 or more"),
        ({"patience": np.int64(-1)}, ValueError, "patience is -1; expected 1 or more"),
        ({"patience": "x"}, TypeError, "patience is a str; expected an integer"),
        ({"patience": 1.5}, TypeError, "patience is a float; expected an integer"),
        ({"patience": 1, "least": "x"}, TypeError, "least is a str; expected a number"),
        ({"patience": 1, "least": math.nan}, ValueError, "least is nan; expected a number"),
    ):
        with pytest.raises(error, match=f"^EarlyStopping: {said}"):
            training.EarlyStopping(**given)
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


def test_pickles_of_former_versions_are_read() -> None:
    """In which all classes were of this module."""
    for value in (training.EarlyStopping(3), training.Outcome(1, 2, [0.5], [], False), training.CSVLog("a.csv")):
        kind = type(value)
        for module in {kind.__module__, "hologram_torch.training"}:
            written = pickle.dumps(value, 0).replace(kind.__module__.encode(), module.encode())
            assert module.encode() in written
            found = pickle.loads(written)
            assert type(found) is kind
            assert found == value if isinstance(value, tuple) else vars(found) == vars(value)


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
        training.save(tmp_path / "s", {"f": network})
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
        ({"checkpoint": 3}, TypeError, "checkpoint is an int"),
    ]
    for given, error, text in cases:
        with pytest.raises(error, match=text):
            fit(other, adam, **given)
        assert torch.equal(other.weight, before)
        assert "betas" in adam.param_groups[0] and not adam.state
    fit(other, adam)
