"""Programs built by Python code, instruction by instruction."""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional, Union

from hologram import _isa
from hologram.errors import DTypeError, InvalidArgumentError
from hologram.program import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Address", "Data", "Label", "Offset", "Param", "Pred", "ProgramBuilder", "Reg", "Slot"]


class _Named:
    """What stands in an instruction by its name."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.type}>"


class Reg(_Named):
    """A register. ``reg + 16`` is a byte offset for an address."""

    __slots__ = ()

    def __add__(self, offset: int) -> Offset:
        """Return the address part register + offset."""
        return Offset(self, offset)

    def __sub__(self, offset: int) -> Offset:
        """Return the address part register − offset."""
        return Offset(self, -offset)


class Pred(_Named):
    """A predicate register, or with ``~`` its negation where an instruction reads one."""

    __slots__ = ("negated",)

    def __init__(self, name: str, negated: bool = False) -> None:
        super().__init__(name, "pred")
        self.negated = negated

    def __invert__(self) -> Pred:
        """Return the negation."""
        return Pred(self.name, not self.negated)


class Offset:
    """A byte offset: a register plus a constant."""

    __slots__ = ("offset", "reg")

    def __init__(self, reg: Reg, offset: int) -> None:
        self.reg = reg
        self.offset = offset


class Index:
    """The lane's place in the launch's index space: ``slot[builder.index]`` is the lane's element."""

    __slots__ = ()


class Address:
    """A place in memory, and the type of what is there, or None."""

    __slots__ = ("text", "type")

    def __init__(self, text: str, type: Optional[str]) -> None:
        self.text = text
        self.type = type


_Where = Union[Index, Reg, Offset, int]


def _place(where: _Where) -> str:
    if isinstance(where, Index):
        return "index"
    if isinstance(where, Reg):
        return where.name
    if isinstance(where, Offset):
        return f"{where.reg.name} {'-' if where.offset < 0 else '+'} {abs(where.offset)}"
    if isinstance(where, int):
        return str(where)
    raise DTypeError(f"an address is {where!r}; expected builder.index, a register, register + number, or a number")


class Slot(_Named):
    """A slot: ``slot[builder.index]``, ``slot[reg]``, ``slot[reg + 16]`` and ``slot[16]`` are addresses."""

    __slots__ = ()

    def __getitem__(self, where: _Where) -> Address:
        """Return an address in the slot; numbers are bytes."""
        return Address(f"{self.name}[{_place(where)}]", self.type)


class _Shared:
    """The block's shared memory."""

    __slots__ = ()

    def __getitem__(self, where: _Where) -> Address:
        """Return an address in shared memory; numbers are bytes."""
        return Address(f"shared[{_place(where)}]", None)


class Param(_Named):
    """A launch parameter."""

    __slots__ = ()


class Data(_Named):
    """A constant table; ``data[i]`` is its element, i a register or a number."""

    __slots__ = ()

    def __getitem__(self, where: _Where) -> Address:
        """Return an element."""
        return Address(f"{self.name}[{_place(where)}]", self.type)


