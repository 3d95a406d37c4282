"""What names stand for while lanes may differ in it: a register, of a type that holds all that is written to it."""

from __future__ import annotations

from typing import Any, Optional

from hologram._built import is_number
from hologram._kernel.values import Trace, Value, common, value_of

__all__ = ["Variable", "is_scalar"]


def is_scalar(thing: Any) -> bool:
    """Whether a thing is a number, so that lanes can differ in it."""
    return isinstance(thing, Value) or is_number(thing)


class Variable:
    """A name's place in a register while lanes may differ in what the name stands for."""

    def __init__(self, trace: Trace, name: str) -> None:
        self.trace = trace
        self.name = name
        self.number = trace.variables
        self.register = -1
        self.type: tuple[str, bool] = ("", False)
        self.opaque = False  # given something else than a number
        self.bounds: Optional[tuple[int, int]] = None  # of an int of Python's, as far as it is known
        self.was_read = False
        trace.variables += 1

    def write(self, thing: Any) -> None:
        """Give the variable a value; one that it has no room for is room in the next run's."""
        if self.opaque:
            return
        value = value_of(self.trace, thing, self.name)
        plan = self.trace.plan
        if self.number not in plan:
            plan[self.number] = (value.type, value.weak)
        if self.register < 0:
            self.type = plan[self.number]
            self.register = self.trace.code.register(self.type[0])
        needed = common(Value(self.trace, *plan[self.number]), value)
        if needed != plan[self.number]:
            plan[self.number] = needed
            self.trace.again = True
        if needed == ("i64", True):
            self.reach(value)
        type = self.type[0]
        self.trace.code.write(self.register, f"mov.{type}", value.source(type))

    def read(self) -> Value:
        """Return the value that the variable has now."""
        type, weak = self.type
        value = Value(self.trace, type, weak, self.trace.emit(f"mov.{type}", type, self.register))
        if self.type == ("i64", True) and self.bounds is not None and self.number not in self.trace.wide:
            value.bounds = self.bounds
            self.was_read = True
        return value

    def reach(self, value: Value) -> None:
        """Note how far the int goes that is written; what was read before of a loop's variable must have known."""
        if self.bounds is None:
            self.bounds = value.bounds
        elif not (self.bounds[0] <= value.bounds[0] and value.bounds[1] <= self.bounds[1]):
            self.bounds = min(self.bounds[0], value.bounds[0]), max(self.bounds[1], value.bounds[1])
            if self.was_read and self.number not in self.trace.wide:
                self.trace.wide.add(self.number)
                self.trace.again = True
