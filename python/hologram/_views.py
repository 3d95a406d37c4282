"""What calls say of axes and of matrices: numbers of dimensions, and views of matrices that are stored transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hologram._arguments import flag, integer, shown
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hologram._operands import Operands
    from hologram.buffer import Buffer


KEEP_DIMS = 1 << 16
"""HOLOGRAM_KEEP_DIMS of the C ABI."""


def axes(first: Buffer, what: str, axis: Any, keepdims: bool) -> int:
    """Return the number that stands for axes in a call: bit i for dimension i, and KEEP_DIMS.

    Args:
        first: The array.
        what: What errors begin with.
        axis: A number, several, or None for all.
        keepdims: Whether the result has the axes, as 1.
    """
    rank = first.ndim
    if rank == 0 and isinstance(axis, (int, np.integer)) and not isinstance(axis, bool) and axis in (0, -1):
        axis = None  # as numpy has it of what has no dimensions
    numbers = list(range(rank)) if axis is None else list(axis) if isinstance(axis, (tuple, list)) else [axis]
    for a in numbers:
        if isinstance(a, bool):
            raise DTypeError(f"{what}: axis is {shown(axis)}; expected an integer, or several")
    numbers = [integer(f"{what}: axis", a) for a in numbers]
    for a in numbers:
        if not -rank <= a < rank:
            raise InvalidArgumentError(f"{what}: axis is {a}; {_name(first)} has {rank} dimensions")
    numbers = [a % rank for a in numbers]
    if len(set(numbers)) != len(numbers):
        raise InvalidArgumentError(f"{what}: axis is {axis!r}, which has one twice")
    return sum(1 << a for a in numbers) | (KEEP_DIMS if keepdims else 0)


def rows(first: Buffer, what: str, name: str, sizes: dict[str, Any]) -> int:
    """Return the number that stands for the rows of a matrix in a call, and check the one of its sizes that is given.

    Args:
        first: The array.
        what: What errors begin with.
        name: The array's name.
        sizes: How many rows and columns are asked for, None for as many as there are.
    """
    if first.ndim != 2:
        raise InvalidArgumentError(f"{what}: {name} has shape {first.shape}; expected a matrix, or rows and cols")
    for size, (given, asked) in zip(first.shape, sizes.items()):
        if asked is not None and integer(f"{what}: {given}", asked) != size:
            raise InvalidArgumentError(f"{what}: {given} is {asked}, and {name} has shape {first.shape}")
    return axes(first, what, 1, False)


def matrices(operands: Operands, what: str, given: dict[str, Any]) -> None:
    """Transpose the matrices that are stored so, and check the sizes that are given against the shapes.

    Args:
        operands: a, b and c of gemm; a, x and y of matvec.
        what: What errors begin with.
        given: The arguments by name.
    """
    for i, name in enumerate("ab"):
        buffer = operands.buffers[i]
        if flag(f"{what}: trans_{name}", given.get(f"trans_{name}")) and buffer.ndim >= 2:
            operands.replace(i, _transposed(buffer))
    a, b = operands.buffers[:2]
    if "k" in given:  # a vector is a row of a, or a column of b
        n = b.shape[-1:] if b.ndim != 1 else (1,)
        sizes = {"m": a.shape[-2:-1] if a.ndim != 1 else (1,), "n": n, "k": a.shape[-1:]}
    else:
        sizes = {"m": a.shape[-2:-1], "n": a.shape[-1:]}
    for name, size in sizes.items():
        if given[name] is not None and size and size[0] != integer(f"{what}: {name}", given[name]):
            raise InvalidArgumentError(f"{what}: {name} is {given[name]}, and the arrays' shapes make it {size[0]}")


def _transposed(buffer: Buffer) -> Buffer:
    """Return a view of a matrix, or a stack of them, with its last two dimensions swapped."""
    order = [*range(buffer.ndim - 2), buffer.ndim - 1, buffer.ndim - 2]
    strides = [s // buffer.itemsize for s in buffer.strides]
    return buffer.view([buffer.shape[d] for d in order], strides=[strides[d] for d in order])


def _name(buffer: Buffer) -> str:
    return f"an array of shape {buffer.shape}"
