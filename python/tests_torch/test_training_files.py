"""Checkpoints of schedulers, and those that somebody has damaged, or that are of another run: what load and fit say."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from hologram_torch import _checkpoints, optim, training
from hologram_torch import functional as F

pytest.importorskip("safetensors", reason="checkpoints are safetensors files")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "'state' is missing"),
        ("{", "Expecting property name"),
        ("[" * 100000, "recursion"),
        ({"tensor": "z", "device": "cpu"}, "'z' is missing"),
        ({"tensor": "q"}, "'device' is missing"),
        ({"tensor": "q", "device": "rubbish"}, "rubbish"),
        ({"tensor": "q", "device": 1.5}, ""),
        ({"tensor": ["q"], "device": "cpu"}, "unhashable"),
        ({"items": [1]}, "cannot unpack"),
        ({"items": [[[1], 2]]}, "unhashable"),
        ({}, "'items' is missing"),
        (3, "it holds an int"),
        ({"tensor": "q", "device": "cpu"}, "it holds a Tensor"),
    ],
)
def test_files_that_are_damaged(tmp_path: Path, state: Any, said: str) -> None:
    from safetensors.torch import save_file

    described = {"format": _checkpoints._FORMAT}
    if state is not None:
        described["state"] = state if isinstance(state, str) else json.dumps(state)
    save_file({"q": torch.ones(2)}, tmp_path / "bad", metadata=described)
    with pytest.raises(ValueError, match=f"^load: .*bad is damaged.*{said}"):
        training.load(tmp_path / "bad")


def layers(width: int = 3) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, width))


class Batches(list[Any]):
    """Some with a generator of their own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.generator = torch.Generator()


def run(model: torch.nn.Module, path: Path, epochs: int, kind: Any = optim.Adam, schedule: Any = None) -> Any:
    batches = Batches([(torch.ones(2, 4), torch.tensor([0, 1]))] * 3)
    optimizer = kind(model.parameters(), lr=0.1)
    scheduler = schedulers.StepLR(optimizer, 1) if schedule is None else schedule(optimizer)
    given = {"scheduler": scheduler, "stop": training.EarlyStopping(9)}
    kept = copy.deepcopy([part.state_dict() for part in (model, optimizer, *given.values())]), torch.get_rng_state()
    try:
        training.fit(
            model,
            optimizer,
            lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]),
            batches,
            epochs=epochs,
            checkpoint=path,
            every=2,
            progress=False,
            **given,
        )
    except ValueError as error:
        after = [part.state_dict() for part in (model, optimizer, *given.values())], torch.get_rng_state()
        torch.testing.assert_close(after, kept, rtol=0, atol=0)
        return str(error)
    return None


def put(*places: Any) -> Callable[[Any], None]:
    """Return what sets an item, somewhere inside, to the last of the arguments; Ellipsis takes it away."""

    def change(state: Any) -> None:
        for place in places[:-2]:
            state = state[place]
        if places[-1] is ...:
            del state[places[-2]]
        else:
            state[places[-2]] = places[-1]

    return change


