"""The library of operations.

Every function takes the executor first, then its arrays in the order inputs, outputs. An array is a Buffer, a numpy
array or anything with DLPack on memory that the executor's device sees; all arrays of a call have one dtype, but
sums and products, which may go to a wider one, and places, which are int64; and nothing is copied. Arrays of bools
count as u8; outputs of bools have ``copy`` and ``fill``, and what makes bools: comparisons, and of bools ``where``,
``vector_mul``, ``vector_min``, ``vector_max``, ``reduce_min`` and ``reduce_max``.

The executor may be left out: then a call runs on that of its first Buffer, or on one that the process keeps for the
memory of its first array, the CPU's or that GPU's.

The output may be left out, or None where numbers or sizes follow it: then a call returns a new array of the kind of
the first one: a Buffer, a torch tensor on its device, or else an array of numpy's. It is row-major, but
numpy's arrays element by element keep the order in which all of these lie; and of the inputs' dtype, but that sums of
integers are kept in 64 bits. An output that is given as ``out=`` is returned, in every operation, as numpy does it:
``vector_add(x, y, out=z)``. So is any of a reduction or a loss, but for the form below that returns a number. Other
operations return None where the output is given by its place or its own name. What makes several arrays returns those
that are left out, in their order: ``mean, variance, y = layer_norm(x, weight, bias, eps=1e-5, axis=-1)``.

Elementwise operations take arrays of any strides, and numbers for some of them. They work on the shape of the output,
to which the inputs broadcast as numpy's do; with ``n`` on the first n elements of each, row by row, whatever the
shapes. None may have fewer, and each has one dimension, is contiguous or is taken whole. No array's elements may be
less than whole multiples of their size apart, as a packed record's fields are, or not be aligned to it.

Reductions and losses make one number: without an output and axes they return it as a number of Python's. With
``axis`` or ``keepdims`` they make an array, of which nobody waits for the elements, as with an output by name, which
may have the one element. An output by position, without axes, has at least 3 elements, of which the first becomes the
result, which is returned too, the form that programs for the earlier Hologram use; ``argmin`` and ``argmax`` have no
such form.

What works on all elements of several arrays, as losses do, demands arrays of one shape, or ``n``. Softmax takes
``axis`` too, and products the sizes from their arrays' shapes, of any strides. All these have at most 2^31 in each
dimension, and 2^40 elements.

All raise ``ValueError`` for sizes that don't fit, ``TypeError`` for what is no array or has another dtype and
``RuntimeError`` for what was freed; nothing has run then. On an asynchronous device what goes wrong while running is
raised by the next call that waits.
"""

from __future__ import annotations

import copyreg
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _results
from hologram import _views as views
from hologram._arguments import flag, integer, naming
from hologram._dtypes import code_of, scalar_bits
from hologram._ffi import hooks, native
from hologram._operands import Operands, Unread, is_number
from hologram._signatures import GIVEN, ONE_ROW, Function, functions
from hologram.buffer import Buffer
from hologram.errors import DTypeError, HologramError, InvalidArgumentError
from hologram.executor import check_executor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_functions = functions(json.loads(native.ops()))
_by_name = {f.name: f for f in _functions}
_BOOL = np.dtype(bool)


def _builtin(f: Function) -> Any:
    doc = f"{f.name}{f.signature}\n--\n\n{f.doc}"
    apart = f.masks | f.indices
    parameters = tuple((p.name, "b" if p.name in apart and p.kind == "r" else p.kind, *p[2:]) for p in f.parameters)
    compares = f.elementwise and f.parameters[-2].name in f.masks
    traits = (f.elementwise, compares, f.reduces, f.result, f.bools, f.numbers)
    return native.operation(f.name, f.number, parameters, f.positional, f.form, traits, doc)


