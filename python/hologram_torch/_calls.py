"""What the functions share: numbers as arguments, results into memory that is there, executors that are named."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Union

import numpy as np
import torch
from torch import Tensor

from hologram import Executor
from hologram._arguments import meant
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch._executors import DLPACK_CPU, check_executor, torch_device, using
from hologram_torch._executors import here as threads
from hologram_torch._operands import ATLAS
from hologram_torch._operation import (
    PLAIN,
    is_dynamo_compiling,
    unusual,
)
from hologram_torch._table import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Number",
    "binary_form",
    "called",
    "caller_level",
    "check_written",
    "dtype_beside",
    "executor_form",
    "here",
    "in_place",
    "number",
    "quick",
    "tensors",
    "unary_form",
    "unexpected",
    "within",
]

Number = Union[int, float, bool]


def number(what: str, value: Any) -> Any:
    """Return Python's number for one of numpy's, as torch takes them; anything else as it is.

    Args:
        what: The function and its argument, for messages.
        value: The argument's value.

    Raises:
        TypeError: It is one of numpy's that int64 has not, which torch takes for no number.
    """
    if not isinstance(value, np.generic):
        return value
    if isinstance(value, np.uint64) and value >= 2**63:
        raise TypeError(f"{what} is {value!r}; expected an integer below 2**63: int({value}) is taken as it is")
    return value.item()


_OPEN = (torch.SymInt, torch.SymFloat)
"""What numbers made of sizes are where torch makes a graph for all sizes."""


def real(value: Union[Number, torch.SymInt, torch.SymFloat]) -> Any:
    """Return a number as a float; one that is open stays so."""
    return torch.sym_float(value) if isinstance(value, _OPEN) else float(value)


def dtype_beside(number: Number, dtype: torch.dtype) -> torch.dtype:
    """Return what torch.result_type does for a number beside a tensor, which dynamo can't trace."""
    if isinstance(number, float) and not dtype.is_floating_point:
        return torch.get_default_dtype()
    if dtype == torch.bool and not isinstance(number, bool):
        return torch.int64
    return dtype


def _wrapped(number: Number, dtype: torch.dtype) -> int:
    """Return an integer with the bits that a dtype has, as torch takes numbers beside integers.

    Raises:
        OverflowError: It has more than 64 bits.
    """
    if not -(2**63) <= number < 2**64:
        raise OverflowError(f"the number {number} beside a tensor of {dtype} is too large: int too big to convert")
    info = torch.iinfo(dtype)
    return int(number) if info.min <= number <= info.max else (int(number) - info.min) % (1 << info.bits) + info.min


def within(input: Any, name: str, bound: Any) -> Any:
    """Return the number of an integer dtype that bounds as another does, which the dtype may not have."""
    bound = number(f"clamp: {name}", bound)
    if not isinstance(bound, int) or isinstance(bound, bool) or not isinstance(input, Tensor):
        return bound
    if input.dtype == torch.bool or input.dtype.is_floating_point or input.dtype.is_complex:
        return bound
    info = torch.iinfo(input.dtype)
    if info.min <= bound <= info.max:
        return bound
    if (bound < info.min) != (name == "min"):
        raise InvalidArgumentError(f"clamp: {name} is {bound}; {input.dtype} has {info.min} to {info.max}")
    return info.min if name == "min" else info.max


def _category(dtype: torch.dtype) -> int:
    """Return a number that grows from bools over integers to floats; torch.can_cast can't be traced by dynamo."""
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


_EXACT = frozenset(["where", "clamp", "clamp_min", "clamp_max"])
"""The functions of which torch refuses numbers that the dtype has not."""


def _argument(what: str, i: int) -> str:
    """Return what a function calls its argument i, as far as the table of operations knows it."""
    operation = OPERATIONS.get(what)
    names = operation.row.inputs if operation is not None else ()
    return names[i] if i < len(names) else f"argument {i + 1}"


