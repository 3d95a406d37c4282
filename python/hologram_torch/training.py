"""A training loop with what one soon wants of it: progress, early stopping, logs, and checkpoints that resume exactly.

::

    def loss(model, batch):
        images, classes = batch
        return F.cross_entropy(model(images), classes)

    fit(model, optimizer, loss, loader, epochs=10, checkpoint="run.safetensors", log=CSVLog("run.csv"))

The loop is torch's own calls in the usual order, for any torch model and any optimiser whose step asks for no closure;
those of hologram_torch are not asked for. A run that ended anywhere goes on from its checkpoint as if it had not, bit
for bit, if what a batch and the loss do by chance comes of torch's generators, or of those that a DataLoader or its
sampler was given.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
import warnings
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

import torch
from torch import Tensor

from hologram.errors import InvalidArgumentError
from hologram_torch._checkpoints import check_state, load, safetensors, save
from hologram_torch._logs import CSVLog, Log, TensorBoardLog
from hologram_torch._resume import FIELDS, check, generators, own_generators, set_generators
from hologram_torch._stopping import EarlyStopping
from hologram_torch._taken import a, check_alone, check_number, check_owner, check_step, check_taken
from hologram_torch.optim import clip_grad_norm_

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torch.amp.grad_scaler import GradScaler

__all__ = ["CSVLog", "EarlyStopping", "Log", "Outcome", "TensorBoardLog", "fit", "load", "save"]


class Outcome(NamedTuple):
    """What came of a run.

    Attributes:
        epochs: How many epochs are done, those before it was resumed too.
        steps: How many steps.
        losses: The mean loss of each epoch.
        validation: What validate returned after each.
        stopped: Whether it was stopped early.
    """

    epochs: int
    steps: int
    losses: list[float]
    validation: list[float]
    stopped: bool


_MOST_UNREAD = 256
"""How many losses on a device are left unread: reading waits for the device, and each holds memory there."""

_SHOWN = 0.1
"""After how many seconds the bar has another loss: tqdm draws it no sooner."""


class _Run:
    """The parts of a run that have a state.

    Attributes:
        nan: The first step of this call whose loss was NaN, as far as they are read.
        own: The batches' own generators.
    """

    def __init__(self, parts: dict[str, Any], batches: Any) -> None:
        self.own = own_generators(batches)
        self.parts = {name: part for name, part in parts.items() if part is not None}
        self.epoch = self.step = self.done = 0  # whole epochs; steps; of these, in this epoch
        self.total = 0.0  # of this epoch's losses
        self.losses: list[float] = []
        self.validation: list[float] = []
        self.stopped = False
        self.before: dict[str, Any] = {}  # the generators at the epoch's begin
        self.nan: Optional[int] = None
        self._last = math.nan
        self._unread: list[Tensor] = []

    def note(self, loss: Tensor) -> None:
        """Count a step, and keep its loss."""
        self._unread.append(loss.detach().clone())  # which a captured step writes again
        self.step, self.done = self.step + 1, self.done + 1
        if loss.is_cpu or len(self._unread) >= _MOST_UNREAD:
            self.read()

    def read(self) -> float:
        """Add up the losses that are not read yet, which waits for a device, and return the last."""
        first = self.step - len(self._unread) + 1
        for step, loss in enumerate(self._unread, first):
            self._last = float(loss)
            self.total += self._last
            if self.nan is None and math.isnan(self._last):
                self.nan = step
        self._unread.clear()
        return self._last

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        self.read()
        state = {name: part.state_dict() for name, part in self.parts.items()}
        run = {name: getattr(self, name) for name in FIELDS}
        save(path, {**state, "run": run, "random": generators(self.own)})

    def load(self, path: Union[str, os.PathLike[str]], batches: Optional[int]) -> dict[str, Any]:
        """Take up a checkpoint, and return the generators' state; nothing is changed if it is of another run.

        Args:
            path: Where it is.
            batches: How many there are in an epoch, if that is known.
        """
        state, where = load(path), os.fspath(path)
        check(str(where), self.parts, state, self.own)
        if batches is not None and state["run"]["done"] > batches:
            raise InvalidArgumentError(
                f"fit: the checkpoint {where} has done {state['run']['done']} batches of an epoch; there are {batches}"
            )
        for name, part in self.parts.items():
            try:
                part.load_state_dict(state[name])
            except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
                raise InvalidArgumentError(f"fit: the checkpoint {where} has another {name}: {error}") from error
        for field in FIELDS:
            setattr(self, field, state["run"][field])
        found: dict[str, Any] = state["random"]
        return found


def _bar(progress: Optional[bool], total: Optional[int], done: int, title: str) -> Any:
    """Return a progress bar, or nothing that can be entered."""
    if progress is False:
        return contextlib.nullcontext()
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        if progress:
            raise ImportError("progress=True needs tqdm: pip install tqdm") from None
        return contextlib.nullcontext()
    return tqdm(total=total, initial=done, desc=title, leave=False, dynamic_ncols=True)


def fit(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, Any], Tensor],
    batches: Iterable[Any],
    *,
    epochs: int,
    validate: Optional[Callable[[torch.nn.Module], float]] = None,
    scheduler: Optional[torch.optim.lr_scheduler.LRScheduler] = None,
    scaler: Optional[GradScaler] = None,
    autocast: Optional[torch.dtype] = None,
    clip: Optional[float] = None,
    stop: Optional[EarlyStopping] = None,
    checkpoint: Union[str, os.PathLike[str], None] = None,
    every: Optional[int] = None,
    log: Union[Log, Sequence[Log]] = (),
    log_every: int = 1,
    progress: Optional[bool] = None,
) -> Outcome:
    """Train a model.

    Args:
        model: The model; it is put in training mode.
        optimizer: Its optimiser; LBFGS, whose step asks for a closure, is none that the loop steps.
        loss: Computes the loss of the model on a batch, a tensor of one element.
        batches: The batches of an epoch, gone through anew in each: a DataLoader, for example.
        epochs: How many epochs, those that a checkpoint has done among them.
        validate: Called after each epoch with the model in evaluation mode and without gradients; what it returns is
            logged, and stop is asked about it rather than about the mean loss.
        scheduler: One of the optimiser's; steps after each epoch; ReduceLROnPlateau by what stop is asked about.
        scaler: Scales the loss.
        autocast: The dtype that torch.autocast computes in.
        clip: The largest norm of all gradients.
        stop: Is asked after each epoch whether to stop.
        checkpoint: A file to write the run's state to after each epoch, and to go on from if it is there.
        every: Write the checkpoint after so many steps, too.
        log: Where losses go, and after epochs their mean and what validate returned.
        log_every: Log the loss of each such step.
        progress: Whether to show a bar: True, False, or if tqdm is installed.

    Returns:
        What came of it.

    Raises:
        TypeError: An argument is not what fit takes there, or has a state that no checkpoint can hold.
        ValueError: A number makes no sense, the optimiser has none of the model's parameters, the scheduler is another
            optimiser's, every is given without checkpoint, the model is one that several processes train
            (DistributedDataParallel, FSDP), an epoch has no batches, loss returned more than one element or none, or
            the checkpoint is of another kind of run.
        OSError: The checkpoint is a folder, or in one that is not there.
        ImportError: What is asked for needs a package that is not installed.

    Warns:
        RuntimeWarning: The loss is NaN, at the first such step; the run goes on. A GPU's losses are read, which waits
            for it, when a log or the bar shows one, and at least each 256 steps and at an epoch's end.
    """
    for name, needed in (("model", model), ("optimizer", optimizer), ("loss", loss)):
        check_taken(name, needed, False)
    check_step(optimizer)
    check_alone(model)
    check_taken("batches", batches, False)
    for name, part in (("validate", validate), ("scheduler", scheduler), ("scaler", scaler), ("stop", stop)):
        check_taken(name, part, True)
    check_owner(model, optimizer, scheduler)
    for name, number in (("epochs", epochs), ("log_every", log_every), ("every", 1 if every is None else every)):
        check_number(f"fit: {name}", number, True)
        if number < 1:
            raise InvalidArgumentError(f"fit: {name} is {number}; expected 1 or more")
    # numpy's are taken, and made Python's: beside uint8 a step past 255 is an error.
    epochs, log_every, every = int(epochs), int(log_every), None if every is None else int(every)
    if every is not None and checkpoint is None:
        raise InvalidArgumentError(f"fit: every is {every}, and checkpoint is None; expected the path to write to")
    if autocast is not None and not isinstance(autocast, torch.dtype):
        raise TypeError(f"fit: autocast is {a(type(autocast).__name__)}; expected a torch.dtype")
    if clip is not None:
        check_number("fit: clip", clip, False)
        clip = float(clip)
        if not clip > 0:
            raise InvalidArgumentError(f"fit: clip is {clip}; expected a norm above 0")
    if checkpoint is not None:
        if not isinstance(checkpoint, (str, os.PathLike)):
            raise TypeError(f"fit: checkpoint is {a(type(checkpoint).__name__)}; expected the path of a file")
        if Path(checkpoint).is_dir():
            raise IsADirectoryError(
                f"fit: checkpoint is {os.fspath(checkpoint)}, a folder; expected the path of a file"
            )
        if not Path(checkpoint).parent.is_dir():
            raise FileNotFoundError(
                f"fit: checkpoint is {os.fspath(checkpoint)}; there is no folder {Path(checkpoint).parent}"
            )
        safetensors()
    logs: Sequence[Log] = log if isinstance(log, (list, tuple)) else [log]  # type: ignore[list-item]
    for one in logs:
        check_taken("log", one, False)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "stop": stop}
    run = _Run(parts, batches)
    if checkpoint is not None:  # what none can hold is told before hours have gone into it
        check_state({name: part.state_dict() for name, part in run.parts.items()})
    after: Optional[dict[str, Any]] = None
    if checkpoint is not None and Path(checkpoint).exists():
        after = run.load(checkpoint, len(batches) if isinstance(batches, Sized) else None)
        if not run.done:
            set_generators(after, run.own)
    device = next((p.device.type for p in model.parameters()), "cpu")
    told = False
    try:
        for one in logs:
            one.begin(run.step)
        while run.epoch < epochs and not run.stopped:
            for _ in _epoch(run, model, optimizer, loss, batches, after, scaler, autocast, device, clip, progress):
                logged = logs if run.step % log_every == 0 else ()
                if logged:
                    run.read()
                told = told or _told(run)
                for one in logged:
                    one.write(run.step, {"loss": run.read()})
                if checkpoint is not None and every is not None and run.step % every == 0:
                    run.save(checkpoint)
            after = None
            run.read()
            told = told or _told(run)
            _end_of_epoch(run, model, validate, scheduler, stop, logs)
            if checkpoint is not None:
                run.save(checkpoint)
    except BaseException:
        with contextlib.suppress(Exception):  # as where the device is lost
            run.read()
        told = told or _told(run)  # what mostly comes before
        raise
    finally:
        for one in logs:
            one.close()
    return Outcome(run.epoch, run.step, run.losses, run.validation, run.stopped)


def _told(run: _Run) -> bool:
    """Whether a loss of a run is NaN, of which fit's caller then is warned."""
    if run.nan is None:
        return False
    warnings.warn(
        f"fit: the loss is NaN at step {run.nan}, in epoch {run.epoch + 1}; the run goes on",
        RuntimeWarning,
        stacklevel=3,
    )
    return True


