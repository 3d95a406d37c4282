"""What a launch does before it calls the library: names become slots and parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import numpy as np

from hologram import _ffi
from hologram._arguments import integer
from hologram._dtypes import NAMES, scalar_bits
from hologram._operands import Operands
from hologram.errors import InvalidArgumentError
from hologram.program import Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hologram.executor import Executor

_DIMENSIONS = Union[int, "Sequence[int]", None]


def launch(
    executor: Executor,
    program: Program,
    given: Mapping[str, Any],
    grid: _DIMENSIONS,
    block: _DIMENSIONS,
    n: Optional[int],
    shape: Optional[Sequence[int]],
    fuel: Optional[int],
    trace: Optional[tuple[int, Callable[[str], object]]] = None,
) -> Optional[np.ndarray[Any, np.dtype[np.uint64]]]:
    """Run a program, or trace a lane of it; see Executor.launch and Executor.trace."""
    if not isinstance(program, Program):
        raise TypeError(f"launch: expected a Program, got {type(program).__name__}")
    program._check()
    what = f'launch "{program.name}"'
    if n is not None and shape is not None:
        raise InvalidArgumentError(f"{what}: give n or shape, not both")
    for name in given:
        if name not in program._names:
            raise InvalidArgumentError(f"{what}: {_suggest(program, name)}")
    args = _ffi.LaunchArgs()
    slots, params = program._slot_array(), program._param_array()
    with Operands(executor, what) as operands:
        for i, slot in enumerate(program.slots):
            value = given.get(slot.name)
            if value is None:
                if slot.name == "boundary":
                    continue  # the executor's own pool
                raise InvalidArgumentError(f"{what}: slot {slot.name} ({slot.dtype}) is not bound")
            slots[i] = operands.add("slot " + slot.name, value)._as_parameter_
        for i, param in enumerate(program.params):
            value = given.get(param.name)
            if value is None:
                raise InvalidArgumentError(f"{what}: parameter {param.name} ({param.dtype}) is not given")
            number = params[i]
            number.dtype, number.bits = scalar_bits(
                value, f"{what}: parameter {param.name}", NAMES.index(param.dtype) + 1
            )
        space = (n,) if n is not None else shape
        if space is not None:
            space = [_number(what, "n" if n is not None else "shape", value) for value in space]
            if not space:
                space = [1]
            args.shape, args.rank = _ffi.sizes(space), len(space)
        args.slots, args.num_slots = slots, len(program.slots)
        args.params, args.num_params = params, len(program.params)
        if grid is not None:
            args.grid = _dimensions(what, "grid", grid)
        if block is not None:
            args.block = _dimensions(what, "block", block)
        if fuel is not None:
            if _number(what, "fuel", fuel) <= 0:
                raise InvalidArgumentError(f"{what}: fuel is {fuel}; expected a positive number of steps")
            args.fuel = fuel
        residue = None
        if program.residue:
            residue = np.zeros(_ffi.NUM_CLASSES, np.uint64)
            args.residue = residue.ctypes.data_as(_ffi.POINTER(_ffi.c_uint64))
        if trace is None:
            _ffi.call(_ffi.lib.hologram_launch, executor._as_parameter_, program._as_parameter_, _ffi.byref(args))
        else:
            lane, failures = _number(what, "lane", trace[0]), list[BaseException]()
            receive = _ffi.line_receiver(trace[1], failures)
            _ffi.call(
                _ffi.lib.hologram_trace,
                executor._as_parameter_,
                program._as_parameter_,
                _ffi.byref(args),
                lane,
                receive,
                None,
                failures=failures,
            )
    return residue


def _suggest(program: Program, name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, program._names, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(program._names) or 'none'}"
    return f"the program has no slot or parameter {name}{hint}"


def _number(what: str, name: str, value: Any) -> int:
    return integer(f"{what}: {name}", value, 0)


def _dimensions(what: str, name: str, value: Union[int, Sequence[int]]) -> tuple[int, int, int]:
    """Return x, y and z."""
    given = [value] if not isinstance(value, (tuple, list, np.ndarray)) else list(value)
    numbers = [_number(what, name, item) for item in given]
    if not 1 <= len(numbers) <= 3 or not all(0 < item < 1 << 32 for item in numbers):
        raise InvalidArgumentError(f"{what}: {name} is {value!r}; expected one to three numbers from 1 to 2**32 - 1")
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)
