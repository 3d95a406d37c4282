"""Checks of arguments: integers in the range of their C type."""

from __future__ import annotations

import operator
from typing import Any

from hologram.errors import DTypeError, InvalidArgumentError

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


def integer(what: str, value: Any, low: int = -INT64_MAX - 1, high: int = INT64_MAX) -> int:
    """Return an argument as an int from low to high; by default a C int64_t.

    Raises:
        DTypeError: It is no integer; a float is none, even a whole one.
        InvalidArgumentError: It is out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise DTypeError(f"{what} is {value!r}; expected an integer") from None
    if not low <= number <= high:
        bits = ", which has more than 64 bits" if abs(number) > INT64_MAX + 1 else ""
        raise InvalidArgumentError(f"{what} is {number}{bits}; expected {low} … {high}")
    return number


def integers(what: str, values: Any) -> tuple[int, ...]:
    """Return a sequence of C int64_t.

    Raises:
        DTypeError: It is no sequence of integers.
        InvalidArgumentError: One is out of range.
    """
    if isinstance(values, (str, bytes)):
        raise DTypeError(f"{what} is {values!r}; expected integers")
    try:
        items = tuple(values)
    except TypeError:
        raise DTypeError(f"{what} is {values!r}; expected a sequence of integers") from None
    return tuple(integer(f"{what}[{i}]", value) for i, value in enumerate(items))
