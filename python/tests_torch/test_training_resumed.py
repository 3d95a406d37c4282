"""Runs that broke off go on from their checkpoints as if they had not, wherever that was."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from runs import batches, loss, network, trained
from torch import Tensor

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
