"""What to use for a name that the package has not: ours, or what numpy, numba, numexpr and CuPy call otherwise."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence

import numpy as np

from hologram import ops

__all__ = ["hint"]

# What makes arrays elsewhere, and the types of their elements.
_MAKERS = """arange array as_tensor asarray empty empty_like eye from_dlpack from_numpy full full_like linspace ones
ones_like rand randn tensor zeros zeros_like""".split()
_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16".split()

# What makes functions of arrays elsewhere.
_COMPILERS = """ElementwiseKernel RawKernel compile elementwise evaluate fuse guvectorize jit njit vectorize""".split()

# What is written otherwise.
_WRITTEN = {
    "bitwise_and": "hologram.kernel(lambda a, b: a & b)",
    "bitwise_left_shift": "hologram.kernel(lambda a, b: a << b)",
    "bitwise_or": "hologram.kernel(lambda a, b: a | b)",
    "bitwise_right_shift": "hologram.kernel(lambda a, b: a >> b)",
    "bitwise_xor": "hologram.kernel(lambda a, b: a ^ b)",
    "divmod": "hologram.kernel(divmod)",
    "fabs": "hologram.abs",
    "hypot": "hologram.kernel(lambda x, y: hologram.sqrt(x * x + y * y)), which overflows sooner",
    "invert": "hologram.kernel(lambda x: ~x)",
    "isinf": "hologram.kernel(lambda x: abs(x) == math.inf)",
    "left_shift": "hologram.kernel(lambda a, b: a << b)",
    "power": "hologram.pow",
    "right_shift": "hologram.kernel(lambda a, b: a >> b)",
    "rint": "hologram.round",
    "sign": "hologram.kernel(lambda x: hologram.where(x > 0, 1, hologram.where(x < 0, -1, x)))",
    "square": "hologram.kernel(lambda x: x * x)",
}


def hint(name: str, names: Sequence[str]) -> str:
    """Return what an error adds of a name that the package has not.

    A function of numpy's that is not here is not taken for one of ours with a similar name: sinh is no misspelled sin.

    Args:
        name: What was asked for.
        names: What there is.
    """
    if name in _MAKERS:
        of = "allocate(shape, dtype)" if name.startswith(("empty", "zeros")) else "from_numpy(array)"
        return (
            f"; operations take arrays of numpy's and torch's as they are, and hologram.Executor().{of} makes a Buffer"
        )
    if name in _TYPES:
        return f"; dtypes are numpy's: numpy.{name}" if name != "bfloat16" else '; a dtype is named: "bfloat16"'
    if name in _COMPILERS:
        return "; hologram.kernel makes a program of a function of numbers, and hologram.Program of Atlas text"
    operation = ops.called(name)  # type: ignore[attr-defined]  # its stubs are of operations alone
    if operation:
        return f"; for arrays there is hologram.ops.{operation}"
    if name in _WRITTEN:
        return f"; here it is {_WRITTEN[name]}"
    instead = ops._INSTEAD.get(name)  # type: ignore[attr-defined]
    if instead:
        return f"; of arrays, with hologram.ops: {instead}"
    known = getattr(math, name, getattr(np, name, None))
    if isinstance(known, float):
        return f"; numbers are Python's: math.{name}"
    if callable(known):
        return "; dir(hologram) lists what there is, and hologram.kernel makes more of functions of numbers"
    near = [each for each in names if name == f"get_{each}"] or difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""
