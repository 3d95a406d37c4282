"""What to write instead, for errors of operations: conversions, broadcasting where none is done, others' keywords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from hologram import _results
from hologram._arguments import meant
from hologram._dtypes import NAMES, code_of, dtype_of_code
from hologram.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hologram._signatures import Function

__all__ = ["conversion", "keyword", "one_shape"]

_APART = re.compile(r": (\w+) has dtype (\w+), and (\w+) has (\w+): all operands must have the same$")
_PRODUCT = re.compile(
    r": (\w+) has dtype \w+, and (\w+) has (\w+): of integers a product's type is the same or a wider"
)
_KIND = re.compile(r": (\w+) has dtype \w+; expected (i64|bool, or u8)$")
_FRACTION = re.compile(r": \w+: expected [iu]\d+, got \S+$")
_UNSUPPORTED = re.compile(r": dtype (\w+) is not supported; supported: ([\w ]+)$")


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(bool) if name == "bool" else dtype_of_code(NAMES.index(name) + 1)


def _converted(name: str, value: Any, dtype: np.dtype[Any]) -> str:
    """Return what converts an argument: its own method, or hologram's function where it has none."""
    if _results.dtype_of_tensor(value) is not None:
        return f"{name}.to(torch.{dtype.name})"
    written = f"np.{dtype.name}" if hasattr(np, dtype.name) else repr(dtype.name)
    written = "bool" if dtype.kind == "b" else written
    return f"hologram.cast({name}, {written})" if isinstance(value, Buffer) else f"{name}.astype({written})"


def _promoted(a: str, b: str) -> Optional[np.dtype[Any]]:
    try:
        return np.promote_types(_dtype(a), _dtype(b))
    except TypeError:  # bf16 and f16 have no common type
        return None


def _plain(name: str, number: Any, array: str, values: Mapping[str, Any], dtype: np.dtype[Any]) -> str:
    """Return what makes a number of numpy's one of Python's, which has the dtype of the array beside it.

    An array of integers takes no floats: it is converted, as numpy does it.
    """
    order = {"b": 0, "i": 1, "u": 1}  # else it is a float, which numpy need not know
    kind = order.get(number.dtype.kind, 2)
    written = f"{('bool', 'int', 'float')[kind]}({name})"
    if order.get(dtype.kind, 2) < kind:
        written = f"{_converted(array, values.get(array), np.promote_types(dtype, number.dtype))} and {written}"
    return written


def _wider(short: np.dtype[Any], *others: str) -> str:
    """Return the integer types to which products of a short one may go."""
    longer = [f"int{bits}" for bits in (32, 64) if bits > 8 * short.itemsize]
    return " or ".join([*others, *longer]) or short.name


def keyword(f: Function, name: str) -> str:
    """Return what an error adds of a keyword that an operation has not: what is written here instead."""
    names = [p.name for p in f.parameters] + ["out", "stream"]
    if name != "dtype":
        return meant(name, names)
    text = "; it computes in the arrays' dtype: convert them, as by a.astype(…)"
    if f.wider:
        what = {"sum": "sums", "wider": "products of integers"}[f.wider]
        text += f", or for {what} in a wider one give out= of that, such as numpy.empty(shape, numpy.int32)"
    return text


def conversion(f: Function, text: str, values: Mapping[str, Any]) -> str:
    """Return an error's text with what converts operands of several dtypes, or of one that the operation has not.

    The types are those that numpy would compute in, and the shorter one of two of a kind.

    Args:
        f: The function that was called.
        text: What the library says.
        values: What its operands were given, by name.
    """
    found = _PRODUCT.search(text)
    if found:
        return f"{text}; give {found[1]} as an array of {_wider(_dtype(found[3]), _dtype(found[3]).name)}"
    found = _APART.search(text)
    if found:
        name, of, other, wanted = found.groups()
        if name == f.parameters[-1].name or name in [p.name for p in f.parameters if p.kind in "wvo"]:
            return f"{text}; give {name} as an array of {_dtype(wanted).name}"
        both = _promoted(of, wanted)
        number = next(((n, d) for n, d in ((name, wanted), (other, of)) if isinstance(values.get(n), np.generic)), None)
        if number is not None and f.numbers and both is not None:
            n, beside = number[0], _dtype(number[1])
            return f"{text}; write {_plain(n, values[n], name if n == other else other, values, beside)}"
        ways = []
        if both is not None:
            ways.append(
                [_converted(n, values.get(n), both) for n, d in ((other, wanted), (name, of)) if _dtype(d) != both]
            )
        for n, d, to in ((name, of, wanted), (other, wanted, of)):
            if _dtype(d).kind == _dtype(to).kind == "f" and _dtype(d).itemsize > _dtype(to).itemsize:
                ways.append([_converted(n, values.get(n), _dtype(to))])
        text += "".join(f"{', or' if i else '; write'} {' and '.join(way)}" for i, way in enumerate(ways))
        if f.wider == "wider" and _dtype(of).kind in "iu" and _dtype(wanted).kind in "iu":
            short = min(_dtype(of), _dtype(wanted), key=lambda d: d.itemsize)
            text += f"; the product of two of {short.name} may go to an out= of {_wider(short)}"
        return text
    found = _KIND.search(text)
    if found and found[1] != f.parameters[-1].name:
        wanted = np.dtype(np.int64 if found[2] == "i64" else bool)
        if found[1] in [p.name for p in f.parameters if p.kind in "wvo"]:
            return f"{text}; give {found[1]} as an array of {wanted.name}, or leave it out"
        return f"{text}; write {_converted(found[1], values.get(found[1]), wanted)}"
    first = f.parameters[1].name
    if _FRACTION.search(text) and first in values:
        return f"{text}; write {_converted(first, values[first], np.dtype(np.float64))}"
    found = _UNSUPPORTED.search(text)
    if found and "f16" in found[2].split():
        reads = [p.name for p in f.parameters if p.kind == "r" and p.name not in f.masks | f.indices]
        # Of unsigned integers the signed type that holds them, where the operation takes that.
        both = _promoted(found[1], "i8") if found[1][0] == "u" else None
        if both is None or both.kind == "f" or NAMES[code_of(both) - 1] not in found[2].split():
            both = _promoted(found[1], "f16")
        if reads and both is not None:
            text += f"; write {_converted(reads[0], values.get(reads[0]), both)}"
            if f.indices:
                inputs = [p.name for p in f.parameters if p.kind == "r"]
                text += f", or is the order another? It is {', '.join(inputs)}"
    return text


def one_shape(shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return what an error of arrays that have too few elements says to write, if it is known."""
    try:
        full = np.broadcast_shapes(*shapes.values())
    except ValueError:
        full = None
    whole = next((name for name, shape in shapes.items() if shape == full), None)
    if whole is not None:
        others = [name for name, shape in shapes.items() if shape != full]
        ways = " and ".join(f"np.broadcast_to({name}, {whole}.shape)" for name in others)
        return f"; what is summed up is not broadcast: write {ways}"
    return "; n takes the first of each" if all(len(shape) == 1 for shape in shapes.values()) else ""
