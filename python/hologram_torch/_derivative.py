"""Derivatives of programs, as programs.

A function of numbers without branches and loops is differentiated in reverse, from its results to its arguments; one
with them forward, a tangent for each argument beside each value, which follows every path that the values take. Both
read one table: for each instruction, what its partial derivatives do to a number. It applies to forward and reverse
alike since a partial derivative is one number here. The derivative is a program like any other, and has a derivative.

Where a function has corners, the derivatives are torch's: 0 for relu and abs at 0, half for each where minima and
maxima tie. At jumps (floor, comparisons, choices) they are those of the side that was taken.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Callable, Optional, Union

from hologram._kernel.ir import Negated
from hologram.errors import InvalidArgumentError
from hologram_torch._flow import Reads, apart, reaching
from hologram_torch._listing import FLOATS, Builder, Line, Listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["gradient"]

Number = Union[int, str, float]
"""A register of the builder, an operand as text, or a number that is known."""


class _Arithmetic:
    """Writes arithmetic of one type, and leaves out what is known: sums with 0, products with 1 and −1.

    None stands for a derivative of 0.
    """

    def __init__(self, builder: Builder, type: str) -> None:
        self.builder = builder
        self.type = type

    def text(self, value: Number) -> Union[int, str]:
        """Return a value as an operand."""
        if not isinstance(value, float):
            return value
        if math.isnan(value):
            return "nan"
        return value.hex() if math.isfinite(value) else ("inf" if value > 0 else "-inf")

    def do(self, operation: str, *values: Number, type: str = "") -> int:
        """Append an instruction."""
        type = type or self.type
        return self.builder.emit(f"{operation}.{type}", type, *(self.text(value) for value in values))

    def mul(self, a: Number, b: Number) -> Number:
        for one, other in ((a, b), (b, a)):
            if isinstance(one, float):
                if isinstance(other, float):
                    return one * other
                if one == 1:
                    return other
                if one == -1:
                    return self.neg(other)
        return self.do("mul", a, b)

    def div(self, a: Number, b: Number) -> Number:
        return self.do("div", a, b)

    def neg(self, a: Number) -> Number:
        return -a if isinstance(a, float) else self.do("neg", a)

    def sub(self, a: Number, b: Number) -> Number:
        return self.do("sub", a, b)

    def add(self, a: Optional[Number], b: Optional[Number]) -> Optional[Number]:
        if a is None or b is None:
            return b if a is None else a
        if isinstance(a, float) and isinstance(b, float):
            return a + b
        return self.do("add", a, b)

    def where(self, condition: str, a: Number, b: Number, yes: Number, no: Number) -> Number:
        """Return one number where two compare so, else the other."""
        if isinstance(yes, float) and isinstance(no, float) and yes == no:
            return yes
        held = self.builder.emit(f"set.{condition}.{self.type}", "pred", self.text(a), self.text(b))
        return self.select(held, yes, no)

    def select(self, held: Union[int, Negated], yes: Number, no: Number) -> Number:
        if isinstance(yes, float) and isinstance(no, float) and yes == no:
            return yes
        return self.builder.emit(f"sel.{self.type}", self.type, held, self.text(yes), self.text(no))


_Partial = Callable[[_Arithmetic, Number, "Sequence[Number]", Number], Optional[Number]]
"""What a partial derivative does to a number v, given the instruction's operands x and its result y."""


def _extremum(wins: str, loses: str, at: int) -> _Partial:
    def partial(e: _Arithmetic, v: Number, x: Sequence[Number], y: Number) -> Optional[Number]:
        other = x[1 - at]
        if isinstance(other, str) and float.fromhex(other) == 0:  # relu: of the result, as torch has it
            return e.where("le" if loses == "lt" else "ge", y, other, 0.0, v)
        tie = e.mul(v, 0.5)
        # NaN passes to both, as in torch.
        return e.where("eq", x[at], other, tie, e.where(loses, x[at], other, 0.0, v))

    return partial


def _pow_base(e: _Arithmetic, v: Number, x: Sequence[Number], y: Number) -> Optional[Number]:
    a, b = x
    if isinstance(b, str):
        power = float.fromhex(b)
        if power in (2.0, 3.0):
            return e.mul(v, e.mul(power, a if power == 2 else e.mul(a, a)))
    slope = e.mul(b, e.do("pow", a, e.sub(b, 1.0)))
    return e.where("eq", b, 0.0, 0.0, e.mul(v, slope))


