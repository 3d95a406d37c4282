"""Views of operands, by which axes and matrices come to where the library looks for them: last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from hologram._arguments import flag, integer
from hologram.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hologram._operands import Operands
    from hologram.buffer import Buffer


def axes(first: Buffer, what: str, axis: Any) -> tuple[list[int], int]:
    """Return the order of an array's dimensions in which the axes are last, and how many they are.

    Args:
        first: The array.
        what: What errors begin with.
        axis: A number, several, or None for all.
    """
    rank = first.ndim
    numbers = list(range(rank)) if axis is None else list(axis) if isinstance(axis, (tuple, list)) else [axis]
    numbers = [integer(f"{what}: axis", a) for a in numbers]
    for a in numbers:
        if not -rank <= a < rank:
            raise InvalidArgumentError(f"{what}: axis is {a}; {_name(first)} has {rank} dimensions")
    numbers = [a % rank for a in numbers]
    if len(set(numbers)) != len(numbers):
        raise InvalidArgumentError(f"{what}: axis is {axis!r}, which has one twice")
    return [i for i in range(rank) if i not in numbers] + sorted(numbers), len(numbers)


def check(buffers: list[Buffer], what: str, moved: int, keepdims: Optional[bool]) -> None:
    """Check the dimensions of the output of a call with axes.

    Args:
        buffers: The arrays of the call, an input and an output.
        what: What errors begin with.
        moved: How many axes there are.
        keepdims: Whether the output has the axes, as 1; None if it has the shape of the input.
    """
    rank, written = buffers[0].ndim, buffers[-1].ndim
    expected = rank - moved if keepdims is False else rank
    if written != expected and (keepdims is None or written != 1 or expected != 0):
        raise InvalidArgumentError(f"{what}: the output has {written} dimensions; expected {expected}")


def place(operands: Operands, i: int, order: list[int]) -> None:
    """Put the dimensions of an operand in an order, unless it has fewer."""
    buffer = operands.buffers[i]
    if buffer.ndim == len(order) and order != list(range(len(order))):
        strides = [s // buffer.itemsize for s in buffer.strides]
        operands.replace(i, buffer.view([buffer.shape[d] for d in order], strides=[strides[d] for d in order]))


def unplaced(shape: tuple[int, ...], order: list[int], moved: int, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a result, of which the axes come last or not at all, as its caller has it."""
    if keepdims:
        shape += (1,) * moved
    if len(shape) != len(order):
        return shape
    return tuple(shape[order.index(d)] for d in range(len(order)))


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
            place(operands, i, [*range(buffer.ndim - 2), buffer.ndim - 1, buffer.ndim - 2])
    a, b = operands.buffers[:2]
    if "k" in given:
        sizes = {"m": a.shape[-2:-1], "n": b.shape[-1:], "k": a.shape[-1:]}
    else:
        sizes = {"m": a.shape[-2:-1], "n": a.shape[-1:]}
    for name, size in sizes.items():
        if given[name] is not None and size and size[0] != integer(f"{what}: {name}", given[name]):
            raise InvalidArgumentError(f"{what}: {name} is {given[name]}, and the arrays' shapes make it {size[0]}")


def _name(buffer: Buffer) -> str:
    return f"an array of shape {buffer.shape}"
