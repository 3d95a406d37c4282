"""What annotations say of a kernel's parameters: that they are numbers, and of which type."""

from __future__ import annotations

import re
from typing import Any, Optional

import numpy as np

from hologram._dtypes import NAMES, code_of, dtype_of
from hologram.errors import DTypeError, InvalidArgumentError

__all__ = ["number_type"]

_PYTHON = {"bool": bool, "int": int, "float": float}
_LIKE_A_DTYPE = re.compile(r"(?:bf|f|i|u|bfloat|float|int|uint)\d+")


def number_type(what: str, annotation: Any, function: Any) -> Optional[str]:
    """Return the type that an annotation gives a number, or None if it doesn't say that the parameter is one.

    Args:
        what: What errors call the parameter.
        annotation: The annotation, a string where the module has them so.
        function: The function.

    Returns:
        "bool", "int" or "float" for a weak number, or an Atlas type.

    Raises:
        InvalidArgumentError: It is spelled as a dtype is, and there is no such dtype.
    """
    if isinstance(annotation, str):
        annotation = annotation.strip("'\"")  # a string in a module whose annotations are strings
        annotation = _PYTHON.get(annotation, annotation)
    if annotation in (bool, int, float):
        return str(annotation.__name__)
    if isinstance(annotation, str):
        name = re.sub(r"^(?:np|numpy)\.", "", annotation)
        if _LIKE_A_DTYPE.fullmatch(name) and annotation not in getattr(function, "__globals__", {}):
            try:
                return NAMES[code_of(dtype_of(name)) - 1]
            except DTypeError:
                raise InvalidArgumentError(
                    f"{what} is annotated {annotation!r}, which is no dtype; expected float, int, bool, one of "
                    f"{', '.join(NAMES)}, or a numpy type"
                ) from None
        if name != annotation:
            annotation = getattr(np, name, None)
    if isinstance(annotation, np.dtype) or (isinstance(annotation, type) and issubclass(annotation, np.generic)):
        return NAMES[code_of(dtype_of(annotation)) - 1]
    return None
