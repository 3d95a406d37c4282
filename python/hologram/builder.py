"""Programs built by Python code, instruction by instruction."""

from __future__ import annotations

import linecache
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from hologram import _isa
from hologram._arguments import integer, integers, shown
from hologram._built import (
    Address,
    Data,
    Index,
    Label,
    Named,
    Offset,
    Param,
    Pred,
    Reg,
    Shared,
    Slot,
    checked,
    is_number,
    number,
)
from hologram.errors import DTypeError, InvalidArgumentError, ProgramSyntaxError, ProgramVerifyError
from hologram.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Address", "Data", "Label", "Offset", "Param", "Pred", "ProgramBuilder", "Reg", "Slot"]


class _Block:
    """The with-block of a loop, of if_ or of else_."""

    __slots__ = ("builder", "closed", "head", "label", "line", "name")

    def __init__(self, builder: ProgramBuilder, name: str, *head: str) -> None:
        """Begin with the lines head, in which {} stands for the end's label."""
        self.builder = builder
        self.name = name
        self.line = _caller()
        self.label = builder.label()
        self.head = [line.format(self.label.name) for line in head]
        self.closed = -1  # where the block's end is in the program
        builder._waiting = self

    def __enter__(self) -> None:
        builder = self.builder
        if builder._waiting is not self:
            raise InvalidArgumentError(f"{self.name} ({_show(self.line)}) is entered a second time")
        builder._waiting = None
        if self.name == "else_":
            # The end of the if_ is where this begins, and its own instructions leap over these.
            builder._body.pop()
            builder._body_lines.pop()
        for line in self.head:
            builder._append(line)
        builder._open.append(self)

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None:
            return  # the block stays open, which build() tells if it comes to that
        builder = self.builder
        if not builder._open or builder._open[-1] is not self:
            raise InvalidArgumentError(f"{self.name} ({_show(self.line)}) ends before a block inside it does")
        builder.place(self.label)
        builder._open.pop()
        self.closed = len(builder._body)
        builder._last_if = self if self.name == "if_" else None


_Line = tuple[str, int]


