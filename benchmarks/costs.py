"""What an operation does for each element: the bytes that it moves, and how many operations its program has.

The operations are counted in the program as backends have it, with the expansions of functions in place: exp is some
twenty, and a fused multiplication and addition two.
"""

from __future__ import annotations

import functools
import re

import hologram as hg

SIZE = {"i8": 1, "i16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}

# By operation: what its program does with the elements x, y and w; arrays read; and written, of the type or "mask".
ELEMENT: dict[str, tuple[str, int, int | str]] = {
    "copy": ("", 1, 1),
    "fill": ("", 0, 1),
    "vector_abs": ("abs z, x", 1, 1),
    "vector_neg": ("neg z, x", 1, 1),
    "relu": ("max z, x, 0", 1, 1),
    "vector_sqrt": ("sqrt z, x", 1, 1),
    "vector_exp": ("exp z, x", 1, 1),
    "vector_log": ("log z, x", 1, 1),
    "sigmoid": ("sigmoid z, x", 1, 1),
    "tanh": ("tanh z, x", 1, 1),
    "gelu": ("mul s, x, x; fma w, s, x, x; mul w, w, s; sigmoid z, w; mul z, z, x", 1, 1),
    **{name: (f"{name} z, x", 1, 1) for name in "sin cos tan log2 log10 log1p exp2 expm1 erf rsqrt".split()},
    "pow": ("pow z, x, y", 2, 1),
    "vector_add": ("add z, x, y", 2, 1),
    "vector_sub": ("sub z, x, y", 2, 1),
    "vector_mul": ("mul z, x, y", 2, 1),
    "vector_div": ("div z, x, y", 2, 1),
    "vector_div by 3": ("div z, x, y", 1, 1),
    "gemm of 3×3": ("mul z, x, y; fma z, x, y, z; fma z, x, y, z", 2, 1),
    "gemm of 4×4": ("mul z, x, y; fma z, x, y, z; fma z, x, y, z; fma z, x, y, z", 2, 1),
    "vector_min": ("min z, x, y", 2, 1),
    "vector_max": ("max z, x, y", 2, 1),
    "vector_equal": ("max z, x, y", 2, "mask"),  # a comparison
    "vector_less": ("max z, x, y", 2, "mask"),
    "where": ("max z, x, y", 2, 1),
    "vector_clip": ("max z, x, y; min z, z, w", 1, 1),
    "scalar_add": ("add z, x, y", 1, 1),
    "scalar_mul": ("mul z, x, y", 1, 1),
    "vector_mad": ("mul z, x, y; add z, z, w", 3, 1),
    "reduce_sum": ("add z, x, y", 1, 0),
    "reduce_max": ("max z, x, y", 1, 0),
    "reduce_min": ("min z, x, y", 1, 0),
    "argmax": ("max z, x, y; min z, z, w", 1, 0),
    "softmax": ("max z, x, y; sub z, z, w; exp z, z; add z, z, y; div z, z, y", 1, 1),
    "cumsum": ("add z, x, y", 1, 1),
}
COUNTED = {"add", "sub", "mul", "div", "sqrt", "min", "max", "abs", "neg", "rem", "floor", "round", "trunc", "ceil"}


@functools.cache
def operations(name: str, dtype: str) -> int:
    """How many operations an element takes, by the program's expanded form."""
    lines = [f"slot {s} {dtype}" for s in "abco"] + [f"ldg.{dtype} {x}, {s}[index]" for x, s in zip("xyw", "abc")]
    steps = [step.strip().split(" ", 1) for step in ELEMENT[name][0].split(";") if step]
    if not steps:
        return 0
    lines += [f"{op}.{dtype} {rest}" for op, rest in steps] + [f"stg.{dtype} z, o[index]", "exit"]
    # Also types with 16 bits are counted where they are computed, which is f32.
    text = hg.Program("\n".join(["program p", *lines])).stage("expanded", "avx2")
    found = re.findall(r"= (\w+)\.", text)
    return sum(2 if op in ("fma", "mad") else op in COUNTED for op in found)


def moved(name: str, dtype: str) -> int:
    """The bytes that an element has in the arrays that are read and written."""
    _, read, written = ELEMENT[name]
    size = SIZE[dtype]
    return read * size + (1 if written == "mask" else int(written) * size) + (name == "where")


def elements(shape: str) -> int:
    """The elements of a record's point, by its shape: "1,024", or "64 × 128, axis 1"."""
    n = 1
    for part in re.sub(r", axis.*", "", shape).split(" × "):
        n *= int(part.replace(",", ""))
    return n
