"""hologram.kernel: Python functions of numbers become programs.

``call`` has what people call, ``arrays`` knows the arrays that they give it and ``annotations`` what parameters are
annotated with, ``outside`` what programs depend on beside them, ``source`` finds a function's source and ``lines`` the
line of it that an error is of, ``statements`` runs it on the values of ``values``, with the ``variables`` and ``loops``
of control flow. ``operators``, ``comparisons`` and ``functions`` compute with values, by what ``making`` has for all of
them, and ``integers`` with Python's integers that all lanes have. ``ir`` makes the program's text of what they did.
What is here is what hologram offers of it.
"""

from __future__ import annotations

from hologram._kernel.call import Kernel, kernel
from hologram._kernel.comparisons import maximum, minimum
from hologram._kernel.functions import (
    abs,
    bitcast,
    ceil,
    clip,
    clz,
    cos,
    ctz,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    isfinite,
    isnan,
    log,
    log1p,
    log2,
    log10,
    mulhi,
    popc,
    pow,
    relu,
    rem,
    round,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tan,
    tanh,
    trunc,
    where,
)
from hologram._kernel.functions import cast_ as cast
from hologram._kernel.loops import range_ as range

__all__ = [
    "Kernel",
    "abs",
    "bitcast",
    "cast",
    "ceil",
    "clip",
    "clz",
    "cos",
    "ctz",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fma",
    "isfinite",
    "isnan",
    "kernel",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "mulhi",
    "popc",
    "pow",
    "range",
    "relu",
    "rem",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "where",
]
