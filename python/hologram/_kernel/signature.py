"""What kernels are called with: the parameters of a function, what a program depends on of an argument, and names."""

from __future__ import annotations

import functools
import inspect
import re
import types
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np

from hologram._built import is_number
from hologram._dtypes import NAMES, code_of
from hologram._kernel.annotations import number_type
from hologram._kernel.arrays import dtype_of_tensor, is_array
from hologram._kernel.making import unknown
from hologram._kernel.outside import exact
from hologram._kernel.promotion import PRED, kind_of
from hologram._kernel.values import Trace
from hologram.buffer import Buffer
from hologram.errors import DTypeError, InvalidArgumentError
from hologram.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["BOOL", "RESERVED", "Kind", "Signature", "argument", "atlas_names"]

RESERVED = {"boundary", "false", "inf", "index", "nan", "phi", "shared", "true"}  # what Atlas can't name a slot
BOOL = np.dtype(bool)
_STATIC = "; name it in static= to have it as it is"
_PYTHON = {bool: PRED, int: "i64", float: "f64"}


class Kind(NamedTuple):
    """What a program depends on of an argument."""

    role: str  # "array", "number" (weak), "typed" (a number with a dtype), "static"
    type: str  # the Atlas type, "pred" for bools
    value: object = None  # of a static argument


