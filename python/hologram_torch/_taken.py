"""What training.fit takes, and what it says of arguments that can't be that."""

from __future__ import annotations

import inspect
import numbers
import sys
from typing import Any

import torch

from hologram.errors import InvalidArgumentError

__all__ = ["a", "check_alone", "check_number", "check_owner", "check_step", "check_taken"]

_TAKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "model": ("torch.nn.Module", ("parameters", "train", "eval")),
    "optimizer": ("optimiser", ("zero_grad", "step")),
    "loss": ("function", ("__call__",)),
    "batches": ("DataLoader or another iterable", ()),
    "validate": ("function", ("__call__",)),
    "scheduler": ("scheduler", ("step",)),
    "scaler": ("GradScaler", ("scale", "unscale_", "step", "update")),
    "stop": ("training.EarlyStopping", ("__call__",)),
    "log": ("Log, such as training.CSVLog", ("begin", "write", "close")),
}
"""What fit takes, and what that must have."""


def a(word: str) -> str:
    """Return a noun with its article."""
    return f"{'an' if word[:1] in 'AEIOaeio' else 'a'} {word}"


def check_taken(name: str, value: Any, optional: bool) -> None:
    """Raise a TypeError for what can't be what an argument of fit is."""
    what, has = _TAKEN[name]
    if optional and value is None:
        return
    if isinstance(value, type):
        raise TypeError(f"fit: {name} is the class {value.__name__} itself; expected {a(what)}")
    if name == "batches":
        fits = hasattr(value, "__iter__") or hasattr(value, "__getitem__")
    else:
        fits = all(callable(getattr(value, each, None)) for each in has)
    if not fits:
        raise TypeError(f"fit: {name} is {a(type(value).__name__)}; expected {a(what)}")


def check_number(what: str, value: Any, whole: bool) -> None:
    """Raise a TypeError for what is no number, or no integer if it is to be whole; numpy's are some."""
    if not isinstance(value, numbers.Integral if whole else numbers.Real):
        raise TypeError(f"{what} is {a(type(value).__name__)}; expected {'an integer' if whole else 'a number'}")


def check_step(optimizer: Any) -> None:
    """Refuse an optimiser whose step asks for more than to be called, such as LBFGS, which computes losses itself.

    Raises:
        TypeError: It does.
    """
    try:
        taken = inspect.signature(optimizer.step).parameters.values()
    except (TypeError, ValueError):  # as of a function of C's
        return
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    # What a scheduler has put in the place of the method is a function with all of its parameters.
    given = [each for each in taken if each.name != "self" and each.kind not in variable]
    asked = [each.name for each in given if each.default is each.empty]
    if asked:
        raise TypeError(
            f"fit: optimizer is {a(type(optimizer).__name__)}, whose step asks for {' and '.join(asked)}; expected an "
            "optimiser whose step asks for nothing. Write the loop itself for this one"
        )


def check_owner(model: torch.nn.Module, optimizer: Any, scheduler: Any) -> None:
    """Refuse an optimiser that has none of the model's parameters; others than these, as a loss's own, it may have.

    Raises:
        InvalidArgumentError: It is another model's, or that of parameters that were replaced; or the scheduler is that
            of another optimiser.
    """
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise InvalidArgumentError("fit: the scheduler is that of another optimizer; make it of the one given")
    own = {id(p) for p in model.parameters()}
    groups = getattr(optimizer, "param_groups", ())
    if own and groups and not any(id(p) in own for group in groups for p in group["params"]):
        raise InvalidArgumentError(
            "fit: the optimizer has none of the model's parameters; make it of model.parameters(), once the model's "
            "are no longer replaced"
        )


_SHARED = ("FullyShardedDataParallel", "FSDPModule")
"""What torch.distributed.fsdp makes of models; where it is not imported, none is."""


def check_alone(model: Any) -> None:
    """Refuse a model that several processes train together, of which fit knows one.

    Raises:
        InvalidArgumentError: It, or a part of it, is such a one.
    """
    shared = sys.modules.get("torch.distributed.fsdp")
    kinds = (torch.nn.parallel.DistributedDataParallel, *(getattr(shared, each, ()) for each in _SHARED))
    for name, module in model.named_modules() if isinstance(model, torch.nn.Module) else ():
        if any(isinstance(module, kind) for kind in kinds):
            where = f"model.{name}" if name else "model"
            raise InvalidArgumentError(
                f"fit: {where} is {a(type(module).__name__)}; expected a model that one process trains: each "
                "would write the checkpoint and the logs, and stop by its own losses. Write the loop itself for several"
            )
