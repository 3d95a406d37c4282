"""The program that a trace becomes: instructions on any number of registers, then text on those that Atlas has."""

from __future__ import annotations

import heapq
import itertools
from typing import Callable, NamedTuple, Optional, Union

from hologram import _isa
from hologram.errors import InvalidArgumentError

__all__ = ["Code", "Instruction", "Negated", "Place"]


class Place(NamedTuple):
    """Where in the Python code an instruction comes of, and what its fault means, if the fault doesn't say so."""

    file: str
    line: int
    why: str = ""


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
    place: Optional[Place] = None


_instruction = tuple.__new__
"""Makes an instruction, in half the time that its class takes for it."""


class Code:
    """Instructions in the making.

    Registers are numbered from 0 and have a type each; more than one instruction may write one. What is put in
    ``entry`` runs before everything else: loads of arguments, whose values are then known wherever they are first used.

    Args:
        place: Returns the place of the Python code that runs.
    """

    def __init__(self, place: Callable[[], Optional[Place]] = lambda: None) -> None:
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
        self.body.append(_instruction(Instruction, (mnemonic, register, sources, False, self._place())))
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

    def text(self, name: str, declarations: list[str]) -> tuple[str, dict[int, Place]]:
        """Return the program's text, and the places that its lines, counted from 1, come of.

        Raises:
            InvalidArgumentError: More values are needed at one place than there are registers.
        """
        code, reads = self._living([*self.entry, *self.body, Instruction("exit", None, (), True)])
        names = self._allocate(code, reads)
        lines = [f"program {name}", *declarations, ""]
        targets = {source for line in code for source in line.sources if source.__class__ is str}
        places: dict[int, Place] = {}
        for mnemonic, result, sources, _, place in code:
            if mnemonic[-1] == ":":
                if mnemonic[:-1] in targets:
                    lines.append(mnemonic)
                continue
            words = [] if result is None else [names[result]]
            for source in sources:
                if isinstance(source, str):
                    words.append(source)
                else:
                    words.append("!" + names[source.register] if isinstance(source, Negated) else names[source])
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
        """Drop what nobody reads; return what is left, and the registers that each instruction reads."""
        reads = [_reads(line.sources) for line in code]
        needed: set[int] = set()
        before = -1
        while len(needed) != before:  # again while loops carry values from their ends to their beginnings
            before = len(needed)
            for line, read in zip(reversed(code), reversed(reads)):
                if line.effect or line.result in needed:
                    needed.update(read)
        kept = [line.effect or line.result in needed for line in code]
        return list(itertools.compress(code, kept)), list(itertools.compress(reads, kept))

    def _allocate(self, code: list[Instruction], reads: list[list[int]]) -> dict[int, str]:
        """Give registers their names by linear scan over the places from first to last use."""
        first: dict[int, int] = {}  # in this order
        last: dict[int, int] = {}
        for at, (line, read) in enumerate(zip(code, reads)):
            for register in read:
                last[register] = at
                if register not in first:
                    first[register] = at
            result = line.result
            if result is not None:
                last[result] = at
                if result not in first:
                    first[result] = at
        # What is set before a loop and used in it is needed until its last round ends.
        for begin, end in self._spans(code):
            for register, at in last.items():
                if begin <= at < end and first[register] < begin:
                    last[register] = end
        names: dict[int, str] = {}
        types = self.types
        free = {"r": list(range(_isa.FIRST_PRESET)), "p": list(range(_isa.NUM_PREDICATES))}
        busy: list[tuple[int, str, int]] = []  # until when, of which kind, which number
        for register, begin in first.items():
            while busy and busy[0][0] <= begin:
                _, kind, number = heapq.heappop(busy)
                heapq.heappush(free[kind], number)
            kind = "p" if types[register] == "pred" else "r"
            if not free[kind]:
                most = {"r": f"{_isa.FIRST_PRESET} registers", "p": f"{_isa.NUM_PREDICATES} predicates"}[kind]
                raise InvalidArgumentError(
                    f"the kernel needs more than {most} at one place; compute less at once, or split it"
                )
            number = heapq.heappop(free[kind])
            names[register] = f"{kind}{number}"
            heapq.heappush(busy, (last[register], kind, number))
        return names


def _reads(sources: tuple[Source, ...]) -> list[int]:
    return [s.register if isinstance(s, Negated) else s for s in sources if not isinstance(s, str)]
