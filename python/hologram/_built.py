"""What the calls of a ProgramBuilder take and return: registers, predicates, slots, addresses, labels, numbers."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Union

import numpy as np

from hologram import _isa
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from hologram.builder import ProgramBuilder

__all__ = [
    "FLOATS",
    "Address",
    "Data",
    "Flat",
    "Index",
    "Label",
    "Named",
    "Offset",
    "Param",
    "Pred",
    "Reg",
    "Shared",
    "Slot",
    "beyond",
    "checked",
    "is_number",
    "number",
]

FLOATS = ("f16", "bf16", "f32", "f64")

_FIRST_BEYOND = {
    "f16": (1 << 16) - (1 << 4),
    "bf16": (1 << 128) - (1 << 119),
    "f32": (1 << 128) - (1 << 103),
    "f64": (1 << 1024) - (1 << 970),
}
"""The smallest number that rounds to infinity: the largest finite one and half of its last bit."""

_LARGEST = {"f16": "65504", "bf16": "3.3895314e+38", "f32": "3.4028235e+38", "f64": "1.7976931348623157e+308"}


class Named:
    """What stands in an instruction by its name, in the program of one builder."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, owner: ProgramBuilder, name: str, type: str) -> None:
        self.owner = owner
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        """Return the kind and what it is called."""
        return f"<{type(self).__name__} {self.name}: {self.type}>"


class _Value(Named):
    """A register or predicate, whose value is not known while the program is built."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        """Refuse: Python's if, and, or and not would decide while the program is built."""
        raise DTypeError(f"{self!r} has no value while the program is built; use if_, and_, or_ or not_ of the builder")


