"""Hologram runs numeric programs, written once in the Atlas ISA, on the CPU and on GPUs.

Open an ``Executor``, make ``Buffer``s on it or hand it numpy arrays, and run operations (``hologram.ops``) or programs
of your own (``Program``) on them. ``kernel`` makes a program of a Python function, which may use ``where``, ``exp`` and
the like, and ``hologram.range``, ``abs``, ``pow`` and ``round``, which ``from hologram import *`` leaves out.
"""

# ruff: noqa: F405 (the kernels' names come of their own __all__, and on first use)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hologram import errors
from hologram._version import __version__
from hologram.errors import BackendError, DeviceLostError, HologramError, OutOfMemoryError, ProgramFault

if TYPE_CHECKING:
    from hologram import backend, ops
    from hologram._copies import pinned_empty
    from hologram._ffi import abi_version
    from hologram._kernel import *  # noqa: F403
    from hologram._profile import Profile, profile
    from hologram.backend import (
        BackendType,
        get_default_backend,
        is_cuda_available,
        is_metal_available,
        num_threads,
        set_num_threads,
    )
    from hologram.buffer import Buffer
    from hologram.builder import ProgramBuilder
    from hologram.executor import Executor
    from hologram.future import Future
    from hologram.program import Program
    from hologram.stream import Event, Stream

__all__ = [
    "BackendError",
    "BackendType",
    "Buffer",
    "DeviceLostError",
    "Event",
    "Executor",
    "Future",
    "HologramError",
    "Kernel",
    "OutOfMemoryError",
    "Profile",
    "Program",
    "ProgramBuilder",
    "ProgramFault",
    "Stream",
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
    "pinned_empty",
    "popc",
    "profile",
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


# All others load the library, whose threads a fork does not copy: so that is done on first use, and a process that only
# imports hologram may fork workers that use it. Then all of these come at once, since signal handlers and threads use
# them, too; the last two lines are for what few programs need.
_MODULES = {
    "backend": "backend",
    "ops": "ops",
    "abi_version": "_ffi",
    "BackendType": "backend",
    "get_default_backend": "backend",
    "is_cuda_available": "backend",
    "is_metal_available": "backend",
    "num_threads": "backend",
    "set_num_threads": "backend",
    "Buffer": "buffer",
    "Event": "stream",
    "Executor": "executor",
    "Program": "program",
    "Stream": "stream",
    "pinned_empty": "_copies",
}
_MORE = {
    "Future": "future",
    "Profile": "_profile",
    "ProgramBuilder": "builder",
    "profile": "_profile",
    **dict.fromkeys(_KERNELS, "_kernel"),
}


def __getattr__(name: str) -> object:
    """Import what is there on first use."""
    if name in _MODULES:
        names = _MODULES
    elif name in _MORE:
        names = {name: _MORE[name]}
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_hint(name)}")
    importlib.import_module(
        "hologram._ffi"
    )  # first: it says what is wrong with this Python, and begins HOLOGRAM_TRACE's
    for each, where in names.items():
        module = importlib.import_module("hologram." + where)
        globals()[each] = module if where == each else getattr(module, each)
    found: object = globals()[name]
    return found


def _hint(name: str) -> str:
    if name.startswith("_"):  # as modules of ours are asked for, each time one is first imported from here
        return ""
    found: str = importlib.import_module("hologram._hints").hint(name, __dir__())
    return found


def __dir__() -> list[str]:
    """List what there is, imported or not, for who uses the package."""
    return sorted({*__all__, *_KERNELS, "__doc__", "__file__", "__name__", "__path__"})
