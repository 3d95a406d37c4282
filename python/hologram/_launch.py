"""What a launch that C leaves to Python does: names become slots and parameters, and errors name them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import numpy as np

from hologram._arguments import integer, integers, shown
from hologram._dtypes import NAMES, scalar_bits
from hologram._ffi import NUM_CLASSES
from hologram._isa import MAX_BLOCK_LANES
from hologram._operands import Operands
from hologram.errors import InvalidArgumentError
from hologram.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hologram.buffer import Buffer
    from hologram.executor import Executor

_DIMENSIONS = Union[int, "Sequence[int]", None]


def launch(
    executor: Executor,
    program: Program,
    given: Mapping[str, Any],
    grid: _DIMENSIONS,
    block: _DIMENSIONS,
    n: Optional[int],
    shape: Union[int, Sequence[int], None],
    fuel: Optional[int],
    stream: Any = None,
    trace: Optional[tuple[int, Callable[[str], object]]] = None,
) -> Optional[np.ndarray[Any, np.dtype[np.uint64]]]:
    """Run a program, or trace a lane of it; see Executor.launch and Executor.trace."""
    if not isinstance(program, Program):
        raise TypeError(f"launch: expected a Program, got {type(program).__name__}")
    program._check()
    what = f'launch "{program.name}"'
    own = {"grid": grid, "block": block, "n": n, "shape": shape, "fuel": fuel, "stream": stream}
    for name, setting in own.items():
        if name in program._names and name not in given and setting is not None:
            raise InvalidArgumentError(
                f"{what}: {name}= is a keyword of launch itself, and {name} of the program is not bound; "
                f'bind it with bindings={{"{name}": …}}'
            )
    if n is not None and shape is not None:
        raise InvalidArgumentError(f"{what}: give n or shape, not both")
    for name in given:
        if name not in program._names:
            raise InvalidArgumentError(f"{what}: {_suggest(program, name)}")
    scalars: list[tuple[int, int]] = []
    slots: list[Optional[Buffer]] = []
    with Operands(executor, what, stream) as operands:
        for slot in program.slots:
            value = given.get(slot.name)
            if value is not None:
                slots.append(operands.add("slot " + slot.name, value, slot.writes))
            elif slot.name == "boundary":
                slots.append(None)  # the executor's own pool
            else:
                raise InvalidArgumentError(f"{what}: slot {slot.name} ({slot.dtype}) is not bound")
        for param in program.params:
            value = given.get(param.name)
            if value is None:
                raise InvalidArgumentError(f"{what}: parameter {param.name} ({param.dtype}) is not given")
            scalars.append(scalar_bits(value, f"{what}: parameter {param.name}", NAMES.index(param.dtype) + 1))
        space: Optional[tuple[int, ...]] = None
        if n is not None:
            space = (_number(what, "n", n),)
        elif shape is not None:
            given_shape = tuple(
                _number(what, "shape", value) for value in integers(f"{what}: shape", shape, alone=True)
            )
            space = given_shape or (1,)
            for slot, buffer in zip(program.slots, slots):
                if buffer is not None and slot.indexed and len(space) == 1 and buffer.size > space[0]:
                    raise InvalidArgumentError(
                        f"{what}: shape is {given_shape}, and slot {slot.name} has shape {buffer.shape}; "
                        f"n={space[0]} takes the first elements"
                    )
        sizes = [
            None if value is None else _dimensions(what, name, value)
            for name, value in (("grid", grid), ("block", block))
        ]
        if fuel is not None:
            integer(f"{what}: fuel", fuel, 1)
        residue = np.zeros(NUM_CLASSES, np.uint64) if program.residue else None
        lane, receive = (None, None) if trace is None else (_number(what, "lane", trace[0]), trace[1])
        operands.call(
            -1, program, tuple(slots), tuple(scalars), space, *sizes, fuel or 0, residue, lane, receive=receive
        )
    return residue


def _suggest(program: Program, name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*program._names, "grid", "block", "n", "shape", "fuel", "stream"], 1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(program._names) or 'none'}"
    return f"the program has no slot or parameter {name}{hint}"


def _number(what: str, name: str, value: Any) -> int:
    return integer(f"{what}: {name}", value, 0)


def _dimensions(what: str, name: str, value: Union[int, Sequence[int]]) -> tuple[int, int, int]:
    """Return x, y and z."""
    given = [value] if not isinstance(value, (tuple, list, np.ndarray)) else list(value)
    numbers = [integer(f"{what}: {name}", item, -sys.maxsize) for item in given]
    if not 1 <= len(numbers) <= 3 or not all(0 < item < 1 << 32 for item in numbers):
        limits = f"1 … {MAX_BLOCK_LANES} lanes in all" if name == "block" else "each from 1 to 2**32 - 1"
        raise InvalidArgumentError(f"{what}: {name} is {shown(value)}; expected one to three numbers, {limits}")
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)
