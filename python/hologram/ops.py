"""The library of operations.

Every function takes the executor first, then its arrays in the order inputs, outputs. An array is a Buffer, a numpy
array or anything with DLPack on memory that the executor's device sees; all arrays of a call have one dtype, but sums,
which may go to a wider one, and places, which are int64; and nothing is copied. Arrays of bools count as u8, but only
``copy`` and ``fill`` take one as output.

The executor may be left out: then a call runs on that of its first Buffer, or on one that the process keeps for the
memory of its first array, the CPU's or that GPU's.

Elementwise operations take arrays of any strides, and numbers for some of them. They work on the shape of the output,
to which the inputs broadcast as numpy's do; with ``n`` on the first n elements of each, whatever the shapes, none of
which may have fewer. Their output may be left out, or None where numbers follow it: then they return a new array of
the shape that the inputs broadcast to, or of n elements. It is row-major, of the inputs' dtype, and of the kind of the
first array: a Buffer, a torch tensor on its device, or else an array of numpy's. With an output they return None.

What works on all elements of several arrays, as losses do, demands as many of each, or ``n``. Reductions and softmax
take ``axis``, and products the sizes from their arrays' shapes, of any strides.

All raise ``ValueError`` for sizes that don't fit, ``TypeError`` for what is no array or has another dtype and
``RuntimeError`` for what was freed; nothing has run then. On an asynchronous device what goes wrong while running is
raised by the next call that waits.
"""

from __future__ import annotations

import copyreg
import importlib
import json
from typing import Any

import numpy as np

from hologram import _results
from hologram import _views as views
from hologram._arguments import flag, integer, naming
from hologram._dtypes import scalar_bits
from hologram._ffi import hooks, native
from hologram._operands import Operands, is_number
from hologram._signatures import GIVEN, ONE_ROW, Function, functions
from hologram.buffer import Buffer
from hologram.errors import DTypeError, HologramError, InvalidArgumentError
from hologram.executor import check_executor

_functions = functions(json.loads(native.ops()))
_by_name = {f.name: f for f in _functions}
_BOOL = np.dtype(bool)


def _builtin(f: Function) -> Any:
    doc = f"{f.name}{f.signature}\n--\n\n{f.doc}"
    parameters = tuple(tuple(p) for p in f.parameters)
    copies = f.operation == "copy"
    return native.operation(f.name, f.number, parameters, f.positional, f.form, f.result, doc, copies)


