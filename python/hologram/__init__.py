"""Hologram runs numeric programs, written once in the Atlas ISA, on the CPU and on GPUs.

Open an ``Executor``, make ``Buffer``s on it or hand it numpy arrays, and run operations (``hologram.ops``) or programs
of your own (``Program``) on them. ``kernel`` makes a program of a Python function, which may use ``where``, ``exp`` and
the like, and ``hologram.range``, ``abs``, ``pow`` and ``round``, which ``from hologram import *`` leaves out.
"""

# ruff: noqa: F405 (the kernels' names come of their own __all__, and on first use)

from __future__ import annotations

from typing import TYPE_CHECKING

from hologram import backend, errors, ops
from hologram._ffi import abi_version, native
from hologram._version import __version__
from hologram.backend import (
    BackendType,
    get_default_backend,
    is_cuda_available,
    is_metal_available,
    num_threads,
    set_num_threads,
)
from hologram.buffer import Buffer
from hologram.errors import HologramError, ProgramFault
from hologram.executor import Executor
from hologram.program import Program

native.classes(Executor, Program, Buffer)

if TYPE_CHECKING:
    from hologram._kernel import *  # noqa: F403
    from hologram.builder import ProgramBuilder

__all__ = [
    "BackendType",
    "Buffer",
    "Executor",
    "HologramError",
    "Kernel",
    "Program",
    "ProgramBuilder",
    "ProgramFault",
    "__version__",
    "abi_version",
    "backend",
    "bitcast",
    "cast",
    "ceil",
    "clip",
    "clz",
    "cos",
    "ctz",
    "erf",
    "errors",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fma",
    "get_default_backend",
    "is_cuda_available",
    "is_metal_available",
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
    "num_threads",
    "ops",
    "popc",
    "relu",
    "rem",
    "rsqrt",
    "set_num_threads",
    "sigmoid",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "where",
]


# The names of kernels, and of what they compute with; see docs/KERNELS.md. Those that would hide Python's own are not
# part of ``from hologram import *``.
_KERNELS = frozenset(
    """Kernel kernel range abs bitcast cast ceil clip clz cos ctz erf exp exp2 expm1 floor fma isfinite isnan log log10
    log1p log2 maximum minimum mulhi popc pow relu rem round rsqrt sigmoid sin sqrt tan tanh trunc where""".split()
)


def __getattr__(name: str) -> object:
    """Import what few programs need on first use."""
    if name == "ProgramBuilder":
        from hologram.builder import ProgramBuilder

        return ProgramBuilder
    if name in _KERNELS:
        from hologram import _kernel

        found: object = getattr(_kernel, name)
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what there is, imported or not."""
    return sorted({*globals(), *__all__, *_KERNELS})
