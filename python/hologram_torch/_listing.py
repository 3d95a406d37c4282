"""Programs as lists of instructions, so that other programs can be made of them: narrowed ones, and derivatives.

What is read here is the text of programs that ``hologram.kernel`` makes, which address memory as ``slot[index]`` alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

from hologram._built import FLOATS
from hologram._kernel.ir import Code, Instruction, Negated

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FLOATS", "Builder", "Line", "Listing", "narrowed", "numbered", "parse", "reduced"]

_REGISTER = re.compile(r"!?[rp]\d+\Z")


class Line(NamedTuple):
    """An instruction, or a label, whose mnemonic ends in a colon.

    Attributes:
        mnemonic: Such as "add.f32".
        result: The register that it writes, or "".
        sources: What it reads, in order.
    """

    mnemonic: str
    result: str
    sources: tuple[str, ...]

    @property
    def operation(self) -> str:
        """The mnemonic without types."""
        return self.mnemonic.partition(".")[0]

    @property
    def type(self) -> str:
        """The type of the result, or of what is stored or compared; of cvt the one that it converts to."""
        parts = self.mnemonic.split(".")
        return parts[1] if parts[0] == "cvt" else parts[-1]

    @property
    def named(self) -> str:
        """The slot or parameter that a load or store names."""
        return self.sources[-1].partition("[")[0]


class Listing(NamedTuple):
    """A program.

    Attributes:
        name: Its name.
        inputs: The slots that it reads, and their types.
        outputs: The slots that it writes.
        params: Its parameters.
        lines: Its instructions.
        text: What it was read from.
    """

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    params: dict[str, str]
    lines: list[Line]
    text: str

    @property
    def straight(self) -> bool:
        """Whether it has no branches and no loops."""
        return not any(line.mnemonic.endswith(":") for line in self.lines)


def parse(text: str) -> Listing:
    """Read the text of a program that hologram.kernel made."""
    name = ""
    slots: dict[str, str] = {}
    params: dict[str, str] = {}
    lines: list[Line] = []
    for row in text.splitlines():
        head, _, rest = row.partition(";")[0].strip().partition(" ")
        if not head:
            continue
        if head == "program":
            name = rest
        elif head in ("slot", "param"):
            what, kind = rest.split()
            (slots if head == "slot" else params)[what] = kind
        elif head.endswith(":"):
            lines.append(Line(head, "", ()))
        else:
            words = tuple(word.strip() for word in rest.split(",")) if rest else ()
            writes = head.partition(".")[0] not in ("stg", "bra", "loop", "exit")
            lines.append(Line(head, words[0], words[1:]) if writes else Line(head, "", words))
    written = {line.named for line in lines if line.operation == "stg"}
    inputs = {slot: kind for slot, kind in slots.items() if slot not in written}
    outputs = {slot: kind for slot, kind in slots.items() if slot in written}
    return Listing(name, inputs, outputs, params, lines, text)


class Builder(Code):
    """Instructions of a new program, on registers without limit."""

    def source(self, word: str, registers: Mapping[str, Union[int, str]]) -> Union[int, str, Negated]:
        """Return an operand of a listing as the builder's instructions have it."""
        if not _REGISTER.match(word):
            return word
        found = registers[word.lstrip("!")]
        return Negated(found) if word.startswith("!") and isinstance(found, int) else found

    def copy(self, line: Line, registers: dict[str, int], result: Optional[int] = None) -> None:
        """Append a line of a listing, with its result in a register that is given, or the one that it had before.

        Args:
            line: The line. What it loads or stores keeps its name.
            registers: Which of the builder's registers one of the listing's is; the result's is noted there.
            result: The register for the result.
        """
        operation = line.operation
        if operation == "exit":
            return
        if operation.endswith(":"):
            self.place(operation[:-1])
            return
        sources = line.sources if operation == "ldp" else tuple(self.source(word, registers) for word in line.sources)
        if operation == "loop":
            self.loop(sources[0], str(sources[1]))
        elif operation == "bra" and any(each.mnemonic == f"{sources[0]}:" for each in self.body):
            self.loop_back(str(sources[0]), *sources[1:])
        elif not line.result:
            self.act(line.mnemonic, *sources)
        else:
            if result is None:
                result = registers.get(line.result)
            if result is None:
                result = self.register("pred" if line.result.startswith("p") else "f32")
            # What parts two labels stays, though nobody reads it, and what is there to fault.
            stays = line.mnemonic == "mov.u32" and bool(self.body) and self.body[-1].mnemonic.endswith(":")
            stays = stays or (line.mnemonic == "div.u32" and line.sources == ("1", "0"))
            registers[line.result] = result
            self.body.append(Instruction(line.mnemonic, result, sources, stays))

    def compare_late(self) -> None:
        """Compute predicates where they are read, each time anew; of programs without branches, written in SSA form."""
        makers = {
            line.result: line for line in self.body if line.result is not None and self._is_predicate(line.result)
        }
        body: list[Instruction] = []

        def read(sources: tuple[Union[int, str, Negated], ...]) -> tuple[Union[int, str, Negated], ...]:
            found: list[Union[int, str, Negated]] = []
            for source in sources:
                register = source.register if isinstance(source, Negated) else source
                if isinstance(register, int) and register in makers:
                    maker = makers[register]
                    made = self.register("pred")
                    body.append(maker._replace(result=made, sources=read(maker.sources)))
                    found.append(Negated(made) if isinstance(source, Negated) else made)
                else:
                    found.append(source)
            return tuple(found)

        for line in self.body:
            if line.result not in makers:
                body.append(line._replace(sources=read(line.sources)))
        self.body = body

    def _is_predicate(self, register: Optional[int]) -> bool:
        return register is not None and self.types[register] == "pred"

    def listing(
        self, name: str, inputs: Mapping[str, str], outputs: Mapping[str, str], params: Mapping[str, str]
    ) -> Listing:
        """Return the program. What it doesn't load is not among its inputs and parameters."""
        text, _ = self.text(name, [])
        body = text.partition("\n")[2]
        loaded = set(re.findall(r"^ +ldg\.\w+ \w+, (\w+)\[", body, re.M))
        given = set(re.findall(r"^ +ldp\.\w+ \w+, (\w+)$", body, re.M))
        lines = [f"program {name}"]
        lines += [f"slot {slot} {kind}" for slot, kind in inputs.items() if slot in loaded]
        lines += [f"slot {slot} {kind}" for slot, kind in outputs.items()]
        lines += [f"param {param} {kind}" for param, kind in params.items() if param in given]
        return parse("\n".join([*lines, body]))


