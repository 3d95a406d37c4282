"""Models of torch's layers become such of Hologram's, and back.

A layer stays the object that it is, with its parameters, hooks and place, and changes its class alone: optimisers,
references and ``state_dict`` go on as before.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch

from hologram_torch import nn

__all__ = ["Conversion", "Report", "convert", "revert"]

_CLASSES: dict[type, type] = {getattr(torch.nn, name): getattr(nn, name) for name in nn.__all__}
_BACK = {ours: theirs for theirs, ours in _CLASSES.items()}

_FUSED = {
    torch.nn.ReLU: "relu",
    torch.nn.SiLU: "silu",
    torch.nn.Tanh: "tanh",
    torch.nn.Sigmoid: "sigmoid",
    torch.nn.GELU: "gelu",
}
"""The activations that a Linear does by itself, when they come next in a Sequential."""


class _Done(torch.nn.Module):
    """What becomes of an activation that the layer before does: it passes its input on."""

    _was: type

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input


_DONE = {kind: type(f"Fused{kind.__name__}", (_Done, kind), {"_was": kind, "__module__": __name__}) for kind in _FUSED}
globals().update((kind.__name__, kind) for kind in _DONE.values())


class Conversion(NamedTuple):
    """What became of a layer.

    Attributes:
        name: Its name in the model.
        before: Its class before.
        after: Its class after.
        note: The activation that it does too, or why it was left.
    """

    name: str
    before: str
    after: str
    note: str


class Report(list[Conversion]):
    """What became of a model's layers, as a list that prints as a table."""

    def __str__(self) -> str:
        """Return a table."""
        rows = [("layer", "before", "after", "note"), *((r.name or "(model)", *r[1:]) for r in self)]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        changed = sum(r.before != r.after for r in self)
        return "\n".join([*lines, f"{changed} of {len(self)} layers converted"])


def _check(what: str, model: object) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{what}: expected a torch.nn.Module, got {type(model).__name__}")
    return model


def _called(kind: type) -> str:
    if issubclass(kind, (nn._Layer, _Done)):
        return f"hologram_torch.nn.{kind.__name__}"
    return f"torch.nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__qualname__


def convert(model: torch.nn.Module, *, fuse: bool = True) -> Report:
    """Make Hologram's layers of the torch layers in a model that it knows; leave the rest.

    Subclasses of torch's layers are left, since their ``forward`` may do more. Layers run where their inputs are.

    Args:
        model: The model, which is changed in place.
        fuse: Whether a Linear does the activation that follows it in a Sequential.

    Returns:
        What became of each layer without layers of its own.

    Raises:
        TypeError: It is no module.
    """
    model = _check("convert", model)
    places: dict[torch.nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        places.setdefault(module, []).append(name)
    notes: dict[torch.nn.Module, str] = {}
    if fuse:
        for parent in places:
            if type(parent) is torch.nn.Sequential:
                children = list(parent)
                for layer, activation in zip(children, children[1:]):
                    if len(places[layer]) == len(places[activation]) == 1 and _fusible(layer, activation):
                        layer.activation = notes[layer] = _FUSED[type(activation)]  # type: ignore[assignment]
                        notes[activation] = f"done by {places[layer][0]}"
    report = Report()
    for module, names in places.items():
        if any(True for _ in module.children()):
            continue
        before = type(module)
        note = notes.get(module, "")
        if note.startswith("done by"):
            module.__class__ = _DONE[before]
        elif before in _CLASSES:
            module.__class__ = _CLASSES[before]
        elif not issubclass(before, (nn._Layer, _Done)):
            note = "left: a class of its own" if issubclass(before, tuple(_CLASSES)) else "left: not there"
        report += [Conversion(name, _called(before), _called(type(module)), note) for name in names]
    return report


def _fusible(layer: torch.nn.Module, activation: torch.nn.Module) -> bool:
    if type(layer) is not torch.nn.Linear or type(activation) not in _FUSED:
        return False
    if any((m._forward_hooks or m._forward_pre_hooks or m._backward_hooks) for m in (layer, activation)):
        return False  # which see what goes from one to the other
    return getattr(activation, "approximate", "none") == "none"


def revert(model: torch.nn.Module) -> Report:
    """Make torch's layers of Hologram's in a model; see ``convert``. Layers with an executor of their own lose it."""
    model = _check("revert", model)
    report = Report()
    for name, module in model.named_modules():
        before = type(module)
        after: Optional[type] = _BACK.get(before) or (before._was if issubclass(before, _Done) else None)
        if after is None:
            continue
        module.__class__ = after
        for attribute in ("activation", "backend", "_executor"):
            module.__dict__.pop(attribute, None)
        report.append(Conversion(name, _called(before), _called(after), ""))
    return report
