"""The library: where it is, its structures, and its functions as builtins; the only file with ctypes.

``native`` holds what the library offers to Python: a builtin for each of its functions, which raises the exception of
a status and waits for work that takes long in steps that Ctrl-C interrupts, and those of capi/python_*.c, of which
operations and launches are the ones that matter. ctypes only loads the library and mirrors the structures of
hologram.h; a test compares them with the header. What C leaves to Python it finds in ``hooks``.
"""

from __future__ import annotations

import atexit
import copyreg
import ctypes
import importlib
import os
import sys
import types
from ctypes import c_char, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from hologram import _log, errors
from hologram._version import __version__

if TYPE_CHECKING:
    import numpy as np

    from hologram.executor import Executor

UNINITIALIZED = 1
READ_ONLY = 2

PLACE_ELSEWHERE = 0
PLACE_LOCKED = 1
PLACE_DEVICE = 2

TEXT_DISASSEMBLY = 0
TEXT_BINARY = 1
TEXT_CANONICAL = 2
TEXT_NAME = 3
TEXT_ANALYSIS = 4

MAX_RANK = 8
NUM_CLASSES = 96


class BackendInfo(ctypes.Structure):
    """hologram_backend_info."""

    _fields_ = (
        ("size", c_uint32),
        ("name", c_char * 32),
        ("device", c_char * 128),
        ("reason", c_char * 512),
        ("available", c_int32),
        ("host_visible", c_int32),
        ("asynchronous", c_int32),
        ("threads", c_int32),
        ("memory_bytes", c_int64),
        ("num_devices", c_int32),
    )


class ExecutorInfo(ctypes.Structure):
    """hologram_executor_info."""

    _fields_ = (
        ("size", c_uint32),
        ("backend", c_char * 32),
        ("device", c_char * 128),
        ("host_visible", c_int32),
        ("asynchronous", c_int32),
        ("threads", c_int32),
        ("used", c_int64),
        ("quota", c_int64),
        ("dlpack_type", c_int32),
        ("dlpack_id", c_int32),
        ("memory_bytes", c_int64),
        ("processors", c_int32),
        ("capability", c_int32),
    )


class MemoryStats(ctypes.Structure):
    """hologram_memory_stats."""

    _fields_ = (
        ("size", c_uint32),
        ("in_use", c_int64),
        ("cached", c_int64),
        ("reserved", c_int64),
        ("peak", c_int64),
        ("limit", c_int64),
        ("allocations", c_int64),
        ("reused", c_int64),
    )


class KernelStats(ctypes.Structure):
    """hologram_kernel_stats."""

    _fields_ = (
        ("size", c_uint32),
        ("entries", c_int64),
        ("limit", c_int64),
        ("hits", c_int64),
        ("misses", c_int64),
        ("evictions", c_int64),
    )