def narrowed(listing: Listing, types: Mapping[str, str], names: Mapping[str, str]) -> Listing:
    """Return a program with slots of other types, which it converts where it loads and stores, and of other names.

    Args:
        listing: The program.
        types: The types of slots that are to have another one.
        names: New names of slots and parameters.
    """
    builder = Builder()
    registers: dict[str, int] = {}
    for line in listing.lines:
        operation = line.operation
        if operation not in ("ldg", "stg", "ldp"):
            builder.copy(line, registers)
            continue
        old, name = line.named, names.get(line.named, line.named)
        if operation == "ldp":
            builder.copy(line._replace(sources=(name,)), registers)
            continue
        type = types.get(old, line.type)
        if operation == "ldg":
            builder.copy(Line(f"ldg.{type}", line.result, (f"{name}[index]",)), registers)
            if type != line.type:
                builder.copy(Line(f"cvt.{line.type}.{type}", line.result, (line.result,)), registers)
        else:
            value = builder.source(line.sources[0], registers)
            if type != line.type:
                value = builder.emit(f"cvt.{type}.{line.type}", type, value)
            builder.act(f"stg.{type}", value, f"{name}[index]")

    def renamed(found: Mapping[str, str]) -> dict[str, str]:
        return {names.get(name, name): types.get(name, kind) for name, kind in found.items()}

    return builder.listing(listing.name, renamed(listing.inputs), renamed(listing.outputs), renamed(listing.params))


def reduced(listing: Listing, outputs: Mapping[str, str]) -> Listing:
    """Return a program that makes some of the outputs alone, under the names that outputs has for them."""
    builder = Builder()
    registers: dict[str, int] = {}
    for line in listing.lines:
        if line.operation == "stg":
            if line.named in outputs:
                builder.act(line.mnemonic, builder.source(line.sources[0], registers), f"{outputs[line.named]}[index]")
        else:
            builder.copy(line, registers)
    kinds = {new: listing.outputs[old] for old, new in outputs.items()}
    return builder.listing(listing.name, listing.inputs, kinds, listing.params)


def numbered(listing: Listing, slot: str) -> Listing:
    """Return a program that has the lane's number in the place of what it loads from a slot of u64."""
    builder = Builder()
    registers: dict[str, int] = {}
    for line in listing.lines:
        if line.operation == "ldg" and line.named == slot:
            line = Line("sreg", line.result, ("global_lane",))
        builder.copy(line, registers)
    return builder.listing(listing.name, listing.inputs, listing.outputs, listing.params)