def tensors(what: str, *values: Any, before: int = 0) -> list[Tensor]:
    """Return tensors, numbers among them as such of no dimension.

    Args:
        what: The function.
        values: Arguments of it.
        before: How many arguments it has before these.

    Raises:
        TypeError: One is neither, or a tensor of a dtype that hologram has not, or there is no tensor.
    """
    operation = OPERATIONS.get(what)
    title = what if operation is None else operation.title
    like = None
    for i, value in enumerate(values):
        if isinstance(value, Tensor):
            if value.dtype not in ATLAS:  # before a number is made one of its dtype, or it is converted
                raise DTypeError(
                    f"{title}: {_argument(what, before + i)} has dtype {value.dtype}, which hologram has no type for"
                )
            like = value if like is None else like
    found = []
    for i, value in enumerate(values):
        if isinstance(value, Tensor):
            if value.layout is not torch.strided or value.is_nested:
                given = "is nested" if value.is_nested else f"has layout {value.layout}"
                hint = "to_padded_tensor(0)" if value.is_nested else "to_dense()"
                raise DTypeError(f"{title}: {_argument(what, before + i)} {given}; expected a dense tensor: {hint}")
            found.append(value)
            continue
        value = number(f"{title}: {_argument(what, before + i)}", value)
        if like is not None and isinstance(value, _OPEN):
            dtype = dtype_beside(1.0 if isinstance(value, torch.SymFloat) else 1, like.dtype)
            if like.ndim and like.dtype in (torch.float16, torch.bfloat16):
                dtype = torch.float32
            found.append(torch.full((), value, dtype=dtype, device=like.device))
        elif like is not None and isinstance(value, (bool, int, float)):
            dtype = dtype_beside(value, like.dtype)
            if like.ndim and like.dtype in (torch.float16, torch.bfloat16):
                dtype = torch.float32  # not rounded before it is used
            exact = what in _EXACT  # torch.full refuses, as they do
            if like.dtype == torch.bool and dtype == torch.int64 and value >= 2**63:  # torch: bool and uint64
                raise OverflowError(
                    f"{title}: the number {value} beside a tensor of {like.dtype} is too large for {dtype}"
                )
            if not dtype.is_floating_point and dtype != torch.bool and not exact:
                value = _wrapped(value, dtype)
            # Of what dynamo traces nothing is asked, since a size may be open.
            if (
                isinstance(value, float)
                and not exact
                and (is_dynamo_compiling() or abs(value) > torch.finfo(dtype).max)
            ):
                # Rounded, to ±inf as a rule, as torch does and torch.full does not.
                found.append(torch.full((), value, dtype=torch.float64, device=like.device).to(dtype))
            else:
                found.append(torch.full((), value, dtype=dtype, device=like.device))
        else:
            raise TypeError(
                f"{title}: {_argument(what, before + i)} is a {type(value).__name__}; expected a torch.Tensor"
            )
    return found


def called(name: str, values: Sequence[Any], numbers: Sequence[float] = (), out: Optional[Tensor] = None) -> Tensor:
    """Call an operation of the table."""
    operation = OPERATIONS[name]
    if out is None and not is_dynamo_compiling():
        quick = operation.function.quick(threads.now, *values, *numbers)
        if quick is not None and quick is not True:
            return quick
    inputs = tensors(name, *values)
    if out is None:
        found: Tensor = operation(*inputs, *numbers)
        return found
    return _written(name, inputs, numbers, out)


def check_written(name: str, x: Tensor) -> None:
    """Refuse what inference mode made, outside of it, as torch does: others rely on what it holds.

    Raises:
        RuntimeError: It is such a tensor.
    """
    if not is_dynamo_compiling() and x.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed; give a clone() of it"
        )