def _pow_exponent(e: _Arithmetic, v: Number, x: Sequence[Number], y: Number) -> Optional[Number]:
    a, b = x
    slope = e.mul(v, e.mul(y, e.do("log", a)))
    # 0 to a power that isn't negative: log 0 is infinite, and the slope 0.
    still = e.where("eq", a, 0.0, 0.0, slope)
    return e.where("ge", b, 0.0, still, slope)


def _denominator(e: _Arithmetic, v: Number, x: Sequence[Number], y: Number) -> Optional[Number]:
    a, b = x
    if isinstance(a, str) and float.fromhex(a) == 1:  # a reciprocal: of the result alone, as torch has it
        return e.neg(e.mul(v, e.mul(y, y)))
    return e.neg(e.mul(v, e.div(y, b)))


def _abs(e: _Arithmetic, v: Number, x: Sequence[Number], y: Number) -> Optional[Number]:
    return e.where("gt", x[0], 0.0, v, e.where("lt", x[0], 0.0, e.neg(v), 0.0))


_PARTIALS: dict[str, tuple[_Partial, ...]] = {
    "add": (lambda e, v, x, y: v, lambda e, v, x, y: v),
    "sub": (lambda e, v, x, y: v, lambda e, v, x, y: e.neg(v)),
    "mul": (lambda e, v, x, y: e.mul(v, x[1]), lambda e, v, x, y: e.mul(v, x[0])),
    "div": (
        lambda e, v, x, y: e.div(v, x[1]),
        _denominator,
    ),
    "mad": (lambda e, v, x, y: e.mul(v, x[1]), lambda e, v, x, y: e.mul(v, x[0]), lambda e, v, x, y: v),
    "fma": (lambda e, v, x, y: e.mul(v, x[1]), lambda e, v, x, y: e.mul(v, x[0]), lambda e, v, x, y: v),
    "max": (_extremum("gt", "lt", 0), _extremum("gt", "lt", 1)),
    "min": (_extremum("lt", "gt", 0), _extremum("lt", "gt", 1)),
    "rem": (
        lambda e, v, x, y: v,
        lambda e, v, x, y: e.neg(e.mul(v, e.do("trunc", e.div(x[0], x[1])))),
    ),
    "pow": (_pow_base, _pow_exponent),
    "mov": (lambda e, v, x, y: v,),
    "abs": (_abs,),
    "neg": (lambda e, v, x, y: e.neg(v),),
    "sqrt": (lambda e, v, x, y: e.div(v, e.mul(2.0, y)),),
    "rsqrt": (lambda e, v, x, y: e.mul(e.mul(-0.5, v), e.mul(e.mul(y, y), y)),),
    "exp": (lambda e, v, x, y: e.mul(v, y),),
    "exp2": (lambda e, v, x, y: e.mul(v, e.mul(y, math.log(2))),),
    "expm1": (lambda e, v, x, y: e.mul(v, e.do("add", y, 1.0)),),
    "log": (lambda e, v, x, y: e.div(v, x[0]),),
    "log2": (lambda e, v, x, y: e.div(v, e.mul(x[0], math.log(2))),),
    "log10": (lambda e, v, x, y: e.div(v, e.mul(x[0], math.log(10))),),
    "log1p": (lambda e, v, x, y: e.div(v, e.do("add", x[0], 1.0)),),
    "sin": (lambda e, v, x, y: e.mul(v, e.do("cos", x[0])),),
    "cos": (lambda e, v, x, y: e.neg(e.mul(v, e.do("sin", x[0]))),),
    "tan": (lambda e, v, x, y: e.mul(v, e.do("fma", y, y, 1.0)),),
    "tanh": (lambda e, v, x, y: e.mul(v, e.sub(1.0, e.mul(y, y))),),
    "sigmoid": (lambda e, v, x, y: e.mul(e.mul(v, e.sub(1.0, y)), y),),
    "erf": (
        lambda e, v, x, y: e.mul(v, e.mul(2 / math.sqrt(math.pi), e.do("exp", e.neg(e.mul(x[0], x[0]))))),
    ),
}  # fmt: skip
"""By instruction, what each of its partial derivatives does to a number."""

_FLAT = ("floor", "ceil", "round", "trunc")
_MOVES = ("ldg", "ldp", "cvt", "sel")


def _differentiable(listing: Listing, line: Line, active: bool) -> None:
    if active and line.operation not in (*_PARTIALS, *_FLAT, *_MOVES):
        raise NotImplementedError(f"{listing.name}: {line.mnemonic} has no derivative")


