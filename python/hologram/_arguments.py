"""Checks of arguments, integers in the range of their C type above all, and how errors speak of them."""

from __future__ import annotations

import contextlib
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.errors import DTypeError, HologramError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


def shown(value: Any) -> str:
    """Return a value as errors show it: briefly, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 1000:  # Python itself refuses to write some
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:200]}…"


_SAME = (
    {"axis", "axes", "dim", "dims"},
    {"keepdims", "keepdim"},
    {"ex", "executor"},
    {"minval", "amin", "min", "low", "lower"},
    {"maxval", "amax", "max", "high", "upper"},
    {"value", "fillvalue"},
    {"eps", "epsilon"},
    {"transa", "adjointa"},
    {"transb", "adjointb"},
    {"lr", "learningrate"},
)
"""What others call the same, as _plain has it."""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("transpose", "trans")


def meant(keyword: str, names: Sequence[str]) -> str:
    """Return what an error of an unknown keyword adds: which of a function's names may be meant, if one may."""
    import difflib

    same: set[str] = next((each for each in _SAME if _plain(keyword) in each), {_plain(keyword)})
    near = [name for name in names if _plain(name) in same] or difflib.get_close_matches(keyword, names, 1, 0.75)
    return f"; here it is {near[0]}=" if near else ""


_OTHERS = (BufferError, RuntimeError, TypeError, ValueError)


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Let errors begin with what they are about: ours, and the plain ones that an array raises of itself.

    That an array was wrapped on the way is nothing that the caller did.
    """
    try:
        yield
    except HologramError as error:
        named = type(error)(f"{what}: {str(error).removeprefix('wrap: ')}")
        vars(named).update(vars(error))
        raise named from None
    except _OTHERS as error:
        if type(error) not in _OTHERS:  # may want other arguments
            raise
        raise type(error)(f"{what}: {error}") from error


def flag(what: str, value: Any) -> bool:
    """Return an argument that is True or False, or None for False.

    Raises:
        DTypeError: It is something else; 1 and 0 will do.
    """
    if value is None or isinstance(value, (bool, np.bool_)) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise DTypeError(f"{what} is {shown(value)}; expected True or False")


def integer(what: str, value: Any, low: int = -INT64_MAX - 1, high: int = INT64_MAX) -> int:
    """Return an argument as an int from low to high; by default a C int64_t.

    Raises:
        DTypeError: It is no integer; a float is none, even a whole one.
        InvalidArgumentError: It is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"{what} is {shown(value)}; expected an integer") from None
    if not low <= number <= high:
        bits = ", which has more than 64 bits" if abs(number) > INT64_MAX + 1 else ""
        raise InvalidArgumentError(f"{what} is {shown(number)}{bits}; expected {low} … {high}")
    return number


def integers(what: str, values: Any, alone: bool = False) -> tuple[int, ...]:
    """Return a sequence of C int64_t, with ``alone`` also of an integer that stands for a sequence of one.

    Raises:
        DTypeError: It is no sequence of integers.
        InvalidArgumentError: One is out of range.
    """
    if isinstance(values, (str, bytes)):
        raise DTypeError(f"{what} is {shown(values)}; expected integers")
    if alone and hasattr(values, "__index__") and not getattr(values, "ndim", 0):
        return (integer(what, values),)
    try:
        items = tuple(values)
    except TypeError:
        raise DTypeError(f"{what} is {shown(values)}; expected a sequence of integers") from None
    return tuple(integer(f"{what}[{i}]", value) for i, value in enumerate(items))
