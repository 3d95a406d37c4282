"""The program that a trace becomes: instructions on any number of registers, then text on those that Atlas has."""

from __future__ import annotations

import dis
import heapq
import types
from typing import Any, Callable, NamedTuple, Optional, Union

from hologram import _isa
from hologram.errors import InvalidArgumentError

__all__ = ["Code", "Instruction", "Negated", "Place", "Spot", "Where", "made"]


class Place(NamedTuple):
    """Where in the Python code an instruction comes of, and what its fault means, if the fault doesn't say so."""

    file: str
    line: int
    why: str = ""


class Spot(NamedTuple):
    """A place as an instruction of Python's, whose line is looked for when it is asked for: tables of lines are long.

    Attributes:
        code: The code that it is in.
        at: Where in it, as a frame's f_lasti tells.
    """

    code: types.CodeType
    at: int

    @property
    def file(self) -> str:
        """The file of the code."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line in it."""
        line = self.code.co_firstlineno
        for start, number in dis.findlinestarts(self.code):
            if start > self.at:
                break
            line = number or line
        return line

    @property
    def why(self) -> str:
        """What a fault means says the fault."""
        return ""


Where = Union[Place, Spot]


class Negated(NamedTuple):
    """A predicate that is read negated."""

    register: int


Source = Union[int, str, Negated]
"""What an instruction reads: the number of a register of any type, or text (a number, an address, a label)."""


class Instruction(NamedTuple):
    """An instruction, or a label, whose mnemonic ends in a colon.

    One without ``effect`` is there for its result alone, and goes where nobody reads that.
    """

    mnemonic: str
    result: Optional[int]
    sources: tuple[Source, ...]
    effect: bool
    place: Optional[Where] = None


made: Any = tuple.__new__
"""Makes an instruction or a spot, of its class and a tuple, in half the time that the class takes for it."""


