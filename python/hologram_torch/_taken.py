"""What training.fit takes, and what it says of arguments that can't be that."""

from __future__ import annotations

import sys
from typing import Any

import torch

from hologram.errors import InvalidArgumentError

__all__ = ["check_alone", "check_owner", "check_taken"]

_TAKEN: dict[str, tuple[str, tuple[str, ...]]] = {
    "model": ("torch.nn.Module", ("parameters", "train", "eval")),
    "optimizer": ("optimiser", ("zero_grad", "step")),
    "loss": ("function", ("__call__",)),
    "validate": ("function", ("__call__",)),
    "scheduler": ("scheduler", ("step",)),
    "scaler": ("GradScaler", ("scale", "unscale_", "step", "update")),
    "stop": ("training.EarlyStopping", ("__call__",)),
    "log": ("Log, such as training.CSVLog", ("begin", "write", "close")),
}
"""What fit takes, and what that must have."""


def check_taken(name: str, value: Any, optional: bool) -> None:
    """Raise a TypeError for what can't be what an argument of fit is."""
    what, has = _TAKEN[name]
    if not (optional and value is None) and not all(callable(getattr(value, each, None)) for each in has):
        raise TypeError(f"fit: {name} is a {type(value).__name__}; expected a {what}")


def check_owner(model: torch.nn.Module, optimizer: Any) -> None:
    """Refuse an optimiser that has none of the model's parameters; others than these, as a loss's own, it may have.

    Raises:
        InvalidArgumentError: It is another model's, or that of parameters that were replaced.
    """
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
                f"fit: {where} is a {type(module).__name__}; expected a model that one process trains: each "
                "would write the checkpoint and the logs, and stop by its own losses. Write the loop itself for several"
            )
