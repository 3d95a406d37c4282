"""What functions of values are made of: instructions, on values in their common type."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import TYPE_CHECKING, Any, Callable, Optional

from hologram import _isa
from hologram._arguments import meant
from hologram._ffi import KernelBase
from hologram._kernel.integers import bound, exact
from hologram._kernel.lines import fail
from hologram._kernel.promotion import PRED, kind_of
from hologram._kernel.values import Trace, Value, common, to_digits, trace_of, value_of
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PUBLIC",
    "ArrayFunction",
    "Function",
    "alone",
    "apply",
    "choose",
    "compare",
    "eager",
    "function_of",
    "number",
    "placed",
    "public",
    "same",
    "to",
    "together",
    "unknown",
    "with_options",
]

Function = Callable[..., Any]

PUBLIC: dict[str, Callable[..., Any]] = {}
"""The functions that hologram offers, by their names there."""


class ArrayFunction(KernelBase):
    """A function that hologram offers, of which C makes the calls that are such as one before.

    All others go to the function of Python that it is made of, whose caller is then the caller of this: its frame is
    where errors in a kernel are looked for.
    """

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self._call_any = function

    def __repr__(self) -> str:
        """Describe the function in one line."""
        return f"<function hologram.{self.__name__}{inspect.signature(self)}>"  # type: ignore[attr-defined]

    def __reduce__(self) -> str:
        """Pickle as the name by which hologram has the function, as functions are."""
        return str(self.__qualname__)  # type: ignore[attr-defined]

    def __get__(self, instance: object, owner: Optional[type] = None) -> Any:
        """Become the method of an object, as functions do; it is by this that help shows the signature."""
        return self if instance is None else types.MethodType(self, instance)


def function_of(implementation: Function, name: str = "", reflected: bool = False) -> Function:
    """Make a function of values, numbers and arrays out of one of a trace and its values.

    Without a value it is a kernel of one function, and so works on arrays and numbers, also while a kernel is traced:
    who calls may be a signal's handler; it takes ``out`` and ``executor`` as kernels do. Python's numbers give
    Python's, which take the type of what they meet. One that is reflected is called with its arguments the other way
    round, as Python's ``__radd__`` is.
    """
    empty = inspect.Parameter.empty
    parameters = [p.replace(annotation=empty) for p in inspect.signature(implementation).parameters.values()][1:]
    signature = inspect.Signature(parameters)
    names = [parameter.name for parameter in parameters]
    name = name or implementation.__name__.rstrip("_")
    labels = [f"{name}: {parameter}" for parameter in names]
    count = len(names)

    # All of it is one function, whose caller is the kernel's code: operators are traced by the hundred.
    @functools.wraps(implementation)
    def function(*arguments: Any, out: Any = None, executor: Any = None, **named: Any) -> Any:
        if named:
            return function(*placed(name, signature, arguments, named), out=out, executor=executor)
        if reflected:
            arguments = arguments[::-1]
        first = arguments[0] if arguments else None
        trace: Any = first.trace if first.__class__ is Value else trace_of(*arguments)
        if trace is None:
            kernel = eager(function.of_values)  # type: ignore[attr-defined]
            if executor is not None:
                return kernel(*arguments, out=out, executor=executor)
            if out is not None:
                return kernel(*arguments, out=out)
            weak = first.__class__ in _PYTHON and all(type(value) in _PYTHON for value in arguments)
            return _weak(kernel(*arguments)) if weak else kernel(*arguments)
        if out is not None or executor is not None:
            alone(name, out, executor)
        if len(arguments) != count:
            some = f"{count} argument{'s' * (count > 1)} ({', '.join(names)})"
            hint = _MORE.get(name, "") if len(arguments) > count else ""
            fail(DTypeError, f"{name} takes {some}, got {len(arguments)}{hint}")
        outer = trace.caller
        if outer is None:
            trace.caller = sys._getframe(1)
        try:
            known = trace.open
            values = [
                thing
                if thing.__class__ is Value and thing.trace is trace and thing.scope in known
                else value_of(trace, thing, label)
                for thing, label in zip(arguments, labels)
            ]
            result = exact(trace, name, values) if values[0].weak else None
            if result is None:
                result = implementation(trace, *values)
                if result.__class__ is Value and result.type == "i64":
                    bound(name, values, result)
            return result
        finally:
            trace.caller = outer

    @functools.wraps(implementation)
    def of_values(*arguments: Any) -> Any:
        """Compute with values, of which there is one at least."""
        return function(*arguments)

    function.of_values = of_values  # type: ignore[attr-defined]  # what a kernel is made of
    for each, of in ((of_values, signature), (function, with_options(signature))):
        each.__name__ = each.__qualname__ = name
        each.__signature__ = of  # type: ignore[attr-defined]
        each.__module__ = "hologram"
        each.__annotations__ = {}  # the implementation's tell of a trace, which is no parameter here
    return function


_MORE = {
    "round": f"; {to_digits(2)}",
    "minimum": "; of more it is minimum(minimum(a, b), c)",
    "maximum": "; of more it is maximum(maximum(a, b), c)",
}
"""What to write instead of more arguments than a function takes."""


def with_options(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature with what every function takes of arrays: out and executor."""
    options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ("out", "executor")]
    return signature.replace(parameters=[*signature.parameters.values(), *options])