def gradient(listing: Listing, wrt: Sequence[str], outputs: Mapping[str, str]) -> Listing:
    """Return the program of a function's gradient.

    Args:
        listing: The function's program.
        wrt: The inputs, of float types, to differentiate by.
        outputs: For each output of a float type the name of the slot that holds the gradient by it. With a result that
            an input of this name gives, the gradient reads what the function made rather than make it again, where
            that is all it needs of it.

    Returns:
        A program that reads those slots and what else it needs of the function's inputs, outputs and parameters, and
        writes "d_x" for each input x.

    Raises:
        NotImplementedError: An instruction on the way has no derivative.
    """
    if not listing.straight:
        return _forward(listing, wrt, outputs)
    full = _reverse(listing, wrt, outputs, False)
    short = _reverse(listing, wrt, outputs, True)
    return full if any(slot in listing.inputs for slot in short.inputs) else short


def _sources(builder: Builder, line: Line, registers: Mapping[str, int]) -> list[Union[int, str, Negated]]:
    """Return what a line reads as the builder has it; a parameter's name is no register's."""
    return list(line.sources) if line.operation == "ldp" else [builder.source(w, registers) for w in line.sources]


def _finished(
    builder: Builder, listing: Listing, outputs: Mapping[str, str], found: dict[str, tuple[str, Optional[Number]]]
) -> Listing:
    for name, (type, value) in found.items():
        value = 0.0 if value is None else value
        builder.act(f"stg.{type}", _Arithmetic(builder, type).text(value), f"d_{name}[index]")
    given = {gradient: listing.outputs[output] for output, gradient in outputs.items()}
    inputs = {**given, **listing.inputs, **listing.outputs}
    results = {f"d_{name}": type for name, (type, _) in found.items()}
    try:
        return builder.listing(listing.name, inputs, results, listing.params)
    except InvalidArgumentError:
        # Too many values at one place. Predicates are the scarce ones, and made anew cheaply.
        if not listing.straight:
            raise
        builder.compare_late()
        return builder.listing(listing.name, inputs, results, listing.params)


def _reverse(listing: Listing, wrt: Sequence[str], outputs: Mapping[str, str], results: bool) -> Listing:
    builder = Builder()
    registers: dict[str, int] = {}
    active: set[int] = set()
    tape: list[tuple[Line, int, list[Union[int, str, Negated]]]] = []
    adjoint: dict[int, Optional[Number]] = {}
    types: dict[str, tuple[str, int]] = {}
    for line in listing.lines:
        if line.operation == "stg":
            output = line.named
            if output in outputs and line.type in FLOATS:
                value = builder.source(line.sources[0], registers)
                seed = builder.emit(f"ldg.{line.type}", line.type, f"{outputs[output]}[index]")
                if isinstance(value, int):
                    adjoint[value] = _Arithmetic(builder, line.type).add(adjoint.get(value), seed)
            continue
        if line.operation == "exit":
            continue
        sources = _sources(builder, line, registers)
        result = builder.register("pred" if line.result.startswith("p") else "f32")
        builder.copy(line, registers, result)
        if line.operation == "ldg" and line.named in wrt:
            active.add(result)
            types[line.named] = line.type, result
        if line.type in FLOATS and line.operation not in ("set", "ldg") and line.operation not in _FLAT:
            depends = any(isinstance(source, int) and source in active for source in sources)
            _differentiable(listing, line, depends)
            if depends:
                active.add(result)
        tape.append((line, result, sources))
    if results:
        _from_results(builder, listing, registers)
    for line, result, sources in reversed(tape):
        pulled = adjoint.get(result)
        if pulled is None or result not in active:
            continue
        e = _Arithmetic(builder, line.type)
        for at, source in enumerate(sources):
            if not isinstance(source, int) or source not in active:
                continue
            change = _pulled(e, line, at, pulled, sources, result)
            if change is not None:
                wide = _Arithmetic(builder, line.mnemonic.split(".")[2] if line.operation == "cvt" else line.type)
                adjoint[source] = wide.add(adjoint.get(source), change)
    found: dict[str, tuple[str, Optional[Number]]] = {}
    for name in wrt:
        type, register = types.get(name, (listing.inputs[name], -1))
        found[name] = type, adjoint.get(register)
    return _finished(builder, listing, outputs, found)


def _from_results(builder: Builder, listing: Listing, registers: dict[str, int]) -> None:
    """Put loads of the results in place of the instructions that make them."""
    for line in listing.lines:
        if line.operation != "stg" or line.type not in FLOATS:
            continue
        register = builder.source(line.sources[0], registers)
        at = [i for i, each in enumerate(builder.body) if each.result == register]
        if at:
            load = builder.body[at[-1]]._replace(mnemonic=f"ldg.{line.type}", sources=(f"{line.named}[index]",))
            builder.body[at[-1]] = load