class Code:
    """Instructions in the making.

    Registers are numbered from 0 and have a type each; more than one instruction may write one. What is put in
    ``entry`` runs before everything else: loads of arguments, whose values are then known wherever they are first used.

    Args:
        place: Returns the place of the Python code that runs.
    """

    def __init__(self, place: Callable[[], Optional[Where]] = lambda: None) -> None:
        self._place = place
        self.types: list[str] = []
        self.entry: list[Instruction] = []
        self.body: list[Instruction] = []
        self._labels = 0
        self._loops: set[tuple[str, str]] = set()  # the instructions that make loops, and their labels

    def register(self, type: str) -> int:
        """Return a new register of a numeric type, or a predicate."""
        self.types.append(type)
        return len(self.types) - 1

    def emit(self, mnemonic: str, type: str, *sources: Source) -> int:
        """Append an instruction and return its result, a new register."""
        return self.compute(mnemonic, type, sources)

    def compute(self, mnemonic: str, type: str, sources: tuple[Source, ...]) -> int:
        """Do as ``emit`` does."""
        types = self.types
        register = len(types)
        types.append(type)
        self.body.append(made(Instruction, (mnemonic, register, sources, False, self._place())))
        return register

    def write(self, register: int, mnemonic: str, *sources: Source) -> None:
        """Append an instruction that writes a register that there is."""
        self.body.append(Instruction(mnemonic, register, sources, False, self._place()))

    def act(self, mnemonic: str, *sources: Source) -> None:
        """Append an instruction without a result."""
        self.body.append(Instruction(mnemonic, None, sources, True, self._place()))

    def nothing(self) -> None:
        """Append an instruction that does nothing and stays, to part two labels."""
        self.body.append(Instruction("mov.u32", self.register("u32"), ("0",), True))

    def fault(self, place: Place) -> None:
        """Append an instruction that is there to fault: a division by zero, which stays though nobody reads it."""
        self.body.append(Instruction("div.u32", self.register("u32"), ("1", "0"), True, place))

    def label(self, stem: str) -> str:
        """Return a new label."""
        self._labels += 1
        return f"{stem}_{self._labels}"

    def place(self, label: str) -> None:
        """Put a label before what comes next."""
        self.body.append(Instruction(label + ":", None, (), True))

    def loop(self, count: Source, end: str) -> None:
        """Begin a LOOP; ``place(end)`` ends it."""
        self.act("loop", count, end)
        self._loops.add(("loop", end))

    def loop_back(self, head: str, *condition: Source) -> None:
        """Branch to a label that is placed already, where a predicate holds if one is given."""
        self.act("bra", head, *condition)
        self._loops.add(("bra", head))

    def text(self, name: str, declarations: list[str]) -> tuple[str, dict[int, Where]]:
        """Return the program's text, and the places that its lines, counted from 1, come of.

        Raises:
            InvalidArgumentError: More values are needed at one place than there are registers.
        """
        code, used = self._living([*self.entry, *self.body, Instruction("exit", None, (), True)])
        names = self._allocate(code, used)
        lines = [f"program {name}", *declarations, ""]
        targets: set[Source] = set()  # of branches, found at the first label
        places: dict[int, Where] = {}
        for mnemonic, result, sources, _, place in code:
            if mnemonic[-1] == ":":
                targets = targets or {source for line in code for source in line.sources if source.__class__ is str}
                if mnemonic[:-1] in targets:
                    lines.append(mnemonic)
                continue
            words = [] if result is None else [names[result]]
            for source in sources:
                if isinstance(source, str):
                    words.append(source)
                else:
                    words.append(names[source] if isinstance(source, int) else "!" + names[source.register])
            lines.append(f"  {mnemonic} {', '.join(words)}" if words else f"  {mnemonic}")
            if place is not None:
                places[len(lines)] = place
        return "\n".join(lines) + "\n", places

    def _spans(self, code: list[Instruction]) -> list[tuple[int, int]]:
        """Return the first and last place of each loop."""
        if not self._loops:
            return []
        places = {line.mnemonic[:-1]: at for at, line in enumerate(code) if line.mnemonic.endswith(":")}
        spans = []
        for at, line in enumerate(code):
            label = line.sources[0 if line.mnemonic == "bra" else -1] if line.sources else ""
            if (line.mnemonic, label) in self._loops:
                other = places[str(label)]
                spans.append((min(at, other), max(at, other)))
        return spans

    def _living(self, code: list[Instruction]) -> tuple[list[Instruction], list[list[int]]]:
        """Drop what nobody reads; return what is left, and the registers that each instruction reads and writes."""
        needed: set[int] = set()
        before = -1
        while len(needed) != before:
            before = len(needed)
            kept, used = [], []
            for line in reversed(code):
                _, result, sources, effect, _ = line
                if effect or result in needed:
                    registers = _reads(sources)
                    needed.update(registers)
                    if result is not None:
                        registers.append(result)
                    kept.append(line)
                    used.append(registers)
            if not self._loops:
                break  # else again while loops carry values from their ends to their beginnings
        return kept[::-1], used[::-1]

    def _allocate(self, code: list[Instruction], used: list[list[int]]) -> dict[int, str]:
        """Give registers their names by linear scan over the places from first to last use."""
        last = {register: at for at, registers in enumerate(used) for register in registers}
        if self._loops:  # what is set before a loop and used in it is needed until its last round ends
            first = {register: at for at, registers in reversed([*enumerate(used)]) for register in registers}
            for begin, end in self._spans(code):
                for register, at in last.items():
                    if begin <= at < end and first[register] < begin:
                        last[register] = end
        names: dict[int, str] = {}
        types, push, pop = self.types, heapq.heappush, heapq.heappop
        free = {"r": list(range(_isa.FIRST_PRESET)), "p": list(range(_isa.NUM_PREDICATES))}
        busy: list[tuple[int, str, int]] = []  # until when, of which kind, which number
        for at, registers in enumerate(used):
            for register in registers:
                if register in names:
                    continue
                while busy and busy[0][0] <= at:
                    _, kind, number = pop(busy)
                    push(free[kind], number)
                kind = "p" if types[register] == "pred" else "r"
                if not free[kind]:
                    most = {"r": f"{_isa.FIRST_PRESET} registers", "p": f"{_isa.NUM_PREDICATES} predicates"}[kind]
                    raise InvalidArgumentError(
                        f"the kernel needs more than {most} at one place; compute less at once, or split it"
                    )
                number = pop(free[kind])
                names[register] = f"{kind}{number}"
                push(busy, (last[register], kind, number))
        return names


def _reads(sources: tuple[Source, ...]) -> list[int]:
    return [s.register if s.__class__ is Negated else s for s in sources if s.__class__ is not str]  # type: ignore