BYTES = torch.zeros(3, dtype=torch.uint8)
CHANGED: list[tuple[tuple[Any, ...], str]] = [
    (("model", "0.weight", torch.zeros(4, 4, dtype=torch.complex64)), r"model\.0\.weight is a complex tensor"),
    (("optimizer", "param_groups", 0, "amsgrad", True), "optimizer.state.0 has no max_exp_avg_sq"),
    (("run", ...), "has no run"),
    (("random", ...), "has no random"),
    (("scheduler", ...), "has no scheduler"),
    (("random", "cpu", BYTES), "random holds no state of the generator on cpu"),
    (("random", {}), r"random\.cpu is None; expected a Tensor"),
    (("random", "batches", 3), r"random\.batches is 3; expected a list"),
    (("random", "batches", []), "random has the states of 0 generators of the batches' own; those given have 1"),
    (("random", "batches", ...), ".* 0 generators of the .*; those given have 1, of which former versions kept none"),
    (("random", "batches", [BYTES]), "random holds no state of the generator on cpu"),
    (("random", "cuda", [BYTES] * 99), "random.cuda is of 99 GPUs"),
    (("run", "before", "cpu", BYTES), "run.before holds no state of the generator on cpu"),
    (("run", 3), "run is an int; expected a dict"),
    (("run", "save", "x"), "run has save, which no run has"),
    (("run", "parts", 3), "run has parts, which no run has"),
    (("run", "total", ...), "run has no total"),
    *[(("run", name, value), rf"run\.{name} is {re.escape(repr(value))}; expected") for name, value in (
        ("epoch", "x"), ("step", None), ("losses", None), ("losses", ["x"]), ("done", -1), ("done", True),
        ("stopped", 3), ("total", "x"), ("before", 3),
    )],
    (("run", "done", 10**9), "run.done is 1000000000, and run.step"),
    (("run", "done", 4), "has done 4 batches of an epoch; there are 3"),
    (("optimizer", [1]), "optimizer is a list"),
    (("optimizer", "param_groups", ...), "optimizer.param_groups is None; expected a list"),
    (("optimizer", "param_groups", 3), "optimizer.param_groups is 3; expected a list"),
    (("optimizer", "param_groups", []), "not written with such an optimizer: it has 0 groups"),
    (("optimizer", "param_groups", 0, "params", [0]), "not written with such an optimizer: group 0 has 1 tensors"),
    (("optimizer", "param_groups", 0, "lr", "x"), r"optimizer\.param_groups\.0\.lr is 'x'; expected a number"),
    (("optimizer", "param_groups", 0, "betas", (1,)), r"betas is \(1,\); expected 2 values"),
    (("optimizer", "param_groups", 0, "betas", (3.5, 0.999)), "param_groups.0 has options that no Adam takes: .*3.5"),
    (("optimizer", "param_groups", 0, "betas", (None, 0.999)), "param_groups.0 has options that no Adam takes: "),
    (("optimizer", "param_groups", 0, "lr", None), r"param_groups\.0\.lr is None; expected what 0.1 is"),
    (("optimizer", "param_groups", 0, "lr", -1.0), "param_groups.0 has options that no Adam takes: .*-1.0"),
    (("optimizer", "param_groups", 0, "eps", None), r"param_groups\.0\.eps is None; expected"),
    (("optimizer", "param_groups", 0, "initial_lr", None), r"param_groups\.0\.initial_lr is None; expected"),
    *[(("optimizer", "param_groups", 0, name, value), rf"groups\.0\.{name} is {value!r}; that of the Adam given is")
      for name, value in (
        ("fused", True), ("foreach", True), ("capturable", True), ("differentiable", True), ("fused", 3),
    )],
    (("optimizer", "state", 99, {}), r"optimizer\.state\.99 is of a parameter that optimizer\.param_groups don't name"),
    (("optimizer", "state", None, {}), "a key of optimizer.state is None; expected"),
    (("optimizer", "state", 0, "exp_avg", torch.zeros(3)), r"state\.0\.exp_avg is a tensor of shape \(3,\); expected"),
    (("optimizer", "state", 0, "exp_avg", torch.zeros(4, 4, dtype=torch.int32)), "expected floats"),
    (("optimizer", "state", 0, "exp_avg", ...), "optimizer.state.0 has no exp_avg"),
    (("optimizer", "state", 0, "step", "x"), r"state\.0\.step is 'x'; expected a number"),
    (("optimizer", "state", 0, "step", torch.tensor(-1.0)), r"state\.0\.step is tensor\(-1\.\)"),
    (("model", 3), "model is an int; expected a dict"),
    (("model", "0.weight", 3), r"model\.0\.weight is 3; expected a tensor of shape \(4, 4\)"),
    (("model", "2.weight", torch.zeros(2, 4)), r"model\.2\.weight is a tensor of shape \(2, 4\); expected"),
    (("model", "2.weight", ...), "model has no 2.weight"),
    (("model", "9.weight", BYTES), "model has 9.weight, which this one has not"),
    (("scheduler", "last_epoch", "x"), "scheduler.last_epoch is 'x'; expected a number"),
    (("scheduler", "last_epoch", ...), "scheduler has no last_epoch"),
    (("stop", "waited", ...), "stop has no waited"),
]  # fmt: skip


@pytest.mark.parametrize(("places", "said"), CHANGED, ids=[said for _, said in CHANGED])
def test_checkpoints_that_are_changed(tmp_path: Path, places: tuple[Any, ...], said: str) -> None:
    """Are refused before anything is loaded."""
    assert run(layers(), tmp_path / "run", 2) is None
    state = training.load(tmp_path / "run")
    put(*places)(state)
    training.save(tmp_path / "run", state)
    before = (tmp_path / "run").read_bytes()
    error = run(layers(), tmp_path / "run", 3)
    assert re.match(f"fit: the checkpoint {tmp_path / 'run'} .*{said}", error or ""), error
    assert (tmp_path / "run").read_bytes() == before


