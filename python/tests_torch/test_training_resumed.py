"""Runs that broke off go on from their checkpoints as if they had not, wherever that was."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
import torch
from runs import batches, loss, network, trained
from torch import Tensor
from torch.utils._pytree import tree_map_only

from hologram_torch import optim, training

pytest.importorskip("safetensors", reason="checkpoints are safetensors files")


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
        every=None if path is None else every,
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


class Breaks:
    """Counts calls, and raises Stop at one: each comes twice, as it begins and as it has ended."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.told = at, []

    def tell(self, what: str) -> None:
        self.told.append(what)
        if len(self.told) == self.at:
            raise Stop(what)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def told(*arguments: Any, **named: Any) -> Any:
            self.tell(f"before {name}")
            found = function(*arguments, **named)
            self.tell(f"after {name}")
            return found

        return told

    def within(self, part: Any, *names: str) -> Any:
        for name in names:
            setattr(part, name, self.around(f"{type(part).__name__}.{name}", getattr(part, name)))
        return part


@pytest.mark.parametrize("every", [None, 2, 3])
def test_resumes_wherever_it_broke_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: Optional[int]) -> None:
    """At any call of what a run is given or writes with, before and after it: batches, the loss, parts, logs, files."""
    plain_save, plain_replace = training.save, os.replace
    x, y = batches(count=6, size=6).dataset.tensors

    def run(folder: Path, breaks: Breaks) -> Any:
        class Data(torch.utils.data.Dataset[Any]):
            def __getitem__(self, i: int) -> Any:
                if i == 0:
                    breaks.tell("an item")
                return x[i], y[i]

            def __len__(self) -> int:
                return len(x)

        with monkeypatch.context() as patched:
            patched.setattr(training, "save", breaks.around("save", plain_save))
            patched.setattr(os, "replace", breaks.around("replace", plain_replace))
            torch.manual_seed(5)
            model = torch.nn.Sequential(torch.nn.Dropout(0.25), torch.nn.Linear(8, 2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
            schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
            patched.setattr(type(schedule), "step", breaks.around("scheduler", type(schedule).step))
            stop = training.EarlyStopping(2)
            scores = breaks.around("validate", lambda model: float(model(x).detach().square().sum() + torch.rand(())))
            given = breaks.around("stop", stop)
            given.state_dict, given.load_state_dict = stop.state_dict, stop.load_state_dict  # type: ignore[attr-defined]
            outcome = training.fit(
                model,
                breaks.within(optimizer, "step"),
                breaks.around("loss", lambda model, batch: model(batch[0]).mul(batch[1][:, None]).square().sum()),
                torch.utils.data.DataLoader(Data(), batch_size=2, shuffle=True),
                epochs=2,
                scheduler=schedule,
                stop=given,  # type: ignore[arg-type]
                validate=scores,
                checkpoint=folder / "run",
                every=every,
                log=breaks.within(training.CSVLog(folder / "log"), "begin", "write"),
                progress=False,
            )
        states = [torch.get_rng_state(), *(part.state_dict() for part in (model, optimizer, schedule, stop))]
        return outcome, (folder / "log").read_text(), tree_map_only(Tensor, Tensor.tolist, states)

    (tmp_path / "0").mkdir()
    whole = Breaks()
    expected = run(tmp_path / "0", whole)
    assert expected[0].steps == 6
    for at, what in enumerate(whole.told, 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.raises(Stop, match=what):
            run(folder, Breaks(at))
        found = run(folder, Breaks())
        for part, other in zip(found, expected):
            assert part == other, (at, what)
        assert sorted(path.name for path in folder.iterdir()) == ["log", "run"]
        shutil.rmtree(folder)


DATA = torch.arange(12.0).reshape(12, 1)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_batches(generator: torch.Generator) -> Any:
    sampler = torch.utils.data.RandomSampler(DATA, generator=generator)
    return torch.utils.data.DataLoader(DATA, batch_sampler=torch.utils.data.BatchSampler(sampler, 2, False))


class Drawn:
    """No DataLoader, but a generator all the same."""

    def __init__(self) -> None:
        self.generator = seeded(3)

    def __iter__(self) -> Any:
        for _ in range(6):
            yield DATA[torch.randint(12, (2,), generator=self.generator)]


def drawn(**given: Any) -> Any:
    return torch.utils.data.DataLoader(DATA, batch_size=2, **given)


LOADERS: dict[str, Callable[[], Any]] = {
    "none": lambda: drawn(shuffle=True),
    "the loader's": lambda: drawn(shuffle=True, generator=seeded(3)),
    "the sampler's": lambda: drawn(sampler=torch.utils.data.RandomSampler(DATA, generator=seeded(3))),
    "drawn on demand": lambda: drawn(sampler=torch.utils.data.RandomSampler(DATA, True, 12, generator=seeded(3))),
    "both": lambda: drawn(sampler=torch.utils.data.RandomSampler(DATA, generator=seeded(3)), generator=seeded(4)),
    "by weights": lambda: drawn(sampler=torch.utils.data.WeightedRandomSampler([1.0] * 12, 12, generator=seeded(3))),
    "the batch sampler's sampler's": lambda: by_batches(seeded(3)),
    "another iterable's": Drawn,
}


@pytest.mark.parametrize("fails_at", [3, 7, 10, 12])
@pytest.mark.parametrize("name", LOADERS)
def test_resumes_with_generators_of_the_batches_own(tmp_path: Path, name: str, fails_at: int) -> None:
    """Of a loader and its samplers: the same batches come in the same order, in a loader made anew."""

    def run(path: Optional[Path], fails_at: int = 0) -> list[list[float]]:
        torch.manual_seed(5)
        model = torch.nn.Linear(1, 1)
        seen: list[list[float]] = []

        def kept(model: torch.nn.Module, batch: Any) -> Tensor:
            seen.append(batch.flatten().tolist())
            if len(seen) == fails_at:
                raise KeyboardInterrupt
            return model(batch).square().mean()

        named = {} if path is None else {"checkpoint": path, "every": 3}
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        if fails_at:
            with pytest.raises(KeyboardInterrupt):
                training.fit(model, optimizer, kept, LOADERS[name](), epochs=3, progress=False, **named)
        else:
            training.fit(model, optimizer, kept, LOADERS[name](), epochs=3, progress=False, **named)
        return [*seen, model.weight.flatten().tolist()]

    whole = run(None)
    run(tmp_path / "run", fails_at)
    rest = run(tmp_path / "run")
    assert len(rest) == len(whole) - (fails_at - 1) // 3 * 3
    assert rest == whole[-len(rest) :]


def test_a_checkpoint_without_the_batches_own_generators(tmp_path: Path) -> None:
    """Of a former version: it goes on where there are none, and is refused where there are."""
    path = tmp_path / "run"
    trained(batches(), checkpoint=path, epochs=1)
    state = training.load(path)
    del state["random"]["batches"]
    state["run"]["before"].pop("batches", None)
    training.save(path, state)
    own = torch.utils.data.DataLoader(batches().dataset, batch_size=6, shuffle=True, generator=seeded(3))
    with pytest.raises(ValueError, match="0 generators of the batches' own; those given have 1, of which former"):
        trained(own, checkpoint=path)
    assert trained(batches(), checkpoint=path).epochs == 2


def test_a_log_has_all_that_a_checkpoint_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is written: whatever becomes of the process then, nothing is lost."""
    save, logged = training.save, []

    def saved(path: Any, state: Any) -> None:
        save(path, state)
        rows = csv.reader((tmp_path / "log").read_text().splitlines())
        logged.append((state["run"]["step"], [row[0] for row in rows if row[1] == "loss"]))

    monkeypatch.setattr(training, "save", saved)
    trained(batches(), checkpoint=tmp_path / "run", every=1, log=training.CSVLog(tmp_path / "log"))
    assert len(logged) == 10
    for step, steps in logged:
        assert steps == [str(i) for i in range(1, step + 1)]
