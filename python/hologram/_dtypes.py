"""The element types: their codes in the C ABI, their names in Atlas, and numpy's dtypes."""

from __future__ import annotations

import math
import struct
import sys
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from hologram._arguments import shown
from hologram._ffi import hooks
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

NAMES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")
"""The Atlas names; a type's code is its place here, from 1 on."""

I64, U64, F64 = 4, 8, 12

NUMPY_NAMES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)

_codes: dict[Any, int] = {np.dtype(name): i + 1 for i, name in enumerate(NUMPY_NAMES) if name != "bfloat16"}
_codes[np.dtype(bool)] = NAMES.index("u8") + 1
_dtypes: dict[int, np.dtype[Any]] = {i + 1: np.dtype(name) for i, name in enumerate(NUMPY_NAMES) if name != "bfloat16"}

_known: dict[Any, tuple[np.dtype[Any], int, bool]] = {}
hooks["dtypes"] = _known
"""What C looks up: (dtype, code, whether it is bool) of numpy's dtypes and scalar types and of names."""


def _know(dtype: np.dtype[Any], code: int, *names: str) -> None:
    for key in (dtype, dtype.type, *names):
        _known[key] = (dtype, code, dtype.name == "bool")


for _code, _dtype in _dtypes.items():
    _know(_dtype, _code, NAMES[_code - 1], NUMPY_NAMES[_code - 1])
_know(np.dtype(bool), NAMES.index("u8") + 1, "bool")
_known[None] = _known[np.float32]  # what is meant where none is given


def bfloat16() -> np.dtype[Any]:
    """Return ml_dtypes' bfloat16 as a numpy dtype.

    Raises:
        DTypeError: ml_dtypes is not installed.
    """
    try:
        import ml_dtypes
    except ImportError:
        raise DTypeError("dtype bfloat16 needs the Python package ml_dtypes: pip install ml_dtypes") from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    _codes[found] = NAMES.index("bf16") + 1
    _dtypes[_codes[found]] = found
    _know(found, _codes[found], "bf16", "bfloat16")
    return found


def dtype_of(like: Union[DTypeLike, str]) -> np.dtype[Any]:
    """Return the numpy dtype of a dtype, a Python or numpy type, or a name, Atlas names such as "f32" included.

    Raises:
        DTypeError: It is none that Hologram knows.
    """
    if isinstance(like, str):
        if like in NAMES:
            return dtype_of_code(NAMES.index(like) + 1)
        if like == "bfloat16":
            return bfloat16()
    try:
        dtype = np.dtype(like)
    except TypeError:
        raise DTypeError(f"dtype {like!r} is not one; expected a numpy dtype or one of {', '.join(NAMES)}") from None
    code_of(dtype)
    return dtype


def code_of(dtype: np.dtype[Any]) -> int:
    """Return the C ABI's code of a numpy dtype; bool counts as u8.

    Raises:
        DTypeError: Hologram has no such type.
    """
    code = _codes.get(dtype)
    if code is not None and dtype.isnative:
        return code
    if dtype.name == "bfloat16":
        bfloat16()
        code = _codes.get(dtype)
        if code is not None:
            return code
    hint = "" if dtype.isnative else " (its byte order is not the machine's)"
    raise DTypeError(f"dtype {dtype} is not supported{hint}; supported: {', '.join(NUMPY_NAMES)} and bool")


def dtype_of_code(code: int) -> np.dtype[Any]:
    """Return the numpy dtype of a code of the C ABI.

    Raises:
        DTypeError: It is bfloat16, and ml_dtypes is not installed.
    """
    found = _dtypes.get(code)
    return bfloat16() if found is None else found


def refuse_mask(what: str, array: object) -> None:
    """Refuse a masked array, whose mask would be lost.

    Raises:
        DTypeError: It is one.
    """
    # numpy imports it on first use, which takes 10 ms; before that nothing is a masked array.
    masked = getattr(sys.modules.get("numpy.ma.core"), "MaskedArray", None)
    if masked is not None and isinstance(array, masked):
        raise DTypeError(f"{what}: a masked array's mask would be ignored; give array.filled(value) or array.data")


def odd(value: int) -> float:
    """Return an int of more than 53 bits as a float that rounds to a narrower one as the int does, and so once.

    Raises:
        OverflowError: It is too large.
    """
    low = value.bit_length() - 53
    top = abs(value) >> low
    top |= top << low != abs(value)  # what is cut off shows in the last bit, which decides no tie
    return math.copysign(math.ldexp(top, low), value)


def scalar_bits(value: Any, what: str, code: Optional[int] = None) -> tuple[int, int]:
    """Return a number as the pair (code, bits) of the C ABI.

    Args:
        value: A bool, an int, a float, or a numpy scalar or array of one element.
        what: What errors call it.
        code: The type that is wanted, where it is known.

    Raises:
        DTypeError: It is not a number.
        ValueError: It is an integer beyond 64 bits, and the type not one of floats; or beyond all floats.
    """
    given, item = value, getattr(value, "item", None)
    if item is not None and getattr(value, "size", 1) == 1:
        value = item()
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return I64, value & 0xFFFFFFFFFFFFFFFF
        if 0 <= value < 1 << 64:
            return U64, value
        if code is None or NAMES[code - 1] not in ("f16", "bf16", "f32", "f64"):
            raise InvalidArgumentError(f"{what} is {shown(value)}, which has more than 64 bits")
        try:
            value = float(value) if NAMES[code - 1] == "f64" else odd(value)
        except OverflowError:
            raise InvalidArgumentError(
                f"{what} is an int of {value.bit_length()} bits, too large for a float"
            ) from None
    if not isinstance(value, float):
        try:
            value = float(value) if hasattr(type(value), "__float__") and not isinstance(value, np.ndarray) else None
        except (TypeError, ValueError):
            value = None
        if value is None:
            wanted = f" ({NAMES[code - 1]})" if code else ""
            raise DTypeError(f"{what}: expected a number{wanted}, got {shown(given)}")
    return F64, int.from_bytes(struct.pack("<d", value), "little")
