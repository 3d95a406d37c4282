"""What a kernel's program depends on outside of its function: numbers and functions that it and these name."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Callable

import numpy as np

__all__ = ["exact", "look", "outside"]

_NUMBERS = (bool, int, float, np.generic)
_OURS = ("hologram", "hologram_torch", "numpy")  # whose functions stay as they are


def exact(value: object) -> object:
    """Return a key that tells apart what == does not, 1 and True, 0.0 and -0.0, and not one NaN from another."""
    if isinstance(value, tuple):
        return type(value), tuple(exact(item) for item in value)
    odd = isinstance(value, (float, np.floating)) and (not value or value != value)
    return type(value), repr(value) if odd else value


def outside(value: object) -> object:
    """Return what a program depends on of a value outside of its function: a number, or a function; else None."""
    if isinstance(value, _NUMBERS):
        return exact(value)
    if type(value) is not types.FunctionType and callable(value):
        value = inspect.unwrap(value)  # a kernel's
    return value if isinstance(value, types.FunctionType) else None


def look(function: types.FunctionType, found: dict[object, Callable[[], object]], seen: set[object]) -> None:
    """Add to found what looks at the globals and closures that a function names, and that functions among them name.

    Left out are modules, classes, and functions that don't change. Seen are functions that were looked at.
    """
    seen.add(function)
    space = function.__globals__
    looks: dict[object, Callable[[], object]] = {
        (function, name): functools.partial(space.get, name) for name in _names(function.__code__) if name in space
    }
    looks.update(((function, i), functools.partial(_content, c)) for i, c in enumerate(function.__closure__ or ()))
    for key, value_of in looks.items():
        value = value_of()
        inner = inspect.unwrap(value) if callable(value) else None
        if isinstance(inner, types.FunctionType):
            if (inner.__module__ or "").partition(".")[0] in _OURS:
                continue
            if inner not in seen:
                look(inner, found, seen)
        elif callable(value) or isinstance(value, types.ModuleType):
            continue
        found.setdefault(key, value_of)


def _names(code: types.CodeType) -> set[str]:
    """Return the names of globals in a function's code, that of functions and comprehensions inside it included."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inside)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not set yet