def test_a_tensor_as_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is something that save does not write, and that a file may yet hold."""
    assert run(layers(), tmp_path / "run", 2) is None
    state = training.load(tmp_path / "run")
    state["optimizer"]["state"][torch.tensor(0)] = {}
    monkeypatch.setattr(training, "load", lambda path: state)
    assert "a key of optimizer.state is a tensor of shape (); expected" in run(layers(), tmp_path / "run", 3)


def test_checkpoints_of_other_runs(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert run(layers(), path, 1) is None
    assert "model.2.weight is a tensor of shape (3, 4); expected a tensor of shape (5, 4)" in run(layers(5), path, 2)
    assert "not written with such an optimizer" in run(layers(), path, 2, optim.SGD)
    assert "scheduler has no" in run(layers(), path, 2, schedule=schedulers.ConstantLR)
    assert run(layers(), path, 2) is None


def sequential(optimizer: torch.optim.Optimizer) -> schedulers.LRScheduler:
    """Whose second part is set back when its turn comes, which asks its milestones for more than a dict has."""
    parts = [schedulers.ConstantLR(optimizer, 0.5, 3), schedulers.MultiStepLR(optimizer, [1, 3])]
    return schedulers.SequentialLR(optimizer, parts, [3])


def test_a_checkpoint_with_more_than_is_given(tmp_path: Path) -> None:
    """Is not gone on from: what is written next would lack it."""
    path = tmp_path / "run"
    model = torch.nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = falls(optimizer)

    def go(epochs: int, **parts: Any) -> None:
        training.fit(
            model,
            optimizer,
            lambda model, batch: model(batch).mean(),
            [torch.ones(2, 4)],
            epochs=epochs,
            checkpoint=path,
            progress=False,
            **parts,
        )

    go(2, scheduler=scheduler)
    weight = model.weight.detach().clone()
    with pytest.raises(ValueError, match="has a scheduler, and none is given: give scheduler="):
        go(3)
    assert torch.equal(model.weight, weight)
    go(3, scheduler=scheduler)


def in_turn(n: int, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda o: schedulers.SequentialLR(o, [inner(o) for _ in range(n)], list(range(1, n)))


def chained(n: int, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda o: schedulers.ChainedScheduler([inner(o) for _ in range(n)])


def falls(optimizer: Any) -> Any:
    return schedulers.ExponentialLR(optimizer, 0.9)


@pytest.mark.parametrize(
    ("made", "other"),
    [
        (in_turn(3, falls), in_turn(2, falls)),
        (in_turn(2, falls), in_turn(3, falls)),
        (chained(3, falls), chained(2, falls)),
        (chained(2, falls), chained(3, falls)),
        (chained(1, falls), chained(1, in_turn(2, falls))),
        (chained(1, in_turn(2, falls)), chained(1, falls)),
        (in_turn(2, falls), chained(2, falls)),
        (chained(2, falls), in_turn(2, falls)),
    ],
)
def test_checkpoints_of_other_schedulers(
    tmp_path: Path, made: Callable[[Any], Any], other: Callable[[Any], Any]
) -> None:
    """Are refused, and nothing has changed."""

    def parts(make: Callable[[Any], Any]) -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
        model = torch.nn.Linear(4, 1)
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, make(optimizer)

    def go(model: Any, optimizer: Any, scheduler: Any, epochs: int) -> None:
        training.fit(
            model,
            optimizer,
            lambda model, batch: model(batch).mean(),
            [torch.ones(2, 4)],
            epochs=epochs,
            scheduler=scheduler,
            checkpoint=tmp_path / "run",
            progress=False,
        )

    go(*parts(made), 2)
    model, optimizer, scheduler = parts(other)
    before = copy.deepcopy((model.state_dict(), scheduler.state_dict()))
    with pytest.raises(ValueError, match="is of another run, or damaged: scheduler"):
        go(model, optimizer, scheduler, 4)
    assert not optimizer.state_dict()["state"]
    assert str(before) == str((model.state_dict(), scheduler.state_dict()))


def walked(state: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the places of all collections within a state."""
    if isinstance(state, (dict, list, tuple)):
        yield where
        for key, value in state.items() if isinstance(state, dict) else enumerate(state):
            yield from walked(value, (*where, key))