def placed(name: str, signature: inspect.Signature, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return a call's arguments by place."""
    for keyword in named:
        if keyword not in signature.parameters:
            fail(DTypeError, f"{name}: {unknown(keyword, signature)}")
    try:
        return signature.bind(*arguments, **named).args
    except TypeError as error:
        fail(DTypeError, f"{name}: {error}; it is called as {name}{with_options(signature)}")


def unknown(keyword: str, signature: inspect.Signature) -> str:
    """Say that a kernel or a function has no parameter of a name, and which it has."""
    names = [*signature.parameters, "out", "executor"]
    hint = {
        "dtype": "; the result has the dtype that numpy gives it: hologram.cast(x, dtype) converts",
        "stream": "; executor.launch(kernel.program(…), …, stream=…) runs its program on a stream",
    }.get(keyword, "")
    return f"there is no parameter {keyword}; it has {', '.join(names)}{hint or meant(keyword, names)}"


def alone(name: str, out: Any, executor: Any) -> None:
    """Refuse out and executor in a kernel, whose own call has them."""
    for what, given in (("out", out), ("executor", executor)):
        if given is not None:
            fail(
                InvalidArgumentError, f"{name}: in a kernel it takes no {what}; give {what}= where the kernel is called"
            )


_PYTHON = (bool, int, float)


def _weak(result: Any) -> Any:
    return tuple(map(_weak, result)) if isinstance(result, tuple) else result.item()


_FRONTS: dict[Function, ArrayFunction] = {}
"""The functions that people call instead of the kernels of functions of values."""


@functools.cache
def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of values as a kernel."""
    from hologram._kernel.call import Kernel

    kernel = Kernel(function)
    kernel._front = _FRONTS.get(function)
    return kernel


def public(implementation: Function) -> Function:
    """Make a function that hologram offers."""
    function = function_of(implementation)
    found = PUBLIC[function.__name__] = _FRONTS[function.of_values] = ArrayFunction(function)  # type: ignore[attr-defined]
    return found


_OPERATIONS = {(m, type): f"{m}.{type}" for m, row in _isa.ROWS.items() for type in row.types}
"""The instructions with a type, by mnemonic and type."""


def apply(trace: Trace, mnemonic: str, *values: Value, type: str = "") -> Value:
    """Return an instruction's result on values in their common type, or a given one."""
    found, weak = common(*values)
    type = type or found
    operation = _OPERATIONS.get((mnemonic, type))
    if operation is None:
        name = "bool" if type == PRED else type
        fail(DTypeError, f"{mnemonic} of {name} is not there; expected one of {', '.join(_isa.ROWS[mnemonic].types)}")
    return Value(trace, type, weak, trace.emit(operation, type, *[value.source(type) for value in values]))


def same(trace: Trace, value: Value, register: int) -> Value:
    """Return a register as a value like another."""
    return Value(trace, value.type, value.weak, register)


def number(trace: Trace, number: float, like: Value) -> Value:
    """Return a number of the type of a value."""
    kind = float if kind_of(like.type) == 2 else int
    return Value(trace, like.type, like.weak, constant=kind(number))


def to(trace: Trace, value: Value, type: str, weak: bool) -> Value:
    """Return a value converted to a type."""
    if value.type == type and value.weak == weak and value.constant is None:
        return value
    return Value(trace, type, weak, value.held(type))


def together(trace: Trace, *values: Value, bools: str = "i8") -> tuple[Value, ...]:
    """Return values converted to their common type, bools to integers."""
    type, weak = common(*values)
    if type == PRED:
        type = bools
    return tuple(to(trace, value, type, weak) for value in values)


def compare(trace: Trace, condition: str, a: Value, b: Value) -> Value:
    """Return whether a condition holds of two values in their common type."""
    type, weak = common(a, b)
    if type == PRED:
        type = "u8"
    register = trace.emit(f"set.{condition}.{type}", PRED, a.source(type), b.source(type))
    return Value(trace, PRED, weak, register)


def choose(trace: Trace, condition: Value, a: Value, b: Value) -> Value:
    """Return a where the condition holds, else b."""
    type, weak = common(a, b)
    chosen = condition.held(PRED)
    if type == PRED:
        # There is no SEL of predicates.
        first = trace.emit("and.pred", PRED, chosen, a.source(PRED))
        other = trace.emit("and.pred", PRED, trace.emit("not.pred", PRED, chosen), b.source(PRED))
        return Value(trace, PRED, weak, trace.emit("or.pred", PRED, first, other))
    return Value(trace, type, weak, trace.emit(f"sel.{type}", type, chosen, a.source(type), b.source(type)))