class Signature:
    """The parameters of a kernel's function.

    Attributes:
        name: The kernel's, for messages.
        python: The function's signature.
        parameters: Its parameters by name.
        names: Their names, in order.
        static: The names of those whose values the function gets as they are.
        annotated: The types of those that are annotated as numbers. What is called name[i] of a variadic one's joins
            these when it is met.
        positional: Whether all can be given by position, and none is variadic.
    """

    def __init__(self, name: str, function: Callable[..., Any], static: Iterable[str]) -> None:
        self.name = name
        self._offered = getattr(function, "__module__", "") == "hologram"  # by the library, whose static is nobody's
        self.python = inspect.signature(function)
        self.parameters = self.python.parameters
        self.names = list(self.parameters)
        self.static = frozenset([static] if isinstance(static, str) else static)
        self.annotated: dict[str, str] = {}
        for given, parameter in self.parameters.items():
            if given in ("out", "executor") or parameter.kind is parameter.VAR_KEYWORD:
                # Functions of numpy's, and functools.partial of the library's, have an out of their own.
                hint = "" if isinstance(function, types.FunctionType) else "; make one of lambda x: f(x), f being this"
                raise InvalidArgumentError(f"kernel {name}: it can't have a parameter {parameter}{hint}")
            annotated = number_type(f"kernel {name}: {given}", parameter.annotation, function)
            if annotated is not None:
                self.annotated[given] = annotated
        for given in self.static:
            if given not in self.parameters:
                raise InvalidArgumentError(f"kernel {name}: static names {given!r}, which is no parameter")
        self.positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in self.parameters.values())
        self._named = {n for n, p in self.parameters.items() if p.kind is not p.POSITIONAL_ONLY}
        self._defaults = {n: p.default for n, p in self.parameters.items() if p.default is not p.empty}

    def __str__(self) -> str:
        """Return it as Python shows it."""
        return str(self.python)

    def placed(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> Optional[list[Any]]:
        """Return a call's arguments by place, defaults included; None where they are wrong, or may be variadic."""
        if not self.positional or len(arguments) > len(self.names):
            return None
        values, left = list(arguments), len(keywords)
        for name in self.names[len(arguments) :]:
            if name in keywords and name in self._named:
                values.append(keywords[name])
                left -= 1
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                return None
        return None if left else values

    def flat(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[str], list[Any]]:
        """Return names and values of a call's arguments, defaults included and *arguments one by one."""
        placed = self.placed(arguments, keywords)
        if placed is not None:
            return self.names, placed
        for name in keywords:
            if name not in self.parameters:
                raise DTypeError(f"{self.name}: {unknown(name, self.python)}")
        try:
            bound = self.python.bind(*arguments, **keywords)
        except TypeError as error:
            hint = ""
            if next(iter(self.parameters), "") in ("self", "cls"):
                hint = "; a kernel isn't bound to an object: make it a staticmethod, without self"
            elif any(isinstance(value, Executor) for value in arguments):
                hint = "; an executor is given as executor="
            elif len(arguments) > len(self.parameters) and is_array(arguments[len(self.parameters)]):
                hint = "; an array for the result is given as out="
            raise DTypeError(f"{self.name}: {error}; it is called as {self.name}{self.python}{hint}") from None
        bound.apply_defaults()
        names: list[str] = []
        values: list[Any] = []
        for name, value in bound.arguments.items():
            if self.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                each = [f"{name}[{i}]" for i in range(len(value))]  # which no parameter is called
                if name in self.static:
                    self.static = self.static.union(each)
                if name in self.annotated:
                    self.annotated.update(dict.fromkeys(each, self.annotated[name]))
                names.extend(each)
                values.extend(value)
            else:
                names.append(name)
                values.append(value)
        return names, values

    def kind(self, name: str, value: Any) -> Kind:
        """Return what a program depends on of an argument's value."""
        if name in self.static:
            try:
                hash(value)
            except TypeError:
                raise DTypeError(
                    f"{self.name}: {name} is static, and {type(value).__name__} has no hash, by which programs are kept"
                    + ("; give a tuple" if isinstance(value, (list, np.ndarray)) else "")
                ) from None
            return Kind("static", "", exact(value))
        annotated = self.annotated.get(name)
        try:
            if annotated is not None:
                return self._annotated_kind(name, annotated, value)
            if type(value) is np.ndarray or isinstance(value, (np.ndarray, Buffer)):
                return _array(value.dtype)
            found = _PYTHON.get(type(value))
            if found is not None:
                return Kind("number", found)
            if is_number(value):
                if isinstance(value, np.generic):
                    return Kind("typed", _array(value.dtype).type)
                return Kind(
                    "number", _PYTHON[bool if isinstance(value, bool) else int if isinstance(value, int) else float]
                )
            if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
                return _array(np.dtype(value))
            dtype = dtype_of_tensor(value)
            if dtype is not None:
                return _array(dtype)
        except DTypeError as error:
            raise DTypeError(f"{self.name}: {name}: {error}") from None
        hint = "; np.array makes one of it" if isinstance(value, (list, tuple)) else ""
        if isinstance(value, (str, type(None))) and self._has_default(name):
            hint = _STATIC
        elif callable(value) and not self._offered:
            hint = _STATIC
        raise DTypeError(
            f"{self.name}: {name} is a {type(value).__name__}; expected a Buffer, a numpy array, an object with "
            f"DLPack or __cuda_array_interface__, or a number{hint}"
        )

    def _has_default(self, name: str) -> bool:
        parameter = self.parameters.get(name)
        return parameter is not None and parameter.default is not parameter.empty

    def _annotated_kind(self, name: str, annotated: str, value: Any) -> Kind:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if not is_number(value):
            raise DTypeError(f"it is a {type(value).__name__}; expected a number ({annotated}), as annotated")
        if annotated in NAMES:
            return Kind("typed", annotated)
        kind = {"bool": 0, "int": 1, "float": 2}[annotated]
        given = (
            kind_of(_array(value.dtype).type)
            if isinstance(value, np.generic)
            else kind_of(_PYTHON.get(type(value), "f64"))
        )
        if given > kind:
            raise DTypeError(f"it is {value!r}; expected a number ({annotated}), as annotated")
        return Kind("number", (PRED, "i64", "f64")[kind])


def argument(trace: Trace, name: str, kind: Kind, value: object, place: int) -> Any:
    if kind.role == "static":
        return value
    if kind.role == "array":
        return trace.slot(name, "u8" if kind.type == PRED else kind.type, kind.type == PRED)
    return trace.param(name, kind.type, kind.role == "number", place)


def atlas_names(names: list[str]) -> list[str]:
    """Return names that slots and parameters can have."""
    found: list[str] = []
    for i, name in enumerate(names):
        name = re.sub(r"\[(\d+)\]$", r"\1", name)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or len(name) > 200:
            name = f"arg{i}"
        while name in RESERVED or name in found:
            name += "_"
        found.append(name)
    return found


@functools.cache
def _array(dtype: np.dtype[Any]) -> Kind:
    return Kind("array", PRED if dtype == BOOL else NAMES[code_of(dtype) - 1])