class BufferInfo(ctypes.Structure):
    """hologram_buffer_info."""

    _fields_ = (
        ("size", c_uint32),
        ("data", c_void_p),
        ("length", c_int64),
        ("bytes", c_int64),
        ("dtype", c_int32),
        ("element_size", c_int32),
        ("rank", c_int32),
        ("contiguous", c_int32),
        ("read_only", c_int32),
        ("class_index", c_int32),
        ("host_visible", c_int32),
        ("freed", c_int32),
        ("shape", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
    )


class ProgramInfo(ctypes.Structure):
    """hologram_program_info."""

    _fields_ = (
        ("size", c_uint32),
        ("slots", c_int32),
        ("params", c_int32),
        ("instructions", c_int32),
        ("residue", c_int32),
        ("shared_bytes", c_int64),
        ("block", c_uint32 * 3),
        ("hash", c_uint8 * 32),
    )


class OperandInfo(ctypes.Structure):
    """hologram_operand_info."""

    _fields_ = (
        ("size", c_uint32),
        ("name", c_char * 256),
        ("dtype", c_int32),
        ("reads", c_int32),
        ("writes", c_int32),
        ("indexed", c_int32),
        ("bytes", c_int32),
    )


class Place(ctypes.Structure):
    """hologram_place."""

    _fields_ = (
        ("size", c_uint32),
        ("kind", c_int32),
        ("device_id", c_int32),
        ("bytes", c_int64),
    )


_Info = TypeVar("_Info", bound=ctypes.Structure)


def described(kind: type[_Info], function: Any, *arguments: Any) -> _Info:
    """Return the structure that a function of the library fills as its last argument."""
    info = kind()
    info.size = ctypes.sizeof(kind)
    function(*arguments, info)
    return info


def numbers(info: ctypes.Structure) -> dict[str, int]:
    """Return a structure of numbers as a dictionary, without its size."""
    return {name: int(getattr(info, name)) for name, *_ in info._fields_ if name != "size"}


hooks: dict[str, Any] = {"error": errors.of_status}
"""The functions and tables of Python that C uses; modules add theirs."""


def _load() -> tuple[str, Any]:
    names = {"win32": "hologram.dll", "darwin": "libhologram.dylib"}
    path = os.environ.get("HOLOGRAM_LIBRARY") or os.path.join(
        os.path.dirname(__file__), names.get(sys.platform, "libhologram.so")
    )
    if not os.path.exists(path):
        raise ImportError(f"hologram: its library {path} is missing: run ./build.sh build, or install again")
    library = ctypes.PyDLL(path)
    try:
        library.hologram_version.restype = c_char_p
        found = library.hologram_version().decode()
        python = library.hologram_python
    except AttributeError as error:
        raise ImportError(f"hologram: {path} is of another version: {error}; install again") from None
    if found != __version__:
        raise ImportError(
            f"hologram {__version__} found a library of version {found}: run ./build.sh build, or install again"
        )
    python.restype = ctypes.py_object
    python.argtypes = (ctypes.py_object, c_void_p)
    builtins = python(hooks, getattr(sys, "dllhandle", None))
    if builtins is hooks:
        raise ImportError("hologram: this Python does not offer the C API of CPython 3.9 or later")
    module = types.ModuleType("hologram._native", "What the library offers to Python.")
    vars(module).update(builtins)
    return path, module


_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_c(signature: str) -> Callable[[_Function], _Function]:
    """Put C's method in place of a method that has its name and does the same.

    C calls the Python one for whatever it does not do itself: arguments that are wrong, or of another kind than most.
    """

    def replace(function: _Function) -> _Function:
        name = function.__name__
        hooks[name] = function
        made: _Function = native.method(name, f"{name}{signature}\n--\n\n{function.__doc__}")
        return made

    return replace


path, native = _load()
_log.debug("loaded %s", path)

if TYPE_CHECKING:

    class ExecutorBase:
        """What Executor derives from: its handle, where C finds it."""

        @property
        def handle(self) -> int: ...
        @property
        def _freed(self) -> bool: ...

        _host_visible: bool
        _asynchronous: bool
        _device_type: int
        _device_id: int

    class ProgramBase:
        """What Program derives from."""

        __slots__ = ("_freed", "_plan", "handle")
        handle: int
        _freed: bool
        _plan: object

    class Owner:
        """What owns a handle until an object of ours does, or for good: the handle is freed when this is dropped.

        Functions of the library that make something return one, since a signal handler's exception would lose a number
        between its return and whatever is done with it.
        """

        handle: int

    class BufferBase:
        """What Buffer derives from; only the library sets what it has."""

        __slots__ = ("_executor", "_tensor", "dtype", "handle", "shape", "size")
        handle: int
        size: int
        dtype: np.dtype[Any]
        shape: tuple[int, ...]
        _executor: Executor
        _tensor: object

    class KernelBase:
        """What Kernel and ArrayFunction derive from: calls such as one before are C's, others go to ``_call_any``."""

        def __call__(self, *arguments: Any, out: Any = None, executor: Any = None, **keywords: Any) -> Any:
            """Run the kernel."""

else:
    ExecutorBase, ProgramBase, BufferBase = native.ExecutorBase, native.ProgramBase, native.BufferBase
    KernelBase, Owner = native.KernelBase, native.Owner

native.look_there(sys.modules["hologram"])  # whose __getattr__ else costs each call of hologram.ops.… some 20 ns
if type(sys.modules["hologram"]) is not types.ModuleType:  # by which alone cloudpickle, of Ray and Dask, knows modules
    copyreg.pickle(type(sys.modules["hologram"]), lambda module: (importlib.import_module, (module.__name__,)))

if sys.version_info < (3, 10) and sys.platform != "win32":
    import _signal

    def _on_stack(number: int, handler: Any, /, set_handler: Any = _signal.signal) -> Any:
        """Set a signal's handler, and let it run on Go's stack for signals, as later Pythons do by themselves."""
        before = set_handler(number, handler)
        native.on_stack(number)
        return before

    _signal.signal = _on_stack  # which signal.signal calls

if os.environ.get("HOLOGRAM_TRACE"):
    from hologram import _profile

    _profile.of_process(os.environ["HOLOGRAM_TRACE"])  # which is written after what follows

# What daemon threads still wait for ends before the interpreter does: it writes to memory that goes with that.
atexit.register(native.close)


def abi_version() -> int:
    """Return the version of the C ABI that the loaded library offers."""
    return int(native.abi_version())
