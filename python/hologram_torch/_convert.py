"""Models of torch's layers become such of Hologram's, and back.

A layer stays the object that it is, with its parameters, hooks and place, and changes its class alone: optimisers,
references and ``state_dict`` go on as before.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from hologram_torch import nn
from hologram_torch._operands import ATLAS

__all__ = ["Conversion", "Report", "convert", "revert"]

_CLASSES: dict[type, type] = {getattr(torch.nn, name): getattr(nn, name) for name in nn.__all__}
_BACK = {ours: theirs for theirs, ours in _CLASSES.items()}


class Conversion(NamedTuple):
    """What became of a layer.

    Attributes:
        name: Its name in the model.
        before: Its class before.
        after: Its class after.
        note: Why it was left.
    """

    name: str
    before: str
    after: str
    note: str


class Report(list[Conversion]):
    """What became of a model's layers, as a list that prints as a table. It is not the model, which changed in place.

    Attributes:
        done: What was done to the layers that changed.
    """

    done = "converted"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to be called in the place of the model.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"this is the report of the layers {self.done}, not a model: convert and revert change the model that they "
            "are given; go on with that one"
        )

    def __str__(self) -> str:
        """Return a table."""
        rows = [("layer", "before", "after", "note"), *((r.name or "(model)", *r[1:]) for r in self)]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        changed = sum(r.before != r.after for r in self)
        return "\n".join([*lines, f"{changed} of {len(self)} layers {self.done}"])


def _check(what: str, model: object) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{what}: expected a torch.nn.Module, got {type(model).__name__}")
    return model


def _called(kind: type) -> str:
    if issubclass(kind, tuple(_BACK)):
        return f"hologram_torch.nn.{kind.__name__}"
    return f"torch.nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__qualname__


def _missing(module: torch.nn.Module) -> str:
    """Return why a layer of torch's stays one, if it asks for what Hologram's has not."""
    if getattr(module, "sparse", False):
        return "left: sparse gradients are not there"
    tensors = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    strange = next((str(t.dtype) for t in tensors if t.dtype not in ATLAS), "")
    return f"left: {strange} is not there" if strange else ""


def convert(model: torch.nn.Module, *, fuse: bool = True) -> Report:
    """Make Hologram's layers of the torch layers in a model that it knows; leave the rest.

    Subclasses of torch's layers are left, since their ``forward`` may do more, and so are layers with parameters of a
    complex dtype and an Embedding with sparse gradients. Layers run where their inputs are.

    Args:
        model: The model, which is changed in place.
        fuse: Whether each Sequential becomes one in which a Linear does the activation after it: the layers stay what
            they are, by themselves and wherever else they are called.

    Returns:
        What became of each layer without layers of its own: a report, not the model, which is the one that was given.

    Raises:
        TypeError: It is no module.
    """
    model = _check("convert", model)
    places: dict[torch.nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        places.setdefault(module, []).append(name)
    report = Report()
    for module, names in places.items():
        before, note = type(module), ""
        if any(True for _ in module.children()):
            if before is torch.nn.Sequential and fuse:
                module.__class__ = nn.Sequential
            continue
        if before in _CLASSES:
            note = _missing(module)
        if before in _CLASSES and not note:
            module.__class__ = _CLASSES[before]
        elif before not in _BACK and not note:
            note = "left: a class of its own" if issubclass(before, tuple(_CLASSES)) else "left: not there"
            if isinstance(module, LazyModuleMixin):
                note = "left: call the model once, which gives it its shape, and convert it then"
        report += [Conversion(name, _called(before), _called(type(module)), note) for name in names]
    return report


def revert(model: torch.nn.Module) -> Report:
    """Make torch's layers of Hologram's in a model, in place; see ``convert``. Layers with an executor lose it."""
    model = _check("revert", model)
    report = Report()
    report.done = "reverted"
    for name, module in model.named_modules():
        before = type(module)
        after = _BACK.get(before)
        if after is None:
            continue
        if module.__dict__.get("activation"):
            report.append(Conversion(name, _called(before), _called(before), "left: torch's has no activation"))
            continue
        module.__class__ = after
        for attribute in ("activation", "backend", "_executor"):
            module.__dict__.pop(attribute, None)
        if after is torch.nn.Sequential and len(module):
            continue
        report.append(Conversion(name, _called(before), _called(after), ""))
    return report