class Label:
    """A place in the program; ``builder.place(label)`` says where."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class ProgramBuilder:
    """Builds a program out of calls.

    Each instruction of the ISA is a method of its mnemonic's name, with an underscore after ``and_``, ``or_``,
    ``not_``. It returns its result's register, a fresh one unless ``dst`` names one. The type is that of the operands;
    ``type`` says it where they are all numbers, or memory without a type. ::

        b = ProgramBuilder("mul_add_relu")
        x, y, out = b.slot("x", "f32"), b.slot("y", "f32"), b.slot("out", "f32")
        u = b.ldg(x[b.index])
        t = b.mad(u, b.ldg(y[b.index]), u)
        b.stg(b.max(t, 0.0), out[b.index])
        b.exit()
        program = b.build()

    ``cvt`` and ``bitcast`` take the result's type first, ``set`` the condition, ``sreg`` the special value's name.

    Args:
        name: The program's name.
        block: The shape of a block that launches must have; any without it.
        shared: The bytes of shared memory that a block has.
    """

    def __init__(self, name: str, *, block: Optional[Sequence[int]] = None, shared: int = 0) -> None:
        self._name = _checked("program", name)
        self._head: list[str] = []
        self._body: list[str] = []
        self._names: set[str] = set()
        self._fresh = 0
        if shared:
            self._head.append(f"shared {int(shared)}")
        if block is not None:
            self._head.append("block " + " ".join(str(int(d)) for d in block))
        self.index = Index()
        self.shared = _Shared()

    # ---- declarations

    def _declare(self, kind: str, name: str, type: str) -> str:
        _checked(kind, name)
        if type not in _isa.TYPES:
            raise DTypeError(f"{kind} {name}: type {type!r} is none; expected one of {', '.join(_isa.TYPES)}")
        if name in self._names:
            raise InvalidArgumentError(f"{kind} {name}: the name is taken")
        self._names.add(name)
        return f"{kind} {name} {type}"

    def slot(self, name: str, type: str) -> Slot:
        """Declare a slot, which launches bind to an array."""
        self._head.append(self._declare("slot", name, type))
        return Slot(name, type)

    def param(self, name: str, type: str) -> Param:
        """Declare a parameter, a number given at launch."""
        self._head.append(self._declare("param", name, type))
        return Param(name, type)

    def data(self, name: str, type: str, values: Sequence[float]) -> Data:
        """Declare a constant table."""
        line = self._declare("data", name, type)
        self._head.append(f"{line} {{ {', '.join(_number(value, type) for value in values)} }}")
        return Data(name, type)

    def reg(self, type: str, name: Optional[str] = None) -> Reg:
        """Return a register to be used as ``dst`` more than once, such as a sum in a loop."""
        return Reg(name or self._new("v"), type)

    def pred(self, name: Optional[str] = None) -> Pred:
        """Return a predicate to be used as ``dst`` more than once."""
        return Pred(name or self._new("p"))

    def _new(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}_{self._fresh}"

    # ---- control

    def label(self, name: Optional[str] = None) -> Label:
        """Return a label to branch to."""
        return Label(_checked("label", name) if name else self._new("label"))

    def place(self, label: Label) -> None:
        """Put a label before the next instruction."""
        self._body.append(f"{label.name}:")

    @contextmanager
    def loop(self, count: Union[Reg, int]) -> Iterator[None]:
        """Run the instructions of the with-block count times."""
        end = self.label()
        self._body.append(f"  loop {self._source(count, 'u32')}, {end.name}")
        yield
        self.place(end)

    @contextmanager
    def if_(self, pred: Pred) -> Iterator[None]:
        """Run the instructions of the with-block where the predicate holds."""
        end = self.label()
        self._body.append(f"  bra {end.name}, {self._source(~pred, 'pred')}")
        yield
        self.place(end)

    def phi(self, class_index: int, page: int, byte: int) -> Address:
        """Return the address Φ(class, page, byte) in the boundary pool."""
        return Address(f"phi({class_index}, {page}, {byte})", None)

    # ---- instructions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the method of an instruction."""
        row = _isa.ROWS.get(name.rstrip("_"))
        if row is None or name.startswith("_"):
            raise AttributeError(f"no instruction is called {name}")

        def instruction(
            *operands: Any, dst: Union[Reg, Pred, None] = None, type: Optional[str] = None
        ) -> Union[Reg, Pred, None]:
            return self._emit(name.rstrip("_"), row, operands, dst, type)

        instruction.__name__ = name
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
            type = self._infer(mnemonic, places, values)
        if row.types:
            if type not in row.types:
                raise DTypeError(f"{mnemonic}: type {type} is not one of {', '.join(row.types)}")
            suffix += f".{type}"
        source = None
        if row.sources:
            source = getattr(values[0], "type", None)
            if source not in row.sources:
                raise DTypeError(f"{mnemonic}: the source is {values[0]!r}; expected a register with a type")
            suffix += f".{source}"
        texts = []
        for operand, value in zip(places, values):
            texts.append(self._source(value, {"T": type, "FROM": source, "": None}.get(operand.type, operand.type)))
        if result is not None:
            dst = self._result(result, values, type, dst)
            texts.insert(0, dst.name)
        elif dst is not None:
            raise InvalidArgumentError(f"{mnemonic} has no result")
        self._body.append(f"  {mnemonic}{suffix} {', '.join(texts)}".rstrip())
        return dst

    def _word(self, mnemonic: str, values: list[Any], words: Sequence[str], what: str) -> str:
        if not values or values[0] not in words:
            raise InvalidArgumentError(f"{mnemonic} takes {what} first: one of {', '.join(words)}")
        return str(values.pop(0))

    def _infer(self, mnemonic: str, places: Sequence[_isa.Operand], values: Sequence[Any]) -> str:
        for operand, value in zip(places, values):
            found = getattr(value, "type", None)
            if operand.type == "T" and found is not None:
                return str(found)
        raise DTypeError(f"{mnemonic}: no operand has a type; say it with type=…")

    def _result(
        self, operand: _isa.Operand, values: Sequence[Any], type: Optional[str], dst: Union[Reg, Pred, None]
    ) -> Union[Reg, Pred]:
        if operand.kind == "pred_dst" or type == "pred":
            return dst or self.pred()
        held = operand.type
        if held == "T":
            held = type or ""
        elif held == "named":
            held = _isa.SPECIALS[values[0]]
        if dst is None:
            return self.reg(held)
        dst.type = held
        return dst

    def _source(self, value: Any, type: Optional[str]) -> str:
        if isinstance(value, Pred):
            return ("!" if value.negated else "") + value.name
        if isinstance(value, (_Named, Label)):
            return value.name
        if isinstance(value, Address):
            return value.text
        if isinstance(value, str):
            return value
        if isinstance(value, (bool, int, float)) or hasattr(value, "__float__"):
            return _number(value, type)
        raise DTypeError(f"an operand is {value!r}; expected a register, an address, a label or a number")

    # ---- the end

    def text(self) -> str:
        """Return the program's text so far."""
        return "\n".join([f"program {self._name}", *self._head, *self._body]) + "\n"

    def build(self) -> Program:
        """Return the program.

        Raises:
            ValueError: It breaks a rule; the message shows the line of ``text()`` that does.
        """
        return Program(self.text(), file=f"<built {self._name}>")


def _checked(kind: str, name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", name):
        raise InvalidArgumentError(f"{kind}: {name!r} is not a name: letters, digits and _ . $, no digit first")
    return name


def _number(value: Any, type: Optional[str]) -> str:
    """Return a number as the assembler reads it, exactly."""
    if isinstance(value, bool):
        return str(value).lower() if type == "pred" else str(int(value))
    if isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, float)):
        value = value.__index__()
        return str(value) if type not in ("f16", "bf16", "f32", "f64") else f"{value}.0"
    number = float(value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number.hex()