def _careful(name: str, beside: bool, back: bool, later: bool, stream: Any, *values: Any) -> Any:
    """Make a call that C left to Python: say what is wrong with its arguments, or run it on buffers made of them.

    Args:
        name: The function's.
        beside: Whether element 0 of the output is returned.
        back: Whether the output is, which was given as ``out``.
        later: Whether a number is not waited for, but left Unread.
        stream: The stream that the call is for, None for what the arrays say.
        values: Those of its parameters, None for what is not given.
    """
    f = _by_name[name]
    what = f.name
    kernels = sys.modules.get("hologram._kernel.functions")
    if kernels is not None:  # else nothing is a kernel's value
        kernels.refuse_operation(what, values)
    ex, given = values[0], dict(zip([p.name for p in f.parameters], values))
    names = [p.name for p in f.parameters if p.kind in "rwvo"]
    last = names[-1]
    if ex is None:
        for p in f.parameters:
            if p.kind in "sdfn" and _is_array(given[p.name]):
                if p.kind == "s" and given.get("n") is None:
                    raise DTypeError(f"{what}: {p.name} is a {type(given[p.name]).__name__}; {_numbers(what)}")
                # By one place too far: what was the first?
                raise DTypeError(
                    f"{what}: ex: expected an Executor, got {type(values[1]).__name__}; or it is left out, and "
                    f"{p.name} is a {type(given[p.name]).__name__}"
                )
        with naming(what):
            ex = _results.executor_of(given[name] for name in names)
    check_executor(what, ex, "ex")
    left = given[last] is None
    n = next((given[p.name] for p in f.parameters if p.kind == "n"), None)
    axis = given.get("axis")
    if f.name == "where" and left and is_number(given["a"]) and is_number(given["b"]):
        given["a"] = _of_two_numbers(ex, given["a"], given["b"], n)
    with Operands(ex, what, stream) as operands:
        scalars: list[Any] = []
        dims: list[int] = []
        counts: dict[str, int] = {}  # elements by name
        returned: list[Any] = []  # what is written before the last array, and was left out
        for p in f.parameters:
            value = given[p.name]
            if p.kind == "r" and f.numbers and is_number(value):
                operands.add_number(p.name, value, p.name in f.masks)
            elif p.kind == "v" and value is None:
                operands.need_array(f)
                along = None if axis is None else (views.axes(operands.buffers[0], what, axis, False),)
                returned.append(operands.add_result(operands.result_of(f, along), False))
            elif p.kind in "rwvo" and not (p.kind == "o" and left):
                named = [q.name for q in f.parameters if q.kind in "as" and not q.counted]
                if p.kind == "o" and named and is_number(value):
                    raise DTypeError(
                        f"{what}: {p.name}: expected a Buffer, a numpy array or an object with DLPack, got {value!r}; "
                        f"{named[0]} is given by name: {named[0]}={value!r}"
                    )
                buffer = operands.add(p.name, value, p.kind != "r")
                if p.counted:
                    counts[p.name] = buffer.size
            elif p.kind in "dm" and value is not None:
                dims.append(integer(f"{what}: {p.name}", value))
            elif p.kind == "f":
                dims.append(int(flag(f"{what}: {p.name}", value)))
            elif p.kind == "k":
                given[p.name] = flag(f"{what}: {p.name}", value)
            elif p.kind == "s":
                if p.counted and left and value is not None:
                    raise InvalidArgumentError(f"{what}: {p.name} scales what {last} holds; give {last} too")
                scalars.append(p.default if value is None and p.default is not None else value)
            elif p.kind == "n" and value is not None:
                counts = {p.name: integer(f"{what}: {p.name}", value, 0)}
        if left:
            operands.need_array(f)
        keepdims = bool(given.get("keepdims"))
        axes = axis is not None or keepdims
        if axes:
            if n is not None:
                raise InvalidArgumentError(f"{what}: n counts elements, axis says along which a row lies; give one")
            counts.clear()
            dims.append(views.axes(operands.buffers[0], what, axis, keepdims))
        elif len({*counts.values()}) > 1:
            from hologram._advice import one_shape

            shapes = {name: b.shape for name, b in zip(names, operands.buffers) if name in counts}
            sizes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            hint = one_shape(shapes)
            if f.name == "cross_entropy_loss" and operands.buffers[0].ndim > operands.buffers[1].ndim:
                hint = "; target holds probabilities, in pred's shape; of classes nll is the loss, by log_softmax"
            raise InvalidArgumentError(f"{what}: the numbers of elements differ: {sizes}{hint}")
        elif f.form != GIVEN and (n is not None or not (left or (f.reduces and not beside))):
            dims += [1] * (f.form == ONE_ROW) + [min(counts.values())]
        elif f.form == GIVEN and n is not None:
            dims.append(counts["n"])
        sizes = {p.name: given[p.name] for p in f.parameters if p.kind == "d"}
        if None in sizes.values():
            dims = [views.rows(operands.buffers[0], what, names[0], sizes)]
        elif any(p.kind == "m" and given[p.name] is None for p in f.parameters):
            views.matrices(operands, what, {p.name: given[p.name] for p in f.parameters})
            dims.clear()
        space = tuple(dims) or None
        result = given[last]
        if left:
            made = operands.result_of(f, space)
            if f.form == ONE_ROW and n is not None:
                made = made._replace(shape=made.shape[1:])
            result = operands.add_result(made, f.reduces and not axes)
        called = operands.complete(n, f)
        output = operands.buffers[-1]
        if beside and not axes and output.size < 3:
            raise InvalidArgumentError(
                f"{what}: {last} has {output.size} elements; expected at least 3 elements; by name it may have 1"
            )
        # The library works on bytes here, of which a bool may only be 0 or 1.
        if output.dtype == _BOOL and f.operation == "fill":
            scalars = [bool(value) for value in scalars]
        numbers, code = [p.name for p in f.parameters if p.kind == "s"], code_of(output.dtype)
        cells = tuple(scalar_bits(value, f"{what}: {n}", code) for n, value in zip(numbers, scalars))
        try:
            operands.call(
                _by_name[called].number, None, tuple(operands.buffers), cells, space, None, None, 0, None, None
            )
        except HologramError as error:
            _renamed(name, error, operands.bools(), given, called)
            raise
        if returned:
            returned += [result] if left or back else []
            return tuple(returned) if len(returned) > 1 else returned[0]
        if axes or not (beside or (left and f.reduces)):
            return result if left or f.reduces or back else None
        if later:
            return Unread(output.view((1,)))
        first = np.empty(1, output.dtype)
        native.buffer_read(output, 0, first.nbytes, first.view(np.uint8))
        return first[0].item()