def _pulled(
    e: _Arithmetic, line: Line, at: int, v: Number, sources: Sequence[Union[int, str, Negated]], result: int
) -> Optional[Number]:
    """Return what the partial derivative of an instruction by its operand number at does to v."""
    if line.operation == "sel":
        held = sources[0]
        if isinstance(held, str):
            return v if (held == "true") == (at == 1) else None
        return e.select(held, v, 0.0) if at == 1 else e.select(held, 0.0, v)
    if line.operation == "cvt":
        to, of = line.mnemonic.split(".")[1:]
        return v if isinstance(v, float) else e.builder.emit(f"cvt.{of}.{to}", of, v)
    operands = [source for source in sources if not isinstance(source, Negated)]
    return _PARTIALS[line.operation][at](e, v, operands, result)


# ---- programs with branches and loops


def _depending(lines: Sequence[Line], reads: Reads, wrt: Sequence[str]) -> list[frozenset[str]]:
    """Return for each line the inputs that what it writes may depend on."""
    none: frozenset[str] = frozenset()
    found = [frozenset([line.named]) if line.operation == "ldg" and line.named in wrt else none for line in lines]
    before: list[frozenset[str]] = []
    while found != before:  # again while loops carry values from their ends to their beginnings
        before = list(found)
        for at, line in enumerate(lines):
            if line.result and line.type in FLOATS and line.operation not in ("set", *_FLAT):
                found[at] = found[at].union(*[found[i] for definitions in reads[at].values() for i in definitions])
    return found


def _forward(listing: Listing, wrt: Sequence[str], outputs: Mapping[str, str]) -> Listing:
    builder = Builder()
    registers: dict[str, int] = {}
    tangents: dict[tuple[str, str], int] = {}
    # What does not depend on an input has no tangent by it: one of 0 times an infinite slope would be NaN. So it is
    # asked of each definition, and registers are those of one value, as it comes from all sides.
    reads = reaching(listing.lines)
    depending = _depending(listing.lines, reads, wrt)
    lines = apart(listing.lines, reads)
    carried: dict[str, set[str]] = {}  # by registers the inputs that they have tangents by
    for line, names in zip(lines, depending):
        carried.setdefault(line.result, set()).update(names)
    found: dict[str, tuple[str, Optional[Number]]] = {name: (listing.inputs[name], None) for name in wrt}
    for at, line in enumerate(lines):
        # The inputs that each operand depends on, here.
        of = [
            frozenset[str]().union(*[depending[i] for i in reads[at].get(word, ())])
            for word in listing.lines[at].sources
        ]
        if line.operation == "stg":
            if line.named in outputs and line.type in FLOATS and of[0]:
                e = _Arithmetic(builder, line.type)
                seed = builder.emit(f"ldg.{line.type}", line.type, f"{outputs[line.named]}[index]")
                for name in wrt:
                    if name in of[0]:
                        change = e.mul(seed, tangents[line.sources[0], name])
                        found[name] = found[name][0], e.add(found[name][1], change)
            continue
        if not carried.get(line.result) or line.type not in FLOATS or line.operation == "set":
            builder.copy(line, registers)
            continue
        if line.operation not in _FLAT:
            _differentiable(listing, line, any(of))
        # The instruction may write one of its operands, which the derivatives read.
        sources = _sources(builder, line, registers)
        result = builder.emit(line.mnemonic, line.type, *sources)
        e = _Arithmetic(builder, line.type)
        changes: dict[str, Number] = {}
        for name in wrt:
            if name not in carried[line.result]:
                continue
            total: Optional[Number] = 1.0 if line.operation == "ldg" and line.named == name else None
            for place, word in enumerate(line.sources):
                if name in of[place] and line.operation not in _FLAT:
                    if line.operation == "cvt":
                        to, wide = line.mnemonic.split(".")[1:]
                        if wide in FLOATS:
                            total = builder.emit(line.mnemonic, to, tangents[word, name])
                    else:
                        total = e.add(total, _pulled(e, line, place, tangents[word, name], sources, result))
            changes[name] = 0.0 if total is None else total
        kept = registers.get(line.result)
        if kept is None:
            kept = registers[line.result] = builder.register("f32")
        builder.write(kept, f"mov.{line.type}", result)
        for name, moved in changes.items():
            to_ = tangents.get((line.result, name))
            if to_ is None:
                to_ = tangents[line.result, name] = builder.register("f32")
            builder.write(to_, f"mov.{line.type}", e.text(moved))
    return _finished(builder, listing, outputs, found)