def _caller() -> _Line:
    """Return file and line of the code that called the builder."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _show(line: _Line) -> str:
    return f"{line[0]}:{line[1]}"


class ProgramBuilder:
    """Builds a program out of calls.

    Each instruction of the ISA is a method of its mnemonic's name, with an underscore after ``and_``, ``or_``,
    ``not_``. It returns its result's register, a fresh one unless ``dst`` names one. The type is that of the operands;
    ``type`` says it where they are all numbers, or memory without a type, and there is no ``dst``. ::

        b = ProgramBuilder("mul_add_relu")
        x, y, out = b.slot("x", "f32"), b.slot("y", "f32"), b.slot("out", "f32")
        u = b.ldg(x[b.index])
        t = b.mad(u, b.ldg(y[b.index]), u)
        b.stg(b.max(t, 0.0), out[b.index])
        b.exit()
        program = b.build()

    An address is ``x[b.index]``, the lane's element; ``x.flat[i]``, element i of the whole array; ``x[i]``, the byte i.
    ``cvt`` and ``bitcast`` take the result's type first, ``set`` the condition, ``sreg`` the special value's name.

    The first mistake is told by the call that makes it; what only the whole program shows is told by ``build``, with
    the line of the call that made the instruction.

    Args:
        name: The program's name.
        block: The lanes of a block in x, y and z that launches must have, or in x alone; any without it.
        shared: The bytes of shared memory that a block has.
    """

    def __init__(self, name: str, *, block: Union[int, Sequence[int], None] = None, shared: int = 0) -> None:
        self._name = checked("program", name)
        self._head: list[str] = []
        self._body: list[str] = []
        self._head_lines: list[_Line] = []  # where the caller asked for each of them
        self._body_lines: list[_Line] = []
        self._names: set[str] = set()
        self._registers: set[str] = set()
        self._labels: dict[str, bool] = {}  # whether they are placed
        self._fresh = 0
        self._open: list[_Block] = []
        self._waiting: Optional[_Block] = None  # made, but not entered by a with statement
        self._last_if: Optional[_Block] = None
        if shared:
            self._declare_line(f"shared {integer('ProgramBuilder: shared', shared, 0)}")
        if block is not None:
            what = "ProgramBuilder: block"
            sizes = integers(what, block, alone=True)
            if not 1 <= len(sizes) <= 3 or min(sizes) < 1 or math.prod(sizes) > _isa.MAX_BLOCK_LANES:
                raise InvalidArgumentError(
                    f"{what} is {shown(block)}; expected one to three numbers, 1 … {_isa.MAX_BLOCK_LANES} lanes in all"
                )
            self._declare_line("block " + " ".join(map(str, sizes)))
        self.index = Index()
        self.shared = Shared(self)

    def __repr__(self) -> str:
        """Describe the builder in one line."""
        return f"<ProgramBuilder {self._name}: {len(self._body)} lines>"

    # ---- declarations

    def _declare_line(self, line: str) -> None:
        self._head.append(line)
        self._head_lines.append(_caller())

    def _declare(self, kind: str, name: str, type: str) -> str:
        checked(kind, name)
        self._type(f"{kind} {name}", type)
        if name in self._names:
            raise InvalidArgumentError(f"{kind} {name}: the name is taken")
        self._names.add(name)
        return f"{kind} {name} {type}"

    def _type(self, what: str, type: str) -> None:
        if type not in _isa.TYPES:
            raise DTypeError(f"{what}: type {type!r} is none; expected one of {', '.join(_isa.TYPES)}")

    def slot(self, name: str, type: str) -> Slot:
        """Declare a slot, which launches bind to an array."""
        self._declare_line(self._declare("slot", name, type))
        return Slot(self, name, type)

    def param(self, name: str, type: str) -> Param:
        """Declare a parameter, a number given at launch."""
        self._declare_line(self._declare("param", name, type))
        return Param(self, name, type)

    def data(self, name: str, type: str, values: Sequence[float]) -> Data:
        """Declare a constant table."""
        self._type(f"data {name}", type)
        numbers = [number(f"data {name}[{i}]", value, type) for i, value in enumerate(values)]
        line = self._declare("data", name, type)  # once nothing is refused any more
        self._declare_line(f"{line} {{ {', '.join(numbers)} }}")
        return Data(self, name, type)

    def reg(self, type: str, name: Optional[str] = None) -> Reg:
        """Return a register to be used as ``dst`` more than once, such as a sum in a loop."""
        self._type("reg" if name is None else f"reg {name}", type)
        return Reg(self, self._register("reg", name, "v"), type)

    def pred(self, name: Optional[str] = None) -> Pred:
        """Return a predicate to be used as ``dst`` more than once."""
        return Pred(self, self._register("pred", name, "p"))

    def _register(self, kind: str, name: Optional[str], stem: str) -> str:
        if name is None:
            return self._new(stem, self._registers)
        checked(kind, name)
        if re.fullmatch(r"[rp]\d+", name):
            return name  # a register by its number, of which there is one
        if name in self._registers:
            raise InvalidArgumentError(f"{kind} {name}: the name is taken")
        self._registers.add(name)
        return name

    def _new(self, stem: str, taken: Union[set[str], dict[str, bool]]) -> str:
        while True:
            self._fresh += 1
            name = f"{stem}_{self._fresh}"
            if name not in taken:
                return name

    # ---- control

    def _append(self, line: str) -> None:
        if self._waiting is not None:
            block = self._waiting
            raise InvalidArgumentError(
                f"{block.name} ({_show(block.line)}) stands without with: write `with builder.{block.name}(…):`"
            )
        self._body.append(line)
        self._body_lines.append(_caller())

    def label(self, name: Optional[str] = None) -> Label:
        """Return a label to branch to."""
        if name is None:
            name = self._new("label", self._labels)
        elif checked("label", name) in self._labels:
            raise InvalidArgumentError(f"label {name}: the name is taken")
        self._labels[name] = False
        return Label(self, name)

    def place(self, label: Label) -> None:
        """Put a label before the next instruction."""
        name = self._label("place", label)
        if self._labels[name]:
            raise InvalidArgumentError(f"place: label {name} stands in the program already")
        self._append(f"{name}:")
        self._labels[name] = True

    def loop(self, count: Union[Reg, int]) -> _Block:
        """Run the instructions of the with-block count times: ``with builder.loop(8):``."""
        rounds = self._source("loop", _isa.ROWS["loop"].operands[0], count, "u32")
        return _Block(self, "loop", f"  loop {rounds}, {{}}")

    def if_(self, pred: Pred) -> _Block:
        """Run the instructions of the with-block where the predicate holds: ``with builder.if_(p):``."""
        condition = self._pred("if_", "pred", pred)
        negated = condition[1:] if condition.startswith("!") else "!" + condition
        return _Block(self, "if_", f"  bra {{}}, {negated}")

    def else_(self) -> _Block:
        """Run the instructions of the with-block where the predicate of the ``if_`` right before did not hold."""
        last = self._last_if
        if last is None or last.closed != len(self._body):
            raise InvalidArgumentError("else_ stands right after the with-block of an if_")
        return _Block(self, "else_", "  bra {}", f"{last.label.name}:")

    def phi(self, class_index: int, page: int, byte: int) -> Address:
        """Return the address Φ(class, page, byte) in the boundary pool."""
        place = [
            integer("phi: class_index", class_index, 0, _isa.NUM_CLASSES - 1),
            integer("phi: page", page, 0, _isa.PAGES_PER_CLASS - 1),
            integer("phi: byte", byte, 0, _isa.PAGE_BYTES - 1),
        ]
        return Address(self, "slot", "phi({}, {}, {})".format(*place), None)

    # ---- instructions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the method of an instruction."""
        row = _isa.ROWS.get(name.rstrip("_"))
        if row is None or name.startswith("_"):
            import difflib

            near = (
                []
                if name.startswith("_")
                else difflib.get_close_matches(name, [n for n in dir(self) if n[0] != "_"], 1)
            )
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"no instruction is called {name}{hint}")

        def instruction(
            *operands: Any, dst: Union[Reg, Pred, None] = None, type: Optional[str] = None
        ) -> Union[Reg, Pred, None]:
            return self._emit(name.rstrip("_"), row, operands, dst, type)

        instruction.__name__, instruction.__qualname__ = name, f"ProgramBuilder.{name}"  # errors of Python's have it
        instruction.__doc__ = f"{row.signature}\n\n{row.doc}"
        return instruction

    def __dir__(self) -> list[str]:
        """List the methods, those of the instructions included."""
        keywords = {"and", "or", "not"}
        return [*super().__dir__(), *(m + "_" if m in keywords else m for m in _isa.ROWS)]

    def _emit(
        self,
        mnemonic: str,
        row: _isa.Row,
        given: tuple[Any, ...],
        dst: Union[Reg, Pred, None],
        type: Optional[str],
    ) -> Union[Reg, Pred, None]:
        values = list(given)
        suffix = ""
        if row.has_condition:
            suffix = f".{self._word(mnemonic, values, _isa.CONDITIONS, 'a condition')}"
        if row.sources:
            type = type or self._word(mnemonic, values, row.types, "the result's type")
        result = next((o for o in row.operands[:1] if o.kind in ("dst", "pred_dst")), None)
        places = [o for o in row.operands if o is not result]
        if places and places[0].kind == "data":
            places = places[:1]  # table[index] is one thing in the text form
        required = sum(not o.optional for o in places)
        if not required <= len(values) <= len(places):
            names = ", ".join(o.name for o in places)
            raise InvalidArgumentError(f"{mnemonic} takes {len(places)} operands ({names}), got {len(values)}")
        if row.types and type is None:
            type = self._infer(mnemonic, places, values, result, dst)
        if row.types:
            if type not in row.types:
                raise DTypeError(f"{mnemonic}: type {type} is not one of {', '.join(row.types)}")
            suffix += f".{type}"
        source = None
        if row.sources:
            source = getattr(values[0], "type", None)
            if not isinstance(values[0], Reg) or source not in row.sources:
                raise DTypeError(f"{mnemonic}: the source is {values[0]!r}; expected a register with a type")
            suffix += f".{source}"
        texts = []
        for operand, value in zip(places, values):
            wanted = {"T": type, "FROM": source, "": None}.get(operand.type, operand.type)
            texts.append(self._source(mnemonic + suffix, operand, value, wanted))
        if result is not None:
            dst = self._result(mnemonic + suffix, result, values, type, dst)
            texts.insert(0, dst.name)
        elif dst is not None:
            raise InvalidArgumentError(f"{mnemonic} has no result")
        self._append(f"  {mnemonic}{suffix} {', '.join(texts)}".rstrip())
        return dst

    def _word(self, mnemonic: str, values: list[Any], words: Sequence[str], what: str) -> str:
        if not values or not isinstance(values[0], str) or values[0] not in words:
            raise InvalidArgumentError(f"{mnemonic} takes {what} first: one of {', '.join(words)}")
        return str(values.pop(0))

    def _infer(
        self,
        mnemonic: str,
        places: Sequence[_isa.Operand],
        values: Sequence[Any],
        result: Optional[_isa.Operand],
        dst: object,
    ) -> str:
        for operand, value in zip(places, values):
            found = getattr(value, "type", None)
            if operand.type == "T" and found is not None and isinstance(value, (Named, Address)):
                return str(found)
        if isinstance(dst, (Reg, Pred)) and result is not None and result.type == "T":
            return dst.type
        raise DTypeError(f"{mnemonic}: no operand has a type; say it with type=…")

    def _result(
        self,
        what: str,
        operand: _isa.Operand,
        values: Sequence[Any],
        type: Optional[str],
        dst: Union[Reg, Pred, None],
    ) -> Union[Reg, Pred]:
        if operand.kind == "pred_dst" or type == "pred":
            if dst is None:
                return self.pred()
            if not isinstance(dst, Pred) or dst.negated:
                raise DTypeError(f"{what}: dst is {dst!r}; expected a predicate, not negated")
        else:
            held = {"T": type or "", "named": _isa.SPECIALS.get(str(values[0]), "") if values else ""}.get(
                operand.type, operand.type
            )
            if dst is None:
                return self.reg(held)
            if not isinstance(dst, Reg) or dst.type != held:
                raise DTypeError(f"{what}: dst is {dst!r}; expected a register of {held}")
        self._mine(what, "dst", dst)
        return dst

    def _mine(self, what: str, name: str, value: Union[Named, Address, Label]) -> None:
        if value.owner is not self:
            raise InvalidArgumentError(f"{what}: {name} is {value!r}, which is another builder's, {value.owner!r}")

    def _label(self, what: str, value: Any) -> str:
        if not isinstance(value, Label):
            raise DTypeError(f"{what}: label is {value!r}; expected a label, made by builder.label()")
        self._mine(what, "label", value)
        return value.name

    def _pred(self, what: str, name: str, value: Any) -> str:
        if not isinstance(value, Pred):
            raise DTypeError(f'{what}: {name} is {value!r}; expected a predicate, such as builder.set("lt", a, b)')
        self._mine(what, name, value)
        return ("!" if value.negated else "") + value.name

    def _source(self, what: str, operand: _isa.Operand, value: Any, type: Optional[str]) -> str:
        """Return an operand's text after checking it against its place in the table."""
        kind, name = operand.kind, operand.name
        if kind == "label":
            return self._label(what, value)
        if kind in ("special", "scope"):
            words: Sequence[str] = tuple(_isa.SPECIALS) if kind == "special" else _isa.SCOPES
            if not isinstance(value, str) or value not in words:
                raise InvalidArgumentError(f"{what}: {name} is {value!r}; expected one of {', '.join(words)}")
            return value
        if kind == "pred_src" or (type == "pred" and not isinstance(value, (bool, np.bool_))):
            return self._pred(what, name, value)
        if kind in ("src", "src_reg"):
            if isinstance(value, Reg):
                self._mine(what, name, value)
                if value.type != type:
                    raise DTypeError(f'{what}: {name} is {value!r}; expected {type}; cvt("{type}", …) converts')
                return value.name
            if kind == "src" and is_number(value):
                return number(f"{what}: {name}", value, type)
            hint = {Param: "; read it with ldp", Slot: "; read it with ldg", Data: "; read it with ldc"}.get(
                value.__class__, ""
            )
            other = "" if kind == "src_reg" else " or a number"
            raise DTypeError(f"{what}: {name} is {value!r}; expected a register of {type}{other}{hint}")
        if kind == "imm":
            if not is_number(value):
                raise DTypeError(f"{what}: {name} is {value!r}; expected a number ({type})")
            return number(f"{what}: {name}", value, type)
        if kind == "param":
            if not isinstance(value, Param) or value.type != type:
                raise DTypeError(f"{what}: {name} is {value!r}; expected a parameter of {type}")
            self._mine(what, name, value)
            return value.name
        kinds = {"mem": ("slot",), "shared_mem": ("shared",), "any_mem": ("slot", "shared"), "data": ("data",)}[kind]
        if not isinstance(value, Address) or value.kind not in kinds:
            place = {"slot": "a slot", "shared": "shared memory", "data": "a table"}
            hint = ", such as x[builder.index]" if isinstance(value, Slot) else ""
            raise DTypeError(
                f"{what}: {name} is {value!r}; expected an address in {' or '.join(place[k] for k in kinds)}{hint}"
            )
        if value.type is not None and value.type != type:
            raise DTypeError(f"{what}: {name} is {value!r}; expected {type}")
        self._mine(what, name, value)
        return value.text

    # ---- the end

    def text(self) -> str:
        """Return the program's text so far."""
        return "\n".join([f"program {self._name}", *self._head, *self._body]) + "\n"

    def build(self) -> Program:
        """Return the program.

        Raises:
            ValueError: It breaks a rule; the message shows the line of ``text()`` that does, and the line of the call
                that made it.
        """
        block = self._waiting or (self._open[-1] if self._open else None)
        if block is not None:
            what = "stands without with" if block is self._waiting else "is not at its end"
            raise InvalidArgumentError(f"build: {block.name} ({_show(block.line)}) {what}")
        file = f"<built {self._name}>"
        try:
            return Program(self.text(), file=file)
        except (ProgramSyntaxError, ProgramVerifyError) as error:
            place = re.match(rf"{re.escape(file)}:(\d+):", str(error))
            lines = [*self._head_lines, *self._body_lines]
            at = int(place[1]) - 2 if place else -1  # line 1 is the program's name
            if not 0 <= at < len(lines):
                raise
            source = linecache.getline(*lines[at]).strip()
            raise type(error)(f"{error}\n  made at {_show(lines[at])}{': ' if source else ''}{source}") from None