# By the names of Python's methods: what the operator looks like, and the builder's method that does it.
_BINARY = {
    "add": ("+", "add"),
    "sub": ("-", "sub"),
    "mul": ("*", "mul"),
    "truediv": ("/", "div"),
    "floordiv": ("//", "div"),
    "mod": ("%", "rem"),
    "pow": ("**", "pow"),
    "and": ("&", "and_"),
    "or": ("|", "or_"),
    "xor": ("^", "xor"),
    "lshift": ("<<", "shl"),
    "rshift": (">>", "shr"),
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_UNARY = {"neg": ("-", "neg"), "abs": ("abs()", "abs"), "invert": ("~", "not_")}


def _refusal(sign: str, instead: str) -> Callable[..., Any]:
    def refuse(self: Named, other: Any = None) -> Any:
        raise DTypeError(f"{self.name} has no operator {sign}; what it would do is builder.{instead}")

    return refuse


def _comparison(name: str, sign: str) -> Callable[..., Any]:
    refuse = _refusal(sign, f'set("{name}", …)')

    def compare(self: Named, other: Any) -> Any:
        if other is self and name in ("eq", "ne"):  # as lists and dictionaries ask
            return name == "eq"
        return refuse(self) if isinstance(other, (Named, int, float)) else NotImplemented

    return compare


for _method, (_sign, _instead) in {**_BINARY, **_UNARY}.items():
    setattr(_Value, f"__{_method}__", _refusal(_sign, f"{_instead}(…)"))
    if _method in _BINARY:
        setattr(_Value, f"__r{_method}__", _refusal(_sign, f"{_instead}(…)"))
for _method, _sign in _COMPARISONS.items():
    setattr(_Value, f"__{_method}__", _comparison(_method, _sign))
_Value.__hash__ = Named.__hash__  # type: ignore[method-assign]  # what is compared has lost it


class Reg(_Value):
    """A register. ``reg + 16`` is an offset in an address, and nothing else: bytes, or in ``slot.flat`` elements."""

    __slots__ = ()

    def __add__(self, offset: int) -> Offset:
        """Return the address part register + offset, a number of bytes, or in ``slot.flat`` of elements."""
        return Offset(self, _bytes(self, "+", offset))

    def __sub__(self, offset: int) -> Offset:
        """Return the address part register − offset, a number of bytes, or in ``slot.flat`` of elements."""
        return Offset(self, -_bytes(self, "-", offset))


class Pred(_Value):
    """A predicate register, or with ``~`` its negation where an instruction reads one."""

    __slots__ = ("negated",)

    def __init__(self, owner: ProgramBuilder, name: str, negated: bool = False) -> None:
        super().__init__(owner, name, "pred")
        self.negated = negated

    def __invert__(self) -> Pred:
        """Return the negation."""
        return Pred(self.owner, self.name, not self.negated)


class Offset:
    """An offset: a register plus a constant."""

    __slots__ = ("offset", "reg")

    def __init__(self, reg: Reg, offset: int) -> None:
        self.reg = reg
        self.offset = offset

    def __repr__(self) -> str:
        """Return the kind and what it is called."""
        return f"<Offset {_place(self)}>"


def _bytes(reg: Reg, sign: str, offset: Any) -> int:
    try:
        return operator.index(offset)
    except TypeError:
        other = offset.name if isinstance(offset, Named) else repr(offset)
        hint = f"; the {'sum' if sign == '+' else 'difference'} of two values is builder.{_NAMES[sign]}(…)"
        raise DTypeError(
            f"{reg.name} {sign} {other}: a register {sign} a number is an address, expected an integer of bytes{hint}"
        ) from None


_NAMES = {"+": "add", "-": "sub"}


class Index:
    """The lane's place in the launch's index space: ``slot[builder.index]`` is the lane's element."""

    __slots__ = ()


class Address:
    """A place in memory, and the type of what is there, or None.

    ``kind`` says which instructions take it: it is "slot", "shared" or "data".
    """

    __slots__ = ("kind", "owner", "text", "type")

    def __init__(self, owner: ProgramBuilder, kind: str, text: str, type: Optional[str]) -> None:
        self.owner = owner
        self.kind = kind
        self.text = text
        self.type = type

    def __repr__(self) -> str:
        """Return the kind and what it is called."""
        return f"<Address {self.text}{': ' if self.type else ''}{self.type or ''}>"


_Where = Union[Index, Reg, Offset, int]
_ADDRESS_TYPES = ("i32", "i64", "u32", "u64")


def _place(where: _Where) -> str:
    if isinstance(where, Index):
        return "index"
    if isinstance(where, Reg):
        return where.name
    if isinstance(where, Offset):
        return f"{where.reg.name} {'-' if where.offset < 0 else '+'} {abs(where.offset)}"
    return str(operator.index(where))


def address(base: Union[Named, Shared], kind: str, where: _Where, type: Optional[str], word: str = "") -> Address:
    """Return an address; type is that of what lies there, where it is known, and word how it is counted."""
    reg = where.reg if isinstance(where, Offset) else where
    by_index = kind == "slot" and not word
    if isinstance(reg, Reg):
        fits = not isinstance(where, Offset) or kind != "data"
        if reg.owner is not base.owner:
            raise InvalidArgumentError(f"{base.name}[…]: {reg!r} is another builder's, {reg.owner!r}")
        if fits and reg.type not in _ADDRESS_TYPES:
            raise DTypeError(f"{base.name}[…]: {reg!r} is no address; expected one of {', '.join(_ADDRESS_TYPES)}")
    else:
        fits = by_index if isinstance(reg, Index) else hasattr(reg, "__index__")
    if not fits:
        kinds = ["builder.index"] * by_index + ["a register"] + ["register + number"] * (kind != "data")
        raise DTypeError(f"{base.name}[…]: an address is {where!r}; expected {', '.join(kinds)} or a number")
    return Address(base.owner, kind, f"{base.name}[{word}{_place(where)}]", type)


class Flat:
    """The elements of the view that a slot is bound to, row-major, as numpy's ``array.flat`` has them.

    ``slot.flat[reg]``, ``slot.flat[reg + 1]`` and ``slot.flat[3]`` are addresses; they follow the view's stride.
    """

    __slots__ = ("slot",)

    def __init__(self, slot: Slot) -> None:
        self.slot = slot

    def __repr__(self) -> str:
        """Return the slot's name and type."""
        return f"<Flat {self.slot.name}: {self.slot.type}>"

    def __getitem__(self, where: Union[Reg, Offset, int]) -> Address:
        """Return the address of an element, counted from 0."""
        slot = self.slot
        if not isinstance(where, (Reg, Offset)) and hasattr(where, "__index__") and operator.index(where) < 0:
            raise InvalidArgumentError(
                f"{slot.name}.flat[{operator.index(where)}]: elements are counted from 0, never from the end"
            )
        return address(slot, "slot", where, slot.type, "flat ")


class Slot(Named):
    """A slot: ``slot[builder.index]``, ``slot[reg]``, ``slot[reg + 16]`` and ``slot[16]`` are addresses.

    Numbers are bytes there; ``slot.flat[i]`` is the address of element i.
    """

    __slots__ = ()

    @property
    def flat(self) -> Flat:
        """The view's elements by their number, as in numpy: ``slot.flat[i]`` is an address."""
        return Flat(self)

    def __getitem__(self, where: _Where) -> Address:
        """Return an address in the slot; numbers are bytes."""
        # A slot of bytes holds any type where it is addressed by bytes.
        untyped = self.type == "u8" and not isinstance(where, Index)
        return address(self, "slot", where, None if untyped else self.type)


class Shared:
    """The block's shared memory."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: ProgramBuilder) -> None:
        self.owner = owner
        self.name = "shared"

    def __getitem__(self, where: _Where) -> Address:
        """Return an address in shared memory; numbers are bytes."""
        return address(self, "shared", where, None)


class Param(Named):
    """A launch parameter."""

    __slots__ = ()


class Data(Named):
    """A constant table; ``data[i]`` is its element, i a register or a number."""

    __slots__ = ()

    def __getitem__(self, where: _Where) -> Address:
        """Return an element."""
        return address(self, "data", where, self.type)


class Label:
    """A place in the program; ``builder.place(label)`` says where."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: ProgramBuilder, name: str) -> None:
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        """Return the kind and what it is called."""
        return f"<Label {self.name}>"


def checked(kind: str, name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", name):
        raise InvalidArgumentError(f"{kind}: {name!r} is not a name: letters, digits and _ . $, no digit first")
    return name


def is_number(value: Any) -> bool:
    """Whether a value is a real number of Python's or numpy's; a string that spells one is none."""
    if isinstance(value, np.generic):
        return hasattr(value, "__float__") and not isinstance(value, (np.complexfloating, np.flexible))
    return isinstance(value, (bool, int, float))


def number(what: str, value: Any, type: Optional[str]) -> str:
    """Return a number as the assembler reads it, exactly.

    Raises:
        DTypeError: It is none, or a fraction for an integer.
        InvalidArgumentError: It is out of the type's range.
    """
    if value.__class__ is float and type in _FIRST_BEYOND and abs(value) < _FIRST_BEYOND[type]:  # as most are
        return value.hex()
    if not is_number(value):
        raise DTypeError(f"{what} is {value!r}; expected a number ({type})")
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower() if type == "pred" else number(what, int(value), type)
    if isinstance(value, (int, np.integer)):
        exact = int(value)
        if type is not None and type in FLOATS:
            _in_range(what, exact, type)
            return f"{exact}.0"
        bits = 8 * _isa.TYPE_SIZES[type or "i64"]
        low, high = (0, (1 << bits) - 1) if (type or "").startswith("u") else (-1 << bits - 1, (1 << bits - 1) - 1)
        if not low <= exact <= high:
            raise InvalidArgumentError(f"{what} is {exact}; {type} goes from {low} to {high}")
        return str(exact)
    if type is None or type not in FLOATS:
        raise DTypeError(f"{what} is {value!r}; expected an integer ({type})")
    rounded = float(value)
    if math.isnan(rounded):
        return "nan"
    if math.isinf(rounded):
        return "inf" if rounded > 0 else "-inf"
    _in_range(what, rounded, type)
    return rounded.hex()


def beyond(value: Union[int, float], type: str) -> bool:
    """Whether a number that is finite rounds to an infinity of a float type, where that may be: no int does in f64.

    An int that no f64 holds is no number to numpy.
    """
    return _FIRST_BEYOND[type] <= abs(value) < _FIRST_BEYOND["f64"]


def _in_range(what: str, value: Union[int, float], type: str) -> None:
    if abs(value) >= _FIRST_BEYOND[type]:
        shown = (
            repr(value) if isinstance(value, float) or abs(value) < 1 << 128 else f"an int of {value.bit_length()} bits"
        )
        raise InvalidArgumentError(f"{what} is {shown}; {type} goes from -{_LARGEST[type]} to {_LARGEST[type]}")