def _numbers(what: str) -> str:
    """Say that an operation's numbers are no arrays, and what takes such."""
    from hologram._kernel.functions import PUBLIC

    base = what.partition("_")[2]
    base = {"mul": "vector_mul", "add": "vector_add"}.get(base, base)
    near = f"hologram.{base}" if base in PUBLIC else f"hologram.ops.{base}" if base in _by_name else None
    return "expected a number" + (f"; {near}(…) takes arrays" if near else "")


def _of_two_numbers(ex: Any, a: Any, b: Any, n: Any) -> Buffer:
    """Return the first of where's two numbers as an array, of the dtype that numpy.where gives such: bool, i64, f64."""
    dtype = max((type(a), type(b)), key=(bool, int, float).index)
    cell: Buffer = ex.from_numpy(np.asarray(a, np.dtype({bool: bool, int: "i8", float: "f8"}[dtype])))
    return cell if n is None else cell.view((integer("where: n", n, 0),), strides=(0,))


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.generic, Buffer)):
        return isinstance(value, Buffer)
    return hasattr(value, "__dlpack__") and getattr(value, "ndim", 1) > 0 and len(value) != 1


def _renamed(
    name: str,
    error: BaseException,
    bools: Sequence[Optional[str]],
    values: Mapping[str, Any],
    called: Optional[str] = None,
) -> None:
    """Let an error of the library, which knows operations and bytes, speak of the function called and of bools.

    It says what to write instead of operands of several dtypes, too.

    Args:
        name: The function's.
        error: Its text is changed.
        bools: The names of the operands that are bools; None stands for others.
        values: What operands were given, by name.
        called: The operation that the library was asked for, if it is not the function's.
    """
    operation = called or _by_name[name].operation
    text = error.args[0] if error.args else None
    if not isinstance(text, str):
        return
    if name != operation and text.startswith(operation + ": "):
        text = name + text[len(operation) :]
    for each in bools:
        if each is not None:
            text = text.replace(f" {each} has dtype u8,", f" {each} has dtype bool,")
            text = text.replace(": dtype u8 is not supported", ": dtype bool is not supported")
            text = text.replace(f" and {each} has u8:", f" and {each} has bool:")
    if isinstance(error, DTypeError):
        from hologram._advice import conversion

        text = conversion(_by_name[name], text, values)
    error.args = (text, *error.args[1:])


