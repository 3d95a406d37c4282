"""Which definitions of its registers an instruction reads, in programs with branches and loops.

A register of a program holds one value after another, which may have nothing to do with each other: what is asked of a
value is asked of its definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hologram_torch._listing import Line

__all__ = ["apart", "reaching"]

Reads = list[dict[str, frozenset[int]]]
"""For each line, by the registers that it reads, the lines that may have written what it finds there."""


def reaching(lines: Sequence[Line]) -> Reads:
    """Find out which definitions reach what each line reads, whatever way the program takes there."""
    after = _after(lines)
    begins = {at for i, successors in enumerate(after) for at in successors if successors != [i + 1]}
    found: Reads = [{} for _ in lines]
    known: dict[int, dict[str, frozenset[int]]] = {0: {}}
    work = [0]
    while work:
        at = work.pop()
        state = dict(known[at])
        while at < len(lines):
            line = lines[at]
            # A parameter's name is no register's.
            registers = [] if line.operation == "ldp" else [word.lstrip("!") for word in line.sources]
            found[at] = {register: state[register] for register in registers if register in state}
            if line.result:
                state[line.result] = frozenset([at])
            if after[at] == [at + 1] and at + 1 not in begins:
                at += 1
                continue
            for successor in after[at]:
                before = known.get(successor)
                joined = dict(before or {})
                for register, definitions in state.items():
                    joined[register] = joined.get(register, frozenset()) | definitions
                if joined != before:
                    known[successor] = joined
                    work.append(successor)
            break
    return found


def _after(lines: Sequence[Line]) -> list[list[int]]:
    """Return for each line those that may run next."""
    places = {line.operation[:-1]: at for at, line in enumerate(lines) if line.operation.endswith(":")}
    rounds: dict[int, list[int]] = {}  # by the place of a loop's end those of its first lines
    for at, line in enumerate(lines):
        if line.operation == "loop":
            rounds.setdefault(places[line.sources[1]], []).append(at + 1)
    found: list[list[int]] = []
    for at, line in enumerate(lines):
        if line.operation == "exit":
            found.append([])
        elif line.operation == "bra":
            found.append([places[line.sources[0]], *([at + 1] if len(line.sources) > 1 else [])])
        elif line.operation == "loop":
            found.append([at + 1, places[line.sources[1]]])
        else:
            found.append([at + 1, *rounds.get(at, [])])
    return found


def apart(lines: Sequence[Line], reads: Reads) -> list[Line]:
    """Return the lines with a register for each set of definitions that something reads one or another of."""
    leader = list(range(len(lines)))

    def of(at: int) -> int:
        while leader[at] != at:
            leader[at] = at = leader[leader[at]]
        return at

    for each in reads:
        for first, *others in map(list, each.values()):
            for other in others:
                leader[of(other)] = of(first)

    def renamed(at: int, word: str) -> str:
        register = word.lstrip("!")
        if register not in reads[at]:
            return word
        return word[: len(word) - len(register)] + register[0] + str(of(next(iter(reads[at][register]))))

    return [
        line._replace(
            result=line.result and line.result[0] + str(of(at)),
            sources=tuple([renamed(at, word) for word in line.sources]),
        )
        for at, line in enumerate(lines)
    ]
