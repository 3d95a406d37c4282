"""What a Buffer answers to what numpy's arrays can and it cannot: an error that says what can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NoReturn

import numpy as np

# By the names of Python's methods: what the operator looks like, and what numpy or torch call its function.
_BINARY = {
    "add": ("+", "add"),
    "sub": ("-", "subtract"),
    "mul": ("*", "multiply"),
    "truediv": ("/", "div"),
    "floordiv": ("//", ""),
    "mod": ("%", ""),
    "divmod": ("divmod()", ""),
    "pow": ("**", "pow"),
    "matmul": ("@", "matmul"),
    "and": ("&", ""),
    "or": ("|", ""),
    "xor": ("^", ""),
    "lshift": ("<<", ""),
    "rshift": (">>", ""),
}
_ORDER = {"lt": ("<", "less"), "le": ("<=", "less_equal"), "gt": (">", "greater"), "ge": (">=", "greater_equal")}
_EQUAL = {"eq": ("==", "equal"), "ne": ("!=", "not_equal")}
_UNARY = {"neg": ("-", "negative"), "pos": ("+", ""), "abs": ("abs()", "absolute"), "invert": ("~", "")}

_OWN = {"data": "memoryview()", "flatten": "to_numpy()", "reshape": "view(shape)", "tobytes": "to_bytes()"}
_COPIES = {"cpu", "get", "numpy"}  # torch's and CuPy's names for a copy on the host
_FUNCTIONS = {"pow": "hologram.pow"}


def _instead(buffer: Any, name: str) -> str:
    """Return what to use for what numpy calls by a name."""
    from hologram import ops

    found = "its to_numpy() is a copy as an array of numpy's"
    if buffer.host_visible:
        found = "numpy.asarray(buffer) sees its memory in place as an array"
    takes = ops.called(name) if name else None  # type: ignore[attr-defined]  # its stubs are of operations alone
    if takes is not None or name in _FUNCTIONS:
        names = [_FUNCTIONS[name]] if takes is None else [f"hologram.ops.{each}" for each in takes.split(" or ")]
        return f"{' or '.join(names)} takes it, or {found}"
    if name in _OWN:
        return f"it has {_OWN[name]}, or {found}"
    return found


class UnlikeArrays:
    """Refuses items, iteration, operators and attributes of numpy's arrays; type checkers never see that they exist.

    An operator between a Buffer and what has it reflected, as numpy's arrays do, is left to that.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getitem__(self, key: Any) -> NoReturn:
            """Say how to reach elements."""
            raise TypeError(
                f"a Buffer has no items by []; {_instead(self, '')}; torch takes that as an index, and no Buffer"
            )

        def __setitem__(self, key: Any, value: Any) -> NoReturn:
            """Say how to write elements."""
            raise TypeError(f"a Buffer has no items by []; {_instead(self, '')}; fill and from_numpy write all")

        def __iter__(self) -> NoReturn:
            """Say how to reach elements."""
            raise TypeError(f"a Buffer is not iterable; {_instead(self, '')}")

        def __contains__(self, value: Any) -> NoReturn:
            """Say how to reach elements."""
            self.__iter__()

        def __getattr__(self, name: str) -> NoReturn:
            """Say what there is for what numpy's arrays have; Python comes here for what a Buffer has not."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _COPIES:
                text += "; its to_numpy() is a copy as an array of numpy's"
            elif not name.startswith("_") and hasattr(np.ndarray, name):
                text += f"; {_instead(self, name)}"
            raise AttributeError(text)


def _reflects(kind: type, method: str) -> bool:
    """Whether a type has a method of its own; all have comparisons, most of object, and type's are not its own."""
    found = next((vars(base)[method] for base in kind.__mro__ if method in vars(base)), None)
    return found is not None and found is not vars(object).get(method)


def _refusal(sign: str, name: str, reflected: str) -> Callable[..., Any]:
    def refuse(self: Any, other: Any = None, modulus: Any = None) -> Any:
        # None too: where Python 3.12 is, it has comparisons of its own, which know nothing.
        number = isinstance(other, (bool, int, float, complex, type(None))) and not isinstance(other, np.generic)
        if reflected and not number and not isinstance(other, UnlikeArrays) and _reflects(type(other), reflected):
            return NotImplemented
        raise TypeError(f"a Buffer has no operator {sign}; {_instead(self, name)}")

    return refuse


_MIRROR = {"lt": "__gt__", "le": "__ge__", "gt": "__lt__", "ge": "__le__"}
for _method, _what in {**_BINARY, **_ORDER, **_UNARY}.items():
    _other = "" if _method in _UNARY else _MIRROR.get(_method, f"__r{_method}__")
    setattr(UnlikeArrays, f"__{_method}__", _refusal(*_what, _other))
    if _method in _BINARY:  # the other one was asked before
        setattr(UnlikeArrays, f"__r{_method}__", _refusal(*_what, ""))


def _equality(method: str) -> Callable[..., Any]:
    sign, name = _EQUAL[method]

    def refuse(self: Any, other: Any) -> Any:
        if other is self:  # as keys of weak dictionaries are asked
            return method == "eq"
        number = isinstance(other, (bool, int, float, complex)) and not isinstance(other, np.generic)
        if number or isinstance(other, UnlikeArrays):
            raise TypeError(
                f"a Buffer has no operator {sign}; {_instead(self, name)}; `is` tells whether two are one buffer"
            )
        return NotImplemented

    return refuse


for _method in _EQUAL:
    setattr(UnlikeArrays, f"__{_method}__", _equality(_method))
UnlikeArrays.__hash__ = object.__hash__  # type: ignore[method-assign]
