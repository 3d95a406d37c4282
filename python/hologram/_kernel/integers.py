"""Integers of Python's in kernels: what comes of arguments and constants alone is computed in Python, exactly.

An int of Python's has no size of its own. What all lanes have is therefore no instruction: it becomes a parameter of
the program, computed when the kernel is called and held against the type that it meets. What differs between lanes,
such as a counter, is an i64; how far it can go is followed through the operations, so that most of them need no check.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from hologram._dtypes import odd
from hologram._kernel.lines import at
from hologram._kernel.promotion import PRED, limits
from hologram._kernel.values import FLOATS, Step, Trace, Uniform, Value
from hologram.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Numbers", "bound", "exact"]

_MOST_BITS = 1 << 16
"""The longest int that is computed; those that meet a type are shorter."""


def _shifted_left(a: int, count: int) -> int:
    if count > _MOST_BITS:
        raise OverflowError
    return a << (count if count >= 0 else count & 63)


def _shifted_right(a: int, count: int) -> int:
    return a >> (count if count >= 0 else count & 63)


def _power(a: int, exponent: int) -> int:
    if a.bit_length() * exponent > _MOST_BITS and abs(a) > 1:
        raise OverflowError
    return int(a**exponent)


def _where(condition: int, a: int, b: int) -> int:
    return a if condition else b


def _remainder(a: int, b: int) -> int:
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


class _Exact(NamedTuple):
    """An operation on ints: how Python computes it, how it is written, and of which operands."""

    function: Callable[..., Any]
    text: str
    bools: bool = False  # also of bools alone, which make one
    truth: bool = False  # makes a bool
    known: int = 0  # how many of the last operands must be constants


_EXACT: dict[str, _Exact] = {
    "add": _Exact(operator.add, "{} + {}"),
    "sub": _Exact(operator.sub, "{} - {}"),
    "mul": _Exact(operator.mul, "{} * {}"),
    # A division by zero is a fault of the lanes that come to it.
    "floordiv": _Exact(operator.floordiv, "{} // {}", known=1),
    "mod": _Exact(operator.mod, "{} % {}", known=1),
    "rem": _Exact(_remainder, "rem({}, {})", known=1),
    "pow": _Exact(_power, "{} ** {}", known=1),
    "and": _Exact(operator.and_, "{} & {}", True),
    "or": _Exact(operator.or_, "{} | {}", True),
    "xor": _Exact(operator.xor, "{} ^ {}", True),
    "lshift": _Exact(_shifted_left, "{} << {}"),
    "rshift": _Exact(_shifted_right, "{} >> {}"),
    "neg": _Exact(operator.neg, "-{}"),
    "invert": _Exact(operator.invert, "~{}"),
    "abs": _Exact(abs, "abs({})"),
    "relu": _Exact(lambda a: max(a, 0), "relu({})"),
    "square": _Exact(lambda a: a * a, "{} ** 2"),
    "minimum": _Exact(min, "minimum({}, {})"),
    "maximum": _Exact(max, "maximum({}, {})"),
    "where": _Exact(_where, "where({}, {}, {})", True),
    "eq": _Exact(operator.eq, "{} == {}", True, True),
    "ne": _Exact(operator.ne, "{} != {}", True, True),
    "lt": _Exact(operator.lt, "{} < {}", True, True),
    "le": _Exact(operator.le, "{} <= {}", True, True),
    "gt": _Exact(operator.gt, "{} > {}", True, True),
    "ge": _Exact(operator.ge, "{} >= {}", True, True),
}


_WORDS = {row.function: name for name, row in _EXACT.items()}


def exact(trace: Trace, name: str, values: Sequence[Value]) -> Optional[Value]:
    """Return what an operation makes of ints and bools that all lanes have, or None where lanes must compute it."""
    row = _EXACT.get(name)
    if row is None or not any(isinstance(value, Uniform) for value in values):
        return None
    for value in values:
        if not value.weak or value.type in FLOATS or not (isinstance(value, Uniform) or value.constant is not None):
            return None
    chosen = values[1:] if name == "where" else values
    bools = all(value.type == PRED for value in chosen)
    if bools and not row.bools:
        return None
    for value in values[len(values) - row.known :]:
        if value.constant is None or (value.constant < 0 if name == "pow" else value.constant == 0):
            return None
    sources = tuple([v.step if isinstance(v, Uniform) else (v.constant,) for v in values])
    texts = [v.text if isinstance(v, Uniform) else repr(v.constant) for v in values]
    if "(" not in row.text:
        texts = [each if each.isidentifier() or each.isdigit() else f"({each})" for each in texts]
    text = row.text.format(*texts)
    text = text if len(text) <= 60 else "a number"
    type = PRED if row.truth or bools else "i64"
    return Uniform(trace, type, trace.step(Step(row.function, sources, text), (name, sources)), text)  # type: ignore[arg-type]


class _Asked(NamedTuple):
    """A parameter that is computed: of which cell, and the type that has to hold it."""

    cell: int
    type: str
    text: str
    file: str
    line: int


class Numbers:
    """What a program's parameters are when its kernel is called, where they are not arguments as they are."""

    def __init__(self, name: str, trace: Trace) -> None:
        self._name = name
        asked = [param for param in trace.params.values() if param.step >= 0]
        needed: set[int] = set()
        waiting = [param.step for param in asked]
        while waiting:
            step = waiting.pop()
            if step not in needed:
                needed.add(step)
                waiting += [source for source in trace.steps[step].sources if isinstance(source, int)]
        self._steps: list[tuple[Callable[..., Any], int, list[int], str]] = []
        self._constants: list[Any] = []
        cells: dict[int, int] = {}
        for step in sorted(needed):
            function, sources, text, place = trace.steps[step]
            found = []
            for source in sources:
                if isinstance(source, int):
                    found.append(cells[source])
                else:
                    found.append(-1 - len(self._constants))
                    self._constants.append(source[0])
            cells[step] = len(self._steps)
            self._steps.append((function, place, found, text))
        self._asked = [_Asked(cells[p.step], p.type, trace.steps[p.step].text, *(p.line or ("", 0))[:2]) for p in asked]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._asked)

    def content(self) -> str:
        """Return a text that tells apart what computes other numbers, the same in every process."""
        steps = [f"{_WORDS.get(of, of.__name__)} {place} {sources}" for of, place, sources, _ in self._steps]
        return "\n".join([*steps, repr(self._constants), *(f"{each.cell} {each.type}" for each in self._asked)])

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Return them for the arguments of a call.

        Raises:
            InvalidArgumentError: A type that one meets does not hold it.
        """
        cells: list[Any] = []
        constants = self._constants
        for function, place, sources, text in self._steps:
            if place >= 0:
                cells.append(function(arguments[place]))
                continue
            try:
                value = function(*[cells[i] if i >= 0 else constants[-1 - i] for i in sources])
            except OverflowError:
                value = 1 << _MOST_BITS
            if value.bit_length() > _MOST_BITS:
                raise InvalidArgumentError(f"{self._name}: {text} has more than {_MOST_BITS} bits")
            cells.append(value)
        return [self._as(cells[each.cell], each) for each in self._asked]

    def _as(self, value: int, asked: _Asked) -> Any:
        type, least, most = asked.type, "-inf", "inf"
        if type in FLOATS:
            try:
                if -(2**63) <= value < 2**63:
                    return value
                return float(value) if type == "f64" else odd(value)
            except OverflowError:
                pass
        else:
            ends = limits(type)
            if ends[0] <= value <= ends[1]:
                return int(value)  # of bools too: C takes ints at once
            least, most = map(str, ends)
        shown = str(value) if abs(value) < 1 << 128 else f"an int of {value.bit_length()} bits"
        place = at(asked.file, asked.line) if asked.file else ""
        raise InvalidArgumentError(
            f"{self._name}: {asked.text} is {shown}, and meets {type} here, which goes from {least} to {most}{place}"
        )


def _products(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


_BOUNDS: dict[str, Callable[..., tuple[int, int]]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _products,
    "neg": lambda a: (-a[1], -a[0]),
    "pos": lambda a: a,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "where": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "mod": lambda a, b: (0, b[0] - 1) if b[0] == b[1] > 0 else limits("i64"),
    "floordiv": lambda a, b: (a[0] // b[0], a[1] // b[0]) if b[0] == b[1] > 0 else limits("i64"),
}
"""How far the results of operations go, given how far their operands do."""


def bound(name: str, values: Sequence[Value], result: Any) -> None:
    """Note how far the result of an operation on weak integers can go, where it can't wrap."""
    row = _BOUNDS.get(name)
    if row is None or not isinstance(result, Value) or not result.weak or result.type != "i64":
        return
    if result.constant is None and not isinstance(result, Uniform):
        least, most = limits("i64")
        operands = [value.bounds for value in (values[1:] if name == "where" else values)]
        found = row(*[(max(low, least), min(high, most)) for low, high in operands])
        if least <= found[0] and found[1] <= most:
            result.bounds = found