def _written(name: str, inputs: Sequence[Tensor], numbers: Sequence[float], out: Tensor) -> Tensor:
    operation = OPERATIONS[name]
    title = operation.title
    if not isinstance(out, Tensor):
        raise TypeError(f"{title}: out is a {type(out).__name__}; expected a torch.Tensor")
    if torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, out)):
        raise RuntimeError(
            f"{title}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    check_written(title, out)
    dtype = operation.function.results(inputs)[1][0]
    if _category(dtype) > _category(out.dtype):
        raise RuntimeError(f"{title}: result type {dtype} can't be cast to the desired output type {out.dtype}")
    shapes = {t.shape for t in inputs if t.ndim}  # what has no dimensions changes none
    shape = torch.broadcast_shapes(*shapes) if len(shapes) > 1 else next(iter(shapes), torch.Size())
    fits = out.shape == shape
    if not fits and out.numel():
        raise InvalidArgumentError(f"{title}: out has the shape {tuple(out.shape)}; the result has {tuple(shape)}")
    if fits and dtype == out.dtype and not is_dynamo_compiling() and not unusual() and type(out) in PLAIN:
        if all(type(t) in PLAIN for t in inputs):
            try:
                operation.function.run(inputs, numbers, out)
                return out
            except InvalidArgumentError:
                pass  # it overlaps an input otherwise than element by element
    result = operation(*inputs, *numbers)
    if not fits:
        out.resize_(shape)  # once nothing is refused any more
    return out.copy_(result)


def in_place(name: str, x: Tensor, numbers: Sequence[float] = ()) -> Tensor:
    check_written(name, x)
    if torch.is_grad_enabled() and x.requires_grad:
        result = OPERATIONS[name](x.clone(), *numbers)
        return x.copy_(result)
    return _written(name, [x], numbers, x)


def here(what: str, executor: Executor, *tensors: Any, names: Sequence[str] = ()) -> None:
    """Refuse what an executor doesn't work on; names are those of the tensors, as far as the table has others.

    Raises:
        TypeError: It is no tensor.
        ValueError: It is on another device.
    """
    if not isinstance(executor, Executor) or executor._freed:
        check_executor(what, executor)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            name = names[i] if i < len(names) else _argument(what, i)
            raise DTypeError(f"{what}: {name} is a {type(tensor).__name__}; expected a torch.Tensor")
        ours = executor._device_type == DLPACK_CPU
        if ours != tensor.is_cpu or not (ours or tensor.get_device() == executor._device_id):
            where = "the CPU" if ours else torch_device(executor.backend)
            name = names[i] if i < len(names) else _argument(what, i)
            raise InvalidArgumentError(f"{what}: {name} is on {tensor.device}; the executor takes those on {where}")


_INSIDE = {os.path.dirname(__file__), os.path.dirname(torch.nn.modules.__file__)}


def caller_level() -> int:
    """Return the stacklevel of a warning that our caller gives: it shows the line that calls us, or a layer."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) in _INSIDE:
        frame, level = frame.f_back, level + 1
    return level


def unexpected(what: str, named: Mapping[str, object], *names: str) -> NoReturn:
    """Refuse a keyword that a function has not, and say what it is called here, in numpy's words or torch's others.

    Args:
        what: The function.
        named: The keywords that it has not.
        names: Those that it has.

    Raises:
        TypeError: Always.
    """
    name = next(iter(named))
    hint = "; the executor is the first argument" if name in ("ex", "executor") else meant(name, names)
    raise TypeError(f"{what}() got an unexpected keyword argument '{name}'{hint}")


_Function = Callable[..., Any]


class _Absent:
    """What an argument is that was not given.

    Asked for by its type: Dynamo (2.11) can't compare a size that it left open with an object.
    """


_ABSENT: Any = _Absent()


def quick(name: str, otherwise: _Function) -> _Function:
    """Make the first lines of a function: what most calls come down to.

    Args:
        name: The operation, of one or two tensors and no numbers.
        otherwise: The function, which is called with the same arguments where these lines won't do.
    """
    operation = OPERATIONS[name]
    attempt, apply = operation.function.quick, operation.apply

    def unary(x: Any = _ABSENT, *rest: Any, **named: Any) -> Any:
        if not rest and not named and not is_dynamo_compiling():
            found = attempt(threads.now, x)
            if found is True:
                return apply(x)
            if found is not None:
                return found
        return otherwise(*([] if isinstance(x, _Absent) else [x]), *rest, **named)

    def binary(x: Any = _ABSENT, y: Any = _ABSENT, *rest: Any, **named: Any) -> Any:
        if not rest and not named and not is_dynamo_compiling():
            found = attempt(threads.now, x, y)
            if found is True:
                return apply(x, y)
            if found is not None:
                return found
        return otherwise(*[value for value in (x, y) if not isinstance(value, _Absent)], *rest, **named)

    if operation.function.scalars:
        return otherwise
    return functools.wraps(otherwise)(unary if len(operation.function.kinds) == 1 else binary)


def executor_form(form: _Function) -> Callable[[_Function], _Function]:
    """Let a function take an executor first, which another function then is called with."""

    def decorate(function: _Function) -> _Function:
        form.__name__ = form.__qualname__ = function.__name__  # which Python's messages of its arguments have
        names = frozenset(inspect.signature(function).parameters)
        ordered = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def either(*arguments: Any, **named: Any) -> Any:
            if (arguments and isinstance(arguments[0], Executor)) or ("ex" in named and not arguments):
                return form(*arguments, **named)
            if named and not names.issuperset(named):
                unexpected(function.__name__, {name: None for name in named if name not in names}, *ordered)
            return function(*arguments, **named)

        return either

    return decorate


def _on(executor: Executor, name: str, inputs: tuple[Tensor, ...], out: Optional[Tensor] = None) -> Tensor:
    """Call an operation without numbers on an executor, by what ``quick`` asks first too."""
    operation = OPERATIONS[name]
    found = None if out is not None or is_dynamo_compiling() else operation.function.quick(executor, *inputs)
    if found is not None and found is not True:
        return found
    with using(executor):
        return called(name, inputs, out=out) if found is None else operation.apply(*inputs)


def binary_form(name: str) -> _Function:
    def form(ex: Executor, input1: Tensor, input2: Tensor, out: Optional[Tensor] = None) -> Tensor:
        here(name, ex, input1, input2, *([] if out is None else [out]), names=("input1", "input2", "out"))
        for what, other in (("input2", input2), *([] if out is None else [("out", out)])):
            if other.shape != input1.shape:
                raise InvalidArgumentError(
                    f"{name}: {what} has the shape {tuple(other.shape)}, and input1 {tuple(input1.shape)}; "
                    "with an executor both have one shape"
                )
        return _on(ex, name, (input1, input2), out)

    form.__name__ = form.__qualname__ = name
    return form


def unary_form(name: str, operator: str = "") -> _Function:
    def form(ex: Executor, input: Tensor) -> Tensor:
        here(name, ex, input)
        return _on(ex, operator or name, (input,))

    return form
