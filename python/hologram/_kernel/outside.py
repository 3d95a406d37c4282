"""What a kernel's program depends on outside of its function: what can't change of that which it and functions name."""

from __future__ import annotations

import builtins
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


class _Is:
    """A key that is one object's, which need not be hashable, nor equal itself."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Is) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


_ABSENT = object()
"""What a name is that nothing has."""


def outside(value: object) -> object:
    """Return what a program depends on of a value outside of its function, a number, a text, what is called; else None.

    A tuple is of such things, or it is none of them.
    """
    if type(value) is types.FunctionType or value is _ABSENT:
        return value
    if isinstance(value, (*_NUMBERS, str)):
        return exact(value)
    if isinstance(value, tuple):
        inside = tuple(outside(item) for item in value)
        return None if any(key is None for key in inside) else (type(value), inside)
    if not callable(value):
        return None
    inner = inspect.unwrap(value)  # a kernel's
    return inner if isinstance(inner, types.FunctionType) else _Is(value)


def look(function: types.FunctionType, found: dict[object, Callable[[], object]], seen: set[object]) -> None:
    """Add to found what looks at the globals and closures that a function names, and that functions among them name.

    Left out are modules, and what functions that don't change name. Seen are functions that were looked at.
    """
    seen.add(function)
    if (function.__module__ or "").partition(".")[0] in _OURS:
        return
    space = function.__globals__
    looks: dict[object, Callable[[], object]] = {
        (function, name): functools.partial(space.get, name, _ABSENT)
        for name in _names(function.__code__)
        if name in space or hasattr(builtins, name)  # which a global may hide later
    }
    looks.update(((function, i), functools.partial(_content, c)) for i, c in enumerate(function.__closure__ or ()))
    for key, value_of in looks.items():
        value = value_of()
        if isinstance(value, types.ModuleType):
            continue
        found.setdefault(key, value_of)
        inner = inspect.unwrap(value) if callable(value) else None
        if isinstance(inner, types.FunctionType) and inner not in seen:
            look(inner, found, seen)


def _names(code: types.CodeType) -> set[str]:
    """Return the names of globals in a function's code, that of functions and comprehensions inside it included."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inside)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not set yet