def _keyword(name: str, keyword: str) -> str:
    from hologram._advice import keyword as advice

    return advice(_by_name[name], keyword)


hooks["keyword"], hooks["operation"], hooks["renamed"] = _keyword, _careful, _renamed

# Names in code are interned too, and so are found by their addresses.
globals().update((sys.intern(f.name), _builtin(f)) for f in _functions)


def _this(_: object) -> Any:
    return importlib.import_module, (__name__,)


# A pickled builtin names its self, and what to get of that: another process has it in its module of this name.
copyreg.pickle(type(native.operation("", 0, (), 0, 0, (False,) * 6, "").__self__), _this)

from hologram._linear import linear as linear  # noqa: E402  # it is made of operations

__all__ = sorted([*_by_name, "linear"])


# What others call operations whose names here do not hold the word.
_ELSEWHERE = {
    "absolute": "vector_abs",
    "bce": "binary_cross_entropy_loss",
    "bce_loss": "binary_cross_entropy_loss",
    "dot": "gemm",
    "embed": "embedding",
    "eq": "vector_equal",
    "ge": "vector_greater_equal",
    "gt": "vector_greater",
    "le": "vector_less_equal",
    "lt": "vector_less",
    "matmul": "gemm",
    "maximum": "vector_max",
    "minimum": "vector_min",
    "multiply": "vector_mul",
    "ne": "vector_not_equal",
    "negative": "vector_neg",
    "product": "reduce_prod",
    "reduce_mul": "reduce_prod",
    "sub": "vector_sub",
    "subtract": "vector_sub",
    "take": "embedding",
}

# What to write for what is no operation.
_DIVIDES = "of floats vector_div; of integers, which it truncates, hologram.kernel(lambda a, b: a {} b) divides so"
_INSTEAD = {
    "divide": _DIVIDES.format("/"),
    "true_divide": _DIVIDES.format("/"),
    "floor_divide": "hologram.kernel(lambda a, b: a // b) divides so",
    "mod": "hologram.kernel(lambda a, b: a % b) has numpy's",
    "remainder": "hologram.kernel(lambda a, b: a % b) has numpy's",
    "all": "reduce_min of bools says whether all are true",
    "any": "reduce_max of bools says whether one is true",
    "average": "divide reduce_sum by the number of elements",
    "mean": "divide reduce_sum by the number of elements",
    "power": "hologram.pow takes arrays too",
    "reciprocal": "write vector_div(1, x)",
    "reshape": "views of arrays are taken as they are, such as x.reshape(…)",
    "square": "write vector_mul(x, x)",
    "transpose": "views of arrays are taken as they are, such as x.T",
}


def called(name: str) -> Optional[str]:
    """Return what an operation is called here that numpy or torch call by a name, None for one that is not here."""
    if name in __all__:
        return name
    ends = [each for each in __all__ if each in (f"vector_{name}", f"reduce_{name}", f"{name}_loss")]
    return _ELSEWHERE.get(name) or (" or ".join(sorted(ends)) or None)


def __getattr__(name: str) -> Any:
    """Say what there is instead of what is not."""
    import difflib

    from hologram._kernel.functions import PUBLIC

    base = name.partition("_")[2] if name.startswith(("vector_", "scalar_", "reduce_")) else name
    meant = called(name) or called(base)
    if meant is None:  # names are alike in what is their own
        bases = {each.removeprefix("vector_").removeprefix("reduce_"): each for each in __all__}
        near = difflib.get_close_matches(base, [*bases, *__all__], 1, 0.8)
        meant = bases.get(near[0], near[0]) if near else None
    if base in _INSTEAD or name in _INSTEAD:
        hint = _INSTEAD.get(name) or _INSTEAD[base]
    elif base in PUBLIC and called(base) is None:
        hint = f"hologram.{base} takes arrays too"
    elif meant:
        hint = f"did you mean {meant}?"
    else:
        hint = "dir(hologram.ops) lists what there is, and hologram.kernel makes more of functions of numbers"
    raise AttributeError(f"module {__name__!r} has no operation {name!r}; {hint}")


def __dir__() -> list[str]:
    """List the operations."""
    return [*__all__, "__doc__", "__file__", "__name__"]


native.look_there(sys.modules[__name__])