def _careful(name: str, *values: Any) -> Any:
    """Make a call that C left to Python: say what is wrong with its arguments, or run it on buffers made of them."""
    f = _by_name[name]
    what = f.name
    ex, given = values[0], dict(zip([p.name for p in f.parameters], values))
    names = [p.name for p in f.parameters if p.kind in "rwo"]
    if ex is None:
        for p in f.parameters:
            if p.kind in "sdfn" and _is_array(given[p.name]):  # by one place too far: what was the first?
                raise DTypeError(
                    f"{what}: ex: expected an Executor, got {type(values[1]).__name__}; or it is left out, and "
                    f"{p.name} is a {type(given[p.name]).__name__}"
                )
        with naming(what):
            ex = _results.executor_of(given[name] for name in names)
    check_executor(what, ex)
    with Operands(ex, what) as operands:
        made = None
        scalars: list[Any] = []
        dims: list[int] = []
        counts: dict[str, int] = {}  # elements by name
        for p in f.parameters:
            value = given[p.name]
            if p.kind == "r" and f.elementwise and is_number(value):
                operands.add_number(p.name, value)
            elif p.kind == "o" and value is None:
                made = operands.add_result(given["n"], f.operation == "copy")
            elif p.kind in "rwo":
                buffer = operands.add(p.name, value, p.kind != "r")
                if p.counted:
                    counts[p.name] = buffer.size
            elif p.kind == "d" or (p.kind == "m" and value is not None):
                dims.append(integer(f"{what}: {p.name}", value))
            elif p.kind == "f":
                dims.append(int(flag(f"{what}: {p.name}", value)))
            elif p.kind == "k":
                given[p.name] = flag(f"{what}: {p.name}", value)
            elif p.kind == "s":
                scalars.append(p.default if value is None and p.default is not None else value)
            elif p.kind == "n" and value is not None:
                counts = {p.name: integer(f"{what}: {p.name}", value, 0)}
        operands.complete(given.get("n"))
        axes = given.get("axis") is not None or given.get("keepdims", False)
        missing = [p.name for p in f.parameters if p.kind == "m" and given[p.name] is None]
        if axes:
            if given["n"] is not None:
                raise InvalidArgumentError(f"{what}: n counts elements, axis says along which a row lies; give one")
            counts.clear()
        if len({*counts.values()}) > 1:
            sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise InvalidArgumentError(f"{what}: the numbers of elements differ: {sizes}; n takes the first of each")
        output, last = operands.buffers[-1], names[-1]
        if f.result and not axes and output.size < 3:
            raise InvalidArgumentError(f"{what}: {last} has {output.size} elements; expected at least 3 elements")
        # The library works on bytes here, of which a bool may only be 0 or 1.
        if output.dtype == _BOOL and f.operation != "copy":
            if f.operation != "fill":
                raise DTypeError(
                    f"{what}: {last} has dtype bool, and the result may be none; give array.view(numpy.uint8)"
                )
            scalars = [bool(value) for value in scalars]
        called = [p.name for p in f.parameters if p.kind == "s"]
        cells = tuple(scalar_bits(value, f"{what}: {n}") for n, value in zip(called, scalars))
        if axes:
            dims.append(views.along(operands, what, given["axis"], given.get("keepdims")))
        elif f.form == ONE_ROW:
            dims.append(1)
        if counts and (f.form != GIVEN or given.get("n") is not None):
            dims.append(min(counts.values()))
        if missing:
            views.matrices(operands, what, {p.name: given[p.name] for p in f.parameters})
            dims.clear()
        space = None if f.form == GIVEN and not dims else tuple(dims)
        try:
            native.call(ex, f.number, None, tuple(operands.buffers), cells, space, None, None, 0, None, None, None)
        except HologramError as error:
            _renamed(name, error)
            raise
        if not f.result or axes:
            return made
        first = np.empty(1, output.dtype)
        native.buffer_read(output, 0, first.nbytes, first.view(np.uint8))
        return first[0].item()


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.generic, Buffer)):
        return isinstance(value, Buffer)
    return hasattr(value, "__dlpack__") and getattr(value, "ndim", 1) > 0 and len(value) != 1


def _renamed(name: str, error: BaseException) -> None:
    """Let an error of the library, which knows operations alone, speak of the function that was called."""
    operation = _by_name[name].operation
    text = error.args[0] if error.args else None
    if name != operation and isinstance(text, str) and text.startswith(operation + ": "):
        error.args = (name + text[len(operation) :], *error.args[1:])


hooks["operation"], hooks["renamed"] = _careful, _renamed

globals().update((f.name, _builtin(f)) for f in _functions)


def _this(_: object) -> Any:
    return importlib.import_module, (__name__,)


# A pickled builtin names its self, and what to get of that: another process has it in its module of this name.
copyreg.pickle(type(native.operation("", 0, (), 0, 0, False, "", False).__self__), _this)

__all__ = sorted(_by_name)


def __getattr__(name: str) -> Any:
    """Say what there is instead of what is not."""
    import difflib

    near = difflib.get_close_matches(name, __all__, 1)
    hint = f"; did you mean {near[0]}?" if near else "; dir(hologram.ops) lists what there is"
    raise AttributeError(f"module {__name__!r} has no operation {name!r}{hint}")


def __dir__() -> list[str]:
    """List the operations."""
    return [*__all__, "__doc__", "__file__", "__name__"]