def damaged(value: Any) -> Iterator[tuple[str, Any]]:
    """Return what a collection is with an element fewer, or one more; and what was done."""
    if isinstance(value, dict):
        for key in value:
            yield f"without {key}", type(value)({k: v for k, v in value.items() if k != key})
        return
    if len(value):
        yield "without the last", value[:-1]
    yield "with one more", value + type(value)(value[-1:] or (1,))


def shown(state: Any) -> Any:
    """Return a state as what can be compared: tensors as lists."""
    if isinstance(state, torch.Tensor):
        return str(state.dtype), state.tolist()
    if isinstance(state, dict):
        return {key: shown(value) for key, value in state.items()}
    return [shown(value) for value in state] if isinstance(state, (list, tuple)) else copy.deepcopy(state)


def replaced(state: Any, where: tuple[Any, ...], value: Any) -> Any:
    """Return a state with another value in a place."""
    if not where:
        return value
    if isinstance(state, dict):
        changed = {k: replaced(v, where[1:], value) if k == where[0] else v for k, v in state.items()}
        return type(state)(changed)
    return type(state)(replaced(v, where[1:], value) if i == where[0] else v for i, v in enumerate(state))


PARTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "Adam, StepLR": (lambda p: optim.Adam(p, lr=0.1, amsgrad=True), lambda o: schedulers.StepLR(o, 2)),
    "SGD, MultiStepLR": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda o: schedulers.MultiStepLR(o, [1, 3])),
    "AdamW, SequentialLR": (lambda p: optim.AdamW(p, lr=0.1), sequential),
    "torch's RMSprop, ChainedScheduler": (
        lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5),
        lambda o: schedulers.ChainedScheduler([falls(o), schedulers.ConstantLR(o, 0.5, 2)]),
    ),
    "torch's Adagrad, ReduceLROnPlateau": (
        lambda p: torch.optim.Adagrad(p, lr=0.1),
        lambda o: schedulers.ReduceLROnPlateau(o, patience=0),
    ),
    "torch's Adafactor, CosineAnnealingLR": (
        lambda p: torch.optim.Adafactor(p, lr=0.1),
        lambda o: schedulers.CosineAnnealingLR(o, 10),
    ),
    "SGD, OneCycleLR": (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda o: schedulers.OneCycleLR(o, 0.01, total_steps=9),
    ),
    "SGD, CosineAnnealingWarmRestarts": (
        lambda p: optim.SGD(p, lr=0.1),
        lambda o: schedulers.CosineAnnealingWarmRestarts(o, 2),
    ),
    "SGD, LambdaLR": (lambda p: optim.SGD(p, lr=0.1), lambda o: schedulers.LambdaLR(o, lambda n: 1 / (n + 1))),
    "SGD, CyclicLR": (
        lambda p: optim.SGD(p, lr=0.1),
        lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    ),
    "SGD, PolynomialLR": (lambda p: optim.SGD(p, lr=0.1), lambda o: schedulers.PolynomialLR(o, 9)),
}


