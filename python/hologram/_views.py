"""Views of operands, by which axes and matrices come to where the library looks for them: last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from hologram._arguments import flag, integer
from hologram.errors import InvalidArgumentError

if TYPE_CHECKING:
    from hologram._operands import Operands
    from hologram.buffer import Buffer


def along(operands: Operands, what: str, axis: Any, keepdims: Optional[bool]) -> int:
    """Move the axes of the operands to the end, and return how many there are.

    Args:
        operands: The arrays of a call, an input and an output.
        what: What errors begin with.
        axis: A number, several, or None for all.
        keepdims: Whether the output has the axes, as 1; None if it has the shape of the input.
    """
    first, rank = operands.buffers[0], operands.buffers[0].ndim
    axes = list(range(rank)) if axis is None else list(axis) if isinstance(axis, (tuple, list)) else [axis]
    axes = [integer(f"{what}: axis", a) for a in axes]
    for a in axes:
        if not -rank <= a < rank:
            raise InvalidArgumentError(f"{what}: axis is {a}; {_name(first)} has {rank} dimensions")
    axes = [a % rank for a in axes]
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError(f"{what}: axis is {axis!r}, which has one twice")
    order = [i for i in range(rank) if i not in axes] + sorted(axes)
    written = operands.buffers[-1].ndim
    expected = rank - len(axes) if keepdims is False else rank
    if written != expected and (keepdims is None or written != 1 or expected != 0):
        raise InvalidArgumentError(f"{what}: the output has {written} dimensions; expected {expected}")
    for i, buffer in enumerate(operands.buffers):
        if buffer.ndim == rank:
            _place(operands, i, buffer, order)
    return len(axes)


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
            order = [*range(buffer.ndim - 2), buffer.ndim - 1, buffer.ndim - 2]
            _place(operands, i, buffer, order)
    a, b, _ = operands.buffers
    if "k" in given:
        sizes = {"m": a.shape[-2:-1], "n": b.shape[-1:], "k": a.shape[-1:]}
    else:
        sizes = {"m": a.shape[-2:-1], "n": a.shape[-1:]}
    for name, size in sizes.items():
        if given[name] is not None and size and size[0] != integer(f"{what}: {name}", given[name]):
            raise InvalidArgumentError(f"{what}: {name} is {given[name]}, and the arrays' shapes make it {size[0]}")


def _place(operands: Operands, i: int, buffer: Buffer, order: list[int]) -> None:
    if order == list(range(buffer.ndim)):
        return
    strides = [s // buffer.itemsize for s in buffer.strides]
    operands.replace(i, buffer.view([buffer.shape[d] for d in order], strides=[strides[d] for d in order]))


def _name(buffer: Buffer) -> str:
    return f"an array of shape {buffer.shape}"