def _epoch(
    run: _Run,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.nn.Module, Any], Tensor],
    batches: Iterable[Any],
    after: Optional[dict[str, Any]],
    scaler: Optional[GradScaler],
    autocast: Optional[torch.dtype],
    device: str,
    clip: Optional[float],
    progress: Optional[bool],
) -> Iterator[None]:
    """Do an epoch's steps that are not done yet, and yield after each."""
    model.train()
    if run.done:
        set_generators(run.before, run.own)  # so that the same batches come in the same order
    else:
        run.before = generators(run.own)
    total = len(batches) if isinstance(batches, Sized) else None
    with _bar(progress, total, run.done, f"epoch {run.epoch + 1}") as bar:
        rest = iter(batches)
        found_any = False
        shown = -math.inf
        for _ in itertools.islice(rest, run.done):
            found_any = True
        if run.done and after is not None:
            set_generators(after, run.own)
        for batch in rest:
            found_any = True
            optimizer.zero_grad()
            with torch.autocast(device, autocast) if autocast is not None else contextlib.nullcontext():
                found = loss(model, batch)
            if not isinstance(found, Tensor):
                raise TypeError(f"fit: loss returned {a(type(found).__name__)}; expected a torch.Tensor")
            if found.numel() != 1:
                shape = tuple(found.shape)
                raise InvalidArgumentError(f"fit: loss returned a tensor of shape {shape}; expected one of one element")
            (found if scaler is None else scaler.scale(found)).backward()
            if clip is not None:
                if scaler is not None:
                    scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), clip)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            run.note(found)
            if bar is not None:
                if time.monotonic() - shown >= _SHOWN:
                    bar.set_postfix(loss=f"{run.read():.4g}", refresh=False)
                    shown = time.monotonic()
                bar.update()
            yield
        if not found_any:  # an epoch's mean would be that of nothing
            used = rest is batches and run.epoch > 0
            raise InvalidArgumentError(
                "fit: batches is used up; give something that can be gone through anew, such as a DataLoader"
                if used
                else "fit: batches has no batches"
            )


def _end_of_epoch(
    run: _Run,
    model: torch.nn.Module,
    validate: Optional[Callable[[torch.nn.Module], float]],
    scheduler: Optional[torch.optim.lr_scheduler.LRScheduler],
    stop: Optional[EarlyStopping],
    logs: Sequence[Log],
) -> None:
    mean = run.total / run.done
    values = {"mean loss": mean}
    run.losses.append(mean)
    if validate is not None:
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                values["validation"] = float(validate(model))
        finally:
            model.train(training)
        run.validation.append(values["validation"])
    judged = values.get("validation", mean)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        scheduler.step(judged)
    elif scheduler is not None:
        scheduler.step()
    run.stopped = stop is not None and stop(judged)
    run.epoch, run.done, run.total = run.epoch + 1, 0, 0.0
    for one in logs:
        one.write(run.step, values)