@pytest.mark.parametrize("kind", PARTS)
def test_checkpoints_with_more_or_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Are refused before anything is loaded, or come to what the whole one does."""
    make, schedule = PARTS[kind]

    def go(epochs: int) -> Any:
        """Return what a run comes to; None if there is none, since the checkpoint is refused."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        optimizer = make(model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        parts = {"scheduler": schedule(optimizer), "scaler": scaler, "stop": training.EarlyStopping(9)}

        def states() -> Any:
            found = [part.state_dict() for part in (model, optimizer, *parts.values())]
            return shown((found, torch.get_rng_state()))

        before = states()
        try:
            outcome = training.fit(
                model,
                optimizer,
                lambda model, batch: model(batch).square().mean() + torch.rand(()),
                [torch.ones(2, 4), torch.ones(3, 4)],
                epochs=epochs,
                validate=lambda model: 1.0,
                checkpoint=tmp_path / "run",
                progress=False,
                **parts,
            )
        except ValueError as error:
            assert states() == before, f"{error}, and yet something is loaded"
            return None
        return states(), tuple(outcome)

    assert go(2)
    state = training.load(tmp_path / "run")
    monkeypatch.setattr(training, "load", lambda path: copy.deepcopy(state))
    monkeypatch.setattr(training, "save", lambda path, state: None)
    whole = state
    expected = go(5)
    wrong = []
    for where in walked(whole):
        at = whole
        for key in where:
            at = at[key]
        for what, value in damaged(at):
            if (where, what) == (("run", "validation"), "without the last"):
                continue  # such is a run that has been given validate late
            if where == ("optimizer", "state") or (where[:2] == ("optimizer", "state") and not value):
                continue  # a parameter that has had no gradient has none
            state = replaced(whole, where, value)
            try:
                if go(5) not in (None, expected):
                    wrong.append(f"{'.'.join(map(str, where))} {what} comes to something else")
            except Exception as error:
                wrong.append(f"{'.'.join(map(str, where))} {what}: {type(error).__name__} {error!s:.200}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("milestones", [[2], [2, 4, 6]])
def test_checkpoints_of_other_milestones(tmp_path: Path, milestones: list[int]) -> None:
    """Are refused: schedulers in turn have one fewer."""

    def three(optimizer: torch.optim.Optimizer) -> schedulers.LRScheduler:
        return schedulers.SequentialLR(optimizer, [falls(optimizer) for _ in range(3)], [2, 4])

    assert run(layers(), tmp_path / "run", 1, schedule=three) is None
    state = training.load(tmp_path / "run")
    state["scheduler"]["_milestones"] = milestones
    training.save(tmp_path / "run", state)
    said = f"scheduler._milestones has {len(milestones)} elements; expected 2"
    assert said in (run(layers(), tmp_path / "run", 9, schedule=three) or "")


@pytest.mark.parametrize("make", [sequential, lambda optimizer: schedulers.ReduceLROnPlateau(optimizer, patience=1)])
def test_schedulers_resume(tmp_path: Path, make: Callable[[torch.optim.Optimizer], Any]) -> None:
    def rates(epochs: int, path: Optional[Path]) -> list[float]:
        model, found = torch.nn.Linear(4, 1), []
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        training.fit(
            model,
            optimizer,
            lambda model, batch: found.append(optimizer.param_groups[0]["lr"]) or model(batch).mean(),
            [torch.ones(2, 4)],
            epochs=epochs,
            scheduler=make(optimizer),
            validate=lambda model: 1.0,
            checkpoint=path,
            progress=False,
        )
        return found

    expected = rates(8, None)
    assert len(set(expected)) > 2
    assert list(itertools.chain(*[rates(epochs, tmp_path / "run") for epochs in (1, 2, 5, 8)])) == expected


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, dtype=torch.complex128),
        torch.ones(2, 2).to_sparse(),
        torch.ones(2, device="meta"),
    ],
)
def test_tensors_that_no_file_holds(tmp_path: Path, tensor: torch.Tensor) -> None:
    with pytest.raises(TypeError, match=r"save: state\.a\.0 is a torch.* expected a dense one"):
        training.save(tmp_path / "x", {"a": [tensor]})
    assert not list(tmp_path.iterdir())


def test_who_may_read_a_file(tmp_path: Path) -> None:
    """As of a file that open makes; one that is there stays as it is."""
    path = tmp_path / "run"
    for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(umask)
        try:
            training.save(path, {"a": 1})
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == mode
        path.chmod(0o640)
        training.save(path, {"a": 2})
        assert path.stat().st_mode & 0o777 == 0o640
        path.unlink()


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, chain = tmp_path / "far" / "run", tmp_path / "run", tmp_path / "far" / "link"
    link.symlink_to(Path("far") / "link")
    chain.symlink_to("run")
    for value in (1, 2):  # the target is made, and then replaced
        training.save(link, {"a": value})
        assert link.is_symlink()
        assert chain.is_symlink()
        assert not target.is_symlink()
        assert training.load(target) == {"a": value}
    assert sorted(p.name for p in target.parent.iterdir()) == ["link", "run"]


def test_what_no_checkpoint_holds_is_told_at_the_start(tmp_path: Path) -> None:
    model, steps = torch.nn.Linear(4, 1, dtype=torch.complex128), []
    with pytest.raises(TypeError, match=r"save: state\.model\.weight is a .*complex128.* expected a dense one"):
        training.fit(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            lambda model, batch: steps.append(batch),  # type: ignore[arg-type,return-value]
            [torch.ones(2, 4)],
            epochs=1,
            checkpoint=tmp_path / "run",
            progress=False,
        )
    assert not steps
    assert not list(tmp_path.iterdir())
