"""hologram.range, which stays a loop in the program, and how many rounds it has."""

from __future__ import annotations

import builtins
import sys
from typing import Any, NoReturn

from hologram._kernel.lines import current, fail
from hologram._kernel.promotion import PRED
from hologram._kernel.source import DECISIONS
from hologram._kernel.values import Trace, Value, trace_of, value_of
from hologram.errors import DTypeError, InvalidArgumentError

__all__ = ["MOST", "Range", "range_", "rounds_of", "wrapped"]

MOST = (1 << 32) - 1
"""The most rounds of a LOOP."""


class Range:
    """What hologram.range returns while a function is traced: a loop that stays a loop."""

    def __init__(self, start: Any, stop: Any, step: int) -> None:
        self.start = start
        self.stop = stop
        self.step = step

    def __iter__(self) -> NoReturn:
        """Refuse: only the for statement of a traced function knows what to do."""
        fail(
            InvalidArgumentError,
            "hologram.range belongs into a for statement of a function decorated with @hologram.kernel, whose source "
            "Python can find: of one typed at a prompt it cannot, so put the function into a file",
        )


def range_(start: Any, stop: Any = None, step: int = 1) -> Any:
    """Count as Python's range does, in a loop that stays a loop in the program.

    The bounds may be values of the kernel, and ``break`` and ``continue`` end a lane's loop or round. Outside of a
    kernel, in functions that one calls and in handlers of signals it is Python's range.
    """
    trace = trace_of(start, stop)
    if trace is None and current.trace is not None:
        # Its own code, which has these names alone, is told from other code that runs meanwhile.
        own = DECISIONS.keys() <= sys._getframe(1).f_globals.keys()
        trace = current.trace if own or current.trace.unread else None
    if stop is None:
        start, stop = 0, start
    if trace is None:
        return builtins.range(start, stop, step)
    if not isinstance(step, int) or isinstance(step, bool) or step == 0:
        known = "; name the argument in static= to have its value in Python" if isinstance(step, Value) else ""
        fail(DTypeError, f"hologram.range: step is {step!r}; expected an int of Python's, not 0{known}")
    for what, bound in (("start", start), ("stop", stop)):
        value = value_of(trace, bound, f"hologram.range: {what}")
        if value.type == PRED or value.type[0] not in "iu":
            fail(DTypeError, f"hologram.range: {what} is {bound!r}; expected an integer")
    return Range(start, stop, step)


range_.__name__, range_.__qualname__, range_.__module__ = "range", "range", "hologram"


def rounds_of(trace: Trace, step: int, type: str, start: Value, stop: Value) -> tuple[Any, Any]:
    """Return the rounds of a loop that counts in i64 or u64 as LOOP takes them, a u32, and whether there are more.

    That is a predicate, or None where it can't be. The span of two numbers is below 2**64, whatever their signs, so it
    is a difference that may wrap.
    """
    size = abs(step)
    low, high = (start, stop) if step > 0 else (stop, start)
    if low.constant is not None and high.constant is not None:
        known = max(0, -((int(low.constant) - int(high.constant)) // size))
        return str(min(known, MOST)), "true" if known > MOST else None
    emit = trace.code.emit
    least, most = (bound.held(type) for bound in (low, high))
    if low.constant == 0 and size == 1 and type == "i64":  # as most loops are
        rounds, held = emit("max.i64", "i64", most, "0"), "i64"
    else:
        held = "u64"
        some = emit(f"set.lt.{type}", PRED, least, most)
        if type == "i64":
            least, most = (emit("cvt.u64.i64", "u64", bound) for bound in (least, most))
        span = emit("sub.u64", "u64", most, least)
        if size > 1:
            span = emit("sub.u64", "u64", span, "1")
            span = emit("div.u64", "u64", span, str(min(size, (1 << 64) - 1)))
            span = emit("add.u64", "u64", span, "1")
        rounds = emit("sel.u64", "u64", some, span, "0")
    part = emit(f"min.{held}", held, rounds, str(MOST))
    return emit(f"cvt.u32.{held}", "u32", part), emit(f"set.gt.{held}", PRED, rounds, str(MOST))


def wrapped(value: int, type: str) -> str:
    """Return a number as an integer type holds it, modulo its range."""
    bits = int(type[1:])
    least = 0 if type[0] == "u" else -(1 << (bits - 1))
    return str((value - least) % (1 << bits) + least)
