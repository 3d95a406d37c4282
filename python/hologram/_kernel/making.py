"""What functions of values are made of: instructions, on values in their common type."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from hologram import _isa
from hologram._kernel.integers import bound, exact
from hologram._kernel.values import PRED, Trace, Value, common, fail, kind_of, trace_of, value_of
from hologram.errors import DTypeError

__all__ = [
    "PUBLIC",
    "Function",
    "apply",
    "choose",
    "compare",
    "eager",
    "function_of",
    "number",
    "public",
    "same",
    "to",
    "together",
]

Function = Callable[..., Any]

PUBLIC: dict[str, Callable[..., Any]] = {}
"""The functions that hologram offers, by their names there."""


def function_of(implementation: Function, name: str = "") -> Function:
    """Make a function of values, numbers and arrays out of one of a trace and its values.

    Without a value it is a kernel of one function, and so works on arrays and numbers, also while a kernel is traced:
    who calls may be a signal's handler. Python's numbers give Python's, which take the type of what they meet.
    """
    parameters = list(inspect.signature(implementation).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    name = name or implementation.__name__.rstrip("_")
    labels = [f"{name}: {parameter}" for parameter in names]

    @functools.wraps(implementation)
    def function(*arguments: Any) -> Any:
        trace = trace_of(*arguments)
        if trace is None:
            result = eager(function)(*arguments)
            return _weak(result) if all(type(value) in _PYTHON for value in arguments) else result
        if len(arguments) != len(names):
            fail(DTypeError, f"{name} takes {len(names)} arguments ({', '.join(names)}), got {len(arguments)}")
        values = [value_of(trace, thing, label) for thing, label in zip(arguments, labels)]
        result = exact(trace, name, values)
        if result is None:
            result = implementation(trace, *values)
            bound(name, values, result)
        return result

    function.__name__ = function.__qualname__ = name
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__module__ = "hologram"
    return function


_PYTHON = (bool, int, float)


def _weak(result: Any) -> Any:
    return tuple(map(_weak, result)) if isinstance(result, tuple) else result.item()


@functools.cache
def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of values as a kernel."""
    from hologram._kernel.call import Kernel

    return Kernel(function)


def public(implementation: Function) -> Function:
    """Make a function that hologram offers."""
    function = function_of(implementation)
    PUBLIC[function.__name__] = function
    return function


def apply(trace: Trace, mnemonic: str, *values: Value, type: str = "") -> Value:
    """Return an instruction's result on values in their common type, or a given one."""
    found, weak = common(*values)
    type = type or found
    if type not in _isa.ROWS[mnemonic].types:
        name = "bool" if type == PRED else type
        fail(DTypeError, f"{mnemonic} of {name} is not there; expected one of {', '.join(_isa.ROWS[mnemonic].types)}")
    register = trace.emit(f"{mnemonic}.{type}", type, *(value.source(type) for value in values))
    return Value(trace, type, weak, register)


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
