"""The types of values: their kinds, and which of them an operation has, as numpy promotes them."""

from __future__ import annotations

import functools

import numpy as np

from hologram._built import FLOATS
from hologram._dtypes import NAMES, code_of, dtype_of_code
from hologram._kernel.lines import fail
from hologram.errors import DTypeError, HologramError

__all__ = ["BOOLS", "INTEGERS", "PRED", "REALS", "WEAK", "common_of", "common_of_two", "kind_of", "limits", "promote"]

PRED = "pred"
BOOLS, INTEGERS, REALS = 0, 1, 2
WEAK = {BOOLS: PRED, INTEGERS: "i64", REALS: "f64"}
_KINDS = {PRED: BOOLS, **dict.fromkeys(FLOATS, REALS)}


def kind_of(type: str) -> int:
    """Return 0 for bools, 1 for integers, 2 for floats: a number of a higher kind holds those of lower ones."""
    return _KINDS.get(type, INTEGERS)


@functools.cache
def limits(type: str) -> tuple[int, int]:
    """Return the least and the largest number of an integer type, of bools too."""
    if type == PRED:
        return 0, 1
    bits = int(type[1:])
    return (0, (1 << bits) - 1) if type[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)


@functools.cache
def _promoted(a: str, b: str) -> str:
    first, second = (dtype_of_code(NAMES.index(t) + 1) for t in (a, b))
    return NAMES[code_of(np.promote_types(first, second)) - 1]


def promote(a: str, b: str) -> str:
    """Return the type that numpy gives an operation on two types."""
    if b == a or b == PRED:
        return a
    if a == PRED:
        return b
    try:
        return _promoted(a, b)
    except (TypeError, HologramError):
        fail(DTypeError, f"{a} and {b} have no common type; convert one with .astype(…)")


@functools.cache
def common_of_two(a: str, a_weak: bool, b: str, b_weak: bool) -> tuple[str, bool]:
    """Return that of two operands."""
    return common_of([(a, a_weak), (b, b_weak)])


def common_of(operands: list[tuple[str, bool]]) -> tuple[str, bool]:
    """Return the type of an operation on operands, each a type and whether it is weak, and whether its result is."""
    strong, weak = "", -1  # of the strong ones, and the highest kind of the weak ones
    for type, is_weak in operands:
        if is_weak:
            weak = max(weak, kind_of(type))
        elif type != strong:
            strong = promote(strong, type) if strong else type
    if not strong:
        return WEAK[weak], True
    return (WEAK[weak], False) if weak > kind_of(strong) else (strong, False)
